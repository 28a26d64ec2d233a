"""Where expressions stand in a text: the one marker `${{ … }}`.

A marker ends at the first `}}` outside quotes. There is no escape: data is never looked at, and a flow has no use for
the three signs themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

OPEN, CLOSE = "${{", "}}"

MISTAKEN = (
    r"[＄$]?(?:｛｛|\{｛|｛\{)|＄\{\{?|\$\{(?=\s*(?:inputs|steps|outcome|run|trigger|output|failure|values)\b[^}]*\})"
)
"""Signs that an author takes for the marker: full-width ones, and one brace before a name of ours."""

_STRAY = re.compile(rf"{MISTAKEN}|(?<![$＄])\{{\{{|\{{%|%\}}|\{{#")
_STOP = re.compile(r"""}}|\$\{\{|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|['"]""", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Marker:
    """One marker. `start` and `end` are the offsets of the inner expression, `source` is its text."""

    start: int
    end: int
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """What is not in the language. `offset` counts characters from 0; `line` and `column` of the text from 1."""

    offset: int
    length: int
    what: str
    hint: str = ""
    line: int = 1
    column: int = 1

    def behind(self, start: int) -> Fault:
        """The same in a text where this one begins at offset `start`."""
        return replace(self, offset=self.offset + start)


@lru_cache(maxsize=4096)
def scan(text: str) -> tuple[tuple[Marker, ...], tuple[Fault, ...]]:
    """The markers of a text, and what is wrong around them."""
    found: list[Marker] = []
    wrong: list[Fault] = []
    at = text.find(OPEN)
    while at >= 0:
        start = at + len(OPEN)
        end, fault = end_of(text, start)
        if fault is not None:
            wrong.append(fault)
            break
        found.append(Marker(start=start, end=end, source=text[start:end]))
        at = text.find(OPEN, end + len(CLOSE))
    wrong.extend(_stray_signs(text, found))
    return tuple(found), tuple(wrong)


def pieces(text: str) -> list[str | Marker]:
    """The text in order: plain parts and markers."""
    parts: list[str | Marker] = []
    at = 0
    for marker in scan(text)[0]:
        plain = text[at : marker.start - len(OPEN)]
        if plain:
            parts.append(plain)
        parts.append(marker)
        at = marker.end + len(CLOSE)
    if at < len(text):
        parts.append(text[at:])
    return parts


def place(text: str, fault: Fault) -> Fault:
    """The fault with its line and column in the text."""
    before = text[: fault.offset]
    return replace(fault, line=before.count("\n") + 1, column=fault.offset - before.rfind("\n"))


def end_of(text: str, start: int) -> tuple[int, Fault | None]:
    """Where the expression that begins at `start` ends, or why it does not."""
    for stop in _STOP.finditer(text, start):
        sign = stop[0]
        if sign == CLOSE:
            return stop.start(), None
        if sign == OPEN:
            what, hint = "a marker stands inside a marker", 'close the first one with "}}", or leave "${{" out'
            return 0, Fault(offset=stop.start(), length=3, what=what, hint=hint)
        if sign in ("'", '"') and len(sign) == 1:
            what = "a quote inside ${{ }} is opened and never closed"
            return 0, Fault(offset=stop.start(), length=1, what=what, hint=f"close it with {sign}")
    return 0, Fault(offset=start - len(OPEN), length=3, what='"${{" is never closed', hint='close it with "}}"')


def _stray_signs(text: str, found: list[Marker]) -> list[Fault]:
    """Signs of other template languages outside the markers."""
    inside = [(marker.start - len(OPEN), marker.end + len(CLOSE)) for marker in found]
    wrong = []
    for match in _STRAY.finditer(text):
        if any(start <= match.start() < end for start, end in inside):
            continue
        sign = match[0]
        if not sign.isascii() or sign == "${":
            what, hint = f'"{sign}" begins no expression', 'write "${{" before it and "}}" behind it'
        elif sign == "{{":
            what, hint = '"{{" without "$" is not a marker', "write ${{ … }}"
        elif sign == "{#":
            what, hint = '"{#" is not in the language', "write a YAML comment behind #"
        else:
            what, hint = f'"{sign}" is not in the language', "{% for %} and {% if %} stand in templates alone"
        wrong.append(Fault(offset=match.start(), length=len(sign), what=what, hint=hint))
    return wrong
