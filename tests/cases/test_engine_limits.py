"""Limits of a connection, whole: what a real receiver sees of them, over restarts, and what a person holds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import indent

import pytest

from runner.app import Amends
from runner.cli import run_command
from runner.clock import MachineClock
from runner.core import events as e
from runner.engine.starting import Wish
from runner.errors import NotPossible
from runner.people.holds import Hold
from runner.store.facts import RunFilter
from runner.store.log import SITE
from tests.cases.ground import ME, Engine, Ground, connector, flow, intents, kinds_of, opened, until
from tests.cases.processes import amends, serving
from tests.support.says import HELD, Say, late, refused

STEP = """  - id: deal
    do: shop.deal
    with: { note: "${{ inputs.name }}" }
    compensate: { cancel: shop.undo_deal, with: { note: x, of: "${{ output.id }}" } }
"""
MANY, FEW = flow("many", STEP), flow("few", STEP)
TICKET = STEP.replace("id: deal", "id: ticket").replace("shop.deal", "shop.ticket")
TWO = flow("two", STEP + TICKET)
SLOW = connector(limit=120_000)


async def _start(engine: Engine, ground: Ground, flow_id: str, runs: int) -> list[str]:
    """So many runs of a flow."""
    bundle = ground.project().bundle(flow_id)
    wishes = [Wish(given={"name": "Aya"}, key=f"{flow_id}{n}", starter=ME) for n in range(runs)]
    return [one.run for one in await asyncio.gather(*(engine.driver.start_bundle(bundle, wish) for wish in wishes))]


async def _ended(engine: Engine, runs: Sequence[str], seconds: float = 40) -> None:
    """Waits until all have succeeded, and looks whether the database is whole."""
    await until(lambda: engine.store.counts().get("succeeded", 0) >= len(runs), seconds)
    engine.holds(runs[-1])


async def test_two_hundred_runs_and_never_more_than_three_calls_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path, MANY, text=SLOW) as ground:
        ground.connect("at_once: 3")
        ground.shop.script("POST /deal", HELD, HELD, HELD, always=late(20))
        async with ground.engine() as engine:
            runs = await _start(engine, ground, "many", 200)
            await until(lambda: engine.driver.engine.limits.usage()["shop"]["waiting"] > 100, 20)
            resting = [view for view in engine.store.runs(RunFilter(limit=500)) if view.status == "waiting"]
            assert {(view.waiting_for, view.at_step) for view in resting} == {("a place at shop", "deal")}
            assert not intents(engine.events(resting[0].run), "deal"), "an intent does not wait"
            await until(lambda: engine.driving < 10)  # who stands in line needs no worker
            await until(lambda: len(ground.shop.held) == 3)
            ground.shop.let_go()
            await _ended(engine, runs)
            assert (ground.shop.most_busy, len(ground.made("/deal"))) == (3, 200)
            assert engine.driver.engine.limits.usage()["shop"]["in_use"] == 0


@pytest.mark.parametrize(
    ("runs", "longest"),
    [
        (12, 60_000),
        pytest.param(35, 4_500, marks=pytest.mark.embedded_only("a cluster takes its time from one call to the next")),
    ],
)
async def test_the_rate_as_the_receiver_sees_it(tmp_path: Path, runs: int, longest: int) -> None:
    async with opened(tmp_path, TWO, text=SLOW) as ground:
        ground.connect("rate: 20 per 1 s")
        async with ground.engine() as engine:
            await _ended(engine, await _start(engine, ground, "two", runs))
        times = [seen.at for seen in ground.shop.requests]
        assert len(times) == runs * 2
        assert min(later - at for at, later in zip(times, times[20:], strict=False)) >= 800, "20 in any second"
        assert times[-1] - times[0] < longest, "and not far fewer"


async def test_a_flow_has_its_turn_before_those_of_another_that_stand_in_line(tmp_path: Path) -> None:
    async with opened(tmp_path, MANY, FEW, text=SLOW) as ground:
        ground.connect("at_once: 3")
        ground.shop.script("POST /deal", HELD, HELD, HELD, always=late(5))
        async with ground.engine() as engine:
            many = await _start(engine, ground, "many", 20)
            await until(lambda: engine.driver.engine.limits.usage()["shop"]["waiting"] == 17)
            few = await _start(engine, ground, "few", 5)
            await until(lambda: engine.driver.engine.limits.usage()["shop"]["waiting"] == 22)
            await until(lambda: len(ground.shop.held) == 3)
            ground.shop.let_go()
            await _ended(engine, [*many, *few])
            ends = sorted(ended for run in many if (ended := engine.store.run(run).ended_at))
            assert max(engine.store.run(run).ended_at or 0 for run in few) < ends[14]


@pytest.mark.embedded_only("a cluster begins runs in the order in which they come, whatever their flow")
async def test_five_runs_of_a_flow_are_not_stuck_behind_five_hundred_of_another(tmp_path: Path) -> None:
    async with opened(tmp_path, MANY, FEW, text=SLOW) as ground:
        ground.connect("at_once: 3")
        ground.shop.script("POST /deal", always=late(5))
        async with ground.engine() as engine:
            many = await _start(engine, ground, "many", 500)
            few = await _start(engine, ground, "few", 5)
            for run in few:
                await engine.rest(run)
            done = engine.store.counts()["succeeded"]
            assert done < 400, f"{done} of 505 were through before the five"
            assert all(engine.store.run(run).status == "succeeded" for run in few)
            await _ended(engine, [*many, *few])


async def test_a_run_that_is_followed_is_followed_through_the_line(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, text=SLOW) as ground:
        ground.connect("at_once: 1")
        ground.shop.script("POST *", always=late(30))
        async with ground.engine() as engine:
            runs = await _start(engine, ground, "two", 4)
            views = await asyncio.gather(*(engine.rest(run) for run in runs))
            assert [view.status for view in views] == ["succeeded"] * 4
            assert ground.shop.most_busy == 1


async def test_recipients_of_one_mail_share_the_places_of_their_connection(tmp_path: Path) -> None:
    steps = """  - id: tell
    do: mail.send
    with: { to: "${{ inputs.name }}", subject: Hello, text: Hello. }
    unattended: It is a test.
    compensate: { none: It is a test. }
"""
    letters = flow("letters", steps, inputs="{ name: { list: text } }")
    async with opened(tmp_path, letters) as ground:
        path = ground.folder / "connections.yaml"
        path.write_text(path.read_text().replace("connector: email", "connector: email, at_once: 2"))
        async with ground.engine() as engine:
            view = await engine.run("letters", "k", name=[f"a{n}@example.test" for n in range(7)])
            assert (view.status, len(ground.post.mails)) == ("succeeded", 7)
            out = most = 0
            for event in engine.events(view.run):
                out += isinstance(event, e.CallIntended)
                out -= isinstance(event, e.OutcomeEvent)
                most = max(most, out)
            assert most == 2, "both places are used, and no third intent waits"


async def test_a_place_that_comes_while_the_run_waits_for_an_answer_is_used_at_once(tmp_path: Path) -> None:
    deal, ticket = indent(STEP, "      "), indent(TICKET, "      ")
    both = flow("both", f"  - id: both\n    parallel:\n      one:\n{deal}      two:\n{ticket}")
    async with opened(tmp_path, MANY, both, text=SLOW) as ground:
        ground.connect("at_once: 2")
        ground.shop.script("POST /deal", HELD, HELD)
        async with ground.engine() as engine:
            await _start(engine, ground, "many", 1)
            await until(lambda: ground.asked("/deal") == 1)
            [run] = await _start(engine, ground, "both", 1)
            await until(lambda: ground.asked("/deal") == 2)
            ground.shop.let_go(1)
            await until(lambda: ground.asked("/ticket") == 1)
            ground.shop.let_go()
            assert (await engine.rest(run)).status == "succeeded"
            told = [(type(event).__name__, event.step) for event in engine.events(run)]
            assert told.index(("CallIntended", "ticket")) < told.index(("CallApplied", "deal"))


async def test_a_429_lowers_the_limits_and_they_recover(tmp_path: Path) -> None:
    too_many = Say(status=429, json={"message": "slow down"}, headers={"Retry-After": "1"}, done=False)
    async with opened(tmp_path, MANY, text=SLOW) as ground:
        ground.connect("at_once: 8, rate: 400 per 1 s")
        ground.shop.script("POST /deal", *[late(5)] * 10, too_many, always=late(5))
        async with ground.engine() as engine:
            runs = await _start(engine, ground, "many", 60)
            await until(lambda: engine.driver.engine.limits.usage()["shop"]["share"] == 50)
            [refusal] = [seen.at for seen in ground.shop.requests[10:11]]
            await _ended(engine, runs)
            pause = [seen.at for seen in ground.shop.requests if refusal + 100 < seen.at < refusal + 950]
            assert pause == [], "nobody calls before the service wants to be called"
            assert (len(ground.made("/deal")), ground.asked("/deal")) == (60, 61)
            await until(lambda: engine.driver.engine.limits.usage()["shop"]["share"] > 50, 3)


async def test_whoever_stands_in_line_goes_on_with_the_next_engine(tmp_path: Path) -> None:
    async with opened(tmp_path, MANY, text=SLOW) as ground:
        ground.connect("at_once: 2")
        ground.shop.script("POST /deal", HELD, HELD, always=late(40))
        async with ground.engine() as engine:
            runs = await _start(engine, ground, "many", 20)
            await until(lambda: engine.driver.engine.limits.usage()["shop"]["waiting"] == 18)
            await until(lambda: len(ground.shop.held) == 2)
            ground.shop.let_go()
            await until(lambda: len(ground.made("/deal")) > 3)
        async with ground.engine() as engine:
            assert len(engine.store.in_line()) > 5
            await _ended(engine, runs)
            assert (len(ground.made("/deal")), ground.shop.most_busy) == (20, 2)


@pytest.mark.slow
async def test_an_engine_that_is_killed_loses_nobody_in_line(tmp_path: Path) -> None:
    async with opened(tmp_path, MANY, text=SLOW) as ground:
        ground.connect("at_once: 2")
        ground.shop.script("POST /deal", always=HELD)
        reader = Amends(ground.project())
        async with serving(ground.folder) as process:
            async with reader.driver() as driver:
                for number in range(6):
                    await driver.start("many", Wish(given={"name": "Aya"}, key=f"k{number}", starter=ME))
            await until(lambda: len(reader.store.in_line()) == 4, 20)
            assert ground.asked("/deal") == 2
            process.kill()
            await process.wait()
        reader.close()
        ground.shop.let_go()
        ground.shop.most_busy = 0
        async with ground.engine() as engine:
            await until(lambda: ground.shop.busy == 2)
            ground.shop.release()
            await until(lambda: engine.store.counts().get("succeeded", 0) == 6, 30)
            assert (len(ground.made("/deal")), ground.shop.most_busy) == (6, 2)


async def test_a_run_that_is_paused_or_stopped_gives_its_turn_to_the_next(tmp_path: Path) -> None:
    async with opened(tmp_path, MANY, text=SLOW) as ground:
        ground.connect("at_once: 1")
        ground.shop.script("POST /deal", HELD)
        async with ground.engine() as engine:
            limits = engine.driver.engine.limits
            runs = await _start(engine, ground, "many", 4)
            await until(lambda: limits.usage()["shop"]["waiting"] == 3)
            in_line = {place[1]: run for run in runs if (place := limits.place(run)) is not None}
            paused, stopped, last = (in_line[number] for number in (1, 2, 3))
            assert (await engine.act(paused, "pause")).status == "paused"
            assert (await engine.act(stopped, "stop")).status == "stopped"
            assert engine.driver.engine.limits.place(last) == ("shop", 1)
            ground.shop.let_go()
            assert (await engine.rest(last)).status == "succeeded"
            assert len(ground.made("/deal")) == 2
            assert (await engine.order(paused, "resume")).status == "succeeded"


async def test_making_good_is_not_kept_waiting_by_new_work(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, MANY, text=SLOW) as ground:
        ground.connect("at_once: 1")
        ground.shop.script("POST /ticket", replace(refused(), delay=HELD.delay))
        async with ground.engine() as engine:
            [broken] = await _start(engine, ground, "two", 1)
            await until(lambda: len(ground.shop.held) == 1)
            ground.shop.script("POST /deal", always=late(20))
            many = await _start(engine, ground, "many", 40)
            await until(lambda: engine.driver.engine.limits.usage()["shop"]["waiting"] == 40)
            ground.shop.let_go()
            assert (await engine.rest(broken)).status == "compensated"
            assert ground.effects().index("/undo_deal") < 20
            await _ended(engine, many)


async def test_new_limits_hold_as_soon_as_the_project_is_read_again(tmp_path: Path) -> None:
    async with opened(tmp_path, MANY, text=SLOW) as ground:
        ground.connect("at_once: 1")
        ground.shop.script("POST /deal", always=HELD)
        async with ground.engine() as engine:
            await _start(engine, ground, "many", 6)
            await until(lambda: engine.driver.engine.limits.usage()["shop"]["waiting"] == 5)
            path = ground.folder / "connections.yaml"
            path.write_text(path.read_text().replace("at_once: 1", "at_once: 6"))
            await engine.start("many", "another", name="Aya")
            await until(lambda: ground.shop.busy == 6)
            ground.shop.release()


@pytest.mark.parametrize("kind", ["connection", "flow"])
async def test_what_is_held_begins_nothing_new_until_it_is_released(tmp_path: Path, kind: str) -> None:
    hold = Hold(kind="connection", name="shop", by=ME) if kind == "connection" else Hold(kind="flow", name="two", by=ME)
    text = f"the release of {kind} {hold.name} (held by person:me)"
    async with opened(tmp_path, TWO, text=SLOW) as ground:
        ground.shop.script("POST /deal", HELD)
        async with ground.engine() as engine:
            [one] = await _start(engine, ground, "two", 1)
            await until(lambda: ground.asked("/deal") == 1)
            await engine.driver.hold(hold)
            ground.shop.let_go()
            view = await engine.rest(one)
            assert (view.status, view.waiting_for, view.at_step) == ("waiting", text, "ticket")
            assert (len(ground.made("/deal")), ground.asked("/ticket")) == (1, 0), "an open call gets its answer"
            two = await engine.start("two", "k2", name="Aya")
            assert (await engine.rest(two)).waiting_for == text
            with pytest.raises(NotPossible, match="is held already, by person:me"):
                await engine.driver.hold(hold)
            engine.holds(one)
        async with ground.engine() as engine:
            assert (await engine.rest(two)).waiting_for == text, "it is held over a restart"
            await engine.driver.hold(
                Hold(kind=hold.kind, name=hold.name, by=ME, reason="It is well again.", is_held=False)
            )
            assert [(await engine.rest(run)).status for run in (one, two)] == ["succeeded", "succeeded"]
            with pytest.raises(NotPossible, match="is not held"):
                await engine.driver.hold(Hold(kind=hold.kind, name=hold.name, by=ME, is_held=False))
            facts = [type(row.event).__name__ for row in engine.store.log(SITE) if row.event is not None]
            assert [name for name in facts if name != "Checkpoint"] == [
                f"{kind.capitalize()}Held", f"{kind.capitalize()}Released",
            ]  # fmt: skip


async def test_a_held_flow_still_makes_good_what_it_has_done_and_a_held_connection_does_not(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO, text=SLOW) as ground, ground.engine() as engine:
        await engine.driver.hold(Hold(kind="flow", name="other", by=ME))
        ground.shop.script("POST /deal", HELD, HELD)
        one, two = await _start(engine, ground, "two", 2)
        await until(lambda: ground.asked("/deal") == 2)
        await engine.driver.hold(Hold(kind="flow", name="two", by=ME))
        ground.shop.let_go()
        await engine.rest(one)
        assert (await engine.order(one, "stop_compensate")).status == "compensated"
        await engine.driver.hold(Hold(kind="connection", name="shop", by=ME))
        view = await engine.order(two, "stop_compensate")
        assert (view.status, ground.asked("/undo_deal")) == ("compensating", 1)
        assert view.waiting_for == "the release of connection shop (held by person:me)"
        await engine.driver.hold(Hold(kind="connection", name="shop", by=ME, is_held=False))
        assert (await engine.until(two, "compensated")).stands == 0
        engine.holds(two)


async def test_no_intent_is_older_than_its_hold_and_stands_behind_it(tmp_path: Path) -> None:
    async with opened(tmp_path, MANY, text=SLOW) as ground, ground.engine() as engine:
        runs = await _start(engine, ground, "many", 60)
        await engine.driver.hold(Hold(kind="connection", name="shop", by=ME))
        begun = {run: len(intents(engine.events(run), "deal")) for run in runs}
        await asyncio.sleep(0.2)
        assert {run: len(intents(engine.events(run), "deal")) for run in runs} == begun
        assert 0 in begun.values()
        await engine.driver.hold(Hold(kind="connection", name="shop", by=ME, is_held=False))
        await _ended(engine, runs)


@pytest.mark.embedded_only("its own look-round finds such a run; on a cluster the sweeper wakes whoever stands in line")
async def test_a_run_whose_ticket_was_lost_is_found_and_taken_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path, MANY) as ground, ground.engine() as engine:
        inner = engine.embedded
        await engine.driver.hold(Hold(kind="connection", name="shop", by=ME))
        [run] = await _start(engine, ground, "many", 1)
        assert (await engine.rest(run)).status == "waiting"
        inner._alarm._sweep(MachineClock().now())
        assert "waiting for nothing" not in caplog.text
        inner.limits._stopped.clear()
        inner.limits.held.clear()
        inner._alarm._sweep(MachineClock().now())
        assert f"run {run} was waiting for nothing" in caplog.text
        assert (await engine.rest(run)).status == "succeeded"
        assert "RunHeld" not in kinds_of(engine.events(run))


async def test_the_command_line_says_how_busy_a_connection_is_and_who_holds_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(tmp_path, MANY, text=connector(limit=60_000)) as ground:
        ground.connect("at_once: 1, rate: 100 per 10 s")
        ground.shop.script("POST /deal", late(60_000))

        async def said(*words: str) -> str:
            assert await asyncio.to_thread(run_command, ["--project", str(ground.folder), *words]) == 0
            return capsys.readouterr().out

        async with ground.engine() as engine:
            runs = await _start(engine, ground, "many", 3)
            await until(lambda: engine.driver.engine.limits.usage()["shop"]["waiting"] == 2)
            listed = [line.split() for line in (await said("connections", "list")).splitlines()]
            assert ["shop", "shop", "1", "100", "per", "10", "s", "1", "2"] in listed
            [last] = [run for run in runs if engine.driver.engine.limits.place(run) == ("shop", 2)]
            shown = await said("runs", "show", last)
            assert "waiting: step deal waits for a place at shop (number 2 in line)" in shown
            code, out, _ = await amends(ground.folder, "connections", "hold", "shop", "--reason", "It is mended.")
            assert (code, "The connection shop is held" in out) == (0, True)
            assert "held by person:me" in await said("connections", "list")
            assert engine.driver.engine.limits.held == {"connection:shop": ME}
            for wire in list(ground.shop.connections):
                wire.transport.abort()
