"""The figures that a monitor asks for: what stands in the database is counted when it is asked for; what happens is
counted as it happens, since this engine began.

No label holds personal data: flows, statuses, and words of the protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from runner.app import OwnDriver
from runner.clock import Clock
from runner.core import events as e
from runner.core.state import State
from runner.errors import AmendsError
from runner.store.figures import open_runs

RESULTS: dict[type[e.Event], str] = {
    e.CallApplied: "applied",
    e.CallRefused: "refused",
    e.CallNotSent: "not_sent",
    e.CallUnknown: "unknown",
}
disable_created_metrics()  # type: ignore[no-untyped-call]
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The figures of one engine; it is told of every turn and of every commit."""

    def __init__(self, driver: OwnDriver, clock: Clock) -> None:
        self._driver = driver
        self.registry = CollectorRegistry()
        self._calls = self._counter("calls", "Attempts that have their outcome.", "purpose", "effect", "result")
        self._ended = self._counter("runs_ended", "Runs that have ended.", "flow", "status")
        self._failed = self._counter("forward_failures", "Runs or items whose way forward was closed.", "flow")
        self._given_up = self._counter("failed_compensations", "Compensations that gave up.", "flow")
        self._questions = self._counter("handoffs", "Questions that were put to a person.", "flow", "kind")
        self._commit = Histogram(
            "amends_commit_seconds", "From the start of a transaction to its COMMIT.", buckets=_SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self._group = Histogram(
            "amends_commit_writes", "Writes that share a COMMIT.", buckets=_SIZES, registry=self.registry
        )
        ProcessCollector(registry=self.registry)
        self.registry.register(_Standing(driver, clock))

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"amends_{name}", what, labels, registry=self.registry)

    def observe(self, run: str, events: Sequence[e.Event], state: State) -> None:
        """Counts what has been recorded."""
        for event in events:
            if isinstance(event, e.OutcomeEvent):
                self._calls.labels(event.purpose, self._effect(state, event), RESULTS.get(type(event), "settled")).inc()
            elif isinstance(event, e.RunFinished):
                self._ended.labels(state.flow, event.status).inc()
            elif isinstance(event, e.ForwardClosed):
                self._failed.labels(state.flow).inc()
            elif isinstance(event, e.CompensationFailed):
                self._given_up.labels(state.flow).inc()
            elif isinstance(event, e.HandedOff):
                self._questions.labels(state.flow, event.kind).inc()

    def committed(self, writes: int, seconds: float) -> None:
        """One COMMIT; called by the writer."""
        self._group.observe(writes)
        self._commit.observe(seconds)

    def _effect(self, state: State, event: e.OutcomeEvent) -> str:
        """The class of the action; empty for a call that has left the state with its item."""
        call = state.calls.get(event.call)
        if call is None:
            return ""
        try:
            return self._driver.outside.bundle(state.bundle).actions[call.action].effect
        except (AmendsError, KeyError):
            return ""


class _Standing(Collector):
    """What stands in the database at the moment."""

    def __init__(self, driver: OwnDriver, clock: Clock) -> None:
        self._driver, self._clock = driver, clock

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: names are told with their values."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Asks the database."""
        store, now = self._driver.store, self._clock.now()
        statuses = GaugeMetricFamily("amends_runs", "Runs by status.", labels=["status"])
        for status, count in store.counts().items():
            statuses.add_metric([status], count)
        yield statuses
        waiting = GaugeMetricFamily("amends_open_runs", "Open runs by what they wait for.", labels=["status", "kind"])
        oldest = GaugeMetricFamily(
            "amends_open_runs_oldest_seconds", "How long the oldest of them has stood.", labels=["status", "kind"]
        )
        for each in store.ask(open_runs):
            waiting.add_metric([each.status, each.kind], each.count)
            oldest.add_metric([each.status, each.kind], max(now - each.since, 0) / 1000)
        yield from (waiting, oldest)
        lost = len(store.without_witness(now))
        yield GaugeMetricFamily("amends_runs_without_witness", "Open runs that nothing would ever wake.", value=lost)
        refused = int(bool(store.refused))
        yield GaugeMetricFamily("amends_writes_refused", "1 while the database takes no writes.", value=refused)
