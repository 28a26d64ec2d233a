"""Lengths of time that cannot be meant: no time at all (FL006), a yes that has lapsed before it is used, a reminder
after the end (FL304)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.errors import Problem
from runner.language.check.context import Context, Placed, rule
from runner.language.check.guards import runs_too
from runner.language.flow import PLAIN_UNITS, Duration, Step
from runner.language.source import Path


@rule("FL006")
def find_no_time(context: Context) -> Iterator[Problem]:
    """Nobody decides, and nothing answers, in no time."""
    for placed in context.placed:
        for below, length in _lengths(placed.step):
            if length == 0 or (isinstance(length, Duration) and length.amount == 0):
                what, hint = f'"{below[-1]}" is no time at all', f"for example {below[-1]}: 30 s, or take it out"
                yield context.source.problem("FL006", (*placed.path, *below), what, hint)


def _lengths(step: Step) -> Iterator[tuple[Path, Duration | int | None]]:
    yield ("timeout",), step.timeout
    yield ("within",), step.approval.within if step.approval is not None else step.within
    if step.approval is not None:
        yield ("good_for",), step.approval.good_for
    if step.compensate is not None:
        yield ("compensate", "timeout"), step.compensate.timeout


@rule("FL304")
def find_a_yes_that_lapses(context: Context) -> Iterator[Problem]:
    """A wait between the yes and the step that it is for, longer than the yes holds: people would be asked twice."""
    for name, gates in context.gates.items():
        wanted, gate = context.by_id.get(name), gates[0]
        good_for = gate.step.approval.good_for if gate.step.approval is not None else None
        if wanted is None or good_for is None or good_for.unit not in PLAIN_UNITS:
            continue
        waits = [one for one in context.placed if _stands_between(gate, one, wanted)]
        longest = sum(one.step.wait.ms for one in waits if isinstance(one.step.wait, Duration))
        if waits and longest >= good_for.ms:
            what = f'a yes to "{gate.step.id}" has lapsed when "{name}" comes: "{waits[0].step.id}" stands between them'
            hint = f'put "{gate.step.id}" below the wait, or write how long a yes holds: good_for: …'
            yield context.source.problem("FL304", (*waits[0].path, "wait"), what, hint, level="warning")


def _stands_between(gate: Placed, one: Placed, wanted: Placed) -> bool:
    length = one.step.wait
    is_plain = isinstance(length, Duration) and length.unit in PLAIN_UNITS
    between = gate.step.id in one.earlier and one.step.id in wanted.earlier
    return is_plain and between and runs_too(one, wanted.guards, wanted.branches)


@rule("FL304")
def find_late_reminders(context: Context) -> Iterator[Problem]:
    """A reminder that would come when nobody can decide any more."""
    for placed in context.placed:
        approval = placed.step.approval
        remind = approval.remind if approval is not None else None
        if approval is None or remind is None or (remind.unit in PLAIN_UNITS) != (approval.within.unit in PLAIN_UNITS):
            continue
        if _measure(remind) >= _measure(approval.within):
            what = f'"{placed.step.id}" is decided by silence before anybody is reminded'
            hint = "remind is shorter than within; without it people are reminded at half of the time"
            yield context.source.problem("FL304", (*placed.path, "remind"), what, hint, level="warning")


def _measure(length: Duration) -> int:
    """To compare lengths of one kind of time; a business day is taken for 9 business hours."""
    if length.unit in PLAIN_UNITS:
        return length.ms
    return length.amount * (9 if length.unit == "business_day" else 1)
