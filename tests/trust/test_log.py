"""The short form of the suite `log`, and what a person sees of signatures and anchors."""

from __future__ import annotations

import pytest

from tests.store.mutations import MUTATED
from tests.trust import log


def test_every_kind_of_change_is_found_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert log.run(["--mutations", str(len(MUTATED))]) == 0
    told = capsys.readouterr().out
    assert f"mutations found and named: {len(MUTATED)} of {len(MUTATED)}" in told
    assert "made anew with the key: 0 seen without an anchor, 25 of 25 with one" in told
    assert "planted: 5 of 5 caught" in told
