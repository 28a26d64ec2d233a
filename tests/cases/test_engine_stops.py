"""Pause, resume, stop here, stop and compensate: in every phase, with a call in flight, a timer running, a person asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.clock import iso
from runner.core import events as e
from runner.errors import NotPossible
from tests.cases.ground import Engine, Ground, LaterClock, connector, flow, opened, until
from tests.support.says import DROP_AFTER, Say, late, refused

STOPS = flow(
    "stops",
    """  - id: reserve
    do: shop.reserve
    with: { note: x }
    compensate: { cancel: shop.release, with: { note: x, of: "${{ output.id }}" } }
  - id: book
    do: shop.book
    with: { note: x }
    compensate: { cancel: shop.unbook, with: { note: x, of: "${{ output.id }}" } }
  - { id: nap, wait: { until: "${{ inputs.until }}" } }
  - id: charge
    do: shop.charge
    with: { note: x, amount: 1 }
    compensate: { cancel: shop.refund, with: { note: x, of: "${{ output.id }}" } }
  - id: last
    do: shop.log
    with: { note: x }
    compensate: { none: It only counts. }
""",
    inputs='{ until: { datetime: null, default: "2020-01-01T00:00:00Z" } }',
)
SLOW = late(500)
NO = refused(422, "no")
SOON = Say(status=503, json={}, headers={"Retry-After": "0.6"}, done=False)
Ready = Callable[[Ground, Engine, str], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """A moment in a run's life: what the shop says, when the moment is there, and how each order ends from there.

    `goes_on` is the status after pause and resume; `stands` what stands after *stop here*.
    """

    says: Mapping[str, Say | Sequence[Say]]
    ready: Ready
    goes_on: str
    stands: Sequence[str]
    is_compensating: bool = False


def asked(method: str, path: str) -> Ready:
    return lambda ground, engine, run: ground.asked(path, method) > 0


def waits(step: str, purpose: str) -> Ready:
    def is_waiting(ground: Ground, engine: Engine, run: str) -> bool:
        call = engine.state(run).calls.get((step, purpose, 0))
        return call is not None and call.due_for == "retry"

    return is_waiting


def rests(ground: Ground, engine: Engine, run: str) -> bool:
    return engine.store.run(run).status == "needs_person"


PHASES = {
    "a call in flight": Phase(
        says={"POST /charge": SLOW}, ready=asked("POST", "/charge"), goes_on="succeeded",
        stands=["reserve", "book", "charge"],
    ),
    "a look-up in flight": Phase(
        says={"POST /book": DROP_AFTER, "GET /book": SLOW}, ready=asked("GET", "/book"), goes_on="succeeded",
        stands=["reserve", "book"],
    ),
    "a retry that waits": Phase(
        says={"POST /charge": SOON}, ready=waits("charge", "do"), goes_on="succeeded", stands=["reserve", "book"],
    ),
    "a person asked whether it happened": Phase(
        says={"POST /charge": [DROP_AFTER] * 4}, ready=rests, goes_on="needs_person",
        stands=["reserve", "book", "charge"],
    ),
    "an undo in flight": Phase(
        says={"POST /charge": NO, "POST /unbook": SLOW}, ready=asked("POST", "/unbook"), goes_on="compensated",
        stands=["reserve"], is_compensating=True,
    ),
    "an undo looked up": Phase(
        says={"POST /charge": NO, "POST /unbook": DROP_AFTER, "GET /unbook": SLOW}, ready=asked("GET", "/unbook"),
        goes_on="compensated", stands=["reserve"], is_compensating=True,
    ),
    "an undo's retry that waits": Phase(
        says={"POST /charge": NO, "POST /unbook": SOON}, ready=waits("book", "undo"), goes_on="compensated",
        stands=["reserve", "book"], is_compensating=True,
    ),
    "a failed undo": Phase(
        says={"POST /charge": NO, "POST /unbook": NO}, ready=rests, goes_on="needs_person", stands=["book"],
        is_compensating=True,
    ),
}  # fmt: skip
NAMES = pytest.mark.parametrize("name", PHASES)


async def _arrive(ground: Ground, engine: Engine, phase: Phase) -> str:
    for match, says in phase.says.items():
        ground.shop.script(match, *([says] if isinstance(says, Say) else says))
    run = await engine.start("stops", "k1")
    await until(lambda: phase.ready(ground, engine, run))
    return run


def _check(ground: Ground, engine: Engine, run: str) -> None:
    engine.holds(run)
    events = engine.events(run)
    closed = next((n for n, one in enumerate(events) if isinstance(one, e.ForwardClosed)), len(events))
    late_intents = [one for one in events[closed:] if isinstance(one, e.CallIntended) and one.purpose in ("do", "read")]
    assert late_intents == [], "a forward intent after forward was closed"
    assert set(ground.shop.world.by_key().values()) <= {1}, "something happened twice"


@NAMES
async def test_a_pause_begins_nothing_new_and_a_resume_goes_on(tmp_path: Path, name: str) -> None:
    phase = PHASES[name]
    async with opened(tmp_path, STOPS, text=connector(limit=1_500)) as ground, ground.engine() as engine:
        run = await _arrive(ground, engine, phase)
        await engine.act(run, "pause")
        view = await engine.rest(run)
        assert (view.status, view.wake_at) == ("paused", None)
        assert not any(call.is_open for call in engine.state(run).calls.values()), "an open call gets its answer"
        sent = ground.shop.request_count
        await asyncio.sleep(0.15)
        assert (ground.shop.request_count, engine.store.run(run).status) == (sent, "paused")
        assert (await engine.order(run, "resume")).status == phase.goes_on
        _check(ground, engine, run)


@NAMES
async def test_stop_here_leaves_what_was_done_and_lists_it(tmp_path: Path, name: str) -> None:
    phase = PHASES[name]
    async with opened(tmp_path, STOPS, text=connector(limit=1_500)) as ground, ground.engine() as engine:
        run = await _arrive(ground, engine, phase)
        view = await engine.order(run, "stop")
        if view.status == "needs_person":
            assert engine.state(run).open_handoffs[0].kind == "unknown", "only an outcome nobody knows keeps it open"
            view = await engine.order(run, "happened", output={"id": "charge-1", "note": "x"})
        assert view.status == "stopped"
        stands = [path for path, disposition in engine.dispositions(run).items() if disposition == "stands"]
        assert stands == list(phase.stands)
        assert view.stands == len(phase.stands)
        with pytest.raises(NotPossible, match="has ended"):
            await engine.act(run, "resume")
        _check(ground, engine, run)


@NAMES
async def test_stop_and_compensate_makes_good_what_was_done(tmp_path: Path, name: str) -> None:
    phase = PHASES[name]
    async with opened(tmp_path, STOPS, text=connector(limit=1_500)) as ground, ground.engine() as engine:
        run = await _arrive(ground, engine, phase)
        if phase.is_compensating:
            with pytest.raises(NotPossible, match="is compensating already"):
                await engine.act(run, "stop_compensate")
            assert (await engine.rest(run)).status == phase.goes_on
            _check(ground, engine, run)
            return
        view = await engine.order(run, "stop_compensate")
        if view.status == "needs_person":
            view = await engine.order(run, "happened", output={"id": "charge-1", "note": "x"})
        assert view.status == "compensated"
        assert set(engine.dispositions(run).values()) == {"undone"}
        assert list(engine.dispositions(run)) == list(phase.stands), "what stood would have been just this"
        _check(ground, engine, run)


@pytest.mark.parametrize("order", ["pause", "stop", "stop_compensate"])
async def test_a_wait_can_be_paused_and_stopped(tmp_path: Path, order: str) -> None:
    clock = LaterClock()
    async with opened(tmp_path, STOPS) as ground, ground.engine(clock) as engine:
        run = await engine.start("stops", "k1", until=iso(clock.now() + 60_000))
        await engine.until(run, "waiting")
        view = await engine.act(run, order)
        assert view.wake_at is None
        if order == "pause":
            clock.by = 61_000
            await asyncio.sleep(0.1)
            assert (engine.store.run(run).status, ground.asked("/charge")) == ("paused", 0)
            assert (await engine.order(run, "resume")).status == "succeeded", "what was due fires once on resume"
            assert len([one for one in engine.events(run) if isinstance(one, e.TimerFired)]) == 1
        else:
            assert (await engine.rest(run)).status == ("stopped" if order == "stop" else "compensated")
            assert ground.asked("/charge") == 0
        _check(ground, engine, run)
