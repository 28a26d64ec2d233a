"""Many rows in few statements.

The driver gives up the interpreter at every step of a statement and has to win it back from a busy event loop; a
statement a row would do that hundreds of times a group. Here a group of any size takes a handful of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Any

from sqlalchemy import Connection, Insert, Table, Update, bindparam, select, union_all, update

SIZES = (128, 64, 32, 16, 8, 4, 2, 1)
"""Rows a statement may carry; a list is cut into these."""


class Bulk:
    """One statement over rows of the named columns. `make(n)` is the statement for n rows, parameters `column_i`."""

    def __init__(self, columns: Sequence[str], make: Callable[[int], Insert | Update]) -> None:
        self.columns = tuple(columns)
        self._make = make
        self._compiled: dict[int, tuple[str, tuple[str, ...], bool]] = {}

    def run(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> int:
        """Runs it for all rows, in order; how many rows of the table it hit."""
        hit = 0
        left = iter(rows)
        count = len(rows)
        for size in SIZES:
            while count >= size:
                hit += self._step(connection, size, islice(left, size))
                count -= size
        return hit

    def _step(self, connection: Connection, size: int, rows: Iterable[tuple[Any, ...]]) -> int:
        known = self._compiled.get(size)
        if known is None:
            known = self._compiled[size] = self._compile(connection, size)
        text, names, by_position = known
        flat = tuple(chain.from_iterable(rows))
        return connection.exec_driver_sql(text, flat if by_position else dict(zip(names, flat, strict=True))).rowcount

    def _compile(self, connection: Connection, size: int) -> tuple[str, tuple[str, ...], bool]:
        compiled = self._make(size).compile(dialect=connection.dialect)
        names = tuple(f"{name}_{row}" for row in range(size) for name in self.columns)
        by_position = compiled.positiontup is not None
        if by_position and tuple(compiled.positiontup or ()) != names:
            raise RuntimeError(f"parameters of {compiled} come in another order than its rows")
        return str(compiled), names, by_position


def insert_rows(statement: Insert, table: Table) -> Bulk:
    """INSERT (or an upsert) of whole rows of a table, in the order of its columns."""
    names = [column.name for column in table.c]

    def make(size: int) -> Insert:
        return statement.values([{name: bindparam(f"{name}_{row}") for name in names} for row in range(size)])

    return Bulk(names, make)


def update_rows(table: Table, keys: Sequence[tuple[str, str]], changed: Sequence[str]) -> Bulk:
    """UPDATE of many rows, each found by its own `keys` ((parameter, column) pairs) and given its own values."""
    names = [*(parameter for parameter, _ in keys), *changed]
    kinds = [table.c[name].type for _, name in keys] + [table.c[name].type for name in changed]

    def make(size: int) -> Update:
        # Not VALUES in a WITH: the driver counts the rows that were hit only when a statement begins with UPDATE.
        rows = [
            select(
                *(bindparam(f"{name}_{row}", type_=kind).label(name) for name, kind in zip(names, kinds, strict=True))
            )
            for row in range(size)
        ]
        given = (union_all(*rows) if size > 1 else rows[0]).subquery("given")
        return (
            update(table)
            .values({name: given.c[name] for name in changed})
            .where(*(table.c[name] == given.c[parameter] for parameter, name in keys))
        )

    return Bulk(names, make)
