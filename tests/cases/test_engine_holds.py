"""Records that are held while a run on them waits for a person, and run keys: one run for one business event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from runner.core import events as e
from runner.engine.starting import Wish
from runner.errors import InputsInvalid, NotPossible, RunKeyConflict
from runner.people.rerun import wish_anew
from runner.store.facts import RecordIsHeld, RunFilter
from runner.store.log import SITE
from tests.cases.ground import ME, Engine, connector, flow, intents, kinds_of, opened, until
from tests.support.says import HELD, Say, late, refused

STEPS = """  - { id: plan, read: shop.plan, with: { code: pro } }
  - id: deal
    do: shop.deal
    with: { note: "${{ inputs.name }}" }
    compensate: { cancel: shop.undo_deal, with: { note: x, of: "${{ output.id }}" } }
  - id: ticket
    do: shop.ticket
    with: { note: "${{ inputs.name }}" }
    compensate: { none: It only counts. }
"""


def waits_for(run: str) -> str:
    return f"waits for customer/Aya, which run {run} (order) holds until person:me has answered"


HELD_NO = Say(status=422, json={"message": "no"}, done=False, delay=-1)
RECORD = "customer/${{ inputs.name }}"
ORDER = flow("order", STEPS, on_failure="review", record=RECORD)
UNDOES = flow("undoes", STEPS, record=RECORD)


async def _broken(engine: Engine, key: str = "a") -> str:
    """A run that holds its record: it failed, and a person must look."""
    view = await engine.run("order", key, name="Aya")
    assert view.status == "needs_person"
    assert engine.store.holder("customer/Aya") == view.run
    return view.run


async def test_a_second_run_on_a_record_waits_while_the_first_waits_for_a_person(tmp_path: Path) -> None:
    async with opened(tmp_path, ORDER) as ground:
        ground.shop.world.put("/plans/pro", {})
        ground.shop.script("POST /ticket", refused())
        async with ground.engine() as engine:
            one = await _broken(engine)
            two = await engine.run("order", "b", name="Aya")
            assert (two.status, two.waiting_for) == ("waiting", waits_for(one))
            assert ground.asked("/plans/pro", "GET") == 2, "a read changes nothing, so it is not held"
            assert (len(ground.made("/deal")), intents(engine.events(two.run), "deal")) == (1, [])
            assert (await engine.run("order", "c", name="Tom")).status == "succeeded", "another record is free"
            engine.holds(two.run)
        async with ground.engine() as engine:
            assert (await engine.rest(two.run)).status == "waiting", "it waits over a restart"
            assert kinds_of(engine.events(two.run)).count("RunHeld") == 1, "and says so once"
            assert (await engine.order(one, "retry")).status == "succeeded"
            assert (await engine.until(two.run, "succeeded")).status == "succeeded", "it goes on by itself"
            assert engine.store.holder("customer/Aya") == ""
            engine.holds(one)
            engine.holds(two.run)


@pytest.mark.parametrize("answer", ["compensate", "skip", "take_over"])
async def test_whatever_ends_the_question_frees_the_record(tmp_path: Path, answer: str) -> None:
    async with opened(tmp_path, ORDER) as ground, ground.engine() as engine:
        ground.shop.world.put("/plans/pro", {})
        ground.shop.script("POST /ticket", refused())
        one = await _broken(engine)
        two = await engine.start("order", "b", name="Aya")
        await engine.until(two, "waiting")
        await engine.order(one, answer, reason="Seen to.")
        await engine.until(two, "succeeded")
        engine.holds(two)


async def test_a_run_under_way_stops_before_its_next_change(tmp_path: Path) -> None:
    async with opened(tmp_path, ORDER, text=connector(limit=30_000)) as ground, ground.engine() as engine:
        ground.shop.world.put("/plans/pro", {})
        ground.shop.script("POST /deal", HELD)
        ground.shop.script("POST /ticket", refused())
        two = await engine.start("order", "b", name="Aya")
        await until(lambda: ground.asked("/deal") == 1)
        one = await _broken(engine)
        ground.shop.release()
        view = await engine.rest(two)
        assert (view.status, view.waiting_for) == ("waiting", waits_for(one))
        assert ground.asked("/ticket") == 1, "what was under way got its answer, and nothing new began"
        await engine.order(one, "skip", reason="Not needed.")
        await engine.until(two, "succeeded")
        engine.holds(two)


async def test_compensations_are_never_held(tmp_path: Path) -> None:
    async with opened(tmp_path, ORDER, UNDOES, text=connector(limit=30_000)) as ground, ground.engine() as engine:
        ground.shop.world.put("/plans/pro", {})
        ground.shop.script("POST /ticket", HELD_NO, refused())
        two = await engine.start("undoes", "b", name="Aya")
        await until(lambda: ground.asked("/ticket") == 1)
        one = await _broken(engine)
        ground.shop.release()
        assert (await engine.rest(two)).status == "compensated"
        assert (ground.asked("/undo_deal"), engine.store.holder("customer/Aya")) == (1, one)
        engine.holds(two)


async def test_a_held_run_can_be_stopped_and_paused(tmp_path: Path) -> None:
    async with opened(tmp_path, ORDER) as ground, ground.engine() as engine:
        ground.shop.world.put("/plans/pro", {})
        ground.shop.script("POST /ticket", refused())
        one = await _broken(engine)
        two, three = [(await engine.run("order", key, name="Aya")).run for key in ("b", "c")]
        assert (await engine.order(two, "stop")).status == "stopped"
        assert (await engine.act(three, "pause")).status == "paused"
        await engine.order(one, "retry")
        await asyncio.sleep(0.1)
        assert engine.store.run(three).status == "paused"
        assert (await engine.order(three, "resume")).status == "succeeded"
        assert len(ground.made("/deal")) == 2
        engine.holds(two)
        engine.holds(three)


async def test_two_broken_runs_hold_it_until_both_are_answered(tmp_path: Path) -> None:
    async with opened(tmp_path, ORDER, text=connector(limit=30_000)) as ground, ground.engine() as engine:
        ground.shop.world.put("/plans/pro", {})
        ground.shop.script("POST /ticket", HELD_NO, HELD_NO)
        one = await engine.start("order", "a", name="Aya")
        two = await engine.start("order", "b", name="Aya")
        await until(lambda: ground.asked("/ticket") == 2)
        ground.shop.release()
        await engine.until(one, "needs_person")
        await engine.until(two, "needs_person")
        three = (await engine.run("order", "c", name="Aya")).run
        assert engine.store.run(three).status == "waiting"
        await engine.order(one, "skip", reason="Not needed.")
        assert (await engine.rest(three)).status == "waiting"
        await engine.order(two, "skip", reason="Not needed.")
        await engine.until(three, "succeeded")
        for run in (one, two, three):
            engine.holds(run)


@pytest.mark.parametrize("paused", [False, True])
async def test_a_record_that_was_freed_as_the_engine_ended_is_noticed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paused: bool
) -> None:
    async with opened(tmp_path, ORDER) as ground:
        ground.shop.world.put("/plans/pro", {})
        ground.shop.script("POST /ticket", refused())
        async with ground.engine() as engine:
            one = await _broken(engine)
            two = (await engine.run("order", "b", name="Aya")).run
            if paused:
                await engine.act(two, "pause")
                assert (await engine.order(two, "resume")).status == "waiting"
            wake = engine.driver.engine.wake
            monkeypatch.setattr(engine.driver.engine, "wake", lambda run: None if run == two else wake(run))
            assert (await engine.order(one, "skip", reason="Not needed.")).status == "succeeded"
            assert engine.store.run(two).status == "waiting"
        async with ground.engine() as engine:
            await engine.until(two, "succeeded")
            engine.holds(two)


Meddle = Callable[[], Coroutine[Any, Any, object]]


def meddle(engine: Engine, run: str, monkeypatch: pytest.MonkeyPatch, doing: Meddle) -> list[str]:
    """Does something between the moment a run is refused a held record and the note that it waits for it."""
    append = engine.store.append
    met: list[str] = []

    async def appending(what: Any) -> Any:
        try:
            return await append(what)
        except RecordIsHeld:
            if what.run == run and not met:
                met.append(run)
                await doing()
            raise

    monkeypatch.setattr(engine.store, "append", appending)
    return met


async def test_a_record_that_is_freed_at_that_very_moment_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, ORDER) as ground, ground.engine() as engine:
        ground.shop.world.put("/plans/pro", {})
        ground.shop.script("POST /ticket", refused())
        one = await _broken(engine)
        two = (await engine.driver.start("order", Wish(given={"name": "Aya"}, key="b"))).run
        met = meddle(engine, two, monkeypatch, lambda: engine.order(one, "skip", reason="Not needed."))
        await engine.until(two, "succeeded")
        assert met == [two], "the moment never came, so this shows nothing"
        engine.holds(two)


async def test_a_person_who_pauses_at_that_very_moment_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path, ORDER) as ground, ground.engine() as engine:
        ground.shop.world.put("/plans/pro", {})
        ground.shop.script("POST /ticket", refused())
        await _broken(engine)
        two = (await engine.driver.start("order", Wish(given={"name": "Aya"}, key="b"))).run
        pause = e.RunPaused(at=engine.driver._clock.now(), by=ME)
        met = meddle(engine, two, monkeypatch, lambda: engine.store.report(two, pause))
        await engine.until(two, "paused")
        assert (met, caplog.records) == ([two], [])
        engine.holds(two)


# --- run keys ------------------------------------------------------------------------------------------------------

PLAIN = flow(
    "plain",
    """  - id: deal
    do: shop.deal
    with: { note: "${{ inputs.name }}" }
    compensate: { cancel: shop.undo_deal, with: { note: x, of: "${{ output.id }}" } }
""",
)


async def test_the_same_key_joins_the_run_whatever_it_is_doing(tmp_path: Path) -> None:
    async with opened(tmp_path, PLAIN) as ground, ground.engine() as engine:
        ground.shop.script("POST /deal", late(200))
        wish = Wish(given={"name": "Aya"}, key="k1")
        told = await asyncio.gather(*(engine.driver.start("plain", wish) for _ in range(20)))
        assert len({one.run for one in told}) == 1
        assert [one.joined for one in told].count(False) == 1
        await engine.rest(told[0].run)
        again = await engine.driver.start("plain", wish)
        assert (again.run, again.joined, again.status) == (told[0].run, True, "succeeded")
        elsewhere = await engine.driver.start("plain", Wish(given={"name": "Aya"}, key="k1", source="mail"))
        assert elsewhere.run == told[0].run
        draft = await engine.driver.start("plain", Wish(given={"name": "Aya"}, key="k1", mode="draft"))
        assert (draft.run != told[0].run, (await engine.rest(draft.run)).status) == (True, "drafted")
        assert len(ground.made("/deal")) == 1
        assert len(engine.store.runs(RunFilter())) == 2


async def test_other_inputs_under_the_same_key_are_a_recorded_conflict(tmp_path: Path) -> None:
    async with opened(tmp_path, PLAIN) as ground, ground.engine() as engine:
        run = (await engine.run("plain", "k1", name="Aya")).run
        for source in ("manual", "mail"):
            with pytest.raises(RunKeyConflict, match=run):
                await engine.driver.start("plain", Wish(given={"name": "Tom"}, key="k1", source=source))
        conflicts = [row.event for row in engine.store.log(SITE) if row.type == "DeliveryConflict"]
        assert len(conflicts) == 2
        assert (len(engine.store.runs(RunFilter())), len(ground.made("/deal"))) == (1, 1)
        engine.holds(run)


async def test_a_person_may_start_it_anew_when_nothing_stands(tmp_path: Path) -> None:
    async with opened(tmp_path, PLAIN) as ground, ground.engine() as engine:
        ground.shop.script("POST /deal", refused())
        first = await engine.run("plain", "k1", name="Aya")
        assert first.status == "failed"
        again = wish_anew(engine.store, first, engine.state(first.run), ME)
        assert (again.given, again.key, again.rerun) == ({"name": "Aya"}, "k1", 1)
        one, two = await asyncio.gather(*(engine.driver.start("plain", again) for _ in range(2)))
        assert (one.run == two.run, one.run != first.run) == (True, True)
        second = await engine.rest(one.run)
        assert second.status == "succeeded"
        with pytest.raises(NotPossible, match="would be there twice"):
            wish_anew(engine.store, second, engine.state(second.run), ME)
        assert (await engine.driver.start("plain", Wish(given={"name": "Aya"}, key="k1", source="mail"))).run == one.run


@pytest.mark.parametrize("empty", ["", "   ", None])
async def test_an_empty_part_of_a_key_or_a_record_is_refused(tmp_path: Path, empty: str | None) -> None:
    keyed = PLAIN.replace("${{ trigger.id }}", "${{ inputs.no }}").replace(
        "{ name: text }", "{ name: text, no: text or empty }"
    )
    record = PLAIN.replace("flow: plain", "flow: record\nrecord: customer/${{ inputs.no }}")
    record = record.replace("{ name: text }", "{ name: text, no: text or empty }")
    async with opened(tmp_path, keyed, record) as ground, ground.engine() as engine:
        for name in ("plain", "record"):
            with pytest.raises((NotPossible, InputsInvalid)) as told:
                await engine.start(name, "k1", name="Aya", no=empty)
            assert ("run_key" if name == "plain" else "record") in str(told.value)
        assert len(engine.store.runs(RunFilter())) == 0
        assert ground.effects() == []
