"""What is rare: a turn that is long enough, names and inputs that are empty, answers to questions that left."""

from __future__ import annotations

from runner.core import events as e
from runner.core.decide import MOST_FACTS, settle
from runner.core.fold import fold, fold_all
from runner.core.items import Items
from runner.core.paths import failure_at
from tests.core.stage import bundle_of, do, facts, flow_of, run
from tests.laws.play import STARTED_AT, start_of

SKIPPED = "      - { id: pause, wait: 1 day, when: '${{ item > 500 }}' }\n"


def test_a_turn_ends_when_it_has_enough_and_the_next_goes_on() -> None:
    items = ", ".join(str(number) for number in range(1, 251))
    flow = bundle_of(f"  - id: rows\n    each: [{items}]\n    steps:\n{SKIPPED}")
    settled = settle(flow, fold_all([start_of(flow)]), STARTED_AT)
    assert settled.has_more
    assert MOST_FACTS <= len(settled.facts) < MOST_FACTS + 10
    result = run(flow)
    assert (result.state.status, result.state.steps["rows"].output["done"]) == ("succeeded", 250)


def test_the_items_of_a_list_are_equal_where_they_say_the_same() -> None:
    assert Items([1, 2]) == Items([1, 2]) != Items([2, 1])
    assert len({Items([1]), Items([1]), Items([2])}) == 2


def test_there_is_no_failure_where_nothing_is_closed() -> None:
    assert failure_at(fold_all([start_of(bundle_of(do("a")))]), "a") is None


def test_a_question_that_left_with_its_item_is_answered_too_late() -> None:
    state = fold_all([start_of(bundle_of(do("a")))])
    seen = fold(state, e.HandOffAcknowledged(at=1, handoff="h9", by="person:a"))
    said = fold(seen, e.HandOffResolved(at=1, handoff="h9", choice="go_on", by="person:a"))
    assert (state.late, seen.late, said.late) == (0, 1, 2)
    assert fold(state, e.HandOffAcknowledged(at=1, handoff="", by="person:a")).seen_by == "person:a"


def test_an_item_without_a_name_is_a_failure() -> None:
    rows = "  - id: rows\n    each: [{ n: '' }]\n    named: ${{ item.n }}\n    steps:\n" + SKIPPED.replace("item", "1")
    assert facts(run(bundle_of(rows)), e.StepFailed)[0].summary == "the name of an item of step rows is empty"


def test_a_flow_that_is_not_called_and_one_that_cannot_be() -> None:
    other = flow_of("other", do("inner"), "inputs: { who: text }\n")
    left_out = run(bundle_of("  - { id: c, call: other, with: { who: x }, when: false }\n", called=[other]))
    assert left_out.state.steps["c"].outcome == "skipped"
    failed = facts(run(bundle_of("  - { id: c, call: other, with: { who: '' } }\n", called=[other])), e.StepFailed)[0]
    assert failed.summary == "flow other cannot be called: who: must not be empty"


def test_an_event_cannot_be_matched_by_nothing() -> None:
    waits = "  - { id: w, wait_for: paid, match: { order: '' } }\n"
    assert facts(run(bundle_of(waits)), e.StepFailed)[0].summary == "match of step w: order is empty"
