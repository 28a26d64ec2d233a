"""Who is driven next: no flow waits behind another's many runs, and however many are queued few are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.clock import MachineClock
from runner.engine import line as module
from runner.engine.bounds import Asker, Want
from runner.engine.limits import Limits
from runner.engine.line import Line
from runner.store.sql import SqlStore, open_store
from tests.store.samples import TurnedClock, new_run


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    """A store, and a line that holds little."""
    for name, few in (("KEPT", 4), ("PAGE", 3), ("LOW", 2), ("CROWD", 5)):
        monkeypatch.setattr(module, name, few)
    opened = open_store(tmp_path, clock=TurnedClock(), writable=True, floor=0)
    yield opened
    opened.close()


def limits() -> Limits:
    return Limits(MachineClock(), wake=lambda run: None, later=lambda ms: None)


async def begin(store: SqlStore, flow: str, number: int) -> list[str]:
    """So many queued runs of a flow."""
    runs = [f"{flow}{at:02}" for at in range(number)]
    for run in runs:
        await store.start(replace(new_run(run), flow=flow))
    return runs


async def take(line: Line, driving: set[str], number: int) -> list[str]:
    """The next ones, which are driven from then on."""
    found = []
    for _ in range(number):
        run = await line.take()
        driving.add(run)
        found.append(run)
    return found


async def test_a_small_flow_does_not_wait_behind_a_huge_one(store: SqlStore) -> None:
    driving: set[str] = set()
    line = Line(store, driving, limits())
    huge, small = await begin(store, "huge", 30), await begin(store, "small", 2)
    kept = [line.put_new(run, "huge") for run in huge]
    assert kept.count(True) == module.KEPT, "the others stay in the store"
    first = await take(line, driving, 3)
    assert all(line.put_new(run, "small") for run in small)
    assert set(small) <= set(await take(line, driving, 4))
    line.put("woken")
    assert "woken" in await take(line, driving, 2), "a run that goes on does not wait behind new ones either"
    left = len(huge) - len([run for run in driving if run in huge])
    assert sorted([*driving, *await take(line, driving, left)]) == sorted([*huge, *small, "woken"])
    assert first == huge[:3], "those of one flow keep their order"
    assert not line.is_behind(huge[0])


async def test_what_was_queued_is_taken_up_from_the_store(store: SqlStore) -> None:
    driving: set[str] = set()
    runs = {*await begin(store, "a", 7), *await begin(store, "b", 1), *await begin(store, "c", 4)}
    line = Line(store, driving, limits())
    line.read()
    assert line.is_behind("a06")
    assert set(await take(line, driving, 12)) == runs
    assert len(line._known) == 0
    line.read()
    assert len(line._known) == 0, "nobody is taken twice while he is driven"


async def test_no_more_are_read_than_can_stand_in_line_for_connections(store: SqlStore) -> None:
    driving: set[str] = set()
    runs = await begin(store, "a", 20)
    standing = limits()
    standing.hold("flow:a", "person:me")
    line = Line(store, driving, standing)
    line.read()
    taken: list[str] = []
    while len(line._known):
        run = await line.take()
        taken.append(run)
        assert standing.take(Asker(run=run, flow="a", since=0), [Want(connection="x", step="s")]) == [False]
        line.look()
    assert taken == runs[: len(taken)]
    assert len(taken) < len(runs)
    for run in taken:
        standing.leave(run)
        driving.add(run)
    line.look()
    assert await line.take() == runs[len(taken)]
