"""Figures for Prometheus: requests, errors, batches, the process."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from flexkg.version import __version__

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.5, 5, 10, 20)


class Metrics:
    """The figures of one server; each has its own, so that several fit into one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        about = Info("flexkg", "The server.", registry=self.registry)
        about.info({"version": __version__})
        self.requests = Counter(
            "flexkg_requests", "Requests by route, method and status.", ("route", "method", "status"),
            registry=self.registry,
        )  # fmt: skip
        self.errors = Counter("flexkg_errors", "Errors by kind.", ("kind",), registry=self.registry)
        self.seconds = Histogram(
            "flexkg_request_seconds", "Seconds from a request to its reply.", ("route",), buckets=_SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.batch_size = Histogram(
            "flexkg_batch_size", "Questions answered together.", buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=self.registry,
        )  # fmt: skip
        self.batch_seconds = Histogram(
            "flexkg_batch_seconds", "Seconds for a batch.", buckets=_SECONDS, registry=self.registry
        )
        self.waiting = Gauge("flexkg_questions_waiting", "Questions that wait for a batch.", registry=self.registry)
        self.under_way = Gauge("flexkg_requests_under_way", "Requests not yet replied to.", registry=self.registry)

    def batch(self, size: int, seconds: float) -> None:
        """Note a batch."""
        self.batch_size.observe(size)
        self.batch_seconds.observe(seconds)

    def text(self) -> bytes:
        """Everything in Prometheus's text format."""
        return generate_latest(self.registry)
