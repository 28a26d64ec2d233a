"""Rows as they are checked and kept: keys over a whole file, and memory that does not grow with it."""

from __future__ import annotations

import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from runner.backfill.columns import Columns
from runner.backfill.files import Told, open_table
from runner.backfill.items import FIRST_SIZE, Choice, Item, Items, Keys
from runner.language.project import Project
from tests.backfill.ground import write_csv, write_project

FEW, MANY = 500, 4_000
GROWN = 200_000
"""Bytes that the rows between FEW and MANY may add at the peak: their keys, and what Python does not give back."""


def test_a_key_that_came_before_is_known_however_many_there_are() -> None:
    keys = Keys()
    count = 3 * FIRST_SIZE
    assert not any(keys.add(f"k{number}", number) for number in range(1, count))
    assert keys.add("k1", 7) == 1
    assert keys.add(f"k{count - 1}", 7) == count - 1
    assert keys.add("new", 7) == 0


class Held(Items):
    """The planted mistake: every row is held."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Item] = []

    def keep(self, item: Item) -> None:
        self.held.append(item)
        super().keep(item)


def peak(folder: Path, rows: int, kind: type[Items]) -> int:
    """The most bytes that checking so many rows takes."""
    bundle = Project.open(folder).bundle("charge")
    file = write_csv(folder / "items.csv", range(rows))
    columns = Columns(bundle)
    with closing(kind()) as items:
        tracemalloc.start()
        table = open_table(file, Told(), columns.is_known)
        items.check(table, columns, bundle, Choice(), standing=lambda _: None, now=0, on_wrong=print)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (items.total, items.bad) == (rows, 0)
        assert sum(1 for _ in items) == rows
    return most


@pytest.mark.parametrize(("kind", "is_flat"), [(Items, True), (Held, False)], ids=["kept on disk", "planted: held"])
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, kind: type[Items], is_flat: bool) -> None:
    folder = write_project(tmp_path / "shop", "http://127.0.0.1:1")
    peak(folder, FEW, kind)
    assert (peak(folder, MANY, kind) - peak(folder, FEW, kind) < GROWN) == is_flat
