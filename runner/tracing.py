"""Traces of runs for OpenTelemetry: a span for each run, and below it one for each attempt of its calls. The home of
opentelemetry; loaded by name, where amends.yaml says where traces go.

Spans bear ids of flows, steps and runs, and words of the protocol: no input, no answer, no person, no key, no address.
A span's id is made of what it is about, so spans of several engines, or of one that has begun again, come together.
They are written once their end is recorded, from the times of the action log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from runner import __version__
from runner.core import events as e
from runner.core.state import State

FINE = frozenset({"succeeded", "drafted", "closed"})
RESULTS: Mapping[type[e.Event], str] = {
    e.CallApplied: "applied",
    e.CallRefused: "refused",
    e.CallNotSent: "not_sent",
    e.CallUnknown: "unknown",
}


class Traces:
    """What is told of every turn; whatever has ended goes to the processor."""

    def __init__(self, project: str, processor: SpanProcessor) -> None:
        self._processor = processor
        self._resource = Resource.create(
            {"service.name": "amends", "service.version": __version__, "amends.project": project}
        )

    def observe(self, run: str, events: Sequence[e.Event], state: State) -> None:
        """Writes the spans of what has ended."""
        for event in events:
            if isinstance(event, e.OutcomeEvent):
                self._write_call(run, event, state)
            elif isinstance(event, e.RunFinished):
                said = {"amends.mode": state.mode, "amends.status": event.status}
                began = state.started_at or event.at
                self._write(state.flow, run, "", began, event.at, said, is_fine=event.status in FINE)

    def close(self) -> None:
        """Sends what is left, for as long as the processor's own patience lasts."""
        self._processor.shutdown()

    def _write_call(self, run: str, event: e.OutcomeEvent, state: State) -> None:
        call = state.calls.get(event.call)  # gone with its item where that has ended in the same turn
        result = RESULTS.get(type(event), "settled")
        said: dict[str, str | int] = {
            "amends.step": event.step,
            "amends.purpose": event.purpose,
            "amends.attempt": event.attempt,
            "amends.result": result,
        }
        if call is not None:
            said["amends.action"] = call.action
        began = call.intended_at if call is not None and call.intended_at else event.at
        name = event.step if event.purpose == "do" else f"{event.step} {event.purpose}"
        self._write(name, run, event.guard or "", began, event.at, said, is_fine=result == "applied")

    def _write(
        self, name: str, run: str, part: str, began: int, ended: int, said: Mapping[str, str | int], *, is_fine: bool
    ) -> None:
        self._processor.on_end(ReadableSpan(
            name, context=_context(run, part), parent=_context(run, "") if part else None, resource=self._resource,
            attributes={"amends.run": run, **said}, kind=SpanKind.CLIENT if part else SpanKind.INTERNAL,
            status=Status(StatusCode.OK if is_fine else StatusCode.ERROR), start_time=began * 1_000_000,
            end_time=max(began, ended) * 1_000_000,
        ))  # fmt: skip


def traces_to(address: str, project: str) -> Traces:
    """Traces that go to a collector by OTLP over HTTP, in a thread of their own: `http://127.0.0.1:4318`."""
    return Traces(project, BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{address.rstrip('/')}/v1/traces")))


def _context(run: str, part: str) -> SpanContext:
    return SpanContext(
        trace_id=_number(run, 16), span_id=_number(f"{run}\0{part}", 8), is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )  # fmt: skip


def _number(text: str, size: int) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:size], "big") or 1
