"""Lists: every item in a scope of its own, at most so many at once, each alone in its failure where the flow says so."""

from __future__ import annotations

from runner.core import events as e
from runner.core.decide import settle
from runner.core.fold import fold
from runner.core.state import State
from runner.engine.simulated import Result
from tests.core.stage import LOST, REFUSED, asked, bundle_of, do, facts, run, undone

ITEM = """      - id: send
        do: svc.keyed
        with: { name: "${{ item.name }}" }
        compensate: { cancel: svc.undo, with: { id: "${{ output.id }}" } }
      - id: note
        do: svc.keyed
        with: { name: "${{ item.name }} ${{ steps.send.id }}" }
        compensate: { cancel: svc.undo, with: { id: "${{ output.id }}" } }
"""


def each(more: str = "", item: str = ITEM, names: str = "abc") -> str:
    rows = ", ".join(f"{{ name: {name} }}" for name in names)
    return f"  - id: rows\n    each: [{rows}]\n    named: ${{{{ item.name }}}}\n{more}    steps:\n{item}"


def ended(result: Result) -> list[str]:
    return [event.step for event in facts(result, e.ScopeEnded)]


def sent(result: Result, purpose: str = "do") -> list[str]:
    return [event.step for event in facts(result, e.CallIntended) if event.purpose == purpose]


def test_items_one_after_the_other() -> None:
    result = run(bundle_of(each() + do("last", with_='{ name: "${{ steps.rows.done }}" }')))
    assert result.state.status == "succeeded"
    assert sent(result) == [f"rows/{n}/{step}" for n in (1, 2, 3) for step in ("send", "note")] + ["last"]
    assert ended(result) == ["rows/1", "rows/2", "rows/3", "rows"]
    assert facts(result, e.CallIntended)[-1].input == {"name": 3}
    assert [event.name for event in facts(result, e.ScopeStarted)] == ["", "a", "b", "c"]
    assert not result.state.calls.keys() & {("rows/1/send", "do", 0)}
    assert set(result.state.steps) == {"rows", "last"}


def test_at_most_so_many_at_once() -> None:
    result = run(bundle_of(each("    at_once: 2\n", names="abcd")))
    assert result.state.status == "succeeded"
    assert sent(result)[:2] == ["rows/1/send", "rows/2/send"]
    starts = [event.start_no for event in facts(result, e.CallIntended)]
    assert starts == sorted(set(starts))


def test_a_failure_undoes_the_ended_items_too_newest_first() -> None:
    result = run(bundle_of(do("first") + each() + do("last")), {("last", "do"): [REFUSED]})
    assert result.state.status == "compensated"
    assert undone(result) == [f"rows/{n}/{step}" for n in (3, 2, 1) for step in ("note", "send")] + ["first"]
    assert result.state.lists["rows"].left == {"undone": 6}


def test_an_item_that_fails_alone_is_undone_and_set_aside() -> None:
    flow = bundle_of(each("    if_one_fails: continue\n"))
    result = run(flow, {("rows/2/note", "do"): [REFUSED]}, [asked("skip", "rows")])
    assert undone(result) == ["rows/2/send"]
    assert [event.step for event in facts(result, e.ItemSetAside)] == ["rows/2"]
    assert result.state.steps["rows"].output == {
        "done": 2, "set_aside": [{"item": {"name": "b"}, "name": "b", "reason": "no"}]
    }  # fmt: skip
    assert result.state.status == "closed"


def test_an_item_that_was_set_aside_is_not_undone_again_when_the_run_fails() -> None:
    flow = bundle_of(each("    if_one_fails: continue\n") + do("last"))
    result = run(flow, {("rows/2/note", "do"): [REFUSED], ("last", "do"): [REFUSED]})
    assert undone(result) == ["rows/2/send", *(f"rows/{n}/{step}" for n in (3, 1) for step in ("note", "send"))]
    assert result.state.status == "compensated"


def test_an_item_that_is_resumed_has_new_keys() -> None:
    flow = bundle_of(each("    if_one_fails: continue\n"))
    result = run(flow, {("rows/2/note", "do"): [REFUSED]}, [asked("retry", "rows")])
    assert result.state.status == "succeeded"
    intents = [
        event for event in facts(result, e.CallIntended) if event.step == "rows/2/send" and event.purpose == "do"
    ]
    assert [(event.generation, event.start_no) for event in intents] == [(0, 3), (1, 7)]
    assert intents[0].key != intents[1].key
    assert sent(result).count("rows/1/send") == 1
    assert result.state.steps["rows"].output == {"done": 3, "set_aside": []}


def test_doubt_binds_the_item_and_the_others_go_on() -> None:
    flow = bundle_of(each("    if_one_fails: continue\n", item=ITEM.replace("svc.keyed", "svc.once", 1)))
    result = run(flow, {("rows/1/send", "do"): [LOST]}, [asked("happened", "rows/1/send", output={"id": "x"})])
    assert result.state.status == "succeeded"
    assert sent(result).index("rows/2/send") < sent(result).index("rows/1/note")


def test_empty_and_not_a_list() -> None:
    assert run(bundle_of(each(names=""))).state.status == "succeeded"
    for wrong, why in (("x", "each of step rows is not a list"),):
        result = run(bundle_of(each().replace("[{ name: a }, { name: b }, { name: c }]", wrong)))
        assert facts(result, e.StepFailed)[0].summary == why
    twice = run(bundle_of(each(names="aa")))
    assert facts(twice, e.StepFailed)[0].summary == 'two items of step rows are named "a"'


def test_an_ended_item_whose_compensation_is_tried_again_is_read_back_as_a_whole() -> None:
    """Also by who folds the log anew: it says which key was used before."""
    flow = bundle_of(each(item=ITEM.partition("      - id: note")[0]) + do("last"))
    script = {("last", "do"): [REFUSED], ("rows/3/send", "undo"): [REFUSED]}
    result = run(flow, script, [asked("retry", "rows/3/send")])
    events = list(result.events)
    at = next(n for n, event in enumerate(events) if isinstance(event, e.HandOffResolved))
    state = State()
    for event in events[: at + 1]:
        state = fold(state, event)
    recall = settle(flow, state, state.at).recall
    assert recall is not None
    assert "rows/3" in recall.items
