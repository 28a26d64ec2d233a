"""The pages on real runs: what they show, what their buttons do, and that looking changes nothing."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Sequence

import pytest
from sqlalchemy import text
from starlette.types import Message, Receive, Scope, Send

from runner.core.events import HandOffResolved
from runner.errors import StoreUnwritable
from runner.people.access import new_access
from runner.people.operations import Order
from runner.store.facts import RunFilter
from runner.web.console import Console
from runner.web.picture import bars_of
from runner.web.shell import Shell
from tests.web.ground import Browser, started, words_of

POSTING = """\
flow: posting
title: A parcel for each number
owner: team:ops
mode: live
run_key: ${{ trigger.id }}
inputs: { numbers: { list: integer } }
steps:
  - id: posts
    each: ${{ inputs.numbers }}
    named: no ${{ item }}
    steps:
      - id: parcel
        do: records.create
        with: { collection: parcels, text: "${{ item }}" }
        compensate: { hand_off: team:ops, say: Ask the carrier to bring it back. }
  - { id: pause, wait: 2 days }
"""
LISTING = """\
flow: listing
title: A note for each number
owner: person:tom
mode: live
run_key: ${{ trigger.id }}
inputs: { numbers: { list: integer } }
steps:
  - id: notes
    each: ${{ inputs.numbers }}
    named: no ${{ item }}
    steps:
      - id: note
        do: records.create
        with: { collection: notes, text: "${{ item }}" }
        compensate: cancel
"""


async def rested(console: Console, run: str) -> str:
    await console.driver.engine.rest(run)
    return console.store.run(run).status


def links(text: str) -> Sequence[str]:
    """The addresses that a page leads to."""
    return sorted(set(re.findall(r'href="(/[^"]*)"', text)))


# --- looking -----------------------------------------------------------------------------------------------------------


async def test_every_page_that_is_linked_is_there_and_looking_changes_nothing(console: Console) -> None:
    await started(console, "asking", number="1")
    await started(console, "waiting")
    await started(console, "doubting", key="", record="invoice/7")
    browser = await Browser(console).sign_in("person:tom")

    def rows() -> dict[str, int]:
        names = ("log", "runs", "effects", "handoffs", "quarantine", "access", "texts", "meta")
        return console.store.ask(
            lambda read: (
                {name: read.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in names}
                | {"commits": read.execute(text("SELECT commit_no FROM meta")).scalar_one()}
            )
        )

    before = rows()
    seen, ahead = set(), ["/"]
    while ahead:
        path = ahead.pop()
        if path in seen:
            continue
        seen.add(path)
        answer = await browser.get(path)
        assert answer.status_code == 200, path
        assert "Traceback" not in answer.text
        ahead += links(answer.text.replace("&amp;", "&")) if "html" in answer.headers["content-type"] else []
        assert (await browser.client.head(path)).status_code == 200
    assert len(seen) > 30
    assert rows() == before


async def test_a_page_is_whole_and_named(console: Console) -> None:
    run = await started(console, "asking", number="1")
    browser = await Browser(console).sign_in("person:tom")
    for path in ("/", "/runs", f"/runs/{run}", f"/handoffs/{run}/h1", "/flows", "/people", "/log", "/me"):
        page = (await browser.get(path)).text
        assert page.count("<h1>") == 1, path
        assert re.search(r"<title>[^<]+ · shop</title>", page), path
        assert '<html lang="en">' in page
        assert "style=" not in page
        assert "<script>" not in page
        fields = re.findall(r'<(?:input|select)(?![^>]*type="(?:hidden|checkbox)")[^>]*id="([^"]+)"', page)
        assert all(f'<label for="{field}">' in page for field in fields), path


async def test_what_others_wrote_is_never_markup(console: Console) -> None:
    run = await started(console, "asking", number='<b onmouseover="x()">1</b>\u202e')
    browser = await Browser(console).sign_in("person:tom")
    for path in (f"/runs/{run}", f"/handoffs/{run}/h1", "/handoffs", "/", f"/log/{run}", "/runs"):
        page = (await browser.get(path)).text
        assert "<b onmouseover" not in page, path
        assert "\u202e" not in page or path.startswith("/log"), path


async def test_a_run_tells_what_stands_and_who_must_act(console: Console) -> None:
    run = await started(console, "asking", number="7")
    page = await (await Browser(console).sign_in("person:vera")).get(f"/runs/{run}")
    said = words_of(page)
    assert "Needs a person: team ops must act" in said
    assert "note records.create" in said
    assert "stands" in said
    assert "by Anna Author" in said
    assert "What you can do" not in said, "a viewer has no buttons"
    assert re.search(r'<rect class="bar applied"[^>]*><title>note: call, done, ', page.text)
    assert re.search(r'<rect class="bar person"[^>]*><title>look: team:ops is asked, ', page.text)


async def test_runs_are_filtered_and_paged(console: Console) -> None:
    for number in range(3):
        await started(console, "waiting", key=f"w{number}")
    await started(console, "asking", number="1")
    browser = await Browser(console).sign_in("person:vera")
    assert (await browser.get("/runs")).text.count('href="/runs/2') == 4
    assert (await browser.get("/runs?flow=waiting")).text.count('href="/runs/2') == 3
    assert (await browser.get("/runs?status=needs_person")).text.count('href="/runs/2') == 1
    found = words_of(await browser.get("/runs?record=note/1"))
    assert "A note is made, a person looks at it" in found
    assert "There are no such runs." in (await browser.get("/runs?record=note/2")).text
    newest = console.store.runs(RunFilter())[0].run
    assert (await browser.get(f"/runs?before={newest}")).text.count('href="/runs/2') == 3


async def test_a_list_stands_under_its_own_line_and_long_ones_are_folded(console: Console) -> None:
    (console.amends.folder / "flows" / "listing.yaml").write_text(LISTING, encoding="utf-8")
    short, long = [await started(console, "listing", key=f"n{n}", numbers=list(range(n))) for n in (2, 30)]
    browser = await Browser(console).sign_in("person:vera")
    page = (await browser.get(f"/runs/{short}")).text
    told = re.findall(r'<li class="\w+( deep d\d)?"><time>[^<]*</time> <span class="what"><b>([^<]*)</b>', page)
    assert told == [
        ("", "notes"),
        *[(" deep d1", "no 0"), (" deep d2", "note"), (" deep d1", "no 1"), (" deep d2", "note")],
    ]
    wide, _ = re.findall(r'<svg class="picture".*?</svg>', page, re.DOTALL)
    assert re.findall(r'class="name" x="(\d+)"[^>]*>([^<]*)<', wide) == [
        ("4", "notes"), ("16", "no 0"), ("28", "note"), ("16", "no 1"), ("28", "note"),
    ]  # fmt: skip
    assert re.findall(r'class="name" x="4"[^>]*>([^<]*)<', page) == ["notes"] * 2, "wide and narrow"
    assert "no 12" not in page
    said = words_of(await browser.get(f"/runs/{long}"))
    assert "30 items: all done." in said
    assert "notes › note records.create (30 in all) done" in said
    one = words_of(await browser.get(f"/runs/{long}?of=notes&item=13"))
    assert "no 12 Done." in one
    assert "no 11" not in one


async def test_what_keeps_runs_from_going_on_stands_on_every_page(console: Console) -> None:
    vera, mia = [await Browser(console).sign_in(f"person:{who}") for who in ("vera", "mia")]
    assert 'role="alert"' not in (await vera.get("/runs")).text
    reading = console.amends.store
    reading._floor, before = 10**18, reading._floor
    said = words_of(await vera.get("/runs"))
    assert re.search(r"Only [\d.]+ \wB are free on the disk of \S+amends.db: no new run is started", said)
    assert "are free" not in words_of(await mia.get("/")), "it is nothing to somebody who has no role"
    reading._floor = before
    with sqlite3.connect(console.store.name) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnwritable):
            await started(console, "waiting")
    other.close()
    said = words_of(await vera.get("/runs"))
    assert "Nothing can be written now, so no run goes on until it can: " in said
    assert "has been locked by another program" in said
    await started(console, "waiting")
    assert "Nothing can be written" not in words_of(await vera.get("/runs"))


# --- orders ------------------------------------------------------------------------------------------------------------


async def test_exactly_the_possible_orders_have_buttons(console: Console) -> None:
    run = await started(console, "waiting")
    browser = await Browser(console).sign_in("person:olga")

    async def offered() -> set[str]:
        return set(re.findall(rf"/runs/{run}/order/(\w+)", (await browser.get(f"/runs/{run}")).text))

    assert await offered() == {"pause", "stop", "stop_compensate"} or await offered() == {"pause", "stop", "compensate"}
    assert (await browser.press(f"/runs/{run}", f"/runs/{run}/order/pause")).status_code == 303
    assert "resume" in await offered()
    again = await browser.press(f"/runs/{run}", f"/runs/{run}/order/pause")
    assert again.status_code in (303, 409)
    assert (await browser.press(f"/runs/{run}", f"/runs/{run}/order/resume")).status_code == 303
    asked = words_of(await browser.get(f"/runs/{run}/order/stop"))
    assert "The run ends here, and what stands is listed" in asked
    done = await browser.press(f"/runs/{run}/order/stop", reason="enough")
    assert done.headers["location"] == f"/runs/{run}?said=stop"
    assert await rested(console, run) == "stopped"
    assert "enough" in words_of(await browser.get(f"/runs/{run}"))
    assert await offered() == {"compensate", "take_over"}
    assert (await browser.get(f"/runs/{run}/order/pause")).status_code == 409
    assert (await browser.get(f"/runs/{run}/order/dance")).status_code == 404


async def test_making_good_is_shown_before_it_is_done(console: Console) -> None:
    run = await started(console, "waiting")
    browser = await Browser(console).sign_in("person:olga")
    page = (await browser.get(f"/runs/{run}")).text
    name = "compensate" if "/order/compensate" in page else "stop_compensate"
    said = words_of(await browser.get(f"/runs/{run}/order/{name}"))
    assert "What will be made good, in this order note (" in said
    assert "stays, and is marked (records.update)" in said
    await browser.press(f"/runs/{run}/order/{name}")
    assert await rested(console, run) == "compensated"
    assert "stays, marked" in words_of(await browser.get(f"/runs/{run}"))
    anew = await browser.press(f"/runs/{run}/order/rerun")
    other = anew.headers["location"].partition("?")[0].removeprefix("/runs/")
    assert other != run
    assert console.store.run(other).rerun == 1
    old = await browser.get(f"/runs/{run}")
    assert (f"It was started anew: {other}" in words_of(old), "/order/rerun" in old.text) == (True, False)
    for again in (
        await browser.get(f"/runs/{run}/order/rerun"),
        await browser.press("/me", f"/runs/{run}/order/rerun"),
    ):
        assert again.headers["location"] == f"/runs/{other}?said=joined"


async def test_an_open_question_comes_before_the_orders(console: Console) -> None:
    run = await started(console, "asking", number="7")
    browser = await Browser(console).sign_in("person:olga")
    page = (await browser.get(f"/runs/{run}")).text.partition("What you can do")[2]
    assert page.index(f'href="/handoffs/{run}/h1">Answer the question first') < page.index("/order/")


async def test_a_refusal_keeps_the_way_to_the_other_pages(console: Console) -> None:
    vera, nobody = await Browser(console).sign_in("person:vera"), Browser(console)
    for path in ("/people/invite", "/runs/none", "/arrivals/one?flow=a&source=b&id=c"):
        page = await vera.get(path)
        assert (page.status_code in (403, 404, 405), 'href="/runs"' in page.text) == (True, True), path
    assert 'href="/runs"' not in (await nobody.get("/review/none")).text


# --- hand-offs ---------------------------------------------------------------------------------------------------------


async def test_the_owner_answers_from_the_page(console: Console) -> None:
    run = await started(console, "asking", number="7", name="Keiko")
    vera = await Browser(console).sign_in("person:vera")
    for path in (f"/runs/{run}?reveal=1", f"/handoffs/{run}/h1?reveal=1", f"/log/{run}", "/runs", "/handoffs"):
        assert "Keiko" not in (await vera.get(path)).text, path
    mia = await Browser(console).sign_in("person:mia")
    assert f"/handoffs/{run}/h1" in (await mia.get("/")).text
    packet = words_of(await mia.get(f"/handoffs/{run}/h1"))
    assert "Is note 7 right for •••?" in packet
    assert "Keiko" not in packet + words_of(await mia.get("/")) + words_of(await mia.get("/handoffs"))
    assert "Is note 7 right for Keiko?" in words_of(await mia.get(f"/handoffs/{run}/h1?reveal=1"))
    assert "What stands outside now note records.create" in packet
    assert (await mia.get(f"/runs/{run}")).status_code == 403, "what is asked of her is all she sees"
    seen = await mia.press(f"/handoffs/{run}/h1", f"/handoffs/{run}/h1/acknowledge")
    assert seen.headers["location"] == f"/handoffs/{run}/h1?said=seen"
    assert "Mia Member is looking at it" in words_of(await mia.get(f"/handoffs/{run}/h1"))
    asked = words_of(await mia.get(f"/handoffs/{run}/h1/go_on"))
    assert "What comes after it more Adds a record to one of our own tables" in asked
    assert "Handed to team ops (h1)" in packet, "people have their names in what happened too"
    answer = await mia.press(f"/handoffs/{run}/h1/go_on", reason="I looked")
    assert answer.headers["location"] == f"/handoffs/{run}/h1?said=go_on"
    assert await rested(console, run) == "succeeded"
    after = words_of(await mia.get(f"/handoffs/{run}/h1?said=go_on"))
    assert "Answered by Mia Member: go on" in after
    again = await mia.post(f"/handoffs/{run}/h1/close", {"csrf": await mia.token("/me")})
    assert (again.status_code, "This is answered already: go on" in words_of(again)) == (409, True)


async def test_alike_questions_are_answered_with_a_second_button(console: Console) -> None:
    (console.amends.folder / "flows" / "posting.yaml").write_text(POSTING, encoding="utf-8")
    run = await started(console, "posting", numbers=[1, 2, 3, 4])
    await console.act(run, Order(action="stop_compensate", by="person:olga"))
    assert len(console.store.handoffs(run=run)) == 4
    mia = await Browser(console).sign_in("person:mia")
    asked = await mia.get(f"/handoffs/{run}/h2/done")
    said = words_of(asked)
    assert "Put right by hand: this one and the 3 others like it" in said
    assert "Questions like this one posts › no 4 › parcel" in said
    assert "this one and" not in words_of(await mia.get(f"/handoffs/{run}/h2/take_over")), "that is of the run"
    [others] = re.findall(r'name="alike" value="([^"]*)"', asked.text)
    assert others == "h1 h3 h4"
    bare = await mia.press(f"/handoffs/{run}/h2/done", alike=others)
    assert (bare.status_code, "Say why" in words_of(bare)) == (422, True)
    await console.act(run, Order(action="stands", by="person:olga", handoff="h3", reason="It is lost."))
    answer = await mia.press(f"/handoffs/{run}/h2/done", reason="It is back.", alike=f"{others} h9")
    assert answer.headers["location"] == f"/handoffs/{run}/h2?said=done"
    told = [row.event for row in console.store.log(run) if isinstance(row.event, HandOffResolved)]
    given = {event.handoff: (event.choice, event.by) for event in told}
    by_mia = ("done", "person:mia")
    assert given == {"h1": by_mia, "h2": by_mia, "h3": ("stands", "person:olga"), "h4": by_mia}
    assert await rested(console, run) == "closed"


async def test_others_cannot_answer(console: Console) -> None:
    run = await started(console, "asking", number="7")
    browser = Browser(console)
    for person in ("person:paul", "person:vera", "person:anna"):
        browser = await Browser(console).sign_in(person)
        fields = {"csrf": await browser.token("/me")}
        for choice in ("go_on", "close", "acknowledge"):
            assert (await browser.post(f"/handoffs/{run}/h1/{choice}", fields)).status_code == 403
    assert console.store.run(run).status == "needs_person"
    assert (await browser.get(f"/handoffs/{run}/h1/dance")).status_code == 403
    olga = await Browser(console).sign_in("person:olga")
    assert (await olga.get(f"/handoffs/{run}/h1/dance")).status_code == 404
    assert (await olga.get(f"/handoffs/{run}/h9")).status_code == 404


# --- quarantine, people, log, flows --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "status"), [("release", "released"), ("discard", "discarded")])
async def test_what_is_set_aside_is_decided(word: str, status: str, console: Console) -> None:
    run = await started(console, "doubting", key="", record="invoice/7")
    browser = await Browser(console).sign_in("person:olga")
    assert "The amounts differ amount: 12" in words_of(await browser.get("/quarantine"))
    page = f"/quarantine/{run}/{word}?record=invoice/7"
    assert "invoice/7" in words_of(await browser.get(page))
    done = await browser.press(page, record="invoice/7", reason="it was right")
    assert done.status_code == 303
    [row] = console.store.quarantined(open_only=False)
    assert (row.status, row.answered_by) == (status, "person:olga")
    assert "Nothing is set aside." in (await browser.get("/quarantine")).text
    assert (await browser.get(page)).status_code == 404
    assert not console.store.verify()


async def test_an_admin_invites_and_ends(console: Console) -> None:
    tom = await Browser(console).sign_in("person:tom")
    page = (await tom.press("/people", "/people/invite", person="vera")).text
    link = re.search(r"http://127\.0\.0\.1:8484(/enter/[\w-]+)", page)
    assert link is not None
    vera = Browser(console)
    assert (await vera.press(link[1])).headers["location"] == "/me"
    assert (await tom.press("/people", "/people/invite", person="nobody")).status_code == 404
    [session] = [row for row in console.store.ask(lambda read: listed(read, console)) if row[0] == "person:vera"]
    await tom.press("/people", "/people/end", which=session[1])
    assert (await vera.get("/")).status_code == 303


def listed(read: object, console: Console) -> list[tuple[str, str]]:
    rows = read.execute(text("SELECT person, digest FROM access WHERE kind = 'visit'"))  # type: ignore[attr-defined]
    return [(row.person, row.digest) for row in rows]


async def test_the_log_is_checked_by_a_button(console: Console) -> None:
    run = await started(console, "waiting")
    browser = await Browser(console).sign_in("person:vera")
    assert "Every chain holds." in (await browser.press("/log")).text
    with sqlite3.connect(console.store.name) as forger:
        forger.execute("UPDATE log SET external_id = 'forged' WHERE run_id = ? AND seq = 2", (run,))
    forger.close()
    said = words_of(await browser.press("/log"))
    assert "1 fault: this log was changed after it was written." in said
    assert f"{run}, entry 2" in said


async def test_a_key_that_nobody_has_named_is_not_called_a_change(console: Console) -> None:
    await started(console, "waiting")
    await console.driver.anchor()
    browser, own = await Browser(console).sign_in("person:vera"), console.store.own_key
    console.store.own_key = "ab" * 32
    said = words_of(await browser.press("/log"))
    assert "This log is not proved whole: it is signed with keys that nobody has named." in said
    assert "was changed after" not in said
    (console.amends.folder / "amends.yaml").write_text(f"anchors: {{ keys: ['{own}'] }}\n", encoding="utf-8")
    console.look_anew()
    assert "Every chain holds." in words_of(await browser.press("/log"))


async def test_a_flow_is_drawn_with_its_compensations(console: Console) -> None:
    browser = await Browser(console).sign_in("person:vera")
    said = words_of(await browser.get("/flows/waiting"))
    assert "do note" in said
    assert "if a later step fails: mark it for a person: records.update" in said
    assert "wait pause Waits 2 days" in said


async def test_a_run_s_page_shows_how_far_it_is(console: Console) -> None:
    run = await started(console, "waiting")
    browser = await Browser(console).sign_in("person:vera")
    page = (await browser.get(f"/runs/{run}")).text
    drawn = page.partition('data-live="flow"')[2].partition("</svg>")[0]
    assert re.findall(r'<g class="\w+ is-(\w+)">.*?class="id">(\w+)<', drawn) == [
        ("done", "note"),
        ("waiting", "pause"),
    ]


async def test_the_picture_of_a_run_fits_a_telephone(console: Console) -> None:
    run = await started(console, "asking", number="7", name="Aya")
    browser = Browser(console)
    await browser.sign_in("person:tom")
    page = (await browser.get(f"/runs/{run}")).text
    wide, narrow = re.findall(r'<svg class="picture" viewBox="0 0 (\d+) (\d+)".*?</svg>', page, re.DOTALL)
    assert (wide[0], narrow[0]) == ("880", "350")
    drawn = re.findall(r'<svg class="picture".*?</svg>', page, re.DOTALL)[1]
    assert page.index('class="when-narrow over-time"') < page.index(drawn)
    assert page.count('class="scroll" tabindex') == 1, "only the wide one is scrolled"
    bars = re.findall(r'<rect class="bar [^"]+" x="([\d.]+)" y="(\d+)" width="([\d.]+)"', drawn)
    names = re.findall(r'<text class="name" x="\d+" y="(\d+)">', drawn)
    assert bars
    assert all(float(x) + float(width) <= 350 for x, _, width in bars)
    assert {int(y) for y in names} == {int(y) - 6 for _, y, _ in bars}, "a name stands above its bars"


async def test_a_flow_s_page_tells_its_next_slots(console: Console) -> None:
    flow = console.amends.folder / "flows" / "waiting.yaml"
    trigger = "trigger: { schedule: every day at 12:30, zone: Asia/Tokyo }\nsteps:"
    flow.write_text(flow.read_text(encoding="utf-8").replace("steps:", trigger, 1), encoding="utf-8")
    browser = await Browser(console).sign_in("person:vera")
    shown = words_of(await browser.get("/flows/waiting"))
    assert re.search(r"every day at 12:30 \(Asia/Tokyo\)\): (\d{4}-\d\d-\d\d 12:30 \+09:00(; )?){3} ", shown)


async def test_a_run_is_started_from_the_form(console: Console) -> None:
    browser = await Browser(console).sign_in("person:anna")
    wrong = await browser.press("/flows/asking/start")
    assert (wrong.status_code, 'aria-invalid="true"' in wrong.text) == (422, True)
    fields = {"input.number": "9", "key": "mine"}
    begun = await browser.press("/flows/asking/start", **fields)
    assert begun.headers["location"].endswith("?said=started")
    run = begun.headers["location"].partition("?")[0].removeprefix("/runs/")
    assert console.store.run(run).starter == "person:anna"
    again = await browser.press("/flows/asking/start", **fields)
    assert again.headers["location"] == f"/runs/{run}?said=joined"
    other = await browser.press("/flows/asking/start", **{**fields, "input.number": "10"})
    assert (other.status_code, "came before with other content" in words_of(other)) == (422, True)


# --- the API -----------------------------------------------------------------------------------------------------------


async def test_programs_start_look_and_order(console: Console) -> None:
    secret, row = new_access("token", "person:olga", now=console.now, name="ci")
    await console.driver.admit(row)
    client = Browser(console).client
    client.headers["authorization"] = f"Bearer {secret}"
    paths = (await client.get("/api/v1/openapi.json")).json()["paths"]
    known = (
        "runs",
        "starts",
        "runs/{run}",
        "runs/{run}/orders",
        "events/{name}",
        "handoffs",
        "approvals",
        "approvals/{run}",
    )
    assert set(paths) == {f"/api/v1/{path}" for path in known}
    made = await client.post("/api/v1/runs", json={"flow": "asking", "inputs": {"number": "7"}, "key": "a"})
    assert (made.status_code, made.json()["joined"], made.json()["starter"]) == (201, False, "person:olga")
    run = made.json()["run"]
    assert (await client.post("/api/v1/runs", json={"flow": "asking", "inputs": {"number": "7"}, "key": "a"})).json()[
        "joined"
    ]
    other = await client.post("/api/v1/runs", json={"flow": "asking", "inputs": {"number": "8"}, "key": "a"})
    assert (other.status_code, "other content" in other.json()["error"]) == (409, True)
    wrong = await client.post("/api/v1/runs", json={"flow": "asking"})
    assert (wrong.status_code, set(wrong.json()["fields"])) == (422, {"number"})
    assert (await client.post("/api/v1/runs", json={"flow": "asking", "colour": 1})).status_code == 422
    await rested(console, run)
    shown = (await client.get(f"/api/v1/runs/{run}")).json()
    assert shown["handoffs"][0]["handoff"] == "h1"
    assert shown["effects"][0]["step"] == "note"
    assert [each["run"] for each in (await client.get("/api/v1/runs?status=needs_person")).json()] == [run]
    order = {"action": "go_on", "handoff": "h1", "reason": "checked"}
    assert (await client.post(f"/api/v1/runs/{run}/orders", json=order)).status_code == 200
    assert await rested(console, run) == "succeeded"
    late = await client.post(f"/api/v1/runs/{run}/orders", json={"action": "pause"})
    assert (late.status_code, "error" in late.json()) == (409, True)
    assert (await client.get("/api/v1/handoffs")).json() == []


async def test_a_session_is_no_token_and_a_viewer_s_token_gives_no_orders(console: Console) -> None:
    run = await started(console, "waiting")
    browser = await Browser(console).sign_in("person:tom")
    assert (await browser.get("/api/v1/runs")).status_code == 401
    secret, row = new_access("token", "person:vera", now=console.now)
    await console.driver.admit(row)
    client = Browser(console).client
    for header in ("", "Basic abc", "Bearer", "Bearer wrong"):
        assert (await client.get("/api/v1/runs", headers={"authorization": header})).status_code == 401
    client.headers["authorization"] = f"Bearer {secret}"
    assert (await client.get("/api/v1/runs")).status_code == 200
    order = await client.post(f"/api/v1/runs/{run}/orders", json={"action": "stop"})
    assert (order.status_code, console.store.run(run).status) == (403, "waiting")


# --- live --------------------------------------------------------------------------------------------------------------


async def test_those_who_look_on_are_told(console: Console) -> None:
    run = await started(console, "asking", number="1")
    feed = console.feed
    assert not await feed.changed(run, 0.01)
    of_run, of_any, of_other = (asyncio.create_task(feed.changed(one, 5)) for one in (run, "", "other"))
    await asyncio.sleep(0)
    browser = await Browser(console).sign_in("person:olga")
    await browser.press(f"/handoffs/{run}/h1/go_on")
    assert await of_run
    assert await of_any
    feed.close()
    assert not await of_other
    assert not list(bars_of([], 0))


async def test_many_runs_are_started_in_one_request(console: Console) -> None:
    """One that does not fit, or that another run stands for, takes no other with it."""
    secret, row = new_access("token", "person:olga", now=console.now, name="ci")
    await console.driver.admit(row)
    client = Browser(console).client
    client.headers["authorization"] = f"Bearer {secret}"
    numbers = [("a", "1"), ("b", "2"), ("a", "1"), ("c", 3), ("b", "4")]
    asked = {"flow": "asking", "runs": [{"key": key, "inputs": {"number": number}} for key, number in numbers]}
    before = console.store.about()["commits"]
    made = await client.post("/api/v1/starts", json=asked)
    first, second, joined, wrong, other = made.json()
    assert made.status_code == 200
    assert (first["joined"], second["joined"], joined) == (False, False, {"run": first["run"], "joined": True})
    assert list(wrong["fields"]) == ["number"]
    assert "came before with other content" in other["error"]
    assert console.store.about()["commits"] >= before + 1
    assert {run.run for run in console.store.runs(RunFilter(flow="asking"))} == {first["run"], second["run"]}
    again = await client.post("/api/v1/starts", json=asked)
    assert [one.get("joined") for one in again.json()] == [True, True, True, None, None]
    assert console.store.verify() == []


async def test_a_request_goes_by_the_files_as_they_are(console: Console) -> None:
    """Whatever was looked at in the same round of the loop before it came."""
    seen: list[str] = []

    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(console.people.people["tom"].name)

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    assert console.people.people["tom"].name == "Tom Ito"
    file = console.amends.folder / "people.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("Tom Ito", "Tomas Ito"), encoding="utf-8")
    headers = [(b"host", next(iter(console.hosts)).encode())]
    scope = {"type": "http", "method": "GET", "path": "/runs", "headers": headers}
    await Shell(inside, console)(scope, receive, send)
    assert seen == ["Tomas Ito"]
