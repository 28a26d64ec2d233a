"""Signing in at a provider: a real one on this computer, and everything that somebody in front of it could try."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from runner.core import events as e
from runner.people.access import new_access, new_password
from runner.store import access
from runner.store.access import Access
from tests.support.processes import OidcProcess
from tests.web.approving import Office, fields_of, office_at
from tests.web.ground import ADDRESS, Browser, words_of

SECRET = "a client's secret of some length"


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProcess]:
    with OidcProcess() as made:
        for name in ("tom", "aya", "adam"):
            made.know(name, email=f"{name}@acme.test", email_verified=True)
        made.know("stranger", email="stranger@acme.test", email_verified=True)
        made.know("sloppy", email="tom@acme.test", email_verified=False)
        made.know("silent", email="tom@acme.test")
        made.know("nameless")
        made.know("by_name", preferred_username="tom", email="eve@acme.test")
        yield made


@pytest.fixture(autouse=True)
def nothing_planted(provider: OidcProcess) -> None:
    provider.plant()


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A console whose people sign in at the provider."""

    office: Office
    provider: OidcProcess

    def browser(self, address: str = ADDRESS) -> Browser:
        return Browser(self.office.console, address)

    async def leave(self, browser: Browser, onwards: str = "", at: str = "") -> str:
        """Where the browser is sent to."""
        gone = await browser.client.get(await self.way(browser, onwards, at))
        assert gone.status_code == 303, words_of(gone)
        return str(gone.headers["location"])

    async def way(self, browser: Browser, onwards: str = "", at: str = "") -> str:
        """Where the button of the sign-in page leads."""
        page = await browser.client.get(f"{at}/sign-in", params={"next": onwards})
        found = re.search(r'href="([^"]*/sign-in/provider[^"]*)"', page.text)
        assert found is not None, words_of(page)
        return html.unescape(found[1])

    async def come(self, browser: Browser, sub: str = "tom", onwards: str = "") -> httpx.Response:
        """The whole way."""
        back = self.provider.sign_in(await self.leave(browser, onwards), sub)
        return await browser.get(back)

    def sessions(self) -> list[Access]:
        rows = self.office.console.store.ask(access.listed(self.office.console.now))
        return [row for row in rows if row.kind in ("session", "visit")]


@asynccontextmanager
async def gate_at(folder: Path, provider: OidcProcess, public_url: str = ADDRESS, **words: Any) -> AsyncIterator[Gate]:
    claim = f", claim: {words.pop('claim')}" if "claim" in words else ""
    line = f"sign_in: {{ oidc: '{provider.origin}', client: amends, secret: {{ secret: OIDC_SECRET }}{claim} }}\n"
    folder.mkdir()
    (folder / ".env").write_text(f"OIDC_SECRET={SECRET}\n")
    async with office_at(folder, public_url, settings=line, **words) as office:
        yield Gate(office=office, provider=provider)


@pytest.fixture
async def gate(tmp_path: Path, provider: OidcProcess) -> AsyncIterator[Gate]:
    async with gate_at(tmp_path / "acme", provider) as made:
        yield made


async def test_the_whole_way(gate: Gate) -> None:
    browser = gate.browser()
    host = urlsplit(gate.provider.origin).netloc
    door = await browser.get("/runs")
    page = await browser.get(door.headers["location"])
    assert f"Sign in at {host}" in words_of(page)
    assert await gate.way(browser, "/runs") in html.unescape(page.text)
    asked = parse_qs(urlsplit(await gate.leave(browser, "/runs")).query)
    assert asked["redirect_uri"] == [f"{ADDRESS}/sign-in/back"]
    assert (asked["response_type"], asked["scope"]) == (["code"], ["openid email"])
    assert (asked["code_challenge_method"], len(asked["code_challenge"][0])) == (["S256"], 43)
    assert len({*asked["state"], *asked["nonce"], *asked["code_challenge"]}) == 3
    came = await gate.come(browser, "adam", "/runs")
    assert (came.status_code, came.headers["location"]) == (303, "/runs")
    cookies = came.headers.get_list("set-cookie")
    [session] = [one for one in cookies if one.startswith("amends_session=") and "Max-Age=0" not in one]
    assert "HttpOnly" in session
    assert "SameSite=lax" in session
    assert any(one.startswith('amends_journey=""') and "Path=/sign-in" in one for one in cookies)
    assert "Adam Admin" in words_of(await browser.get("/runs"))
    [row] = gate.sessions()
    assert (row.kind, row.person) == ("session", "person:adam")


async def test_two_sign_ins_share_nothing(gate: Gate) -> None:
    one, two = gate.browser(), gate.browser()
    ways = [parse_qs(urlsplit(await gate.leave(each)).query) for each in (one, two, one)]
    for name in ("state", "nonce", "code_challenge"):
        assert len({way[name][0] for way in ways}) == 3


async def test_leaving_writes_nothing(gate: Gate) -> None:
    before = gate.office.rows()
    for method in ("GET", "HEAD", "OPTIONS"):
        await gate.browser().client.request(method, "/sign-in/provider")
        await gate.browser().client.request(method, "/sign-in/back?code=x&state=y")
    assert gate.office.rows() == before


async def test_no_other_site_begins_a_sign_in(gate: Gate) -> None:
    """Whoever is signed in at the provider would be signed in here too, and unasked."""
    browser, other = gate.browser(), gate.browser()
    for way in ("", "?next=/runs", "?way=&next=/runs", "?way=0&next=/runs", "?way=%F0%9F%92%A9&next=/runs"):
        gone = await browser.get(f"/sign-in/provider{way}")
        assert (gone.status_code, gone.headers["location"]) in ((303, "/sign-in?next="), (303, "/sign-in?next=/runs"))
    gone = await browser.get(await gate.way(other, "/runs"))
    assert gone.headers["location"] == "/sign-in?next=/runs", "the page was open in another browser"
    assert gone.headers.get("set-cookie") is None
    assert (await browser.get(await gate.way(browser))).headers["location"].startswith(gate.provider.origin)


# --- attacks ---------------------------------------------------------------------------------------------------------

LONG_AGO = 1_600_000_000
PLANTED: dict[str, dict[str, Any]] = {
    "another nonce": {"claims": {"nonce": "of another sign-in"}},
    "no nonce": {"claims": {"nonce": None}},
    "an empty nonce": {"claims": {"nonce": ""}},
    "another audience": {"claims": {"aud": "another"}},
    "another audience, for us": {"claims": {"aud": "another", "azp": "amends"}},
    "several audiences, none of them ours": {"claims": {"aud": ["another", "third"]}},
    "several audiences, for another": {"claims": {"aud": ["amends", "another"], "azp": "another"}},
    "several audiences, for nobody": {"claims": {"aud": ["amends", "another"], "azp": None}},
    "no audience": {"claims": {"aud": None}},
    "over": {"claims": {"exp": LONG_AGO, "iat": LONG_AGO - 60}},
    "without end": {"claims": {"exp": None}},
    "not yet": {"claims": {"nbf": 4_000_000_000}},
    "another issuer": {"claims": {"iss": "https://evil.test"}},
    "no issuer": {"claims": {"iss": None}},
    "nobody": {"claims": {"sub": None}},
    "of another access": {"claims": {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}},
    "signed by nobody": {"alg": "none"},
    "signed by a stranger": {"stranger": True},
    "signed by a stranger, whose key it brings along": {"stranger": True, "header": {"jwk": {}}},
    "signed by a stranger, and where the key lies": {"stranger": True, "header": {"jku": "https://evil.test/keys"}},
    "a token for another use": {"header": {"typ": "at+jwt"}},
    "signed with our secret": {"alg": "HS256", "hmac": SECRET},
    "an address that is not verified": {"claims": {"email_verified": False}},
    "an address of which nothing is said": {"claims": {"email_verified": None}},
    "verified, in other words": {"claims": {"email_verified": "yes"}},
    "no address": {"claims": {"email": None}, "userinfo": {"email": None}},
    "two addresses": {"claims": {"email": ["tom@acme.test", "eve@acme.test"]}},
    "an address that looks alike": {"claims": {"email": "tom@acme.te\u017ft"}},
    "an address with more": {"claims": {"email": "tom@acme.test\n"}},
    "the beginning of an address": {"claims": {"email": "tom"}},
    "a provider of another name": {"about": {"issuer": "https://evil.test"}},
}


@pytest.mark.parametrize("name", PLANTED)
async def test_no_forged_answer_gets_through(name: str, gate: Gate) -> None:
    browser = gate.browser()
    address = await gate.leave(browser, "/runs")
    gate.provider.plant(**PLANTED[name])
    came = await browser.get(gate.provider.sign_in(address, "tom"))
    assert came.status_code == (503 if "about" in PLANTED[name] else 403), words_of(came)
    assert "amends_session" not in browser.client.cookies
    assert gate.sessions() == []
    assert (await browser.get("/runs")).status_code == 303
    gate.provider.plant()
    assert (await gate.come(browser)).status_code == 303, "and afterwards the same person comes in"


async def test_what_is_only_proved_counts(gate: Gate) -> None:
    """An address that is not verified, somebody whom nobody knows, somebody without an address."""
    host = urlsplit(gate.provider.origin).netloc
    for sub, said in (
        ("stranger", f"{host} knows you as stranger@acme.test, and people.yaml names nobody so."),
        ("sloppy", f"{host} has not verified your mail address."),
        ("silent", f"{host} has not verified your mail address."),
        ("nameless", "proves nothing here"),
    ):
        came = await gate.come(gate.browser(), sub)
        assert (came.status_code, said in words_of(came)) == (403, True), (sub, words_of(came))
    assert gate.sessions() == []


async def test_capital_letters_of_an_address_are_the_same(gate: Gate) -> None:
    gate.provider.plant(claims={"email": "Tom@ACME.test"})
    assert (await gate.come(gate.browser())).status_code == 303
    assert [row.person for row in gate.sessions()] == ["person:tom"]


async def test_a_code_counts_once(gate: Gate) -> None:
    browser = gate.browser()
    back = gate.provider.sign_in(await gate.leave(browser), "tom")
    journey = browser.client.cookies["amends_journey"]
    assert (await browser.get(back)).status_code == 303
    assert (await browser.get(back)).status_code == 403, "the way is over for this browser"
    browser.client.cookies.set("amends_journey", journey, path="/sign-in")
    again = await browser.get(back)
    assert (again.status_code, len(gate.sessions())) == (403, 1), "and for whoever kept everything"


async def test_a_way_begun_elsewhere_ends_there(gate: Gate) -> None:
    """The attacker's own code, sent to somebody else, signs nobody in as the attacker."""
    attacker, victim = gate.browser(), gate.browser()
    back = gate.provider.sign_in(await gate.leave(attacker), "aya")
    assert (await victim.get(back)).status_code == 403
    await gate.leave(victim)
    assert (await victim.get(back)).status_code == 403, "nor while they are on a way of their own"
    mine = parse_qs(urlsplit(await gate.leave(victim)).query)["state"][0]
    code = parse_qs(urlsplit(back).query)["code"][0]
    forged = await victim.get(f"/sign-in/back?code={code}&state={mine}")
    assert (forged.status_code, gate.sessions()) == (403, []), "the code is bound to the attacker's verifier"


@pytest.mark.parametrize("state", ["", "x", "é", "%00", "a" * 9_000])
async def test_a_wrong_state(state: str, gate: Gate) -> None:
    browser = gate.browser()
    code = parse_qs(urlsplit(gate.provider.sign_in(await gate.leave(browser), "tom")).query)["code"][0]
    before = gate.provider.asked()
    came = await browser.client.get("/sign-in/back", params={"code": code, "state": state})
    assert (came.status_code, gate.sessions()) == (403, [])
    assert gate.provider.asked() == [*before, "/asked"], "the code was not even shown to the provider"


async def test_an_answer_that_names_another_issuer(gate: Gate) -> None:
    browser = gate.browser()
    back = gate.provider.sign_in(await gate.leave(browser), "tom")
    assert (await browser.get(f"{back}&iss=https://evil.test")).status_code == 403
    gate.provider.plant(about={"authorization_response_iss_parameter_supported": True})
    silent = gate.provider.sign_in(await gate.leave(browser), "tom")
    assert (await browser.get(silent)).status_code == 403
    named = gate.provider.sign_in(await gate.leave(browser), "tom")
    assert (await browser.get(f"{named}&iss={gate.provider.origin}")).status_code == 303


async def test_whoever_thinks_better_of_it_comes_back_without(gate: Gate) -> None:
    browser = gate.browser()
    state = parse_qs(urlsplit(await gate.leave(browser)).query)["state"][0]
    came = await browser.get(f"/sign-in/back?error=access_denied&state={state}")
    assert (came.status_code, gate.sessions()) == (403, [])
    assert "Begin again" in words_of(came)
    assert (await browser.get(f"/sign-in/back?state={state}")).status_code == 403


@pytest.mark.parametrize(
    "onwards",
    ["https://evil.test/", "//evil.test/", "/\\evil.test", "javascript:alert(1)", "evil.test", "\t//evil.test"],
)
async def test_one_comes_back_to_our_own_pages_only(onwards: str, gate: Gate) -> None:
    assert (await gate.come(gate.browser(), "tom", onwards)).headers["location"] == "/"


async def test_a_session_that_was_planted_is_not_taken_over(gate: Gate) -> None:
    console = gate.office.console
    planted = "a session that the attacker knows"
    for known in (planted, (await gate.browser().sign_in("person:eve")).client.cookies["amends_session"]):
        victim = gate.browser()
        victim.client.cookies.set("amends_session", known)
        assert (await gate.come(victim)).status_code == 303
        assert victim.client.cookies.get("amends_session", domain="127.0.0.1") != known
        attacker = gate.browser()
        attacker.client.cookies.set("amends_session", known)
        assert "Tom Ito" not in words_of(await attacker.get("/me"))
    assert console.store.ask(access.find(planted, console.now)) is None


async def test_guessing_is_held_back(gate: Gate) -> None:
    browser = gate.browser()
    told = {(await browser.get("/sign-in/back?code=x&state=y")).status_code for _ in range(50)}
    assert told == {403}
    assert (await browser.get("/sign-in/back?code=x&state=y")).status_code == 429


# --- what may happen -------------------------------------------------------------------------------------------------


async def test_the_provider_changes_its_keys(gate: Gate) -> None:
    assert (await gate.come(gate.browser())).status_code == 303
    gate.provider.plant(rotate=True)
    assert (await gate.come(gate.browser())).status_code == 303


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/oauth2/token", "/userinfo"])
async def test_a_provider_that_is_down_is_said_so(path: str, gate: Gate) -> None:
    browser = gate.browser()
    address = await gate.leave(browser)
    gate.provider.plant(down=path, claims={"email": None})
    came = await browser.get(gate.provider.sign_in(address, "tom"))
    assert (came.status_code, "cannot be asked now" in words_of(came)) == (503, True)
    await gate.office.console.driver.admit(
        new_password("person:tom", "four words in a row", now=gate.office.console.now)
    )
    by_password = await browser.press("/sign-in", name="tom", password="four words in a row")
    assert by_password.status_code == 303, "a password lets in all the same"


async def test_what_the_token_leaves_out_is_asked_beside(gate: Gate) -> None:
    gate.provider.plant(claims={"email": None, "email_verified": None})
    assert (await gate.come(gate.browser())).status_code == 303
    assert [row.person for row in gate.sessions()] == ["person:tom"]
    gate.provider.plant(claims={"email": None}, userinfo={"sub": "adam", "email": "adam@acme.test"})
    assert (await gate.come(gate.browser())).status_code == 403, "it is about somebody else"


async def test_a_claim_of_one_s_own(tmp_path: Path, provider: OidcProcess) -> None:
    async with gate_at(tmp_path / "acme", provider, claim="preferred_username") as gate:
        asked = parse_qs(urlsplit(await gate.leave(gate.browser())).query)
        assert asked["scope"] == ["openid profile email"]
        assert (await gate.come(gate.browser(), "by_name")).status_code == 303
        assert [row.person for row in gate.sessions()] == ["person:tom"]
        assert (await gate.come(gate.browser(), "tom")).status_code == 403, "the address alone is not asked for"


async def test_behind_https_and_a_prefix(tmp_path: Path, provider: OidcProcess) -> None:
    async with gate_at(tmp_path / "acme", provider, "https://acme.test/amends") as gate:
        for at in ("/amends", ""):
            browser = gate.browser("https://acme.test")
            gone = await browser.client.get(await gate.way(browser, "/me", at))
            cookie = gone.headers["set-cookie"]
            assert "Path=/amends/sign-in" in cookie
            assert "Secure" in cookie
            back = gate.provider.sign_in(gone.headers["location"], "tom")
            assert back.startswith("https://acme.test/amends/sign-in/back?")
            came = await browser.get(back)
            assert (came.status_code, came.headers["location"]) == (303, "/amends/me")
            assert "Tom Ito" in words_of(await browser.get("/amends/me"))


async def test_without_a_provider_there_is_no_such_page(tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme") as office:
        browser = Browser(office.console)
        for path in ("/sign-in/provider", "/sign-in/back?code=x&state=y"):
            assert (await browser.get(path)).status_code == 404
        assert "/sign-in/provider" not in (await browser.get("/sign-in")).text


async def test_the_secret_is_nowhere(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    pages = [await gate.come(gate.browser(), sub) for sub in ("tom", "stranger", "sloppy")]
    assert SECRET not in caplog.text + "".join(page.text for page in pages)
    store = gate.office.console.store
    assert (
        SECRET.encode() not in Path(store.name).read_bytes() + Path(store.name).with_name("amends.db-wal").read_bytes()
    )


# --- approvals -------------------------------------------------------------------------------------------------------


async def decided(office: Office, run: str) -> list[tuple[str, str]]:
    events = [row.event for row in office.console.store.log(run)]
    return [(event.by, event.proof) for event in events if isinstance(event, e.ApprovalDecided)]


async def test_an_approver_signs_in_there_and_decides(gate: Gate) -> None:
    """What is asked about money demands it by itself where there is a provider."""
    run = await gate.office.ask()
    path, browser = f"/review/{gate.office.locator(run)}", gate.browser()
    door = await browser.get(path)
    assert re.search(rf'href="/sign-in/provider\?way=\w{{32}}&amp;next={path}"', door.text)
    assert "Mail me a code" not in words_of(door)
    assert (await gate.come(browser, "tom", path)).headers["location"] == path
    page = await browser.get(path)
    assert (await browser.post(f"{path}/decide", {**fields_of(page), "answer": "yes"})).status_code == 303
    assert await decided(gate.office, run) == [("person:tom", "sign_in")]


async def test_somebody_else_s_sign_in_opens_nothing(gate: Gate) -> None:
    run = await gate.office.ask()
    path, browser = f"/review/{gate.office.locator(run)}", gate.browser()
    await gate.come(browser, "aya", path)
    page = await browser.get(path)
    assert "this is asked of somebody else" in words_of(page)
    assert "Dear Ben" not in page.text


async def test_whoever_came_by_a_link_has_not_signed_in(gate: Gate) -> None:
    run = await gate.office.ask()
    path, browser = f"/review/{gate.office.locator(run)}", await gate.browser().sign_in("person:tom")
    page = await browser.get(path)
    assert "You came by a link." in words_of(page)
    assert "Dear Ben" not in page.text
    state = gate.office.gate(run)
    fields = {"csrf": await browser.token("/me"), "round": "1", "hash": state.hash, "answer": "yes"}
    assert (await browser.post(f"{path}/decide", fields)).status_code == 403
    assert await decided(gate.office, run) == []
    chosen = await browser.press("/me", "/me/password", new="four words in a row")
    assert chosen.status_code == 303
    page = await browser.get(path)
    assert (await browser.post(f"{path}/decide", {**fields_of(page), "answer": "no"})).status_code == 303
    assert await decided(gate.office, run) == [("person:tom", "sign_in")]


async def test_where_a_code_is_enough_a_link_is_and_the_log_says_which(tmp_path: Path, provider: OidcProcess) -> None:
    async with gate_at(tmp_path / "acme", provider, more="proof: code") as gate:
        for person, way in (("person:tom", "link"), ("person:aya", "code")):
            run = await gate.office.ask(key=person)
            path = f"/review/{gate.office.locator(run, person)}"
            browser = await (gate.browser().sign_in(person) if way == "link" else gate.office.proved(run, person))
            page = await browser.get(path)
            assert (await browser.post(f"{path}/decide", {**fields_of(page), "answer": "no"})).status_code == 303
            assert await decided(gate.office, run) == [(person, way)]


async def test_a_proof_of_the_wrong_kind_is_no_sign_in(gate: Gate) -> None:
    run = await gate.office.ask()
    path = f"/review/{gate.office.locator(run)}"
    for kind in ("visit", "review", "token", "link", "password"):
        secret, row = new_access(kind, "person:tom", now=gate.office.console.now, name=gate.office.locator(run))
        await gate.office.console.driver.admit(row)
        thief = gate.browser()
        for cookie in ("amends_session", "amends_review", "amends_door"):
            thief.client.cookies.set(cookie, secret)
        assert "Dear Ben" not in (await thief.get(path)).text, kind
