"""The review pages: what they show, what they say afterwards, and that looking changes nothing."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runner.clock import MINUTE
from runner.core import events as e
from runner.people.access import new_access
from runner.people.approvals import Decision
from runner.store import notices
from tests.web.approving import BILLS, Office, fields_of, office_at
from tests.web.ground import Browser, words_of


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    async with office_at(tmp_path / "acme") as made:
        yield made


ITEMS = """\
flow: items
title: A note for each row
owner: person:adam
mode: live
run_key: ${{ trigger.id }}
inputs: { rows: { list: text } }
steps:
  - id: rows
    each: ${{ inputs.rows }}
    named: ${{ item }}
    at_once: 6
    steps:
      - { id: go, approve: "Write ${{ item }}?", covers: [note], by: team:leads }
      - id: note
        do: records.create
        with: { collection: notes, text: "${{ item }}" }
        compensate: { none: A note harms nobody. }
"""


ANSWER = """\
flow: answer
title: Somebody hears of a no
owner: person:adam
mode: live
run_key: ${{ trigger.id }}
steps:
  - { id: go, approve: May it be?, covers: [note], by: team:leads, if_no: continue }
  - id: note
    do: records.create
    with: { collection: notes, text: yes }
    compensate: { none: A note harms nobody. }
  - id: told
    do: mail.send
    with: { to: ben@client.test, subject: Not yet, text: "Not yet: ${{ steps.go.comment }}" }
    when: ${{ outcome.go == "no" }}
    unattended: Whoever asked must hear it.
    compensate: { none: It is the last step. }
"""


async def test_the_whole_way_by_a_code(office: Office) -> None:
    run = await office.ask()
    locator = office.locator(run)
    browser = Browser(office.console)
    door = words_of(await browser.get(f"/review/{locator}"))
    assert "It is asked of t•••@acme.test" in door
    assert "Ben" not in door
    assert "12,000" not in door
    browser = await office.proved(run)
    page = await browser.get(f"/review/{locator}")
    said = words_of(page)
    for shown in (
        "Pay Ben and tell them?", "paper not given", "To ben@client.test", "Subject Paid, Ben", "Dear Ben you are paid.", "12,000 JPY",
        "Started by Anna Author", "A mail that has gone out cannot be taken back.", "is cancelled",
        "Send this mail and add a record to payments (12,000 JPY)",
        "Do not do it; undo what was done",
    ):  # fmt: skip
        assert shown in said, shown
    assert "inputs." not in said, "who approves has not read the flow"
    assert 'sandbox=""' in page.text
    assert "default-src 'none'" in page.text
    done = await browser.post(f"/review/{locator}/decide", {**fields_of(page), "answer": "yes", "comment": "fine"})
    assert done.status_code == 303
    assert (await office.rested(run), office.letters()) == ("succeeded", ["ben@client.test"])
    [decided] = [row.event for row in office.console.store.log(run) if isinstance(row.event, e.ApprovalDecided)]
    assert (decided.by, decided.proof, decided.comment, decided.hash) == (
        "person:tom", "code", "fine", office.gate(run).hash,
    )  # fmt: skip
    after = words_of(await browser.get(f"/review/{locator}"))
    assert "This was decided: yes. Tom Ito said yes," in after
    second = await browser.post(f"/review/{locator}/decide", {**fields_of(page), "answer": "no"})
    assert (second.status_code, "This was decided: yes. Tom Ito said yes," in words_of(second)) == (
        409,
        True,
    )


async def test_a_sign_in_counts_and_home_lists_it_first(office: Office) -> None:
    run = await office.ask()
    aya, eve = await Browser(office.console).sign_in("person:aya"), await Browser(office.console).sign_in("person:eve")
    home = await aya.get("/")
    assert f'href="/review/{office.locator(run, "person:aya")}"' in home.text
    assert "Pay Ben and tell them?" in words_of(home)
    assert "Pay Ben" not in words_of(await eve.get("/"))
    path = f"/review/{office.locator(run, 'person:aya')}"
    page = await aya.get(path)
    assert "Dear Ben" in words_of(page)
    no = await aya.post(f"{path}/decide", {**fields_of(page), "answer": "no", "comment": "Less, please"})
    assert no.status_code == 303
    assert (await office.rested(run), office.letters()) == ("compensated", [])
    told = words_of(await aya.get(path))
    assert "佐藤 綾 said no : Less, please" in told or "said no: Less, please" in told
    assert "Pay Ben" not in words_of(await aya.get("/"))
    other = words_of(await Browser(office.console).get(f"/review/{office.locator(run)}"))
    assert "This was decided: no." in other
    assert "Less" not in other


@pytest.mark.parametrize("answer", ["no", "changes"])
async def test_the_comment_of_a_no_is_there_for_what_goes_on(answer: str, tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme") as office:
        (office.console.amends.folder / "flows" / "answer.yaml").write_text(ANSWER, encoding="utf-8")
        run = await office.ask("answer")
        browser, path = await office.proved(run), f"/review/{office.locator(run)}"
        page = await browser.get(path)
        assert re.findall(r'<button[^>]* value="(\w+)"', page.text)[-3:] == ["yes", "no", "changes"]
        assert "Do not do it; go on without it Ask for changes. Do not do it; go on without it" in words_of(page)
        assert "the steps that follow can use it. Nothing is changed or asked again by itself." in words_of(page)
        await browser.post(f"{path}/decide", {**fields_of(page), "answer": answer, "comment": "Name the day"})
        assert (await office.rested(run), office.letters()) == ("succeeded", ["ben@client.test"])
        assert "Not yet: Name the day" in office.mail.mails[-1].body()


async def test_asking_for_changes_needs_words(tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme", more="may_edit: [letter.text]") as office:
        run = await office.ask()
        browser, path = await office.proved(run), f"/review/{office.locator(run)}"
        page = await browser.get(path)
        assert 'aria-invalid="true"' not in page.text
        fields = {**fields_of(page), "edit.0": "Dear Ben, soon.", "answer": "changes", "comment": " \n"}
        said = await browser.post(f"{path}/decide", fields)
        assert (said.status_code, office.gate(run).status) == (422, "open")
        assert 'aria-invalid="true" aria-describedby="wrong-comment"' in said.text
        assert '<span class="wrong" id="wrong-comment">Say what should be changed.</span>' in said.text
        assert "Dear Ben, soon.</textarea>" in said.text


async def test_a_wish_for_changes_is_a_no_that_is_told_as_one(office: Office) -> None:
    """On the page of what was decided, in the story of the run, in the mail of its end, and in the log."""
    flow = office.console.amends.folder / "flows" / "pay.yaml"
    flow.write_text(flow.read_text().replace("mode: live\n", "mode: live\non_failure: { tell: person:adam }\n"))
    run = await office.ask()
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    page = await browser.get(path)
    assert "On a no, nothing of this is done, and what was done before is made good" in words_of(page)
    assert "Ask for changes. Do not do it; undo what was done Asking for changes is a no too." in words_of(page)
    sent = await browser.post(f"{path}/decide", {**fields_of(page), "answer": "changes", "comment": "Less, please"})
    assert (sent.status_code, await office.rested(run), office.letters()) == (303, "compensated", [])
    [decided] = [row.event for row in office.console.store.log(run) if isinstance(row.event, e.ApprovalDecided)]
    assert (decided.answer, decided.comment) == ("no", "Please change: Less, please")
    after = words_of(await browser.get(path))
    assert "This was decided: no. Tom Ito asked for changes: Less, please" in after
    adam = await Browser(office.console).sign_in("person:adam")
    told = words_of(await adam.get(f"/runs/{run}"))
    assert "Step go: person:tom asked for changes: Less, please." in told
    assert "go Tom Ito asked for changes: Less, please." in told
    assert "Please change" not in told
    assert "says no" not in told
    await office.console.driver.notifier.send_due()
    [mail] = [mail.body() for mail in office.mail.mails if "adam@acme.test" in mail.to]
    assert "asked for changes: Less, please" in mail


async def test_looking_changes_no_row(office: Office) -> None:
    run = await office.ask()
    proved, fresh = await office.proved(run), Browser(office.console)
    signed = await Browser(office.console).sign_in("person:tom")
    before = office.rows()
    for browser in (proved, fresh, signed):
        for path in ("", "/code", "/open", "/decide"):
            for method in ("GET", "HEAD", "OPTIONS"):
                await browser.client.request(method, f"/review/{office.locator(run)}{path}")
        assert (await browser.get("/review/guessed")).status_code == 404
    await signed.get("/")
    assert office.rows() == before


async def test_two_hundred_clicks_are_one_decision(office: Office) -> None:
    run = await office.ask()
    people = [await office.proved(run, person) for person in ("person:tom", "person:aya")]
    pages = [
        await who.get(f"/review/{office.locator(run, name)}")
        for who, name in zip(people, ("person:tom", "person:aya"), strict=True)
    ]

    async def click(number: int) -> int:
        who = number % 2
        fields = {**fields_of(pages[who]), "answer": "yes" if number % 4 < 2 else "no"}
        locator = office.locator(run, ("person:tom", "person:aya")[who])
        return (await people[who].post(f"/review/{locator}/decide", fields)).status_code

    told = Counter(await asyncio.gather(*(click(number) for number in range(200))))
    assert told == {303: 1, 409: 199}
    decided = [row for row in office.console.store.log(run) if isinstance(row.event, e.ApprovalDecided)]
    assert len(decided) == 1
    ended = await office.rested(run)
    assert office.letters() == (["ben@client.test"] if ended == "succeeded" else [])


async def test_several_people_are_told_of_each_other(tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme", more="needs: 2") as office:
        run = await office.ask(starter="person:adam")
        tom, aya = await office.proved(run), await office.proved(run, "person:aya")
        path, other = f"/review/{office.locator(run)}", f"/review/{office.locator(run, 'person:aya')}"
        await tom.post(f"{path}/decide", {**fields_of(await tom.get(path)), "answer": "yes", "comment": "ok"})
        assert "You said yes" in words_of(await tom.get(path))
        page = await aya.get(other)
        assert "2 people have to say yes. Tom Ito said yes" in words_of(page)
        assert office.letters() == []
        await aya.post(f"{other}/decide", {**fields_of(page), "answer": "yes"})
        assert (await office.rested(run), office.letters()) == ("succeeded", ["ben@client.test"])


async def test_an_edit_is_looked_at_before_it_counts(tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme", more="may_edit: [letter.text]\nneeds: 2") as office:
        run = await office.ask(starter="person:adam")
        tom, aya = await office.proved(run), await office.proved(run, "person:aya")
        path, other = f"/review/{office.locator(run)}", f"/review/{office.locator(run, 'person:aya')}"
        first = await aya.post(f"{other}/decide", {**fields_of(await aya.get(other)), "answer": "yes"})
        assert first.status_code == 303
        fields = {**fields_of(await tom.get(path)), "edit.0": "Dear Ben,\r\nall is paid."}
        looked = await tom.post(f"{path}/decide", {**fields, "answer": "yes"})
        assert looked.status_code == 200
        assert "This is how it will be sent with your changes" in words_of(looked)
        assert "all is paid." in words_of(looked)
        assert [yes.by for yes in office.gate(run).yes] == ["person:aya"], "nothing was decided by looking"
        sent = {**fields_of(looked), "edit.0": "Dear Ben,\r\nall is paid.", "answer": "yes"}
        other_text = await tom.post(f"{path}/decide", {**sent, "edit.0": "Something else"})
        assert (other_text.status_code, "look first at what you wrote" in other_text.text) == (409, True)
        assert (await tom.post(f"{path}/decide", sent)).status_code == 303
        assert [yes.by for yes in office.gate(run).yes] == ["person:tom"], "who said yes before did not see this"
        page = await aya.get(other)
        assert "all is paid." in words_of(page)
        assert (await aya.post(f"{other}/decide", {**fields_of(page), "answer": "yes"})).status_code == 303
        assert await office.rested(run) == "succeeded"
        [mail] = [mail for mail in office.mail.mails if "ben@client.test" in mail.to]
        assert mail.body().split() == "Dear Ben, all is paid.".split()


async def test_items_of_a_list_are_unticked(tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme", more="may_leave_out: inputs.bills") as office:
        run = await office.ask("remind", bills=BILLS)
        tom, path = await office.proved(run), f"/review/{office.locator(run)}"
        page = await tom.get(path)
        said = words_of(page)
        assert "3 items" in said
        assert "Please pay 2,000 JPY." in said
        fields = {**fields_of(page), "answer": "yes"}
        nothing = {name: text for name, text in fields.items() if not name.startswith("keep.")}
        refused = await tom.post(f"{path}/decide", nothing)
        assert (refused.status_code, "nothing would be left; say no instead" in words_of(refused).lower()) == (
            409,
            True,
        )
        del fields["keep.1"]
        assert (await tom.post(f"{path}/decide", fields)).status_code == 303
        assert (await office.rested(run), sorted(office.letters())) == (
            "succeeded",
            ["c1@client.test", "c3@client.test"],
        )


async def test_after_a_lapse_the_difference_is_shown(office: Office) -> None:
    run = await office.ask(key="lapse")
    file = office.console.amends.folder / "connections.yaml"
    file.write_text(file.read_text().replace("hello@acme.test", "new@acme.test"))
    tom, path = await office.proved(run), f"/review/{office.locator(run)}"
    assert (await tom.post(f"{path}/decide", {**fields_of(await tom.get(path)), "answer": "yes"})).status_code == 303
    assert (await office.rested(run), office.letters()) == ("waiting", [])
    old = await tom.get(path)
    assert "This has lapsed" in words_of(old)
    newer = f"/review/{office.locator(run, number=2)}"
    assert f'href="{newer}"' in old.text
    again = await office.proved(run, number=2)
    said = words_of(await again.get(newer))
    assert "You are asked again: this was approved before" in said
    assert "what would be sent, or where it goes, has changed since" in said.lower()


async def test_deceiving_signs_are_made_visible(office: Office) -> None:
    run = await office.ask(name="p\u0430ypal\u202e", to="ben@client.test")
    page = await (await office.proved(run)).get(f"/review/{office.locator(run)}")
    assert "\u202e" not in page.text.replace("srcdoc", "")
    assert "⟨U+202E⟩" in page.text
    assert "one letter is of another alphabet: а Cyrillic small letter a" in words_of(page)


async def test_late_and_withdrawn_links_say_so(office: Office) -> None:
    run = await office.ask()
    adam = await Browser(office.console).sign_in("person:adam")
    assert (await adam.press(f"/runs/{run}/order/stop", reason="no")).status_code == 303
    assert await office.rested(run) == "stopped"
    assert "This was withdrawn" in words_of(await Browser(office.console).get(f"/review/{office.locator(run)}"))


async def test_a_code_is_for_ten_minutes(office: Office) -> None:
    run = await office.ask()
    browser, path = Browser(office.console), f"/review/{office.locator(run)}"
    await browser.press(path, f"{path}/code")
    await office.console.store.write(
        lambda connection: connection.exec_driver_sql(
            f"UPDATE codes SET at = at - {10 * MINUTE}, until = until - {10 * MINUTE}"
        )
    )
    late = await browser.press(path, f"{path}/open", code=office.codes("tom@acme.test")[-1])
    assert (late.status_code, "does not count any more" in words_of(late)) == (403, True)


async def test_the_api_lists_shows_and_decides(office: Office) -> None:
    run = await office.ask()
    secret, row = new_access("token", "person:tom", now=office.console.now)
    await office.console.driver.admit(row)
    client = Browser(office.console).client
    client.headers["authorization"] = f"Bearer {secret}"
    [one] = (await client.get("/api/v1/approvals")).json()
    assert (one["run"], one["asked"], one["shown"]["question"]) == (
        run, ["person:aya", "person:tom"], "Pay Ben and tell them?",
    )  # fmt: skip
    assert (await client.get(f"/api/v1/approvals/{run}")).json() == [one]
    body = {"approval": one["approval"], "round": one["round"], "hash": one["hash"], "answer": "yes"}
    looked = (await client.post(f"/api/v1/approvals/{run}", json={**body, "look": True})).json()
    assert looked["requests"]["letter"][0]["recipient"] == "ben@client.test"
    wordless = await client.post(f"/api/v1/approvals/{run}", json={**body, "answer": "changes", "comment": " "})
    assert (wordless.status_code, wordless.json()) == (409, {"error": "say what should be changed."})
    assert (await client.post(f"/api/v1/approvals/{run}", json=body)).status_code == 200
    assert await office.rested(run) == "succeeded"
    assert (await client.get("/api/v1/approvals")).json() == []


async def test_what_was_decided_in_an_item_that_has_ended_is_told(tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme") as office:
        (office.console.amends.folder / "flows" / "items.yaml").write_text(ITEMS, encoding="utf-8")
        run = await office.ask("items", rows=list("abcdef"))
        gates = office.console.amends.state(run)[1].gates
        told = office.console.store.ask(notices.of_run(run, "rows/1/go", 1))
        page = next(f"/review/{one.locator}" for one in told if one.person == "person:tom")
        decision = Decision(
            approval="rows/1/go", round=1, hash=gates["rows/1/go"].hash, answer="yes", by="person:tom", proof="sign_in"
        )
        await office.console.decide(run, decision)
        await office.console.driver.engine.rest(run)
        assert "rows/1/go" not in office.console.amends.state(run)[1].gates, "it has left with its item"
        tom = await Browser(office.console).sign_in("person:tom")
        for browser in (tom, Browser(office.console)):
            answer = await browser.get(page)
            assert (answer.status_code, "This was decided: yes." in answer.text) == (200, True)
        assert (await tom.get("/")).status_code == 200
