"""Whoever is not asked decides nothing: each attack is tried on a real run, and the tables say that nothing happened.

An attack gets an office, a run with an open question for tom and aya, and tries. It has got through where anything
was decided or left. What tom can still do afterwards is looked at as well.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from runner.core import events as e
from runner.people.access import new_access
from runner.store import notices
from tests.web.approving import BILLS, Office, fields_of, office_at
from tests.web.ground import Browser, words_of

Attack = Callable[[Office, str], Awaitable[Any]]
NOTHING: Mapping[str, str] = {}
ATTACKS: dict[str, tuple[Attack, dict[str, Any]]] = {}


def attack(flow: str = "pay", starter: str = "person:anna", **words: Any) -> Callable[[Attack], Attack]:
    """Registers an attack. `words` are the project's."""

    def register(tried: Attack) -> Attack:
        ATTACKS[tried.__name__] = (tried, {"flow": flow, "starter": starter, **words})
        return tried

    return register


def decided(office: Office, run: str) -> list[e.ApprovalDecided]:
    events = [row.event for row in office.console.store.log(run)]
    return [event for event in events if isinstance(event, e.ApprovalDecided)]


# --- tools -----------------------------------------------------------------------------------------------------------


async def says(browser: Browser, path: str, answer: str = "yes", **changed: str) -> httpx.Response:
    """Decides on an open page; `changed` are fields that are forged."""
    fields = {**fields_of(await browser.get(path)), "answer": answer}
    named = {name.replace("__", "."): value for name, value in changed.items()}
    return await browser.post(f"{path}/decide", {**fields, **named})


async def forged(
    browser: Browser, office: Office, run: str, path: str, changed: Mapping[str, str] = NOTHING
) -> httpx.Response:
    """A form of one's own, with everything right that the tables know."""
    gate = office.gate(run)
    fields = {"csrf": await browser.token("/sign-in"), "round": str(gate.round), "hash": gate.hash, "answer": "yes"}
    return await browser.post(f"{path}/decide", {**fields, **changed})


def refused(answer: httpx.Response, *statuses: int) -> None:
    assert answer.status_code in (statuses or (403,)), (answer.status_code, words_of(answer))


async def coded(office: Office, path: str) -> Browser:
    """A browser that has asked for a code."""
    browser = Browser(office.console)
    refused(await browser.press(path, f"{path}/code"), 303)
    return browser


async def token(office: Office, person: str) -> httpx.AsyncClient:
    secret, row = new_access("token", person, now=office.console.now)
    await office.console.driver.admit(row)
    client = Browser(office.console).client
    client.headers["authorization"] = f"Bearer {secret}"
    return client


def body_of(office: Office, run: str, **changed: Any) -> dict[str, Any]:
    gate = office.gate(run)
    return {"approval": "go", "round": gate.round, "hash": gate.hash, "answer": "yes", **changed}


# --- codes -----------------------------------------------------------------------------------------------------------


@attack()
async def a_used_code_again(office: Office, run: str) -> None:
    path = f"/review/{office.locator(run)}"
    browser = await coded(office, path)
    code = office.codes("tom@acme.test")[-1]
    refused(await browser.press(path, f"{path}/open", code=code), 303)
    browser.client.cookies.delete("amends_review")
    refused(await browser.press(path, f"{path}/open", code=code))
    refused(await forged(browser, office, run, path))


@attack()
async def a_code_of_another_browser(office: Office, run: str) -> None:
    path = f"/review/{office.locator(run)}"
    await coded(office, path)
    thief = Browser(office.console)
    refused(await thief.press(path, f"{path}/open", code=office.codes("tom@acme.test")[-1]))
    await coded(office, path)
    second = await coded(office, path)
    refused(await second.press(path, f"{path}/open", code=office.codes("tom@acme.test")[0]))
    refused(await forged(thief, office, run, path))


@attack()
async def a_code_for_another_locator(office: Office, run: str) -> None:
    other = await office.ask(key="other")
    path, elsewhere = f"/review/{office.locator(run)}", f"/review/{office.locator(other)}"
    browser = await coded(office, elsewhere)
    refused(await browser.press(path, f"{path}/open", code=office.codes("tom@acme.test")[-1]))
    refused(await forged(browser, office, run, path))


@attack()
async def a_code_of_another_person(office: Office, run: str) -> None:
    mine, path = f"/review/{office.locator(run, 'person:aya')}", f"/review/{office.locator(run)}"
    browser = await coded(office, mine)
    refused(await browser.press(path, f"{path}/open", code=office.codes("aya@acme.test")[-1]))


@attack()
async def guessed_codes(office: Office, run: str) -> None:
    path = f"/review/{office.locator(run)}"
    browser = await coded(office, path)
    for number in range(5):
        refused(await browser.press(path, f"{path}/open", code=f"CCCC-CCC{number}"))
    code = office.codes("tom@acme.test")[-1]
    late = await browser.press(path, f"{path}/open", code=code)
    refused(late)
    assert "does not count any more" in words_of(late)


@attack()
async def an_old_code_after_a_new_one(office: Office, run: str) -> None:
    path = f"/review/{office.locator(run)}"
    browser = await coded(office, path)
    await browser.press(path, f"{path}/code")
    old, _new = office.codes("tom@acme.test")
    refused(await browser.press(path, f"{path}/open", code=old))


@attack()
async def a_flood_of_codes(office: Office, run: str) -> None:
    path = f"/review/{office.locator(run)}"
    answers = [(await Browser(office.console).press(path, f"{path}/code")).status_code for _ in range(8)]
    assert answers == [303] * 5 + [429] * 3
    assert len(office.codes("tom@acme.test")) == 5


@attack()
async def a_flood_over_many_locators(office: Office, run: str) -> None:
    for number in range(5):
        other = await office.ask(key=f"other{number}")
        path = f"/review/{office.locator(other)}"
        for _ in range(5):
            await Browser(office.console).press(path, f"{path}/code")
    assert len(office.codes("tom@acme.test")) == 20


@attack()
async def an_empty_code(office: Office, run: str) -> None:
    path = f"/review/{office.locator(run)}"
    for typed in ("", " ", "-", "%", "' OR 1=1 --", "\x00", "x" * 900_000):
        refused(await Browser(office.console).press(path, f"{path}/open", code=typed))


@attack()
async def what_the_database_keeps_of_a_code(office: Office, run: str) -> None:
    path = f"/review/{office.locator(run)}"
    browser = await coded(office, path)
    code = office.codes("tom@acme.test")[-1]
    [row] = office.rows()["codes"]
    assert code not in row
    assert code.replace("-", "") not in row
    digests = re.findall(r"[0-9a-f]{64}", row)
    for digest in digests:
        refused(await browser.press(path, f"{path}/open", code=digest))
        thief = Browser(office.console)
        thief.client.cookies.set("amends_review", digest)
        thief.client.cookies.set("amends_door", digest)
        refused(await thief.press(path, f"{path}/open", code=code))


# --- sessions --------------------------------------------------------------------------------------------------------


@attack()
async def a_session_of_somebody_else(office: Office, run: str) -> None:
    path = f"/review/{office.locator(run)}"
    for person in ("person:eve", "person:adam", "person:aya"):
        browser = await Browser(office.console).sign_in(person)
        page = await browser.get(path)
        assert "Dear Ben" not in page.text
        assert "this is asked of somebody else" in words_of(page)
        gate = office.gate(run)
        fields = {"csrf": await browser.token("/me"), "round": "1", "hash": gate.hash, "answer": "yes"}
        refused(await browser.post(f"{path}/decide", fields))


@attack()
async def a_forwarded_link(office: Office, run: str) -> None:
    path = f"/review/{office.locator(run)}"
    stranger = Browser(office.console)
    assert "Ben" not in words_of(await stranger.get(path))
    refused(await forged(stranger, office, run, path))
    refused(await stranger.press(path, f"{path}/open", code="CCCC-CCCC"))


@attack()
async def a_proof_of_another_locator(office: Office, run: str) -> None:
    other = await office.ask(key="other")
    browser = await office.proved(other)
    secret = next(one.value for one in browser.client.cookies.jar if one.name == "amends_review")
    thief = Browser(office.console)
    thief.client.cookies.set("amends_review", str(secret))
    path = f"/review/{office.locator(run)}"
    assert "Dear Ben" not in (await thief.get(path)).text
    refused(await forged(thief, office, run, path))


@attack()
async def a_token_or_a_link_for_a_proof(office: Office, run: str) -> None:
    path = f"/review/{office.locator(run)}"
    for kind in ("token", "link", "session"):
        secret, row = new_access(kind, "person:tom", now=office.console.now, name=office.locator(run))
        await office.console.driver.admit(row)
        thief = Browser(office.console)
        thief.client.cookies.set("amends_review", secret)
        refused(await forged(thief, office, run, path))


@attack()
async def a_proof_for_a_sign_in(office: Office, run: str) -> None:
    browser = await office.proved(run)
    secret = next(one.value for one in browser.client.cookies.jar if one.name == "amends_review")
    thief = Browser(office.console)
    thief.client.cookies.set("amends_session", str(secret))
    assert (await thief.get("/")).headers["location"] == "/sign-in"
    thief.client.headers["authorization"] = f"Bearer {secret}"
    assert (await thief.client.get("/api/v1/approvals")).status_code == 401


@attack()
async def a_planted_door(office: Office, run: str) -> None:
    """The attacker's own cookie in tom's browser: what tom proves in it does not open for the attacker."""
    path = f"/review/{office.locator(run)}"
    attacker = await coded(office, path)
    door = attacker.client.cookies["amends_door"]
    victim = Browser(office.console)
    victim.client.cookies.set("amends_door", door)
    refused(await victim.press(path, f"{path}/open", code=office.codes("tom@acme.test")[-1]), 303)
    assert "Dear Ben" in (await victim.get(path)).text
    assert "Dear Ben" not in (await attacker.get(path)).text
    refused(await forged(attacker, office, run, path))


@attack()
async def somebody_who_has_left(office: Office, run: str) -> None:
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    file = office.console.amends.folder / "people.yaml"
    before = file.read_text()
    file.write_text(before.replace("members: [aya, tom, anna]", "members: [aya, anna]"))
    refused(await browser.get(path))
    refused(await forged(browser, office, run, path))
    file.write_text(before.replace("  tom:", "  gone:").replace("tom", "gone"))
    refused(await forged(browser, office, run, path))
    file.write_text(before)


@attack(more="proof: sign_in")
async def a_code_where_a_sign_in_is_demanded(office: Office, run: str) -> None:
    path = f"/review/{office.locator(run)}"
    browser = Browser(office.console)
    assert "Mail me a code" not in words_of(await browser.get(path))
    refused(await browser.press("/sign-in", f"{path}/code"), 409)
    assert office.codes("tom@acme.test") == []
    secret, row = new_access("review", "person:tom", now=office.console.now, name=office.locator(run))
    await office.console.driver.admit(row)
    browser.client.cookies.set("amends_review", secret)
    refused(await forged(browser, office, run, path))
    client = await token(office, "person:tom")
    refused(await client.post(f"/api/v1/approvals/{run}", json=body_of(office, run)), 409)


# --- forms -----------------------------------------------------------------------------------------------------------


@attack()
async def another_hash(office: Office, run: str) -> None:
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    for hash_ in (
        "",
        "0" * 64,
        office.gate(await office.ask(key="other", name="Zoe")).hash,
        office.gate(run).hash.upper(),
    ):
        refused(await says(browser, path, hash=hash_), 409)


@attack()
async def another_round(office: Office, run: str) -> None:
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    for number in ("", "0", "2", "-1", "1.0", "١", "9" * 30, "true"):
        refused(await says(browser, path, round=number), 409)


@attack()
async def another_answer(office: Office, run: str) -> None:
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    for answer in ("", "YES", "approve", "1", "yes ", "yes\x00"):
        refused(await says(browser, path, answer), 422)


@attack()
async def a_form_without_its_token(office: Office, run: str) -> None:
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    for csrf in ("", "0" * 64, await Browser(office.console).token("/sign-in")):
        refused(await says(browser, path, csrf=csrf))


@attack()
async def a_form_of_another_site(office: Office, run: str) -> None:
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    fields = {**fields_of(await browser.get(path)), "answer": "yes"}
    for headers in (
        {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"sec-fetch-site": "none"},
        {"origin": "https://evil.test"}, {"origin": "https://evil.test", "sec-fetch-site": ""},
        {"origin": "", "sec-fetch-site": ""}, {"origin": "http://127.0.0.1:8484.evil.test"},
    ):  # fmt: skip
        refused(await browser.post(f"{path}/decide", fields, **headers))


@attack()
async def a_form_of_another_host(office: Office, run: str) -> None:
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    fields = {**fields_of(await browser.get(path)), "answer": "yes"}
    for host in ("evil.test", "127.0.0.1", "127.0.0.1:8485", "127.0.0.1:8484.evil.test"):
        refused(await browser.post(f"{path}/decide", fields, host=host), 421)
    await browser.get(path, **{"x-forwarded-host": "evil.test"})


@attack()
async def a_frame_around_it(office: Office, run: str) -> None:
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    for page in (await browser.get(path), await Browser(office.console).get(path)):
        assert page.headers["x-frame-options"] == "DENY"
        policy = page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["cross-origin-opener-policy"] == "same-origin"


@attack()
async def a_decision_in_the_address(office: Office, run: str) -> None:
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    fields = {**fields_of(await browser.get(path)), "answer": "yes"}
    for method in ("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"):
        for place in ("", "/decide"):
            await browser.client.request(
                method, f"{path}{place}", params=fields, headers={"sec-fetch-site": "same-origin"}
            )
    refused(await browser.client.post(f"{path}/decide", params=fields, headers={"sec-fetch-site": "same-origin"}))


@attack()
async def a_form_of_another_kind(office: Office, run: str) -> None:
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    fields = {**fields_of(await browser.get(path)), "answer": "yes"}
    headers = {"origin": "null", "sec-fetch-site": "same-origin"}
    refused(await browser.client.post(f"{path}/decide", json=fields, headers=headers))
    files = {name: (None, value) for name, value in fields.items()}
    refused(await browser.client.post(f"{path}/decide", files=files, headers=headers))


@attack()
async def a_comment_without_end(office: Office, run: str) -> None:
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    for size in (1_001, 900_000):
        refused(await says(browser, path, comment="x" * size), 422)
    refused(await says(browser, path, comment="x" * 1_100_000), 413)


@attack()
async def an_edit_that_is_not_allowed(office: Office, run: str) -> None:
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    client = await token(office, "person:tom")
    for field in ("text", "to", "subject", "with.text", ""):
        sent = body_of(office, run, edits={"letter": {field: "evil@evil.test"}}, seen="0" * 64)
        refused(await client.post(f"/api/v1/approvals/{run}", json=sent), 409)
    for other in ("paid", "note", "go", "nothing"):
        sent = body_of(office, run, edits={other: {"amount": "1"}})
        refused(await client.post(f"/api/v1/approvals/{run}", json=sent), 409)
    page = await browser.get(path)
    assert "edit.0" not in page.text
    looked = await says(browser, path, "look", edit__0="evil")
    assert "evil" not in looked.text


@attack(more="may_edit: [letter.text]")
async def an_edit_nobody_has_looked_at(office: Office, run: str) -> None:
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    assert (await says(browser, path, edit__0="Pay me instead")).status_code == 200
    for seen in ("0" * 64, office.gate(run).hash, "x"):
        refused(await says(browser, path, edit__0="Pay me instead", seen=seen), 409)
    client = await token(office, "person:tom")
    sent = body_of(office, run, edits={"letter": {"text": "Pay me instead"}})
    refused(await client.post(f"/api/v1/approvals/{run}", json=sent), 409)


@attack(more="may_edit: [letter.text]")
async def an_edit_of_the_neighbour_s_field(office: Office, run: str) -> None:
    client = await token(office, "person:tom")
    for path, field in (("letter", "to"), ("letter", "subject"), ("paid", "amount"), ("paid", "text")):
        sent = body_of(office, run, edits={path: {field: "evil@evil.test"}}, seen="0" * 64)
        refused(await client.post(f"/api/v1/approvals/{run}", json=sent), 409)


@attack("remind")
async def an_item_left_out_that_may_not_be(office: Office, run: str) -> None:
    client = await token(office, "person:tom")
    for left in (["bills/1/letter"], ["bills/9/letter"], ["bills"], ["go"], [""]):
        refused(await client.post(f"/api/v1/approvals/{run}", json=body_of(office, run, left_out=left)), 409)


@attack("remind", more="may_leave_out: inputs.bills")
async def everything_left_out(office: Office, run: str) -> None:
    client = await token(office, "person:tom")
    every = [f"bills/{number}/letter" for number in (1, 2, 3)]
    for left in (every, [*every, "go"], ["bills/9/letter"], ["bills/1"]):
        refused(await client.post(f"/api/v1/approvals/{run}", json=body_of(office, run, left_out=left)), 409)
    browser, path = await office.proved(run), f"/review/{office.locator(run)}"
    fields = {name: text for name, text in fields_of(await browser.get(path)).items() if not name.startswith("keep")}
    refused(await browser.post(f"{path}/decide", {**fields, "answer": "yes"}), 409)


@attack()
async def fields_of_one_s_own(office: Office, run: str) -> None:
    """The person, the proof, the run and the approval come from the locator, never from the form."""
    path = f"/review/{office.locator(run)}"
    stranger = Browser(office.console)
    more = {
        "by": "person:tom",
        "person": "person:tom",
        "proof": "sign_in",
        "run": run,
        "approval": "go",
        "locator": "x",
    }
    refused(await forged(stranger, office, run, path, more))


# --- who ------------------------------------------------------------------------------------------------------------


@attack()
async def a_guessed_locator(office: Office, run: str) -> None:
    known, tom = office.locator(run), await Browser(office.console).sign_in("person:tom")
    before = office.rows()
    for guess in ("", "x", known[:-1], known.swapcase(), f"{known}x", "../" + known, "%00", run, "go", "1"):
        answer = await tom.get(f"/review/{guess}")
        assert answer.status_code in (303, 404, 405), guess
        assert "Dear Ben" not in answer.text
    for guess in ("x", known[:-1], known.swapcase(), "' OR ''='"):
        for place in ("code", "open", "decide"):
            refused(await tom.press("/me", f"/review/{guess}/{place}", answer="yes", code="CCCC-CCCC"), 404)
    assert office.rows() == before


# --- tokens ----------------------------------------------------------------------------------------------------------


@attack()
async def a_token_of_another_role(office: Office, run: str) -> None:
    for person in ("person:eve", "person:anna", "person:aya"):
        client = await token(office, person)
        refused(await client.post(f"/api/v1/approvals/{run}", json=body_of(office, run)))


@attack()
async def a_token_of_an_admin_who_is_not_asked(office: Office, run: str) -> None:
    client = await token(office, "person:adam")
    refused(await client.post(f"/api/v1/approvals/{run}", json=body_of(office, run)), 409)
    refused(await client.post(f"/api/v1/approvals/{run}", json=body_of(office, run, look=True)), 409)


@attack()
async def a_token_in_another_s_name(office: Office, run: str) -> None:
    client = await token(office, "person:adam")
    for more in ({"by": "person:tom"}, {"proof": "sign_in"}, {"person": "person:tom"}):
        refused(await client.post(f"/api/v1/approvals/{run}", json={**body_of(office, run), **more}), 422)


@attack()
async def no_token(office: Office, run: str) -> None:
    client = Browser(office.console).client
    refused(await client.post(f"/api/v1/approvals/{run}", json=body_of(office, run)), 401)
    signed = await Browser(office.console).sign_in("person:tom")
    refused(await signed.client.post(f"/api/v1/approvals/{run}", json=body_of(office, run)), 401)
    for header in ("Bearer ", "Bearer x", "Basic dG9tOnRvbQ==", f"Bearer {signed.client.cookies['amends_session']}"):
        refused(
            await client.post(f"/api/v1/approvals/{run}", json=body_of(office, run), headers={"authorization": header}),
            401,
        )


@attack()
async def a_token_with_another_hash(office: Office, run: str) -> None:
    client = await token(office, "person:tom")
    for more in (
        {"hash": "0" * 64},
        {"round": 2},
        {"approval": "note"},
        {"approval": "go:undo"},
        {"approval": "../go"},
    ):
        refused(await client.post(f"/api/v1/approvals/{run}", json=body_of(office, run, **more)), 409)
    for more in ({"round": "1"}, {"answer": "maybe"}, {"comment": "x" * 1_001}, {"left_out": "letter"}):
        refused(await client.post(f"/api/v1/approvals/{run}", json=body_of(office, run, **more)), 422)


@attack()
async def an_operator_s_orders(office: Office, run: str) -> None:
    """Whoever operates can stop a run, and can neither answer nor pass by a question."""
    adam = await Browser(office.console).sign_in("person:adam")
    for order in ("approve", "go_on", "skip", "happened", "retry", "resume"):
        refused(await adam.press(f"/runs/{run}", f"/runs/{run}/order/{order}", reason="x"), 404, 409)


# --- robots ----------------------------------------------------------------------------------------------------------


@attack()
async def robots_that_open_everything(office: Office, run: str) -> None:
    """A scanner that opens and presses whatever it sees, of each person's link."""
    for person in ("person:tom", "person:aya"):
        robot, seen, ahead = Browser(office.console), set[str](), [f"/review/{office.locator(run, person)}"]
        while ahead:
            path = ahead.pop()
            if path in seen:
                continue
            seen.add(path)
            for method in ("OPTIONS", "HEAD"):
                await robot.client.request(method, path, headers={"purpose": "prefetch"})
            answer = await robot.get(path)
            ahead += [link for link in re.findall(r'href="(/[^"]*)"', answer.text) if "static" not in link]
            for form in re.findall(r'<form method="post"(.*?)</form>', answer.text, re.DOTALL):
                action = re.search(r'action="([^"]*)"', form)
                fields = dict(re.findall(r'name="([\w.]+)"(?: value="([^"]*)")?', form))
                pressed = await robot.post(action[1] if action else path, {**fields, "code": "CCCC-CCCC"})
                ahead += [pressed.headers["location"]] if pressed.status_code == 303 else []
        assert any(path.startswith("/review/") for path in seen)
    assert len(office.codes("tom@acme.test")) == 1


# --- the oracle -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(ATTACKS))
async def test_nothing_gets_through(name: str, tmp_path: Path) -> None:
    tried, words = ATTACKS[name]
    flow, starter = words.pop("flow"), words.pop("starter")
    async with office_at(tmp_path / "acme", **words) as office:
        inputs: dict[str, Any] = {"bills": BILLS} if flow == "remind" else {}
        run = await office.ask(flow, starter=starter, **inputs)
        before = office.gate(run)
        await tried(office, run)
        await office.console.driver.engine.rest(run)
        assert decided(office, run) == []
        assert office.letters() == []
        assert office.gate(run) == before
        assert office.console.store.run(run).status == "waiting"
        tom = await Browser(office.console).sign_in_truly("person:tom")
        path = f"/review/{office.locator(run)}"
        fields = fields_of(await tom.get(path))
        assert (await tom.post(f"{path}/decide", {**fields, "answer": "no"})).status_code == 303
        assert [one.answer for one in decided(office, run)] == ["no"]


def test_there_are_forty() -> None:
    assert len(ATTACKS) >= 40


async def test_an_attack_that_gets_through_is_seen(tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme") as office:
        run = await office.ask()
        await says(await office.proved(run), f"/review/{office.locator(run)}")
        assert len(decided(office, run)) == 1


# --- what is shown ---------------------------------------------------------------------------------------------------


EVIL = "</textarea></iframe><script>alert(1)</script><img src=x onerror=alert(1)>\"'><form action=//evil.test>"


async def test_html_in_every_shown_value_stays_text(tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme", more="may_edit: [letter.text]") as office:
        run = await office.ask(name=EVIL)
        browser, path = await office.proved(run), f"/review/{office.locator(run)}"
        pages = [await browser.get(path), await says(browser, path, "look", edit__0=EVIL, comment=EVIL)]
        await says(browser, path, "changes", comment=EVIL)
        pages.append(await browser.get(path))
        pages.append(await (await Browser(office.console).sign_in("person:tom")).get("/"))
        for page in pages:
            assert "<script>alert" not in page.text
            assert "<img" not in page.text
            assert page.text.count("<form") <= 2
            assert "</textarea></iframe>" not in page.text


async def test_a_mail_with_scripts_and_pictures_lies_in_its_frame(tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme") as office:
        file = office.console.amends.folder / "flows" / "pay.yaml"
        html = "<p>Hi</p><script>top.location='//evil.test'</script><img src='https://evil.test/x.gif'>"
        file.write_text(file.read_text().replace("<p style='color:green'>You are <b>paid</b>.</p>", html))
        run = await office.ask()
        page = await (await office.proved(run)).get(f"/review/{office.locator(run)}")
        assert "<script>top" not in page.text
        frame = re.search(r"<iframe ([^>]*)>", page.text)
        assert frame is not None
        assert 'sandbox=""' in frame[1]
        assert "default-src &#39;none&#39;" in frame[1] or "default-src 'none'" in frame[1]
        assert "img-src 'self'" in page.headers["content-security-policy"], "a mail's pictures are not fetched"


async def test_a_comment_is_one_line_everywhere(tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme") as office:
        run = await office.ask()
        browser, path = await office.proved(run), f"/review/{office.locator(run)}"
        await says(browser, path, comment="fine\r\nBcc: evil@evil.test\r\n\r\nX\u202e\x00")
        assert [one.comment for one in decided(office, run)] == ["fine Bcc: evil@evil.test X"]
        assert await office.rested(run) == "succeeded"
        assert all("evil@evil.test" not in mail.to for mail in office.mail.mails)


async def test_one_person_counts_once(tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme", more="needs: 2") as office:
        run = await office.ask(starter="person:adam")
        one, two = await office.proved(run), await Browser(office.console).sign_in("person:tom")
        path = f"/review/{office.locator(run)}"
        fields = {**fields_of(await two.get(path)), "answer": "yes"}
        assert (await says(one, path)).status_code == 303
        refused(await two.post(f"{path}/decide", fields), 409)
        refused(
            await one.post(f"{path}/decide", {**fields, "answer": "no", "csrf": await one.token("/sign-in")}), 409, 403
        )
        client = await token(office, "person:tom")
        refused(await client.post(f"/api/v1/approvals/{run}", json=body_of(office, run)), 409)
        assert [one.by for one in decided(office, run)] == ["person:tom"]
        assert office.letters() == []


async def test_the_starter_decides_nothing(tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme") as office:
        run = await office.ask(starter="person:tom")
        told = await office.console.store.write(notices.tell(run, "go", 1, ["person:tom"], office.console.now))
        tom, path = await Browser(office.console).sign_in("person:tom"), f"/review/{told['person:tom']}"
        refused(await tom.get(path))
        gate = office.gate(run)
        fields = {"csrf": await tom.token("/me"), "round": "1", "hash": gate.hash, "answer": "yes"}
        refused(await tom.post(f"{path}/decide", fields))
        client = await token(office, "person:tom")
        refused(await client.post(f"/api/v1/approvals/{run}", json=body_of(office, run)), 409)
        assert (decided(office, run), office.letters()) == ([], [])
