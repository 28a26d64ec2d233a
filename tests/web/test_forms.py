"""Forms: what is sent becomes one run, what is wrong comes back with all that was typed, and robots get tired."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextvars import Context
from hashlib import sha256
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from runner.clock import DAY
from runner.people.access import new_password
from runner.people.holds import Hold
from runner.people.operations import Order
from runner.store.arrivals import listed
from runner.store.log import SITE
from runner.tongue import LANGUAGES
from runner.triggers.formdesk import OF_ONE
from runner.web.application import application
from runner.web.console import Console
from runner.web.forms import TRAP
from runner.web.guard import FILLER, Guard
from tests.web.filling import ASK, FLOWS, GIVEN, PDF, Filler, began, office, runs_of, wrong_in
from tests.web.ground import Browser, words_of


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with office(tmp_path / "acme") as made:
        yield made


async def test_a_form_with_everything_becomes_a_run(console: Console) -> None:
    filler = await Filler(console, "expense").open()
    stamp = filler.hidden["stamp"]
    answer = await filler.send(GIVEN, {"in.receipt": PDF})
    assert answer.status_code == 303, words_of(answer)
    event = began(console)
    digest = sha256(PDF[1]).hexdigest()
    assert event.inputs == {
        "name": "佐藤 綾", "mail": "aya@acme.test", "amount": {"value": 12000, "currency": "JPY"}, "day": "2026-09-01",
        "agree": True, "plan": "pro", "note": None, "lines": [{"sku": "A-1", "qty": 2}],
        "receipt": {"name": "領収書.pdf", "size": len(PDF[1]), "kind": "pdf", "sha256": digest},
    }  # fmt: skip
    assert (event.trigger["form"], event.starter) == ("expense", "")
    assert event.trigger["id"] in stamp
    assert console.store.artifacts.get(digest) == PDF[1]
    assert not console.forms.uploads.has(digest), "nothing is left where erasing does not look"
    thanks = await filler.browser.get(answer.headers["location"])
    for _ in range(3):
        assert event.run in words_of(thanks)
        thanks = await filler.browser.get(answer.headers["location"])
    assert len(runs_of(console)) == 1
    assert (await filler.browser.get("/forms/expense/send")).headers["location"] == "/forms/expense"
    odd = await filler.browser.get("/forms/expense/thanks?reference=buy.now")
    assert (odd.status_code, "buy" in odd.text) == (200, False)


async def test_every_problem_comes_back_at_its_field_with_what_was_typed(console: Console) -> None:
    filler = await Filler(console, "expense").open()
    typed = {
        **GIVEN, "in.mail": 'aya"><b>', "in.amount": "12.5", "in.day": "soon", "in.agree": "", "in.lines.0.qty": "x",
        "in.note": "one\r\n<two>",
    }  # fmt: skip
    page = await filler.send(typed, {"in.receipt": ("a.pdf", b"MZ\x90", "application/pdf")})
    assert page.status_code == 422
    assert wrong_in(page) == {
        "mail": 'The text "aya"><b>" is not one bare mail address: write it as name@example.test.',
        "amount": "12.5 JPY is not an amount: JPY has no decimals.",
        "day": 'The text "soon" is not a date: write it as 2026-09-01.',
        "agree": "Please fill this in.", "lines.0.qty": 'The text "x" is not a number.',
        "receipt": 'The content of "a.pdf" is not what its name says.',
    }  # fmt: skip
    summary = re.findall(r'<li><a href="#(in-[\w-]+)">(.*?)</a>', page.text)
    assert summary[4] == ("in-lines-0-qty", "明細 1 Qty")
    assert {anchor for anchor, _ in summary} == {f"in-{place.replace('.', '-')}" for place in wrong_in(page)}
    assert all(f'id="{anchor}"' in page.text for anchor, _ in summary)
    kept = filler.hidden
    assert {name: kept[name] for name in typed if name != "in.agree"} == {
        **{name: value for name, value in typed.items() if name != "in.agree"}, "in.note": "one\n<two>",
    }  # fmt: skip
    assert "<b>" not in page.text
    assert runs_of(console) == []
    right = {"in.mail": "a@acme.test", "in.amount": "12", "in.day": "2026/9/1", "in.agree": "no", "in.lines.0.qty": "1"}
    assert (await filler.send(right)).status_code == 303
    assert began(console).inputs["day"] == "2026-09-01"


async def test_a_file_that_was_chosen_stays_chosen(console: Console) -> None:
    filler = await Filler(console, "expense").open()
    page = await filler.send({**GIVEN, "in.amount": ""}, {"in.receipt": PDF})
    assert (page.status_code, wrong_in(page)) == (422, {"amount": "Please fill this in."})
    assert "Chosen: 領収書.pdf" in words_of(page)
    digest = sha256(PDF[1]).hexdigest()
    assert not console.store.artifacts.has(digest), "it waits elsewhere until the form is a run"
    forged = {**filler.hidden, "file.receipt": filler.hidden["file.receipt"].replace("2", "3"), "in.amount": "1"}
    assert (await filler.post(forged)).status_code == 303
    assert began(console).inputs["receipt"] is None, "a receipt of somebody's making is none"
    again = await Filler(console, "expense").open()
    await again.send({**GIVEN, "in.amount": ""}, {"in.receipt": PDF})
    dropped = await again.send({"do": "drop:receipt"})
    assert "領収書.pdf" not in dropped.text
    await again.send({"do": ""}, {"in.receipt": PDF})
    assert (await again.send({"in.amount": "1"})).status_code == 303
    assert console.store.artifacts.has(digest)


async def test_a_page_with_a_file_that_is_sent_again_joins_its_run(console: Console) -> None:
    filler = await Filler(console, "expense").open()
    await filler.send({**GIVEN, "in.amount": ""}, {"in.receipt": PDF})
    fields = {**filler.hidden, "in.amount": "1"}
    answers = await asyncio.gather(*(filler.post(fields) for _ in range(8)))
    assert {answer.status_code for answer in answers} == {303}
    assert began(console).inputs["receipt"]["name"] == "領収書.pdf"


async def test_what_is_typed_is_never_evaluated(console: Console) -> None:
    filler = await Filler(console, "ask").open()
    await filler.send({"in.name": "${{ 1 + 1 }} {{ 7*7 }} {% if x %}"})
    run = began(console)
    await console.driver.engine.rest(run.run)
    assert run.inputs["name"] == "${{ 1 + 1 }} {{ 7*7 }} {% if x %}"
    assert console.store.run(run.run).status == "succeeded"


async def test_a_file_that_waited_too_long_is_asked_for_again(console: Console) -> None:
    filler = await Filler(console, "expense").open()
    await filler.send({**GIVEN, "in.amount": ""}, {"in.receipt": PDF})
    (console.store.artifacts.root.parent / "uploads" / sha256(PDF[1]).hexdigest()).unlink()
    page = await filler.send({"in.amount": "1"})
    assert wrong_in(page) == {"receipt": "Please choose the file once more."}


async def test_rows_come_and_go_and_everything_typed_stays(console: Console) -> None:
    filler = await Filler(console, "expense").open()
    page = await filler.send({**GIVEN, "in.lines.1.sku": "B", "do": "add:lines"}, {"in.receipt": PDF})
    assert (page.status_code, page.text.count('class="row"'), wrong_in(page)) == (200, 3, {})
    page = await filler.send({"do": "drop:lines.0"})
    kept = filler.hidden
    assert (kept["rows.lines"], kept["in.lines.0.sku"], kept["in.name"], kept["in.plan"]) == (
        "2",
        "B",
        "佐藤 綾",
        "pro",
    )
    assert "Chosen: 領収書.pdf" in words_of(page)
    assert (await filler.send({"in.lines.0.qty": "4", "in.agree": "yes", "do": ""})).status_code == 303
    assert began(console).inputs["lines"] == [{"sku": "B", "qty": 4}]


# --- once ----------------------------------------------------------------------------------------------------------


async def test_one_page_sent_two_hundred_times_at_once_is_one_run(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.forms, "is_crowded", lambda *_told: False)
    filler = await Filler(console, "ask").open()
    fields = {**filler.hidden, "in.name": "Ben"}
    answers = await asyncio.gather(*(filler.post(fields) for _ in range(200)))
    assert {answer.status_code for answer in answers} == {303}
    assert len({answer.headers["location"] for answer in answers}) == 1
    assert len(runs_of(console)) == 1
    other = await Filler(console, "ask").open()
    await other.send({"in.name": "Ben"})
    assert len(runs_of(console)) == 2, "another page is another one"


async def test_the_same_page_with_other_content_is_told_and_can_be_sent_as_another(console: Console) -> None:
    filler = await Filler(console, "ask").open()
    first = filler.hidden
    await filler.post({**first, "in.name": "Ben"})
    run = began(console).run
    filler.page = await filler.post({**first, "in.name": "Bea"})
    assert (filler.page.status_code, filler.hidden["in.name"]) == (409, "Bea")
    assert f"The reference of what was sent before: {run}." in words_of(filler.page)
    assert [one.status for one in console.store.ask(listed())].count("conflict") == 1
    assert (await filler.send()).status_code == 303
    assert {began(console, view.run).inputs["name"] for view in runs_of(console)} == {"Ben", "Bea"}


async def test_a_page_about_what_is_known_already_says_so(tmp_path: Path) -> None:
    keyed = ASK.replace("${{ trigger.id }}", "${{ inputs.name }}")
    async with office(tmp_path / "acme", {"ask": keyed}) as console:
        await (await Filler(console, "ask").open()).send({"in.name": "A-2"})
        page = await (await Filler(console, "ask").open()).send({"in.name": "A-2", "in.mail": "kato@customer.test"})
        assert page.status_code == 409
        assert "There is a request about this already, and it says something else." in words_of(page)
        assert ("sent before" in page.text, len(runs_of(console))) == (False, 1)


async def test_a_page_about_a_run_that_did_not_go_through_says_so_and_starts_nothing(tmp_path: Path) -> None:
    """The same values on a new page: its run was closed, so nothing is thanked for and the owner's page says why."""
    asking = ASK.replace("${{ trigger.id }}", "${{ inputs.mail }}").replace("email or empty", "email")
    asking = asking.replace("steps:\n", "steps:\n  - { id: look, hand_off: person:tom, say: Is it right? }\n")
    values = {"in.name": "Kei", "in.mail": "kei@home.test"}
    asking = asking.replace("mail: email", "mail: { email: null, personal: true }")
    async with office(tmp_path / "acme", {"ask": asking}) as console:
        await (await Filler(console, "ask").open()).send(values)
        (run,) = runs_of(console)
        await console.driver.engine.rest(run.run)
        again = await (await Filler(console, "ask").open()).send(values)
        assert (again.status_code, run.run in words_of(await Browser(console).get(again.headers["location"]))) == (
            303,
            True,
        )
        await console.act(run.run, Order(action="close", by="person:tom", reason="by hand"))
        filler = await Filler(console, "ask").open()
        page = await filler.send(values)
        assert (page.status_code, filler.hidden["in.name"]) == (409, "Kei")
        assert "There was a request about this already, and it did not go through." in words_of(page)
        assert (await filler.post(filler.hidden)).status_code == 409, "as often as it is sent"
        rows = console.store.ask(listed())
        assert [(row.status, row.run) for row in rows] == [("joined", run.run), *[("started", run.run)] * 2]
        assert "so nothing was started" in rows[0].why
        assert '"Kei"' in rows[0].content
        assert len(runs_of(console)) == 1
        other = await (await Filler(console, "ask").open()).send({**values, "in.name": "Ken"})
        assert other.status_code == 409
        arrived = console.store.ask(listed(status=("conflict",)))[0]
        assert "belongs to run" in arrived.why
        assert "kei@home.test" not in arrived.why + str(console.store.log(SITE)), "a key may be personal"


async def test_a_form_of_two_flows_starts_both(tmp_path: Path) -> None:
    second = ASK.replace("flow: ask", "flow: also").replace("mail: email or empty", "size: integer")
    filled = ASK.replace("flow: ask", "flow: web").replace(
        "{ form: ask }", "{ form: ask, fill: { mail: w@acme.test } }"
    )
    async with office(tmp_path / "acme", {"ask": ASK, "also": second, "web": filled}) as console:
        filler = await Filler(console, "ask").open()
        assert wrong_in(await filler.send({"in.name": "Ben"})) == {"size": "Please fill this in."}
        assert (await filler.send({"in.size": "3"})).status_code == 303
        events = {view.flow: began(console, view.run).inputs for view in runs_of(console)}
        assert events == {
            "ask": {"name": "Ben", "mail": None}, "also": {"name": "Ben", "size": 3},
            "web": {"name": "Ben", "mail": "w@acme.test"},
        }  # fmt: skip


async def test_what_only_if_leaves_out_is_thanked_for_and_kept(tmp_path: Path) -> None:
    only = ASK.replace("{ form: ask }", "{ form: ask, only_if: \"${{ fields.name != 'Ben' }}\" }")
    async with office(tmp_path / "acme", {"ask": only}) as console:
        filler = await Filler(console, "ask").open()
        answer = await filler.send({"in.name": "Ben"})
        assert answer.headers["location"] == "/forms/ask/thanks"
        assert "Your reference" not in words_of(await filler.browser.get(answer.headers["location"]))
        assert [one.status for one in console.store.ask(listed())] == ["ignored"]
        assert runs_of(console) == []


# --- robots and strangers ------------------------------------------------------------------------------------------


async def test_a_program_that_fills_in_everything_or_is_too_quick_is_asked_again(console: Console) -> None:
    filler = await Filler(console, "ask").open()
    page = await filler.send({"in.name": "Ben", TRAP: "https://spam.test"})
    assert (page.status_code, "very quick" in page.text, filler.hidden[TRAP]) == (409, True, "")
    console.forms.quickest = 60_000
    assert (await filler.send()).status_code == 409
    assert runs_of(console) == []
    console.forms.quickest = 0
    assert (await filler.send()).status_code == 303, "a person presses again"


async def test_a_page_that_nobody_got_is_not_taken(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    filler = await Filler(console, "ask").open()
    for stamp in ("", "x" * 80, (await Filler(console, "expense").open()).hidden["stamp"]):
        filler.page = await filler.post({"in.name": "Ben", "stamp": stamp})
        assert (filler.page.status_code, "open for very long" in filler.page.text) == (409, True)
    stamp = filler.hidden["stamp"]
    monkeypatch.setattr(type(console), "now", property(lambda self: self.amends.clock.now() + 8 * DAY))
    filler.page = await filler.post({"in.name": "Ben", "stamp": stamp})
    assert (filler.page.status_code, filler.hidden["in.name"]) == (409, "Ben")
    assert (await filler.send()).status_code == 303
    assert len(runs_of(console)) == 1


async def test_nobody_sends_a_form_all_the_time(console: Console, caplog: pytest.LogCaptureFixture) -> None:
    filler = await Filler(console, "ask").open()
    first = filler.hidden
    codes = [(await filler.post({**first, "in.name": ""})).status_code for _ in range(OF_ONE + 1)]
    assert codes == [422] * OF_ONE + [429]
    filler.page = await filler.post({**first, "in.name": "Ben"})
    assert ("sent too often" in filler.page.text, filler.hidden["in.name"]) == (True, "Ben")
    assert [one for one in caplog.messages if "the form ask was sent too often, from 127.0.0.1" in one]
    assert (await filler.send({"do": "add:nothing"})).status_code == 200, "rows may still come and go"
    assert (await Filler(console, "expense").open()).page.status_code == 200
    assert runs_of(console) == []


async def test_of_a_field_that_comes_twice_one_counts(console: Console) -> None:
    filler = await Filler(console, "ask").open()
    fields = [*filler.hidden.items(), ("in.name", "Ben"), ("in.name", "Eve")]
    parts = [(name, (None, value)) for name, value in fields]
    answer = await filler.browser.client.post(f"{filler.path}/send?in.name=Mallory", files=parts)
    assert answer.status_code == 303, answer.text
    assert began(console).inputs["name"] == "Eve"


async def test_rows_that_come_and_go_are_no_sendings_but_files_are(console: Console) -> None:
    filler = await Filler(console, "expense").open()
    for _ in range(OF_ONE + 1):
        await filler.send({"do": "add:nothing"})
    assert (await filler.post({**filler.hidden, "in.name": ""})).status_code == 422
    for _ in range(OF_ONE):
        await filler.send({"do": "add:nothing"}, {"in.receipt": PDF})
    assert (await filler.post({**filler.hidden, "in.name": ""})).status_code == 429


@pytest.mark.parametrize("path", ["/forms/ask/send", "/forms/members/send", "/runs"])
async def test_a_body_without_end_is_refused(console: Console, path: str) -> None:
    browser = await Browser(console).sign_in("person:tom")
    bound = 61_000_000 if path.startswith("/forms/") else 1_000_000
    for length, code in ((bound + 1, 413), (bound, None)):
        headers = {
            "content-length": str(length),
            "accept-language": "ja",
            "content-type": "multipart/form-data; boundary=x",
        }
        answer = await browser.client.post(path, content=b"--x--", headers=headers)
        assert (answer.status_code == 413) is (code == 413)
        assert (answer.text == "送信できる大きさを超えています。\n") is (code == 413)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"--x\r\nbroken", "multipart/form-data; boundary=x"),
        (b"in.name=Ben", "multipart/form-data"),
        (b"&" * 10, "application/x-www-form-urlencoded"),
        (b"in.name=%ff%fe&rows.lines=99", "application/x-www-form-urlencoded"),
        (b"[]", "application/json"),
        ("&".join(f"a{n}=1" for n in range(6_000)).encode(), "application/x-www-form-urlencoded"),
        (b"--x\r\nContent-Disposition: form-data; name=in.name; filename=a.txt\r\n\r\na\r\n--x--", "multipart/form-data; boundary=x"),
    ],
)  # fmt: skip
async def test_odd_bodies_get_a_page(console: Console, content: bytes, kind: str) -> None:
    answer = await Browser(console).client.post("/forms/expense/send", content=content, headers={"content-type": kind})
    assert answer.status_code in (400, 409)
    assert "<h1>" in answer.text
    assert runs_of(console) == []


# --- who -----------------------------------------------------------------------------------------------------------


async def test_a_form_for_people_who_have_signed_in(console: Console) -> None:
    stranger = await Browser(console).get("/forms/members")
    assert (stranger.status_code, stranger.headers["location"]) == (303, "/sign-in?next=/forms/members")
    assert (await Browser(console).client.post("/forms/members/send", data={"in.name": "x"})).status_code == 303
    paul = await Browser(console).sign_in("person:paul")
    assert (await paul.get("/forms/members")).status_code == 303, "whoever came by a link has not signed in"
    await console.driver.admit(new_password("person:paul", "four words in a row", now=console.now))
    answer = await paul.press("/sign-in", name="paul", password="four words in a row", next="/forms/members")
    assert answer.headers["location"] == "/forms/members"
    filler = await Filler(console, "members", browser=paul).open()
    fields = {**filler.hidden, "in.name": "Paul"}
    assert (await filler.post(fields)).status_code == 403, "from another site's page"
    paul.client.headers.update({"origin": "null", "sec-fetch-site": "same-origin"})
    assert (await filler.post({**fields, "csrf": "0" * 64})).status_code == 403
    assert runs_of(console) == []
    assert (await filler.post(fields)).status_code == 303
    event = began(console)
    assert (event.starter, event.trigger["by"], event.trigger["form"]) == ("person:paul", "person:paul", "members")


async def test_whoever_is_named_in_a_public_form_does_not_approve_it(console: Console) -> None:
    for form, field in (("ask", "in.mail"), ("members", "in.name")):
        filler = await Filler(console, "ask").open()
        await filler.send({"in.name": form, field: "TOM@acme.test"})
    able = {}
    for view in runs_of(console):
        bundle, state = console.amends.state(view.run)
        able[str(state.inputs["mail"])] = console.driver.desk.entitled(
            bundle, state, ("person:tom", "person:olga"), console.now
        )
    assert able == {"TOM@acme.test": ("person:olga",), "None": ("person:tom", "person:olga")}


async def test_these_routes_are_open_to_whoever_fills_in_a_form(console: Console) -> None:
    routes = (route for route in application(console).routes if isinstance(route, APIRoute))
    found = {
        route.path
        for route in routes
        if any(isinstance(one.call, Guard) and one.call.declares == FILLER for one in route.dependant.dependencies)
    }
    assert found == {"/forms/{name}", "/forms/{name}/send", "/forms/{name}/thanks"}


async def test_a_public_form_gives_and_takes_no_cookie(console: Console) -> None:
    browser = await Browser(console).sign_in("person:tom")
    filler = await Filler(console, "ask", browser=browser).open()
    assert "Tom Ito" not in filler.page.text
    assert "set-cookie" not in filler.page.headers
    answer = await filler.send({"in.name": "Ben", "in.mail": "tom@acme.test"})
    assert (answer.status_code, "set-cookie" in answer.headers) == (303, False)
    assert (began(console).starter, began(console).trigger.get("by")) == ("", None)


async def test_a_form_stands_only_in_the_pages_that_its_flow_names(tmp_path: Path) -> None:
    shown = ASK.replace("{ form: ask }", "{ form: ask, embed: ['https://www.example.test'] }")
    async with office(tmp_path / "acme", {**FLOWS, "ask": shown}) as console:
        filler = await Filler(console, "ask").open()
        sent = await filler.send({"in.name": "Ben"})
        wrong = await (await Filler(console, "ask").open()).send()
        for page in (wrong, await filler.browser.get(sent.headers["location"]), await filler.browser.get("/forms/ask")):
            assert "frame-ancestors 'self' https://www.example.test" in page.headers["content-security-policy"]
            assert "x-frame-options" not in page.headers
        other = await filler.browser.get("/forms/expense")
        assert "frame-ancestors 'none'" in other.headers["content-security-policy"]
        assert other.headers["x-frame-options"] == "DENY"


# --- when nothing can be taken -------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_held_flow_says_so_and_keeps_what_was_typed(console: Console, language: str) -> None:
    said = {"en": "closed at the moment", "ja": "受付を止めています", "zh-TW": "暫停受理"}
    await console.driver.hold(Hold(kind="flow", name="ask", by="person:tom"))
    filler = await Filler(console, "ask", language=language).open()
    page = await filler.send({"in.name": "Ben"})
    assert (page.status_code, filler.hidden["in.name"]) == (503, "Ben")
    assert said[language] in words_of(page)
    await console.driver.hold(Hold(kind="flow", name="ask", by="person:tom", is_held=False))
    assert (await filler.send()).status_code == 303


async def test_without_room_nothing_is_taken_and_nothing_lost(
    console: Console, caplog: pytest.LogCaptureFixture
) -> None:
    filler = await Filler(console, "expense").open()
    caplog.set_level(logging.CRITICAL)
    floor, console.store._floor = console.store._floor, 1 << 62
    page = await filler.send(GIVEN, {"in.receipt": PDF})
    assert (page.status_code, page.text.count("Nothing can be stored")) == (503, 3)
    assert filler.hidden["in.name"] == "佐藤 綾"
    console.store._floor = floor
    assert wrong_in(await filler.send()) == {}
    assert began(console).inputs["receipt"] is None, "it was not kept, and the page says so"
    filler = await Filler(console, "expense").open()
    root = console.store.artifacts.root
    root.parent.joinpath("away").write_text("")
    console.store.artifacts.root = root.parent / "away"
    assert (await filler.send(GIVEN, {"in.receipt": PDF})).status_code == 503
    console.store.artifacts.root = root
    assert len(runs_of(console)) == 1
    assert (await filler.send()).status_code == 303
    assert len(runs_of(console)) == 2


async def test_a_flow_that_breaks_leaves_its_form_as_it_was(console: Console) -> None:
    file = console.amends.folder / "flows" / "ask.yaml"
    filler = await Filler(console, "ask").open()
    file.write_text(ASK.replace("records.create", "records.creat"), encoding="utf-8")
    await console.driver.triggers.active.look()
    assert (await filler.send({"in.name": "Ben"})).status_code == 303
    file.write_text(ASK.replace("inputs: { name: text,", "inputs: { name: text, size: integer,"), encoding="utf-8")
    await console.driver.triggers.active.look()
    late = await Filler(console, "ask").open()
    assert "size" in late.page.text.lower()
    file.unlink()
    await console.driver.triggers.active.look()
    answer = await late.send({"in.name": "Ben", "in.size": "1"})
    assert (answer.status_code, "not there any more" in answer.text) == (404, True)
    assert (await Browser(console).get("/forms/ask")).status_code == 404


async def test_a_record_or_key_that_cannot_be_made_is_said_without_its_reason(tmp_path: Path) -> None:
    keyed = ASK.replace("run_key: ${{ trigger.id }}", "run_key: ${{ inputs.mail }}")
    async with office(tmp_path / "acme", {"ask": keyed}) as console:
        filler = await Filler(console, "ask").open()
        page = await filler.send({"in.name": "Ben"})
        assert (page.status_code, "This cannot be taken" in page.text, "mail" in words_of(page)) == (409, True, False)
        assert runs_of(console) == []


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_form_speaks_the_reader_s_language(console: Console, language: str) -> None:
    said = {
        "en": ("Send", "Please fill this in.", "Thank you"), "ja": ("送信", "入力してください。", "ありがとうございました"),
        "zh-TW": ("送出", "請填寫此欄。", "謝謝您"),
    }  # fmt: skip

    async def fill() -> list[str]:
        filler = await Filler(console, "expense", language=language).open()
        empty = await filler.send()
        sent = await filler.send(GIVEN)
        thanks = await filler.browser.get(sent.headers["location"], **{"accept-language": language})
        return [words_of(empty), empty.text, words_of(thanks)]

    told = await asyncio.create_task(fill(), context=Context())
    assert all(word in text for word, text in zip(said[language], told, strict=True))
    assert f'<html lang="{language}">' in told[1]
