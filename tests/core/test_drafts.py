"""A draft run: drafts are left by calls of their own, listed, removed; the rest is written down."""

from __future__ import annotations

from dataclasses import replace

from runner.core import events as e
from runner.core.drafts import drafts_left
from runner.core.keys import make_key
from runner.engine.simulated import Calm, Result
from tests.core.stage import (
    CANNOT,
    LOST,
    NOT_SENT,
    ONE,
    REFUSED,
    Act,
    Script,
    asked,
    bundle_of,
    do,
    facts,
    run,
    undone,
    words_of,
)
from tests.laws.play import start_of

POST = "with: { email: p@x.test, name: p }\n    find: { email: p@x.test }\n"


class OneAtATime(Calm):
    def slots(self) -> int:
        return 1


def calls(result: Result) -> list[tuple[str, str, str]]:
    """(step, purpose, action) of every attempt."""
    return [(event.step, event.purpose, event.action) for event in facts(result, e.CallIntended)]


def drafted(steps: str, script: Script | None = None, acts: tuple[Act, ...] = ()) -> Result:
    return run(bundle_of(steps, mode="draft"), script, acts)


def test_a_draft_is_left_under_a_key_of_its_own_and_listed() -> None:
    result = drafted(do("a", "svc.noted", with_="{ name: x }") + do("b", with_='{ name: "${{ steps.a.id }}" }'))
    assert result.state.status == "drafted"
    assert calls(result) == [("a", "do", "svc.scribble")]
    intent = facts(result, e.CallIntended)[0]
    assert intent.request["input"] == {"name": "x", "kind": "draft"}
    assert (intent.input, intent.start_no) == ({"name": "x"}, 1)
    assert intent.key == make_key(flow="it", run="r1", step="a", part=0, purpose="draft", generation=0)
    written = [(event.step, event.action, event.input, event.output) for event in facts(result, e.DraftRecorded)]
    assert written == [
        ("a", "svc.noted", {"name": "x"}, {"id": "a-0"}),
        ("b", "svc.keyed", {"name": "a-0"}, {"id": "draft id"}),
    ]
    assert (result.state.stands, words_of(result)) == (("a",), {"a": "stands"})
    assert drafts_left(result.state) == 1


def test_what_the_draft_answers_stands_over_the_sample() -> None:
    result = drafted(do("a", "svc.posted", with_="{ name: x }"))
    assert facts(result, e.CallIntended)[0].request["input"] == {"name": "DRAFT x"}
    assert facts(result, e.DraftRecorded)[0].output == {"id": "a-0"}


def test_what_would_be_sent_is_never_evaluated_again() -> None:
    steps, top = do("a", "svc.noted", with_='{ name: "${{ inputs.note }}" }'), "inputs: { note: text }\n"
    bundle = bundle_of(steps, mode="draft", top=top)
    result = run(bundle, started=replace(start_of(bundle), inputs={"note": "${{ 1 + 1 }}"}))
    assert facts(result, e.CallIntended)[0].request["input"]["name"] == "${{ 1 + 1 }}"


def test_a_record_that_is_there_needs_no_draft() -> None:
    step = do("a", "svc.posted").replace("with: { name: x }\n", POST)
    result = drafted(step, {("a", "find"): [ONE]})
    assert calls(result) == [("a", "find", "svc.posted")]
    assert (result.state.status, result.state.steps["a"].outcome, result.state.stands) == ("drafted", "found", ())
    assert [purpose for _, purpose, _ in calls(drafted(step))] == ["find", "do"]


def test_a_lost_answer_is_looked_up_or_asked_about() -> None:
    result = drafted(do("a", "svc.noted"), {("a", "do"): [NOT_SENT, LOST]})
    assert [purpose for _, purpose, _ in calls(result)] == ["do", "do", "lookup"]
    assert len({event.key for event in facts(result, e.CallIntended)}) == 1
    assert result.state.status == "drafted"
    result = drafted(do("a", "svc.posted"), {("a", "do"): [LOST]})
    assert result.state.open_handoffs[0].kind == "unknown"
    happened = asked("happened", "a", output={"id": "p7"}, external_id="p7")
    result = drafted(do("a", "svc.posted"), {("a", "do"): [LOST]}, (happened,))
    assert (result.state.status, facts(result, e.DraftRecorded)[0].output) == ("drafted", {"id": "p7"})
    result = drafted(do("a", "svc.posted"), {("a", "do"): [LOST]}, (asked("did_not", "a"),))
    first, again = facts(result, e.CallIntended)
    assert (first.key == again.key, again.generation, result.state.status) == (False, 1, "drafted")


def test_a_draft_run_that_fails_removes_its_drafts() -> None:
    steps = do("a", "svc.noted", undo="{ hand_off: team:ops }")
    steps += do("m", "svc.mailed", with_="{ to: [x, y] }", undo="{ none: A letter. }")
    result = drafted(steps + do("b", "svc.noted", with_='{ name: "${{ steps.a.nothing }}" }'))
    assert (result.state.status, undone(result)) == ("compensated", ["m", "m", "a"])
    undo = [event for event in facts(result, e.CallIntended) if event.purpose == "undo"]
    assert [event.action for event in undo] == ["svc.wipe"] * 3
    assert [event.request["input"]["id"] for event in undo] == ["m-0", "m-1", "a-0"]
    assert undo[2].request["input"]["kind"] == "draft"
    assert words_of(result) == {"m": "undone", "a": "undone"}


def test_where_no_draft_can_be_left_it_is_written_down_why() -> None:
    """What it is made of may be the sample of another step, which no service knows."""
    steps = do("a", "svc.noted") + do("m", "svc.mailed", with_="{ to: [x, y] }", undo="{ none: A letter. }")
    result = drafted(steps, {("a", "do"): [REFUSED], ("m", "do"): [REFUSED]})
    assert (result.state.status, result.state.stands) == ("drafted", ("m",))
    assert [(event.step, event.why) for event in facts(result, e.DraftRecorded)] == [("a", "no"), ("m", "no")]
    assert facts(result, e.DraftRecorded)[0].output == {"id": "draft id"}
    result = drafted(do("a", "svc.noted"), {("any", "do"): [CANNOT]})
    assert [(event.input, event.why) for event in facts(result, e.DraftRecorded)] == [
        ({"name": "x"}, "it cannot be written")
    ]
    assert (result.state.status, calls(result)) == ("drafted", [])


def test_a_part_that_cannot_be_built_waits_for_the_parts_that_are_out() -> None:
    """The step is written down when they have their answer, not while one of them may still leave a draft."""
    steps = do("m", "svc.mailed", with_="{ to: [x, bad] }", undo="{ none: A letter. }")
    result = run(bundle_of(steps, mode="draft"), weather=OneAtATime())
    kinds = [type(event).__name__ for event in result.events if event.step == "m"]
    assert kinds == ["CallIntended", "CallApplied", "DraftRecorded"]
    assert facts(result, e.DraftRecorded)[0].why == "it cannot be written"
    assert (result.state.status, result.state.stands) == ("drafted", ("m",))


def test_it_waits_for_the_part_in_doubt_too() -> None:
    steps = do("m", "svc.mailed", with_="{ to: [x, bad] }", undo="{ none: A letter. }")
    result = run(bundle_of(steps, mode="draft"), {("m", "do"): [LOST]}, weather=OneAtATime())
    kinds = [type(event).__name__ for event in result.events if event.step == "m"]
    assert kinds == [
        "CallIntended",
        "CallUnknown",
        "TimerSet",
        "TimerFired",
        "CallIntended",
        "CallApplied",
        "DraftRecorded",
    ]
    assert (result.state.status, result.state.stands) == ("drafted", ("m",))


def test_a_yes_lets_the_draft_through_and_a_no_does_not() -> None:
    gate = "  - id: go\n    approve: Go?\n    covers: [a]\n    by: team:x\n    if_no: continue\n"
    result = run(bundle_of(gate + do("a", "svc.noted"), mode="draft"))
    request = facts(result, e.ApprovalRequested)[0]
    assert (request.by, request.shown["steps"]["a"]["action"]) == (("person:p1",), "svc.noted")
    late = facts(result, e.StepSkipped)
    assert ([event.why for event in late], calls(result), result.state.status) == (["no"], [], "drafted")


def test_a_draft_that_came_by_itself_asks_nobody() -> None:
    gate = "  - id: go\n    approve: Go?\n    covers: [a]\n    by: team:x\n"
    bundle = bundle_of(gate + do("a", "svc.noted"), mode="draft")
    result = run(bundle, started=replace(start_of(bundle), starter=""))
    assert (result.state.status, facts(result, e.ApprovalRequested)) == ("drafted", [])
    assert (result.state.steps["go"].outcome, calls(result)) == ("yes", [("a", "do", "svc.scribble")])


def test_a_draft_run_keeps_nobody_from_the_record() -> None:
    steps = do("a", "svc.posted", more="    lock: { record: invoice, id: x }\n    key: mine\n")
    bundle = bundle_of(steps, mode="draft", top="record: customer/c1\n")
    result = run(bundle, {("a", "do"): [LOST]})
    assert result.state.open_handoffs
    assert not facts(result, e.RecordHeld, e.RecordLocked)
    assert facts(result, e.CallIntended)[0].key.startswith("am_")


def test_all_drafts_are_removed_by_a_clean_up() -> None:
    bundle = bundle_of(do("a", "svc.noted") + do("b") + do("m", "svc.mailed", with_="{ to: [x, y] }"), mode="draft")
    first = run(bundle)
    started = replace(start_of(bundle, "r2"), at=first.now, continues="r1", clean_up="compensate")
    result = run(bundle, before=first.events, started=started)
    assert (result.state.status, undone(result)) == ("compensated", ["m", "m", "a"])
    assert {event.action for event in facts(result, e.CallIntended)} == {"svc.wipe"}
    assert set(words_of(result).values()) == {"undone"}
    assert (drafts_left(first.state), drafts_left(result.state)) == (3, 0)
