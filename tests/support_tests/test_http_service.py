"""The scripted HTTP service does what tests believe it does, in each of its three homes."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.http_service import HttpService, running_http
from tests.support.processes import HttpProcess
from tests.support.says import (
    AS_USUAL,
    DROP_AFTER,
    DROP_BEFORE,
    HALF_ANSWER,
    RESET,
    Say,
    drip,
    failing,
    html,
    late,
    rate_limit,
    redirect,
    refused,
)

LIMIT = 5.0


@pytest.fixture
def service() -> Iterator[HttpService]:
    with running_http() as running:
        yield running


def call(port: int, method: str, path: str, body: Any = None, key: str = "") -> tuple[int, Any]:
    """One request on a fresh connection: status and JSON (or text). Raises where the line is cut."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Idempotency-Key": key} if key else {})
        response = connection.getresponse()
        raw = response.read().decode()
        return response.status, json.loads(raw) if raw and "json" in response.headers["Content-Type"] else raw
    finally:
        connection.close()


def test_any_collection_keeps_records(service: HttpService) -> None:
    assert call(service.port, "GET", "/things") == (200, {"items": []})
    status, made = call(service.port, "POST", "/things", {"colour": "red", "reference": "r1"})
    assert (status, made) == (201, {"reference": "r1", "colour": "red", "id": "things-1"})
    call(service.port, "POST", "/things", {"colour": "blue"})
    assert call(service.port, "GET", "/things?reference=r1") == (200, {"items": [made]})
    assert call(service.port, "GET", "/things?colour=green") == (200, {"items": []})
    assert call(service.port, "PATCH", "/things/things-1", {"colour": "pink"})[1]["colour"] == "pink"
    assert call(service.port, "POST", "/things/things-1/closed", {"why": "done"})[1]["status"] == "closed"
    assert call(service.port, "GET", "/things/things-1")[1]["why"] == "done"
    assert call(service.port, "DELETE", "/things/things-1")[0] == 200
    for method, path in (("GET", "/things/things-1"), ("PATCH", "/things/x"), ("POST", "/things/x/closed")):
        assert call(service.port, method, path, {})[0] == 404
    assert [(each.method, each.id) for each in service.world.effects] == [
        ("POST", "things-1"),
        ("POST", "things-2"),
        ("PATCH", "things-1"),
        ("POST", "things-1"),
        ("DELETE", "things-1"),
    ]


def test_a_seeded_record_is_there_without_an_effect(service: HttpService) -> None:
    service.world.put("/plans/pro", {"label": "Pro"})
    assert call(service.port, "GET", "/plans/pro") == (200, {"id": "pro", "label": "Pro"})
    assert call(service.port, "GET", "/plans/gold")[0] == 404
    assert service.world.effects == []


def test_a_key_is_one_effect_and_one_body(service: HttpService) -> None:
    first = call(service.port, "POST", "/things", {"n": 1}, key="k")
    assert call(service.port, "POST", "/things", {"n": 1}, key="k") == first
    assert call(service.port, "POST", "/things", {"n": 2}, key="k")[0] == 422
    assert service.world.by_key() == {"k": 1}
    assert service.request_count == 3


def test_a_service_that_ignores_keys_shows_the_duplicate() -> None:
    with running_http(keeps_keys=False) as service:
        for _ in range(2):
            call(service.port, "POST", "/things", {"n": 1}, key="k")
        assert service.world.by_key() == {"k": 2}


@pytest.mark.parametrize(
    ("say", "expected", "done"),
    [
        (refused(), 422, 0),
        (refused(409), 409, 0),
        (failing(), 500, 0),
        (failing(503, done=True), 503, 1),
        (html(), 200, 1),
        (rate_limit("7"), 429, 0),
        (redirect("http://other.test/"), 302, 0),
        (late(200), 201, 1),
        (drip(20), 200, 1),
        (Say(json={"ok": False}), 201, 1),
        (Say(status=204, raw=b""), 204, 1),
        (DROP_BEFORE, http.client.RemoteDisconnected, 0),
        (DROP_AFTER, http.client.RemoteDisconnected, 1),
        (RESET, ConnectionResetError, 1),
        (HALF_ANSWER, http.client.IncompleteRead, 1),
    ],
)
def test_each_way_to_fail_happens_once_and_the_ledger_is_true(
    service: HttpService, say: Say, expected: int | type[Exception], done: int
) -> None:
    service.script("POST /things", say)
    began = time.monotonic()
    if isinstance(expected, int):
        assert call(service.port, "POST", "/things", {"n": 1})[0] == expected
    else:
        with pytest.raises(expected):
            call(service.port, "POST", "/things", {"n": 1})
    assert len(service.world.effects) == done
    assert (time.monotonic() - began > 0.19) == bool(say.delay or say.pause)
    assert call(service.port, "POST", "/things", {"n": 1})[0] == 201, "used up"


def test_a_script_speaks_of_the_nth_request_and_of_its_path_alone(service: HttpService) -> None:
    service.script("POST /a", AS_USUAL, refused(), always=failing())
    service.script("* /b/*", refused(418))
    assert [call(service.port, "POST", "/a", {})[0] for _ in range(4)] == [201, 422, 500, 500]
    assert call(service.port, "POST", "/b", {})[0] == 201
    assert call(service.port, "GET", "/b/b-1")[0] == 418
    service.reset()
    assert call(service.port, "POST", "/a", {})[0] == 201


def test_a_shut_door_reads_nothing(service: HttpService) -> None:
    service.shut_door()
    with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
        call(service.port, "POST", "/things", {"n": 1})
    assert (service.request_count, service.world.effects, service.connection_count) == (0, [], 1)


def test_requests_in_pieces_chunked_and_on_one_line_are_understood(service: HttpService) -> None:
    with socket.create_connection(("127.0.0.1", service.port), timeout=LIMIT) as wire:
        head = b"POST /things HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        for piece in (
            head[:20],
            head[20:] + b'4\r\n{"n"\r\n',
            b"4\r\n: 1}\r\n0\r\n\r\n",
            b"GET /things HTTP/1.1\r\n\r\n",
        ):
            wire.sendall(piece)
            time.sleep(0.02)
        text = b""
        while text.count(b"HTTP/1.1") < 2 or not text.endswith(b"]}"):
            text += wire.recv(4096)
    assert service.requests[0].json == {"n": 1}
    assert [each.connection for each in service.requests] == [1, 1]


async def test_it_runs_in_the_test_own_loop() -> None:
    async with HttpService() as service:
        status, _ = await asyncio.to_thread(call, service.port, "POST", "/things", {"n": 1})
        assert (status, service.world.effects[0].id) == (201, "things-1")


def test_it_runs_in_a_process_of_its_own_and_leaves_none() -> None:
    with HttpProcess() as service:
        service.script("POST /things", DROP_AFTER, Say(raw=b"\xff", status=200))
        with pytest.raises(http.client.RemoteDisconnected):
            call(service.port, "POST", "/things", {"reference": "r"}, key="k")
        ledger = service.ledger()
        assert (ledger["by_key"], ledger["effects"][0]["reference"], ledger["requests"]) == ({"k": 1}, "r", 1)
        assert service.requests()[0]["path"] == "/things"
        service.reset()
        assert service.ledger()["effects"] == []
    with pytest.raises(ProcessLookupError):
        os.kill(service.process.pid, 0)
