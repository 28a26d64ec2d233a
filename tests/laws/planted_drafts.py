"""Planted mistakes about draft runs. A law must see each."""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import Any

import pytest

from runner.core import calls, decide, drafts, forward, undoing
from runner.core import events as e
from runner.core.state import replace
from runner.language.flow import Compensation
from tests.laws.planted import after, before, mistake
from tests.laws.planted_lists import reads, verb


@mistake("a draft run sends what has no draft form", "drafts", "rows_draft")
def sends_without_form(patch: pytest.MonkeyPatch) -> None:
    verb(patch, "do", lambda at: replaced(at, state=replace(at.state, mode="live")))


@mistake("a draft run sends the step itself", "drafts_left")
def sends_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(forward, "as_draft", lambda place, plan: plan)


@mistake("a draft run is made good as the live one", "drafts_undone")
def makes_good_live(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(undoing, "_words", lambda place: place.step.compensate or Compensation(word="hand_off"))


@mistake("a draft has the key of the live call", "drafts_left")
def live_key(patch: pytest.MonkeyPatch) -> None:
    def as_live(**words: Any) -> tuple[Any, Any]:
        return (), {**words, "purpose": "do" if words["purpose"] == "draft" else words["purpose"]}

    before(patch, calls, "make_key", as_live)


@mistake("a draft has the author's key", "drafts_left")
def authors_key(patch: pytest.MonkeyPatch) -> None:
    after(patch, forward, "as_draft", lambda draft, place, plan: replaced(draft, author_key=plan.author_key))


@mistake("the drafts that are left are not listed", "drafts_left")
def not_listed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "standing", lambda state: ())


@mistake("of the items' drafts nobody is told", "drafts_rows")
def items_not_listed(patch: pytest.MonkeyPatch) -> None:
    after(patch, decide, "standing", lambda paths, state: tuple(path for path in paths if path not in state.lists))


@mistake("a draft is no effect", "drafts_left")
def no_effect(patch: pytest.MonkeyPatch) -> None:
    reads(patch, e.DraftRecorded, lambda after, before, event: replace(after, effects={}))


@mistake("a draft run keeps others from its record", "drafts_left")
def locks(patch: pytest.MonkeyPatch) -> None:
    after(patch, forward, "as_draft", lambda draft, place, plan: replaced(draft, lock=plan.lock, records=plan.records))


@mistake("a step is written down before its draft is there", "drafts_left")
def written_down_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(forward, "drafting", lambda place: None)


@mistake("another action is written down than would be sent", "drafts_left")
def written_down_as_draft(patch: pytest.MonkeyPatch) -> None:
    def wrong(event: Any, place: Any, *_: Any) -> Any:
        found = drafts.drafting(place)
        return event if found is None else replaced(event, action=found[0])

    after(patch, forward, "write_down", wrong)
