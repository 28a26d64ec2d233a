"""What a connector declares beside its actions: limits, personal fields, a sandbox."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connectors.declarative import DECLARATIVE, kind_from_text
from runner.language.connections import Kinds, load_connections
from runner.language.personal import marks
from tests.connectors.tools import Lent

CRM = """
connector: crm
title: The contacts
origin: https://api.crm.test/v1
sandbox: { origin: "https://sandbox.crm.test/v1", token_url: "https://login.sandbox.crm.test/token" }
auth: { oauth2: { grant: client_credentials, token_url: "https://login.crm.test/token", client: client, secret: secret } }
rate: 100 per 10 s
at_once: 4
personal: [email, phone]
actions:
  contact:
    reads: true
    input: { email: email, size: integer or empty }
    request: { get: /contact, query: { email: "${{ input.email }}" } }
    output: { id: text, phone: text or empty, others: { list: { email: text, role: text } } }
  ping:
    reads: true
    request: { get: /ping }
"""
LINE = "client: amends, secret: { secret: S }"


def loaded(line: str, text: str = CRM) -> Any:
    kinds = Kinds(declarative=DECLARATIVE, own={"crm": ("connectors/crm.yaml", text)})
    return load_connections(f"crm: {{ connector: crm, {LINE}{line} }}\n", "connections.yaml", kinds=kinds)


@pytest.mark.parametrize(
    ("line", "rate", "at_once"),
    [
        ("", (100, 10_000), 4),
        (", rate: 5 per min", (5, 60_000), 4),
        (", at_once: 9", (100, 10_000), 9),
        (", rate: 5 per 2 hour, at_once: 1", (5, 7_200_000), 1),
    ],
)
def test_the_limits_of_a_connector_are_those_of_its_connections(line: str, rate: tuple[int, int], at_once: int) -> None:
    connections, _, problems = loaded(line)
    assert problems == ()
    found = connections.by_name["crm"]
    assert (found.rate, found.at_once) == (rate, at_once)


def test_without_limits_there_are_none() -> None:
    text = CRM.replace("rate: 100 per 10 s\nat_once: 4\n", "")
    found = loaded("", text)[0].by_name["crm"]
    assert (found.rate, found.at_once) == (None, None)


def test_a_rate_that_is_none_is_told_at_its_place() -> None:
    _, _, problems = loaded(", rate: fast")
    assert [(one.what, one.hint) for one in problems] == [
        ('"fast" is not a rate', "it is written 100 per 10 s, or 5 per min")
    ]


def test_personal_fields_are_marked_wherever_they_stand() -> None:
    kind, problems = kind_from_text(CRM, "crm.yaml")
    assert kind is not None, problems
    named = {f"crm.{name}": action for name, action in kind.actions().items()}
    assert json.loads(marks((), named)) == {
        "flows": {},
        "actions": {"crm.contact": {"input": [["email"]], "output": [["phone"], ["others", "*", "email"]]}},
    }
    assert marks((), {"crm.ping": named["crm.ping"]}) == ""


@pytest.mark.parametrize(
    ("line", "origin", "token_url"),
    [
        ({}, "https://api.crm.test/v1", "https://login.crm.test/token"),
        ({"sandbox": False}, "https://api.crm.test/v1", "https://login.crm.test/token"),
        ({"sandbox": True}, "https://sandbox.crm.test/v1", "https://login.sandbox.crm.test/token"),
        ({"sandbox": True, "origin": "https://own.test"}, "https://own.test", "https://login.sandbox.crm.test/token"),
        ({"sandbox": True, "token_url": "https://own.test/t"}, "https://sandbox.crm.test/v1", "https://own.test/t"),
    ],
)
def test_a_sandbox_leads_elsewhere_with_everything(line: dict[str, Any], origin: str, token_url: str) -> None:
    kind, problems = kind_from_text(CRM, "crm.yaml")
    assert kind is not None, problems
    made: Any = kind.connect("crm", {"client": "a", "secret": {"secret": "S"}, **line}, Lent())
    assert (made.origin(), made.tokens.told["token_url"], made.tokens.place) == (origin, token_url, origin)


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        (
            "rate: 100 per 10 s",
            "rate: 100 a day",
            7,
            '"100 a day" is not a rate',
        ),
        ("at_once: 4", "at_once: 0", 8, '"at_once" must be at least 1, and 0 is not'),
        ("[email, phone]", "[email, fone]", 9, 'no action has a field "fone"'),
        ('{ origin: "https://sandbox', '{ orgin: "https://sandbox', 5, '"orgin" is not a key of sandbox'),
    ],
)
def test_mistakes_are_told_at_their_place(old: str, new: str, line: int, what: str) -> None:
    assert old in CRM
    kind, problems = kind_from_text(CRM.replace(old, new), "crm.yaml")
    assert kind is None
    assert [one for one in problems if one.what == what and one.line == line], problems


def test_only_what_has_a_sandbox_can_be_told_to_use_it() -> None:
    text = "\n".join(line for line in CRM.split("\n") if not line.startswith("sandbox"))
    _, _, problems = loaded(", sandbox: true", text)
    assert [one.what for one in problems] == ['crm has no sandbox of its own, so "sandbox" leads nowhere']
    connections, _, problems = loaded(", sandbox: true, origin: https://try.crm.test", text)
    assert problems == ()
    assert connections.by_name["crm"].is_sandbox
