"""What errors say."""

from __future__ import annotations

import importlib.metadata

import pytest

from flexkg.errors import MissingExtra

REQUIRED = [
    "numpy>=2.0",
    "fastapi>=0.115; extra == 'serve'",
    'uvicorn>=0.30; extra == "serve"',
    "numba; extra == 'fast'",
]


@pytest.mark.parametrize(
    ("required", "extra", "said"),
    [
        (
            REQUIRED,
            "serve",
            'X needs optional packages. Install them with: pip install "fastapi>=0.115" "uvicorn>=0.30"',
        ),
        (REQUIRED, "fast", 'X needs an optional package. Install it with: pip install "numba"'),
        (REQUIRED, "rdf", 'X needs an optional package. Install it with: pip install "flexkg[rdf]"'),
        (None, "rdf", 'X needs an optional package. Install it with: pip install "flexkg[rdf]"'),
    ],
)
def test_a_missing_extra_is_named_by_its_packages(monkeypatch, required, extra, said):
    """The package itself is in no index, so that its extras cannot be had from there."""
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: required)
    assert str(MissingExtra("X", extra)) == said


def test_of_several_packages_the_one_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: REQUIRED)
    assert str(MissingExtra("X", "serve", "uvicorn")).endswith('Install it with: pip install "uvicorn>=0.30"')


def test_without_metadata_the_extra_is_named(monkeypatch):
    def unknown(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", unknown)
    assert 'pip install "flexkg[rdf]"' in str(MissingExtra("X", "rdf"))
