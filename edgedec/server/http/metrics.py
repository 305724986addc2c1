"""Figures of the server for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from edgedec.server.http.exchange import Exchange
    from edgedec.server.work.request import Status

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_SPEEDS = (1, 2, 5, 10, 20, 30, 50, 75, 100, 200, 500)


class Metrics:
    """Counts requests, and asks ``status`` for the state of the models."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_State(status))
        self._requests = Counter(
            "edgedec_requests", "Requests answered.", ["route", "status"], registry=self._registry
        )
        self._seconds = self._histogram("request_seconds", "Time of a request.", _SECONDS)
        self._first = self._histogram("first_token_seconds", "Time to the first token.", _SECONDS)
        self._queue = self._histogram("queue_seconds", "Time in the queue.", _SECONDS)
        self._speed = self._histogram("tokens_per_second", "Tokens per second of a reply.", _SPEEDS)
        self._gone = Counter(
            "edgedec_clients_gone", "Clients that went before the end.", registry=self._registry
        )

    def request(self, exchange: Exchange) -> None:
        """Count a request that was answered."""
        self._requests.labels(exchange.route, str(exchange.status)).inc()
        self._seconds.observe(exchange.elapsed_s)
        self._gone.inc(exchange.gone)
        if exchange.first_token_s is not None:
            self._first.observe(exchange.first_token_s)
        if exchange.usage:
            self._queue.observe(exchange.usage.queue_s)
            if (speed := exchange.usage.tokens_per_s) is not None:
                self._speed.observe(speed)

    def text(self) -> bytes:
        """Return all figures in the text format."""
        return generate_latest(self._registry)

    def _histogram(self, name: str, words: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"edgedec_{name}", words, buckets=buckets, registry=self._registry)


class _State(Collector):
    """The state of the models at the moment when it is asked for."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: the names are those of ``collect``."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield gauges and totals."""
        now = self._status()
        tokens = CounterMetricFamily(
            "edgedec_tokens", "Tokens read, reused, from the disk, written, drafted.", labels=["kind"]
        )
        for kind in ("prompt", "cached", "disk", "completion", "drafted"):
            tokens.add_metric([kind], getattr(now, f"{kind}_tokens"))
        yield tokens
        gauges = {
            "memory_bytes": ("Memory of the process.", now.memory_bytes),
            "memory_budget_bytes": ("Bound of the memory.", now.memory_budget_bytes),
            "requests_running": ("Requests in a slot.", now.running),
            "requests_waiting": ("Requests in the queue.", now.waiting),
            "slots": ("Slots of all loaded models.", now.slots),
            "uptime_seconds": ("Time since the start.", now.uptime_s),
            "cache_hit_ratio": (
                "Share of prompt tokens that were cached.",
                _share(now.cached_tokens, now.prompt_tokens),
            ),
            "acceptance_rate": (
                "Share of written tokens that were drafted.",
                _share(now.drafted_tokens, now.completion_tokens),
            ),
            "tokens_per_pass": ("Tokens of a slot per pass.", now.tokens_per_pass),
        }
        for name, (words, value) in gauges.items():
            if value is not None:
                yield GaugeMetricFamily(f"edgedec_{name}", words, value=value)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
