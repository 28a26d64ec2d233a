"""Schedules with real runs on a clock that is put on: missed, overlapping, edited and equal slots."""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import pytest

from runner.clock import DAY, MINUTE, MachineClock, iso
from runner.core import events as e
from runner.language.slots import timed
from runner.reading import Reading
from runner.store.facts import RunFilter, RunView
from runner.store.log import SITE
from runner.triggers import schedule as room
from runner.triggers.running import running
from runner.triggers.schedule import MOST_CAUGHT_UP, MOST_TOLD, Schedules
from tests.cases.ground import Engine, Ground, opened, until
from tests.triggers.clock import PutOnClock
from tests.triggers.ground import arrivals, starts
from tests.triggers.slots_killed import killed

WAITS = "  - { id: answer, wait_for: answered, within: 30 days }\n"


def report(
    when: str = "every day at 09:00", zone: str = "Asia/Tokyo", more: str = "", name: str = "report", **rest: str
) -> str:
    """A flow that writes its slot down."""
    trigger = f'  - schedule: {when}\n    zone: {zone}\n    fill: {{ name: "${{{{ slot }}}}" }}\n' + more
    return starts(name, trigger, **rest)


ROOMS: dict[Engine, Schedules] = {}


@asynccontextmanager
async def serving(ground: Ground, clock: MachineClock) -> AsyncIterator[Engine]:
    """The engine with its schedules: they look once, and then when a test says so (`looked`)."""
    async with ground.engine(clock) as engine:
        triggers = engine.driver.triggers
        ROOMS[engine] = Schedules(triggers)
        async with triggers.active.watching():
            await looked(engine)
            yield engine
        del ROOMS[engine]


async def looked(engine: Engine) -> None:
    """The files are looked at, then the slots."""
    await engine.driver.triggers.active.look()
    await ROOMS[engine].take()
    for view in runs(engine):
        await engine.driver.engine.rest(view.run)


def slots(engine: Engine, status: str) -> list[str]:
    return sorted(row.id for row in arrivals(engine) if row.status == status)


def facts(engine: Engine, kind: type[e.SiteEvent]) -> list[str]:
    return [str(row.event.data["id"]) for row in engine.store.log(SITE) if isinstance(row.event, kind)]


def runs(engine: Engine) -> list[RunView]:
    return sorted(engine.store.runs(RunFilter(limit=500)), key=lambda view: view.started_at)


def told(engine: Engine) -> list[str]:
    """What the runs were given: their slots."""
    return [str(engine.state(view.run).inputs["name"]) for view in runs(engine)]


async def test_a_slot_is_one_run_with_its_time_as_data(tmp_path: Path) -> None:
    """The one test with the real timer: it is armed two seconds before the slot."""
    clock, slot = PutOnClock("2026-09-01T08:00:00+09:00"), "2026-09-01T09:00:00+09:00"
    async with opened(tmp_path, report()) as ground, serving(ground, clock) as engine:
        clock.put("2026-09-01T08:59:58+09:00")
        async with running(engine.driver.triggers):
            await until(lambda: len(runs(engine)) == 1, 15)
            (run,) = runs(engine)
            # The run is seen before the trigger has its answer: let go of now it would be taken up at the next start.
            assert (await engine.until(run.run, "succeeded")).run_key == slot
        assert told(engine) == [slot]
        started = next(event for event in engine.events(run.run) if isinstance(event, e.RunStarted))
        assert (started.trigger["id"], started.trigger["schedule"]) == (slot, "every day at 09:00")
        assert 0 <= run.started_at - round(datetime.fromisoformat(slot).timestamp() * 1000) < 10_000
        assert (slots(engine, "started"), ground.effects()) == ([slot], ["/log"])


async def test_what_was_missed_while_nothing_ran(tmp_path: Path) -> None:
    """Down from Tuesday morning to Friday noon: latest, skip and all."""
    flows = (
        report(name=f"by_{word}", more=f"    missed: {word}\n    overlap: allow\n")
        for word in ("latest", "skip", "all")
    )
    clock = PutOnClock("2026-09-01T08:00:00+09:00")
    async with opened(tmp_path, *flows) as ground:
        async with serving(ground, clock) as engine:
            assert runs(engine) == []
        clock.put("2026-09-04T12:00:00+09:00")
        for _ in range(2):
            async with serving(ground, clock) as engine:
                assert len(runs(engine)) == 5
                started = {(row.flow, row.id[:10]) for row in arrivals(engine) if row.status == "started"}
                assert started == {
                    ("by_latest", "2026-09-04"), *(("by_all", f"2026-09-0{day}") for day in (1, 2, 3, 4)),
                }  # fmt: skip
                missed = {(row.flow, row.id[:10]) for row in arrivals(engine) if row.status == "missed"}
                assert missed == {
                    *(("by_latest", f"2026-09-0{day}") for day in (1, 2, 3)),
                    *(("by_skip", f"2026-09-0{day}") for day in (1, 2, 3, 4)),
                }
                assert len(facts(engine, e.SlotMissed)) == 7
        (why,) = {row.why for row in arrivals(engine) if row.flow == "by_skip"}
        assert why == "nothing ran at that time (missed: skip)"


async def test_a_short_stop_over_a_slot_is_not_a_miss(tmp_path: Path) -> None:
    clock = PutOnClock("2026-09-01T08:00:00+09:00")
    async with opened(tmp_path, report(more="    missed: skip\n")) as ground:
        async with serving(ground, clock) as engine:
            assert runs(engine) == []
        clock.put("2026-09-01T09:00:30+09:00")
        async with serving(ground, clock) as engine:
            assert (slots(engine, "started"), slots(engine, "missed")) == (["2026-09-01T09:00:00+09:00"], [])


async def test_a_long_stop_is_bounded(tmp_path: Path) -> None:
    """Ten days of every minute: the newest hundred in line, one after the other, the rest told, the first of it as one."""
    clock = PutOnClock("2026-09-01T08:00:30+09:00")
    flow = report("every 1 min", more="    missed: all\n", steps=WAITS)
    async with opened(tmp_path, flow) as ground:
        async with serving(ground, clock) as engine:
            pass
        clock.put("2026-09-11T08:00:30+09:00")
        async with serving(ground, clock) as engine:
            rows = arrivals(engine, limit=5000)
            assert Counter(row.status for row in rows) == {
                "started": 1, "queued": MOST_CAUGHT_UP - 1, "skipped": 1, "missed": MOST_TOLD - MOST_CAUGHT_UP,
            }  # fmt: skip
            assert "2026-09-01T08:01:00+09:00 to 2026-09-10T15:20:00+09:00" in {row.id for row in rows}
            assert len(facts(engine, e.SlotMissed)) == MOST_TOLD - MOST_CAUGHT_UP


async def test_a_slot_while_the_run_before_goes_is_skipped_and_told(tmp_path: Path) -> None:
    clock = PutOnClock("2026-09-01T08:00:00+09:00")
    async with opened(tmp_path, report(steps=WAITS)) as ground, serving(ground, clock) as engine:
        for day in (1, 2, 3):
            clock.put(f"2026-09-0{day}T09:00:01+09:00")
            await looked(engine)
        (run,) = runs(engine)
        assert facts(engine, e.SlotSkipped) == ["2026-09-02T09:00:00+09:00", "2026-09-03T09:00:00+09:00"]
        why = {row.why for row in arrivals(engine, status=("skipped",))}
        assert why == {f"run {run.run} of the slot before still goes (overlap: skip)"}
        await engine.driver.send_event("e1", "answered", {}, "person:me")
        assert (await engine.rest(run.run)).status == "succeeded"
        clock.put("2026-09-04T09:00:01+09:00")
        await looked(engine)
        assert [day[8:10] for day in told(engine)] == ["01", "04"]


async def test_slots_wait_in_line_and_go_on_in_order_over_a_restart(tmp_path: Path) -> None:
    clock = PutOnClock("2026-09-01T08:00:00+09:00")
    async with opened(tmp_path, report(more="    overlap: queue\n", steps=WAITS)) as ground:
        async with serving(ground, clock) as engine:
            for day in (1, 2, 3):
                clock.put(f"2026-09-0{day}T09:00:01+09:00")
                await looked(engine)
            assert [day[8:10] for day in slots(engine, "queued")] == ["02", "03"]
        async with serving(ground, clock) as engine:
            for count in (1, 2, 3):
                assert len(runs(engine)) == count
                assert len(slots(engine, "queued")) == 3 - count
                await engine.rest(runs(engine)[-1].run)
                await engine.driver.send_event(f"e{count}", "answered", {}, "person:me")
                await engine.until(runs(engine)[-1].run, "succeeded")
                await looked(engine)
            assert [day[8:10] for day in told(engine)] == ["01", "02", "03"]
            assert facts(engine, e.SlotSkipped) == facts(engine, e.SlotMissed) == []


async def test_runs_may_overlap(tmp_path: Path) -> None:
    clock = PutOnClock("2026-09-01T08:00:00+09:00")
    flow = report(more="    overlap: allow\n", steps=WAITS)
    async with opened(tmp_path, flow) as ground, serving(ground, clock) as engine:
        for day in (1, 2):
            clock.put(f"2026-09-0{day}T09:00:01+09:00")
            await looked(engine)
        assert [(await engine.rest(view.run)).status for view in runs(engine)] == ["waiting", "waiting"]


async def test_a_clock_that_goes_back_brings_no_slot_twice(tmp_path: Path) -> None:
    clock = PutOnClock("2026-09-01T08:00:00+09:00")
    async with opened(tmp_path, report()) as ground, serving(ground, clock) as engine:
        for moment in ("09-03T09:00:01", "09-01T08:59:00", "09-01T09:00:01", "09-03T09:00:01", "09-04T09:00:01"):
            clock.put(f"2026-{moment}+09:00")
            await looked(engine)
        assert sorted(day[8:10] for day in told(engine)) == ["01", "03", "04"]
        assert [day[8:10] for day in slots(engine, "missed")] == ["02"]
        assert len(ground.effects()) == 3


async def test_a_clock_that_was_far_ahead_once_stops_nothing(tmp_path: Path) -> None:
    clock = PutOnClock("2026-08-31T08:00:00+09:00")
    monthly = report("every 1st day of the month at 09:00")
    async with opened(tmp_path, monthly) as ground, serving(ground, clock) as engine:
        for moment in ("2038-01-19T00:00:00", "2026-09-01T08:30:00", "2026-09-01T09:00:01", "2026-10-01T09:00:01"):
            clock.put(f"{moment}+09:00")
            await looked(engine)
        assert sorted(slot[:10] for slot in told(engine)) == ["2026-09-01", "2026-10-01", "2038-01-01"]


async def test_an_edited_schedule_begins_when_it_is_edited(tmp_path: Path) -> None:
    """Other words, and words that come back: no slot of the time when they did not count, and no old one fires."""
    clock = PutOnClock("2026-09-01T08:00:00+09:00")
    async with opened(tmp_path, report("every day at 10:00")) as ground, serving(ground, clock) as engine:
        clock.put("2026-09-01T09:30:00+09:00")
        ground.write(report("every day at 09:00"))
        await looked(engine)
        clock.put("2026-09-01T10:00:01+09:00")
        await looked(engine)
        clock.put("2026-09-02T09:00:01+09:00")
        await looked(engine)
        assert told(engine) == ["2026-09-02T09:00:00+09:00"]
        clock.put("2026-09-02T11:00:00+09:00")
        ground.write(report("every day at 10:00"))
        await looked(engine)
        clock.put("2026-09-03T10:00:01+09:00")
        await looked(engine)
        assert told(engine) == ["2026-09-02T09:00:00+09:00", "2026-09-03T10:00:00+09:00"]
        ground.write(report("every day at 25:00"))
        await looked(engine)
        clock.put("2026-09-04T10:00:01+09:00")
        await looked(engine)
        assert [slot[8:16] for slot in told(engine)] == ["02T09:00", "03T10:00", "04T10:00"]
        assert facts(engine, e.SlotMissed) == []


async def test_two_flows_with_equal_slots_and_a_run_by_hand(tmp_path: Path) -> None:
    """A flow with two schedules that meet has one run for the slot; a start by hand is a run of its own."""
    both = report(more='  - cron: 0 9 * * 2\n    zone: Asia/Tokyo\n    fill: { name: "${{ slot }}" }\n')
    clock = PutOnClock("2026-09-01T08:00:00+09:00")
    async with opened(tmp_path, both, report(name="other")) as ground, serving(ground, clock) as engine:
        assert (await engine.run("report", "by hand", name="by hand")).status == "succeeded"
        clock.put("2026-09-01T09:00:01+09:00")
        await looked(engine)
        await until(lambda: all(view.status == "succeeded" for view in runs(engine)))
        assert sorted((view.flow, at) for view, at in zip(runs(engine), told(engine), strict=True)) == [
            ("other", "2026-09-01T09:00:00+09:00"),
            ("report", "2026-09-01T09:00:00+09:00"),
            ("report", "by hand"),
        ]
        assert len({row.run for row in arrivals(engine, flow="report")}) == 1


@pytest.mark.parametrize("is_restarted", [False, True], ids=["serving", "restarted"])
@pytest.mark.parametrize(
    ("zone", "days", "expected"),
    [
        ("Europe/Berlin", "2026-03-28 2026-03-29 2026-03-30", "28T02:30:00+01:00 29T03:00:00+02:00 30T02:30:00+02:00"),
        ("Europe/Berlin", "2026-10-24 2026-10-25 2026-10-26", "24T02:30:00+02:00 25T02:30:00+02:00 26T02:30:00+01:00"),
    ],
)
async def test_both_changes_of_the_clock_with_real_runs(
    tmp_path: Path, zone: str, days: str, expected: str, is_restarted: bool
) -> None:
    """Looked at each quarter of an hour through three nights, with a restart in the middle of each or without."""
    flow = report("every day at 02:30", zone, more="    missed: skip\n")
    clock = PutOnClock(f"{days.split(maxsplit=1)[0]}T00:00:00+01:00")
    start = clock.now()
    quarters = [iso(start + number * 15 * MINUTE) for number in range(1, 13)]
    async with opened(tmp_path, flow) as ground, contextlib.AsyncExitStack() as stack:
        engine = await stack.enter_async_context(serving(ground, clock))
        for day in range(3):
            for quarter in quarters:
                clock.put(iso(round(datetime.fromisoformat(quarter).timestamp() * 1000) + day * DAY))
                await looked(engine)
            if is_restarted:
                await stack.aclose()
                engine = await stack.enter_async_context(serving(ground, clock))
        assert [slot[8:] for slot in told(engine)] == expected.split()
        assert facts(engine, e.SlotMissed) == []


async def test_a_process_that_dies_between_a_slot_and_its_run(tmp_path: Path) -> None:
    """Four days to make up for, killed three times around the commits: one run for each slot, one effect for each run."""
    clock, noon = PutOnClock("2026-09-01T08:00:00+09:00"), "2026-09-04T12:00:00+09:00"
    flow = report(more="    missed: all\n    overlap: allow\n")
    async with opened(tmp_path, flow) as ground:
        async with serving(ground, clock) as engine:
            assert runs(engine) == []
        for point, nth, left in (("before", 1, 0), ("after", 1, 1), ("before", 2, 2)):
            assert await killed(ground.folder, noon, point, nth) == -signal.SIGKILL
            reading = Reading(ground.folder)
            assert len(reading.runs(RunFilter())) == left, (point, nth)
            reading.close()
        clock.put(noon)
        async with serving(ground, clock) as engine:
            assert sorted(day[8:10] for day in told(engine)) == ["01", "02", "03", "04"]
            for view in runs(engine):
                await engine.until(view.run, "succeeded")
            assert len(ground.made("/log")) == 4
            assert engine.store.verify() == []


async def test_slots_before_a_database_was_put_back_are_listed_and_not_fired(tmp_path: Path) -> None:
    clock = PutOnClock("2026-09-01T08:00:00+09:00")
    async with opened(tmp_path, report(more="    missed: all\n")) as ground, serving(ground, clock) as engine:
        clock.put("2026-09-03T12:00:00+09:00")
        await engine.store.site(e.Restored(at=clock.now(), by="person:me", data={"answer": "go on"}))
        await looked(engine)
        assert runs(engine) == []
        assert [day[8:10] for day in slots(engine, "missed")] == ["01", "02", "03"]
        assert {row.why for row in arrivals(engine)} == {"whether it ran is not in the database put back"}
        clock.put("2026-09-04T09:00:01+09:00")
        await looked(engine)
        assert [day[8:10] for day in told(engine)] == ["04"]


def test_the_plan_of_a_slot_holds_for_every_policy() -> None:
    """(slots due, in minutes ago) -> those without a run."""
    now = 1_000 * DAY
    cases = {
        "latest": {(30, 20, 10): (30, 20), (30, 20, 0): (30, 20), (0,): (), (5,): ()},
        "skip": {(30, 20, 10): (30, 20, 10), (30, 0): (30,), (1,): ()},
        "all": {(30, 20, 0): (), tuple(range(150, 10, -1)): tuple(range(150, 110, -1))},
    }
    for policy, rows in cases.items():
        each = timed({"schedule": "every 1 min", "missed": policy}, "UTC")
        for due, lost in rows.items():
            found = room._missed(each, [now - ago * MINUTE for ago in due], now)
            assert [(now - at) // MINUTE for at, _ in found] == list(lost), (policy, due)
