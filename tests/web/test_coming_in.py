"""Who comes in and how: links, passwords, sessions, roles; what is refused, and that a refusal changes nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from runner.clock import DAY, HOUR, MINUTE
from runner.errors import NotPossible
from runner.people.access import Tries, first_admin, new_access, new_password, password_fits, role_of
from runner.store import access
from runner.web.application import application
from runner.web.console import Console
from runner.web.guard import Guard
from runner.web.server import first_link
from tests.web.ground import ADDRESS, Browser, console_at, make_project, started, words_of


def unguarded(app: FastAPI) -> list[str]:
    """The routes that declare no guard, or more than one."""
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    return [
        route.path
        for route in routes
        if len([each for each in route.dependant.dependencies if isinstance(each.call, Guard)]) != 1
    ] + [getattr(route, "path", "?") for route in app.routes if not isinstance(route, APIRoute)]


async def test_every_route_declares_its_guard(console: Console) -> None:
    app = application(console)
    assert len([route for route in app.routes if isinstance(route, APIRoute)]) >= 35
    assert unguarded(app) == []
    app.add_api_route("/loose", lambda: {}, methods=["GET"])  # noqa: PIE807
    assert unguarded(app) == ["/loose"]


async def test_only_these_routes_are_open_to_anyone(console: Console) -> None:
    found = {
        route.path
        for route in application(console).routes
        if isinstance(route, APIRoute)
        and any(
            isinstance(each.call, Guard) and each.call.declares == "anyone" for each in route.dependant.dependencies
        )
    }
    review = {f"/review/{{locator}}{path}" for path in ("", "/code", "/open", "/decide", "/file/{digest}")}
    handoff = {f"/handoff/{{locator}}{path}" for path in ("", "/code", "/open", "/acknowledge", "/{choice}")}
    assert found == review | handoff | {
        "/sign-in",
        "/sign-in/provider",
        "/sign-in/back",
        "/enter/{link}",
        "/health",
        "/static/{version}/{name}",
    }


# --- links and passwords -----------------------------------------------------------------------------------------------


async def test_opening_a_link_uses_nothing_up_and_pressing_does(console: Console) -> None:
    link = (await first_link(console)).removeprefix(ADDRESS)
    robot, person, late = Browser(console), Browser(console), Browser(console)
    for _ in range(3):
        assert "Sign in as Tom Ito" in (await robot.get(link)).text
        assert (await robot.client.head(link)).status_code == 200
    assert (await person.press(link)).headers["location"] == "/me"
    assert "Tom Ito" in words_of(await person.get("/"))
    assert (await late.get(link)).status_code == 404
    assert (await late.post(link, {"csrf": await late.token("/sign-in")})).status_code == 404
    assert await first_link(console) == "", "somebody has come in, so no further link is made by itself"


async def test_a_link_of_somebody_else_s_kind_opens_nothing(console: Console) -> None:
    secret, row = new_access("token", "person:tom", now=console.now)
    await console.driver.admit(row)
    assert (await Browser(console).get(f"/enter/{secret}")).status_code == 404
    browser = Browser(console)
    browser.client.cookies.set("amends_session", secret)
    assert (await browser.get("/")).headers["location"] == "/sign-in"


async def test_a_password_lets_in_and_a_wrong_one_is_limited(console: Console) -> None:
    await console.driver.admit(new_password("person:olga", "four words in a row", now=console.now))
    browser = Browser(console)
    answer = await browser.press("/sign-in", name="olga@acme.test", password="four words in a row", next="/runs")
    assert answer.headers["location"] == "/runs"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Path=/" in cookie
    stranger = Browser(console)
    for _ in range(5):
        answer = await stranger.press("/sign-in", name="olga", password="wrong")
        assert (answer.status_code, "do not fit together" in answer.text) == (403, True)
    answer = await stranger.press("/sign-in", name="olga", password="four words in a row")
    assert (answer.status_code, "Try again in 15 min" in answer.text) == (429, True)
    unknown = await Browser(console).press("/sign-in", name="nobody", password="four words in a row")
    assert (unknown.status_code, "do not fit together" in unknown.text) == (403, True)


async def test_after_signing_in_one_goes_to_our_own_pages_only(console: Console) -> None:
    await console.driver.admit(new_password("person:olga", "four words in a row", now=console.now))
    for other in ("https://evil.test/", "//evil.test/", "/\\evil.test", "javascript:alert(1)"):
        answer = await Browser(console).press("/sign-in", name="olga", password="four words in a row", next=other)
        assert answer.headers["location"] == "/", other


async def test_a_new_password_ends_the_other_sessions(console: Console) -> None:
    one, two = await Browser(console).sign_in("person:olga"), await Browser(console).sign_in("person:olga")
    short = await one.press("/me", "/me/password", new="short")
    assert (short.status_code, "12 characters or more" in short.text) == (409, True)
    assert (await one.press("/me", "/me/password", new="four words in a row")).status_code == 303
    assert (await one.get("/")).status_code == 200
    assert (await two.get("/")).status_code == 303
    kept = await one.press("/me", "/me/password", old="not this one", new="another four words")
    assert kept.status_code == 403


@pytest.mark.parametrize(
    "password",
    [
        "password1234", "Password2026!", "qwertyuiop12", "1q2w3e4r5t6z", "aaaaaaaaaaaa", "123456789012", "abcdefghijkl",
        "iloveyou1234", "olga-olga-2026", "Olga Ops 2026", "Welcome to Amends", "olgaacmetest", "abababababab", "letmein letmein",
    ],
)  # fmt: skip
async def test_a_password_that_is_guessed_first_is_refused(console: Console, password: str) -> None:
    with pytest.raises(NotPossible, match="guessed first"):
        new_password("person:olga", password, now=console.now, names=("Olga Ops", "olga@acme.test"))


@pytest.mark.parametrize(
    "password", ["839204718264", "four words in a row", "twelve signs", "Kx7-pq2-Zw9-b", "秘密の言葉とパスワードの山"]
)
async def test_other_passwords_are_taken(console: Console, password: str) -> None:
    assert new_password("person:olga", password, now=console.now, names=("Olga Ops",)).person == "person:olga"


async def test_a_page_and_the_terminal_know_the_names(console: Console) -> None:
    browser = await Browser(console).sign_in("person:olga")
    said = await browser.press("/me", "/me/password", new="olga-olga-2026")
    assert (said.status_code, "guessed first" in said.text) == (409, True)


async def test_a_password_is_long_and_taken_as_it_is(console: Console) -> None:
    password = f" {'four words in a row, and 64 signs' * 2} Ü"
    kept = new_password("person:olga", password, now=console.now)
    assert kept.digest.startswith("$argon2id$")
    assert kept.until - console.now > 50 * 365 * DAY, "it has no end of its own"
    assert [password_fits(kept, one) for one in (password, password.strip(), password.upper(), password[:64])] == [
        True, False, False, False,
    ]  # fmt: skip
    long = "four words in a row " * 51
    longest = new_password("person:olga", long[:1_000], now=console.now)
    assert [password_fits(longest, long[:count]) for count in (999, 1_000, 1_001)] == [False, True, False]
    for short in ("", "elevensigns"):
        with pytest.raises(NotPossible, match="12 characters or more"):
            new_password("person:olga", short, now=console.now)
    assert password_fits(new_password("person:olga", "twelve signs", now=console.now), "twelve signs")
    asked = (await Browser(console).get("/sign-in")).text
    assert 'name="password" type="password" autocomplete="current-password"' in asked
    own = (await (await Browser(console).sign_in("person:olga")).get("/me")).text
    assert 'name="new" type="password" autocomplete="new-password"' in own


async def test_a_session_ends_after_seven_days(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(console, "session_idle: 30 days")
    browsers = [await Browser(console).sign_in("person:olga"), await Browser(console).sign_in_truly("person:olga")]
    clock = console.amends.clock
    for days, status in ((6, 200), (7, 303)):
        at = clock.now() + days * DAY + MINUTE
        monkeypatch.setattr(type(console), "now", at)
        assert [(await one.get("/runs")).status_code for one in browsers] == [status, status]


def settings(console: Console, line: str) -> None:
    """One more line of amends.yaml."""
    file = console.amends.folder / "amends.yaml"
    file.write_text(f"{file.read_text()}{line}\n", encoding="utf-8")


@pytest.mark.parametrize(("line", "hours"), [("", 12), ("session_idle: 2 hours", 2)])
async def test_a_session_ends_when_nobody_uses_it(
    line: str, hours: int, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(console, line)
    used, truly = await Browser(console).sign_in("person:olga"), await Browser(console).sign_in_truly("person:olga")
    left, watching = await Browser(console).sign_in("person:olga"), await Browser(console).sign_in("person:olga")
    begun = console.amends.clock.now()
    for time in (0, 0.6, 1.2, 1.8):
        monkeypatch.setattr(type(console), "now", begun + int(time * hours * HOUR) + MINUTE)
        assert [(await one.get("/me")).status_code for one in (used, truly)] == [200, 200]
        by_itself = await watching.get("/me", **{"x-looks-on": "1"})
        assert by_itself.status_code == (200 if time < 1 else 303), "a page that looks by itself keeps nothing open"
    assert (await left.get("/me")).status_code == 303


async def test_looking_often_writes_seldom(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = await Browser(console).sign_in("person:olga")
    begun, ends = console.amends.clock.now(), set()
    for minutes in range(0, 90, 3):
        monkeypatch.setattr(type(console), "now", begun + minutes * MINUTE)
        assert (await browser.get("/me")).status_code == 200
        ends |= {row.until for row in console.store.ask(access.listed(console.now)) if row.kind == "visit"}
    assert 2 <= len(ends) <= 4


async def test_signing_in_again_ends_the_session_before(console: Console) -> None:
    browser = await Browser(console).sign_in("person:olga")
    before = browser.client.cookies["amends_session"]
    await browser.sign_in("person:olga")
    other = Browser(console)
    other.client.cookies.set("amends_session", before)
    assert [(await one.get("/me")).status_code for one in (browser, other)] == [200, 303]


async def test_who_came_in_and_who_did_not_is_written_down(console: Console, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "amends.web")
    await console.driver.admit(new_password("person:olga", "four words in a row", now=console.now))
    browser = Browser(console)
    for name in ("olga", "olga\nsomebody else"):
        await browser.press("/sign-in", name=name, password="a password of olga's")
    await browser.press("/sign-in", name="olga", password="four words in a row")
    await browser.post("/people/invite", {"csrf": await browser.token("/me"), "person": "vera"})
    await browser.press("/me", "/sign-out")
    assert (await browser.post("/enter/nothing", {"csrf": await browser.token("/sign-in")})).status_code == 404
    await browser.get("/api/v1/runs", authorization="Bearer nothing")
    lines = [record.getMessage() for record in caplog.records if record.name == "amends.web"]
    assert all(re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 .*, from 127\.0\.0\.1$", line) for line in lines)
    assert [(line[26:-16], record.levelname) for line, record in zip(lines, caplog.records, strict=True)] == [
        ("a password did not fit person:olga", "WARNING"),
        ("a password did not fit a name that nobody has", "WARNING"),
        ("person:olga came in by a password", "INFO"),
        ("POST /people/invite was refused to person:olga (403)", "WARNING"),
        ("person:olga signed out", "INFO"),
        ("a link that opens nothing was pressed", "WARNING"),
        ("GET /api/v1/runs was refused to a stranger (401)", "WARNING"),
    ]


async def test_nobody_floods_what_is_written_down(
    console: Console, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "amends.web")
    monkeypatch.setattr(type(console), "now", begun := console.amends.clock.now())
    for _ in range(50):
        await Browser(console).get("/api/v1/runs")
    assert len(caplog.records) == 21
    assert "what else comes from 127.0.0.1 in this minute is not written down" in caplog.records[-1].getMessage()
    monkeypatch.setattr(type(console), "now", begun + MINUTE)
    await Browser(console).get("/api/v1/runs")
    assert len(caplog.records) == 22


async def test_sessions_are_listed_and_ended(console: Console) -> None:
    one, two = await Browser(console).sign_in("person:olga"), await Browser(console).sign_in("person:olga")
    shown = (await one.get("/me")).text
    which = re.findall(r'name="which" value="(\w+)"', shown)
    assert (len(which), shown.count("(this one)")) == (2, 1)
    mine = which[0] if shown.index("(this one)") < shown.index(which[0]) else which[1]
    other = next(each for each in which if each != mine)
    assert (await one.press("/me", "/me/end", which=other)).status_code == 303
    assert (await two.get("/")).status_code == 303
    vera = await Browser(console).sign_in("person:vera")
    await vera.press("/me", "/me/end", which=mine)
    assert (await one.get("/")).status_code == 200, "nobody ends another's session"
    assert (await one.press("/me", "/sign-out")).headers["location"] == "/sign-in"
    assert (await one.get("/")).status_code == 303


async def test_whoever_is_taken_out_of_people_yaml_is_nobody(console: Console) -> None:
    browser = await Browser(console).sign_in("person:vera")
    assert (await browser.get("/runs")).status_code == 200
    file = console.amends.folder / "people.yaml"
    file.write_text(file.read_text().replace("  vera:", "  gone:"))
    assert (await browser.get("/runs")).headers["location"] == "/sign-in?next=/runs"


async def test_without_a_people_file_the_terminal_is_the_admin(tmp_path: Path) -> None:
    async with console_at(make_project(tmp_path / "alone", people="")) as console:
        browser = await Browser(console).sign_in("person:me")
        assert (await browser.get("/people")).status_code == 200
        assert first_admin(console.people, "") == "person:me"
        (console.amends.folder / "people.yaml").write_text("people:\n  eva: { name: Eva, role: admin }\n")
        assert (await browser.get("/people")).status_code == 303, "from now on the admin has a name"
        assert role_of(console.people, "", "person:eva") == "admin"


# --- roles -------------------------------------------------------------------------------------------------------------

MAY: dict[str, set[str]] = {
    "person:tom": {"home", "runs", "start", "order", "people", "invite", "log"},
    "person:olga": {"home", "runs", "start", "order", "people", "log"},
    "person:anna": {"home", "runs", "start", "people", "log"},
    "person:vera": {"home", "runs", "people", "log"},
    "person:paul": {"home"},
}


@pytest.mark.parametrize("person", MAY)
async def test_each_role_may_do_what_it_may(person: str, console: Console) -> None:
    run = await started(console, "waiting")
    browser = await Browser(console).sign_in(person)
    token = await browser.token("/me")
    answers = {
        "home": await browser.get("/"),
        "runs": await browser.get(f"/runs/{run}"),
        "start": await browser.get("/flows/asking/start"),
        "order": await browser.get(f"/runs/{run}/order/stop"),
        "people": await browser.get("/people"),
        "invite": await browser.post("/people/invite", {"csrf": token, "person": "vera"}),
        "log": await browser.post("/log", {"csrf": token}),
    }
    assert {name for name, answer in answers.items() if answer.status_code == 200} == MAY[person]
    assert {answer.status_code for answer in answers.values()} <= {200, 403}


async def test_nobody_is_asked_to_sign_in_everywhere(console: Console) -> None:
    browser = Browser(console)
    run = await started(console, "asking", number="1")
    for path in ("/", "/runs", f"/runs/{run}", f"/handoffs/{run}/h1", "/log", "/live", "/people", "/quarantine", "/me"):
        answer = await browser.get(path)
        assert (answer.status_code, answer.headers["location"].startswith("/sign-in")) == (303, True), path
    assert (await browser.get("/api/v1/runs")).status_code == 401


# --- forms that others send --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "https://evil.test"},
        {"origin": "https://evil.test", "sec-fetch-site": ""},
        {"origin": "http://127.0.0.1:9", "sec-fetch-site": ""},
        {"origin": "null", "sec-fetch-site": ""},
        {"origin": "", "sec-fetch-site": ""},
    ],
)
async def test_a_form_of_another_page_does_nothing(headers: dict[str, str], console: Console) -> None:
    run = await started(console, "waiting")
    browser = await Browser(console).sign_in("person:olga")
    fields = {"csrf": await browser.token("/me")}
    refused = await browser.post(f"/runs/{run}/order/pause", fields, **headers)
    assert (refused.status_code, console.store.run(run).status) == (403, "waiting")


async def test_a_form_needs_the_token_of_its_own_session(console: Console) -> None:
    run = await started(console, "waiting")
    olga, other = await Browser(console).sign_in("person:olga"), await Browser(console).sign_in("person:olga")
    for token in ("", "0" * 64, await other.token("/me"), await Browser(console).token("/sign-in")):
        refused = await olga.post(f"/runs/{run}/order/pause", {"csrf": token})
        assert (refused.status_code, console.store.run(run).status) == (403, "waiting")
    assert (await olga.press("/me", f"/runs/{run}/order/pause")).status_code == 303
    assert console.store.run(run).status == "paused"


async def test_a_form_that_cannot_be_read_is_refused(console: Console) -> None:
    browser = await Browser(console).sign_in("person:olga")
    headers = {"origin": ADDRESS, "content-type": "application/x-www-form-urlencoded"}
    assert (await browser.client.post("/log", content=b"\xff\xfe", headers=headers)).status_code == 400
    large = await browser.client.post("/log", content=b"a=" + b"x" * 1_000_001, headers=headers)
    assert large.status_code == 413


# --- what holds for every page -----------------------------------------------------------------------------------------


async def test_every_answer_bears_the_headers(console: Console) -> None:
    browser = await Browser(console).sign_in("person:tom")
    for path in ("/", "/runs", "/nowhere", "/sign-in", "/api/v1/runs"):
        headers = (await browser.get(path, origin="https://evil.test")).headers
        assert not [name for name in headers if name.startswith("access-control-")], "no other site reads it"
        assert headers["content-type"] in ("text/html; charset=utf-8", "application/json")
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "base-uri 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert (headers["referrer-policy"], headers["cache-control"]) == ("no-referrer", "no-store")
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        assert "server" not in headers


async def test_another_host_is_not_ours(console: Console) -> None:
    for host in ("evil.test", "127.0.0.1:9", "127.0.0.1.evil.test:8484", ""):
        assert (await Browser(console).get("/sign-in", host=host)).status_code == 421
    assert (await Browser(console).get("/sign-in", host="localhost:8484")).status_code == 200


async def test_behind_https_and_a_prefix(tmp_path: Path) -> None:
    async with console_at(make_project(tmp_path / "shop"), "https://acme.test/amends") as console:
        for path in ("/sign-in", "/amends/sign-in"):
            browser = Browser(console, "https://acme.test")
            page = await browser.get(path)
            assert 'href="/amends/static/' in page.text
            assert "Secure" in page.headers["set-cookie"]
            assert "Path=/amends" in page.headers["set-cookie"]
            assert page.headers["set-cookie"].startswith("__Secure-amends_door=")
            assert page.headers["strict-transport-security"] == "max-age=31536000"
            assert (await browser.get("/amends")).headers["location"] == "/amends/sign-in"
        assert (await first_link(console)).startswith("https://acme.test/amends/enter/")


async def test_behind_https_cookies_say_by_their_names_what_they_are(tmp_path: Path) -> None:
    async with console_at(make_project(tmp_path / "shop"), "https://acme.test") as console:
        browser = await Browser(console, "https://acme.test").sign_in("person:olga")
        assert {*browser.client.cookies} == {"__Host-amends_session"}
        assert (await browser.get("/")).status_code == 200
        left = await browser.press("/me", "/sign-out")
        [gone] = left.headers.get_list("set-cookie")
        assert gone.startswith('__Host-amends_session="";')
        assert {"Secure", "Path=/", "Max-Age=0"} <= {*gone.split("; ")}
        assert left.headers["clear-site-data"] == '"cache", "storage"'
        assert (await browser.get("/")).status_code == 303
        plain = Browser(console, "https://acme.test")
        plain.client.cookies.set(
            "amends_session",
            (await Browser(console, "https://acme.test").sign_in("person:olga")).client.cookies[
                "__Host-amends_session"
            ],
        )
        assert (await plain.get("/")).status_code == 303, "a cookie that could be set without https counts for nothing"


async def test_errors_are_one_sentence(console: Console) -> None:
    browser = await Browser(console).sign_in("person:tom")
    for path, status in (("/nowhere", 404), ("/runs/nothing", 404), ("/flows/askin", 404), ("/runs?before=x", 404)):
        answer = await browser.get(path)
        assert (answer.status_code, "Traceback" in answer.text) == (status, False), path
    assert 'did you mean "asking"?' in words_of(await browser.get("/flows/askin")).replace("&#34;", '"')
    assert (await browser.client.put("/runs")).status_code == 405
    assert (await browser.client.request("TRACE", "/runs")).status_code == 405


def test_limited_tries_forget() -> None:
    tries = Tries(most=2, span=100, names=2)
    tries.fail("a", 0)
    assert tries.wait("a", 0) == 0
    tries.fail("a", 10)
    assert (tries.wait("a", 50), tries.wait("a", 100), tries.wait("b", 50)) == (50, 0, 0)
    tries.fail("b", 0)
    tries.fail("c", 0)
    assert tries.wait("a", 50) == 0, "the oldest name gives way"
    tries.forget("b")
    assert tries.wait("b", 0) == 0
    many = Tries(most=2, span=100)
    for number in range(1_000):
        many.fail(f"sender {number}", 30 * number)
    assert len(vars(many)["_failed"]) == 4, "what is over is not kept"


async def test_the_database_holds_nothing_that_opens_a_door(console: Console) -> None:
    browser = await Browser(console).sign_in("person:olga")
    await browser.press("/me", "/me/password", new="four words in a row")
    secret = browser.client.cookies["amends_session"]
    rows = console.store.ask(access.listed(console.now))
    assert {row.kind for row in rows} == {"session", "password"}
    stored = Path(console.store.name).read_bytes() + Path(console.store.name).with_name("amends.db-wal").read_bytes()
    assert secret.encode() not in stored
    assert b"four words" not in stored
