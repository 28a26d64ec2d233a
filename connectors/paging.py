"""Reads that come in pages: what is asked for next, and when it is enough. Each way of paging registers itself.

A page that cannot be had makes the whole read what that page was, so half a list is never taken for a list. A list that
is cut by a limit says so: `incomplete` is true. What a service gives out again is not taken twice (`seen_by`).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import parse_qsl, urldefrag, urljoin

import httpx

from connectors.answers import Seen, Unreadable
from connectors.model import ActionModel, PagesModel
from connectors.reading import outcome_of
from connectors.rendering import answered, holds, json_body, query_of, set_field
from connectors.wire import MAX_BODY, Answer
from runner.clock import MachineClock
from runner.contract import Json, Outcome, canonical
from runner.errors import EvaluationError, RequestError
from runner.language.values import NoValue

MOST_ITEMS = 10_000
MOST_PAGES = 1_000
MOST_IDLE = 10
"""So many pages in a row may bring nothing new."""


class Ask(Protocol):
    """Sends one request within `limit` ms."""

    def __call__(self, body: Mapping[str, Json], *, limit: int) -> Awaitable[Seen | Outcome]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What is known when the next page is to be asked for. `number` counts pages from 1, `got` items as they came."""

    model: PagesModel
    seen: Seen
    number: int
    got: int

    def answered(self, text: str | None) -> str | int:
        """A cursor or an address out of the answer; empty where there is none. Raises Unreadable."""
        try:
            found = answered(text, self.seen.scope) or ""
        except NoValue:
            return ""
        if found is True or not isinstance(found, str | int):
            raise Unreadable("what leads to the next one is neither a text nor a whole number")
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Paging:
    """One way. `next` says what leads to the next page, empty where there is none. Where pages are `counted`, the list
    ends with an empty page or a 404."""

    next: Callable[[Turn], str | int]
    counted: bool = False
    is_address: bool = False


PAGING: dict[str, Paging] = {}
"""Every way by its key in `pages`."""


def _by_link(turn: Turn) -> str:
    leads = turn.answered(turn.model.link) if turn.model.link != "header" else _link_header(turn.seen.answer)
    try:
        return urldefrag(urljoin(turn.seen.url, str(leads))).url if leads else ""
    except ValueError:
        raise Unreadable("what leads to the next one is no address") from None


def _link_header(answer: Answer) -> str:
    links = httpx.Response(answer.status, headers={"link": answer.headers.get("link", "")}).links
    return links.get("next", {}).get("url", "")


PAGING |= {
    "cursor": Paging(next=lambda turn: turn.answered(turn.model.cursor)),
    "page": Paging(next=lambda turn: (turn.model.page or 0) + turn.number, counted=True),
    "offset": Paging(next=lambda turn: (turn.model.offset or 0) + turn.got, counted=True),
    "link": Paging(next=_by_link, is_address=True),
}


def ways(model: PagesModel) -> list[str]:
    """The ways that are written; it should be one."""
    return [name for name in PAGING if getattr(model, name) is not None]


async def read_pages(
    model: ActionModel, pages: PagesModel, body: Mapping[str, Json], *, ask: Ask, url: Callable[[str], str], limit: int
) -> Outcome:
    """The whole read, within `limit` ms in all: one outcome, with the items of all pages in their order.

    `url` passes an address that may be asked, or raises RequestError.
    """
    clock, walk = MachineClock(), _Walk(pages, body, url)
    ends = clock.monotonic() + limit
    while True:
        seen = await ask(walk.body, limit=max(ends - clock.monotonic(), 1))
        outcome = seen if isinstance(seen, Outcome) else outcome_of(model, seen, undo=False)
        if walk.number == 1 and (outcome.result != "applied" or not outcome.output["found"]):
            return outcome
        if isinstance(seen, Outcome) or outcome.result != "applied":
            return replace(outcome, summary=f"page {walk.number} of the list: {outcome.summary}")
        try:
            if walk.take(outcome, seen):
                return Outcome(result="applied", output=walk.output)
        except (Unreadable, EvaluationError, RequestError) as error:
            return seen.doubtful("unreadable", f"page {walk.number} of the list: {error}")


class _Walk:
    """The pages of one read, as they come. `body` is the request for page `number`."""

    def __init__(self, model: PagesModel, body: Mapping[str, Json], url: Callable[[str], str]) -> None:
        self.body = body
        self.number = 1
        self.output: dict[str, Json] = {}
        self._model = model
        self._way = PAGING[ways(model)[0]]
        self._items: list[Json] = []
        self._got = self._idle = self._size = 0
        self._url = url
        self._led: set[str | int] = {str(body["url"])}
        self._names: set[bytes] = set()
        self._pages: set[bytes] = set()

    def take(self, outcome: Outcome, seen: Seen) -> bool:
        """Takes one page; whether it was the last. Raises Unreadable, EvaluationError, RequestError."""
        if not outcome.output["found"]:
            if not self._way.counted:
                raise Unreadable("there is none, although the one before leads to it")
            return self._end()
        page = outcome.output[self._model.of]
        if not isinstance(page, list):
            raise Unreadable(f'"{self._model.of}" is not a list')
        self.output = self.output or {**outcome.output, "incomplete": False}
        new = self._new(page, seen.scope)
        self._items += new
        self._got += len(page)
        self._size += len(seen.answer.body)
        self._idle = 0 if new else self._idle + 1
        if self._is_last(page, seen):
            return self._end()
        leads = self._way.next(Turn(model=self._model, seen=seen, number=self.number, got=self._got))
        if not leads:
            return self._end()
        self._check_goes_on(leads, page)
        if self._is_enough():
            return self._end(incomplete=True)
        self.body = self._next_body(leads)
        self.number += 1
        return False

    def _new(self, page: list[Json], scope: Mapping[str, Json]) -> list[Json]:
        """The items that did not come before."""
        if self._model.seen_by is None:
            return page
        new = []
        for item in page:
            name = canonical(answered(self._model.seen_by, {**scope, "item": item}))
            if name not in self._names:
                self._names.add(name)
                new.append(item)
        return new

    def _is_last(self, page: list[Json], seen: Seen) -> bool:
        if self._model.last is not None and holds(self._model.last, seen.scope):
            return True
        return self._way.counted and not page

    def _check_goes_on(self, leads: str | int, page: list[Json]) -> None:
        """Raises Unreadable for a list that would go round for ever."""
        if leads in self._led:
            raise Unreadable("it leads to a page that was had before, so the list would have no end")
        self._led.add(leads)
        mark = canonical(page)
        if self._way.counted and mark in self._pages:
            raise Unreadable("it is the same as one before; say which page is the last (pages: last)")
        self._pages.add(mark)

    def _is_enough(self) -> bool:
        return (
            len(self._items) >= (self._model.most or MOST_ITEMS)
            or self.number >= MOST_PAGES
            or self._idle >= MOST_IDLE
            or self._size >= MAX_BODY
        )

    def _end(self, *, incomplete: bool = False) -> bool:
        most = self._model.most or MOST_ITEMS
        cut = incomplete or len(self._items) > most
        self.output = {**self.output, self._model.of: self._items[:most], "incomplete": cut}
        return True

    def _next_body(self, leads: str | int) -> dict[str, Json]:
        """The request for the next page: the first one, with another address, query field or body field."""
        url, content = str(self.body["url"]), str(self.body["body"])
        if self._way.is_address:
            return {**self.body, "url": self._url(str(leads))}
        if self._model.query is not None:
            where, _, query = url.partition("?")
            return {**self.body, "url": f"{where}?{_with_field(query, self._model.query, leads)}"}
        name = str(self._model.field)
        if self.body["headers"].get("content-type") == "application/json":
            return {**self.body, "body": json_body(set_field(json.loads(content), name, leads))}
        return {**self.body, "body": _with_field(content, name, leads)}


def _with_field(fields: str, name: str, value: Json) -> str:
    kept = [field for field in parse_qsl(fields, keep_blank_values=True) if field[0] != name]
    return "&".join(query_of({key: said}) for key, said in [*kept, (name, value)])
