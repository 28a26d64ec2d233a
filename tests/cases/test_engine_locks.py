"""Records that are locked: a run that works on one keeps every other run off it, until it ends, whatever happens.

What counts is the receiver's ledger: the effects on one record come run by run, never mixed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from runner.app import Amends
from runner.clock import MachineClock
from runner.core import events as e
from runner.engine.carrier import Carrier
from runner.engine.starting import Wish
from runner.errors import NotPossible
from runner.people.holds import Hold
from runner.store import record_locks
from runner.store.batch import Batch
from runner.store.facts import RecordIsHeld
from tests.cases.ground import ME, Engine, Ground, connector, first, flow, kinds_of, opened, until
from tests.cases.processes import serving
from tests.support.says import HELD, Say, late, refused

NOTE = "${{ run.id }}"
IN_THREE = "{ one: text, two: text or empty, three: text or empty }"


def change(name: str, to: str, lock: str = "", undo: str = "undo_deal") -> str:
    """A step that changes an invoice, whose number stands in an input."""
    locks = f"    lock: {{ record: invoice, id: '${{{{ inputs.{lock} }}}}' }}\n" if lock else ""
    of = lock or "one"
    return (
        f"  - id: {name}\n    do: shop.{to}\n    with: {{ note: '{NOTE}', of: '${{{{ inputs.{of} }}}}' }}\n{locks}"
        f"    compensate: {{ cancel: shop.{undo}, with: {{ note: '{NOTE}', of: '${{{{ inputs.{of} }}}}' }} }}\n"
    )


BILL = flow("bill", change("deal", "deal", "one") + change("charge", "charge"), inputs=IN_THREE)
PAY = flow("pay", change("book", "reserve", "one") + change("ticket", "ticket"), inputs=IN_THREE)
PLAIN = flow("plain", change("log", "log"), inputs=IN_THREE, record="invoice/${{ inputs.one }}")
LINE = flow(
    "line", change("deal", "deal") + change("charge", "charge"), inputs=IN_THREE,
    record="{ id: 'invoice/${{ inputs.one }}', one_at_a_time: true }",
)  # fmt: skip
REVIEW = flow(
    "review", change("deal", "deal", "one") + change("ticket", "ticket"), inputs=IN_THREE, on_failure="review"
)
ACROSS = flow("across", change("deal", "deal", "one") + change("charge", "charge", "two"), inputs=IN_THREE)
BESIDE = flow(
    "beside",
    "  - id: both\n    parallel:\n      left:\n"
    + change("deal", "deal", "one").replace("\n", "\n      ").replace("  - id: deal", "        - id: deal", 1).rstrip(" ")
    + "      right:\n"
    + change("charge", "charge", "two").replace("\n", "\n      ").replace("  - id: charge", "        - id: charge", 1).rstrip(" "),
    inputs=IN_THREE,
)  # fmt: skip


def ledger(ground: Ground, record: str) -> list[str]:
    """The runs whose effects a record has had, in order, each run once as long as no other comes between."""
    runs = [effect.body["note"] for effect in ground.shop.world.effects if effect.body["of"] == record]
    return [run for at, run in enumerate(runs) if at == 0 or runs[at - 1] != run]


def overlaps(ground: Ground) -> list[str]:
    """Records on which the effects of two runs are mixed."""
    records = {effect.body["of"] for effect in ground.shop.world.effects}
    mixed = {record: ledger(ground, record) for record in records}
    return sorted(record for record, runs in mixed.items() if len(runs) != len(set(runs)))


def locked(events: Sequence[e.Event]) -> list[str]:
    return [event.record for event in events if isinstance(event, e.RecordLocked)]


def nobody_waits(engine: Engine, *records: str) -> None:
    """All is over: no lock, no line, no run that waits."""
    for record in records:
        assert (engine.store.holder(f"invoice/{record}"), engine.store.next_in_line(f"invoice/{record}")) == ("", "")
    assert engine.store.verify() == []


async def ended(engine: Engine, runs: Sequence[str]) -> None:
    await until(lambda: all(engine.store.run(run).ended_at is not None for run in runs), 20)


def is_held(engine: Engine, run: str) -> bool:
    return "RunHeld" in kinds_of(engine.events(run))


async def called(ground: Ground, times: int) -> None:
    await until(lambda: ground.asked("/deal") == times)


async def _crowd(ground: Ground, engine: Engine) -> list[str]:
    """Twenty runs of two flows on three records, with trouble among them."""
    ground.shop.script("POST /charge", Say(), refused(), late(30), refused())
    ground.shop.script("POST /ticket", late(20), refused())
    started = [
        engine.start("bill" if at % 2 else "pay", f"k{at}", one=str(at % 3), two=None, three=None) for at in range(20)
    ]
    runs = await asyncio.gather(*started)
    await ended(engine, runs)
    return runs


async def test_twenty_runs_of_two_flows_on_three_records_never_mix(tmp_path: Path) -> None:
    async with opened(tmp_path, BILL, PAY) as ground, ground.engine() as engine:
        runs = await _crowd(ground, engine)
        statuses = [engine.store.run(run).status for run in runs]
        assert (set(statuses), statuses.count("compensated")) == ({"succeeded", "compensated"}, 3)
        assert overlaps(ground) == []
        assert len(ground.shop.world.effects) == 17 * 2 + 3 * 2
        nobody_waits(engine, "0", "1", "2")
        for run in runs:
            engine.holds(run)
            assert len(locked(engine.events(run))) == 1


async def test_without_the_rule_they_do_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake: no lock is asked for, so what the test above looks at must show it."""
    monkeypatch.setattr("runner.core.forward._records", lambda *_: ((), ()))
    async with opened(tmp_path, BILL, PAY, text=connector(limit=30_000)) as ground, ground.engine() as engine:
        ground.shop.script("POST /deal", HELD)
        one = await engine.start("bill", "k0", one="0")
        await called(ground, 1)
        assert (await engine.run("pay", "k1", one="0")).status == "succeeded"
        ground.shop.let_go()
        await engine.until(one, "succeeded")
        assert overlaps(ground) == ["0"]


async def test_the_unique_index_is_the_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever plans the write sees nobody; the database refuses all the same, and the run waits as it should."""
    async with opened(tmp_path, BILL, text=connector(limit=30_000)) as ground, ground.engine() as engine:
        ground.shop.script("POST /deal", HELD)
        one = await engine.start("bill", "a", one="7")
        await until(lambda: ground.asked("/deal") == 1)
        seen = record_locks.Use.keeper
        asked: list[str] = []

        def blind(use: record_locks.Use, run: str, since: int = 0) -> RecordIsHeld | None:
            asked.append(run)
            return None if len(asked) <= 2 else seen(use, run, since)

        monkeypatch.setattr(record_locks.Use, "keeper", blind)
        two = await engine.start("bill", "b", one="7")
        await until(lambda: len(asked) > 2)
        ground.shop.release()
        assert (await engine.until(two, "succeeded")).status == "succeeded"
        assert first(engine.events(two), e.RunHeld).by_run == one
        assert overlaps(ground) == []


@pytest.mark.parametrize(
    "stands",
    [pytest.param(False, marks=pytest.mark.embedded_only("a cluster may begin the later of two runs first")), True],
    ids=["in the order they were started", "in the order they came"],
)
async def test_j3_runs_on_one_record_come_one_at_a_time(tmp_path: Path, stands: bool) -> None:
    async with opened(tmp_path, LINE, BILL, text=connector(limit=30_000)) as ground, ground.engine() as engine:
        ground.shop.script("POST /deal", HELD)
        runs = []
        for at in range(8):
            runs.append(await engine.start("line" if at % 2 else "bill", f"k{at}", one="7"))
            await asyncio.sleep(0.003)
            if stands:
                await until(lambda: ground.asked("/deal") if len(runs) == 1 else is_held(engine, runs[-1]))
        await called(ground, 1)
        ground.shop.release()
        await ended(engine, runs)
        assert ledger(ground, "7") == runs
        held = [kinds_of(engine.events(run)).count("RunHeld") for run in runs]
        assert max(held) <= 2, "who is not next is not told of every change in front of it"
        nobody_waits(engine, "7")


async def test_a_lock_that_is_not_given_back_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake."""
    monkeypatch.setattr(Batch, "free_locks", lambda *_: None)
    async with opened(tmp_path, BILL) as ground, ground.engine() as engine:
        assert (await engine.run("bill", "a", one="7")).status == "succeeded"
        with pytest.raises(AssertionError):
            nobody_waits(engine, "7")


async def wake_nobody(*_: object) -> None:
    """As if the engine were killed before it does."""


async def test_a_run_that_nobody_wakes_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake: whoever ends does not pass the record on. The sweeper names the run that is left."""
    async with opened(tmp_path, BILL, text=connector(limit=30_000)) as ground, ground.engine() as engine:
        ground.shop.script("POST /deal", HELD)
        one = await engine.start("bill", "a", one="7")
        await until(lambda: ground.asked("/deal") == 1)
        two = await engine.run("bill", "b", one="7")
        an_hour_on = MachineClock().now() + 3_600_000
        assert engine.store.without_witness(an_hour_on) == []
        monkeypatch.setattr(Carrier, "_pass_on", wake_nobody)
        ground.shop.release()
        await engine.until(one, "succeeded")
        assert engine.store.without_witness(an_hour_on) == [two.run]


async def test_who_waits_says_for_whom_and_costs_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, BILL, PLAIN, text=connector(limit=30_000)) as ground, ground.engine() as engine:
        ground.shop.script("POST /deal", HELD)
        one = await engine.start("bill", "a", one="17")
        await until(lambda: ground.asked("/deal") == 1)
        two = await engine.run("bill", "b", one="17")
        told = f"waits for invoice/17, which run {one} (bill) works on"
        assert (two.status, two.at_step, two.waiting_for) == ("waiting", "deal", told)
        three = await engine.run("plain", "c", one="17")
        assert (three.status, three.waiting_for) == ("waiting", told), "a lock keeps off who only works on the record"
        assert not engine.driver.engine.is_at_work(two.run)
        ground.shop.release()
        await engine.until(three.run, "succeeded")
        assert ledger(ground, "17") == [one, two.run, three.run]


async def test_a_run_never_waits_for_itself(tmp_path: Path) -> None:
    again = flow("again", change("deal", "deal", "one") + change("charge", "charge", "one"), inputs=IN_THREE)
    both = LINE.replace("flow: line", "flow: both").replace(
        change("charge", "charge"), change("charge", "charge", "one")
    )
    async with opened(tmp_path, again, both) as ground, ground.engine() as engine:
        for name in ("again", "both"):
            view = await engine.run(name, "a", one="7")
            assert (view.status, locked(engine.events(view.run))) == ("succeeded", ["invoice/7"])
        nobody_waits(engine, "7")


async def test_the_lock_stays_while_a_person_must_look_and_the_answer_gives_it_back(tmp_path: Path) -> None:
    async with opened(tmp_path, REVIEW, BILL) as ground:
        ground.shop.script("POST /ticket", refused(), refused())
        async with ground.engine() as engine:
            one = await engine.run("review", "a", one="7")
            assert one.status == "needs_person"
            two = await engine.run("bill", "b", one="7")
            told = f"waits for invoice/7, which run {one.run} (review) works on; that one waits for person:me"
            assert (two.status, two.waiting_for) == ("waiting", told)
        async with ground.engine() as engine:
            assert (await engine.rest(two.run)).waiting_for == told, "over a restart"
            assert (await engine.order(one.run, "retry")).status == "needs_person"
            assert (await engine.act(one.run, "pause")).status == "paused"
            assert engine.store.run(two.run).status == "waiting"
            await engine.act(one.run, "resume")
            assert (await engine.order(one.run, "compensate")).status == "compensated"
            assert (await engine.until(two.run, "succeeded")).status == "succeeded"
            assert overlaps(ground) == [], "its compensations came before the next one's changes"
            nobody_waits(engine, "7")
            engine.holds(one.run)
            engine.holds(two.run)


@pytest.mark.parametrize("order", ["stop", "stop_compensate"])
async def test_a_run_that_is_stopped_gives_its_lock_back(tmp_path: Path, order: str) -> None:
    async with opened(tmp_path, REVIEW, BILL) as ground, ground.engine() as engine:
        ground.shop.script("POST /ticket", refused())
        one = (await engine.run("review", "a", one="7")).run
        two = (await engine.run("bill", "b", one="7")).run
        await engine.order(one, order)
        await engine.until(two, "succeeded")
        nobody_waits(engine, "7")


async def test_who_leaves_the_line_lets_the_next_one_in(tmp_path: Path) -> None:
    async with opened(tmp_path, REVIEW, BILL) as ground, ground.engine() as engine:
        ground.shop.script("POST /ticket", refused())
        one = (await engine.run("review", "a", one="7")).run
        two, three, four = [(await engine.run("bill", key, one="7")).run for key in ("b", "c", "d")]
        assert (await engine.order(two, "stop")).status == "stopped"
        assert (await engine.act(three, "pause")).status == "paused"
        await engine.order(one, "skip", reason="Not needed.")
        await engine.until(four, "succeeded")
        assert (await engine.order(three, "resume")).status == "succeeded"
        assert ledger(ground, "7") == [one, four, three]
        nobody_waits(engine, "7")


async def test_a_held_record_refuses_who_would_lock_it(tmp_path: Path) -> None:
    held = flow(
        "held", change("ticket", "ticket"), inputs=IN_THREE, record="invoice/${{ inputs.one }}", on_failure="review"
    )
    async with opened(tmp_path, held, BILL) as ground, ground.engine() as engine:
        ground.shop.script("POST /ticket", refused())
        one = (await engine.run("held", "a", one="7")).run
        two = await engine.run("bill", "b", one="7")
        told = f"waits for invoice/7, which run {one} (held) holds until person:me has answered"
        assert (two.status, two.waiting_for, ground.asked("/deal")) == ("waiting", told, 0)
        await engine.order(one, "skip", reason="Not needed.")
        await engine.until(two.run, "succeeded")


async def test_a_branch_that_waits_does_not_stop_the_other(tmp_path: Path) -> None:
    async with opened(tmp_path, REVIEW, BESIDE) as ground, ground.engine() as engine:
        ground.shop.script("POST /ticket", refused(), refused())
        left = (await engine.run("review", "a", one="1")).run
        both = await engine.run("beside", "b", one="1", two="2")
        assert (both.status, both.at_step, ground.asked("/charge")) == ("waiting", "deal", 1)
        right = await engine.run("review", "c", one="2")
        assert right.waiting_for == f"waits for invoice/2, which run {both.run} (beside) works on"
        await engine.order(left, "skip", reason="Not needed.")
        await engine.until(both.run, "succeeded")
        await engine.until(right.run, "needs_person")


async def test_a_person_holds_a_record_and_releases_it(tmp_path: Path) -> None:
    async with opened(tmp_path, BILL, PLAIN) as ground:
        async with ground.engine() as engine:
            await engine.driver.hold(Hold(kind="record", name="invoice/7", by=ME, reason="The books are closed."))
            runs = [await engine.run(name, "a", one="7") for name in ("bill", "plain")]
            assert {run.waiting_for for run in runs} == {"waits for invoice/7, which person:me holds"}
            assert (await engine.run("bill", "b", one="8")).status == "succeeded"
            with pytest.raises(NotPossible, match="already, by person:me; `amends runs release invoice/7` lets"):
                await engine.driver.hold(Hold(kind="record", name="invoice/7", by=ME))
        async with ground.engine() as engine:
            assert (await engine.rest(runs[0].run)).status == "waiting", "over a restart"
            await engine.driver.hold(Hold(kind="record", name="invoice/7", by=ME, is_held=False))
            for run in runs:
                await engine.until(run.run, "succeeded")
            assert ledger(ground, "7") == [run.run for run in runs]
            with pytest.raises(NotPossible, match="invoice/7 is not held by a person, so there is nothing to release"):
                await engine.driver.hold(Hold(kind="record", name="invoice/7", by=ME, is_held=False))


async def test_a_record_released_while_no_engine_ran_is_noticed_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, BILL) as ground:
        async with ground.engine() as engine:
            await engine.driver.hold(Hold(kind="record", name="invoice/7", by=ME))
            run = (await engine.run("bill", "a", one="7")).run
            monkeypatch.setattr(engine.driver.engine, "wake_next", wake_nobody)
            await engine.driver.hold(Hold(kind="record", name="invoice/7", by=ME, is_held=False))
        async with ground.engine() as engine:
            await engine.until(run, "succeeded")


@pytest.mark.parametrize("empty", ["", "   ", None])
async def test_an_empty_id_is_the_failure_of_its_step(tmp_path: Path, empty: str | None) -> None:
    bill = BILL.replace("inputs.one }}' }\n    comp", 'inputs.two | default("") }}\' }\n    comp', 1)
    assert "inputs.two" in bill
    async with opened(tmp_path, bill) as ground, ground.engine() as engine:
        view = await engine.run("bill", "a", one="7", two=empty)
        assert view.status == "failed"
        failed = first(engine.events(view.run), e.StepFailed)
        assert (failed.kind, failed.summary) == ("evaluation", "lock of step deal: the id of the invoice is empty")
        assert ground.effects() == []


@pytest.mark.slow
@pytest.mark.crash
async def test_a_kill_between_the_lock_and_the_outcome(tmp_path: Path) -> None:
    async with opened(tmp_path, BILL, text=connector(limit=30_000)) as ground:
        async with serving(ground.folder) as process:
            reader = Amends(ground.project())
            async with reader.driver() as driver:
                ground.shop.script("POST /deal", HELD)
                one = (await driver.start("bill", Wish(given={"one": "7"}, key="a", starter=ME))).run
                await until(lambda: ground.asked("/deal") == 1)
                two = (await driver.start("bill", Wish(given={"one": "7"}, key="b", starter=ME))).run
                await until(lambda: reader.store.run(two).status == "waiting")
            process.kill()
            await process.wait()
            assert reader.store.holder("invoice/7") == one
            reader.close()
        ground.shop.release()
        async with ground.engine() as engine:
            await engine.until(two, "succeeded")
            assert (engine.store.run(one).status, locked(engine.events(one))) == ("succeeded", ["invoice/7"])
            assert ledger(ground, "7") == [one, two]
            nobody_waits(engine, "7")


# --- deadlocks -----------------------------------------------------------------------------------------------------


async def _circle(ground: Ground, engine: Engine, size: int) -> list[str]:
    """Runs that each have a record and want the next one's. The last to want is the one that closes the circle."""
    ground.shop.script("POST /deal", *[HELD] * size)
    runs = []
    for at in range(size):
        runs.append(await engine.start("across", f"k{at}", one=str(at), two=str((at + 1) % size)))
        await called(ground, at + 1)
    for run in runs[:-1]:
        ground.shop.let_go(1)
        await until(partial(is_held, engine, run))
    ground.shop.release()
    return runs


@pytest.mark.parametrize("size", [2, 3])
async def test_a_deadlock_is_found_and_named(tmp_path: Path, size: int) -> None:
    async with opened(tmp_path, ACROSS, text=connector(limit=30_000)) as ground, ground.engine() as engine:
        runs = await _circle(ground, engine, size)
        await ended(engine, runs)
        closed = [run for run in runs if engine.store.run(run).status == "compensated"]
        assert len(closed) == 1, "one of them gives way, and no more"
        assert {engine.store.run(run).status for run in runs if run not in closed} == {"succeeded"}
        failed = first(engine.events(closed[0]), e.StepFailed)
        assert (failed.kind, failed.step) == ("deadlock", "charge")
        for at, run in enumerate(runs):
            link = f"run {run} waits for invoice/{(at + 1) % size}, which run {runs[(at + 1) % size]} works on"
            assert link in failed.summary
        assert failed.summary.startswith(f"They wait for each other: run {closed[0]} waits")
        assert overlaps(ground) == []
        nobody_waits(engine, *(str(at) for at in range(size)))
        for run in runs:
            engine.holds(run)


async def test_a_circle_that_a_resumed_run_closes_is_found(tmp_path: Path) -> None:
    async with opened(tmp_path, ACROSS, text=connector(limit=30_000)) as ground, ground.engine() as engine:
        ground.shop.script("POST /deal", HELD, HELD)
        one = await engine.start("across", "a", one="1", two="2")
        two = await engine.start("across", "b", one="2", two="1")
        await until(lambda: ground.asked("/deal") == 2)
        await engine.act(one, "pause")
        ground.shop.release()
        await engine.until(two, "waiting")
        assert (await engine.order(one, "resume")).status == "compensated"
        await engine.until(two, "succeeded")
        nobody_waits(engine, "1", "2")


async def test_to_wait_for_one_that_rests_with_a_person_is_no_deadlock(tmp_path: Path) -> None:
    """It holds a record, waits for the other's lock elsewhere, and will let go once it is answered."""
    asks = flow(
        "asks", "  - { id: look, hand_off: person:me, say: Look. }\n" + change("log", "log", "two"), inputs=IN_THREE,
        record="invoice/${{ inputs.one }}",
    )  # fmt: skip
    async with opened(tmp_path, asks, ACROSS) as ground, ground.engine() as engine:
        one = (await engine.run("asks", "a", one="2", two="1")).run
        two = await engine.run("across", "b", one="1", two="2")
        assert two.waiting_for.endswith(f"which run {one} (asks) holds until person:me has answered")
        await engine.order(one, "go_on")
        await engine.until(two.run, "succeeded")
        await engine.until(one, "succeeded")


async def test_without_the_search_they_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake."""
    monkeypatch.setattr("runner.store.work.find_circle", lambda *_: ())
    async with opened(tmp_path, ACROSS, text=connector(limit=30_000)) as ground, ground.engine() as engine:
        runs = await _circle(ground, engine, 2)
        for run in runs:
            await engine.until(run, "waiting")
        await asyncio.sleep(0.2)
        assert {engine.store.run(run).status for run in runs} == {"waiting"}
