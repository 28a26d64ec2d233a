"""The simulation in its short form: some hundred seeds, the same traces in two processes, and mistakes that are seen."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from runner.core.status import standing_of
from runner.engine import advance, carrier
from tests.trust.sim.mistakes import MISTAKES, caught_by
from tests.trust.sim.play import FAULTS, play
from tests.trust.simulation import play_all, traces_of

SEEDS, PORTIONS = 150, 3
FEWEST = 24
QUICK = (
    "a refused decision is carried out all the same", "what a dead engine left open stays open",
    "what a dead engine had sent counts as not sent", "the effects are not written",
    "the chain does not hold what came before", "the attempt is part of the key",
    "a covered step does not wait for its approval", "silence is a yes",
)  # fmt: skip
"""Mistakes that the first seeds see; all of them are played by the long form."""


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_no_law_is_broken(portion: int) -> None:
    size = SEEDS // PORTIONS
    found = play_all(range(portion * size, (portion + 1) * size))
    assert not found.wrong
    assert found.effects >= 3 * size
    assert sum(found.happened[name] > 0 for name in FAULTS) >= FEWEST, found.happened


def test_the_same_seeds_give_the_same_traces_in_two_processes() -> None:
    once, again = traces_of((3, 4, 5), "0"), traces_of((3, 4, 5), "4242")
    assert once.startswith("['")
    assert once == again


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_mistake_is_seen(name: str) -> None:
    assert caught_by(name, 30), MISTAKES[name].law


@pytest.mark.parametrize("seed", [82, 525, 2111])
def test_seeds_that_have_shown_a_defect(seed: int) -> None:
    """A call long after its intent; a conflict for ever; a run that was driven twice at once in one engine."""
    assert not play(seed).wrong


def test_a_run_that_cannot_be_driven_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time has come, and every try fails: it is tried ever more seldom, and not each time that the alarm looks."""
    tries: list[int] = []

    def broken(bundle: Any, state: Any, *, now: int, **words: Any) -> Any:
        if (standing_of(state).wake_at or now + 1) <= now and len(tries) < 7:
            tries.append(now)
            raise RuntimeError("a defect")
        return advance.advance(bundle, state, now=now, **words)

    monkeypatch.setattr(carrier, "advance", broken)
    assert not play(0, ["waits"], trouble=()).wrong
    gaps = [after - before for before, after in pairwise(tries)]
    assert [gap // 1_000 for gap in gaps] == [1, 2, 4, 8, 16, 30]
