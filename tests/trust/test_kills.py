"""Exact kills, in short; the long form is `python -m tests.trust kills`."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.crash.bench import Bench
from tests.trust import kills, shim

WAY = "compensating"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    if why := shim.why_not():
        pytest.skip(why)
    made = Bench(tmp_path_factory.mktemp("kills") / "bench", shim.environment())
    yield made
    made.close()


@pytest.mark.crash
def test_killed_at_a_call_to_the_system_nothing_is_lost_or_done_twice(bench: Bench) -> None:
    calls = kills.calls_of(bench, WAY)
    found = [kills.killed(bench, kill) for kill in kills.chosen({WAY: calls}, 10, 4, random.Random(3))]
    assert [(each.kill, each.wrong) for each in found if each.wrong] == []
    assert sum(each.kills > 0 for each in found) >= 9
    assert sum(each.kills > 1 for each in found) >= 3
    assert sum(each.effects for each in found) >= 60


@pytest.mark.crash
def test_a_mistake_shows_when_a_call_was_out(bench: Bench) -> None:
    fault, way, said = kills.PLANTED[0]
    assert kills.shows(bench, fault, way, said, first=3)


@pytest.mark.crash
def test_killed_by_strace(bench: Bench) -> None:
    if why := kills.why_not_strace():
        pytest.skip(why)
    found = kills.straced(bench, WAY, "pwrite64", 40)
    assert found is not None
    assert found.wrong == ()
    assert found.effects > 0
