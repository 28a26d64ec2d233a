"""Ended items read back to be made good: by page, whole after a crash, in part where the run stops."""

from __future__ import annotations

import pytest

from runner.core import events as e
from runner.core import recall
from runner.core.commands import Recall
from runner.core.decide import decide
from runner.core.fold import fold_all
from runner.core.recall import LogSource
from runner.core.state import State
from runner.engine.simulated import Result
from tests.core.stage import REFUSED, Act, Fates, asked, bundle_of, calling, do, facts, once, run, undone
from tests.core.test_lists import ITEM, each
from tests.laws.play import start_of

ONE = ITEM.partition("      - id: note")[0]
FAILS = {("last", "do"): [REFUSED]}


@pytest.fixture(autouse=True)
def _two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "PAGE", 2)


def made_good(result: Result) -> list[tuple[str, str, dict[str, int]]]:
    return [
        (event.step, event.outcome, dict(event.effects))
        for event in facts(result, e.ScopeEnded)
        if event.kind == "item" and event.effects
    ]


def held(state: State) -> set[str]:
    return {path for path, scope in state.scopes.items() if scope.kind == "item"}


def test_pages_turn_and_no_more_than_one_is_held() -> None:
    flow = bundle_of(each(item=ONE, names="abcdefg") + do("last"))
    result = run(flow, FAILS)
    assert undone(result) == [f"rows/{number}/send" for number in range(7, 0, -1)]
    assert made_good(result) == [(f"rows/{number}", "compensated", {"undone": 1}) for number in range(7, 0, -1)]
    assert held(result.state) == set()
    assert result.state.lists["rows"].left == {"undone": 7}


def test_after_a_crash_nothing_is_undone_twice() -> None:
    flow = bundle_of(each(names="abc") + do("last"))
    sure = undone(run(flow, FAILS))
    for crash in range(8, 14):
        result = run(flow, FAILS, weather=Fates(crashes=[crash]))
        assert result.state.status == "compensated"
        assert undone(result) == sure


def test_an_item_that_was_set_aside_is_not_read_back() -> None:
    flow = bundle_of(each("    if_one_fails: continue\n") + do("last"))
    result = run(flow, {("rows/2/note", "do"): [REFUSED], **FAILS})
    assert undone(result) == ["rows/2/send"] + [f"rows/{n}/{step}" for n in (3, 1) for step in ("note", "send")]
    assert [step for step, _, _ in made_good(result)] == ["rows/3", "rows/1"]
    assert result.state.lists["rows"].left == {"undone": 5}


STOPS: list[Act] = [once("stop", calling("rows/3/note", "undo"))]


def test_a_stop_counts_what_was_made_good_and_lists_the_rest() -> None:
    flow = bundle_of(each(names="abc") + do("last"))
    result = run(flow, FAILS, STOPS)
    assert result.state.status == "stopped"
    assert result.state.stands == ("rows",)
    assert made_good(result) == [("rows/3", "stopped", {"undone": 1, "stands": 1})]
    assert result.state.lists["rows"].left["stands"] == 5
    assert fold_all(result.events).lists == result.state.lists


def test_a_stop_after_a_crash_reads_back_what_had_begun() -> None:
    flow = bundle_of(each(item=ONE, names="abc") + do("last"))
    first = run(flow, FAILS, [once("stop", calling("rows/3/send", "undo"))])
    stopped = next(at for at, event in enumerate(first.events) if isinstance(event, e.StopRequested))
    state = fold_all(first.events[: stopped + 1])
    commands = decide(flow, state, state.at)
    assert commands == (Recall(items=("rows/3",)),)
    again = recall.recall(state, commands[0], LogSource(first.events[: stopped + 1]))
    assert held(again) == {"rows/3"}


def test_a_clean_up_makes_good_what_the_stop_left() -> None:
    flow = bundle_of(each(names="abc") + do("last"))
    first = run(flow, FAILS, STOPS)
    started = start_of(flow, "r2")
    started = e.RunStarted(
        **{name: getattr(started, name) for name in started.__slots__} | {"continues": "r1", "at": first.now}
    )
    second = run(flow, before=first.events, started=started, weather=Fates(crashes=[2]))
    assert second.state.status == "compensated"
    assert undone(second) == ["rows/3/send"] + [f"rows/{n}/{step}" for n in (2, 1) for step in ("note", "send")]


def test_what_a_person_let_stand_of_a_resumed_item_stays_listed() -> None:
    flow = bundle_of(each("    if_one_fails: continue\n") + do("last"))
    script = {("rows/2/note", "do"): [REFUSED], ("rows/2/send", "undo"): [REFUSED], **FAILS}
    result = run(flow, script, [asked("stands", "rows/2/send"), asked("retry", "rows")])
    assert result.state.status in ("closed", "compensated")
