"""Upgrades in the short form: each released schema on SQLite, the last one before today's on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.store.tables import SCHEMA
from tests.support.postgres import running_postgres
from tests.trust import upgrades
from tests.trust.upgrades import NUMBERS, STATUSES, kept_in, put

OLDER = [number for number in NUMBERS if number < SCHEMA]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_postgres(is_durable=True) as running:
        yield running.address


def test_every_released_schema_is_there() -> None:
    assert [f"{number:04}" for number in range(1, int(SCHEMA) + 1)] == list(NUMBERS)


@pytest.mark.parametrize("number", NUMBERS)
def test_all_is_there_as_it_was(number: str, tmp_path: Path) -> None:
    kept = kept_in(put(number, tmp_path))
    assert {status for _, status, _ in kept.runs.values()} >= STATUSES
    assert upgrades.faults(tmp_path, "", kept) == []


@pytest.mark.parametrize("number", NUMBERS)
def test_its_runs_go_on(number: str) -> None:
    count, wrong = asyncio.run(upgrades.gone_on(number, ""))
    assert (count >= len(STATUSES), wrong) == (True, [])


@pytest.mark.crash
@pytest.mark.parametrize("number", [OLDER[0], OLDER[-1]])
def test_an_upgrade_that_is_killed_is_begun_again(number: str) -> None:
    assert upgrades.all_kills(number, "", 4) == (4, [])


@pytest.mark.crash
@pytest.mark.parametrize("number", OLDER[-1:])
def test_on_postgresql_too(number: str, server: str) -> None:
    assert upgrades.all_kills(number, server, 3) == (3, [])
    assert upgrades.refused(number, server).endswith(
        f"was written by a newer Amends (schema 0999; this one knows {SCHEMA}); install the newer Amends, or put back a copy "
        "made before the change"
    )


def test_recorded_logs_are_never_changed() -> None:
    assert upgrades.log_faults() == []


@pytest.mark.crash
def test_wrong_upgrades_are_seen() -> None:
    caught = upgrades.see_mistakes()
    assert [name for name, by in caught.items() if not by] == []
