"""Writes a case as an author would: keys of a case below each other, what belongs together on one line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from runner.contract import Json
from runner.language.source import reads_differently

WIDEST = 110
_PLAIN = re.compile(r"[^\W\d_](?:(?!: | #)[\w ./@+()&:%!'-])*(?<![ :])")
HEAD = "# yaml-language-server: $schema={schema}\ntest: {flow}\n\ncases:\n"


def as_yaml(case: Mapping[str, Json]) -> str:
    """One case as an item of the list `cases`."""
    lines = [*_map(case, 4)]
    return "\n".join(["  - " + lines[0].lstrip(), *lines[1:]]) + "\n"


def _map(value: Mapping[str, Json], indent: int) -> Iterator[str]:
    for name, one in value.items():
        yield from _field(f"{' ' * indent}{_scalar(name)}:", one, indent, is_open=name == "expect")


def _field(head: str, value: Json, indent: int, *, is_open: bool = False) -> Iterator[str]:
    line = f"{head} {_inline(value)}"
    if not value or not (is_open or (len(line) > WIDEST and isinstance(value, Mapping | list))):
        yield line
    elif isinstance(value, Mapping):
        yield head
        yield from _map(value, indent + 2)
    else:
        yield head
        yield from _list(value, indent + 2)


def _list(value: list[Json], indent: int) -> Iterator[str]:
    for one in value:
        line = f"{' ' * indent}- {_inline(one)}"
        if not isinstance(one, Mapping) or not one or (len(line) <= WIDEST and len(one) > 1):
            yield line
        else:
            lines = [*_map(one, indent + 2)]
            yield f"{' ' * indent}- {lines[0].lstrip()}"
            yield from lines[1:]


def _inline(value: Json) -> str:
    if isinstance(value, Mapping):
        return (
            "{ " + ", ".join(f"{_scalar(name)}: {_inline(one)}" for name, one in value.items()) + " }"
            if value
            else "{}"
        )
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return _scalar(value) if isinstance(value, str) else json.dumps(value)


def _scalar(text: str) -> str:
    is_plain = _PLAIN.fullmatch(text) and not reads_differently(text) and text not in ("true", "false", "null")
    return text if is_plain else json.dumps(text, ensure_ascii=False)
