"""Named statements: what stands below `statements:` of a connection, checked, and the action each of them is.

Values go into a statement as parameters (`:email`) and in no other way. A statement is one statement: a read is run in
a transaction that can write nothing, a write in one that is committed by us alone, so neither can end it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import ArgumentError

from runner.clock import DAY
from runner.contract import Action, Json, Undo
from runner.errors import SettingsError
from runner.language.fields import field_types
from runner.language.nearest import did_you_mean

MOST_ROWS = 10_000
FEW_ROWS = 1_000
FOREVER = 36_500 * DAY
"""Life of a key, ms: nobody but its owner removes it from the table of keys."""

_WORDS = ("title", "reads", "writes", "input", "most", "changes", "undo", "cannot_undo")
_FOR_READS, _FOR_WRITES = ("most",), ("changes", "undo", "cannot_undo")
_BEGIN = {
    "reads": ("select", "with", "values"),
    "writes": ("insert", "update", "delete", "with", "merge", "replace"),
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_COMMENT = re.compile(r"--|/\*")
_READ_OUTPUT = {
    "found": "yes_no",
    "row": "record or empty",
    "rows": {"list": "record"},
    "count": "integer",
    "incomplete": "yes_no",
}
_WRITE_OUTPUT = {"changed": "integer", "row": "record or empty", "rows": {"list": "record"}}


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """One statement. `most` bounds the rows that are read; `changes` is how many rows a write must change, if told."""

    sql: str
    action: Action
    parameters: tuple[str, ...] = ()
    most: int = FEW_ROWS
    changes: int | None = field(default=None)


def read_statements(name: str, told: Json, *, keyed: bool) -> dict[str, Statement]:
    """The statements of a connection by name. `keyed`: there is a table of keys. Raises SettingsError."""
    if not isinstance(told, Mapping) or not told:
        example = 'customer: { reads: "select * from customers where email = :email", input: { email: text } }'
        raise SettingsError(f"{name}: statements names each statement; for example {example}")
    found = {str(word): _statement(f"{name}: {word}", str(word), one, keyed) for word, one in told.items()}
    for word, statement in found.items():
        undo = statement.action.undo
        if undo is not None and undo.action not in found:
            raise SettingsError(f'{name}: {word} is undone by "{undo.action}"; {did_you_mean(undo.action, found)}')
    return found


def _statement(at: str, word: str, told: Json, keyed: bool) -> Statement:
    if not _NAME.fullmatch(word):
        raise SettingsError(f"{at} is not a name; a name has letters, digits and _, a letter first")
    if not isinstance(told, Mapping) or ("reads" in told) == ("writes" in told):
        raise SettingsError(f"{at} must have either reads: or writes:, with its statement")
    reads = "reads" in told
    for key in told:
        if key not in _WORDS:
            raise SettingsError(f'{at} has no "{key}"; {did_you_mean(str(key), _WORDS, "it may have")}')
        if key in (_FOR_WRITES if reads else _FOR_READS):
            raise SettingsError(f"{at}: {key} is for a statement that {'writes' if reads else 'reads'}")
    sql, fields = _checked(at, told["reads" if reads else "writes"], "reads" if reads else "writes"), told.get("input")
    parameters = _parameters(at, sql, fields or {})
    shared: dict[str, Any] = {"name": word, "title": str(told.get("title") or ""), "input": dict(fields or {})}
    if reads:
        most = _number(at, "most", told.get("most", FEW_ROWS), MOST_ROWS)
        action = Action(**shared, effect="read", output=_READ_OUTPUT)
        return Statement(sql=sql, action=action, parameters=parameters, most=most)
    action = Action(
        **shared,
        effect="keyed" if keyed else "once",
        key_life=FOREVER if keyed else 0,
        output=_WRITE_OUTPUT,
        undo=_undo(at, told.get("undo")),
        cannot_undo=str(told.get("cannot_undo") or ""),
        sample={"changed": 1, "row": {}, "rows": []},
    )
    changes = told.get("changes")
    changes = None if changes is None else _number(at, "changes", changes, 1_000_000_000)
    return Statement(sql=sql, action=action, parameters=parameters, changes=changes)


def _checked(at: str, told: Json, way: str) -> str:
    """The statement, if it is one and its first word is one of this way."""
    if not isinstance(told, str) or not told.strip():
        raise SettingsError(f"{at}: {way} must be a statement")
    sql = told.strip().removesuffix(";").strip()
    if "${{" in sql:
        raise SettingsError(f"{at}: a statement is not put together out of text; write :name, and name under input")
    if ";" in sql or _COMMENT.search(sql):
        raise SettingsError(f'{at}: a statement is one statement, without ";" and comments; give texts as :name')
    first = sql.split(None, 1)[0].lower()
    if first not in _BEGIN[way]:
        raise SettingsError(f'{at}: a statement that {way} begins with {", ".join(_BEGIN[way])}, not with "{first}"')
    return sql


def _parameters(at: str, sql: str, fields: Json) -> tuple[str, ...]:
    if not isinstance(fields, Mapping):
        raise SettingsError(f"{at}: input must be a map of names and types")
    try:
        field_types(fields)
    except ValueError as error:
        raise SettingsError(f"{at}: input: {error}") from None
    try:
        used = tuple(text(sql).compile().params)
    except ArgumentError:
        raise SettingsError(f"{at}: its parameters cannot be read; write them :name") from None
    for one in used:
        if one not in fields:
            raise SettingsError(f"{at}: :{one} stands in the statement and not under input")
    for one in fields:
        if one not in used:
            raise SettingsError(f"{at}: {one} stands under input and not in the statement, as :{one}")
    return used


def _number(at: str, word: str, value: Json, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise SettingsError(f"{at}: {word} must be a whole number from 1 to {most:,}")
    return value


def _undo(at: str, told: Json) -> Undo | None:
    if told is None:
        return None
    with_ = told.get("with", {}) if isinstance(told, Mapping) else None
    if not isinstance(told, Mapping) or not isinstance(told.get("action"), str) or not isinstance(with_, Mapping):
        raise SettingsError(f"{at}: undo must be {{ action: NAME, with: {{ … }} }}")
    return Undo(action=told["action"], with_=with_)
