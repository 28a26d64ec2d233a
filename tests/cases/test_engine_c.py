"""Cases C1 and C2 with the whole engine: stopping, and compensations that go wrong."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from runner.app import Amends
from runner.core import events as e
from runner.engine.starting import Wish
from runner.errors import NotPossible
from runner.people.operations import Order
from runner.telling.story import became, story_of
from tests.cases.ground import ME, Engine, Ground, flow, intents, kinds_of, opened, until
from tests.cases.processes import dying, serving
from tests.support.says import DROP_AFTER, DROP_BEFORE, Say, failing, late, refused

TRIP = flow(
    "trip",
    """  - id: reserve
    do: shop.reserve
    with: { note: "${{ inputs.name }}" }
    compensate: { cancel: shop.release, with: { note: x, of: "${{ output.id }}" } }
  - id: charge
    do: shop.charge
    with: { note: "${{ inputs.name }}", amount: 100 }
    compensate: { cancel: shop.refund, with: { note: x, of: "${{ output.id }}" } }
  - id: ticket
    do: shop.ticket
    with: { note: "${{ inputs.name }}" }
    compensate: { cancel: shop.void, with: { note: x, of: "${{ output.id }}" } }
  - id: after
    do: shop.log
    with: { note: x }
    compensate: { none: It only counts. }
""",
)
UNDOS = ["/void", "/refund", "/release"]
SLOW = 400
"""ms: longer than an order takes, shorter than a call may last."""


def undone(ground: Ground) -> list[str]:
    """The compensations that truly happened, in order."""
    return [path for path in ground.effects() if path in UNDOS]


async def _in_flight(ground: Ground, engine: Engine, path: str, *says: Say) -> str:
    """A trip whose call of this path is out."""
    ground.shop.script(f"POST {path}", *says)
    run = await engine.start("trip", "k1", name="Aya")
    await until(lambda: ground.asked(path) == 1)
    return run


# --- C1 ------------------------------------------------------------------------------------------------------------


async def test_c1_a_stop_settles_the_call_in_flight_and_then_undoes_it_too(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        run = await _in_flight(ground, engine, "/ticket", late(SLOW))
        ground.shop.script("POST /refund", late(SLOW))
        await engine.act(run, "stop_compensate", reason="The customer called.")
        await until(lambda: ground.asked("/refund") == 1)
        with pytest.raises(NotPossible, match="is compensating already"):
            await engine.act(run, "stop_compensate")
        view = await engine.rest(run)
        assert (view.status, view.summary) == ("compensated", "The customer called.")
        assert undone(ground) == UNDOS
        assert ground.asked("/log") == 0
        assert set(engine.dispositions(run).values()) == {"undone"}
        kinds = kinds_of(engine.events(run))
        ticket = next(
            n for n, one in enumerate(engine.events(run)) if isinstance(one, e.CallApplied) and one.step == "ticket"
        )
        assert ticket < kinds.index("CompensationBegun"), "the call in flight is settled before anything is undone"
        engine.holds(run)


async def test_c1_a_call_in_flight_that_gets_no_answer_is_not_sent_again_after_the_stop(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        run = await _in_flight(ground, engine, "/ticket", late(1_500))
        await engine.act(run, "stop_compensate")
        view = await engine.rest(run)
        assert (view.status, view.at_step, ground.asked("/ticket")) == ("needs_person", "ticket", 1)
        assert undone(ground) == [], "an unsettled outcome holds what is older"
        last = await engine.order(run, "happened", output={"id": "ticket-1", "note": "x"})
        assert last.status == "compensated"
        assert undone(ground) == UNDOS
        engine.holds(run)


async def test_c1_a_call_in_flight_that_can_be_looked_up_is_settled_without_a_person(tmp_path: Path) -> None:
    text = TRIP.replace("shop.ticket", "shop.book").replace("shop.void", "shop.unbook")
    async with opened(tmp_path, text) as ground, ground.engine() as engine:
        run = await _in_flight(ground, engine, "/book", Say(delay=SLOW, cut="after"))
        await engine.act(run, "stop_compensate")
        assert (await engine.rest(run)).status == "compensated"
        assert (ground.asked("/book"), ground.made("/unbook")) == (1, ["unbook-1"])
        engine.holds(run)


async def test_c1_stop_here_while_compensating_lists_the_rest_and_runs_none(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        ground.shop.script("POST /refund", late(SLOW))
        run = await _in_flight(ground, engine, "/ticket", refused())
        await until(lambda: ground.asked("/refund") == 1)
        await engine.act(run, "stop")
        view = await engine.rest(run)
        assert (view.status, view.stands) == ("stopped", 1)
        assert undone(ground) == ["/refund"]
        assert engine.dispositions(run) == {"reserve": "stands", "charge": "undone"}
        clean = await engine.order(run, "compensate")
        assert clean.run != run
        assert (clean.continues, clean.status) == (run, "compensated")
        assert undone(ground) == ["/refund", "/release"]
        assert engine.store.run(run).status == "stopped", "the old status stays"
        engine.holds(run)
        engine.holds(clean.run)


@pytest.mark.parametrize("grace", [0.0, 5.0])
async def test_c1_an_engine_that_ends_during_an_undo_goes_on_with_it(tmp_path: Path, grace: float) -> None:
    async with opened(tmp_path, TRIP) as ground:
        async with ground.engine() as engine:
            ground.shop.script("POST /refund", late(SLOW))
            run = await _in_flight(ground, engine, "/ticket", refused())
            await until(lambda: ground.asked("/refund") == 1)
            await engine.driver.engine.stop(grace=grace)
            told = "CallUnknown" if grace == 0.0 else "CallApplied"
            assert told in kinds_of(engine.events(run))[-2:], "being cancelled is an outcome, and it is recorded"
        async with ground.engine() as engine:
            assert (await engine.rest(run)).status == "compensated"
            engine.holds(run)
        assert undone(ground) == ["/refund", "/release"]
        assert ground.asked("/refund") == (2 if grace == 0.0 else 1)


async def test_c1_sigterm_during_an_undo_and_a_new_start(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground:
        ground.shop.script("POST /ticket", late(SLOW))
        ground.shop.script("POST /release", late(SLOW))
        async with serving(ground.folder) as process:
            amends = Amends(ground.project())
            async with amends.driver() as driver:
                run = (await driver.start("trip", Wish(given={"name": "Aya"}, key="k1", starter=ME))).run
                await until(lambda: ground.asked("/ticket") == 1)
                await driver.act(run, Order(action="stop_compensate", by=ME))
                await until(lambda: ground.asked("/release") == 1)
                process.send_signal(signal.SIGTERM)
                assert await asyncio.wait_for(process.wait(), 10) == 0
            amends.close()
        async with ground.engine() as engine:
            assert (await engine.rest(run)).status == "compensated"
            engine.holds(run)
        assert undone(ground) == UNDOS


# --- C2 ------------------------------------------------------------------------------------------------------------


async def test_c2_an_undo_that_fails_three_times_stops_no_other_and_is_seen(tmp_path: Path) -> None:
    text = TRIP.replace(
        'cancel: shop.refund, with: { note: x, of: "${{ output.id }}" } }',
        'cancel: shop.refund, with: { note: x, of: "${{ output.id }}" }, retry: { tries: 3 } }',
    )
    async with opened(tmp_path, text) as ground, ground.engine() as engine:
        ground.shop.script("POST /ticket", refused(422, "sold out"))
        ground.shop.script("POST /refund", failing(500), failing(500), failing(500))
        view = await engine.run("trip", "k1", name="Aya")
        assert (view.status, view.needs, view.stands) == ("needs_person", ME, 1)
        assert (ground.asked("/refund"), undone(ground)) == (3, ["/release"])
        assert engine.dispositions(view.run) == {"reserve": "undone", "charge": "pending"}
        question = engine.state(view.run).open_handoffs[0]
        assert (question.step, question.kind) == ("charge", "compensation_unknown"), (
            "a 500 does not say nothing happened"
        )
        reader = Amends.open(ground.folder)
        told = {
            each.path: became(story, each) for story in [story_of(reader, view.run, "UTC")] for each in story.effects
        }
        reader.close()
        assert told == {"reserve": "cancelled", "charge": "in doubt: nobody knows whether it was made good"}
        closed = engine.state(view.run).root.failure
        assert closed is not None
        assert closed.step == "ticket", "the forward failure is told apart"
        assert (await engine.order(view.run, "did_not")).status == "compensated"
        assert undone(ground) == ["/release", "/refund"]
        engine.holds(view.run)


async def test_c2_a_clear_no_to_an_undo_is_a_failed_compensation(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        ground.shop.script("POST /ticket", refused(422, "sold out"))
        ground.shop.script("POST /refund", refused(422, "too old"))
        view = await engine.run("trip", "k1", name="Aya")
        assert (view.status, undone(ground)) == ("needs_person", ["/release"])
        failed = [one for one in engine.events(view.run) if isinstance(one, e.CompensationFailed)]
        assert [(one.step, one.summary) for one in failed] == [("charge", "too old")]
        with pytest.raises(NotPossible, match="needs a reason"):
            await engine.act(view.run, "done")
        last = await engine.order(view.run, "done", reference="Bank slip 17")
        assert last.status == "closed", "what a person did by hand is not called compensated by the engine"
        assert engine.dispositions(view.run) == {"reserve": "undone", "charge": "by_hand"}
        engine.holds(view.run)


async def test_c2_if_one_fails_stop_halts_the_rest(tmp_path: Path) -> None:
    text = TRIP.replace("on_failure: compensate", "on_failure: { do: compensate, if_one_fails: stop }")
    async with opened(tmp_path, text) as ground, ground.engine() as engine:
        ground.shop.script("POST /ticket", refused(422, "sold out"))
        ground.shop.script("POST /refund", refused(422, "too old"))
        view = await engine.run("trip", "k1", name="Aya")
        assert (view.status, undone(ground)) == ("needs_person", [])
        assert (await engine.order(view.run, "retry")).status == "compensated"
        assert undone(ground) == ["/refund", "/release"]
        engine.holds(view.run)


async def test_c2_a_charge_that_timed_out_is_asked_about_and_then_undone(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        ground.shop.script("POST /charge", always=DROP_AFTER)
        view = await engine.run("trip", "k1", name="Aya")
        assert (view.status, view.at_step) == ("needs_person", "charge")
        assert (ground.asked("/charge"), ground.asked("/ticket"), len(ground.made("/charge"))) == (4, 0, 1)
        await engine.order(view.run, "compensate")
        assert undone(ground) == []
        last = await engine.order(view.run, "happened", output={"id": "charge-1", "note": "x"})
        assert last.status == "compensated"
        assert undone(ground) == ["/refund", "/release"], "a step with an unknown outcome is compensated too"
        engine.holds(view.run)


async def test_c2_a_charge_that_did_not_happen_has_nothing_to_undo(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        ground.shop.script("POST /charge", always=DROP_BEFORE)
        run = (await engine.run("trip", "k1", name="Aya")).run
        await engine.order(run, "compensate")
        assert (await engine.order(run, "did_not")).status == "compensated"
        assert undone(ground) == ["/release"]
        assert engine.dispositions(run) == {"reserve": "undone"}
        engine.holds(run)


async def test_c2_an_undo_that_finds_nothing_is_a_persons_matter(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        ground.shop.script("POST /ticket", refused())
        ground.shop.script("POST /refund", refused(404, "no such charge"))
        view = await engine.run("trip", "k1", name="Aya")
        assert (view.status, undone(ground)) == ("needs_person", ["/release"])
        last = await engine.order(view.run, "stands", reason="The charge was taken back by the bank.")
        assert last.status == "closed"
        engine.holds(view.run)


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize(
    "point",
    ["after call refund undo", "after commit CallIntended reserve undo"],
)
async def test_c2_a_kill_between_two_undos_repeats_none(tmp_path: Path, point: str) -> None:
    async with opened(tmp_path, TRIP) as ground:
        ground.shop.script("POST /ticket", refused())
        assert await dying(ground.folder, "trip", "k1", point) == -9, (ground.folder / "trace").read_text()
        async with ground.engine() as engine:
            view = await engine.run("trip", "k1", name="Aya")
            assert view.status == "compensated"
            assert {one.generation for one in intents(engine.events(view.run), "charge", "undo")} == {0}
            engine.holds(view.run)
        assert undone(ground) == ["/refund", "/release"]
