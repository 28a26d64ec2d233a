"""An item with a list inside that is set aside, begun anew and set aside again: each time what its last life did is made
good, and nothing of a life before that."""

from __future__ import annotations

from pathlib import Path

from runner.clock import MachineClock
from tests.cases.ground import flow, opened
from tests.support.says import refused
from tests.trust.installation import Installation, Truth
from tests.trust.oracle import broken

TWICE = flow("twice", """  - id: rows
    each: [{ n: a }]
    named: ${{ item.n }}
    if_one_fails: continue
    steps:
      - id: inner
        each: [x, y]
        steps:
          - id: reserve
            do: shop.reserve
            with: { note: "${{ item }}" }
            compensate: { cancel: shop.release, with: { note: z, of: "${{ output.id }}" } }
      - id: charge
        do: shop.charge
        with: { note: z }
        compensate: { none: It only counts. }
""")  # fmt: skip


async def test_what_the_last_life_of_an_item_did_is_made_good(tmp_path: Path) -> None:
    async with opened(tmp_path, TWICE) as ground, ground.engine() as engine:
        ground.shop.script("POST /charge", refused(), refused())
        run = (await engine.run("twice", "k", name="Aya")).run
        assert engine.store.run(run).status == "needs_person"
        assert (await engine.order(run, "retry")).status == "needs_person"
        one, two, three, four = ground.made("/reserve")
        undone = [effect.body["of"] for effect in ground.shop.world.effects if effect.path == "/release"]
        assert undone == [two, one, four, three]
        assert (await engine.order(run, "retry")).status == "succeeded"
        log = Installation.read(engine.store, now=MachineClock().now())
        assert broken(log, Truth()) == []
