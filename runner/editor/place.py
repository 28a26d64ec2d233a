"""What stands at the cursor: an expression that is being written, a name in one, or a plain value of the flow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from runner.editor.desk import Seen
from runner.language.check.context import Context, Text
from runner.language.source import Path, Place

WORD = "cursor__"
"""Stands in the text where something is being written, so that the rest can be read."""
_TYPED = re.compile(r"((?:[A-Za-z_]\w*(?:\[\d+\])?\.)*)(\w*)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Typed:
    """Something that is being written in an expression: `steps.plan.la` is the path (steps, plan) and the word `la`."""

    path: tuple[str, ...]
    word: str
    is_filter: bool


def typed_in(before: str) -> Typed | None:
    """What is being written at the end of this text; None where that is no expression."""
    start = before.rfind("${{")
    if start < 0 or "}}" in before[start:] or before.count("\n", start) > 5:
        return None
    source = before[start + 3 :]
    if source.count('"') % 2 or source.count("'") % 2:
        return None
    found = _TYPED.search(source)
    assert found is not None
    head = source[: found.start()].rstrip()
    path = tuple(re.sub(r"\[\d+\]", "", part) for part in found[1].split(".") if part)
    return Typed(path=path, word=found[2], is_filter=head.endswith("|") and not path)


def with_word(text: str, offset: int) -> str:
    """The text with the expression, or the name, that is being written at the offset replaced by `WORD`."""
    start = text.rfind("${{", 0, offset)
    if start < 0 or "}}" in text[start:offset]:
        return text[:offset] + WORD + text[offset:]
    end = text.find("\n", offset)
    rest = text[offset : end if end >= 0 else len(text)]
    close = rest.find("}}")
    if close >= 0 and "${{" not in rest[:close]:
        return f"{text[:start]}${{{{ {WORD} }}}}{text[offset + close + 2 :]}"
    return f"{text[:start]}${{{{ {WORD} }}}}{text[offset:]}"


def text_with_word(context: Context) -> Text | None:
    """The text in which `WORD` stands."""
    return next((text for text in context.texts if WORD in text.text), None)


def path_with_word(seen: Seen) -> Path | None:
    """The path of the value in which `WORD` stands."""
    if seen.source is None:
        return None
    return next((path for path, scalar in seen.source.scalars.items() if WORD in scalar.text), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pointed:
    """What the cursor points at. A name of an expression has its `text` and the parts of it up to the cursor."""

    kind: Literal["name", "value"]
    path: Path
    place: Place
    value: str
    text: Text | None = None
    parts: tuple[str, ...] = ()


def pointed_at(seen: Seen, line: int, column: int) -> Pointed | None:
    """What stands at a line and column (from 1)."""
    source = seen.source
    if seen.context is None or source is None:
        return None

    def holds(place: Place) -> bool:
        return place.line == line and place.column <= column < place.column + place.length

    for text in seen.context.texts:
        for use in text.uses:
            place = source.inside(text.path, use.offset, use.length)
            if text.path in source.scalars and holds(place):
                whole = source.line(line)[place.column - 1 : place.column - 1 + place.length]
                parts = use.path[: whole[: column - place.column].count(".") + 1]
                return Pointed(kind="name", path=text.path, place=place, value=whole, text=text, parts=parts)
    for path, scalar in source.scalars.items():
        if holds(place := source.at(path)):
            return Pointed(kind="value", path=path, place=place, value=scalar.text)
    return None
