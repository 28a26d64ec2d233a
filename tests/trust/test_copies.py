"""Copies and restores in short; the long form is `python -m tests.trust copies`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.bench import Bench
from tests.trust import copies


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("copies") / "bench")
    yield made
    made.close()


def test_who_was_copied_asks(tmp_path: Path) -> None:
    assert copies.elsewhere(tmp_path) == []


@pytest.mark.crash
@pytest.mark.parametrize("way", ["forward", "compensating"])
def test_what_a_copy_has_forgotten_is_not_done_again(bench: Bench, way: str) -> None:
    found = copies.again(bench, way, 9)
    assert found is not None
    assert found.wrong == ()
    assert found.forgotten > 10
    assert found.effects > 2


@pytest.mark.crash
def test_who_remembers_nothing_does_it_again(bench: Bench) -> None:
    found = copies.again(bench, "forward", 9, fault="remember_nothing")
    assert found is not None
    assert found.wrong


async def test_a_copy_under_load_is_whole(tmp_path: Path) -> None:
    count, wrong = await copies.under_load(tmp_path / "load", 1)
    assert wrong == []
    assert count > 20
