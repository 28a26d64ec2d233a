"""The oracle can fail: in a good installation one thing is made wrong, and the invariant of that number says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runner.clock import MachineClock
from runner.core import events as e
from tests.cases.ground import ME, flow, opened
from tests.cases.situations import CHARGE, LAST, RESERVE
from tests.support.says import refused
from tests.trust.installation import Installation, Truth
from tests.trust.oracle import INVARIANTS, broken

Good = tuple[Installation, Truth]
Change = Callable[[Installation, Truth], Good]
FLOW = flow("order", RESERVE + CHARGE + LAST.replace("shop.log", "shop.ticket"))
PLANTED: dict[str, list[Change]] = {}
OF_A_LAW = ("I14", "I26")


async def _played(folder: Path) -> Good:
    """One run that is made good and one that succeeds, by the real engine, and what the shop knows of them."""
    async with opened(folder, FLOW) as ground, ground.engine() as engine:
        ground.shop.script("POST /ticket", refused())
        assert (await engine.run("order", "a", name="ann")).status == "compensated"
        assert (await engine.run("order", "b", name="ben")).status == "succeeded"
        made = [effect.key or effect.reference for effect in ground.shop.world.effects]
        arrived = frozenset(seen.headers.get("idempotency-key", "") for seen in ground.shop.requests) - {""}
        truth = Truth(effects={key: made.count(key) for key in made}, arrived=arrived, covers=frozenset({"shop"}))
        return Installation.read(engine.store, now=MachineClock().now()), truth


def planted(number: str) -> Callable[[Change], Change]:
    """Registers a change that this invariant must see."""

    def keep(change: Change) -> Change:
        PLANTED.setdefault(number, []).append(change)
        return change

    return keep


def _run(log: Installation, status: str = "compensated") -> str:
    return next(run for run, view in log.views.items() if view.status == status)


def _with(log: Installation, run: str, events: Sequence[e.Event]) -> Installation:
    return replace(log, logs={**log.logs, run: tuple(events)})


def _at(events: Sequence[e.Event], kind: type[e.Event], **wanted: object) -> int:
    """Where the first such fact stands."""
    return next(
        at
        for at, event in enumerate(events)
        if isinstance(event, kind) and all(getattr(event, name) == value for name, value in wanted.items())
    )


def _put(log: Installation, place: Callable[[list[e.Event]], None], status: str = "compensated") -> Installation:
    run = _run(log, status)
    events = [*log.logs[run]]
    place(events)
    return _with(log, run, events)


def _key(log: Installation, purpose: str = "do") -> str:
    events = log.logs[_run(log)]
    intent = events[_at(events, e.CallIntended, purpose=purpose)]
    assert isinstance(intent, e.CallIntended)
    return intent.key


@planted("I1")
def bytes_without_an_intent(log: Installation, truth: Truth) -> Good:
    return log, replace(truth, arrived=(truth.arrived or frozenset()) | {"nobody's"})


@planted("I2")
def one_key_for_two_calls(log: Installation, truth: Truth) -> Good:
    def place(events: list[e.Event]) -> None:
        at = _at(events, e.CallIntended, step="charge")
        events[at] = replace(events[at], key=_key(log))  # type: ignore[call-arg]

    return _put(log, place), truth


@planted("I3")
def another_request_under_the_key(log: Installation, truth: Truth) -> Good:
    def place(events: list[e.Event]) -> None:
        at = _at(events, e.CallIntended, step="reserve")
        events.insert(at + 1, replace(events[at], request_hash="other", attempt=2))  # type: ignore[call-arg]

    return _put(log, place), truth


@planted("I4")
def twice(log: Installation, truth: Truth) -> Good:
    return log, replace(truth, effects={**truth.effects, _key(log): 2})


@planted("I5")
def an_orphan(log: Installation, truth: Truth) -> Good:
    return log, replace(truth, effects={**truth.effects, "nobody's": 1})


@planted("I5")
def a_phantom(log: Installation, truth: Truth) -> Good:
    return log, replace(truth, effects={key: n for key, n in truth.effects.items() if key != _key(log)})


@planted("I5")
def an_effect_that_is_forgotten(log: Installation, truth: Truth) -> Good:
    def place(events: list[e.Event]) -> None:
        events.pop(_at(events, e.CallApplied, step="reserve", purpose="undo"))

    return _put(log, place), truth


@planted("I8")
def a_refusal_that_did_something(log: Installation, truth: Truth) -> Good:
    events = log.logs[_run(log)]
    intent = events[_at(events, e.CallIntended, step="last")]
    assert isinstance(intent, e.CallIntended)
    return log, replace(truth, effects={**truth.effects, intent.key: 1})


@planted("I9")
def two_outcomes(log: Installation, truth: Truth) -> Good:
    def place(events: list[e.Event]) -> None:
        at = _at(events, e.CallApplied)
        events.insert(at + 1, events[at])

    return _put(log, place), truth


@planted("I10")
def an_old_fence(log: Installation, truth: Truth) -> Good:
    def place(events: list[e.Event]) -> None:
        at = _at(events, e.CallIntended, step="charge")
        events[at] = replace(events[at], fence=0)  # type: ignore[call-arg]

    return _put(log, place), truth


@planted("I13")
def undone_before_it_was_done(log: Installation, truth: Truth) -> Good:
    def place(events: list[e.Event]) -> None:
        events.pop(_at(events, e.CallApplied, step="reserve", purpose="do"))

    return _put(log, place), truth


@planted("I14")
def oldest_first(log: Installation, truth: Truth) -> Good:
    def place(events: list[e.Event]) -> None:
        one = _at(events, e.CallIntended, step="charge", purpose="undo")
        other = _at(events, e.CallIntended, step="reserve", purpose="undo")
        calls = [events[at] for at in (other, other + 1)]
        del events[other : other + 2]
        events[one:one] = calls

    return _put(log, place), truth


@planted("I15")
def undone_twice(log: Installation, truth: Truth) -> Good:
    def place(events: list[e.Event]) -> None:
        at = _at(events, e.CallApplied, purpose="undo")
        events.insert(at + 1, replace(events[at], generation=1))  # type: ignore[call-arg]

    return _put(log, place), truth


@planted("I16")
def forward_behind_the_barrier(log: Installation, truth: Truth) -> Good:
    def place(events: list[e.Event]) -> None:
        at = _at(events, e.ForwardClosed)
        events.insert(at + 1, replace(events[_at(events, e.CallIntended)], attempt=2))  # type: ignore[call-arg]

    return _put(log, place), truth


@planted("I16")
def begun_while_one_is_open(log: Installation, truth: Truth) -> Good:
    def place(events: list[e.Event]) -> None:
        outcome = events.pop(_at(events, e.CallRefused))
        events.insert(_at(events, e.CompensationBegun) + 1, outcome)

    return _put(log, place), truth


@planted("I18")
def hidden(log: Installation, truth: Truth) -> Good:
    def place(events: list[e.Event]) -> None:
        events[-1] = replace(events[-1], stands=("reserve",))  # type: ignore[call-arg]

    return _put(log, place), truth


@planted("I19")
def nobody_wakes_it(log: Installation, truth: Truth) -> Good:
    return replace(log, unwitnessed=(_run(log),)), truth


@planted("I19")
def it_goes_on_behind_its_end(log: Installation, truth: Truth) -> Good:
    return _put(log, lambda events: events.append(events[-1])), truth


@planted("I26")
def another_decision(log: Installation, truth: Truth) -> Good:
    def place(events: list[e.Event]) -> None:
        at = _at(events, e.CallIntended, step="charge")
        events[at] = replace(events[at], limit=1)  # type: ignore[call-arg]

    return _put(log, place), truth


@planted("I27")
def a_row_that_says_otherwise(log: Installation, truth: Truth) -> Good:
    run = _run(log)
    return replace(log, views={**log.views, run: replace(log.views[run], status="succeeded")}), truth


@planted("I27")
def an_entry_less(log: Installation, truth: Truth) -> Good:
    def place(events: list[e.Event]) -> None:
        events.pop(2)

    return _put(log, place), truth


@planted("I28")
def a_secret(log: Installation, truth: Truth) -> Good:
    return log, replace(truth, secrets=(ME,))


@planted("I29")
def one_event_two_runs(log: Installation, truth: Truth) -> Good:
    first = log.logs[_run(log)][0]
    assert isinstance(first, e.RunStarted)

    def place(events: list[e.Event]) -> None:
        events[0] = replace(events[0], run_key=first.run_key)  # type: ignore[call-arg]

    return _put(log, place, "succeeded"), truth


@planted("I30")
def back_in_time(log: Installation, truth: Truth) -> Good:
    def place(events: list[e.Event]) -> None:
        events[-1] = replace(events[-1], at=1)

    return _put(log, place), truth


@planted("I33")
def an_effect_that_is_pending(log: Installation, truth: Truth) -> Good:
    run = _run(log)
    return replace(log, effects={**log.effects, run: ("pending", *log.effects[run][1:])}), truth


def _numbers(wrong: Sequence[str]) -> set[str]:
    return {sentence.partition(":")[0] for sentence in wrong}


async def test_each_invariant_sees_what_is_planted(tmp_path: Path) -> None:
    log, truth = await _played(tmp_path)
    assert broken(log, truth) == []
    for number, changes in PLANTED.items():
        for change in changes:
            wrong = broken(*change(log, truth), with_laws=number in OF_A_LAW)
            assert number in _numbers(wrong), (change.__name__, wrong)


def test_each_invariant_has_a_planted_fault() -> None:
    assert set(INVARIANTS) <= set(PLANTED)


@pytest.mark.parametrize("number", sorted(INVARIANTS))
def test_each_function_says_what_it_holds(number: str) -> None:
    assert INVARIANTS[number].__doc__
