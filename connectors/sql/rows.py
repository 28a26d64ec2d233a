"""Rows and values between a database and JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from runner.contract import Json

MOST_SIGNS = 5_000_000
"""Characters that the rows of one answer may have as JSON."""


class NotJson(ValueError):
    """A row that cannot be handed on. `str(error)` is one sentence."""


def read_rows(names: Sequence[str], rows: Iterable[Sequence[Any]], most: int) -> tuple[list[dict[str, Json]], bool]:
    """(the rows, whether a limit cut them). Raises NotJson."""
    for name in names:
        if names.count(name) > 1:
            raise NotJson(f'it gives two columns the name "{name}"; name them apart with "as"')
    found: list[dict[str, Json]] = []
    signs = 0
    for row in rows:
        read = {name: _plain(name, value) for name, value in zip(names, row, strict=True)}
        signs += len(json.dumps(read))
        if len(found) == most or signs > MOST_SIGNS:
            return found, True
        found.append(read)
    return found, False


def parameter(value: Json) -> Json:
    """Lists and records go in as JSON text."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _plain(name: str, value: Any) -> Json:
    """A value of a column as JSON. A number that a float does not hold exactly is text, bytes are base64."""
    if value is None or isinstance(value, bool | int | str | list | dict):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta | UUID):
        return str(value)
    if isinstance(value, bytes | memoryview):
        return base64.b64encode(bytes(value)).decode()
    raise NotJson(f'the column "{name}" holds a {type(value).__name__}, which is no text or number; cast it')


def _number(value: Decimal) -> Json:
    if not value.is_finite():
        return str(value)
    near = float(value)
    if Decimal(repr(near)) != value:
        return str(value)
    return int(near) if near.is_integer() else near
