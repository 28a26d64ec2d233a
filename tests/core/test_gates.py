"""Approvals: one exact content, one deadline, named people, one use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runner.core import events as e
from runner.core.fold import fold
from runner.core.state import State
from runner.engine.asking import requests_of
from runner.engine.driven import OPEN_DESK
from runner.engine.simulated import Result, Simulation
from runner.language.bundle import Bundle
from tests.core.stage import REFUSED, Scripted, bundle_of, do, facts, undone
from tests.laws.play import start_of

HOUR = 3_600_000


def gate(more: str = "", covers: str = "send", id: str = "go") -> str:
    return f"  - id: {id}\n    approve: Send it?\n    covers: [{covers}]\n    by: team:leads\n{more}"


def says(answer: str, name: str = "go", after: int = 0, by: str = "team:leads", **words: Any) -> Any:
    """Answers an approval that long after it was asked."""

    def report(state: State, now: int) -> e.Event:
        asked = state.gates[name]
        fields = {"round": asked.round, "hash": asked.hash, **words}
        return e.ApprovalDecided(at=now, step=name.removesuffix(":undo"), approval=name, answer=answer, by=by, **fields)

    return name, after, report


class Deciders:
    """People who answer approvals, in order."""

    def __init__(self, *answers: Any) -> None:
        self.left = list(answers)

    def next_at(self, state: State, now: int) -> int | None:
        name, after, _ = self.left[0] if self.left else ("", 0, None)
        asked = state.gates.get(name)
        return asked.opened_at + after if asked is not None and asked.status == "open" else None

    def acts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        due = self.next_at(state, now)
        if due is None or due > now:
            return ()
        return (self.left.pop(0)[2](state, now),)

    def interrupts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        return ()


def play(bundle: Bundle, *answers: Any, script: Mapping[Any, Any] | None = None) -> Result:
    result = Simulation(bundle, Scripted(bundle, script or {}), start_of(bundle), people=Deciders(*answers)).run()
    assert result.spins == 0
    return result


def sent(result: Result) -> list[str]:
    return [event.step for event in facts(result, e.CallIntended) if event.purpose == "do"]


FIRST = do("first")
SEND = do("send")


def test_a_yes_lets_it_through_once() -> None:
    result = play(bundle_of(FIRST + gate() + SEND), says("yes", comment="fine"))
    assert result.state.status == "succeeded"
    assert sent(result) == ["first", "send"]
    assert result.state.steps["go"].outcome == "yes"
    assert result.state.steps["go"].output["by"] == "team:leads"
    assert result.state.gates["go"].used == {"send"}
    asked = facts(result, e.ApprovalRequested)[0]
    assert asked.shown["steps"]["send"]["input"] == {"name": "x"}


def test_a_no_compensates() -> None:
    result = play(bundle_of(FIRST + gate() + SEND), says("no", comment="not now"))
    assert (result.state.status, sent(result), undone(result)) == ("compensated", ["first"], ["first"])
    assert result.state.root.failure is not None
    assert result.state.root.failure.summary == "team:leads said no: not now"


def test_a_no_that_asks_for_changes_is_told_as_one() -> None:
    wish = says("no", comment="Please change: less, please")
    ended = play(bundle_of(FIRST + gate() + SEND), wish).state
    assert ended.root.failure is not None
    assert (ended.status, ended.root.failure.summary) == ("compensated", "team:leads asked for changes: less, please")
    on = play(bundle_of(FIRST + gate("    if_no: continue\n") + SEND), wish).state
    assert (on.steps["go"].outcome, on.steps["go"].output["comment"]) == ("no", "less, please")


def test_silence_is_a_no() -> None:
    result = play(bundle_of(FIRST + gate("    within: 2 hours\n") + SEND))
    assert (result.state.status, sent(result)) == ("compensated", ["first"])
    assert [event.timer for event in facts(result, e.TimerFired)] == ["remind", "approval"]


def test_no_and_go_on_or_end_here() -> None:
    on = play(bundle_of(FIRST + gate("    if_no: continue\n") + SEND + do("last")), says("no"))
    assert (on.state.status, sent(on), on.state.steps["send"].outcome) == ("succeeded", ["first", "last"], "skipped")
    end = play(bundle_of(FIRST + gate("    if_no: end\n") + SEND), says("no"))
    assert (end.state.status, undone(end), end.state.stands) == ("stopped", [], ("first",))


def test_a_yes_that_is_not_used_in_time_is_asked_again() -> None:
    wait = "  - { id: pause, wait: 30 hours }\n"
    result = play(bundle_of(gate() + wait + SEND), says("yes"), says("yes"))
    assert result.state.status == "succeeded"
    assert [event.round for event in facts(result, e.ApprovalRequested)] == [1, 2]
    assert facts(result, e.ApprovalLapsed)[0].why.startswith("it was good until")


def test_two_people_are_needed_and_they_are_two() -> None:
    flow = bundle_of(gate("    needs: 2\n").replace("team:leads", "[team:leads, team:more]") + SEND)
    result = play(flow, says("yes"), says("yes"), says("yes", by="team:more"))
    assert result.state.status == "succeeded"
    assert len(facts(result, e.ApprovalDecided)) == 2
    assert result.state.steps["go"].output["by"] == "team:leads, team:more"


def test_an_answer_to_something_else_does_not_count() -> None:
    result = play(bundle_of(gate() + SEND), says("yes", hash="other"), says("yes", round=7), says("no"))
    assert (result.state.status, sent(result), result.state.late) == ("failed", [], 2)


def test_an_answer_at_the_deadline_comes_too_late() -> None:
    flow = bundle_of(gate("    within: 2 hours\n") + SEND)
    assert play(flow, says("yes", after=2 * HOUR - 1)).state.status == "succeeded"
    assert play(flow, says("yes", after=2 * HOUR)).state.status == "failed"


def test_it_is_asked_before_a_compensation_too() -> None:
    undo = "{ cancel: svc.undo, with: { id: '${{ output.id }}' }, approve_by: team:leads }"
    flow = bundle_of(do("first", undo=undo) + do("last"))
    no = play(flow, says("no", "first:undo"), script={("last", "do"): [REFUSED]})
    assert (undone(no), no.state.effects[1].disposition, no.state.status) == ([], "stands", "closed")
    yes = play(flow, says("yes", "first:undo"), script={("last", "do"): [REFUSED]})
    assert (undone(yes), yes.state.status) == (["first"], "compensated")
    silent = play(flow, script={("last", "do"): [REFUSED]})
    assert (undone(silent), silent.state.status) == ([], "closed")


def test_items_of_a_later_list_are_asked_about_together() -> None:
    rows = (
        "  - id: rows\n    each: [{ n: a }, { n: b }, { n: c }]\n    named: ${{ item.n }}\n    steps:\n"
        "      - id: send\n        do: svc.keyed\n        with: { name: '${{ item.n }}' }\n"
        "        compensate: { cancel: svc.undo, with: { id: '${{ output.id }}' } }\n"
    )
    flow = bundle_of(gate("    may_leave_out: rows\n") + rows)
    result = play(flow, says("yes", left_out=("rows/2/send",)))
    assert result.state.status == "succeeded"
    assert sent(result) == ["rows/1/send", "rows/3/send"]
    asked = facts(result, e.ApprovalRequested)[0]
    assert [asked.shown["steps"][path]["input"]["name"] for path in asked.covers] == ["a", "b", "c"]


def test_an_item_that_was_left_out_says_so() -> None:
    rows = (
        "  - id: rows\n    each: [{ n: a }, { n: b }]\n    named: ${{ item.n }}\n    steps:\n"
        "      - id: send\n        do: svc.keyed\n        with: { name: '${{ item.n }}' }\n"
        "        compensate: { none: no }\n"
        "      - id: noted\n        do: svc.keyed\n        when: ${{ outcome.send == 'left_out' }}\n"
        "        with: { name: noted }\n        compensate: { none: no }\n"
    )
    result = play(bundle_of(gate("    may_leave_out: rows\n") + rows), says("yes", left_out=("rows/2/send",)))
    assert sent(result) == ["rows/1/send", "rows/2/noted"]


def test_what_is_edited_is_what_is_sent() -> None:
    last = do("last", with_="{ name: '${{ steps.send.sent.name }}' }")
    flow = bundle_of(gate("    may_edit: [send.name]\n") + SEND + last)
    connect = Scripted(flow, {}).connect
    new: Mapping[str, Any] = {"name": "better"}
    [(_, hash_)] = requests_of(flow, "send", "svc.keyed", (new,), "do", connect, OPEN_DESK)
    hashes = [hash_]
    result = play(flow, says("yes", edited={"send": {"input": new, "hashes": hashes}}))
    assert [dict(event.input) for event in facts(result, e.CallIntended)] == [{"name": "better"}, {"name": "better"}]
    wrong = {"send": {"input": new, "hashes": ["something else"]}}
    lapsed = play(flow, says("yes", edited=wrong), says("no"))
    assert facts(lapsed, e.ApprovalLapsed)[0].why == "what would be sent, or where it goes, has changed since"
    assert sent(lapsed) == []


def in_branch(steps: str, when: str = "true") -> str:
    inner = "".join(f"        {line}\n" for line in steps.splitlines())
    return f"  - id: pick\n    choose:\n      - when: ${{{{ {when} }}}}\n        steps:\n{inner}"


def test_others_join_at_half_of_the_time() -> None:
    flow = bundle_of(gate("    within: 2 hours\n    escalate_to: person:boss\n") + SEND)
    result = play(flow, says("yes", by="person:boss", after=HOUR + 1))
    assert (result.state.status, result.state.gates["go"].by) == ("succeeded", ("team:leads", "person:boss"))
    assert [(event.about, event.to) for event in facts(result, e.Escalated)] == [("go", "person:boss")]
    two = bundle_of(gate("    within: 2 hours\n    needs: 2\n    escalate_to: person:boss\n") + SEND)
    assert play(two, says("yes"), says("yes", by="person:boss", after=HOUR + 1)).state.status == "succeeded"
    none = play(bundle_of(gate("    needs: 2\n") + SEND))
    assert none.state.summary == "1 of the 2 who must approve this can be asked (team:leads)."
    gone = fold(none.state, e.Escalated(at=none.now, step="first", about="other", to="person:boss"))
    assert gone.gates == none.state.gates


def test_what_is_skipped_asks_nobody() -> None:
    when = "    when: ${{ run.mode == 'draft' }}\n"
    skipped = play(bundle_of(gate(when) + do("send", more="    unattended: Nobody need look.\n")))
    assert (skipped.state.status, sent(skipped), skipped.state.steps["go"].outcome) == (
        "succeeded",
        ["send"],
        "skipped",
    )
    unasked = play(bundle_of(FIRST + gate(when) + SEND))
    assert unasked.state.root.failure is not None
    assert unasked.state.root.failure.summary == "Step send needs an approval, and nobody was asked."
    passed = play(bundle_of(FIRST + gate() + do("send", more=when)))
    assert (passed.state.status, facts(passed, e.ApprovalRequested), passed.state.steps["go"].outcome) == (
        "succeeded", [], "yes"
    )  # fmt: skip


def test_a_condition_that_is_not_known_yet_leaves_the_step_in() -> None:
    later = "  - { id: look, read: svc.get }\n"
    flow = bundle_of(gate() + later + do("send", more="    when: ${{ steps.look.label == 'x' }}\n"))
    result = play(flow, says("yes"))
    assert facts(result, e.ApprovalRequested)[0].covers == ("send",)
    assert (result.state.status, sent(result)) == ("succeeded", [])


def test_steps_in_branches_and_items_are_covered_where_they_stand() -> None:
    result = play(bundle_of(gate(covers="send, last") + in_branch(SEND) + do("last")), says("yes"))
    assert (result.state.status, sent(result)) == ("succeeded", ["send", "last"])
    inside = "  - id: rows\n    each: [a, b]\n    steps:\n" + "".join(
        f"    {line}\n" for line in (gate() + SEND).splitlines()
    )
    result = play(bundle_of(inside), says("yes", "rows/1/go"), says("no", "rows/2/go"))
    assert (result.state.status, sent(result), undone(result)) == ("compensated", ["rows/1/send"], ["rows/1/send"])
    nothing = play(
        bundle_of(gate() + "  - id: rows\n    each: ${{ 'x' }}\n    steps:\n      - { id: send, wait: 1 s }\n")
    )
    assert nothing.state.root.failure is not None
    assert nothing.state.root.failure.summary == "each of step rows is not a list"


def test_two_approvals_of_one_step_speak_of_the_same() -> None:
    clock = do("send", with_="{ name: '${{ now() }}' }")
    flow = bundle_of(gate() + gate(id="too") + clock)
    result = play(flow, says("yes"), says("yes", "too", after=HOUR))
    shown = [event.shown["steps"]["send"]["input"] for event in facts(result, e.ApprovalRequested)]
    assert (shown[0], result.state.status, len(sent(result))) == (shown[1], "succeeded", 1)
    no = play(bundle_of(gate() + gate("    if_no: continue\n", id="too") + clock), says("yes"), says("no", "too"))
    assert (no.state.status, sent(no)) == ("succeeded", [])


def test_an_item_that_is_another_one_than_was_shown_is_not_sent() -> None:
    rows = "  - id: rows\n    each: ${{ [1, 2] if outcome.look == 'open' else [1, 3] }}\n    steps:\n" + "".join(
        f"    {line}\n" for line in do("send", with_="{ name: x }").splitlines()
    )
    later = "  - { id: look, read: svc.get }\n"
    flow = bundle_of(gate() + later + rows.replace("outcome.look == 'open'", "(outcome.look | default('')) == ''"))
    result = play(flow, says("yes"), says("no"))
    assert [event.why for event in facts(result, e.ApprovalLapsed)] == ["the item has changed"]
    assert sent(result) == ["rows/1/send"]
    longer = rows.replace("[1, 3]", "[1, 2, 3]").replace("outcome.look == 'open'", "(outcome.look | default('')) == ''")
    result = play(bundle_of(gate() + later + longer), says("yes"), says("yes"))
    assert [event.why for event in facts(result, e.ApprovalLapsed)] == ["step send was not shown"]
    assert (result.state.status, len(sent(result))) == ("succeeded", 3)


def test_what_is_shown_may_have_no_value_and_that_is_hashed_too() -> None:
    def asked(shows: str) -> e.ApprovalRequested:
        result = play(bundle_of(gate(f"    shows: {shows}\n") + SEND), says("yes"))
        return next(event for event in result.events if isinstance(event, e.ApprovalRequested))

    missing = asked("[inputs.paper, run.flow]")
    assert missing.shown["shows"] == {"inputs.paper": None, "run.flow": "it"}
    assert missing.hash != asked("[run.flow]").hash
    failed = play(bundle_of(gate("    shows: [run.flow.id]\n") + SEND))
    assert failed.state.status == "failed"


def test_a_hand_off_shows_what_there_is() -> None:
    step = "  - id: look\n    hand_off: team:ops\n    show: [inputs.paper, run.flow]\n"
    [handed] = facts(play(bundle_of(step)), e.HandedOff)
    assert list(handed.show.values()) == [None, "it"]
