"""Agents in the check: what its tools must say, who asks for turns, what is in reach where. Told word for word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.contract import Action
from runner.language.samples import sample_output
from tests.language.ground import ACTIONS, check, codes, told

AGENT = Action(
    name="agent", effect="read", is_agent=True, from_ai=True, input={"goal": "text", "context": "any or empty"},
    output={"text": "text", "calls": "list"},
)  # fmt: skip
SAMPLED = replace(AGENT, sample={"text": "Done.", "calls": []})
SCAN = Action(name="scan", effect="read", input={"page": "file", "note": "text or empty"}, output={"text": "text"})

TOP = "flow: sample\ntitle: A sample\nowner: person:aya\nmode: live\nrun_key: ${{ trigger.id }}\ninputs: { id: text, email: email }\n"
MARK = (
    "      - id: mark\n        do: crm.update_contact\n        with: { id: \"${{ inputs.id }}\" }\n"
    "        compensate: { mark: crm.update_contact, with: { id: \"${{ input.id }}\", status: x } }\n"
)  # fmt: skip
MAIL = (
    "      - id: answer\n        do: mail.send\n        with: { to: \"${{ inputs.email }}\" }\n        approve: team:sales_ops\n"
    "        compensate: { hand_off: team:sales_ops }\n"
)  # fmt: skip
LIMITS = "    limits: { calls: 5, within: 10 min }\n"


@pytest.fixture(autouse=True)
def _agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACTIONS, "ai.agent", AGENT)
    monkeypatch.setitem(ACTIONS, "ai.scan", SCAN)


def flow(
    tools: str = MARK + MAIL, *, agent: str = "agent: ai.agent", goal: str = "goal: Help.", limits: str = LIMITS, after: str = "",
    before: str = "",
) -> str:  # fmt: skip
    return (
        f"{TOP}steps:\n{before}  - id: handle\n    {agent}\n    with: {{ {goal} }}\n    tools:\n{tools}{limits}{after}"
    )


def lines(text: str) -> list[str]:
    """Each problem as one line, with its place."""
    return [f"{one.line}:{one.column} {one.code} {one.what} | {one.hint}" for one in check(text, "sample.yaml")[1]]


def test_an_agent_in_order() -> None:
    assert told(flow(), "sample.yaml") == ""
    used = '  - id: told\n    read: crm.get_contact\n    with: { email: "${{ steps.handle.text }}" }\n'
    found = lines(flow(MARK, after=used))
    assert found == []


SHAPES = [
    (flow("      []\n"), ['12:7 FL006 "tools" is empty | ']),
    (flow(limits=""), ['8:5 FL005 an agent step has no "limits" | ']),
    (flow(limits="    limits: { within: 10 min }\n"), ['21:13 FL005 limits has no "calls" | for example calls: 10']),
    (flow(limits="    limits: { calls: 0, within: 10 min }\n"), ['"calls" must be at least 1, and 0 is not']),
    (flow(limits="    limits: { calls: 101, within: 10 min }\n"), ['"calls" must be at most 100, and 101 is not']),
    (flow(limits="    limits: { calls: 5, within: 2 business days }\n"), ["needs a calendar"]),
    (flow(limits="    limits: { calls: 5, within: 1 min, cost: 0 }\n"), ['"cost"']),
    (flow("      - { id: x, approve: Really?, by: team:sales_ops }\n"), ["one of these words"]),
    (flow("      - { id: x, read: crm.get_contact, when: true }\n"), ['when']),
    (flow(MARK + "        unattended: It is fine.\n"), ["unattended"]),
    (flow(MARK.replace("compensate", "approve: { within: 1 day }\n        compensate")), ['approve has no "by" | for example by: team:finance']),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), SHAPES)
def test_its_shape(text: str, wanted: list[str]) -> None:
    found = lines(text)
    assert len(found) >= 1
    assert all(any(one in line for line in found) for one in wanted), found


RULES = [
    (flow(MARK.replace("crm.update_contact", "crm.get_contact", 1).replace('with: { id: "${{ inputs.id }}" }', "with: {}")),
     "FL201", "crm.get_contact changes nothing, so it is no do", "write read: instead"),
    (flow("      - { id: x, read: crm.create_contact }\n"),
     "FL201", "crm.create_contact changes something, so it cannot be read", "write do: instead, and say how it is made good"),
    (flow(agent="agent: crm.get_contact", goal="email: a@b.co"),
     "FL201", "crm.get_contact is no language model's agent", "name the agent action of a connection to a language model, such as ai.agent"),
    (flow(agent="agent: crm.update_contact", goal='id: "1", status: x'),
     "FL201", "crm.update_contact is no language model's agent", "name the agent action of a connection to a language model, such as ai.agent"),
    (flow("      - { id: x, read: ai.agent }\n"),
     "FL201", "ai.agent works in turns, with tools", "write agent: instead, with tools: and limits:"),
    (flow("      - { id: x, read: crm.get_contct }\n"),
     "FL208", '"crm" has no action "get_contct"', 'did you mean "get_contact"?'),
    (flow("      - { id: x, read: ai.scan }\n"),
     "FL208", 'ai.scan needs the file "page", and a model cannot give one', "say which: with: { page: … }"),
    (flow("      - { id: x, read: http.get }\n"),
     "FL208", 'http.get goes where "url" says, and that is not for a model to choose', "say which: with: { url: … }"),
    (flow("      - { id: x, read: crm.get_contact, with: { mail: x } }\n"),
     "FL208", 'crm.get_contact has no field "mail"', 'did you mean "email"?'),
    (flow(goal="context: x"), "FL208", 'ai.agent needs the field "goal"', "it is a text"),
    (flow("      - id: mark\n        do: crm.update_contact\n"),
     "FL202", '"mark" changes the world and does not say how it is made good', "cancel, mark, correct, quarantine or hand_off; or none with a reason"),
    (flow(MAIL.replace("        approve: team:sales_ops\n", "")),
     "FL203", '"answer" cannot be undone, and nobody is asked before it',
     "A mail that has gone out cannot be taken back. Say who is asked before each of its calls: approve: team:…"),
    (flow(MARK + MARK), "FL105", 'the id "mark" is taken by the step on line 12', "every step of a flow has its own"),
    (flow(MARK.replace("input.id", "input.mail")),
     "FL101", 'the input of "mark" has no "mail"', "it has: id, status"),
    (flow(goal='goal: "${{ input.id }}"'), "FL101", 'there is no name "input"', 'did you mean "inputs"?'),
    (flow(goal='goal: "${{ steps.mark.id }}"'),
     "FL102", '"mark" is a tool of "handle", and what it answers goes to its model alone', "afterwards there are steps.handle.text and .did"),
    (flow(MARK.replace("inputs.id", "steps.handle.text")), "FL102", 'step "handle" has not run yet here', "use a step above this one"),
    (flow(MAIL.replace("team:sales_ops\n", "team:sale_ops\n", 1)), "FL301", 'there is no team "sale_ops" in people.yaml', 'did you mean "team:sales_ops"?'),
    (flow(MAIL.replace("approve: team:sales_ops", "approve: { by: team:sale_ops }")),
     "FL301", 'there is no team "sale_ops" in people.yaml', 'did you mean "team:sales_ops"?'),
    (flow(MAIL.replace("approve: team:sales_ops", 'approve: { by: team:sales_ops, question: "Send ${{ input.text }} to ${{ input.who }}?" }')),
     "FL101", 'the input of "answer" has no "who"', "it has: subject, template, text, to, values"),
    (flow(before="  - { id: go, approve: Do it?, covers: [mark], by: team:sales_ops }\n"),
     "FL302", '"mark" is a tool of "handle", and nobody knows yet what it will be given',
     "say at the tool who is asked before each of its calls: approve: …"),
    (flow(after='  - id: note\n    do: mail.send\n    with: { to: a@b.co, subject: x, text: "${{ steps.handle.text }}" }\n    compensate: { hand_off: team:sales_ops }\n'),
     "FL207", '"note" cannot be undone, and nobody has read what "handle" answered', "put an approval before it, or say why not: unattended: …"),
    (flow(after="  - { id: told, read: crm.get_contact, with: { email: a@b.co } }\n"),
     "FL204", '"answer" cannot be undone and stands before "told", which can still fail', "move it to the end, or say why not: accept_order: …"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "what", "hint"), RULES)
def test_each_rule_says_it_in_its_words(text: str, code: str, what: str, hint: str) -> None:
    found = [one for one in check(text, "sample.yaml")[1] if one.code == code]
    assert [(one.what, one.hint) for one in found][:1] == [(what, hint)], lines(text)
    assert found[0].line > 7


def test_a_draft_may_still_lack_some_of_it() -> None:
    text = flow("      - id: mark\n        do: crm.update_contact\n").replace("mode: live", "mode: draft")
    assert {one.level for one in check(text, "sample.yaml")[1]} == {"warning"}
    assert codes(text, "sample.yaml")


def test_where_nothing_is_sent_its_model_uses_each_tool_once() -> None:
    turn = {"tools": [{"name": "mark", "fields": {"id": "text", "status": "text or empty"}}], "so_far": []}
    first = sample_output(AGENT, {"goal": "Help.", "turn": turn})
    assert first["calls"] == [{"tool": "mark", "input": {"id": "draft id"}, "wrong": ""}]
    assert sample_output(SAMPLED, {"goal": "Help.", "turn": {**turn, "so_far": [{}]}}) == {"text": "Done.", "calls": []}
