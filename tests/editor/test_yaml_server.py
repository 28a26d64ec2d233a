"""A project's own schemas in the YAML language server that editors use: what it offers, says and underlines."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.language.project import Project
from runner.language.schema import write_schemas
from tests.house import ROOT
from tests.support.language_server import Editor, cursor, speaking_with

SERVER = Path(sys.prefix) / "node/node_modules/yaml-language-server/bin/yaml-language-server"
SETTINGS = {"validate": True, "hover": True, "completion": True, "schemaStore": {"enable": False}}
HEAD = """# yaml-language-server: $schema=../schemas/flow.schema.json
flow: small
title: Small
owner: team:finance
"""

pytestmark = pytest.mark.skipif(
    not SERVER.exists() or not shutil.which("node"),
    reason="no yaml-language-server here (./check installs it where there is npm)",
)


class Desk:
    """An editor in a project with the examples' connections, people, flows and templates; each text is a new file."""

    def __init__(self, editor: Editor, folder: Path) -> None:
        self.editor, self.folder, self.files = editor, folder, 0

    def show(self, text: str, name: str = "") -> tuple[str, int, int]:
        self.files += 1
        shown, line, column = cursor(text)
        path = self.folder / (name or f"flows/small{self.files}.yaml")
        return self.editor.open(path, shown), line, column

    def offered(self, body: str, head: str = HEAD) -> list[str]:
        return list(self.editor.completion(*self.show(head + body)))

    def told(self, body: str) -> str:
        return self.editor.hover(*self.show(HEAD + body))

    def wrong(self, body: str, head: str = HEAD, name: str = "") -> list[tuple[str, str]]:
        """(what is underlined, what is said of it)."""
        text = head + body
        found = []
        for problem in self.editor.underlined(self.show(text, name)[0]):
            start, end = problem["range"]["start"], problem["range"]["end"]
            line = text.splitlines()[start["line"]]
            found.append((line[start["character"] : end["character"]], problem["message"]))
        return found


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    shutil.copytree(ROOT / "flows", folder, dirs_exist_ok=True)
    found = Project.open(folder)
    write_schemas(folder / "schemas", found.kinds, found.facts())
    with speaking_with(["node", SERVER, "--stdio"], folder, yaml=SETTINGS) as editor:
        yield Desk(editor, folder)


def test_keys_are_offered(desk: Desk) -> None:
    assert {"run_key", "trigger", "inputs", "steps", "on_failure"} <= set(desk.offered("¦"))
    assert {"do step", "approve step", "each step", "hand_off step"} <= set(desk.offered("steps:\n  - ¦\n"))
    assert "compensate" in desk.offered("steps:\n  - id: x\n    do: crm.create_contact\n    ¦\n")
    assert {"cancel", "mark", "hand_off"} <= set(
        desk.offered("steps:\n  - id: x\n    do: crm.create_contact\n    compensate:\n      ¦\n")
    )


def test_actions_are_offered_where_they_fit(desk: Desk) -> None:
    writes, reads = (desk.offered(f"steps:\n  - id: x\n    {verb}: ¦\n") for verb in ("do", "read"))
    assert "crm.create_contact" in writes
    assert "billing.get_plan" in reads
    assert not set(writes) & set(reads)
    inside = "steps:\n  - id: x\n    choose:\n      - when: ${{ inputs.a }}\n        steps:\n          - id: y\n            do: ¦\n"
    assert desk.offered(inside) == writes
    assert desk.offered("steps:\n  - id: x\n    do: mail.send\n    compensate:\n      correct: ¦\n") == writes
    assert desk.offered("trigger:\n  poll: ¦\n") == reads


def test_the_fields_of_the_action_are_offered(desk: Desk) -> None:
    step = "steps:\n  - id: x\n    do: crm.create_contact\n"
    assert {"name", "email", "note"} <= set(desk.offered(step + "    with:\n      ¦\n"))
    assert "name" not in desk.offered(step + "    with:\n      name: a\n      ¦\n")
    assert "email" in desk.offered(step + "    find:\n      ¦\n")
    undo = "    compensate:\n      mark: crm.update_contact\n      with:\n        ¦\n"
    assert {"id", "status"} <= set(desk.offered(step + undo))
    mail = desk.offered("steps:\n  - id: x\n    do: mail.send\n    with:\n      template: ¦\n")
    assert mail == ["correction", "refund_in_doubt", "refund_sent", "reminder", "reminder_withdrawn", "welcome"]


def test_an_agent_and_its_tools_are_offered(desk: Desk) -> None:
    agent = "steps:\n  - id: x\n    agent: AGENT\n    with: { goal: Help. }\n    limits: { calls: 3, within: 1 min }\n    tools:\n      - id: y\n        TOOL\n"
    assert desk.offered(agent.replace("AGENT", "¦").replace("TOOL", "read: crm.get_contact")) == ["ai.agent"]
    tool = agent.replace("AGENT", "ai.agent")
    assert "crm.create_contact" in desk.offered(tool.replace("TOOL", "do: ¦"))
    assert "ai.agent" not in desk.offered(tool.replace("TOOL", "read: ¦"))
    assert desk.wrong(tool.replace("TOOL", "do: crm.create_contact\n        with: { name: a }")) == []


def test_people_flows_and_types_are_offered(desk: Desk) -> None:
    asked = desk.offered("steps:\n  - id: x\n    approve: Right?\n    covers: [y]\n    by: ¦\n")
    assert {"person:aya", "person:head_of_sales", "team:finance", "manager_of:starter"} <= set(asked)
    assert "team:sales_ops" not in asked, "an example of the language, nobody here"
    assert "desk" in desk.offered("trigger:\n  mail: ¦\n")
    assert "parcel_scanned" in desk.offered("steps:\n  - id: x\n    call: ¦\n")
    assert {"order", "condition"} <= set(
        desk.offered("steps:\n  - id: x\n    call: parcel_scanned\n    with:\n      ¦\n")
    )
    assert {"text", "email or empty", "file"} <= set(desk.offered("inputs:\n  a: ¦\n"))
    assert {"choice", "money", "personal"} <= set(desk.offered("inputs:\n  a:\n    ¦\n"))


def test_what_is_meant_is_told(desk: Desk) -> None:
    step = "steps:\n  - id: x\n    do: crm.create_contact\n    with:\n      email: a\n    compensate: cancel\n"
    action = desk.told(step.replace("crm.cr", "crm.cr¦"))
    assert "Makes a contact" in action
    assert "the service can be asked what became of a call" in action
    assert "Takes: name, email, note?." in action
    assert "A mail address." in desk.told(step.replace("email", "em¦ail"))
    assert "What is done about it when a later step fails." in desk.told(step.replace("compensate", "compen¦sate"))
    assert "The team of aya, tom." in desk.told("on_failure: { do: review, tell: team:fin¦ance }\n")


def test_what_is_wrong_is_underlined_where_it_stands(desk: Desk) -> None:
    step = "steps:\n  - id: x\n    do: crm.create_contact\n    with: { name: a, email: b }\n"
    assert desk.wrong(step) == []
    [(place, said)] = desk.wrong(step.replace("create_contact", "create_contct"))
    assert place == "crm.create_contct"
    assert '"crm.create_contact"' in said
    assert desk.wrong(step.replace("name: a", "nme: a")) == [
        ("with", 'Missing property "name".'),
        ("nme", "Property nme is not allowed."),
    ]
    assert desk.wrong(step + "    compensat: cancel\n") == [("compensat", "Property compensat is not allowed.")]
    assert [place for place, _ in desk.wrong(step.replace("do:", "read:"))] == ["crm.create_contact"]
    paid = "steps:\n  - id: x\n    do: billing.mark_paid\n    with: { customer: c, amount: AMOUNT }\n"
    assert desk.wrong(paid.replace("AMOUNT", "12")) == desk.wrong(paid.replace("AMOUNT", '"${{ inputs.a }}"')) == []
    assert desk.wrong(paid.replace("AMOUNT", "much")) == [("much", "not a number, and not an expression ${{ … }}")]
    [(place, _)] = desk.wrong("steps:\n  - { id: x, hand_off: team:finanse }\n")
    assert place == "team:finanse"
    [(place, _)] = desk.wrong("inputs: { a: string }\nsteps:\n  - { id: x, wait: 1 s }\n")
    assert place == "string"


def test_the_examples_have_nothing_underlined(desk: Desk) -> None:
    for path in sorted(path for path in desk.folder.glob("*.yaml") if ".test." not in path.name):
        name = path.stem if path.stem in ("amends", "people", "connections") else "flow"
        line = f"# yaml-language-server: $schema={desk.folder.as_uri()}/schemas/{name}.schema.json\n"
        text = path.read_text(encoding="utf-8")
        rest = text.partition("\n")[2] if text.startswith("# yaml-language-server") else text
        assert desk.wrong(rest, line) == [], path.name


def test_lines_of_connections_are_offered_and_told(desk: Desk) -> None:
    head = "# yaml-language-server: $schema=schemas/connections.schema.json\nmail:\n  connector: email\n"
    address = desk.show(head + "  ¦\n", "connections2.yaml")
    assert {"host", "port", "security", "rate"} <= set(desk.editor.completion(*address))
    [(place, said)] = desk.wrong("crm:\n  connector: hubspot\n", head.partition("\n")[0] + "\n", "connections4.yaml")
    assert (place, said) == ("crm", 'Missing property "token".')
    assert "The server." in desk.editor.hover(*desk.show(head + "  ho¦st: smtp.example.test\n", "connections3.yaml"))
