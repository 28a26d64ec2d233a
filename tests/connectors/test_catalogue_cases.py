"""Cases from the field on each connector file that is shipped, where they fit. Each test begins with its case's id."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote, unquote

import pytest

from connectors.answers import LONGEST_WAIT
from runner.contract import Action, Purpose, optional
from runner.errors import RequestError
from runner.language.types import sample
from tests.connectors.catalogue import (
    ALL,
    CONNECTORS,
    HEADER,
    KEY,
    NAMES,
    WRITES,
    connect,
    exchange,
    inputs_of,
    kind_of,
    purpose_of,
    scripted,
    secrets_of,
    success_of,
)
from tests.connectors.httpserver import Got, drip, gzip_bomb, html, http_server, message, raw, redirect
from tests.connectors.tools import forms

READS = [one for one in ALL if one not in WRITES]
UNDOS = sorted(
    {(name, said.undo.action) for name in NAMES for said in kind_of(name).actions().values() if said.undo is not None}
)
FIRST = [next(one for one in WRITES if one[0] == name) for name in NAMES]
EVIL = "a\r\nX-Evil: 1\u2028 &?=#/../%0d%0a\x00 見積 \"'"
METADATA = "http://169.254.169.254/latest/meta-data/"


# --- I1: redirects -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "action"), WRITES)
async def test_i1_a_write_follows_no_redirect(name: str, action: str) -> None:
    async with http_server() as other:
        for status in (302, 307, 308):
            found, server = await scripted(name, action, redirect(status, f"{other.origin}/elsewhere"))
            assert (found.result, found.reason) == ("unknown", "redirect"), found
            assert f"127.0.0.1:{other.port}" in found.summary
            assert len(server.got) == 1
        assert other.got == []


@pytest.mark.parametrize(("name", "action"), READS)
async def test_i1_a_read_leaves_its_origin_by_no_redirect(name: str, action: str) -> None:
    async with http_server() as other:
        for to in (f"{other.origin}/elsewhere", METADATA):
            found, server = await scripted(name, action, redirect(307, to))
            assert (found.result, found.reason) == ("unknown", "redirect"), found
            assert len(server.got) == 1
        assert other.got == []


# --- I2: a success that is none ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "action"), ALL)
async def test_i2_a_page_is_no_success_and_says_so(name: str, action: str) -> None:
    status = success_of(name, action)[0]
    found, _ = await scripted(name, action, html(200 if status == 204 else status))
    assert (found.result, found.reason) == ("unknown", "unreadable"), found
    assert "text/html Please sign in" in found.evidence
    broken, _ = await scripted(name, action, html(503))
    assert broken.result == "unknown", broken


@pytest.mark.parametrize(("name", "action"), WRITES)
async def test_i2_an_answer_without_what_it_promises_is_unknown(name: str, action: str) -> None:
    """Where the file says what a success holds; else the status is all that the service says."""
    written, said = CONNECTORS[name]["actions"][action], kind_of(name).actions()[action]
    if "response.json" not in f"{written.get('success')}" and all(optional(kind) for kind in said.output.values()):
        return
    for body in (b"", b"{}", b"[]", b'{"ok": false}'):
        found, _ = await scripted(name, action, raw(message(200, body, kind="application/json" if body else "")))
        assert found.result in ("unknown", "refused"), (body, found)


@pytest.mark.parametrize(("name", "action"), FIRST)
async def test_i2_a_byte_order_mark_changes_nothing(name: str, action: str) -> None:
    status, content = success_of(name, action)
    written = CONNECTORS[name]["actions"][action]
    said = {one: f"{one}_1" for one in HEADER.findall(f"{written.get('result')} {written.get('external_id')}")}
    body = b"\xef\xbb\xbf" + json.dumps(content).encode() if status != 204 else b""
    found, _ = await scripted(name, action, raw(message(status, body, said)))
    assert found.result == "applied", found


# --- H1, H2: many recipients; what people type ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "action"), [("gmail", "send_mail"), ("microsoft365", "send_mail"), ("sendgrid", "send_mail")]
)
def test_h1_a_mail_goes_to_one_address_so_each_has_its_own_outcome(name: str, action: str) -> None:
    given = inputs_of(kind_of(name).actions()[action])[0]
    for several in (["a@x.test", "b@x.test"], "a@x.test, b@x.test"):
        with pytest.raises(RequestError):
            connect(name).prepare(action, {**given, "to": several}, key=KEY, purpose="do")


def _typed(action: Action) -> dict[str, Any]:
    """Its input, with what people paste in every field that is a text."""
    given = inputs_of(action)[0]
    texts = [name for name, value in sample(action.input).items() if value == f"draft {name}"]
    return {**given, **dict.fromkeys(texts, EVIL)}


@pytest.mark.parametrize(("name", "action"), ALL)
async def test_h2_what_people_type_stays_where_it_belongs(name: str, action: str) -> None:
    said = kind_of(name).actions()[action]
    plain, typed = inputs_of(said)[0], _typed(said)
    async with http_server() as server:
        connection = connect(name, server)
        usual = connection.prepare(action, plain, key=KEY, purpose=purpose_of(said)).body
        try:
            request = connection.prepare(action, typed, key=KEY, purpose=purpose_of(said))
        except RequestError:
            return  # not sent at all
        await connection.send(action, request, key=KEY, purpose=purpose_of(said), limit=3_000)
        await connection.close()
    (got,) = server.got
    assert "x-evil" not in got.headers
    assert set(got.headers) >= set(usual["headers"])
    where = str(usual["url"]).partition("://")[2].partition("/")[2]
    assert got.target.partition("?")[0].count("/") == f"/{where.partition('?')[0]}".count("/")
    if "json" in got.headers.get("content-type", ""):
        texts = json.dumps(got.json(), ensure_ascii=False)
        if EVIL in str(request.body["body"]) or "X-Evil" in str(request.body["body"]):
            assert "見積" in texts
    assert set(got.query) == {unquote(one.partition("=")[0]) for one in where.partition("?")[2].split("&") if one} | (
        set(got.query) & set(_added(name))
    )


def _added(name: str) -> list[str]:
    """Query fields that the way to prove who we are adds."""
    told = (CONNECTORS[name].get("auth") or {}).get("query") or {}
    return [told["name"]] if told else []


# --- L1: secrets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "action"), FIRST + [next(one for one in READS if one[0] == n) for n in sorted({r[0] for r in READS})]
)
async def test_l1_a_service_that_echoes_our_secrets_tells_them_to_nobody(
    name: str, action: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept = list(secrets_of(kind_of(name)).values())
    caplog.set_level(logging.DEBUG)

    async def echo(got: Got, writer: asyncio.StreamWriter) -> None:
        said = [*got.headers.values(), got.target, *(form for secret in kept for form in forms(secret))]
        body = json.dumps({"message": " ".join(said), "error": {"message": said}, "errors": said}).encode()
        await raw(message(echo_status, body, {"X-Echo": quote(kept[0]), "Location": f"/?token={quote(kept[0])}"}))(
            got, writer
        )

    for echo_status in (200, 302, 400, 401, 403, 409, 500):
        found, _ = await scripted(name, action, echo)
        shown = f"{found} {caplog.text}"
        for secret in kept:
            assert not [form for form in forms(secret) if form in shown], (echo_status, shown)
        if "basic" in (CONNECTORS[name].get("auth") or {}):
            pair = base64.b64encode(f"draft user:{kept[0]}".encode()).decode()
            assert pair not in shown


# --- R3: how long to wait ------------------------------------------------------------------------------------------

WAITS: list[tuple[str, int | None]] = [
    ("7", 7_000),
    ("1.5", 1_500),
    (format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True), 0),
    ("Fri, 01 Jan 2099 00:00:00 GMT", LONGEST_WAIT),
    ("99999999999", LONGEST_WAIT),
    ("soon", None),
    ("NaN", None),
    ("-5", 0),
]


@pytest.mark.parametrize(("name", "action"), FIRST)
async def test_r3_how_long_to_wait_is_read_in_every_form_and_never_for_ever(name: str, action: str) -> None:
    for said, expected in WAITS:
        late, _ = await exchange(name, action, 429, {"message": "slow down"}, headers={"Retry_After": said})
        assert (late.result, late.reason, late.retry_after) == ("refused", "rate_limited", expected), said
    broken, _ = await exchange(name, action, 503, {"message": "oh"}, headers={"Retry_After": "7"})
    assert (broken.result, broken.retry_after) == ("unknown", 7_000)


# --- R5: answers that are too much ---------------------------------------------------------------------------------


BOMB = gzip_bomb(12)


@pytest.mark.parametrize(("name", "action"), FIRST)
async def test_r5_a_small_answer_that_becomes_a_large_one_is_not_read_and_a_slow_one_has_an_end(
    name: str, action: str
) -> None:
    found, _ = await scripted(name, action, BOMB)
    assert (found.result, found.reason) == ("unknown", "unreadable")
    assert "is larger than 10 MB" in found.summary
    slow, _ = await scripted(name, action, drip(), limit=150)
    assert (slow.result, slow.reason) == ("unknown", "timeout")
    half = raw(message(200, gzip.compress(b"{}")[:-4], {"Content-Encoding": "gzip"}))
    assert (await scripted(name, action, half))[0].result == "unknown"


# --- R7: a second undo ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "action"), UNDOS)
async def test_r7_a_conflict_on_an_undo_does_not_say_what_stands(name: str, action: str) -> None:
    purpose: Purpose = "undo"
    found, _ = await exchange(
        name, action, 409, {"message": "already undone", "error": {"message": "already undone"}}, purpose
    )
    assert (found.result, found.reason) == ("unknown", "conflict"), found
