"""All rows of a file, checked before anything starts, and kept on disk meanwhile: memory does not grow with the file.

The key of a row is the flow's run_key over its inputs. Where that asks for `trigger.id`, the columns of --key give it:
they name the business event, so that a file that was put right joins what the first one started. Elsewhere
`trigger.id` says which file and row it was.
"""

from __future__ import annotations

import json
import tempfile
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import IO, Any

from runner.backfill.columns import Columns
from runner.backfill.files import Row, Table, nearest_column
from runner.contract import Json, digest
from runner.engine.starting import Wish, keys_of
from runner.errors import AmendsError, InputsInvalid, NotPossible
from runner.language.bundle import Bundle
from runner.store.facts import RunView

FILE_ID = 12
FIRST_SIZE = 1 << 12
SOURCE = "backfill"

Standing = Callable[[str], tuple[RunView, str] | None]
"""The newest run of a run key and the digest of its inputs, as the log has it now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One row as it was checked: `given` are its inputs; `trigger_id` and `run_key` are empty where it is `wrong`."""

    number: int
    cells: Mapping[str, str]
    given: Mapping[str, Json] = field(default_factory=dict)
    trigger_id: str = ""
    run_key: str = ""
    wrong: Mapping[str, str] = field(default_factory=dict)

    def is_of(self, found: tuple[RunView, str]) -> bool:
        """Whether the run that stands for its key was started with these inputs."""
        return found[1] == digest(self.given)

    def wish(self, starter: str, mode: str) -> Wish:
        """The run that this row asks for."""
        return Wish(given=self.given, key=self.trigger_id, starter=starter, mode=mode, source=SOURCE)


class Keys:
    """Which keys came in which row: twelve bytes each, whatever the keys are."""

    def __init__(self) -> None:
        self._prints, self._rows, self._count = array("Q", bytes(8 * FIRST_SIZE)), array("I", bytes(4 * FIRST_SIZE)), 0

    def add(self, key: str, row: int) -> int:
        """The row that brought this key before, or 0."""
        return self._put(int.from_bytes(sha256(key.encode()).digest()[:8], "big") or 1, row)

    def _put(self, mark: int, row: int) -> int:
        if 2 * self._count >= len(self._prints):
            self._grow()
        at = mark % len(self._prints)
        while self._prints[at]:
            if self._prints[at] == mark:
                return self._rows[at]
            at = (at + 1) % len(self._prints)
        self._prints[at], self._rows[at] = mark, row
        self._count += 1
        return 0

    def _grow(self) -> None:
        prints, rows, size = self._prints, self._rows, 2 * len(self._prints)
        self._prints, self._rows, self._count = array("Q", bytes(8 * size)), array("I", bytes(4 * size)), 0
        for mark, row in zip(prints, rows, strict=True):
            if mark:
                self._put(mark, row)


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Which rows are wanted: `limit` of them (0 = all) from the row `first` on, and the columns that name a row."""

    key: Sequence[str] = ()
    first: int = 0
    limit: int = 0


class Items:
    """The chosen rows of a file. `total`, `bad` and `joins` count them; `columns` are all columns that were seen."""

    def __init__(self) -> None:
        self._kept: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed with the items
        self.total = self.bad = self.joins = 0
        self.columns: dict[str, None] = {}
        self._seen = Keys()

    def close(self) -> None:
        """Gives the disk space back."""
        self._kept.close()

    def __iter__(self) -> Iterator[Item]:
        """The rows in their order; one reader at a time."""
        self._kept.seek(0)
        for line in self._kept:
            yield Item(**json.loads(line))

    def check(
        self, table: Table, columns: Columns, bundle: Bundle, choice: Choice, *, standing: Standing, now: int,
        on_wrong: Callable[[Item], None], is_report: bool = False,
    ) -> None:  # fmt: skip
        """Reads and keeps every chosen row; `on_wrong` is told each one that cannot start. Raises InputsInvalid."""
        if table.head:
            columns.check_head(table.head)
        self.columns.update(dict.fromkeys(filter(None, table.head)))
        _check_key(bundle, choice.key, table.head)
        for row in table.rows():
            if row.number < choice.first:
                continue
            if choice.limit and self.total >= choice.limit:
                break
            item = self._item(row, columns, bundle, choice, table.digest[:FILE_ID], now)
            if not item.wrong and (found := standing(item.run_key)) is not None:
                joins = item.is_of(found)
                self.joins += joins
                item = item if is_report or joins else _in_conflict(item, found[0])
            self.total += 1
            if item.wrong:
                self.bad += 1
                on_wrong(item)
            self.keep(item)
        self._seen = Keys()

    def keep(self, item: Item) -> None:
        """Puts a row behind those that are kept."""
        self._kept.write(json.dumps(asdict(item)) + "\n")

    def _item(self, row: Row, columns: Columns, bundle: Bundle, choice: Choice, file: str, now: int) -> Item:
        self.columns.update(dict.fromkeys(row.cells))
        shown = {name: cell.shown for name, cell in row.cells.items()}
        given, wrong = columns.read(row)
        named = run_key = ""
        if not wrong:
            try:
                named = columns.key_of(row, choice.key)
                run_key, _ = keys_of(bundle, given, {"id": named or "-"}, now)
                if before := self._seen.add(run_key, row.number):
                    raise ValueError(f'has the key "{run_key}", which row {before} has too')
            except InputsInvalid as error:
                wrong = error.problems
            except (AmendsError, ValueError) as error:
                wrong = {"": str(error)}
        if wrong:
            return Item(number=row.number, cells=shown, wrong=wrong)
        return Item(
            number=row.number, cells=shown, given=given, run_key=run_key, trigger_id=named or f"{file}/{run_key}"
        )


def _check_key(bundle: Bundle, key: Sequence[str], head: Sequence[str]) -> None:
    run_key = bundle.flow.run_key
    needs = "trigger" in run_key
    if needs and not key:
        raise NotPossible(
            f"the run key of {bundle.flow.id} is {run_key}, which a file does not have; say which column names a row "
            "with --key COLUMN: the same value again is the same run"
        )
    if key and not needs:
        raise NotPossible(f"the key of a run of {bundle.flow.id} is made by run_key: {run_key}, so leave --key out")
    if head and (missing := [column for column in key if column not in head]):
        raise NotPossible(f'the file has no column "{missing[0]}" (--key); {nearest_column(missing[0], head)}')


def _in_conflict(item: Item, view: RunView) -> Item:
    what = f'has the key "{item.run_key}" of run {view.run}, which was started with other inputs'
    values: dict[str, Any] = {**asdict(item), "wrong": {"": what}}
    return Item(**values)
