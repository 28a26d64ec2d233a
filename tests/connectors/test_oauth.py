"""OAuth2 at the send: one token for many calls, kept before it is used, renewed once, bound to its places."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from connectors import tokens as giving
from connectors.declarative import kind_from_text
from connectors.http import KIND
from runner.contract import Outcome
from runner.errors import NotPossible, SettingsError
from tests.connectors.httpserver import Got, HttpServer, Script, answer, drop, http_server, late
from tests.connectors.tools import Hands, Lent

CRM = """
connector: crm
title: The contacts
auth:
  oauth2: { grant: %s, token_url: /token, client: client, secret: client_secret, scope: read write%s }
settings: { tenant: text or empty }
actions:
  contact:
    reads: true
    request: { get: /me }
    output: { id: text }
  add:
    writes: once
    input: { name: text }
    request: { post: /add, json: { name: "${{ input.name }}" } }
    output: { id: text }
    cannot_undo: By hand.
"""
CLIENT = ("client_credentials", "")
REFRESH = ("refresh_token", ", refresh_token: refresh")
SECRETS = {"CRM_SECRET": "client-s3cret", "CRM_REFRESH": "refresh-0first", "TOKEN_KEY": "a-key-of-our-own"}


def connect(server: HttpServer, folder: Path, grant: tuple[str, str] = CLIENT, **more: Any) -> Any:
    kind, problems = kind_from_text(CRM % grant, "crm.yaml")
    assert kind is not None, problems
    line = {
        "origin": server.origin,
        "allow_private": True,
        "client": "amends",
        "client_secret": {"secret": "CRM_SECRET"},
    }
    if grant == REFRESH:
        line["refresh"] = {"secret": "CRM_REFRESH"}
    return kind.connect("crm", {**line, **more}, Hands(folder, SECRETS))


async def call(crm: Any, action: str = "contact", limit: int = 5_000) -> Outcome:
    request = crm.prepare(action, {"name": "n"} if action == "add" else {}, key="k", purpose="do")
    found: Outcome = await crm.send(action, request, key="k", purpose="do", limit=limit)
    return found


def tokens(*given: dict[str, Any]) -> list[Script]:
    return [answer(200, {"token_type": "Bearer", "expires_in": 3600, **one}) for one in given]


def only(*good: str) -> Script:
    """Answers whoever has one of these tokens, and nobody else."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        is_good = got.headers.get("authorization") in [f"Bearer {token}" for token in good]
        await (answer(200, {"id": "7"}) if is_good else answer(401, {}))(got, writer)

    return script


def form(got: Got) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(got.body.decode()).items()}


async def test_one_token_serves_many_calls_at_once_and_the_next_process(tmp_path: Path) -> None:
    async with http_server() as server:
        server.on("/token", late(0.2, tokens({"access_token": "tok-first"})[0]))
        server.on("/me", only("tok-first"))
        one, other = connect(server, tmp_path), connect(server, tmp_path)
        found = await asyncio.gather(*[call(crm) for crm in (one, other) for _ in range(10)])
        assert {outcome.output.get("id") for outcome in found} == {"7"}
        asked = server.at("/token")
        assert len(asked) == 1
        assert form(asked[0]) == {"grant_type": "client_credentials", "scope": "read write"}
        assert asked[0].headers["authorization"] == "Basic " + base64.b64encode(b"amends:client-s3cret").decode()
        later = connect(server, tmp_path)
        assert (await call(later)).result == "applied"
        assert len(server.at("/token")) == 1
        for crm in (one, other, later):
            await crm.close()


async def test_what_is_kept_is_sealed(tmp_path: Path) -> None:
    async with http_server() as server:
        server.on("/token", *tokens({"access_token": "tok-first", "refresh_token": "refresh-1"}))
        server.on("/me", answer(200, {"id": "tok-first refresh-1"}))
        crm = connect(server, tmp_path)
        assert (await call(crm)).output == {"found": True, "id": "[secret crm] [secret crm]"}
        await crm.close()
    files = {path.name: path for path in (tmp_path / ".amends" / "tokens").iterdir()}
    assert set(files) == {"crm", "crm.lock", ".key"}
    for path in files.values():
        assert path.stat().st_mode & 0o077 == 0
        assert not [word for word in (b"tok-first", b"refresh-1", b"client-s3cret") if word in path.read_bytes()]
    hands = Hands(tmp_path, SECRETS)
    assert hands.vault.read("crm")["access_token"] == "tok-first"
    files["crm"].rename(files["crm"].with_name("shop"))
    assert hands.vault.read("shop") == {}
    files[".key"].write_bytes(base64.urlsafe_b64encode(b"x" * 32))
    (files["crm"].with_name("shop")).rename(files["crm"])
    assert hands.vault.read("crm") == {}


def test_a_connection_may_be_called_key(tmp_path: Path) -> None:
    vault = Hands(tmp_path, SECRETS).vault
    for name in ("crm", "key"):
        vault.write(name, {"access_token": f"tok-{name}"})
    assert [Hands(tmp_path, SECRETS).vault.read(name)["access_token"] for name in ("crm", "key")] == [
        "tok-crm",
        "tok-key",
    ]


def test_the_key_may_be_a_secret_of_the_project(tmp_path: Path) -> None:
    vault = Hands(tmp_path, SECRETS, "TOKEN_KEY").vault
    vault.write("crm", {"access_token": "tok-first"})
    assert [path.name for path in (tmp_path / ".amends" / "tokens").iterdir()] == ["crm"]
    assert Hands(tmp_path, SECRETS, "TOKEN_KEY").vault.read("crm") == {"access_token": "tok-first"}
    assert Hands(tmp_path, SECRETS).vault.read("crm") == {}


@pytest.mark.parametrize("action", ["contact", "add"])
async def test_a_401_is_answered_with_a_new_token_and_the_same_request_once(tmp_path: Path, action: str) -> None:
    async with http_server() as server:
        given = [{"access_token": f"tok-{number}-x", "refresh_token": f"refresh-{number}"} for number in range(1, 5)]
        server.on("/token", *tokens(*given))
        server.on("/me", only("tok-1-x"))
        server.on("/add", only("tok-1-x"))
        crm = connect(server, tmp_path, REFRESH)
        assert (await call(crm, action)).result == "applied"
        server.on("/me", late(0.1, only("tok-2-x")))
        server.on("/add", late(0.1, only("tok-2-x")))
        found = await asyncio.gather(*[call(crm, action) for _ in range(5)])
        assert {outcome.result for outcome in found} == {"applied"}
        assert len(server.at("/token")) == 2
        path = "/me" if action == "contact" else "/add"
        assert len({(one.body, one.target) for one in server.at(path)}) == 1
        server.on(path, answer(401, {"message": "no"}))
        before = len(server.at(path))
        refused = await call(crm, action)
        assert (refused.result, refused.reason) == ("refused", "forbidden")
        assert len(server.at(path)) == before + 2
        await crm.close()


async def test_a_refresh_token_that_changes_is_kept_before_the_new_token_is_used(tmp_path: Path) -> None:
    kept: list[Any] = []

    async def look(got: Got, writer: asyncio.StreamWriter) -> None:
        kept.append(Hands(tmp_path, SECRETS).vault.read("crm")["refresh_token"])
        await answer(200, {"id": "7"})(got, writer)

    async with http_server() as server:
        server.on("/me", look)
        server.on("/token", *tokens({"access_token": "tok-1-x", "refresh_token": "refresh-1", "expires_in": 1}, {"access_token": "tok-2-x", "expires_in": "1"}, {"access_token": "tok-3-x", "expires_in": "soon"}))  # fmt: skip
        crm = connect(server, tmp_path, REFRESH)
        for _ in range(4):
            assert (await call(crm)).result == "applied"
        assert kept == ["refresh-1"] * 4
        assert [form(one)["refresh_token"] for one in server.at("/token")] == [
            "refresh-0first",
            "refresh-1",
            "refresh-1",
        ]
        assert [one.headers["authorization"] for one in server.at("/me")] == [f"Bearer tok-{number}-x" for number in (1, 2, 3, 3)]  # fmt: skip
        await crm.close()


async def test_whoever_gives_up_waiting_does_not_lose_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(giving, "PATIENCE", 100)
    async with http_server() as server:
        server.on("/token", late(0.4, tokens({"access_token": "tok-1-x", "refresh_token": "refresh-1"})[0]))
        server.on("/me", only("tok-1-x"))
        crm = connect(server, tmp_path, REFRESH)
        found = await call(crm)
        assert (found.result, found.reason) == ("not_sent", "timeout")
        assert found.summary == f"crm: no token came from 127.0.0.1:{server.port} in time"
        cancelled = asyncio.create_task(call(crm))
        await asyncio.sleep(0.05)
        cancelled.cancel()
        await crm.close()
        assert Hands(tmp_path, SECRETS).vault.read("crm")["refresh_token"] == "refresh-1"
        again = connect(server, tmp_path, REFRESH)
        assert (await call(again)).result == "applied"
        assert len(server.at("/token")) == 1
        await again.close()


@pytest.mark.parametrize(
    ("script", "reason", "says"),
    [
        (answer(400, {"error": "invalid_client", "error_description": "not client-s3cret"}), "forbidden", "gives no token (400 invalid_client not [secret CRM_SECRET])"),
        (answer(503, {}), "unavailable", "gives no token (503)"),
        (answer(429, {}), "unavailable", "gives no token (429)"),
        (answer(200, {"access_token": "tok-1-x", "token_type": "mac"}), "forbidden", "gives no token (200)"),
        (answer(200, {"access_token": 5}), "forbidden", "gives no token (200)"),
        (answer(200, []), "forbidden", "gives no token (200)"),
        (answer(302, None, Location="/me"), "forbidden", "gives no token (302)"),
        (drop(), "connection", "broke before a complete answer came"),
    ],
)  # fmt: skip
async def test_without_a_token_nothing_is_sent(tmp_path: Path, script: Script, reason: str, says: str) -> None:
    async with http_server() as server:
        server.on("/token", script)
        crm = connect(server, tmp_path)
        found = await call(crm, "add")
        assert (found.result, found.reason) == ("not_sent", reason)
        assert says in found.summary
        assert "client-s3cret" not in repr(found)
        assert server.at("/add") == server.at("/me") == []
        await crm.close()


async def test_tokens_are_for_the_place_they_were_given_for(tmp_path: Path) -> None:
    async with http_server() as first, http_server() as second:
        for server, token in ((first, "tok-1-x"), (second, "tok-2-x")):
            server.on("/token", *tokens({"access_token": token}))
            server.on("/me", only(token))
            crm = connect(server, tmp_path)
            assert (await call(crm)).result == "applied"
            await crm.close()
        crm = connect(second, tmp_path, client="another")
        await call(crm)
        await crm.close()
        assert (len(first.at("/token")), len(second.at("/token"))) == (1, 2)


async def test_a_token_that_could_not_be_kept_is_kept_before_it_is_used_or_renewed(tmp_path: Path) -> None:
    async with http_server() as server:
        server.on("/token", *tokens({"access_token": "tok-1-x", "refresh_token": "refresh-1"}))
        server.on("/me", only("tok-1-x"))
        crm = connect(server, tmp_path, REFRESH)
        place = tmp_path / ".amends" / "tokens"
        (place / "crm").mkdir(parents=True)
        found = await call(crm)
        assert (found.result, found.reason) == ("not_sent", "unavailable")
        assert found.summary == f"crm: the tokens of crm under {place} cannot be read"
        (place / "crm").rmdir()
        crm.tools.vault.write("other", {})
        key = (place / ".key").read_bytes()

        async def broken(got: Got, writer: asyncio.StreamWriter) -> None:
            (place / ".key").write_bytes(b"no key")
            await tokens({"access_token": "tok-1-x", "refresh_token": "refresh-1"})[0](got, writer)

        server.on("/token", broken)
        found = await call(crm)
        assert found.summary == f"crm: the tokens of crm under {place} cannot be written"
        assert server.at("/me") == []
        (place / ".key").write_bytes(key)
        assert (await call(crm)).result == "applied"
        assert Hands(tmp_path, SECRETS).vault.read("crm")["refresh_token"] == "refresh-1"
        assert len(server.at("/token")) == 1
        await crm.close()


async def test_a_consent_that_is_over_is_said(tmp_path: Path) -> None:
    async with http_server() as server:
        server.on("/token", *tokens({"access_token": "tok-1-x"}))
        server.on("/me", only("tok-2-x"))
        crm = connect(server, tmp_path, ("authorization_code", ", authorize_url: /authorize"))
        await crm.take_consent("code-1", back="http://127.0.0.1/", verifier="v" * 43)
        found = await call(crm)
        assert found.summary == "crm: the consent that was given is over; run: amends connections connect crm"
        await crm.close()


async def test_what_a_service_has_refused_was_sent(tmp_path: Path) -> None:
    async with http_server() as server:
        server.on("/token", *tokens({"access_token": "tok-1-x"}), answer(503, {}), drop(), answer(400, {}))
        server.on("/add", answer(401, {}))
        crm = connect(server, tmp_path)
        for reason in ("unavailable", "unavailable", "forbidden"):
            found = await call(crm, "add")
            assert (found.result, found.reason) == ("refused", reason)
        await crm.close()


async def test_a_code_is_not_repeated(tmp_path: Path) -> None:
    async with http_server() as server:
        server.on(
            "/token", answer(400, {"error": "invalid_grant", "error_description": f"c0de-1 or {'v' * 43} is wrong"})
        )
        crm = connect(server, tmp_path, ("authorization_code", ", authorize_url: /authorize"))
        with pytest.raises(giving.NoToken, match=r"\(400 invalid_grant \[code\] or \[code\] is wrong\)"):
            await crm.take_consent("c0de-1", back="http://127.0.0.1/", verifier="v" * 43)
        await crm.close()


async def test_nobody_has_agreed_yet(tmp_path: Path) -> None:
    async with http_server() as server:
        crm = connect(server, tmp_path, ("authorization_code", ", authorize_url: /authorize"))
        found = await call(crm)
        assert (found.result, found.reason) == ("not_sent", "forbidden")
        assert found.summary == "crm: nobody has agreed yet; run: amends connections connect crm"
        assert server.got == []
        await crm.close()
        with pytest.raises(NotPossible, match="crm needs nobody's consent: it uses client_credentials"):
            connect(server, tmp_path).consent_address(back="http://x", state="s", verifier="v" * 43)


async def test_the_http_kind_has_tokens_too(tmp_path: Path) -> None:
    async with http_server() as server:
        server.on("/token", *tokens({"access_token": "tok-1-x"}))
        server.on("/me", only("tok-1-x"))
        told = {"grant": "client_credentials", "token_url": "/token", "client": "amends", "secret": {"secret": "CRM_SECRET"}, "send": "post", "more": {"audience": "api"}}  # fmt: skip
        line = {"origin": server.origin, "allow_private": True, "auth": {"oauth2": told}}
        web = KIND.connect("web", line, Hands(tmp_path, SECRETS))
        request = web.prepare("get", {"url": "/me"}, key="k", purpose="read")
        assert (await web.send("get", request, key="k", purpose="read", limit=2_000)).result == "applied"
        await web.close()
        assert form(server.at("/token")[0]) == {"grant_type": "client_credentials", "audience": "api", "client_id": "amends", "client_secret": "client-s3cret"}  # fmt: skip
        with pytest.raises(SettingsError, match="auth oauth2 secret holds the value itself"):
            KIND.connect("web", {**line, "auth": {"oauth2": {**told, "secret": "client-s3cret"}}}, Lent())


def test_addresses_of_tokens() -> None:
    text = (CRM % CLIENT).replace("token_url: /token", 'token_url: "https://login.test/${{ connection.tenant }}/token"')
    kind, problems = kind_from_text(text, "crm.yaml")
    assert kind is not None, problems
    line = {"origin": "https://api.test", "client": "a", "client_secret": {"secret": "S"}, "tenant": "acme"}
    assert kind.settings()["client"] == "text"
    made: Any = kind.connect("crm", line, Lent())
    assert made.tokens.told["token_url"] == "https://login.test/acme/token"
    made = kind.connect("crm", {**line, "token_url": "https://other.test/t", "client": {"secret": "C"}}, Lent())
    assert made.tokens.told["token_url"] == "https://other.test/t"
    with pytest.raises(SettingsError, match="crm: token_url must begin with https://; credentials go there"):
        kind.connect("crm", {**line, "token_url": "http://login.test/t"}, Lent())
    with pytest.raises(SettingsError, match="crm: token_url: "):
        kind.connect("crm", {name: value for name, value in line.items() if name != "tenant"}, Lent())


@pytest.mark.parametrize(
    ("auth", "what"),
    [
        ("{ oauth2: { grant: password, token_url: /t, client: c } }", 'auth oauth2 grant "password" must be one of'),
        ("{ oauth2: { token_url: /t, client: c } }", "auth oauth2 needs grant"),
        ("{ oauth2: { grant: client_credentials, token_url: /t, client: c } }", "auth oauth2 with grant client_credentials needs secret"),
        ("{ oauth2: { grant: authorization_code, token_url: /t, client: c } }", "needs authorize_url"),
        ("{ oauth2: { grant: client_credentials, token_url: 'http://x/t', client: c, secret: s } }", "must begin with https://"),
        ("{ oauth2: { grant: client_credentials, token_url: /t, client: c, secret: s, send: body } }", 'send "body" must be basic or post'),
        ("{ oauth2: { grant: client_credentials, token_url: '/${{ connection.nope }}', client: c, secret: s } }", 'there is no "connection.nope" here'),
        ("{ oauth2: { grant: client_credentials, token_url: '/${{ connection.s }}', client: c, secret: s } }", 'there is no "connection.s" here'),
        ("{ hmac: { secret: s, header: X-Sign, sign: body } }", 'auth hmac cannot sign "?"; sign is a list of time, method'),
        ("{ hmac: { secret: s, header: X-Sign, sign: [boddy] } }", 'auth hmac cannot sign "boddy"'),
        ("{ hmac: { secret: s, header: X Sign, sign: [body], hash: md5, id: i } }", '"X Sign" cannot be the name of a header'),
        ("{ hmac: { secret: s, header: X-Sign, sign: [body], hash: md5 } }", 'auth hmac hash "md5" must be one of'),
        ("{ hmac: { secret: s, header: X-Sign, sign: [body], id: i } }", "auth hmac has id and id_header together or neither"),
    ],
)  # fmt: skip
def test_mistakes_are_told(auth: str, what: str) -> None:
    head, _, tail = (CRM % CLIENT).partition("auth:\n")
    text = head + f"auth: {auth}\n" + tail.partition("\n")[2]
    kind, problems = kind_from_text(text, "crm.yaml")
    assert kind is None
    assert [one for one in problems if what in one.what and one.line == 4], problems


async def test_a_request_is_signed_as_it_leaves(tmp_path: Path) -> None:
    head, _, tail = (CRM % CLIENT).partition("auth:\n")
    told = "{ hmac: { secret: key, header: X-Sign, sign: [time, method, path, query, body_hash], between: '|', encoding: base64, prefix: 'v1=', time: X-Time, id: key_id, id_header: X-Key } }"
    kind, problems = kind_from_text(head + f"auth: {told}\n" + tail.partition("\n")[2], "crm.yaml")
    assert kind is not None, problems
    async with http_server() as server:
        server.on("/add", answer(200, {"id": "1"}))
        line = {"origin": server.origin, "allow_private": True, "key": {"secret": "CRM_SECRET"}, "key_id": "k-1"}
        crm = kind.connect("crm", line, Hands(tmp_path, SECRETS))
        assert (await call(crm, "add")).result == "applied"
        await crm.close()
        got = server.got[0]

    time = got.headers["x-time"]
    signed = (
        f"{time}|POST|/add||{hashlib.sha256(json.dumps({'name': 'n'}, separators=(',', ':')).encode()).hexdigest()}"
    )
    expected = base64.b64encode(hmac.digest(b"client-s3cret", signed.encode(), "sha256")).decode()
    assert (got.headers["x-sign"], got.headers["x-key"]) == (f"v1={expected}", "k-1")
