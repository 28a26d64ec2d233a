"""Agents: what a model wants done is done by the same protocol as any step, one thing at a time, and stops for review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from runner.contract import Json, Outcome
from runner.core import events as e
from runner.core.fold import fold, fold_all
from runner.core.state import State
from runner.engine.simulated import Result
from tests.core.stage import LOST, REFUSED, Fates, asked, bundle_of, do, facts, run, undone
from tests.core.test_gates import play, says

CHECK = "  - id: after\n    read: svc.get\n"


def agent(
    more: str = "", *, calls: int = 5, within: str = "10 min", cost: str = "", tools: str = "", top: str = ""
) -> str:
    limits = f"{{ calls: {calls}, within: {within}{cost} }}"
    own = tools or (
        "      - { id: look, read: svc.look }\n"
        "      - id: note\n"
        "        do: svc.note\n"
        '        with: { text: "by ${{ inputs.email }}" }\n'
        '        compensate: { cancel: svc.undo, with: { id: "${{ output.id }}", name: "${{ input.id }}" } }\n'
        "      - id: pay\n"
        "        do: svc.pay\n"
        "        compensate: { hand_off: person:boss }\n"
        "        approve: team:leads\n"
    )
    return (
        f'  - id: handle\n    agent: svc.agent\n    with: {{ goal: "Help ${{{{ inputs.email }}}}", context: {{ no: 7 }} }}\n'
        f"    tools:\n{own}    limits: {limits}\n{top}{more}"
    )


def bundle(steps: str = "", top: str = "inputs: { email: text }\n", **more: Any) -> Any:
    return bundle_of(steps or agent(CHECK), top, **more)


def wants(*calls: tuple[str, Mapping[str, Json]], text: str = "", **more: Json) -> Outcome:
    """A turn in which the model wants these tools."""
    said = [{"tool": tool, "input": dict(given)} for tool, given in calls]
    return Outcome(result="applied", output={"text": text, "calls": said, "model": "m", "tokens": 10, **more})


def says_it(text: str = "Done.", **more: Json) -> Outcome:
    return wants(text=text, **more)


def script(*turns: Outcome, **more: Sequence[Any]) -> dict[tuple[str, str], Sequence[Any]]:
    """Turns by their numbers (a tool's call has one too); `more` are further places, `handle__2__note__do`."""
    found: dict[tuple[str, str], Sequence[Any]] = {}
    number = 1
    for turn in turns:
        found[f"handle/{number}/model", "read"] = [turn]
        number += 1 + len(turn.output.get("calls", ()))
    for name, outcomes in more.items():
        *path, purpose = name.split("__")
        found["/".join(path), purpose] = outcomes
    return found


LOOK = ("look", {"email": "a@x.test"})
NOTE = ("note", {"id": "c1"})
PAY = ("pay", {"amount": 5})


def inputs_sent(result: Result, step: str) -> Any:
    return next(event for event in facts(result, e.CallIntended) if event.step == step).input


def test_a_turn_then_its_tools_in_order_then_the_next_turn() -> None:
    played = run(bundle(), script(wants(LOOK, NOTE), says_it(cost=0.25)))
    sent = [(event.step, event.purpose) for event in facts(played, e.CallIntended)]
    assert sent == [
        ("handle/1/model", "read"), ("handle/2/look", "read"), ("handle/3/note", "do"), ("handle/4/model", "read"),
        ("after", "read"),
    ]  # fmt: skip
    assert played.state.status == "succeeded"
    output = played.state.steps["handle"].output
    assert (output["text"], output["tokens"], output["cost"]) == ("Done.", 20, 0.25)
    assert output["did"] == [
        {"tool": "look", "outcome": "done", "id": ""},
        {"tool": "note", "outcome": "done", "id": ""},
    ]
    assert inputs_sent(played, "handle/3/note") == {"id": "c1", "text": "by one@x.test"}
    assert len({event.key for event in facts(played, e.CallIntended)}) == 5


def test_what_the_model_is_told() -> None:
    played = run(bundle(), script(wants(LOOK, ("note", {"id": 7})), says_it()))
    told = facts(played, e.CallIntended)[-2].request["input"]
    assert (told["goal"], told["context"]) == ("Help one@x.test", {"no": 7})
    assert facts(played, e.CallIntended)[0].input == {}
    tools = {tool["name"]: tool for tool in told["turn"]["tools"]}
    assert tools["look"]["about"] == "Looks"
    assert tools["look"]["fields"] == {"email": "text"}
    assert list(tools["note"]["fields"]) == ["id", "stars", "to"]
    assert list(tools["pay"]["fields"]) == ["amount"]
    said, looked, noted = told["turn"]["so_far"]
    assert [call["id"] for call in said["calls"]] == ["call_2", "call_3"] == [looked["id"], noted["id"]]
    assert looked["answer"]["label"].startswith("label of")
    assert noted["wrong"] == "id: must be a text, not 7"
    assert told["turn"]["cost_left"] is None


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (("erase", {}), 'there is no tool "erase"; there are: look, note, pay'),
        (("svc.pay", {"amount": 1}), 'there is no tool "svc.pay"; did you mean "pay"?'),
        (("note", {"id": "c1", "text": "mine"}), "text: there is no such field, there are: id, stars, to"),
        (("note", {}), "id: is required and has no value"),
        (("note", {"id": "c1", "stars": 9}), "stars: must be at most 5, not 9"),
        (("pay", {"amount": "5"}), 'amount: must be a whole number, not the text "5"'),
        (("pay", {"amount": 5, "scan": {"sha256": "0" * 64}}), "scan: there is no such field, there are: amount"),
    ],
)
def test_a_call_that_does_not_fit_goes_back_and_nothing_leaves(call: Any, why: str) -> None:
    played = run(bundle(), script(wants(call), says_it()))
    assert [event.step for event in facts(played, e.CallIntended)] == ["handle/1/model", "handle/3/model", "after"]
    told = facts(played, e.CallIntended)[1].request["input"]["turn"]["so_far"][-1]
    assert told["wrong"] == why
    assert played.state.status == "succeeded"


def test_what_cannot_be_read_goes_back_too() -> None:
    unread = Outcome(
        result="applied",
        output={"text": "", "calls": [{"tool": "note", "input": {}, "wrong": "its arguments are no JSON"}]},
    )
    played = run(bundle(), script(unread, says_it()))
    assert (
        facts(played, e.CallIntended)[1].request["input"]["turn"]["so_far"][-1]["wrong"] == "its arguments are no JSON"
    )


def test_a_marker_in_what_the_model_says_is_never_evaluated() -> None:
    played = run(bundle(), script(wants(("note", {"id": "${{ inputs.email }}"})), says_it()))
    assert inputs_sent(played, "handle/2/note")["id"] == "${{ inputs.email }}"


# --- limits --------------------------------------------------------------------------------------------------------


def test_as_many_calls_as_it_may_and_then_a_person() -> None:
    endless = script(*[wants(LOOK)] * 9)
    played = run(bundle(agent(CHECK, calls=2)), endless)
    handed = facts(played, e.HandedOff)[-1]
    assert handed.kind == "failure"
    assert handed.step == "handle"
    assert handed.summary == "The limit of tool calls is reached (2, limits: calls), and it wants another one: look."
    assert handed.choices == ("retry", "skip", "compensate", "take_over")
    assert len([event for event in facts(played, e.CallIntended) if event.step.endswith("look")]) == 2
    assert played.state.status == ""


def test_wrong_calls_count() -> None:
    played = run(bundle(agent(CHECK, calls=1)), script(*[wants(("erase", {}))] * 9))
    assert facts(played, e.HandedOff)[-1].summary.startswith("The limit of tool calls is reached (1,")


def test_a_person_lets_it_go_on_with_its_limits_anew() -> None:
    played = run(
        bundle(agent(CHECK, calls=1)), script(wants(LOOK), wants(NOTE), wants(LOOK), says_it()),
        acts=[asked("retry", "handle"), asked("retry", "handle")],
    )  # fmt: skip
    assert played.state.status == "succeeded"
    assert [event.step for event in facts(played, e.CallIntended)][:6] == [
        "handle/1/model", "handle/2/look", "handle/3/model", "handle/4/note", "handle/5/model", "handle/6/look",
    ]  # fmt: skip


def test_a_person_ends_it_there() -> None:
    played = run(bundle(agent(CHECK, calls=1)), script(wants(LOOK), wants(NOTE)), acts=[asked("skip", "handle")])
    assert played.state.status == "succeeded"
    assert played.state.steps["handle"].status == "skipped"


def test_its_time_at_work_is_limited() -> None:
    played = run(bundle(agent(CHECK, within="30 ms")), script(*[wants(LOOK)] * 9))
    assert facts(played, e.HandedOff)[-1].summary == "It has worked for 0 s, and may for 0 s (limits: within)."
    assert len(facts(played, e.CallIntended)) == 3


def test_its_money_is_limited() -> None:
    turns = [wants(LOOK, cost=0.2), wants(LOOK, cost=0.2), wants(LOOK, cost=0.2), says_it()]
    played = run(bundle(agent(CHECK, cost=", cost: 0.4")), script(*turns))
    left = [
        event.request["input"]["turn"]["cost_left"] for event in facts(played, e.CallIntended) if "model" in event.step
    ]
    assert left == [0.4, 0.2]
    assert facts(played, e.HandedOff)[-1].summary == "Its model has cost as much as it may, 0.4 (limits: cost)."


# --- failing -------------------------------------------------------------------------------------------------------


def test_a_refused_tool_stops_it_for_review_whatever_the_flow_says() -> None:
    played = run(bundle(), script(wants(NOTE, LOOK), says_it(), handle__2__note__do=[REFUSED]))
    handed = facts(played, e.HandedOff)
    assert [(one.step, one.kind, one.summary) for one in handed] == [("handle/2/note", "failure", "no")]
    assert [event.step for event in facts(played, e.CallIntended)] == ["handle/1/model", "handle/2/note"]


def test_a_refused_turn_stops_it_for_review() -> None:
    played = run(bundle(), script(REFUSED))
    assert facts(played, e.HandedOff)[0].step == "handle/1/model"


def test_a_turn_that_a_person_passes_over_is_its_end() -> None:
    played = run(bundle(), script(wants(NOTE), REFUSED), acts=[asked("skip", "handle/3/model")])
    assert played.state.status == "succeeded"
    assert played.state.steps["handle"].output["text"] == ""


def test_a_tool_that_a_person_passes_over_is_told_to_the_model() -> None:
    played = run(
        bundle(), script(wants(NOTE), says_it(), handle__2__note__do=[REFUSED]), acts=[asked("skip", "handle/2/note")]
    )
    told = facts(played, e.CallIntended)[-2].request["input"]["turn"]["so_far"][-1]
    assert told == {"id": "call_2", "wrong": "It was not done; a person decided so."}
    assert played.state.status == "succeeded"


def test_a_tool_that_a_person_tries_again_has_a_new_key() -> None:
    played = run(
        bundle(), script(wants(NOTE), says_it(), handle__2__note__do=[REFUSED]), acts=[asked("retry", "handle/2/note")]
    )
    first, second = (event for event in facts(played, e.CallIntended) if event.step == "handle/2/note")
    assert first.key != second.key
    assert first.request["input"] == second.request["input"]
    assert played.state.status == "succeeded"


@pytest.mark.parametrize("choice", ["compensate", "did_not"])
def test_an_unknown_outcome_stops_it(choice: str) -> None:
    tools = "      - id: once\n        do: svc.pay\n        compensate: { cancel: svc.undo }\n"
    turns = script(wants(("once", {"amount": 5}), ("once", {"amount": 6})), says_it(), handle__2__once__do=[LOST])
    played = run(bundle(agent(CHECK, tools=tools)), turns)
    assert [event.step for event in facts(played, e.CallIntended)] == ["handle/1/model", "handle/2/once"]
    assert facts(played, e.HandedOff)[-1].kind == "unknown"
    acts = [asked(choice, "handle/2/once")] + ([asked("did_not", "handle/2/once")] if choice == "compensate" else [])
    after = run(bundle(agent(CHECK, tools=tools)), turns, acts=acts)
    sent = [event.step for event in facts(after, e.CallIntended) if event.step != "after"]
    if choice == "compensate":
        assert sent == ["handle/1/model", "handle/2/once"]
        assert after.state.status == "failed"
    else:
        assert sent == ["handle/1/model", "handle/2/once", "handle/2/once", "handle/3/once", "handle/4/model"]


def test_a_person_has_what_it_did_made_good_newest_first() -> None:
    played = run(
        bundle(do("first") + agent(CHECK)),
        script(wants(NOTE, NOTE), wants(("note", {"id": "c2"})), handle__5__note__do=[REFUSED]),
        acts=[asked("compensate", "handle/5/note")],
    )
    assert undone(played) == ["handle/3/note", "handle/2/note", "first"]
    assert inputs_of_undo(played, "handle/2/note") == {"id": "handle/2/note-0", "name": "c1"}
    assert played.state.status == "compensated"


def inputs_of_undo(result: Result, step: str) -> Any:
    return next(x.input for x in facts(result, e.CallIntended) if (x.step, x.purpose) == (step, "undo"))


def test_a_later_failure_makes_it_good_by_itself() -> None:
    played = run(bundle(agent(do("last"))), script(wants(NOTE), says_it(), last__do=[REFUSED]))
    assert undone(played) == ["handle/2/note"]
    assert played.state.status == "compensated"


# --- approvals -----------------------------------------------------------------------------------------------------

GATE = "handle/2/pay_approval"


def test_what_cannot_be_undone_is_asked_for_with_what_would_be_sent() -> None:
    played = play(bundle(), says("yes", GATE), script=script(wants(PAY, LOOK), says_it()))
    request = facts(played, e.ApprovalRequested)[0]
    assert request.shown["question"] == "Let handle do this: svc.pay?"
    assert request.shown["steps"]["handle/2/pay"]["input"] == {"amount": 5}
    assert request.covers == ("handle/2/pay",)
    assert played.state.status == "succeeded"
    seq = [(type(event).__name__, event.step) for event in played.events]
    assert seq.index(("ApprovalDecided", GATE)) < seq.index(("CallIntended", "handle/2/pay"))


def test_a_no_stops_it_and_no_further_tool_runs() -> None:
    played = play(bundle(), says("no", GATE, comment="Too much"), script=script(wants(PAY, LOOK), says_it()))
    assert [event.step for event in facts(played, e.CallIntended)] == ["handle/1/model"]
    assert facts(played, e.HandedOff)[-1].summary == "team:leads said no: Too much"


def test_each_call_is_asked_for_anew() -> None:
    played = play(
        bundle(), says("yes", GATE), says("no", "handle/3/pay_approval"), script=script(wants(PAY, PAY), says_it())
    )
    assert [event.step for event in facts(played, e.CallIntended)] == ["handle/1/model", "handle/2/pay"]


def test_waiting_for_people_is_no_time_at_work() -> None:
    hours = 3_600_000 * 5
    played = play(
        bundle(agent(CHECK, within="1 min")), says("yes", GATE, after=hours), script=script(wants(PAY), says_it())
    )
    assert played.state.status == "succeeded"


def test_neither_a_file_nor_a_template_is_the_models_to_name() -> None:
    mail = "      - id: mail\n        do: svc.mail\n        compensate: { none: It is small. }\n"
    told = {}
    for name, with_ in (("free", "{ to: a@x.test }"), ("fixed", "{ template: welcome }")):
        tools = mail.replace("compensate", f"with: {with_}\n        compensate")
        played = run(bundle(agent(CHECK, tools=tools)), script(says_it()))
        told[name] = facts(played, e.CallIntended)[0].request["input"]["turn"]["tools"][0]["fields"]
    assert [*told["free"]] == ["text"]
    assert [*told["fixed"]] == ["to", "text", "values"]


def test_its_own_words_for_the_approval() -> None:
    tools = (
        "      - { id: look, read: svc.look, about: Looks somebody up }\n      - id: pay\n        do: svc.pay\n"
        "        compensate: { hand_off: person:boss }\n"
        '        approve: { by: [team:leads], question: "Pay ${{ input.amount }}?", within: 1 hour }\n'
    )
    played = play(bundle(agent(CHECK, tools=tools)), says("yes", GATE), script=script(wants(PAY), says_it()))
    request = facts(played, e.ApprovalRequested)[0]
    assert (request.shown["question"], request.due - request.at) == ("Pay 5?", 3_600_000)
    assert facts(played, e.CallIntended)[0].request["input"]["turn"]["tools"][0]["about"] == "Looks somebody up"


# --- where it stands -----------------------------------------------------------------------------------------------


def test_it_is_passed_over_by_its_own_condition() -> None:
    played = run(bundle(agent(CHECK, top="    when: ${{ 1 > 2 }}\n")))
    assert [event.step for event in facts(played, e.StepSkipped)] == ["handle"]


def test_a_goal_without_a_value_is_its_failure() -> None:
    steps = "  - { id: maybe, read: svc.get, when: '${{ 1 > 2 }}' }\n" + agent().replace(
        "no: 7", 'no: "${{ steps.maybe.id }}"'
    )
    played = run(bundle(steps))
    assert facts(played, e.StepFailed)[0].step == "handle"
    assert facts(played, e.HandedOff)[0].kind == "failure"


def test_what_is_fixed_and_has_no_value_is_its_failure() -> None:
    tools = "      - id: note\n        do: svc.note\n        with: { to: '${{ steps.maybe.id }}' }\n        compensate: cancel\n"
    steps = "  - { id: maybe, read: svc.get, when: '${{ 1 > 2 }}' }\n" + agent(tools=tools)
    played = run(bundle(steps), script(wants(NOTE)))
    assert facts(played, e.StepFailed)[0].step == "handle"


def test_in_draft_mode_nothing_that_writes_is_sent() -> None:
    drafted = bundle(
        agent(CHECK, tools="      - id: note\n        do: svc.note\n        compensate: { cancel: svc.undo }\n"),
        mode="draft",
    )
    played = run(drafted, script(wants(NOTE), says_it()))
    assert played.state.status == "drafted"
    assert [event.step for event in facts(played, e.DraftRecorded)] == ["handle/2/note"]
    assert facts(played, e.DraftRecorded)[0].input == {"id": "c1"}
    assert [event.step for event in facts(played, e.CallIntended)] == ["handle/1/model", "handle/3/model", "after"]


def test_in_an_item_it_is_made_good_and_set_aside_with_it() -> None:
    inner = agent().replace("\n", "\n    ")
    steps = f"  - id: rows\n    each: ${{{{ inputs.rows }}}}\n    if_one_fails: continue\n    steps:\n      {inner.strip()}\n"
    turn = {f"rows/{n}/handle/1/model": wants(NOTE, NOTE) for n in (1, 2, 3, 4)}
    told: dict[tuple[str, str], Sequence[Any]] = {(path, "read"): [turn[path]] * 2 for path in turn}
    told |= {(f"rows/{n}/handle/4/model", "read"): [says_it()] for n in (1, 2, 3, 4)}
    told["rows/2/handle/3/note", "do"] = [REFUSED]
    played = run(bundle(steps, "inputs: { email: text, rows: list }\n"), told, acts=[asked("retry", "rows")])
    assert undone(played) == ["rows/2/handle/2/note"]
    assert played.state.status == "succeeded"
    again = [x for x in facts(played, e.CallIntended) if x.step == "rows/2/handle/2/note" and x.purpose == "do"]
    assert [x.generation for x in again] == [0, 1]


def test_a_branch_beside_goes_on_while_it_waits() -> None:
    steps = (
        "  - id: both\n    parallel:\n      ai:\n        " + agent().strip().replace("\n", "\n      ")
        + "\n      other:\n      - id: side\n        read: svc.get\n"
    )  # fmt: skip
    played = run(bundle(steps), script(wants(PAY)))
    assert "side" in played.state.steps
    assert played.state.gates[GATE].status == "late"


def test_the_state_is_the_fold_of_the_log_after_any_crash() -> None:
    turns = script(wants(LOOK, NOTE), wants(NOTE), says_it())
    turns = {place: [*answers, *answers] for place, answers in turns.items()}
    for number in range(1, 8):
        played = run(bundle(), turns, weather=Fates(crashes=[number]))
        assert played.state == fold_all(played.events)
        assert played.state.status == "succeeded", number
        keys = [x.key for x in facts(played, e.CallIntended) if x.purpose == "do" and x.attempt == 1]
        assert len(keys) == len(set(keys)) == 2


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ({"text": "", "calls": ["note"]}, "what its model answered names no tool and its input"),
        ({"text": "", "calls": "note"}, "what its model answered cannot be read"),
        ({}, "what its model answered cannot be read"),
    ],
)
def test_an_answer_that_is_none_is_its_failure(output: Any, why: str) -> None:
    """One that was lost, because it could not be stored, is never taken for its last word."""
    played = run(bundle(), {("handle/1/model", "read"): [Outcome(result="applied", output=output)]})
    assert (facts(played, e.StepFailed)[0].step, facts(played, e.StepFailed)[0].summary) == ("handle", why)
    assert played.state.status == ""


def test_a_log_without_its_content_can_be_read() -> None:
    bare = [
        e.ScopeStarted(at=1, step="handle", kind="agent"),
        e.ScopeStarted(at=1, step="handle/1", kind="tool", name="x"),
    ]
    state = State()
    for event in bare:
        state = fold(state, event)
    assert state.scopes["handle/1"].inputs["wrong"] == ""
