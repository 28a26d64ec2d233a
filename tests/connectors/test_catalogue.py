"""Every connector file that is shipped, by tests made out of the file itself, against a scripted service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import pytest

from connectors.declarative import shipped
from connectors.rendering import answered
from runner.contract import Outcome, canonical
from runner.language.types import sample
from tests.connectors.catalogue import (
    ALL,
    CONNECTORS,
    COUNTED,
    HEADER,
    IDS,
    KEY,
    NAMES,
    WRITES,
    connect,
    exchange,
    inputs_of,
    kind_of,
    purpose_of,
    put,
    secrets_of,
    sent_key,
    success_of,
)
from tests.connectors.httpserver import HttpServer
from tests.connectors.shapes import SHAPES
from tests.connectors.tables import PROOFS, marked

_SENTENCE = re.compile(r"[A-Z].*[A-Za-z0-9)]\.", re.DOTALL)


WITH_LOOKUP = [one for one in ALL if kind_of(one[0]).actions()[one[1]].has_lookup]
WITH_FIND = [one for one in ALL if kind_of(one[0]).actions()[one[1]].find_by]


# --- the file itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_file_names_its_pages_and_its_proof(name: str) -> None:
    told = marked(shipped()[name])
    assert told.pages
    assert all(page.startswith("https://") for page in told.pages)
    assert told.proof.startswith(tuple(PROOFS))


@pytest.mark.parametrize(("name", "action"), ALL, ids=IDS)
def test_an_action_says_what_it_does_and_how_it_is_made_good(name: str, action: str) -> None:
    said = kind_of(name).actions()[action]
    assert _SENTENCE.fullmatch(said.title), said.title
    if said.effect == "read":
        return
    assert (said.undo is None) != (said.cannot_undo == "")
    assert said.undo is not None or _SENTENCE.fullmatch(said.cannot_undo), said.cannot_undo
    if said.has_lookup:
        assert said.lookup_delay > 0


@pytest.mark.parametrize(("name", "action"), ALL, ids=IDS)
def test_an_undo_can_be_made_out_of_what_the_action_had(name: str, action: str) -> None:
    said = kind_of(name).actions()[action]
    if said.undo is None:
        return
    for given in inputs_of(said):
        scope = {"input": {**dict.fromkeys(said.input), **given}, "output": sample(said.output)}
        taken = {field: answered(value, scope) for field, value in said.undo.with_.items()}
        request = connect(name).prepare(said.undo.action, taken, key="am_undo", purpose="undo")
        assert request.body["method"] != "GET"


@pytest.mark.parametrize(("name", "action"), WRITES)
def test_a_draft_can_be_made_out_of_what_the_action_had(name: str, action: str) -> None:
    said = kind_of(name).actions()[action]
    if said.draft is None:
        return
    for given in inputs_of(said):
        scope = {"input": {**dict.fromkeys(said.input), **given}}
        fields = kind_of(name).actions()[said.draft.action].input
        taken = {field: answered(value, scope) for field, value in said.draft.with_.items()}
        taken = {field: value for field, value in given.items() if field in fields} | taken
        connect(name).prepare(said.draft.action, taken, key="am_draft", purpose="do")
    assert kind_of(name).actions()[said.draft.action].undo is not None


# --- requests ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "action"), ALL, ids=IDS)
def test_a_request_is_the_same_each_time_and_holds_no_secret(name: str, action: str) -> None:
    said, connection = kind_of(name).actions()[action], connect(name)
    for given in inputs_of(said):
        request = connection.prepare(action, given, key=KEY, purpose=purpose_of(said))
        assert request == connection.prepare(action, given, key=KEY, purpose=purpose_of(said))
        text = canonical(dict(request.body)).decode()
        assert not any(secret in text for secret in secrets_of(kind_of(name)).values())


@pytest.mark.parametrize(("name", "action"), [one for one in ALL if kind_of(one[0]).actions()[one[1]].find_by])
def test_a_find_can_be_asked_by_its_fields(name: str, action: str) -> None:
    said = kind_of(name).actions()[action]
    given = sample({field: said.input[field] for field in said.find_by})
    assert connect(name).prepare(action, given, key=KEY, purpose="find").body["method"] in ("GET", "POST")


def text_of(name: str, action: str, given: Mapping[str, Any], purpose: Any, key: str = KEY) -> str:
    """Everything of a prepared request, as one text without percent-encoding."""
    body = connect(name).prepare(action, given, key=key, purpose=purpose).body
    return unquote(canonical({**body, "headers": body["headers"]}).decode()).replace('\\"', '"')


@pytest.mark.parametrize(("name", "action"), WITH_LOOKUP)
def test_a_look_up_asks_for_just_what_the_action_sent(name: str, action: str) -> None:
    key = CONNECTORS[name]["actions"][action].get("key") or {}
    mine, other = sent_key(key), sent_key(key, KEY[::-1])
    for given in inputs_of(kind_of(name).actions()[action]):
        assert "header" in key or mine in text_of(name, action, given, "do")
        asked, asked_else = (text_of(name, action, given, "lookup", one) for one in (KEY, KEY[::-1]))
        assert mine in asked
        assert other not in asked
        assert other in asked_else


@pytest.mark.parametrize(("name", "action"), WRITES)
def test_an_undo_names_what_the_action_made(name: str, action: str) -> None:
    """Each value that the undo takes from the answer or the input is in its request, so it is about this very thing."""
    said = kind_of(name).actions()[action]
    if said.undo is None:
        return
    given = {n: f"in_{n}" if v == f"draft {n}" else v for n, v in inputs_of(said)[0].items()}
    made = {n: f"out_{n}" if v == f"draft {n}" else v for n, v in sample(said.output).items()}
    taken = {
        n: answered(v, {"input": {**dict.fromkeys(said.input), **given}, "output": made})
        for n, v in said.undo.with_.items()
    }
    assert taken
    text = text_of(name, said.undo.action, {n: v for n, v in taken.items() if v is not None}, "undo")
    marks = [str(one) for one in taken.values() if isinstance(one, str) and one.startswith(("in_", "out_"))]
    assert all(mark in text for mark in marks), (marks, text)
    if said.output and any("output" in str(value) for value in said.undo.with_.values()):
        assert any(mark.startswith("out_") for mark in marks) or any(isinstance(v, int) for v in taken.values())


# --- answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "action"), ALL, ids=IDS)
async def test_a_success_is_read_with_its_fields_and_its_outside_id(name: str, action: str) -> None:
    written, said = CONNECTORS[name]["actions"][action], kind_of(name).actions()[action]
    if said.effect == "read" and "pages" in written:
        return  # a page that is answered for ever has no end; pages are tested beside their language
    status, content = success_of(name, action)
    headers = {
        header: f"{header}_1" for header in HEADER.findall(f"{written.get('result')} {written.get('external_id')}")
    }
    outcome, server = await exchange(name, action, status, content, headers=headers)
    assert outcome.result == "applied", (outcome, content)
    assert set(outcome.output) == set(said.output)
    assert ("external_id" in written) == (outcome.external_id != "")
    _check_secrets(name, outcome, server)
    if said.effect == "keyed":
        _check_key(written["key"], server)


def _check_secrets(name: str, outcome: Outcome, server: HttpServer) -> None:
    """The service gets what proves who we are; nobody else does."""
    sent = "\n".join(f"{unquote(got.target)} {got.headers}" for got in server.got)
    kept = secrets_of(kind_of(name))
    basic = "authorization" in server.got[0].headers and "Basic" in server.got[0].headers["authorization"]
    assert basic or any(secret in sent for secret in kept.values())
    assert not any(secret in f"{outcome}" for secret in kept.values())


def _check_key(key: Mapping[str, Any], server: HttpServer) -> None:
    got = server.got[0]
    if "header" in key:
        sent = got.headers[key["header"].lower()]
    elif "query" in key:
        sent = got.query[key["query"]]
    else:
        sent = got.json()[key["field"]]
    assert sent == sent_key(key)


@pytest.mark.parametrize(("name", "action"), WITH_LOOKUP)
async def test_a_look_up_asks_by_our_key_and_yields_what_the_action_did(name: str, action: str) -> None:
    status, content = success_of(name, action, "lookup")
    outcome, server = await exchange(name, action, status, content, "lookup")
    assert (outcome.result, outcome.count) == ("applied", 1), (outcome, content)
    assert outcome.external_id
    assert (
        sent_key(CONNECTORS[name]["actions"][action].get("key") or {})
        in unquote(server.got[0].target) + server.got[0].body.decode()
    )
    assert set(outcome.output) == set(kind_of(name).actions()[action].output)


@pytest.mark.parametrize(
    ("name", "action", "word"), [(*one, "lookup") for one in WITH_LOOKUP] + [(*one, "find") for one in WITH_FIND]
)
async def test_nothing_found_and_too_much_found(name: str, action: str, word: Any) -> None:
    count = str(CONNECTORS[name]["actions"][action][word]["count"])
    if "response.status" in count:
        assert (await exchange(name, action, 404, {"message": "not there"}, word))[0].count == 0
        return
    path = COUNTED.search(count)
    assert path is not None
    for many in (0, 2):
        outcome, _ = await exchange(name, action, 200, put(None, path[1], [{}] * many), word)
        assert (outcome.result, outcome.count) == ("applied", many)
    assert (await exchange(name, action, 404, {"message": "no such table"}, word))[0].count is None


@pytest.mark.parametrize(("name", "action"), WITH_FIND)
async def test_a_find_yields_what_the_action_did(name: str, action: str) -> None:
    status, content = success_of(name, action, "find")
    outcome, _ = await exchange(name, action, status, content, "find")
    assert (outcome.result, outcome.count, bool(outcome.external_id)) == ("applied", 1, True)


# --- answers that are no success -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
async def test_a_service_that_has_no_time_is_waited_for_and_one_that_breaks_is_believed_nothing(name: str) -> None:
    for action, said in kind_of(name).actions().items():
        late, _ = await exchange(name, action, 429, {"message": "slow down"}, headers={"Retry_After": "7"})
        assert (late.result, late.reason, late.retry_after) == ("refused", "rate_limited", 7_000), action
        broken, _ = await exchange(name, action, 503, {"message": "oh"})
        assert broken.result == "unknown" or said.effect == "read", action


def parted(content: Any) -> tuple[Any, dict[str, str]]:
    """The body and the headers of an example."""
    if not isinstance(content, dict):
        return content, {}
    return {name: value for name, value in content.items() if name != "headers"}, content.get("headers") or {}


SAID = [(name, *shape) for name in NAMES for shape in SHAPES.get(name, ())]


@pytest.mark.parametrize(("name", "action", "status", "content", "word"), SAID)
async def test_what_the_vendor_says_means_what_the_file_says(
    name: str, action: str, status: int, content: Any, word: str
) -> None:
    content, headers = parted(content)
    outcome, _ = await exchange(name, action, status, content, headers=headers)
    if word in ("not found", "done"):
        assert outcome.result == "applied"
        assert outcome.output.get("found") is (False if word == "not found" else None)
        return
    is_open = word in ("in_progress", "already_there", "unknown", "conflict?", "redirect?", "unreadable?")
    assert (outcome.result, outcome.reason) == ("unknown" if is_open else "refused", word.rstrip("?"))
    assert is_open or not outcome.summary.startswith("127.0.0.1 answered")


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_failures_has_its_example(name: str) -> None:
    written = CONNECTORS[name]
    lines = {line["when"]: line for line in written.get("failures") or ()}
    for action in written["actions"].values():
        lines |= {line["when"]: line for line in action.get("failures") or ()}
    met = set()
    for _, status, content, _ in SHAPES.get(name, ()):
        body, said = parted(content)
        headers = {header.lower().replace("_", "-"): value for header, value in said.items()}
        response = {"status": status, "json": body, "headers": headers, "text": ""}
        scope = {"response": response, "key": KEY, "connection": {}, "input": {}}
        met |= {when for when in lines if _holds(when, scope)}
    assert met == set(lines)


def _holds(when: str, scope: Mapping[str, Any]) -> bool:
    try:
        return answered(when, scope) is True
    except Exception:  # noqa: BLE001 (a line about another shape of answer)
        return False
