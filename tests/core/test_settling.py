"""Deciding until nothing is left to record: what may never happen."""

from __future__ import annotations

import pytest

from runner.core import decide, fold
from runner.core import events as e
from runner.core.fold import fold_all
from tests.core.stage import bundle_of
from tests.laws.play import start_of


def test_a_fact_that_changes_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "_READERS", {**fold._READERS, e.StepSkipped: lambda state, event: state})
    flow = bundle_of("  - { id: w, wait: 1 s, when: '${{ 1 > 2 }}' }\n")
    with pytest.raises(AssertionError, match="run r1 does not come to rest"):
        decide.settle(flow, fold_all([start_of(flow)]), start_of(flow).at)
