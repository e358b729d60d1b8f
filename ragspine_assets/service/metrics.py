"""Counts and times for Prometheus (SPEC 8.1); nothing in them comes from a document or a question."""

from __future__ import annotations

import time

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """What one service counts."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "ragspine_requests", "Requests that were answered.", ("route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "ragspine_request_seconds",
            "Seconds from a request to its answer.",
            ("route",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._age = Gauge(
            "ragspine_release_age_seconds", "Seconds since the release was published.", registry=self._registry
        )
        self._current = Gauge(
            "ragspine_release_served", "1 while a release is served, else 0.", registry=self._registry
        )

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self, published: float | None) -> bytes:
        """Return everything as Prometheus reads it.

        Args:
            published: when the current release was published, in seconds since 1970; None where nothing is served.
        """
        self._current.set(0 if published is None else 1)
        self._age.set(0 if published is None else max(time.time() - published, 0))
        return generate_latest(self._registry)
