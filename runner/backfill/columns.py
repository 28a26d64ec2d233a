"""Which column gives which input, and the inputs of one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from runner.backfill.cells import read_cell
from runner.backfill.files import Row
from runner.contract import Json
from runner.errors import InputsInvalid
from runner.language.bundle import Bundle
from runner.language.fields import field_types
from runner.language.nearest import did_you_mean
from runner.language.schemas import read_inputs


class Columns:
    """Columns by the exact name of an input, or as the person renamed them (`E-Mail=email`)."""

    def __init__(
        self, bundle: Bundle, *, renamed: Sequence[str] = (), ignored: Sequence[str] = (), codes: Sequence[str] = (),
        fixed: Mapping[str, Json] | None = None,
    ) -> None:  # fmt: skip
        self._bundle = bundle
        self._fields = field_types(bundle.flow.inputs)
        self._ignored = frozenset(ignored)
        self._codes = frozenset(codes)
        self._fixed = fixed or {}
        pairs = [text.rpartition("=") for text in renamed]
        if wrong := {
            "=".join(filter(None, pair)): "is not COLUMN=INPUT" for pair in pairs if not pair[0] or not pair[2]
        }:
            raise InputsInvalid(wrong)
        self._renamed = {column: name for column, _, name in pairs}
        self._named = (*self._renamed, *ignored, *codes)

    def input_of(self, column: str) -> str:
        """The input that a column gives, empty for one that is left out. Raises ValueError for one that is neither."""
        if column in self._ignored or not column:
            return ""
        name = self._renamed.get(column, column)
        if name in self._fields:
            return name
        hint = did_you_mean(name, self._fields, "there are") or "the flow has none"
        raise ValueError(
            f"is no input of the flow; {hint} Name it with --column, or leave it out with --ignore".replace(".? ", "? ")
        )

    def is_known(self, column: str) -> bool:
        """Whether a column gives an input or is left out."""
        return column in self._ignored or self._renamed.get(column, column) in self._fields

    def check_head(self, head: Sequence[str]) -> None:
        """Raises InputsInvalid for columns that do not fit, and for inputs that no column gives."""
        wrong: dict[str, str] = {}
        given: dict[str, str] = dict.fromkeys(self._fixed, "--input")
        for column in self._named:
            if column not in head:
                wrong[column] = f"is no column of the file; {did_you_mean(column, filter(None, head), 'there are')}"
        for column in filter(None, head):
            try:
                name = self.input_of(column)
            except ValueError as error:
                wrong[column] = str(error)
                continue
            if name in given:
                wrong[column] = f'gives the input "{name}", which {given[name]} gives too'
            elif name:
                given[name] = f'the column "{column}"'
        for name, field in self._fields.items():
            if name not in given and not field.optional and field.default is None:
                wrong.setdefault(name, "is required, and no column gives it; name one with --column")
        if wrong:
            raise InputsInvalid(wrong)

    def read(self, row: Row) -> tuple[dict[str, Json], dict[str, str]]:
        """(the inputs of a row, what is wrong by column; under the empty name: with the row)."""
        if row.wrong:
            return {}, {"": row.wrong}
        given: dict[str, Json] = dict(self._fixed)
        wrong: dict[str, str] = {}
        columns: dict[str, str] = {}
        for column, cell in row.cells.items():
            try:
                name = self.input_of(column)
                if not name:
                    continue
                if name in columns:
                    raise ValueError(f'gives the input "{name}", which "{columns[name]}" gives too')
                columns[name] = column
                given[name] = read_cell(self._fields[name], cell, is_code=column in self._codes)
            except ValueError as error:
                wrong[column] = str(error)
        flow = self._bundle.flow
        try:
            return read_inputs(flow.inputs, given, zone=self._bundle.zone, schema=flow.schema), wrong
        except InputsInvalid as error:
            told = {columns.get(name, name): what for name, what in error.problems.items()}
            return {}, {**told, **wrong}

    def key_of(self, row: Row, key: Iterable[str]) -> str:
        """What the columns of `key` hold together. Raises ValueError where one is missing or empty."""
        parts = []
        for column in key:
            cell = row.cells.get(column)
            if cell is None or not cell.shown.strip() or cell.why:
                raise ValueError(f'the column "{column}" names the row (--key), and is empty here')
            if cell.kind == "number" and not cell.exact:
                raise ValueError(
                    f'the column "{column}" names the row (--key), and {cell.shown} is not sure to the last digit'
                )
            parts.append(cell.shown)
        return "/".join(parts)
