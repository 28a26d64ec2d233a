"""Cases I2, R3, R5, R7 and R10 with the whole engine: what an answer means, and what is done about it."""

from __future__ import annotations

import gzip
from email.utils import formatdate
from pathlib import Path

import pytest

from runner.clock import HOUR, MachineClock
from runner.core import events as e
from tests.cases.ground import connector, first, flow, intents, kinds_of, opened, until
from tests.support.says import Say, drip, failing, html, late, refused

OK = """  strict:
    writes: EFFECT
    input: { note: text }
    request: { post: /strict, json: { note: "${{ input.note }}", reference: "${{ key }}" } }
    success: ${{ response.json.ok }}
    output: { id: text }
    external_id: ${{ response.json.id }}
    timeout: 1000 ms
    retry: { tries: 3, pause: 20 ms, growth: none }
    cannot_undo: A person takes it back.
"""
SAID = """    failures:
      - { when: "${{ response.json.ok == false }}", is: invalid, say: "${{ response.json.error }}" }
"""
ONCE = OK.replace("EFFECT", "once")
KEYED = OK.replace("EFFECT", "keyed\n    key: { header: Idempotency-Key, life: 1 hour }")
STRICT = flow(
    "strict",
    """  - id: strict
    do: shop.strict
    with: { note: x }
    unattended: It only counts.
    compensate: { hand_off: person:me }
""",
)
POST = flow(
    "post",
    """  - id: post
    do: shop.post
    with: { note: "${{ inputs.name }}" }
    unattended: It only counts.
    accept_order: It may go first.
    compensate: { hand_off: person:me }
  - id: after
    do: shop.log
    with: { note: "${{ steps.post.id }}" }
    compensate: { none: It only counts. }
""",
)
DEAL = POST.replace("flow: post", "flow: deal").replace("shop.post", "shop.deal")
BOOK = POST.replace("flow: post", "flow: book").replace("shop.post", "shop.book")
PLAN = flow(
    "plan", "  - { id: plan, read: shop.plan, with: { code: pro } }\n", outputs='{ label: "${{ steps.plan.id }}" }'
)
TRIP = flow(
    "trip",
    """  - id: charge
    do: shop.charge
    with: { note: x, amount: 1 }
    compensate: { cancel: shop.refund, with: { note: x, of: "${{ output.id }}" } }
  - id: last
    do: shop.ticket
    with: { note: x }
    compensate: { none: It only counts. }
""",
)
NO = Say(status=200, json={"ok": False, "error": "the ledger is closed"}, done=False)


# --- I2 ------------------------------------------------------------------------------------------------------------


async def test_i2_200_with_ok_false_is_not_done_and_a_once_only_call_is_not_sent_again(tmp_path: Path) -> None:
    async with opened(tmp_path, STRICT, text=connector(more=ONCE)) as ground, ground.engine() as engine:
        ground.shop.script("POST /strict", NO)
        view = await engine.run("strict", "k1", name="Aya")
        assert (view.status, ground.asked("/strict")) == ("needs_person", 1)
        seen = first(engine.events(view.run), e.CallUnknown)
        assert "HTTP 200" in seen.evidence
        assert "the ledger is closed" in seen.evidence


async def test_i2_the_same_key_is_sent_again_where_the_service_dedupes(tmp_path: Path) -> None:
    async with opened(tmp_path, STRICT, text=connector(more=KEYED)) as ground, ground.engine() as engine:
        done = Say(json={"ok": True, "id": "strict-1"})
        ground.shop.script("POST /strict", NO, done)
        assert (await engine.run("strict", "k1", name="Aya")).status == "succeeded"
        assert len({seen.key for seen in ground.shop.requests}) == 1


async def test_i2_a_connector_that_knows_the_vendors_words_makes_it_a_clear_no(tmp_path: Path) -> None:
    async with opened(tmp_path, STRICT, text=connector(more=ONCE + SAID)) as ground, ground.engine() as engine:
        ground.shop.script("POST /strict", NO)
        view = await engine.run("strict", "k1", name="Aya")
        assert (view.status, view.summary) == ("failed", "the ledger is closed")
        assert ground.asked("/strict") == 1


@pytest.mark.parametrize(
    "answer",
    [html(), Say(status=204, raw=b""), Say(raw=b'{"id": "po'), Say(status=207, json={"items": [1, 2]}), failing(503, done=True)],
    ids=["a page", "204", "half a body", "207 with rows", "503"],
)  # fmt: skip
async def test_i2_a_success_that_cannot_be_read_goes_to_a_person_and_is_not_retried(
    tmp_path: Path, answer: Say
) -> None:
    text = connector().replace('      - { when: "${{ response.status == 503 }}", is: unavailable }\n', "")
    async with opened(tmp_path, POST, text=text) as ground, ground.engine() as engine:
        ground.shop.script("POST /post", answer)
        view = await engine.run("post", "k1", name="Aya")
        assert (view.status, ground.asked("/post"), ground.asked("/log")) == ("needs_person", 1, 0)
        told = first(engine.events(view.run), e.CallUnknown)
        assert str(answer.status or 201) in told.evidence + told.summary
        engine.holds(view.run)


async def test_i2_503_after_the_record_was_made_is_looked_up(tmp_path: Path) -> None:
    text = connector().replace('      - { when: "${{ response.status == 503 }}", is: unavailable }\n', "")
    async with opened(tmp_path, BOOK, text=text) as ground, ground.engine() as engine:
        ground.shop.script("POST /book", html(503))
        view = await engine.run("book", "k1", name="Aya")
        assert (view.status, ground.asked("/book"), len(ground.made("/book"))) == ("succeeded", 1, 1)
        assert ground.shop.world.effects[-1].body["note"] == "book-1", "what was found is the step's output"
        settled = [one for one in engine.events(view.run) if isinstance(one, e.CallSettled)]
        assert [(one.result, one.by) for one in settled] == [("applied", "lookup")]
        engine.holds(view.run)


async def test_i2_json_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    async with opened(tmp_path, POST) as ground, ground.engine() as engine:
        ground.shop.script("POST /post", Say(status=201, raw=b'\xef\xbb\xbf{"id": "post-9", "note": "x"}'))
        assert (await engine.run("post", "k1", name="Aya")).status == "succeeded"
        assert ground.shop.world.effects[-1].body["note"] == "post-9"


async def test_i2_a_read_is_asked_again_by_the_connectors_own_pauses(tmp_path: Path) -> None:
    async with opened(tmp_path, PLAN) as ground, ground.engine() as engine:
        ground.shop.world.put("/plans/pro", {"label": "Pro"})
        ground.shop.script("GET /plans/pro", html(), failing(500))
        assert (await engine.run("plan", "k1", name="Aya")).status == "succeeded"
        assert ground.asked("/plans/pro", "GET") == 3


# --- R3 ------------------------------------------------------------------------------------------------------------


def asking(retry_after: str, status: int = 429) -> Say:
    return Say(status=status, json={"message": "later"}, headers={"Retry-After": retry_after}, done=False)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        (lambda: "900", 900_000, 900_000),
        (lambda: "0.5", 500, 500),
        (lambda: formatdate(MachineClock().now() / 1000 + 600, usegmt=True), 590_000, 601_000),
        (lambda: "Fri, 31 Dec 2099 23:59:59 GMT", HOUR, HOUR),
        (lambda: "99999999999", HOUR, HOUR),
    ],
    ids=["seconds", "a fraction", "a date", "2099", "a huge number"],
)
async def test_r3_the_wait_a_service_asks_for_is_kept_over_a_restart(
    tmp_path: Path, said: object, least: int, most: int, status: int
) -> None:
    assert callable(said)
    async with opened(tmp_path, DEAL) as ground:
        ground.shop.script("POST /deal", asking(said(), status))
        async with ground.engine() as engine:
            run = await engine.start("deal", "k1", name="Aya")
            await until(lambda: "TimerSet" in kinds_of(engine.events(run)))
            timer = first(engine.events(run), e.TimerSet)
            outcome = first(engine.events(run), e.CallRefused)
            assert least <= timer.due - outcome.at <= most
        if most < 1_000:
            return
        async with ground.engine() as engine:
            assert (await engine.rest(run, patience=0)).status == "waiting"
            assert engine.store.run(run).wake_at == timer.due
            assert ground.asked("/deal") == 1


@pytest.mark.parametrize("said", ["Tue, 01 Jan 2019 00:00:00 GMT", "soon", "-5", "", "nan"])
async def test_r3_a_past_date_and_garbage_do_not_hold_it_up(tmp_path: Path, said: str) -> None:
    async with opened(tmp_path, DEAL) as ground, ground.engine() as engine:
        ground.shop.script("POST /deal", asking(said))
        assert (await engine.run("deal", "k1", name="Aya")).status == "succeeded"
        assert (ground.asked("/deal"), len(ground.made("/deal"))) == (2, 1)


# --- R5 ------------------------------------------------------------------------------------------------------------


async def test_r5_a_slow_drip_ends_at_the_calls_limit(tmp_path: Path) -> None:
    text = connector(limit=400)
    async with opened(tmp_path, POST, text=text) as ground, ground.engine() as engine:
        ground.shop.script("POST /post", drip(200, b'{"id": "' + b"x" * 200 + b'"}'))
        view = await engine.run("post", "k1", name="Aya")
        assert (view.status, ground.asked("/post")) == ("needs_person", 1)
        intent = intents(engine.events(view.run), "post")[0]
        outcome = first(engine.events(view.run), e.CallUnknown)
        assert outcome.reason == "timeout"
        assert outcome.at - intent.at < 1_500


async def test_r5_a_small_answer_that_grows_huge_is_cut_off(tmp_path: Path) -> None:
    async with opened(tmp_path, PLAN, POST) as ground, ground.engine() as engine:
        bomb = Say(status=200, raw=gzip.compress(b" " * 60_000_000), headers={"Content-Encoding": "gzip"})
        ground.shop.script("GET /plans/pro", always=bomb)
        ground.shop.script("POST /post", bomb)
        assert (await engine.run("plan", "k1", name="Aya")).status == "failed"
        view = await engine.run("post", "k2", name="Aya")
        assert (view.status, ground.asked("/post")) == ("needs_person", 1)
        assert "larger than 10 MB" in view.waiting_for


# --- R7 ------------------------------------------------------------------------------------------------------------


async def test_r7_a_conflict_on_an_undo_is_asked_about_and_not_sent_again(tmp_path: Path) -> None:
    async with opened(tmp_path, TRIP) as ground, ground.engine() as engine:
        ground.shop.script("POST /ticket", refused())
        ground.shop.script("POST /refund", refused(409, "it was refunded before"))
        view = await engine.run("trip", "k1", name="Aya")
        assert (view.status, view.at_step, ground.asked("/refund")) == ("needs_person", "charge", 1)
        assert engine.state(view.run).open_handoffs[0].kind == "compensation_unknown"
        assert (await engine.order(view.run, "happened")).status == "compensated"
        assert ground.asked("/refund") == 1
        engine.holds(view.run)


async def test_r7_a_conflict_on_an_undo_that_can_be_looked_up_is_looked_up(tmp_path: Path) -> None:
    text = TRIP.replace("shop.refund", "shop.unbook")
    async with opened(tmp_path, text) as ground, ground.engine() as engine:
        ground.shop.script("POST /ticket", refused())
        ground.shop.script("POST /unbook", Say(status=409, json={"message": "done before"}))
        view = await engine.run("trip", "k1", name="Aya")
        assert (view.status, ground.asked("/unbook"), ground.asked("/unbook", "GET")) == ("compensated", 1, 1)
        engine.holds(view.run)


# --- R10 -----------------------------------------------------------------------------------------------------------


async def test_r10_an_answer_of_4_mb_is_saved_cut_with_a_note_and_not_retried(tmp_path: Path) -> None:
    async with opened(tmp_path, POST, DEAL) as ground:
        huge = {"id": "post-7", "note": "x" * 4_000_000}
        ground.shop.script("POST /post", Say(status=201, json=huge))
        ground.shop.script("POST /deal", Say(status=201, json=huge))
        async with ground.engine() as engine:
            for name, path in (("post", "/post"), ("deal", "/deal")):
                view = await engine.run(name, f"k{name}", name="Aya")
                assert (view.status, ground.asked(path)) == ("succeeded", 1)
                applied = first(engine.events(view.run), e.CallApplied)
                assert applied.external_id == "post-7"
                assert applied.output["id"] == "post-7"
                assert applied.note.startswith("output cut to fit the log: it was 4,000,")
                assert len(applied.output["note"]) < 10_000
                engine.holds(view.run)
        assert {effect.body["note"] for effect in ground.shop.world.effects if effect.path == "/log"} == {"post-7"}


async def test_r10_a_huge_answer_to_a_read_is_kept_whole_beside_the_log(tmp_path: Path) -> None:
    text = flow(
        "plan",
        """  - { id: plan, read: shop.plan, with: { code: pro } }
  - id: after
    do: shop.log
    with: { note: "${{ steps.plan.label | length }}" }
    compensate: { none: It only counts. }
""",
    )
    async with opened(tmp_path, text) as ground:
        ground.shop.world.put("/plans/pro", {"label": "x" * 4_000_000})
        ground.shop.script("POST /log", failing(503), late(1))
        async with ground.engine() as engine:
            view = await engine.run("plan", "k1", name="Aya")
            assert (view.status, ground.asked("/plans/pro", "GET")) == ("succeeded", 1)
            assert ground.shop.world.effects[0].body["note"] == 4_000_000
            engine.holds(view.run)
        if not engine.store.is_shared:  # else it is in a table of its own
            assert len(list((ground.folder / ".amends" / "artifacts").rglob("*"))) == 2
            assert (ground.folder / ".amends" / "amends.db").stat().st_size < 1_000_000
