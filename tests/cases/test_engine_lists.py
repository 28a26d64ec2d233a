"""Lists on the real engine: what ended items did is known beside the log, and is made good later."""

from __future__ import annotations

from pathlib import Path

from tests.cases.ground import flow, opened
from tests.support.says import Say

ROWS = """  - id: rows
    each: [{ n: a }, { n: b }, { n: c }]
    named: ${{ item.n }}
    at_once: 2
    steps:
      - id: keep
        do: records.create
        with: { collection: rows, id: "${{ item.n }}" }
        compensate: { cancel: records.delete, with: { collection: rows, id: "${{ output.id }}" } }
  - id: last
    do: shop.charge
    with: { note: x }
    compensate: { none: It is never reached. }
"""


async def test_items_of_our_own_tables_are_made_good_after_they_have_ended(tmp_path: Path) -> None:
    """Their outcome is recorded where they are carried out, not in a turn of the run."""
    async with opened(tmp_path, flow("rows", ROWS)) as ground, ground.engine() as engine:
        ground.shop.script("POST /charge", Say(status=422, json={"message": "no"}, done=False))
        view = await engine.run("rows", "k1", name="Aya")
        assert view.status == "compensated"
        effects = {effect.path: effect.disposition for effect in engine.store.effects(view.run)}
        assert effects == {f"rows/{number}/keep": "undone" for number in (1, 2, 3)}
