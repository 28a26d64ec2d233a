"""Planted mistakes about locks. A law must see each."""

from __future__ import annotations

from typing import Any

import pytest

from runner.core import events as e
from runner.core import fold, forward, undoing
from runner.engine import advance
from tests.laws.planted import after, before, mistake


@mistake("a step is sent without its lock", "locks", "one_at_a_time")
def no_lock(patch: pytest.MonkeyPatch) -> None:
    after(patch, forward, "_records", lambda found, *_: (found[0], ()))


@mistake("only the first of the records is locked", "locks", "one_at_a_time")
def one_lock(patch: pytest.MonkeyPatch) -> None:
    after(patch, forward, "_records", lambda found, place, *_: (found[0], () if place.state.locks else found[1]))


@mistake("a record is locked a second time", "locks", "one_at_a_time")
def locked_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fold, "_READERS", {**fold._READERS, e.RecordLocked: lambda state, event: state})


@mistake("who waits for a record takes the others all the same", "locks")
def locked_too_early(patch: pytest.MonkeyPatch) -> None:
    def wrong(going: Any, now: int) -> Any:
        return [e.RecordLocked(at=now, record="invoice/8")] if not going else right(going, now)

    right = advance._locks
    patch.setattr(advance, "_locks", wrong)


@mistake("a compensation waits for a record", "locks", "holds")
def compensation_held(patch: pytest.MonkeyPatch) -> None:
    before(patch, undoing, "CallPlan", lambda **words: ((), {**words, "records": ("customer/c1",)}))
