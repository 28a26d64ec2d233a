"""The tools of whoever writes a connector, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.cli import run_command
from tests.cli.terminal import Terminal
from tests.connectors.test_openapi import CONTACTS, Doc, document, listing

GOLDEN = Path(__file__).parent / "connectors_told"


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    folder = tmp_path / "shop"
    assert run_command(["init", str(folder)]) == 0
    return Terminal(folder, capsys)


def given(terminal: Terminal) -> str:
    """A document with reads, writes, and one that cannot be said."""
    photo: Doc = {"requestBody": {"content": {"image/png": {}}}, "responses": {}}
    paths: Doc = {**CONTACTS, "/photos": {"post": photo}}
    paths["/contacts"] = {**paths["/contacts"], **listing(["page"], {"type": "array"})["/contacts"]}
    file = terminal.folder / "crm.json"
    file.write_text(json.dumps(document(paths)), encoding="utf-8")
    return str(file)


def test_import_writes_a_connector_that_passes_the_check(terminal: Terminal) -> None:
    said = terminal.type("connectors", "import", given(terminal))
    assert said.code == 0
    assert said.out == (GOLDEN / "imported.txt").read_text(encoding="utf-8")
    assert terminal.type("check").out == "1 flow (1 in draft mode): nothing is wrong.\n"
    assert terminal.type("connectors", "show", "acme_crm").code == 0
    again = terminal.type("connectors", "import", given(terminal))
    assert (again.code, again.err) == (2, 'amends: there is a connector "acme_crm" already; choose another name\n')


def test_import_says_all_of_it_as_json(terminal: Terminal) -> None:
    told = json.loads(terminal.type("connectors", "import", given(terminal), "--name", "crm", "--json").out)
    assert told["file"] == "connectors/crm.yaml"
    assert [told[key] for key in ("operations", "reads", "writes")] == [4, 1, 2]
    assert told["left_out"] == [{"operation": "POST /photos", "why": "its body cannot be said: it is image/png"}]
    lines = (terminal.folder / told["file"]).read_text(encoding="utf-8").split("\n")
    assert told["decide"]
    assert all(one["what"] in lines[one["line"] - 1] for one in told["decide"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("import", "https://x.test/a.json"),
            "https://x.test/a.json is an address, and nothing is read over the network; save it as a file first",
        ),
        (("import", "nothing.yaml"), "nothing.yaml cannot be read: No such file or directory"),
        (("new", "my-crm"), '"my-crm" cannot be the name of a connector; it has letters, digits and _, a letter first'),
        (("new", "email"), 'there is a connector "email" already; choose another name'),
    ],
)
def test_what_cannot_be_written_is_said_in_a_sentence(terminal: Terminal, words: tuple[str, ...], said: str) -> None:
    told = terminal.type("connectors", *words)
    assert (told.code, told.err, told.out) == (2, f"amends: {said}\n", "")


def test_new_begins_a_connector_that_passes_the_check(terminal: Terminal) -> None:
    said = terminal.type("connectors", "new", "crm")
    assert said.out == (
        "Made connectors/crm.yaml: a connector with three actions, to be changed into your own.\n\n"
        "Go on with a line in connections.yaml, such as\n  crm: { connector: crm, token: { secret: CRM_TOKEN } }\n"
        "and then\n  amends check\n  amends connectors show crm\n"
    )
    (terminal.folder / "connections.yaml").write_text("crm: { connector: crm, token: { secret: CRM_TOKEN } }\n")
    (terminal.folder / ".env").write_text("CRM_TOKEN=sk_test_123456\n")
    assert terminal.type("check").out == "1 flow (1 in draft mode): nothing is wrong.\n"
