"""The tables of the README, made out of what the kinds say of themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from connectors import ai, calendar, chat, email, files, http, imap, quarantine, records, webhook
from connectors.auth import AUTH
from connectors.declarative import kind_from_text, shipped
from connectors.sheet import kind as sheet
from connectors.sql import kind as sql
from runner.contract import Action, ConnectorKind, Json

PROOFS = {
    "run against ": "run against the real server",
    "compared with ": "compared with what the vendor publishes for programs",
    "documentation only": "written from documentation only",
}
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
EFFECTS = {
    "read": "asks",
    "keyed": "keyed",
    "lookup": "can be asked",
    "once": "once",
}
IN_PYTHON: list[ConnectorKind] = [
    http.KIND,
    email.KIND,
    imap.KIND,
    webhook.KIND,
    sql.KIND,
    sheet.KIND,
    files.KIND,
    calendar.KIND,
    chat.KIND,
    ai.KIND,
    records.KIND,
    quarantine.KIND,
]


def kinds() -> list[ConnectorKind]:
    """Every kind that comes with Amends."""
    return [*IN_PYTHON, *(_shipped_kind(name, text) for name, text in shipped().items())]


def _shipped_kind(name: str, text: str) -> ConnectorKind:
    kind, problems = kind_from_text(text, f"connectors/{name}.yaml")
    if kind is None:
        raise ValueError(f"connectors/{name}.yaml: {problems[0].what}")
    return kind


@dataclass(frozen=True, kw_only=True, slots=True)
class Marks:
    """What the comment at the head of a shipped file says."""

    pages: tuple[str, ...]
    proof: str


def marked(text: str) -> Marks:
    """The pages a file rests on, and how far it is proved: the line `# Proof:` and those below it that are set in."""
    head = text[: text.index("\nconnector:")]
    proof = re.search(r"^# Proof: (.*(?:\n#   .*)*)", head, re.MULTILINE)
    return Marks(
        pages=tuple(re.findall(r"https://\S+", head)),
        proof=" ".join(proof[1].split()).replace(" # ", " ") if proof else "",
    )


def catalogue() -> str:
    """One line for each shipped file."""
    proofs = [marked(text).proof for text in shipped().values()]
    told = ", ".join(f"{sum(proof.startswith(word) for proof in proofs)} {said}" for word, said in PROOFS.items())
    lines = [f"{len(proofs)} files: {told}.", ""]
    lines += ["| connector | its actions, by what a lost answer leads to | how far it is proved |", "|---|---|---|"]
    for name, text in shipped().items():
        kind = _shipped_kind(name, text)
        by_effect: dict[str, list[str]] = {}
        for action in kind.actions().values():
            by_effect.setdefault(EFFECTS[action.effect], []).append(f"`{action.name}`")
        acts = "; ".join(f"{word}: {', '.join(by_effect[word])}" for word in EFFECTS.values() if word in by_effect)
        lines.append(f"| `{name}`: {kind.title} | {acts} | {marked(text).proof} |")
    return "\n".join(lines) + "\n"


def tables() -> str:
    """The tables as Markdown."""
    return (
        "\n".join(line for kind in IN_PYTHON for line in _kind(kind))
        + f"\n### Services with a connector file\n\n{catalogue()}"
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
