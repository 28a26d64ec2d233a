"""Branches at once with the whole engine: calls of several branches are out together, and one of them goes wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from runner.core import events as e
from tests.cases.ground import connector, flow, intents, kinds_of, opened, until
from tests.support.says import DROP_AFTER, HELD, Say, late, refused

BOTH = flow(
    "both",
    """  - id: first
    do: shop.deal
    with: { note: x }
    compensate: { cancel: shop.undo_deal, with: { note: x, of: "${{ output.id }}" } }
  - id: both
    parallel:
      stock:
        - id: reserve
          do: shop.reserve
          with: { note: x }
          compensate: { cancel: shop.release, with: { note: x, of: "${{ output.id }}" } }
        - id: own
          do: records.create
          with: { collection: orders, name: "${{ inputs.name }}" }
          compensate: cancel
      money:
        - id: charge
          do: shop.charge
          with: { note: x, amount: 1 }
          compensate: { cancel: shop.refund, with: { note: x, of: "${{ output.id }}" } }
      seat:
        - id: book
          do: shop.book
          with: { note: x }
          compensate: { cancel: shop.unbook, with: { note: x, of: "${{ output.id }}" } }
  - id: last
    do: shop.ticket
    with: { note: "${{ steps.own.id }}" }
    compensate: { none: It only counts. }
""",
    record="order/${{ inputs.name }}",
)


BESIDE = flow(
    "beside",
    """  - id: all
    parallel:
      slow:
        - { id: charge, do: shop.charge, with: { note: x }, compensate: { cancel: shop.refund, with: { note: x, of: "${{ output.id }}" } } }
      waits:
        - { id: nap, wait: 50 ms }
        - { id: book, do: shop.book, with: { note: x }, compensate: { none: x } }
      awaits:
        - { id: said, wait_for: said.yes, match: { who: "${{ inputs.name }}" } }
        - { id: reserve, do: shop.reserve, with: { note: x }, compensate: { none: x } }
""",
)
ALONE = flow(
    "alone",
    """  - { id: charge, do: shop.charge, with: { note: x }, compensate: { cancel: shop.refund, with: { note: x, of: "${{ output.id }}" } } }
  - { id: book, do: shop.book, with: { note: x }, compensate: { none: x } }
""",
)


async def test_branches_are_out_together_and_their_ends_are_waited_for(tmp_path: Path) -> None:
    async with opened(tmp_path, BOTH, text=connector(limit=1_800)) as ground, ground.engine() as engine:
        for path in ("/reserve", "/charge", "/book"):
            ground.shop.script(f"POST {path}", late(600))
        run = await engine.start("both", "k1", name="Aya")
        await until(lambda: {"/reserve", "/charge", "/book"} <= {seen.path for seen in ground.shop.requests})
        assert kinds_of(engine.events(run)).count("CallApplied") == 1, "none of the three has its answer yet"
        assert (await engine.rest(run)).status == "succeeded"
        assert ground.effects()[-1] == "/ticket"
        engine.holds(run)


async def test_one_branch_fails_while_the_others_are_out(tmp_path: Path) -> None:
    async with opened(tmp_path, BOTH, text=connector(limit=1_800)) as ground, ground.engine() as engine:
        ground.shop.script("POST /reserve", late(500))
        ground.shop.script("POST /charge", refused(422, "no money"))
        ground.shop.script("POST /book", Say(delay=700, cut="after"))
        run = await engine.start("both", "k1", name="Aya")
        await until(lambda: "ForwardClosed" in kinds_of(engine.events(run)))
        assert kinds_of(engine.events(run)).count("CallApplied") == 1, (
            "what goes wrong in one branch is decided at once"
        )
        view = await engine.rest(run)
        assert (view.status, view.summary) == ("compensated", "no money")
        assert intents(engine.events(run), "own") == [], "nothing new began in the branch that was out"
        assert ground.asked("/book") == 1, "the lost answer was looked up and not sent again"
        assert ground.effects() == ["/deal", "/reserve", "/book", "/unbook", "/release", "/undo_deal"]
        kinds = kinds_of(engine.events(run))
        events = list(engine.events(run))
        settled = max(n for n, one in enumerate(events) if isinstance(one, e.CallSettled) and one.step == "book")
        assert settled < min(
            n for n, one in enumerate(events) if isinstance(one, e.CallIntended) and one.purpose == "undo"
        )
        assert kinds.count("ForwardClosed") == 1
        engine.holds(run)


@pytest.mark.parametrize("order", ["pause", "stop", "stop_compensate"])
async def test_orders_are_heard_while_branches_are_out(tmp_path: Path, order: str) -> None:
    async with opened(tmp_path, BOTH, text=connector(limit=1_800)) as ground, ground.engine() as engine:
        ground.shop.script("POST /reserve", late(300))
        ground.shop.script("POST /charge", late(800))
        run = await engine.start("both", "k1", name="Aya")
        await until(lambda: ground.asked("/reserve") == 1 and ground.asked("/charge") == 1)
        await engine.act(run, order)
        await asyncio.sleep(0.5)
        assert intents(engine.events(run), "own") == [], "a branch whose call has come back begins nothing new"
        view = await engine.rest(run)
        if order == "pause":
            assert view.status == "paused"
            assert (await engine.order(run, "resume")).status == "succeeded"
            assert len(ground.made("/reserve")) == len(ground.made("/charge")) == 1
        else:
            assert view.status == ("stopped" if order == "stop" else "compensated")
        engine.holds(run)


async def test_an_unknown_in_one_branch_holds_up_no_other(tmp_path: Path) -> None:
    text = BOTH.replace("do: shop.charge", "do: shop.post\n          unattended: x\n          accept_order: x")
    text = text.replace("with: { note: x, amount: 1 }", "with: { note: x }")
    async with opened(tmp_path, text) as ground, ground.engine() as engine:
        ground.shop.script("POST /post", DROP_AFTER)
        view = await engine.run("both", "k1", name="Aya")
        assert (view.status, view.at_step) == ("needs_person", "charge")
        assert "CallApplied" in [type(one).__name__ for one in engine.events(view.run) if one.step == "own"]
        assert ground.asked("/ticket") == 0, "what comes after all branches waits"
        assert engine.store.holder("order/Aya") == view.run
        other = await engine.run("both", "k2", name="Aya")
        assert other.status == "waiting", "another run on this record is held"
        await engine.order(view.run, "happened", output={"id": "post-1", "note": "x"})
        assert engine.store.run(view.run).status == "succeeded"
        await engine.until(other.run, "succeeded")
        engine.holds(view.run)
        engine.holds(other.run)


@pytest.mark.parametrize("grace", [0.0, 3.0])
async def test_an_engine_that_ends_while_branches_are_out(tmp_path: Path, grace: float) -> None:
    async with opened(tmp_path, BOTH, text=connector(limit=1_800)) as ground:
        for path in ("/reserve", "/charge", "/book"):
            ground.shop.script(f"POST {path}", late(500))
        async with ground.engine() as engine:
            run = await engine.start("both", "k1", name="Aya")
            await until(lambda: ground.asked("/book") == ground.asked("/charge") == ground.asked("/reserve") == 1)
            await engine.driver.engine.stop(grace=grace)
            assert not any(call.is_open for call in engine.state(run).calls.values()), "each has an outcome"
        async with ground.engine() as engine:
            assert (await engine.rest(run, patience=10_000)).status == "succeeded"
            engine.holds(run)
        assert sorted(ground.effects()) == ["/book", "/charge", "/deal", "/reserve", "/ticket"]
        assert set(ground.shop.world.by_key().values()) == {1}


async def test_a_call_that_is_alone_holds_up_no_other_branch(tmp_path: Path) -> None:
    """What is due there, and what comes for it, is heard while the call has no answer."""
    async with opened(tmp_path, BESIDE, text=connector(limit=60_000)) as ground, ground.engine() as engine:
        ground.shop.script("POST /charge", HELD)
        run = await engine.start("beside", "k1", name="Aya")
        await until(lambda: ground.made("/book"))
        assert await engine.driver.send_event("e1", "said.yes", {"who": "Aya"}, "test")
        await until(lambda: ground.made("/reserve"))
        assert engine.state(run).calls["charge", "do", 0].is_open
        ground.shop.release()
        assert (await engine.rest(run)).status == "succeeded"
        engine.holds(run)


@pytest.mark.parametrize("text", [BESIDE, ALONE], ids=["beside", "alone"])
async def test_a_stop_is_heard_while_one_call_is_out(tmp_path: Path, text: str) -> None:
    async with opened(tmp_path, text, text=connector(limit=60_000)) as ground, ground.engine() as engine:
        ground.shop.script("POST /charge", HELD)
        run = await engine.start(text.split("\n", 1)[0].removeprefix("flow: "), "k1", name="Aya")
        await until(lambda: ground.asked("/charge"))
        await engine.act(run, "stop_compensate")
        await until(lambda: "ForwardClosed" in kinds_of(engine.events(run)))
        assert engine.state(run).calls["charge", "do", 0].is_open
        ground.shop.release()
        assert (await engine.rest(run)).status == "compensated"
        assert ground.effects()[-1] == "/refund"
        engine.holds(run)
