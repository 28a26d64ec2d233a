"""Cases A1 and A2 with the whole engine; kill -9 at every point stands in tests/crash."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from runner.errors import AlreadySo
from runner.store.facts import RunFilter
from tests.cases.ground import flow, intents, opened
from tests.cases.processes import dying
from tests.lists.ground import notes, refuse
from tests.support.says import failing, refused
from tests.support.smtp_service import SmtpScript

LETTER = flow(
    "letter",
    """  - id: letter
    do: mail.send
    with: { to: aya@acme.example, subject: Hello, text: Hello }
    unattended: It only says hello.
    accept_order: It may go first.
    compensate: { none: It only says hello. }
  - id: after
    do: shop.log
    with: { note: "${{ steps.letter.message_id }}" }
    compensate: { none: It only counts. }
""",
)
FIVE = flow(
    "five",
    """  - { id: plan, read: shop.plan, with: { code: pro } }
  - id: deal
    do: shop.deal
    with: { note: "${{ inputs.name }} on ${{ steps.plan.label }}" }
    compensate: { cancel: shop.undo_deal, with: { note: x, of: "${{ output.id }}" } }
  - id: log
    do: shop.log
    with: { note: "${{ steps.deal.id }}" }
    compensate: { none: It only counts. }
  - id: charge
    do: shop.charge
    with: { note: "${{ steps.deal.id }}", amount: 40 }
    compensate: { cancel: shop.refund, with: { note: x, of: "${{ output.id }}" } }
  - id: ticket
    do: shop.ticket
    with: { note: "${{ steps.charge.id }}" }
    compensate: { none: It only counts. }
""",
    on_failure="review",
    outputs='{ ticket: "${{ steps.ticket.id }}" }',
)


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize(
    ("point", "sent"),
    [
        ("after commit CallIntended letter do", 0),
        ("during call send do aya", 1),
        ("after call send do aya", 1),
        ("before commit CallIntended after do", 1),
    ],
)
async def test_a1_no_second_letter_that_nobody_asked_for(tmp_path: Path, point: str, sent: int) -> None:
    script = SmtpScript(after_dot=["delay 150"]) if point.startswith("during") else None
    async with opened(tmp_path, LETTER, script=script) as ground:
        assert await dying(ground.folder, "letter", "k1", point) == -9, (ground.folder / "trace").read_text()
        if point.startswith("during"):
            await asyncio.sleep(0.3)
            sent = len(ground.post.mails)
        for _ in range(2):
            async with ground.engine() as engine:
                view = await engine.run("letter", "k1", name="Aya")
                assert view.status == "needs_person"
                assert len(ground.post.mails) == sent, "a start of the engine sends nothing that may have gone out"
        async with ground.engine() as engine:
            (view,) = engine.store.runs(RunFilter())
            given = {"output": {"message_id": ground.post.mails[0].message_id}} if sent else {}
            assert (await engine.order(view.run, "happened" if sent else "did_not", **given)).status == "succeeded"
            engine.holds(view.run)
        assert len(ground.post.mails) == 1
        assert ground.effects() == ["/log"]


async def test_a2_a_503_at_step_four_is_tried_again_there_and_nowhere_else(tmp_path: Path) -> None:
    async with opened(tmp_path, FIVE) as ground:
        ground.shop.world.put("/plans/pro", {"label": "Pro"})
        ground.shop.script("POST /charge", failing(503))
        async with ground.engine() as engine:
            view = await engine.run("five", "k1", name="Aya")
            assert view.status == "succeeded"
            events = engine.events(view.run)
            assert [one.attempt for one in intents(events, "charge")] == [1, 2]
            assert len({one.key for one in intents(events, "charge")}) == 1
            engine.holds(view.run)
        assert (ground.asked("/deal"), ground.asked("/charge"), ground.asked("/plans/pro", "GET")) == (1, 2, 1)
        assert ground.effects() == ["/deal", "/log", "/charge", "/ticket"]


async def test_a2_a_person_retries_the_failed_step_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path, FIVE) as ground:
        ground.shop.world.put("/plans/pro", {"label": "Pro"})
        ground.shop.script("POST /charge", refused(422, "closed for today"))
        async with ground.engine() as engine:
            first = await engine.run("five", "k1", name="Aya")
            assert (first.status, first.needs, first.at_step) == ("needs_person", "person:me", "charge")
            assert "closed for today" in first.waiting_for
        ground.shop.world.put("/plans/pro", {"label": "Something else"})
        async with ground.engine() as engine:
            assert (await engine.run("five", "k1", name="Aya")).run == first.run, "the same event began a second run"
            assert engine.store.run(first.run).status == "needs_person"
            last = await engine.order(first.run, "retry")
            assert last.status == "succeeded"
            assert len(engine.store.runs(RunFilter())) == 1, "one run with attempts, not several runs"
            assert len(intents(engine.events(first.run), "charge")) == 2
            engine.holds(first.run)
        assert ground.effects() == ["/deal", "/log", "/charge", "/ticket"]
        assert ground.asked("/plans/pro", "GET") == 1, "an earlier output is reused from the log, not asked again"
        assert ground.shop.world.effects[0].body["note"] == "Aya on Pro"
        assert ground.shop.world.effects[2].body["note"] == "deal-1"


async def test_a2_an_operator_retries_what_a_503_has_stopped(tmp_path: Path) -> None:
    """Five steps, the fourth is refused once, a person presses the button."""
    text = FIVE.replace("amount: 40 }", "amount: 40 }\n    retry: { tries: 1 }")
    async with opened(tmp_path, text) as ground:
        ground.shop.world.put("/plans/pro", {"label": "Pro"})
        ground.shop.script("POST /charge", failing(503))
        async with ground.engine() as engine:
            run = (await engine.run("five", "k1", name="Aya")).run
            assert (engine.store.run(run).status, engine.store.run(run).at_step) == ("needs_person", "charge")
            pressed = await asyncio.gather(*(engine.act(run, "retry") for _ in range(5)), return_exceptions=True)
            assert [isinstance(one, AlreadySo) for one in pressed].count(True) == 4
            assert (await engine.rest(run)).status == "succeeded"
            assert [view.run for view in engine.store.runs(RunFilter())] == [run]
            events = engine.events(run)
            assert [(one.generation, one.attempt) for one in intents(events, "charge")] == [(0, 1), (1, 1)]
            assert [len(intents(events, step)) for step in ("deal", "log", "ticket")] == [1, 1, 1]
            engine.holds(run)
        assert (ground.asked("/deal"), ground.asked("/charge"), ground.asked("/plans/pro", "GET")) == (1, 2, 1)
        assert ground.effects() == ["/deal", "/log", "/charge", "/ticket"]


async def test_a2_an_answer_after_step_three_repeats_no_step(tmp_path: Path) -> None:
    text = FIVE.replace("  - id: charge", "  - { id: look, hand_off: person:me }\n  - id: charge")
    async with opened(tmp_path, text) as ground:
        ground.shop.world.put("/plans/pro", {"label": "Pro"})
        async with ground.engine() as engine:
            run = (await engine.run("five", "k1", name="Aya")).run
            assert ground.effects() == ["/deal", "/log"]
        async with ground.engine() as engine:
            assert (await engine.order(run, "go_on")).status == "succeeded"
            engine.holds(run)
        assert ground.effects() == ["/deal", "/log", "/charge", "/ticket"]
        assert ground.asked("/plans/pro", "GET") == 1


async def test_a2_nothing_is_sent_again_when_the_engine_begins_anew_at_each_step(tmp_path: Path) -> None:
    text = FIVE.replace("  - id: charge", '  - { id: nap, wait: { until: "${{ now() }}" } }\n  - id: charge')
    async with opened(tmp_path, text) as ground:
        ground.shop.world.put("/plans/pro", {"label": "Pro"})
        ground.shop.script("POST /charge", refused(422, "no"), refused(422, "no"), refused(422, "no"))
        async with ground.engine() as engine:
            run = (await engine.run("five", "k1", name="Aya")).run
        for _ in range(3):
            async with ground.engine() as engine:
                await engine.order(run, "retry")
        async with ground.engine() as engine:
            assert engine.store.run(run).status == "succeeded"
            engine.holds(run)
        assert ground.effects() == ["/deal", "/log", "/charge", "/ticket"]
        keys = [seen.key for seen in ground.shop.requests if seen.path == "/charge"]
        assert len(keys) == 4


TEN = [{"n": f"row{number}"} for number in range(1, 11)]


def ten(name: str, more: str = "", on_failure: str = "review") -> str:
    return flow(
        name,
        f"""  - id: deal
    do: shop.deal
    with: {{ note: before }}
    compensate: {{ cancel: shop.undo_deal, with: {{ note: x, of: "${{{{ output.id }}}}" }} }}
  - id: rows
    each: ${{{{ inputs.rows }}}}
    named: ${{{{ item.n }}}}
{more}    steps:
      - id: charge
        do: shop.charge
        with: {{ note: "${{{{ item.n }}}}" }}
        compensate: {{ cancel: shop.refund, with: {{ note: x, of: "${{{{ output.id }}}}" }} }}
      - id: log
        do: shop.log
        with: {{ note: "${{{{ item.n }}}}" }}
        compensate: {{ none: It only counts. }}
""",
        inputs="{ rows: { list: { n: text } } }",
        on_failure=on_failure,
    )


async def test_a2_a_row_that_fails_once_is_tried_again_and_no_other(tmp_path: Path) -> None:
    async with opened(tmp_path, ten("ten")) as ground, ground.engine() as engine:
        refuse(ground.shop, "/log", ["row7"], failing(503))
        view = await engine.run("ten", "k1", rows=TEN)
        assert view.status == "succeeded"
        assert (notes(ground, "/charge"), notes(ground, "/log")) == ([row["n"] for row in TEN],) * 2
        assert (ground.asked("/deal"), ground.asked("/charge"), ground.asked("/log")) == (1, 10, 11)
        engine.holds(view.run)


async def test_a2_a_person_resumes_a_list_at_the_row_that_failed(tmp_path: Path) -> None:
    """Rows 1 to 6 once, over a restart of the engine; row 7 from its failed step on; then 8 to 10."""
    async with opened(tmp_path, ten("ten")) as ground:
        refuse(ground.shop, "/log", ["row7"])
        async with ground.engine() as engine:
            run = (await engine.run("ten", "k1", rows=TEN)).run
            view = engine.store.run(run)
            assert (view.status, view.at_step) == ("needs_person", "rows/7/log")
            assert notes(ground, "/charge") == [f"row{number}" for number in range(1, 8)]
        async with ground.engine() as engine:
            assert (await engine.order(run, "retry")).status == "succeeded"
            assert len(engine.store.runs(RunFilter())) == 1, "one run with attempts, not several runs"
            assert [one.generation for one in intents(engine.events(run), "rows/7/log")] == [0, 1]
            engine.holds(run)
        assert (notes(ground, "/charge"), notes(ground, "/log")) == ([row["n"] for row in TEN],) * 2
        assert (ground.asked("/deal"), ground.asked("/charge"), ground.asked("/log")) == (1, 10, 11)


async def test_a2_a_row_that_was_set_aside_is_resumed_alone(tmp_path: Path) -> None:
    text = ten("ten", "    at_once: 3\n    if_one_fails: continue\n", "compensate")
    async with opened(tmp_path, text) as ground:
        refuse(ground.shop, "/log", ["row7"])
        async with ground.engine() as engine:
            view = await engine.run("ten", "k1", rows=TEN)
            assert (view.status, view.waiting_for) == ("needs_person", "1 item was set aside: row7.")
            assert ground.asked("/refund") == 1
        async with ground.engine() as engine:
            assert (await engine.order(view.run, "retry", step="rows/7")).status == "succeeded"
            engine.holds(view.run)
        assert (ground.asked("/deal"), ground.asked("/charge"), ground.asked("/log")) == (1, 11, 11)
        assert sorted(notes(ground, "/log")) == sorted(row["n"] for row in TEN)
        counted = Counter(notes(ground, "/charge"))
        assert counted.pop("row7") == 2, "what was taken back is done anew"
        assert set(counted.values()) == {1}
