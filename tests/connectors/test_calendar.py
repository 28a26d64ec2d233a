"""Events on a real CalDAV server, with a plain HTTP client as the judge; odd answers from a scripted one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from connectors.calendar import KIND
from runner.contract import Connector, Outcome, Purpose
from runner.errors import RequestError, SettingsError
from tests.connectors.httpserver import answer, http_server, late, message, raw
from tests.connectors.tools import Lent
from tests.support.radicale import PASSWORD, USER, ask, running_radicale
from tests.support.tcp_proxy import Break, TcpProxy

LENT = Lent(DAV=PASSWORD)
VISIT = {"summary": "下見; 佐藤様, 2名", "start": "2026-09-01T10:00:00+09:00", "end": "2026-09-01T11:00:00+09:00", "location": "本社\n3階"}  # fmt: skip
EVENT = {
    "summary": "下見; 佐藤様, 2名", "description": None, "location": "本社\n3階", "status": None,
    "start": "2026-09-01T01:00:00+00:00", "end": "2026-09-01T02:00:00+00:00",
}  # fmt: skip
DAY = {"from": "2026-09-01", "to": "2026-09-02"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running_radicale(tmp_path_factory.mktemp("radicale")) as port:
        yield port


@pytest.fixture
def port(server: int) -> int:
    ask(server, "DELETE", "/ops/bookings/")
    ask(server, "MKCALENDAR", "/ops/bookings/")
    return server


def connect(port: int, tools: Lent = LENT, **settings: Any) -> Connector:
    line = {"origin": f"http://127.0.0.1:{port}", "allow_private": True, "calendar": "/ops/bookings/", "user": USER}
    made: Connector = KIND.connect("bookings", {**line, "password": {"secret": "DAV"}, **settings}, tools)
    return made


async def did(
    mine: Connector, action: str, input: dict[str, Any], key: str = "am_1", purpose: Purpose = "do", limit: int = 5_000
) -> Outcome:
    request = mine.prepare(action, input, key=key, purpose=purpose)
    try:
        return await mine.send(action, request, key=key, purpose=purpose, limit=limit)
    finally:
        await mine.close()


async def test_an_event_is_made_once_and_found(port: int) -> None:
    mine = connect(port)
    made = await did(mine, "create", VISIT)
    assert made.result == "applied", made
    assert (made.external_id, made.output["uid"], made.output["event"]) == ("am_1", "am_1", EVENT)
    assert await did(mine, "create", VISIT) == made
    together = await asyncio.gather(*(did(connect(port), "create", VISIT, key="am_2") for _ in range(5)))
    assert {one.result for one in together} == {"applied"}
    found = await did(mine, "find", DAY, purpose="read")
    assert [one["uid"] for one in found.output["events"]] == ["am_1", "am_2"]
    assert found.output["events"][0] == {"uid": "am_1", "etag": made.output["etag"], **EVENT}
    none = await did(mine, "find", {"from": "2026-10-01", "to": "2026-10-02"}, purpose="read")
    assert (none.output["found"], none.output["count"]) == (False, 0)
    cut = await did(mine, "find", {**DAY, "most": 1}, purpose="read")
    assert (cut.output["count"], cut.output["incomplete"]) == (1, True)
    status, text = ask(port, "GET", "/ops/bookings/am_1.ics")
    assert status == 200
    assert "DTSTART:20260901T010000Z" in text


async def test_a_second_attempt_overwrites_nothing(port: int) -> None:
    mine = connect(port)
    made = await did(mine, "create", VISIT)
    moved = {"uid": "am_1", "etag": made.output["etag"], "set": {"location": "支社"}}
    assert (await did(mine, "update", moved, key="am_2")).result == "applied"
    again = await did(mine, "create", VISIT)
    assert (again.result, again.output["event"]["location"]) == ("applied", "支社")


async def test_cancel_undoes_only_what_was_seen(port: int) -> None:
    mine = connect(port)
    undo = mine.actions["create"].undo
    assert undo is not None
    made = await did(mine, "create", VISIT)
    moved = await did(
        mine, "update", {"uid": "am_1", "etag": made.output["etag"], "set": {"location": "支社"}}, key="am_2"
    )
    assert moved.result == "applied"
    late_undo = {"uid": "am_1", "etag": made.output["etag"]}
    refused = await did(mine, undo.action, late_undo, key="am_undo", purpose="undo")
    assert (refused.result, refused.reason) == ("refused", "conflict")
    assert refused.summary == "the event am_1 is not what it was when it was read; it was left alone"
    assert ask(port, "GET", "/ops/bookings/am_1.ics")[0] == 200
    right = {"uid": "am_1", "etag": moved.output["etag"]}
    gone = await did(mine, "cancel", right, key="am_3")
    assert (gone.result, gone.output) == ("applied", {"uid": "am_1", "cancelled": True})
    again = await did(mine, "cancel", right, key="am_3")
    assert (again.result, again.output["cancelled"]) == ("applied", False)
    assert (await did(mine, "get", {"uid": "am_1"}, purpose="read")).output["found"] is False


async def test_an_update_can_be_asked_and_undone(port: int) -> None:
    mine = connect(port)
    made = await did(mine, "create", VISIT)
    change = {"uid": "am_1", "etag": made.output["etag"], "set": {"start": "2026-09-01T10:30:00+09:00", "location": ""}}
    assert (await did(mine, "update", change, purpose="lookup")).count == 0
    changed = await did(mine, "update", change)
    assert changed.output["before"] == {"start": "2026-09-01T01:00:00+00:00", "location": "本社\n3階"}
    assert (await did(mine, "update", change, purpose="lookup")).count == 1
    twice = await did(mine, "update", change)
    assert (twice.result, twice.reason) == ("refused", "conflict")
    back = {"uid": "am_1", "etag": changed.output["etag"], "set": changed.output["before"]}
    undone = await did(mine, "update", back, key="am_undo", purpose="undo")
    assert undone.output["event"] == EVENT
    ends = await did(
        mine, "update", {"uid": "am_1", "etag": undone.output["etag"], "set": {"start": "2026-09-05T10:00:00Z"}}
    )
    assert (ends.result, ends.reason) == ("refused", "invalid")
    gone = await did(mine, "update", {**change, "uid": "am_9"})
    assert (gone.result, gone.reason) == ("refused", "not_found")


async def test_whole_days_and_what_other_programs_made(port: int) -> None:
    mine = connect(port)
    made = await did(mine, "create", {"summary": "Fair", "start": "2026-09-01", "end": "2026-09-03"})
    assert (made.output["event"]["start"], made.output["event"]["end"]) == ("2026-09-01", "2026-09-03")
    foreign = (
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:other\r\nDTSTAMP:20260101T000000Z\r\n"
        "DTSTART;TZID=Asia/Tokyo:20260901T090000\r\nDURATION:PT90M\r\nSUMMARY:Long \r\n name\r\nX-OWN:kept\r\n"
        "BEGIN:VALARM\r\nACTION:DISPLAY\r\nDESCRIPTION:x\r\nTRIGGER:-PT5M\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )
    assert ask(port, "PUT", "/ops/bookings/other.ics", foreign)[0] == 201
    got = await did(mine, "get", {"uid": "other"}, purpose="read")
    assert got.output["event"]["start"] == "2026-09-01T00:00:00+00:00"
    assert got.output["event"]["summary"] == "Long name"
    changed = await did(mine, "update", {"uid": "other", "etag": got.output["etag"], "set": {"summary": "Short"}})
    assert changed.result == "applied"
    text = ask(port, "GET", "/ops/bookings/other.ics")[1]
    assert "SUMMARY:Short" in text
    assert "X-OWN:kept" in text
    assert "BEGIN:VALARM" in text


async def test_a_lost_answer_is_unknown_and_then_found(port: int) -> None:
    """The line is cut at many places; whatever was said, the same key leads to one event."""
    seen: set[tuple[str, bool]] = set()
    cuts = [("up", at) for at in range(0, 900, 90)] + [("down", at) for at in (0, 10, 100)]
    for number, (way, after) in enumerate(cuts):
        key = f"am_cut_{number}"
        async with TcpProxy(port, always=Break(kind="reset", way=way, after=after)) as proxy:  # type: ignore[arg-type]
            found = await did(connect(proxy.port), "create", VISIT, key=key, limit=2_000)
        is_there = ask(port, "GET", f"/ops/bookings/{key}.ics")[0] == 200
        seen.add((found.result, is_there))
        assert found.result in ("unknown", "applied") or not is_there, (way, after, found)
        assert (await did(connect(port), "create", VISIT, key=key)).result == "applied"
    assert ("unknown", True) in seen
    events = (await did(connect(port), "find", DAY, purpose="read")).output["events"]
    assert len(events) == len(cuts)


async def test_who_is_not_let_in(port: int) -> None:
    found = await did(connect(port, tools=Lent(DAV="wr0ng-word")), "create", VISIT)
    assert (found.result, found.reason) == ("refused", "forbidden")
    assert "wr0ng-word" not in repr(found)
    unset = await did(connect(port, tools=Lent()), "get", {"uid": "a"}, purpose="read")
    assert (unset.result, unset.summary) == ("not_sent", "bookings: the secret DAV is not set")


@pytest.mark.parametrize(
    ("action", "says", "expected"),
    [
        ("create", [answer(201), answer(500)], ("unknown", "unknown")),
        ("create", [answer(201), answer(401)], ("unknown", "forbidden")),
        ("create", [answer(201), answer(404)], ("unknown", "unknown")),
        ("create", [late(2.0, answer(201))], ("unknown", "timeout")),
        ("create", [answer(507)], ("unknown", "unknown")),
        ("create", [answer(429)], ("refused", "rate_limited")),
        ("update", [answer(503)], ("not_sent", "unknown")),
        ("update", [answer(403)], ("refused", "forbidden")),
        ("update", [raw(message(200, b"hello", kind="text/calendar"))], ("not_sent", "unreadable")),
        ("cancel", [answer(503)], ("unknown", "unknown")),
        ("get", [answer(503)], ("unknown", "unknown")),
        ("find", [raw(message(207, b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", kind="text/xml"))], ("unknown", "unreadable")),
        ("find", [raw(message(207, b"<a", kind="text/xml"))], ("unknown", "unreadable")),
    ],
)  # fmt: skip
async def test_what_an_answer_means(action: str, says: list[Any], expected: tuple[str, str]) -> None:
    inputs: dict[str, dict[str, Any]] = {
        "create": VISIT, "update": {"uid": "a", "etag": '"1"', "set": {"summary": "b"}},
        "cancel": {"uid": "a", "etag": '"1"'}, "get": {"uid": "a"}, "find": DAY,
    }  # fmt: skip
    async with http_server() as server:
        server.on("*", *says)
        found = await did(connect(server.port), action, inputs[action], limit=700)
    assert (found.result, found.reason) == expected, found


@pytest.mark.parametrize(
    ("action", "input", "said"),
    [
        ("create", {"summary": "a", "start": "2026-09-01T10:00"}, "must be a moment with its offset"),
        ("create", {"summary": "a", "start": "tomorrow"}, '"tomorrow" must be a moment'),
        ("create", {"summary": "a", "start": "2026-09-02", "end": "2026-09-01"}, "an event ends after it starts"),
        ("create", {"summary": "a", "start": "2026-09-02", "end": "2026-09-03T10:00:00Z"}, "both are dates or both are moments"),
        ("get", {"uid": "../x"}, 'is no uid that a path can hold'),
        ("update", {"uid": "a", "etag": "b", "set": {"sumary": "x"}}, 'an event has no field "sumary"'),
        ("find", {"from": "2026-09-02", "to": "2026-09-01"}, "from must be before to"),
    ],
)  # fmt: skip
def test_requests_that_cannot_be(action: str, input: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError) as told:
        connect(1).prepare(action, input, key="k", purpose="do")
    assert said in str(told.value)


def test_settings_that_cannot_be() -> None:
    with pytest.raises(SettingsError, match="calendar must be a path on the server"):
        connect(1, calendar="bookings")
    with pytest.raises(SettingsError, match="there is a password and no user"):
        connect(1, user="")
    with pytest.raises(RequestError, match="cannot be asked by a key"):
        connect(1).prepare("create", VISIT, key="k", purpose="lookup")
    assert connect(1).prepare("create", VISIT, key="order 7/1", purpose="do").body["uid"] != "order 7/1"
