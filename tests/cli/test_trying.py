"""`connectors try` and `connectors test`, against a real service that keeps count."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.cli import run_command
from tests.cli.terminal import LIMIT, PROGRAM, Terminal, environment
from tests.support.http_service import HttpService, running_http
from tests.support.says import AS_USUAL, DROP_AFTER, rate_limit, refused

GOLDEN = Path(__file__).parent / "connectors_told"
SECRET = "sk_test_9f3b2c81"

CRM = """\
connector: crm
title: The CRM
auth: { bearer: token }
actions:
  get_contact:
    title: Reads a contact
    reads: true
    input: { id: text }
    request: { get: "/contacts/${{ input.id }}" }
    output: { id: text, name: text }
  create_contact:
    title: Makes a contact
    writes: keyed
    key: { header: Idempotency-Key, life: 24 hours }
    input: { name: text, note: text or empty }
    request: { post: /contacts, json: { name: "${{ input.name }}", note: "${{ input.note }}" } }
    success: ${{ response.status == 201 }}
    output: { id: text }
    external_id: ${{ response.json.id }}
    failures:
      - { when: "${{ response.status == 422 }}", is: invalid, say: "${{ response.json.message }}" }
    undo: { action: delete_contact, with: { id: "${{ output.id }}" } }
  delete_contact:
    title: Removes a contact
    writes: once
    input: { id: text }
    request: { delete: "/contacts/${{ input.id }}" }
    cannot_undo: A contact that was removed is made again by hand.
  add_note:
    title: Writes a note
    writes: lookup
    input: { text: text }
    request: { post: /notes, json: { text: "${{ input.text }}", reference: "${{ key }}" } }
    output: { id: text }
    external_id: ${{ response.json.id }}
    lookup:
      request: { get: /notes, query: { reference: "${{ key }}" } }
      count: ${{ response.json.items | length }}
      output: { id: "${{ response.json.items[0].id }}" }
      external_id: ${{ response.json.items[0].id }}
    cannot_undo: Notes stay.
  pay:
    title: Takes a payment
    writes: once
    input: { amount: number }
    request: { post: /payments, json: { amount: "${{ input.amount }}" } }
    output: { id: text }
    external_id: ${{ response.json.id }}
    cannot_undo: Money is paid back by finance.
"""
REFUSES = {"POST /contacts": 2, "POST /notes": 1, "POST /payments": 1}
"""How many of each are made by the checks before the wrong one comes, which the service refuses."""


@pytest.fixture
def service() -> Iterator[HttpService]:
    with running_http() as running:
        yield running


@pytest.fixture
def terminal(service: HttpService, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    folder = tmp_path / "shop"
    assert run_command(["init", str(folder)]) == 0
    (folder / "connectors").mkdir()
    (folder / "connectors" / "crm.yaml").write_text(CRM, encoding="utf-8")
    line = f"connector: crm, origin: '{service.origin}', allow_private: true, token: {{ secret: CRM_TOKEN }}"
    lines = f"crm: {{ {line} }}\nbox: {{ {line}, sandbox: true }}\n"
    (folder / "connections.yaml").write_text(lines, encoding="utf-8")
    (folder / ".env").write_text(f"CRM_TOKEN={SECRET}\n", encoding="utf-8")
    return Terminal(folder, capsys)


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def plain(text: str, service: HttpService) -> str:
    return re.sub(r"\btry-[0-9a-f]{24}", "try-KEY", text.replace(service.origin, "http://127.0.0.1:PORT"))


# --- try ----------------------------------------------------------------------------------------------------------------


def test_a_write_is_called_and_all_of_it_is_shown(terminal: Terminal, service: HttpService) -> None:
    said = terminal.type("connectors", "try", "crm.create_contact", "--with", f"name=Aya {SECRET}", "--yes")
    assert said.code == 0
    assert plain(said.out, service) == golden("tried")
    [request] = service.requests
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in said.out + said.err


def test_a_write_is_not_sent_before_somebody_says_yes(terminal: Terminal, service: HttpService) -> None:
    said = terminal.type("connectors", "try", "crm.pay", "--with", "amount=5")
    assert plain(said.err, service) == (
        "amends: crm.pay changes something at http://127.0.0.1:PORT: it is tried once: a lost answer goes to a person. "
        "Cannot be undone: Money is paid back by finance; nothing was sent, say --yes if that is meant\n"
    )
    assert (said.code, service.requests) == (2, [])


def test_at_a_terminal_a_write_asks(terminal: Terminal, service: HttpService) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"n\n")
    words = ("connectors", "try", "crm.pay", "--with", "amount=5")
    done = subprocess.run(
        [*PROGRAM, *words], cwd=terminal.folder, env=environment(), stdin=theirs, capture_output=True, timeout=LIMIT
    )
    os.close(theirs)
    os.close(ours)
    assert b"Send it? [y/N]" in done.stdout
    assert (done.returncode, done.stderr) == (2, b"amends: nothing was sent\n")
    assert service.requests == []


def test_a_read_asks_nobody(terminal: Terminal, service: HttpService) -> None:
    service.world.put("/contacts/c7", {"name": "Ben"})
    assert (
        "A flow would make of it: it is read.\n"
        in terminal.type("connectors", "try", "crm.get_contact", "-w", "id=c7").out
    )
    said = terminal.type("connectors", "try", "crm.get_contact", "-w", "id=nobody")
    assert "A flow would make of it: there is nothing of that kind (found: no).\n" in said.out


@pytest.mark.parametrize(
    ("words", "says", "outcome", "means"),
    [
        (
            ("create_contact", "name=A"), refused(422, "the name is too short"), "Outcome: refused (invalid)",
            "nothing was done; the step fails, and what the run has done before is made good.",
        ),
        (
            ("create_contact", "name=A"), DROP_AFTER, "Outcome: unknown (connection)",
            "it is tried again in about 12 s, with the same key, 4 times in all.",
        ),
        (
            ("add_note", "text=A"), DROP_AFTER, "Outcome: unknown (connection)",
            "the service is asked whether it happened; found counts as done, not found is sent again.",
        ),
        (
            ("pay", "amount=5"), DROP_AFTER, "Outcome: unknown (connection)",
            "nobody knows whether it happened, so a person is asked; it is not sent again by itself.",
        ),
        (
            ("pay", "amount=5"), rate_limit("7"), "Outcome: refused (rate limited)",
            "it is tried again in about 7 s, with the same key, 4 times in all.",
        ),
    ],
)  # fmt: skip
def test_what_a_flow_would_make_of_it_is_said(
    terminal: Terminal, service: HttpService, words: tuple[str, str], says: object, outcome: str, means: str
) -> None:
    service.script("POST *", says)  # type: ignore[arg-type]
    said = terminal.type("connectors", "try", f"crm.{words[0]}", "-w", words[1], "--yes")
    assert said.code == 1
    assert outcome in said.out
    assert said.out.endswith(f"A flow would make of it: {means}\n")


def test_it_is_said_as_json(terminal: Terminal) -> None:
    told = json.loads(terminal.type("connectors", "try", "crm.create_contact", "-w", "name=A", "--yes", "--json").out)
    assert told["outcome"]["external_id"] == "contacts-1"
    assert [answer["status"] for answer in told["answers"]] == [201]
    assert told["back"] == "amends connectors try crm.delete_contact --with 'id=contacts-1'"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("crn.pay",), 'there is no connection "crn"; did you mean "crm"?'),
        (("crm.pays",), 'crm has no action "pays"; did you mean "pay"?'),
        (
            ("crm",),
            "say which action of crm is meant; it has: add_note, create_contact, delete_contact, get_contact, pay",
        ),
        (
            ("records.create",),
            "records.create changes our own tables, which a run alone does; put it into a flow",
        ),
        (("crm.pay", "-w", "amount"), '"amount" is not NAME=VALUE (--with)'),
        (("crm.pay", "-w", "amount=1", "-w", "amount=2"), '"amount" is given twice (--with); give it once'),
        (("crm.pay", "--yes"), 'pay needs the field "amount"'),
        (("crm.pay", "--yes", "-w", "amount=much"), 'pay: amount: must be a number, not the text "much"'),
    ],
)  # fmt: skip
def test_what_cannot_be_tried_is_said_in_a_sentence(terminal: Terminal, words: tuple[str, ...], said: str) -> None:
    told = terminal.type("connectors", "try", *words)
    assert (told.code, told.err) == (2, f"amends: {said}\n")


# --- test ---------------------------------------------------------------------------------------------------------------


def prove(terminal: Terminal, service: HttpService, *words: str) -> list[tuple[str, str, str, str]]:
    """The checks of the sandbox; the service refuses what is wrong."""
    for match, before in REFUSES.items():
        service.script(match, *[AS_USUAL] * before, always=refused(422, "that is no input"))
    told = json.loads(terminal.type("connectors", "test", "box", *words, "--json").out)
    return [(one["action"], one["check"], one["verdict"], one["why"]) for one in told["checks"]]


def test_the_checks_of_each_class_hold(terminal: Terminal, service: HttpService) -> None:
    for match, before in REFUSES.items():
        service.script(match, *[AS_USUAL] * before, always=refused(422, "that is no input"))
    said = terminal.type("connectors", "test", "box")
    assert said.out.replace(f":{service.port} ", ":PORT ") == golden("tested")
    assert said.code == 0
    assert service.world.collections["/contacts"] == {}
    assert {name: len(found) for name, found in service.world.collections.items() if found} == {
        "/notes": 1, "/payments": 1,
    }  # fmt: skip


def test_a_service_that_ignores_keys_is_found_out(terminal: Terminal, service: HttpService) -> None:
    service.world.keeps_keys = False
    found = prove(terminal, service, "--action", "create_contact")
    why = "it answered with another outside id: two effects"
    assert ("create_contact", "the same key again", "fails", why) in found
    assert service.world.collections["/contacts"] == {}


def test_a_look_up_that_finds_nothing_is_found_out(terminal: Terminal, service: HttpService) -> None:
    file = terminal.folder / "connectors" / "crm.yaml"
    file.write_text(CRM.replace("get: /notes, query: { reference:", "get: /notes, query: { ref:"), encoding="utf-8")
    found = prove(terminal, service, "--action", "add_note")
    assert ("add_note", "found afterwards", "fails", "0 records found") in found


def test_an_undo_that_does_nothing_is_found_out_and_what_stands_is_named(
    terminal: Terminal, service: HttpService
) -> None:
    service.script("DELETE *", always=refused(404, "no such thing"))
    for _ in range(2):
        service.script("POST /contacts", AS_USUAL)
    service.script("POST /contacts", always=refused())
    told = json.loads(terminal.type("connectors", "test", "box", "--action", "create_contact", "--json").out)
    assert told["left"] == ["create_contact contacts-1"]
    assert any(one["check"] == "undone by delete_contact" and one["verdict"] == "fails" for one in told["checks"])


def test_a_refusal_that_is_not_clear_is_found_out(terminal: Terminal, service: HttpService) -> None:
    service.script("POST /payments", AS_USUAL, refused(503, "oops"))
    told = json.loads(terminal.type("connectors", "test", "box", "--action", "pay", "--json").out)
    assert ("wrong input refused", "fails") in [(one["check"], one["verdict"]) for one in told["checks"]]


def test_a_connection_that_is_no_sandbox_is_left_alone(terminal: Terminal, service: HttpService) -> None:
    said = terminal.type("connectors", "test", "crm")
    assert said.code == 2
    assert said.err == (
        "amends: crm is not marked as a sandbox, and these checks make and remove things there; write sandbox: true "
        "into its line of connections.yaml, or say --yes-really\n"
    )
    assert service.requests == []
    assert terminal.type("connectors", "test", "crm", "--action", "get_contact", "--yes-really").code == 0


def test_a_connection_that_is_held_is_left_alone(terminal: Terminal, service: HttpService) -> None:
    assert terminal.type("connections", "hold", "box", "--reason", "Their maintenance.").code == 0
    said = terminal.type("connectors", "test", "box")
    assert said.err == "amends: box is held by person:me; release it with `amends connections release box`\n"
    assert service.requests == []


def test_money_is_typed_as_people_write_it(terminal: Terminal, service: HttpService) -> None:
    file = terminal.folder / "connectors" / "crm.yaml"
    file.write_text(CRM.replace("input: { amount: number }", "input: { amount: { money: JPY } }"), encoding="utf-8")
    said = terminal.type("connectors", "try", "crm.pay", "--with", "amount=48,000 JPY", "--yes")
    assert (said.code, json.loads(service.requests[0].body)["amount"]) == (0, {"value": 48000, "currency": "JPY"})
    said = terminal.type("connectors", "try", "crm.pay", "--with", "amount=48000 USD", "--yes")
    assert (said.code, said.err) == (2, "amends: amount: must be in JPY, not in USD (--with)\n")
    assert len(service.requests) == 1
