"""A connector file with a mistake: one located sentence, and the file does not load."""

from __future__ import annotations

import pytest

from connectors.declarative import kind_from_text
from runner.contract import Draft
from runner.language.actions import action_from_json, action_to_json
from tests.connectors.test_declarative import BILLING

MISTAKES: list[tuple[str, str, str, str, str]] = [
    # what is replaced, by what, the place (the text the problem points at), the code, the sentence
    ("    success: $", "    succes: $", "succes", "FL003", '"succes" is not a key of an action'),
    ("writes: keyed", "writes: keyd", "keyd", "FL006", '"writes" cannot be "keyd"'),
    ("input.customer }}\n        amount", "input.custmer }}\n        amount", "input.custmer", "FL101", 'there is no input "custmer"'),
    ("response.json.data.id }}\n", "respnse.json.data.id }}\n", "respnse", "FL101", 'there is no "respnse" here'),
    ("{{ response.status == 201", "{{ response.statsu == 201", "response.statsu", "FL101", 'there is no response "statsu"'),
    ("${{ connection.account }}", "${{ connection.token }}", "connection.token", "FL101", 'there is no connection "token"'),
    ("${{ input.amount }}", "${{ input.amount | rund }}", "rund", "FL007", 'there is no filter "rund"'),
    ("${{ input.amount }}", "${{ today() }}", "today", "FL007", "a connector has no clock, so today() cannot stand here"),
    ("success: ${{ response.status == 201 }}", "success: response.status == 201", "response", "FL103", '"success" must be one expression'),
    ("    key: { header: Idempotency-Key, life: 24 hours }\n", "", "pay", "FL005", "pay is keyed and does not say where the key goes"),
    (", life: 24 hours", "", "key", "FL005", "key does not say how long the service remembers it"),
    ("life: 24 hours", "life: 24 ours", "24", "FL006", '"24 ours" is not a duration'),
    ("header: Idempotency-Key,", "header: Authorization,", "Authorization", "FL006", '"Authorization" cannot be the header of a key'),
    ("    writes: once\n", "", "refund", "FL005", "refund does not say what it does"),
    ("    writes: once\n", "    writes: once\n    reads: true\n", "writes", "FL006", "refund reads and writes; it can be one of them"),
    ("    key: { field: reference }\n", "", "request", "FL006", "tag does not send our key, so nobody can be asked by it"),
    ("query: { reference: \"${{ key }}\" } }\n      count: ${{ response.json.n", "query: { r: x } }\n      count: ${{ response.json.n", "request", "FL006", "the lookup does not ask by our key"),
    (', total: "${{ response.json.items[0].total }}" }', " }", "lookup", "FL005", 'lookup does not yield "total", which pay does'),
    (', total: "${{ response.json.total }}" }', ", totl: 1, total: 1 }", "totl", "FL003", 'find yields "totl", which is not in the output of pay'),
    ("      external_id: ${{ response.json.id }}\n", "", "find", "FL005", "find does not yield the outside id, which pay does"),
    ("undo: { action: refund", "undo: { action: refnd", "refnd", "FL208", 'there is no action "refnd"'),
    ('with: { charge: "${{ output.id }}"', 'with: { chrge: "${{ output.id }}"', "chrge", "FL208", '"refund" has no field "chrge"'),
    ('with: { charge: "${{ output.id }}", why', "with: { why", "undo", "FL208", '"refund" needs the field "charge"'),
    ("${{ output.id }}\", why", "${{ output.idd }}\", why", "output.idd", "FL101", 'there is no output "idd"'),
    ("undo: { action: refund", "undo: { action: get_plan", "get_plan", "FL201", '"get_plan" only reads, so it takes nothing back'),
    ("    timeout: 5 s\n", "    timeout: 5 s\n    draft: { action: payy }\n", "payy", "FL208", 'there is no action "payy"'),
    ("    timeout: 5 s\n", "    timeout: 5 s\n    draft: { action: get_plan }\n", "get_plan", "FL201", '"get_plan" only reads, so it leaves no draft'),
    ("    timeout: 5 s\n", "    timeout: 5 s\n    draft: { action: tag, with: { id: x } }\n", "tag", "FL005", '"tag" has no undo, so its drafts could not be removed'),
    ("    timeout: 5 s\n", "    timeout: 5 s\n    draft: { action: pay }\n", "pay", "FL006", 'pay would be sent in a draft run'),
    ("    timeout: 5 s\n", "    timeout: 5 s\n    draft: { action: refund }\n", "draft", "FL208", '"refund" needs the field "charge"'),
    ("    timeout: 5 s\n", "    timeout: 5 s\n    draft: { action: pay, with: { chrge: 1 } }\n", "chrge", "FL208", '"pay" has no field "chrge"'),
    ("    timeout: 5 s\n", "    timeout: 5 s\n    draft: { action: pay, with: { note: '${{ output.id }}' } }\n", "output", "FL101", 'there is no "output" here'),
    ("    timeout: 5 s\n", "    timeout: 5 s\n    draft: { action: pay, with: { note: '${{ input.note }}' } }\n", "input.note", "FL102", '"note" may be empty'),
    ("    reads: true\n", "    reads: true\n    draft: { action: pay }\n", "draft", "FL006", 'a reading action has no "draft"'),
    (" | default('no')", "", "input.note", "FL102", '"note" may be empty, and then there is no value here'),
    ('{ text: "for ${{ input.customer }}" }', '{ text: "for ${{ input.note }}" }', "input.note", "FL102", '"note" may be empty'),
    ("post: /payments", "post: payments", "payments", "FL006", '"payments" must begin with "/"'),
    ('{ post: "/refunds",', '{ post: "/refunds", put: /x,', "request", "FL005", "a request has one method, and here are post and put"),
    ('{ post: "/refunds",', "{ ", "request", "FL005", "a request has one method"),
    ("{ get: /payments, query: { reference", "{ put: /payments, query: { reference", "request", "FL201", "a lookup asks and changes nothing; it cannot be a put"),
    ('request: { get: "/plans', 'request: { json: 1, get: "/plans', "request", "FL006", "a get has no body; use query"),
    ('post: "/refunds",', 'post: "/refunds", headers: { Authorization: "Bearer abc" },', "Authorization", "FL401", 'the header "Authorization" is not written here'),
    ("input: { charge: text,", "input: { charge: txt,", "txt", "FL006", "charge: "),
    ('result: { id: "', 'result: { idd: 1, id: "', "idd", "FL003", 'result has "idd", which is not in the output of pay'),
    ("    timeout: 5 s\n", "    timeout: 5 s\n    sample: { id: p_1 }\n", "sample", "FL005", 'the sample has no "total"'),
    ("is: in_progress", "is: inprogress", "inprogress", "FL006", '"is" cannot be "inprogress"'),
    ("auth: { bearer: token }", "auth: { oauth: token }", "{ oauth: token }", "FL006", 'there is no auth "oauth"'),
    ("connector: billing", "connector: biling", "biling", "FL006", 'the connector is called "biling" and its file "billing.yaml"'),
    ("title: The billing service\n", "", "", "FL005", 'the connector has no "title"'),
    ("  tag:\n", "  pay:\n", "pay", "FL001", "pay"),
    ("    reads: true\n", "    reads: &a true\n", "&", "FL004", "anchor"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "at", "code", "what"), MISTAKES, ids=[one[4][:50] for one in MISTAKES])
def test_a_mistake_is_told_at_its_place(old: str, new: str, at: str, code: str, what: str) -> None:
    assert old in BILLING
    text = BILLING.replace(old, new, 1)
    kind, problems = kind_from_text(text, "billing.yaml")
    assert kind is None
    found = [one for one in problems if one.code == code and what in one.what]
    assert found, problems
    place = text.split("\n")[found[0].line - 1][found[0].column - 1 :] if found[0].line else ""
    assert place.startswith(at), (found[0], place)


def test_an_action_may_say_what_leaves_a_draft_of_it() -> None:
    """Another one, or itself marked as one; the fields of the same name need not be said."""
    text = BILLING.replace(
        "    timeout: 5 s\n", "    timeout: 5 s\n    draft: { action: pay, with: { note: DRAFT } }\n", 1
    )
    kind, problems = kind_from_text(text, "billing.yaml")
    assert problems == ()
    assert kind is not None
    assert kind.actions()["pay"].draft == Draft(action="pay", with_={"note": "DRAFT"})
    assert action_from_json(action_to_json(kind.actions()["pay"])) == kind.actions()["pay"]


def test_all_mistakes_come_at_once() -> None:
    text = BILLING.replace("input.customer }}\n        amount", "input.custmer }}\n        amount", 1)
    text = text.replace("action: refund", "action: refnd").replace("post: /payments", "post: payments")
    _, problems = kind_from_text(text, "billing.yaml")
    assert sorted(one.code for one in problems) == ["FL006", "FL101", "FL208"]
    assert [one.line for one in problems] == sorted(one.line for one in problems)


def test_a_broken_action_does_not_hide_the_others() -> None:
    text = BILLING.replace("writes: keyed", "writes: keyd", 1).replace('post: "/refunds"', 'post: "refunds"')
    _, problems = kind_from_text(text, "billing.yaml")
    assert [one.what for one in problems] == ['"writes" cannot be "keyd"', '"refunds" must begin with "/"']


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "a",
        "connector: billing",
        "actions:",
        "{",
        "connector: billing\ntitle: x\nactions: {}\n",
        "connector: 5\ntitle: x\nactions: { a: 1 }",
    ],
)
def test_nothing_that_is_a_connector(text: str) -> None:
    kind, problems = kind_from_text(text, "billing.yaml")
    assert kind is None
    assert problems
