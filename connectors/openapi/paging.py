"""How a list goes on, guessed from the names that services use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connectors.openapi.document import Document, Operation, Unsayable
from connectors.openapi.shapes import kinds_of
from runner.contract import Json
from runner.language.fields import kind_of_field

CURSORS: Final = (
    "cursor", "after", "page_token", "pageToken", "next_token", "nextToken", "starting_after", "next_page_token",
    "start_cursor", "PageToken",
)  # fmt: skip
OFFSETS: Final = ("offset", "skip", "startAt", "start_at")
PAGES: Final = ("page", "page_number", "pageNumber", "Page")
FOLLOW: Final = (
    "next_cursor", "nextCursor", "next_page_token", "nextPageToken", "next_token", "nextToken", "cursor",
    "end_cursor", "after",
)  # fmt: skip
"""Fields of an answer, also one level down, that name the next page."""
LINKS: Final = ("next_page_uri", "next_page_url", "next_url", "nextPage", "next")
"""Fields of an answer that are the whole address of the next page."""


def leaders(document: Document, operation: Operation) -> dict[str, str]:
    """The query fields that lead from page to page: name to the way. Only where one of them is there at all."""
    found = {}
    for written in operation.parameters:
        try:
            told = document.resolved(written)
        except Unsayable:
            continue
        name = str(told.get("name"))
        for way, names in (("cursor", CURSORS), ("page", PAGES), ("offset", OFFSETS)):
            if told.get("in") == "query" and name in names and not told.get("required"):
                found[name] = way
    return found


def pages_of(document: Document, operation: Operation, output: Mapping[str, Any]) -> dict[str, Any]:
    """`pages`, or nothing where no way is known for sure enough."""
    lists = [name for name, word in output.items() if kind_of_field(word) == "list"]
    ways = leaders(document, operation)
    if len(lists) != 1:
        return {}
    of = lists[0]
    written = {"of": of}
    if _has_link_header(document, operation):
        return {**written, "link": "header"}
    for name in LINKS if ways else ():
        if str(output.get(name, "")).startswith("text") and _is_address(document, operation, name):
            return {**written, "link": f"${{{{ response.json.{name} }}}}"}
    by_way = {way: name for name, way in reversed(ways.items())}
    if "cursor" in by_way:
        leads = _cursor(document, operation, of, by_way["cursor"])
        if leads:
            return {**written, **leads, "query": by_way["cursor"]}
    if "page" in by_way:
        return {**written, "page": _first(document, operation, by_way["page"], 1), "query": by_way["page"]}
    if "offset" in by_way:
        return {**written, "offset": _first(document, operation, by_way["offset"], 0), "query": by_way["offset"]}
    return {}


def whole_list(word: Any) -> Any:
    """The type of a list that is always there: without it there is nothing to go on with."""
    return {"list": word["list"]} if isinstance(word, Mapping) else "list"


def _answer(document: Document, operation: Operation) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """(headers, properties) of the answer that is a success."""
    for status, told in (operation.told.get("responses") or {}).items():
        if str(status)[:1] == "2":
            answer = document.resolved(told)
            schemas = [one.get("schema") for one in (answer.get("content") or {}).values() if isinstance(one, Mapping)]
            schema = document.schema(schemas[0]) if schemas else {}
            return answer.get("headers") or {}, schema.get("properties") or {}
    return {}, {}


def _has_link_header(document: Document, operation: Operation) -> bool:
    return any(name.lower() == "link" for name in _answer(document, operation)[0])


def _is_address(document: Document, operation: Operation, name: str) -> bool:
    told = document.schema(_answer(document, operation)[1].get(name))
    return name.endswith(("uri", "url")) or str(told.get("format")) in ("uri", "url", "uri-reference")


def _cursor(document: Document, operation: Operation, of: str, leader: str) -> dict[str, Any]:
    properties = _answer(document, operation)[1]
    if leader == "starting_after" and "has_more" in properties:
        last = f"response.json.{of}[-1].id"
        return {"cursor": f"${{{{ {last} }}}}", "last": "${{ not response.json.has_more }}"}
    for way in _named(document, properties):
        return {"cursor": f"${{{{ response.json.{way} }}}}"}
    return {}


def _named(document: Document, properties: Mapping[str, Json], depth: int = 0) -> list[str]:
    found = [name for name in FOLLOW if name in properties and not _is_record(document, properties[name])]
    if found or depth > 1:
        return found[:1]
    for name in ("paging", "pagination", "next", "next_page", "meta", "response_metadata", "page_info", "links"):
        if name in properties:
            inner = document.schema(properties[name]).get("properties") or {}
            deeper = _named(document, inner, depth + 1) or (
                ["offset"] if name == "next_page" and "offset" in inner else []
            )
            if deeper:
                return [f"{name}.{deeper[0]}"]
    return []


def _is_record(document: Document, value: Json) -> bool:
    return kinds_of(document.schema(value)) not in (["string"], [])


def _first(document: Document, operation: Operation, name: str, usual: int) -> int:
    for written in operation.parameters:
        told = document.resolved(written)
        if told.get("name") == name:
            start = document.schema(told.get("schema")).get("default")
            return start if start in (0, 1) and not isinstance(start, bool) else usual
    return usual
