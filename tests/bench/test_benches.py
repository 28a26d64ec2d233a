"""The benches run: few runs, and only that figures come out; what they are is not tested."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import select

from tests.bench import _ground as ground
from tests.bench import cli, growth, start, temporal, timers, wait
from tests.bench.__main__ import WITH_GOALS, bench_names, main
from tests.support.processes import HttpProcess


def test_the_floor_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["floor", "--runs", "20", "--at-once", "8", "--repeats", "1"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"floor, no engine +\d+ runs/s +\d+\.\d\d ms CPU a run .* ms one run alone, p50", told)


def test_a_backfill_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backfill", "--rows", "5", "--kind", "xlsx"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"5 rows, run and reported +\d+\.\d s +\d+ rows/s +\d+ MB at the most, +-?\d+\.\d\d KB more", told)


def test_a_list_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["each", "--items", "30", "--at-once", "8"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"30 items, http +\d+\.\d s +\d+ items/s +\d+\.\d\d ms CPU an item +\d+ MB at the most", told)
    assert re.search(r"floor, no engine +\d+\.\d s +\d+ items/s", told)


def test_a_check_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--flows", "4"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"first +\d+\.\d\d s +\d+\.\d\d s CPU +4 flows", told)
    assert re.search(r"again +\d+\.\d\d s +\d+\.\d\d s CPU +4 flows", told)


def test_a_drill_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "--rows", "1", "--steps", "3"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"examples: +\d+ rows \(\d+ runs\) in \d+\.\d s, \d+\.\d s of CPU: \d+ rows a second", told)
    assert re.search(r"one flow of 3 steps: 48 rows in \d+\.\d s", told)


STRETCH = 12
"""Events of a run without a wait, as README has it."""
SIZES = {"start": 40, "wait": 10, "queue": 40, "timers": 10, "growth": 100, "cli": 2}


@pytest.mark.parametrize("name", WITH_GOALS)
def test_goals_are_told_beside_what_was_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for place, word, few in ((growth, "FIRST", 10), (growth, "RUNS", 4), (wait, "IDLE_FOR", 0.1), (cli, "REPEATS", 1)):
        monkeypatch.setattr(place, word, few)
    size = SIZES.get(name, 8)
    assert main([name, "--size", str(size)]) == 0
    assert re.search(rf"\| {name} \| [^|]+ \| \d[^|]+ \| (met|missed) \|", capsys.readouterr().out)


def test_a_cluster_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside plain Temporal; and who pays the cluster for each step has more events there than who does not."""
    monkeypatch.setattr(temporal, "IDLE_FOR", 0.1)
    monkeypatch.setattr(temporal, "LOOK", 0.02)
    waited = temporal.bare("wait", 2, "-")
    assert waited.waits.server > 0
    assert waited.approved.events > STRETCH
    with ground.service() as service:
        stepwise, wrong = temporal.ours(temporal.STEPWISE, "saga", 1, service.origin)
        assert wrong + ground.effects(service, effects=ground.STEPS) == []
    assert min(stepwise.worker, stepwise.server, stepwise.database) > 0
    assert stepwise.events >= STRETCH + (ground.STEPS - 1) * 3


def test_a_miscount_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One effect too few at the service: the bench says that its figures are worth nothing."""
    ledger = HttpProcess.ledger

    def lose_one(service: HttpProcess) -> dict[str, object]:
        found = ledger(service)
        return {**found, "effects": found["effects"][1:]}

    monkeypatch.setattr(HttpProcess, "ledger", lose_one)
    assert main(["saga", "--size", "4"]) == 1
    assert "The figures are worth nothing: the service saw" in capsys.readouterr().out


def test_a_lost_run_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers what it has not kept: the bench of starts says so."""
    monkeypatch.setattr(start, "select", lambda column: select(column).limit(5))
    assert main(["start", "--size", "8"]) == 1
    assert "runs that were answered are not there" in capsys.readouterr().out


def test_a_timer_that_goes_off_twice_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "fired", lambda store: (11, 10))
    assert main(["timers", "--size", "10"]) == 1
    assert "11 timers went off in 10 runs" in capsys.readouterr().out


def test_an_unknown_bench_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flor"]) == 2
    told = capsys.readouterr().err
    assert 'There is no bench "flor".' in told
    assert "floor" in told.splitlines()[-1]


def test_only_benches_are_listed() -> None:
    assert "floor" in bench_names()
    assert not [name for name in bench_names() if name.startswith(("_", "test_"))]
