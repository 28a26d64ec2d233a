"""Lists on the real engine: each item once, each alone in its failure, all of them made good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from runner.core import events as e
from runner.core import recall
from runner.errors import NotPossible
from tests.cases.ground import flow, intents, opened
from tests.lists.ground import BOOK, LAST, each_once, holds, listed, notes, refuse, rows, undone
from tests.support.says import DROP_AFTER, refused

INPUTS = "{ rows: { list: { n: text } } }"
GOES_ON = "    at_once: 20\n    if_one_fails: continue\n"
MANY = flow("many", listed("${{ inputs.rows }}", more=GOES_ON) + LAST, inputs=INPUTS)
STRICT = flow("strict", listed("${{ inputs.rows }}", more="    at_once: 20\n", steps=BOOK) + LAST, inputs=INPUTS)


async def test_three_hundred_items_twenty_at_once_each_once(tmp_path: Path) -> None:
    async with opened(tmp_path, MANY) as ground, ground.engine() as engine:
        view = await engine.run("many", "k1", rows=rows(300))
        assert view.status == "succeeded"
        each_once(ground, "/reserve", 300)
        each_once(ground, "/charge", 300)
        assert ground.asked("/reserve") == 300
        assert engine.state(view.run).steps["rows"].output == {"done": 300, "set_aside": []}
        assert engine.dispositions_of(view.run) == ["stands"] * 601
        holds(engine, view)


async def test_items_that_fail_are_set_aside_resumed_one_by_one_and_skipped(tmp_path: Path) -> None:
    wrong = ("n007", "n100", "n200", "n201")
    async with opened(tmp_path, MANY) as ground, ground.engine() as engine:
        refuse(ground.shop, "/charge", wrong)
        view = await engine.run("many", "k1", rows=rows(300))
        assert (view.status, view.at_step) == ("needs_person", "rows")
        assert "4 items were set aside: n007, n100, n200, n201" in view.waiting_for
        assert sorted(notes(ground, "/release")) == sorted(wrong)
        assert notes(ground, "/log") == ["done"], "what stands after the list goes on with those that are done"
        with pytest.raises(NotPossible, match="skip needs a reason"):
            await engine.act(view.run, "skip", step="rows/100")
        assert (await engine.order(view.run, "retry", step="rows/7")).status == "needs_person"
        assert notes(ground, "/charge").count("n007") == 1
        assert (await engine.order(view.run, "skip", step="rows/100", reason="The customer left.")).status == (
            "needs_person"
        )
        view = await engine.order(view.run, "retry")
        assert (view.status, notes(ground, "/log")) == ("closed", ["done"]), "one item was accepted as it is"
        kept = [row["n"] for row in rows(300) if row["n"] != "n100"]
        assert sorted(notes(ground, "/charge")) == kept
        assert sorted(notes(ground, "/reserve")) == sorted([row["n"] for row in rows(300)] + [*wrong[:1], *wrong[2:]])
        assert [one.generation for one in intents(engine.events(view.run), "rows/7/book")] == [0, 1]
        output = engine.state(view.run).steps["rows"].output
        assert (output["done"], output["set_aside"]) == (299, [])
        holds(engine, view)


async def test_every_item_fails_and_all_are_retried(tmp_path: Path) -> None:
    async with opened(tmp_path, MANY) as ground, ground.engine() as engine:
        refuse(ground.shop, "/charge", [row["n"] for row in rows(60)])
        view = await engine.run("many", "k1", rows=rows(60))
        assert view.status == "needs_person"
        view = await engine.order(view.run, "retry")
        assert view.status == "succeeded"
        each_once(ground, "/charge", 60)
        assert len(undone(ground, "/release")) == 60
        assert len(set(undone(ground, "/release"))) == 60
        holds(engine, view)


@pytest.mark.parametrize(("count", "page"), [(30, 7), (250, recall.PAGE)])
async def test_a_later_failure_takes_back_all_ended_items_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, page: int
) -> None:
    monkeypatch.setattr(recall, "PAGE", page)
    async with opened(tmp_path, STRICT) as ground, ground.engine() as engine:
        ground.shop.script("POST /log", always=refused())
        view = await engine.run("strict", "k1", rows=rows(count))
        assert view.status == "compensated"
        each_once(ground, "/reserve", count)
        each_once(ground, "/release", count)
        starts = {one.step: one.start_no for one in _intended(engine.events(view.run), "do")}
        taken_back = [starts[one.step] for one in _intended(engine.events(view.run), "undo")]
        assert taken_back == sorted(taken_back, reverse=True)
        assert set(engine.dispositions_of(view.run)) == {"undone"}
        assert not any("/" in path for path in engine.state(view.run).steps), "ended items leave the state again"
        holds(engine, view)


def _intended(events: Sequence[e.Event], purpose: str) -> list[e.CallIntended]:
    return [event for event in events if isinstance(event, e.CallIntended) and event.purpose == purpose]


async def test_a_failure_inside_a_strict_list_stops_it_and_takes_all_back(tmp_path: Path) -> None:
    async with opened(tmp_path, STRICT) as ground, ground.engine() as engine:
        refuse(ground.shop, "/reserve", ["n050"])
        view = await engine.run("strict", "k1", rows=rows(300))
        assert view.status == "compensated"
        made = notes(ground, "/reserve")
        assert 30 <= len(made) < 100, "nothing begins after the failure"
        assert sorted(made) == sorted(notes(ground, "/release"))
        holds(engine, view)


async def test_lost_answers_in_a_list_are_settled_and_nothing_is_twice(tmp_path: Path) -> None:
    async with opened(tmp_path, MANY) as ground, ground.engine() as engine:
        refuse(ground.shop, "/reserve", [row["n"] for row in rows(40)[::3]], DROP_AFTER)
        view = await engine.run("many", "k1", rows=rows(40))
        assert view.status == "succeeded"
        each_once(ground, "/reserve", 40)
        assert ground.asked("/reserve") == 54
        holds(engine, view)


async def test_an_item_in_doubt_binds_only_itself(tmp_path: Path) -> None:
    """A call of class once whose answer is lost waits for a person; the other items go on, the list waits."""
    steps = """      - id: post
        do: shop.post
        with: { note: "${{ item.n }}" }
        unattended: It only counts.
        compensate: { none: It only counts. }
"""
    text = flow("posts", listed("${{ inputs.rows }}", more=GOES_ON, steps=steps) + LAST, inputs=INPUTS)
    async with opened(tmp_path, text) as ground, ground.engine() as engine:
        refuse(ground.shop, "/post", ["n003", "n030"], DROP_AFTER)
        view = await engine.run("posts", "k1", rows=rows(50))
        assert view.status == "needs_person"
        each_once(ground, "/post", 50)
        assert notes(ground, "/log") == []
        for number in (3, 30):
            of = {"output": {"id": f"post-{number}", "note": "x"}, "external_id": f"post-{number}"}
            view = await engine.order(view.run, "happened", step=f"rows/{number}/post", **of)
        assert (view.status, ground.asked("/post")) == ("succeeded", 50)
        holds(engine, view)


async def test_stop_here_and_then_compensate_takes_back_the_ended_items(tmp_path: Path) -> None:
    text = flow(
        "stops", listed("${{ inputs.rows }}", more=GOES_ON) + "  - { id: nap, wait: 1 day }\n" + LAST, inputs=INPUTS
    )
    async with opened(tmp_path, text) as ground, ground.engine() as engine:
        view = await engine.run("stops", "k1", rows=rows(130))
        assert view.status == "waiting"
        view = await engine.order(view.run, "stop", reason="Enough.")
        assert (view.status, view.stands, ground.effects().count("/release")) == ("stopped", 260, 0)
        holds(engine, view)
        clean = await engine.order(view.run, "compensate")
        assert (clean.status, engine.store.run(view.run).status) == ("compensated", "stopped")
        each_once(ground, "/release", 130)
        each_once(ground, "/refund", 130)
        holds(engine, clean)


NESTED = """  - id: rows
    each: ${{ inputs.rows }}
    named: ${{ item.n }}
    at_once: 3
    if_one_fails: continue
    steps:
      - id: both
        parallel:
          one:
            - id: inner
              each: ["a", "b"]
              at_once: 2
              steps:
                - id: book
                  do: shop.reserve
                  with: { note: "${{ item }}" }
                  compensate: { cancel: shop.release, with: { note: x, of: "${{ output.id }}" } }
          two:
            - { id: sub, call: letter, with: { n: "${{ item.n }}" } }
      - id: pay
        do: shop.charge
        with: { note: "${{ item.n }}", of: "${{ steps.sub.ticket }}" }
        compensate: { cancel: shop.refund, with: { note: "${{ item.n }}", of: "${{ output.id }}" } }
"""
LETTER = flow(
    "letter",
    """  - id: ticket
    do: shop.ticket
    with: { note: "${{ inputs.n }}" }
    compensate: { cancel: shop.void, with: { note: "${{ inputs.n }}", of: "${{ output.id }}" } }
""",
    inputs="{ n: text }",
    outputs='{ ticket: "${{ steps.ticket.id }}" }',
)


async def test_lists_parallels_and_called_flows_inside_each_other(tmp_path: Path) -> None:
    text = flow("nested", NESTED + LAST, inputs=INPUTS)
    async with opened(tmp_path, LETTER, text) as ground, ground.engine() as engine:
        refuse(ground.shop, "/charge", ["n004"])
        view = await engine.run("nested", "k1", rows=rows(9))
        assert view.status == "needs_person"
        assert notes(ground, "/void") == ["n004"]
        assert len(undone(ground, "/release")) == 2
        view = await engine.order(view.run, "retry", step="rows/4")
        assert view.status == "succeeded"
        each_once(ground, "/charge", 9)
        holds(engine, view)


async def test_all_of_it_is_taken_back_when_a_later_step_fails(tmp_path: Path) -> None:
    text = flow("nested", NESTED + LAST, inputs=INPUTS)
    async with opened(tmp_path, LETTER, text) as ground, ground.engine() as engine:
        ground.shop.script("POST /log", always=refused())
        view = await engine.run("nested", "k1", rows=rows(9))
        assert view.status == "compensated"
        for made, back in (("/reserve", "/release"), ("/ticket", "/void"), ("/charge", "/refund")):
            assert sorted(ground.made(made)) == sorted(undone(ground, back))
        assert set(engine.dispositions_of(view.run)) == {"undone"}
        holds(engine, view)
