"""Reads in pages: every way goes on and ends, keeps the order, and never takes half a list for a list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import pytest

from connectors import paging
from connectors.declarative import kind_from_text
from runner.contract import Outcome
from tests.connectors.httpserver import Got, HttpServer, Script, answer, drip, drop, http_server, message, raw
from tests.connectors.tools import Lent

LIST = """
connector: crm
title: The contacts
auth: { bearer: token }
actions:
  contacts:
    reads: true
    input: { team: text or empty }
    request: { %s }
    pages: { of: items, %s }
    output: { items: list, total: integer or empty }
    failures:
      - { when: "${{ response.json.error == 'stop' }}", is: forbidden, say: "${{ response.json.error }}" }
"""
GET = 'get: /contacts, query: { team: "${{ input.team }}", limit: 2 }'
POST = 'post: /contacts, json: { filter: { team: "${{ input.team }}" } }'
FORM = 'post: /contacts, form: { team: "${{ input.team }}" }'
CURSOR = 'cursor: "${{ response.json.next }}", query: after'
PAGE, OFFSET = "page: 1, query: page", "offset: 0, query: skip"
LINK, HEADER = 'link: "${{ response.json.next }}"', "link: header"
SEEN = ', seen_by: "${{ item.id }}"'

ROWS = [{"id": f"c{number}"} for number in range(5)]


async def read(server: HttpServer, pages: str, request: str = GET, limit: int = 3_000, **input: Any) -> Outcome:
    kind, problems = kind_from_text(LIST % (request, pages), "crm.yaml")
    assert kind is not None, problems
    line = {"origin": server.origin, "allow_private": True, "token": {"secret": "TOKEN"}}
    crm = kind.connect("crm", line, Lent(TOKEN="tok-3n"))
    prepared = crm.prepare("contacts", input, key="k", purpose="read")
    found = await crm.send("contacts", prepared, key="k", purpose="read", limit=limit)
    await crm.close()
    return found


def told(choose: Callable[[Got], tuple[Any, dict[str, str]]]) -> Script:
    """Answers each request with what is chosen for it: the content, and further headers."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        content, headers = choose(got)
        writer.write(message(200, json.dumps(content).encode(), headers))
        await writer.drain()

    return script


def by_two(first: int, rows: list[Any] = ROWS) -> dict[str, Any]:
    """The page that begins at an item, with what leads on in every way."""
    next_ = first + 2
    return {"items": rows[first:next_], "total": len(rows), "next": str(next_) if next_ < len(rows) else None}


def _by_link(got: Got) -> tuple[Any, dict[str, str]]:
    page = by_two(int(got.query.get("from", "0")))
    return {**page, "next": page["next"] and f"/contacts?from={page['next']}#x"}, {}


def _by_header(got: Got) -> tuple[Any, dict[str, str]]:
    page = by_two(int(got.query.get("from", "0")))
    links = '</contacts?from=0>; rel="first"'
    return page, {"Link": links + (f', </contacts?from={page["next"]}>; rel="next"' if page["next"] else "")}


def _by_form(got: Got) -> tuple[Any, dict[str, str]]:
    return by_two(int(parse_qs(got.body.decode()).get("after", ["0"])[0])), {}


WAYS: list[tuple[str, str, Callable[[Got], tuple[Any, dict[str, str]]], int]] = [
    (CURSOR, GET, lambda got: (by_two(int(got.query.get("after", "0"))), {}), 3),
    (PAGE, GET, lambda got: (by_two(2 * int(got.query.get("page", "1")) - 2), {}), 4),
    ("page: 0, query: page", GET, lambda got: (by_two(2 * int(got.query.get("page", "0"))), {}), 4),
    (PAGE + ', last: "${{ not given(response.json.next) }}"', GET, lambda got: (by_two(2 * int(got.query.get("page", "1")) - 2), {}), 3),
    (OFFSET, GET, lambda got: (by_two(int(got.query.get("skip", "0"))), {}), 4),
    ("offset: 1, query: skip", GET, lambda got: (by_two(int(got.query.get("skip", "1")) - 1), {}), 4),
    (LINK, GET, _by_link, 3),
    (HEADER, GET, _by_header, 3),
    ('cursor: "${{ response.json.next }}", field: page.after', POST, lambda got: (by_two(int(got.json().get("page", {}).get("after", "0"))), {}), 3),
    ("offset: 0, field: skip", POST, lambda got: (by_two(got.json().get("skip", 0)), {}), 4),
    ('cursor: "${{ response.json.next }}", field: after', FORM, _by_form, 3),
]  # fmt: skip


@pytest.mark.parametrize(("pages", "request_", "choose", "asked"), WAYS, ids=[one[0][:40] for one in WAYS])
async def test_every_way_goes_on_and_ends(
    pages: str, request_: str, choose: Callable[[Got], tuple[Any, dict[str, str]]], asked: int
) -> None:
    async with http_server() as server:
        server.on("/contacts", told(choose))
        found = await read(server, pages, request_, team="a&b")
        assert found.output == {"found": True, "items": ROWS, "total": 5, "incomplete": False}
        assert len(server.got) == asked
        assert {one.headers["authorization"] for one in server.got} == {"Bearer tok-3n"}
        if request_ == GET and not pages.startswith("link"):
            assert [(one.query["team"], one.query["limit"]) for one in server.got] == [("a&b", "2")] * asked
        if request_ == POST:
            assert [one.json()["filter"] for one in server.got] == [{"team": "a&b"}] * asked


@pytest.mark.parametrize("size", [0, 1])
async def test_one_page_is_asked_once(size: int) -> None:
    async with http_server() as server:
        server.on("/contacts", answer(200, {"items": ROWS[:size], **({"next": ""} if size else {})}))
        assert (await read(server, CURSOR)).output["items"] == ROWS[:size]
        assert len(server.got) == 1


@pytest.mark.parametrize(
    ("most", "items", "incomplete", "asked"), [(3, 3, True, 2), (4, 4, True, 2), (5, 5, False, 3), (9, 5, False, 3)]
)
async def test_a_list_that_is_cut_says_so(most: int, items: int, incomplete: bool, asked: int) -> None:
    async with http_server() as server:
        server.on("/contacts", told(WAYS[0][2]))
        found = await read(server, f"{CURSOR}, most: {most}")
        assert (found.output["items"], found.output["incomplete"]) == (ROWS[:items], incomplete)
        assert len(server.got) == asked


async def test_an_endless_list_ends_at_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "MOST_PAGES", 7)
    monkeypatch.setattr(paging, "MAX_BODY", 500)
    for pad, asked in ((0, 7), (200, 3)):
        async with http_server() as server:
            numbers = [{"items": [one], "next": one, "pad": "x" * pad} for one in range(1, 20)]
            server.on("/contacts", *[answer(200, one) for one in numbers])
            found = await read(server, CURSOR)
            assert (found.output["incomplete"], len(server.got)) == (True, asked)


async def test_empty_pages_are_gone_through_but_not_for_ever() -> None:
    async with http_server() as server:
        empty = [answer(200, {"items": [], "next": number}) for number in range(1, 10)]
        server.on("/contacts", *empty, answer(200, {"items": ROWS, "next": None}))
        found = await read(server, CURSOR)
        assert (found.output["items"], found.output["incomplete"]) == (ROWS, False)
        many = [answer(200, {"items": [], "next": number}) for number in range(1, 20)]
        server.on("/contacts", *many)
        found = await read(server, CURSOR)
        assert (found.output["items"], found.output["incomplete"]) == ([], True)
        assert len(server.got) == 10 + 10


@pytest.mark.parametrize(
    ("pages", "scripts", "says"),
    [
        (CURSOR, [{"items": [1], "next": "a"}, {"items": [2], "next": "a"}], "page 2 of the list: it leads to a page that was had before"),
        (CURSOR, [{"items": [1], "next": "a"}, {"items": [2], "next": "b"}, {"items": [3], "next": "a"}], "page 3 of the list: it leads to a page that was had before"),
        (LINK, [{"items": [1], "next": "?team=t&limit=2"}], "page 1 of the list: it leads to a page that was had before"),
        (PAGE, [{"items": [1, 2]}], "page 2 of the list: it is the same as one before; say which page is the last"),
        (OFFSET, [{"items": [1, 2]}, {"items": [3]}, {"items": [1, 2]}], "page 3 of the list: it is the same as one before"),
        (CURSOR, [{"items": [1], "next": {"a": 1}}], "page 1 of the list: what leads to the next one is neither a text nor a whole number"),
        (CURSOR, [{"items": [1], "next": True}], "page 1 of the list: what leads to the next one is neither"),
        (LINK, [{"items": [1], "next": "http://127.0.0.1:1/x"}], "crm goes to http://127.0.0.1"),
        (LINK, [{"items": [1], "next": "//elsewhere.test/x"}], "and not to http://elsewhere.test/x"),
        (LINK, [{"items": [1], "next": "http://[x"}], "page 1 of the list: what leads to the next one is no address"),
        (CURSOR + SEEN, [{"items": [{"name": "x"}], "next": None}], "page 1 of the list"),
        (CURSOR, [{"items": [1], "next": "a"}, {"items": None, "next": None}], 'its answer has no "items"'),
    ],
)  # fmt: skip
async def test_a_list_that_goes_round_or_away_is_no_list(pages: str, scripts: list[Any], says: str) -> None:
    async with http_server() as server:
        server.on("/contacts", *[answer(200, one) for one in scripts])
        found = await read(server, pages, team="t")
        assert (found.result, found.reason, found.output) == ("unknown", "unreadable", {})
        assert says in found.summary
        assert len(server.got) <= len(scripts) + 1


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (answer(429, {}, Retry_After="3"), ("refused", "rate_limited")),
        (answer(500, {}), ("unknown", "unknown")),
        (answer(200, {"error": "stop"}), ("refused", "forbidden")),
        (answer(404, {}), ("unknown", "unreadable")),
        (drop(), ("unknown", "connection")),
        (raw(message(200, b"<p>sign in</p>", kind="text/html")), ("unknown", "unreadable")),
    ],
)
async def test_a_page_that_fails_fails_the_list(script: Script, expected: tuple[str, str]) -> None:
    async with http_server() as server:
        server.on("/contacts", answer(200, {"items": [1], "next": "a"}), script)
        found = await read(server, CURSOR)
    assert (found.result, found.reason, found.output) == (*expected, {})
    assert "page 2 of the list" in found.summary
    assert found.retry_after == (3_000 if expected[1] == "rate_limited" else None)


async def test_where_pages_are_counted_a_404_is_the_end() -> None:
    async with http_server() as server:
        server.on("/contacts", answer(200, {"items": [1]}), answer(404, {"detail": "Invalid page."}))
        assert (await read(server, PAGE)).output["items"] == [1]
        server.on("/contacts", answer(404, {}))
        assert (await read(server, PAGE)).output == {"found": False}


async def test_an_item_that_moved_to_the_next_page_comes_once() -> None:
    pages = [{"items": ROWS[:2], "next": "a"}, {"items": ROWS[1:4], "next": "b"}, {"items": ROWS[4:], "next": None}]
    for with_, items in ((SEEN, ROWS), ("", [*ROWS[:2], *ROWS[1:]])):
        async with http_server() as server:
            server.on("/contacts", *[answer(200, one) for one in pages])
            assert (await read(server, CURSOR + with_)).output["items"] == items


async def test_all_pages_have_one_deadline() -> None:
    async def slow(got: Got, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.1)
        await answer(200, {"items": [len(server.got)], "next": len(server.got)})(got, writer)

    async with http_server() as server:
        server.on("/contacts", slow)
        began = asyncio.get_running_loop().time()
        found = await read(server, CURSOR, limit=350)
        assert asyncio.get_running_loop().time() - began < 1.5
        assert (found.result, found.output) == ("unknown", {})
        assert 2 <= len(server.got) <= 4
        server.on("/contacts", answer(200, {"items": [1], "next": "a"}), drip())
        assert (await read(server, CURSOR, limit=300)).reason == "timeout"


MISTAKES = [
    ("of: itms, " + CURSOR, "FL003", '"itms" is not in the output of contacts'),
    ("of: total, " + CURSOR, "FL006", '"total" is not a list'),
    ("of: items, query: after", "FL005", "pages go on in one way"),
    ("of: items, page: 1, offset: 0, query: after", "FL005", "pages go on in one way, and here are page and offset"),
    ("of: items, page: 1", "FL005", "where the page goes is said by one word"),
    ("of: items, page: 1, query: a, field: b", "FL005", "where the page goes is said by one word"),
    ("of: items, page: 1, field: b", "FL006", "the request has no body with fields"),
    ("of: items, link: header, query: a", "FL006", "a link is a whole address; nothing else carries it"),
    ("of: items, link: next", "FL103", '"link" must be one expression'),
    ("of: items, cursor: x, query: a", "FL103", '"cursor" must be one expression'),
    ('of: items, cursor: "${{ respons.json.x }}", query: a', "FL101", 'there is no "respons" here'),
    ('of: items, page: 1, query: a, seen_by: "${{ response.id }}"', "FL101", 'there is no "response" here'),
    ("of: items, page: 2, query: a", "FL006", "page"),
    ("of: items, page: 1, query: a, most: 0", "FL006", "most"),
    ("of: items, page: 1, query: a, mst: 5", "FL003", '"mst" is not a key of pages'),
]


@pytest.mark.parametrize(("pages", "code", "what"), MISTAKES, ids=[one[2] + one[0] for one in MISTAKES])
def test_a_mistake_is_told_at_its_place(pages: str, code: str, what: str) -> None:
    text = (LIST % (GET, "PAGES")).replace("of: items, PAGES", pages)
    kind, problems = kind_from_text(text, "crm.yaml")
    assert kind is None
    assert [one for one in problems if one.code == code and what in one.what and one.line == 10], problems


def test_pages_belong_to_reads_and_say_themselves_what_is_left_out() -> None:
    text = (LIST % (GET, PAGE)).replace("reads: true", "writes: once").replace("total: integer", "incomplete: text")
    _, problems = kind_from_text(text, "crm.yaml")
    assert [one.what for one in problems] == [
        "only a reading action has pages",
        "an action with pages has this field by itself",
    ]
    kind, _ = kind_from_text(LIST % (GET, PAGE), "crm.yaml")
    assert kind is not None
    assert kind.actions()["contacts"].output["incomplete"] == "yes_no"
