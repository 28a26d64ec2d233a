"""The tables of the README, made out of what the kinds say of themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping

from connectors import email, http, quarantine, records, webhook
from connectors.auth import AUTH
from connectors.declarative import kind_from_text, shipped
from runner.contract import Action, ConnectorKind, Json

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
EFFECTS = {
    "read": "asks",
    "keyed": "keyed",
    "lookup": "can be asked",
    "once": "once",
}


def kinds() -> list[ConnectorKind]:
    """Every kind that comes with Amends."""
    found: list[ConnectorKind] = [http.KIND, email.KIND, webhook.KIND, records.KIND, quarantine.KIND]
    for name, text in shipped().items():
        kind, problems = kind_from_text(text, f"connectors/{name}.yaml")
        if kind is None:
            raise ValueError(f"connectors/{name}.yaml: {problems[0].what}")
        found.append(kind)
    return found


def tables() -> str:
    """The tables as Markdown."""
    return (
        "\n".join(line for kind in kinds() for line in _kind(kind))
        + f"\nWays to prove who we are: {', '.join(f'`{name}`' for name in AUTH)}.\n"
    )


def with_tables(readme: str) -> str:
    """The README with fresh tables between its two marks. Raises ValueError if a mark is missing."""
    before, mark, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the README has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


def _kind(kind: ConnectorKind) -> list[str]:
    lines = [f"### `{kind.name}`: {kind.title}", ""]
    settings = kind.settings()
    if settings:
        lines += ["| setting | type |", "|---|---|"]
        lines += [f"| `{name}` | {_type(said)} |" for name, said in settings.items()]
        lines.append("")
    if kind.actions():
        lines += ["| action | what it does | effect | input | output | taken back by |", "|---|---|---|---|---|---|"]
        lines += [_action(action) for action in kind.actions().values()]
        lines.append("")
    return lines


def _action(action: Action) -> str:
    undo = f"`{action.undo.action}`" if action.undo is not None else action.cannot_undo
    more = ", any further field" if action.open_input else ""
    cells = [
        f"`{action.name}`",
        action.title,
        EFFECTS[action.effect],
        _fields(action.input) + more,
        _fields(action.output),
        undo or ("" if action.effect == "read" else "says nothing"),
    ]
    return "| " + " | ".join(cells) + " |"


def _fields(fields: Mapping[str, Json]) -> str:
    return ", ".join(f"`{name}` {_type(said)}" for name, said in fields.items())


def _type(said: Json) -> str:
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return text.replace("|", "\\|")
