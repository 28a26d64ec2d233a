"""Logging in at the send: one session for all calls, kept, asked for anew after a 401, and told to nobody."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from connectors.declarative import kind_from_text
from runner.errors import SettingsError
from tests.connectors.httpserver import Got, HttpServer, answer, http_server
from tests.connectors.test_oauth import SECRETS
from tests.connectors.tools import Hands

SHOP = """
connector: shop
title: The shop
settings: { database: text }
auth:
  login:
    post: /${{ connection.database }}/login
    json: { who: "${{ user }}", word: "${{ password }}" }
    user: user
    password: password
    token: ${{ user }}:${{ response.json.session }}
    encode: base64
    header: Authorization
    prefix: "Session "
actions:
  me:
    reads: true
    request: { get: /me }
    output: { id: text }
"""
SECRET = SECRETS["CRM_SECRET"]


def connect(server: HttpServer, folder: Path, **more: Any) -> Any:
    kind, problems = kind_from_text(SHOP, "shop.yaml")
    assert kind is not None, problems
    line = {"origin": server.origin, "allow_private": True, "database": "db", "user": "ann"}
    return kind.connect("shop", {**line, "password": {"secret": "CRM_SECRET"}, **more}, Hands(folder, SECRETS))


async def call(shop: Any) -> Any:
    request = shop.prepare("me", {}, key="k", purpose="read")
    assert SECRET not in json.dumps(request.body)
    return await shop.send("me", request, key="k", purpose="read", limit=5_000)


def session(name: str) -> str:
    return "Session " + base64.b64encode(f"ann:{name}".encode()).decode()


def only(*good: str) -> Any:
    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        await (answer(200, {"id": "7"}) if got.headers.get("authorization") in good else answer(401, {}))(got, writer)

    return script


async def test_one_log_in_serves_many_calls_and_the_next_process(tmp_path: Path) -> None:
    async with http_server() as server:
        server.on("/db/login", answer(200, {"session": "s-1"}))
        server.on("/me", *[only(session("s-1"))] * 6)
        for _ in range(2):
            shop = connect(server, tmp_path)
            found = await asyncio.gather(*(call(shop) for _ in range(3)))
            assert [one.result for one in found] == ["applied"] * 3
            await shop.close()
        asked = [got for got in server.got if got.path == "/db/login"]
        assert [json.loads(got.body) for got in asked] == [{"who": "ann", "word": SECRET}]


async def test_a_session_that_is_over_is_asked_for_once_more_and_never_a_third_time(tmp_path: Path) -> None:
    async with http_server() as server:
        server.on(
            "/db/login",
            answer(200, {"session": "s-1"}),
            answer(200, {"session": "s-2"}),
            answer(200, {"session": "s-3"}),
        )
        server.on("/me", only(session("s-2")), only(session("s-2")), answer(401, {}), answer(401, {}))
        shop = connect(server, tmp_path)
        assert (await call(shop)).result == "applied"
        second = await call(shop)
        assert (second.result, second.reason) == ("refused", "forbidden")
        await shop.close()
        assert len([got for got in server.got if got.path == "/db/login"]) == 3


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, {}, "forbidden"),
        (200, {"error": SECRET}, "forbidden"),
        (200, {"session": None}, "forbidden"),
        (503, {}, "unavailable"),
    ],
)
async def test_a_log_in_that_fails_sends_nothing_and_repeats_no_password(
    tmp_path: Path, status: int, body: Any, reason: str
) -> None:
    async with http_server() as server:
        server.on("/db/login", answer(status, body))
        shop = connect(server, tmp_path)
        found = await call(shop)
        await shop.close()
        assert (found.result, found.reason) == ("not_sent", reason)
        assert "does not let us in" in found.summary
        assert SECRET not in f"{found}"
        assert [got.path for got in server.got] == ["/db/login"]


def test_a_password_is_never_sent_in_the_open(tmp_path: Path) -> None:
    kind, _ = kind_from_text(SHOP, "shop.yaml")
    assert kind is not None
    line = {"origin": "http://shop.example.test", "database": "db", "user": "ann", "password": {"secret": "CRM_SECRET"}}
    with pytest.raises(SettingsError, match="post must begin with https://"):
        kind.connect("shop", line, Hands(tmp_path, SECRETS))


@pytest.mark.parametrize(
    ("there", "here", "what"),
    [
        ("post: /${{ connection.database }}/login", "post: https://elsewhere.example/login", "must begin with /"),
        ("header: Authorization", "header: Author ization", "cannot be the name of a header"),
        ("encode: base64", "encode: hex", 'encode "hex" must be base64'),
        ("token: ${{ user }}:${{ response.json.session }}", "token: fixed", "read out of the answer"),
        (
            "${{ user }}:${{ response.json.session }}",
            "${{ password }}:${{ response.json.session }}",
            'no "password" here',
        ),
        ('word: "${{ password }}"', 'word: "${{ pasword }}"', 'no "pasword" here'),
    ],
)
def test_what_a_log_in_cannot_be_is_said_when_the_file_loads(there: str, here: str, what: str) -> None:
    assert there in SHOP
    kind, problems = kind_from_text(SHOP.replace(there, here), "shop.yaml")
    assert kind is None
    assert [problem for problem in problems if what in problem.what], problems
