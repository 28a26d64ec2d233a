"""The laws can fail: every planted mistake is seen by one of them. `pytest -s` shows which."""

from __future__ import annotations

import pytest

from runner.engine.simulated import GuardTaken
from tests.laws import (
    planted_agents,
    planted_approvals,
    planted_branches,
    planted_drafts,
    planted_lists,
    planted_locks,
    planted_waits,
)
from tests.laws.flows import corpus
from tests.laws.planted import MISTAKES
from tests.laws.play import play

SEEDS = {True: 150, False: 40}
"""How many seeds a flow gets that the mistake names, and any other."""
FLOOR = 105
ROOMS = (
    planted_agents,
    planted_approvals,
    planted_branches,
    planted_drafts,
    planted_lists,
    planted_locks,
    planted_waits,
)
"""Rooms that register their mistakes when they are read."""


def caught_by(flows: tuple[str, ...]) -> str:
    """The law that sees it, or empty."""
    for name in (*flows, *corpus()):
        for seed in range(SEEDS[name in flows]):
            try:
                wrong = play(corpus()[name], seed).wrong
            except GuardTaken as taken:
                return f"the log refuses {taken}, by {name}, seed {seed}"
            if wrong:
                return f"{wrong[0]}, by {name}, seed {seed}"
    return ""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_law_sees_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, flows = MISTAKES[name]
    assert not any(play(corpus()[flow], 0).wrong for flow in flows)
    plant(monkeypatch)
    seen = caught_by(flows)
    print(f"\n  {name}\n    {seen}", end="")
    assert seen, f"no law sees it: {name}"


def test_there_are_enough() -> None:
    assert len(MISTAKES) >= FLOOR
