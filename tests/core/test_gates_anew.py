"""Approvals that are asked again: what lapsed, what a person sends anew, items alone, what is under way beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.contract import Request
from runner.core import events as e
from runner.core.state import State
from runner.engine.simulated import Result, Simulation
from runner.language.bundle import Bundle
from tests.core.stage import LOST, REFUSED, Crowd, Fates, Scripted, asked, bundle_of, do, facts, once, undone
from tests.core.test_gates import FIRST, HOUR, SEND, Deciders, gate, play, says, sent
from tests.laws.play import start_of

LETTERS = do("send", "svc.letters", with_="{ to: [a, b, c] }")
ROWS = (
    "  - id: rows\n    each: [{ n: a }, { n: b }, { n: c }]\n    named: ${{ item.n }}\n    if_one_fails: continue\n    steps:\n"
    "      - id: send\n        do: svc.keyed\n        with: { name: '${{ item.n }}' }\n"
    "        compensate: { cancel: svc.undo, with: { id: '${{ output.id }}' } }\n"
)


class Both:
    """Those who decide, and those who answer questions."""

    def __init__(self, *answers: Any, acts: Any = ()) -> None:
        self.parts = (Deciders(*answers), Crowd(acts))

    def next_at(self, state: State, now: int) -> int | None:
        return min((at for part in self.parts if (at := part.next_at(state, now)) is not None), default=None)

    def acts(self, bundle: Bundle, state: State, now: int) -> list[e.Event]:
        return [event for part in self.parts for event in part.acts(bundle, state, now)]

    def interrupts(self, bundle: Bundle, state: State, now: int) -> list[e.Event]:
        return []


class Moving(Scripted):
    """A service whose requests change with what `salt` says at that moment."""

    salt = ""

    def prepare(self, action: str, input: Mapping[str, Any], *, key: str, purpose: str) -> Request:
        return Request.of({"action": action, "input": {**input, "salt": self.salt}, "key": key, "purpose": purpose})


def run(bundle: Bundle, people: Any, script: Any = None, outside: Any = None, weather: Any = None) -> Result:
    outside = outside or Scripted(bundle, script or {})
    result = Simulation(bundle, outside, start_of(bundle), people=people, weather=weather).run()
    assert result.spins == 0
    return result


def rounds(result: Result) -> list[tuple[int, tuple[str, ...]]]:
    return [(event.round, event.covers) for event in facts(result, e.ApprovalRequested)]


def changed_at(outside: Moving, bundle: Bundle, name: str = "go") -> Any:
    """A yes, after which something outside is another than it was."""
    inner = says("yes", name)

    def report(state: State, now: int) -> e.Event:
        outside.salt = "x"
        decided: e.Event = inner[2](state, now)
        return decided

    return name, 0, report


def test_what_changed_is_asked_again_and_the_second_no_counts() -> None:
    for second, words, status in (
        ("yes", "", "succeeded"), ("no", "", "compensated"), ("no", "    if_no: continue\n", "succeeded"),
        ("no", "    if_no: end\n", "stopped"),
    ):  # fmt: skip
        bundle = bundle_of(FIRST + gate(words) + SEND)
        outside = Moving(bundle, {})
        result = run(bundle, Deciders(changed_at(outside, bundle), says(second)), outside=outside)
        assert (result.state.status, rounds(result)) == (status, [(1, ("send",)), (2, ("send",))])
        assert sent(result) == (["first", "send"] if second == "yes" else ["first"])


def test_silence_the_second_time_is_a_no_too() -> None:
    bundle = bundle_of(FIRST + gate() + SEND)
    outside = Moving(bundle, {})
    result = run(bundle, Deciders(changed_at(outside, bundle)), outside=outside)
    assert (result.state.status, sent(result)) == ("compensated", ["first"])


def test_only_what_waits_for_it_waits() -> None:
    """A lapsed approval holds the step it is for; what stands beside goes on, and its answers are read."""
    branches = (
        "  - id: both\n    parallel:\n      one:\n        - { id: pause, wait: 30 hours }\n"
        + "".join(f"      {line}\n" for line in SEND.splitlines())
        + "      two:\n        - { id: later, wait: 31 hours }\n"
        + "".join(f"      {line}\n" for line in do("last").splitlines())
    )
    bundle = bundle_of(gate() + branches)
    result = play(bundle, says("yes"), says("yes", after=5 * HOUR))
    assert (result.state.status, sent(result)) == ("succeeded", ["last", "send"])
    assert [event.why[:16] for event in facts(result, e.ApprovalLapsed)] == ["it was good unti"]


def test_one_approval_for_many_items_is_asked_again_once_for_those_that_are_left() -> None:
    rows = ROWS.replace(
        "    steps:\n",
        "    at_once: 3\n    steps:\n      - { id: pause, when: \"${{ item.n != 'a' }}\", wait: 30 hours }\n",
    )
    result = play(bundle_of(gate() + rows), says("yes"), says("yes"))
    assert result.state.status == "succeeded"
    assert rounds(result) == [
        (1, ("rows/1/send", "rows/2/send", "rows/3/send")), (2, ("rows/2/send", "rows/3/send"))
    ]  # fmt: skip
    assert sorted(sent(result)) == ["rows/1/send", "rows/2/send", "rows/3/send"]


def test_what_was_sent_already_is_not_asked_about_again() -> None:
    wait = "  - { id: pause, wait: 30 hours }\n"
    result = play(bundle_of(gate(covers="send, last") + SEND + wait + do("last")), says("yes"), says("yes"))
    assert (result.state.status, rounds(result)) == ("succeeded", [(1, ("send", "last")), (2, ("last",))])


def test_an_item_that_is_done_anew_needs_a_new_yes() -> None:
    people = Both(says("yes"), says("yes"), acts=[asked("retry", "rows")])
    result = run(bundle_of(gate() + ROWS), people, {("rows/2/send", "do"): [REFUSED]})
    assert result.state.status == "succeeded"
    assert [event.why for event in facts(result, e.ApprovalLapsed)] == ["it was used for step send already"]
    assert rounds(result)[1] == (2, ("rows/2/send",))
    assert sent(result).count("rows/2/send") == 2


def test_who_said_yes_to_an_item_may_say_yes_again_when_it_is_done_anew() -> None:
    head, _, body = ROWS.partition("      - id: send\n")
    inner = "".join(f"    {line}\n" for line in gate().splitlines())
    answers = [says("yes", f"rows/{number}/go", after=number) for number in (1, 2, 3)]
    people = Both(*answers, says("yes", "rows/1/go"), acts=[asked("retry", "rows")])
    flow = bundle_of(head + inner + "      - id: send\n" + body)
    result = run(flow, people, {("rows/1/send", "do"): [REFUSED]})
    assert (result.state.status, sent(result).count("rows/1/send")) == ("succeeded", 2)


def test_a_no_inside_an_item_ends_that_item_and_what_it_did_stays() -> None:
    head, _, body = ROWS.partition("      - id: send\n")
    inner = "".join(f"    {line}\n" for line in (do("before") + gate("    if_no: end\n")).splitlines())
    flow = bundle_of(head + inner + "      - id: send\n" + body)
    answers = [says("yes", "rows/1/go"), says("no", "rows/2/go"), says("yes", "rows/3/go")]
    result = play(flow, *answers)
    assert result.state.status == "succeeded"
    assert (undone(result), [step for step in sent(result) if step.endswith("send")]) == (
        [],
        ["rows/1/send", "rows/3/send"],
    )
    assert result.state.steps["rows"].output == {"done": 2, "set_aside": []}
    lost = play(flow, *answers, script={("rows/2/before", "do"): [LOST]})
    assert lost.state.status == "succeeded"


def test_an_item_that_a_no_ends_settles_what_is_in_doubt_first() -> None:
    """A call beside the refused approval has lost its answer: the item ends when it is known what became of it."""
    head, _, body = ROWS.partition("      - id: send\n")
    beside = (
        "      - id: both\n        parallel:\n          one:\n"
        + "".join(f"          {line}\n" for line in do("other", "svc.looked").splitlines())
        + "          two:\n"
        + "".join(f"          {line}\n" for line in gate("    if_no: end\n").splitlines())
    )
    flow = bundle_of(head + beside + "      - id: send\n" + body)
    answers = [says("no", f"rows/{number}/go") for number in (1, 2, 3)]
    result = play(flow, *answers, script={("rows/1/other", "do"): [LOST]})
    assert (result.state.status, undone(result)) == ("succeeded", [])
    flow = bundle_of(head + beside.replace("svc.looked", "svc.once") + "      - id: send\n" + body)
    people = Both(*answers, acts=[asked("happened", "rows/1/other", output={"id": "x"})])
    result = run(flow, people, {("rows/1/other", "do"): [LOST]})
    assert result.state.status == "succeeded"


def test_a_step_that_a_person_tries_again_sends_what_was_approved() -> None:
    clock = do("send", with_="{ name: '${{ now() }}' }")
    people = Both(says("yes"), acts=[asked("retry", "send")])
    bundle = bundle_of(gate() + clock, "on_failure: review\n")
    result = run(bundle, people, {("send", "do"): [REFUSED]})
    intents = facts(result, e.CallIntended)
    assert (result.state.status, len(rounds(result))) == ("succeeded", 1)
    assert [event.generation for event in intents] == [0, 1]
    assert intents[0].input == intents[1].input


def test_what_a_person_sends_anew_is_looked_at_again() -> None:
    bundle = bundle_of(gate() + do("send", "svc.once"))
    outside = Moving(bundle, {("send", "do"): [LOST]})
    act, order = asked("did_not", "send")

    def when(state: State) -> bool:
        if act(state):
            outside.salt = "x"
        return act(state)

    result = run(bundle, Both(says("yes"), says("yes"), acts=[(when, order)]), outside=outside)
    assert (result.state.status, rounds(result)) == ("succeeded", [(1, ("send",)), (2, ("send",))])


def test_the_parts_of_a_call_that_leave_later_are_looked_at_too() -> None:
    class OneByOne(Fates):
        def slots(self) -> int:
            return 1

    class Changes(Moving):
        def send(self, *args: Any, **words: Any) -> Any:
            self.salt = "x"
            return super().send(*args, **words)

    bundle = bundle_of(gate() + LETTERS)
    outside = Changes(bundle, {})
    result = run(bundle, Deciders(says("yes"), says("yes")), outside=outside, weather=OneByOne())
    assert (result.state.status, rounds(result)) == ("succeeded", [(1, ("send",)), (2, ("send",))])
    assert [event.part for event in facts(result, e.CallIntended)] == [0, 1, 2]


def test_a_refused_approval_that_a_person_tries_again_is_asked_again() -> None:
    people = Both(says("no"), says("yes"), acts=[asked("retry", "go")])
    result = run(bundle_of(gate() + SEND, "on_failure: review\n"), people)
    assert (result.state.status, rounds(result)) == ("succeeded", [(1, ("send",)), (2, ("send",))])
    people = Both(says("no"), acts=[asked("skip", "go")])
    result = run(bundle_of(gate() + SEND, "on_failure: review\n"), people)
    assert (result.state.status, sent(result), result.state.steps["send"].outcome) == ("succeeded", [], "skipped")


def test_an_approval_ends_by_itself_while_a_person_looks_at_a_failure_beside_it() -> None:
    branches = (
        "  - id: both\n    parallel:\n      one:\n"
        + "".join(f"      {line}\n" for line in (gate("    within: 2 hours\n") + SEND).splitlines())
        + "      two:\n"
        + "".join(f"      {line}\n" for line in do("last").splitlines())
    )
    result = run(bundle_of(branches, "on_failure: review\n"), Both(), {("last", "do"): [REFUSED]})
    assert result.end == "rests"
    assert result.state.gates["go"].status == "late"


def test_a_compensation_that_a_person_tries_again_sends_what_was_approved() -> None:
    undo = "{ cancel: svc.undo, with: { id: '${{ now() }}' }, approve_by: team:leads }"
    script = {("last", "do"): [REFUSED], ("first", "undo"): [REFUSED]}
    people = Both(says("yes", "first:undo"), acts=[asked("retry", "first")])
    result = run(bundle_of(do("first", undo=undo) + do("last")), people, script)
    inputs = [event.input for event in facts(result, e.CallIntended) if event.purpose == "undo"]
    assert (result.state.status, len(inputs), inputs[0]) == ("compensated", 2, inputs[1])


def test_a_yes_to_a_compensation_that_is_not_used_in_time_is_asked_again() -> None:
    undo = "{ cancel: svc.undo, with: { id: '${{ output.id }}' }, approve_by: team:leads }"
    bundle = bundle_of(do("first", undo=undo) + do("last"))
    people = Both(
        says("yes", "first:undo"), says("yes", "first:undo"),
        acts=[
            once("pause", lambda state: "first:undo" in state.gates), (lambda state: False, None),
        ],
    )  # fmt: skip
    simulation = Simulation(bundle, Scripted(bundle, {("last", "do"): [REFUSED]}), start_of(bundle), people=people)
    simulation.run()
    simulation.clock.at += 30 * HOUR
    simulation.log.report(e.RunResumed(at=simulation.clock.at, by="person:ops"))
    simulation._read()
    result = simulation.run()
    assert [event.round for event in facts(result, e.ApprovalRequested)] == [1, 2]
    assert (result.state.status, undone(result)) == ("compensated", ["first"])


def test_a_clean_up_asks_anew_before_a_compensation() -> None:
    undo = "{ cancel: svc.undo, with: { id: '${{ output.id }}' }, approve_by: team:leads }"
    bundle = bundle_of(do("first", undo=undo) + do("last"))
    stopped = run(
        bundle, Both(acts=[once("stop", lambda state: "first:undo" in state.gates)]), {("last", "do"): [REFUSED]}
    )
    assert (stopped.state.status, stopped.state.gates["first:undo"].status) == ("stopped", "withdrawn")
    started = e.RunStarted(
        at=stopped.now, run="r2", flow="it", mode="live", bundle="it", owner="person:owner", continues="r1",
        inputs={}, trigger={"id": "t1"},
    )  # fmt: skip
    people = Deciders(says("yes", "first:undo"))
    again = Simulation(bundle, Scripted(bundle, {}), started, people=people, before=stopped.events).run()
    assert (again.state.status, undone(again)) == ("compensated", ["first"])


def test_erasing_ends_what_is_asked() -> None:
    bundle = bundle_of(FIRST + gate() + SEND)
    simulation = Simulation(bundle, Scripted(bundle, {}), start_of(bundle))
    simulation.patience = 2
    simulation.run()
    simulation.log.report(e.PersonalDataErased(at=simulation.clock.at, by="person:ops"))
    simulation._read()
    assert simulation._state.gates["go"].status == "withdrawn"
