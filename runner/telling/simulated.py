"""A simulated run in words: what would have been asked, sent and waited for, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.contract import Json
from runner.core import events as e
from runner.core.consents import UNDO
from runner.core.status import standing_of
from runner.drill.world import Sent
from runner.drilling import Simulated
from runner.telling import sent, times, words
from runner.telling.words import Sign

WRITES = ("do", "undo")


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One thing that would happen at a step. `details` are what would leave, field by field."""

    sign: Sign
    step: str
    text: str
    details: tuple[str, ...] = ()


def lines_of(run: Simulated, zone: str) -> list[Line]:
    """All of it, in order."""
    known = {(each.intent.guard): each for each in run.world.sent}
    found = (_line(run, event, known, zone) for event in run.result.events)
    return [line for line in found if line is not None]


def _line(run: Simulated, event: e.Event, known: Mapping[str | None, Sent], zone: str) -> Line | None:
    step = words.plain(" › ".join(event.step.split("/")))
    if isinstance(event, e.CallIntended):
        return _call(run, step, known.get(event.guard))
    sign, text = _other(run, event, zone)
    return Line(sign=sign, step=step, text=words.plain(text)) if text else None


def _call(run: Simulated, step: str, each: Sent | None) -> Line | None:
    if each is None:
        return None
    name, purpose, request = each.intent.action, each.intent.purpose, each.request.body
    if purpose not in WRITES:
        verb = "reads" if purpose == "read" else "looks for" if purpose == "find" else "looks up"
        answer = f"{each.outcome.count} found" if each.outcome.count is not None else sent.pairs(each.outcome.output)
        asked = sent.pairs(each.input)
        return Line(sign="note", step=step, text=f"{verb} {name} ({asked}): {answer or each.outcome.summary}")
    verb = "would send" if purpose == "do" else "would make good with"
    to = sent.place(request) or _origin(run, name)
    return Line(
        sign="done" if purpose == "do" else "good", step=step, text=f"{verb} {name} to {to}",
        details=sent.fields(each.input),
    )  # fmt: skip


def _origin(run: Simulated, action: str) -> str:
    connection = action.partition(".")[0]
    return words.plain(run.world.connect(connection).origin())


def _other(run: Simulated, event: e.Event, zone: str) -> tuple[Sign, str]:
    """What is no call: passed over in words."""
    if isinstance(event, e.ApprovalRequested):
        question = event.shown.get("question", "") if not event.approval.endswith(UNDO) else "make this good?"
        covers = f" It covers {', '.join(event.covers)}." if event.covers else ""
        return "person", f"would ask {' or '.join(event.by)}: {question}{covers} Taken as a yes."
    if isinstance(event, e.TimerSet) and event.timer == "wait":
        return "wait", f"would wait until {times.short(event.due, zone)}; passed over."
    if isinstance(event, e.EventAwaited):
        return "wait", f"would wait for the event {event.event} ({sent.pairs(event.match)}); taken as come."
    if isinstance(event, e.HandedOff):
        is_step = event.kind == "step"
        return "person", f"would hand over to {event.owner}: {event.say or event.summary}" + (
            " Taken as go on." if is_step else ""
        )
    if isinstance(event, e.Emitted):
        return "done", f"would send the event {event.event} ({sent.pairs(event.data)})"
    if isinstance(event, e.StepFailed):
        return "failed", f"fails: {event.summary}"
    if isinstance(event, e.StepSkipped):
        return "note", "is skipped" if event.why != "branch" else ""
    return "note", ""


def status_of(run: Simulated) -> str:
    """Where it came to."""
    return standing_of(run.result.state).status


def verdict(run: Simulated) -> str:
    """What it comes to, in one sentence."""
    calls = [each for each in run.world.sent if each.intent.purpose in WRITES]
    end = words.STATUS_NAMES.get(status_of(run), status_of(run))
    why = run.result.state.summary
    return (
        f"SIMULATED: nothing was sent. {times.counted(len(calls), 'call')} would have left, and it would have ended "
        f"{end}" + (f" ({words.bare(why)})." if why else ".")
    )


def as_json(run: Simulated, zone: str) -> dict[str, Json]:
    """The whole run as data: the calls in order with their requests, and what was passed over in words."""
    return {
        "flow": run.bundle.flow.id, "simulated": True, "status": status_of(run),
        "outputs": dict(run.result.state.outputs),
        "calls": [_call_json(each) for each in run.world.sent],
        "lines": [{"step": line.step, "text": line.text} for line in lines_of(run, zone)],
    }  # fmt: skip


def _call_json(each: Sent) -> dict[str, Json]:
    return {
        "step": each.intent.step, "purpose": each.intent.purpose, "action": each.intent.action,
        "input": dict(each.input), "request": dict(each.request.body), "answer": dict(each.outcome.output),
    }  # fmt: skip
