"""The small project that the language's tests stand on: a few connections, a few people, two templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.contract import Action, Json, Retry, Undo
from runner.errors import Problem
from runner.language.check import check_flow
from runner.language.connections import Connection, Found
from runner.language.facts import ProjectFacts
from runner.language.flow import Flow
from runner.language.load import load_flow
from runner.language.people import load_people
from runner.language.problems import render_all

HOUR = 3_600_000
NO_WAY_BACK = "A mail that has gone out cannot be taken back."

BILLING = (
    Action(name="get_plan", effect="read", input={"code": "text"}, output={"label": "text", "price": "number"}),
    Action(
        name="mark_paid",
        effect="keyed",
        key_life=24 * HOUR,
        input={"customer": "text", "amount": "number"},
        output={"id": "text"},
        cannot_undo="A payment is taken back by finance, by hand.",
    ),
)
CRM = (
    Action(name="get_contact", effect="read", input={"email": "email"}, output={"id": "text or empty"}),
    Action(
        name="create_contact",
        effect="lookup",
        has_lookup=True,
        input={"name": "text", "email": "email", "level": {"choice": ["basic", "pro"], "empty": True}},
        output={"id": "text"},
        find_by=("email",),
        undo=Undo(action="delete_contact", with_={"id": "${{ output.id }}"}),
    ),
    Action(name="delete_contact", effect="keyed", key_life=24 * HOUR, input={"id": "text"}),
    Action(name="update_contact", effect="keyed", key_life=24 * HOUR, input={"id": "text", "status": "text"}),
)
TASKS = (
    Action(
        name="create",
        effect="keyed",
        key_life=24 * HOUR,
        input={"title": "text", "due": "date or empty", "note": "text or empty"},
        output={"id": "text"},
        undo=Undo(action="close", with_={"id": "${{ output.id }}"}),
    ),
    Action(name="close", effect="keyed", key_life=24 * HOUR, input={"id": "text", "comment": "text or empty"}),
)
MAIL = (
    Action(
        name="send",
        effect="once",
        input={"to": "any", "subject": "text or empty", "text": "text or empty", "template": "text or empty"}
        | {"values": "record or empty"},
        output={"message_id": "text"},
        cannot_undo=NO_WAY_BACK,
        fan_out="to",
        renders_template=True,
        retry=Retry(tries=6, pause=300_000),
    ),
)
AI = (Action(name="draft", effect="read", from_ai=True, input={"about": "text"}, output={"text": "text"}),)
HTTP = (
    Action(name="get", effect="read", input={"url": "url"}, open_input=True, open_output=True),
    Action(name="post", effect="once", input={"url": "url"}, open_input=True, open_output=True),
)


RECORDS = (
    Action(name="get", effect="read", own=True, input={"collection": "text", "id": "text"}, open_output=True),
    Action(
        name="create",
        effect="keyed",
        own=True,
        input={"collection": "text"},
        open_input=True,
        undo=Undo(action="delete", with_={"id": "${{ output.id }}"}),
    ),
)


class Kind:
    """A connector that is only described."""

    def __init__(self, name: str, actions: tuple[Action, ...], settings: Mapping[str, Json] | None = None) -> None:
        self.name = name
        self.title = name
        self._actions = {action.name: action for action in actions}
        self._settings = settings or {}

    def settings(self) -> Mapping[str, Json]:
        return self._settings

    def actions(self) -> Mapping[str, Action]:
        return self._actions

    def connect(self, name: str, settings: Mapping[str, Json], tools: Any) -> Any:
        """Every setting is welcome, so there is nothing to say."""
        return None


ACTIONS = {
    f"{connection}.{action.name}": action
    for connection, actions in (
        ("billing", BILLING),
        ("crm", CRM),
        ("tasks", TASKS),
        ("mail", MAIL),
        ("ai", AI),
        ("http", HTTP),
        ("records", RECORDS),
    )
    for action in actions
}


def sender(name: str, scheme: str) -> Connection:
    """A connection that proves deliveries."""
    found, settings = Found(kind=Kind("webhook", ()), name="webhook"), {"scheme": scheme, "secret": {"secret": "S"}}
    return Connection(name=name, connector="webhook", found=found, settings=settings)


CONNECTIONS = {"shop": sender("shop", "standard"), "till": sender("till", "token")}

PEOPLE = """
people:
  aya: { name: Aya Sato, mail: aya@acme.example }
  tom: { name: Tom Ito }
posts:
  cfo: aya
teams:
  sales_ops: { members: [aya, tom] }
  empty: { members: [] }
"""

TEMPLATES = {
    "answered.md": "subject: Your mail\n\nHello ${{ inputs.name }}, ${{ steps.answer.text }}\n",
    "welcome.md": "subject: Welcome\n\nHello ${{ inputs.name }}, your plan is ${{ values.plan }}.\n",
    "wrong.md": "subject: Hello\n\nDear ${{ inputs.nmae }},\n",
}


def facts(**changes: Any) -> ProjectFacts:
    """The project, with a few things otherwise."""
    people, _, problems = load_people(PEOPLE, "people.yaml")
    assert not problems
    around: dict[str, Any] = {
        "actions": ACTIONS,
        "people": people,
        "templates": TEMPLATES,
        "connections": CONNECTIONS,
    } | changes
    return ProjectFacts(**around)


def check(text: str, file: str = "flow.yaml", **changes: Any) -> tuple[Flow | None, tuple[Problem, ...]]:
    """A flow and everything that is wrong with it, in the order of the file."""
    flow, source, problems = load_flow(text, file)
    rules = check_flow(flow, source, facts(**changes)) if flow is not None and source is not None else ()
    return flow, tuple(sorted((*problems, *rules), key=lambda found: (found.line, found.column, found.code)))


def told(text: str, file: str = "flow.yaml", **changes: Any) -> str:
    """All problems as they are printed."""
    return render_all(check(text, file, **changes)[1], text)


def codes(text: str, file: str = "flow.yaml", **changes: Any) -> list[str]:
    """The codes of all problems."""
    return [problem.code for problem in check(text, file, **changes)[1]]
