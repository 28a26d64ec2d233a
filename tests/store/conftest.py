"""The store under test. The contract suite knows nothing but this fixture, so another database needs only another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.store.sql import SqlStore, open_store
from tests.store.samples import TurnedClock


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def store(tmp_path: Path, clock: TurnedClock) -> Iterator[SqlStore]:
    opened = open_store(tmp_path, clock=clock, writable=True, floor=0)
    yield opened
    opened.close()
