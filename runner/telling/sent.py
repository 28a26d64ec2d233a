"""What was sent or would be, as people write it: values, the place, our reference, who it went to. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from runner.contract import Action, Json
from runner.language.values import as_text, kind_of
from runner.telling.words import plain

LONGEST = 70
"""Signs of a value that are shown."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


def value(given: Json, longest: int = LONGEST) -> str:
    """A value in one line: 200,000 JPY; yes; a list with commas; a record as `name: value`; cut where it is long."""
    kind = kind_of(given)
    if kind == "nothing":
        text = "nothing"
    elif kind == "list":
        text = ", ".join(value(each, longest) for each in given) or "none"
    elif kind == "record":
        text = f"{{ {pairs(given, longest)} }}"
    else:
        text = plain(as_text(given))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def fields(given: Mapping[str, Json], longest: int = LONGEST) -> tuple[str, ...]:
    """Fields as `name: value`, of a mail in the order it is read in. What is empty is left out."""
    return tuple(f"{plain(name)}: {value(given[name], longest)}" for name in in_order(given))


def in_order(given: Mapping[str, Json]) -> list[str]:
    """The names of what is there, of a mail in the order it is read in."""
    first = [name for name in ("to", "subject", "text") if name in given]
    names = [*first, *(name for name in given if name not in first and not (name == "html" and "text" in given))]
    return [name for name in names if given[name] is not None]


def pairs(given: Mapping[str, Json], longest: int = LONGEST) -> str:
    """Fields in one line: name: Ben, amount: 4,000 JPY."""
    return ", ".join(fields(given, longest))


def one_part(action: Action | None, given: Mapping[str, Json], part: int) -> Mapping[str, Json]:
    """The input of one part of several calls (each of the recipients of a mail)."""
    items = given.get(action.fan_out) if action is not None and action.fan_out else None
    if action is None or not isinstance(items, list) or part >= len(items):
        return given
    return {**given, action.fan_out: items[part]}


def receiver(action: Action | None, given: Mapping[str, Json], part: int) -> str:
    """What tells a part from the others: the recipient's address; empty where there are no parts."""
    own = one_part(action, given, part)
    return value(own[action.fan_out]) if action is not None and own is not given else ""


def place(request: Mapping[str, Json]) -> str:
    """Where a frozen request goes to; empty where it does not say so itself."""
    return plain(f"{request.get('method', '')} {request['url']}") if request.get("url") else ""


def reference(action: Action | None, key: str, request: Mapping[str, Json]) -> str:
    """What a call can be looked up by: our key where it was sent along, the Message-ID of a mail; else empty."""
    has_key = action is not None and action.effect in ("keyed", "lookup")
    return plain(request.get("message_id") or (key if has_key else ""))


def own_answer(request: Mapping[str, Json]) -> dict[str, Json]:
    """The fields of the answer that we made ourselves before it was sent: those of a mail."""
    if not request.get("message_id"):
        return {}
    return {"message_id": request["message_id"], "to": request.get("recipient"), "accepted": True}


def pretty(content: str) -> str:
    """JSON as people read it, line by line, and without signs that hide; a text that was cut as it is."""
    try:
        text = json.dumps(json.loads(content), ensure_ascii=False, indent=2)
    except ValueError:
        text = content
    return "\n".join(line[: len(line) - len(line.lstrip())] + plain(line) for line in text.split("\n"))


def files_in(given: Json) -> Iterator[Mapping[str, Json]]:
    """Every stored file in a value."""
    if isinstance(given, Mapping) and "name" in given and _DIGEST.fullmatch(str(given.get("sha256", ""))):
        yield given
    elif isinstance(given, Mapping | list | tuple):
        for inner in given.values() if isinstance(given, Mapping) else given:
            yield from files_in(inner)
