"""Where the values of an HTML template stand, and how each is written there so that it stays a value.

A value may stand in text and in a quoted attribute. In an address (`href`, `src`) it is a whole web address or a part
of one. Anywhere else (a tag's name, a script, a style, an attribute without quotes) it is refused when the file loads.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from functools import lru_cache
from html.parser import HTMLParser
from typing import Literal
from urllib.parse import quote

from runner.errors import EvaluationError
from runner.language.types import is_web_address
from runner.language.values import shown

Place = Literal["text", "attribute", "address", "in address"]

_ADDRESSES = frozenset("href src action formaction background cite poster data xlink:href".split())
_RUNNING = frozenset("style srcdoc srcset".split())
_RAW = frozenset("script style".split())
_MARK = re.compile(r"amendsvalue([0-9]+)z")
_TAG_START = re.compile(r"<[A-Za-z/!?]")
_QUOTED = re.compile(r"""=\s*(?:"[^"]*|'[^']*)\Z""")
_MAIL_ADDRESS = re.compile(r"mailto:[A-Za-z0-9.+_@-]+")


def mark_of(index: int) -> str:
    """What stands for the value of that index while its place is looked for."""
    return f"amendsvalue{index}z"


def write_value(text: str, place: Place) -> str:
    """The value as it is written in HTML at that place. An address that is none raises EvaluationError."""
    if place == "address":
        return html.escape(address_of(text))
    if place == "in address":
        return html.escape(quote(text, safe="@"))
    escaped = html.escape(text)
    return "<br>\n".join(escaped.splitlines()) if place == "text" else escaped


def address_of(text: str) -> str:
    """The text, which must be a web or mail address that a link can lead to."""
    if is_web_address(text) or _MAIL_ADDRESS.fullmatch(text):
        return text
    raise EvaluationError(f"{shown(text)} is not a web address, so no link can lead there")


@lru_cache(maxsize=256)
def places_of(marked: str) -> tuple[Mapping[int, Place], Mapping[int, str]]:
    """(place by index, what is wrong by index) of the marks in an HTML text."""
    reader = _Places()
    reader.feed(marked)
    rest = reader.rawdata
    reader.close()
    if _TAG_START.match(rest):
        reader.refuse(rest, "in a tag that is never closed")
    return reader.places, reader.wrong


class _Places(HTMLParser):
    """Finds the marks."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.places: dict[int, Place] = {}
        self.wrong: dict[int, str] = {}
        self._raw = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._raw = tag if tag in _RAW else ""
        self.refuse(tag, "in the name of a tag")
        written = self.get_starttag_text() or ""
        for name, value in attrs:
            self.refuse(name, "in the name of an attribute")
            for match in _MARK.finditer(value or ""):
                self._attribute(name, value or "", match, written)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._raw = ""

    def handle_endtag(self, tag: str) -> None:
        self._raw = ""
        self.refuse(tag, "in the name of a tag")

    def handle_data(self, data: str) -> None:
        if self._raw:
            self.refuse(data, f"inside <{self._raw}>")
            return
        for match in _MARK.finditer(data):
            self.places[int(match[1])] = "text"

    def handle_comment(self, data: str) -> None:
        self.refuse(data, "inside a comment")

    def handle_decl(self, decl: str) -> None:
        self.refuse(decl, "inside <!…>")

    def handle_pi(self, data: str) -> None:
        self.refuse(data, "inside <?…>")

    def unknown_decl(self, data: str) -> None:
        self.refuse(data, "inside <![…]>")

    def refuse(self, text: str, where: str) -> None:
        """Says of every mark in the text that it cannot stand there."""
        for match in _MARK.finditer(text):
            self.wrong[int(match[1])] = f"a value cannot stand {where}"

    def _attribute(self, name: str, value: str, match: re.Match[str], written: str) -> None:
        index = int(match[1])
        before = written[: written.find(match[0])]
        if name.startswith("on") or name in _RUNNING:
            self.wrong[index] = f'a value cannot stand in the attribute "{name}"'
        elif not _QUOTED.search(before):
            self.wrong[index] = f'the attribute "{name}" needs quotes around its value'
        elif name in _ADDRESSES:
            self.places[index] = "in address" if value[: match.start()].strip() else "address"
        else:
            self.places[index] = "attribute"
