"""Settings for the whole suite."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The machine decides how long an example takes; the first call of a compiled kernel loads it.
settings.register_profile("default", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")
