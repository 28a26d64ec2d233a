"""The report: what became of each row, as the log has it when it is written."""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from runner.backfill.going import JOINED, STARTED, Kind, kind_of
from runner.backfill.items import Item, Items, Standing
from runner.backfill.sheets import write_sheet
from runner.cells import csv_lines
from runner.contract import Json
from runner.core.events import RunFinished
from runner.errors import InputsInvalid
from runner.language.bundle import Bundle
from runner.store.facts import RunView
from runner.store.sql import SqlStore
from runner.telling import words

OURS = ("run", "run key", "this time", "status", "what stands", "what happened", "who must act")
BEGUN = {STARTED: "started", JOINED: "joined"}
KINDS = (".csv", ".xlsx")


class Report:
    """Writes the report of all rows to a file. `kinds` counts what became of them."""

    def __init__(
        self, file: Path, items: Items, bundle: Bundle, *, standing: Standing, store: Callable[[], SqlStore]
    ) -> None:
        if file.suffix.lower() not in KINDS:
            raise InputsInvalid({str(file): "is no place for a report; name a .csv or an .xlsx file"})
        self.file = file
        self.kinds: Counter[Kind] = Counter()
        self._items = items
        self._outputs = tuple(bundle.flow.outputs)
        self._standing = standing
        self._store = store
        self._part = file.with_name(f".{file.name}.part")

    def begin(self) -> None:
        """Makes sure that it can be written. Raises InputsInvalid."""
        try:
            self._part.touch()
        except OSError as error:
            raise self._unwritable(error) from None

    def write(self, begun: Sequence[int] = b"") -> None:
        """Writes it whole beside its place, then puts it there; what stood there is replaced. Raises InputsInvalid."""
        rows = self._rows(begun)
        try:
            if self.file.suffix.lower() == ".xlsx":
                write_sheet(self._part, rows)
            else:
                _write_csv(self._part, rows)
            self._part.replace(self.file)
        except (OSError, ValueError) as error:
            raise self._unwritable(error) from None
        finally:
            self.give_up()

    def give_up(self) -> None:
        """Leaves nothing half-written."""
        with contextlib.suppress(OSError):
            self._part.unlink(missing_ok=True)

    def _unwritable(self, error: OSError | ValueError) -> InputsInvalid:
        why = (error.strerror if isinstance(error, OSError) else "") or str(error)
        return InputsInvalid({str(self.file): f"cannot be written: {why}; name another file with --report"})

    def _rows(self, begun: Sequence[int]) -> Iterator[Sequence[str]]:
        own = tuple(self._items.columns)
        ours = [f"{name} (Amends)" if name in own else name for name in ("row", *OURS)]
        yield [ours[0], *own, *ours[1:], *(f"output {name}" for name in self._outputs)]
        self.kinds.clear()
        for place, item in enumerate(self._items):
            mark = begun[place] if place < len(begun) else 0
            told = self._told(item, BEGUN.get(mark, ""))
            yield [str(item.number), *(item.cells.get(name, "") for name in own), *told]

    def _told(self, item: Item, begun: str) -> Sequence[str]:
        found = self._standing(item.run_key) if item.run_key else None
        if found is not None and not item.is_of(found):
            item, found = _other(item, found[0]), None
        if item.wrong:
            self.kinds["refused"] += 1
            why = "; ".join(f"{name}: {what}" if name else what for name, what in item.wrong.items())
            return ["", item.run_key, "skipped", "not started", "", why, "", *("" for _ in self._outputs)]
        if found is None:
            self.kinds["waits"] += 1
            return ["", item.run_key, begun, "not started yet", "", "", "", *("" for _ in self._outputs)]
        view = found[0]
        self.kinds[kind_of(view.status)] += 1
        stands = ", ".join(_effects(self._store(), view))
        happened = words.summary(view.summary) or words.STATUS.get(view.status, view.status)
        acts = view.needs if view.status == "needs_person" else view.waiting_for
        outputs = _outputs(self._store(), view)
        return [
            view.run, view.run_key, begun, view.status, stands, words.sentence(happened), acts,
            *(_text(outputs.get(name)) for name in self._outputs),
        ]  # fmt: skip


def _other(item: Item, view: RunView) -> Item:
    what = f'the key "{item.run_key}" belongs to run {view.run}, which was started with other inputs'
    return Item(number=item.number, cells=item.cells, run_key=item.run_key, wrong={"": what})


def _effects(store: SqlStore, view: RunView) -> Iterator[str]:
    for effect in store.effects(view.run) if view.stands else ():
        if effect.disposition in ("pending", "stands"):
            yield f"{effect.path} ({effect.external_id})" if effect.external_id else effect.path


def _outputs(store: SqlStore, view: RunView) -> Mapping[str, Json]:
    if view.ended_at is None:
        return {}
    ends = (row.event for row in store.log(view.run, after=view.seq - 2))
    return next((end.outputs for end in ends if isinstance(end, RunFinished)), {})


def _text(value: Json) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _write_csv(file: Path, rows: Iterable[Sequence[str]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as out:
        out.writelines(csv_lines(rows))
        out.flush()
        os.fsync(out.fileno())
