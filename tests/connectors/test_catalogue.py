"""Every connector file that is shipped, by tests made out of the file itself, against a scripted service."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

import pytest

from connectors.declarative import kind_from_text, shipped
from connectors.model import KeyModel
from connectors.rendering import answered, formed
from connectors.service import HTTP_SETTINGS, is_secret
from runner.contract import Action, Connector, ConnectorKind, Outcome, Purpose, canonical, optional
from runner.language.types import sample
from tests.connectors.against import READ, STEP, reads_of
from tests.connectors.against import load as read_yaml
from tests.connectors.httpserver import HttpServer, answer, http_server
from tests.connectors.shapes import SHAPES
from tests.connectors.tables import marked
from tests.connectors.tools import Lent

NAMES = sorted(shipped())
PAPER = b"%PDF-1.7 a page"
KEY = "am_0123456789abcdef0123456789abcdef"
_SENTENCE = re.compile(r"[A-Z].*[A-Za-z0-9)]\.", re.DOTALL)
_EQUAL = re.compile(r"response\.json((?:\.\w+|\[\d+\])+) == '(\w+)'")
_AMONG = re.compile(r"response\.json((?:\.\w+|\[\d+\])+) in \['(\w+)'")
_NOT = re.compile(r"not response\.json((?:\.\w+|\[\d+\])+)")
_COUNTED = re.compile(r"response\.json((?:\.\w+|\[\d+\])*)(?: \| default\(\[\]\))? \| length")
_NONE = re.compile(r"response\.json((?:\.\w+|\[\d+\])*) \| length == 0")
_HEADER = re.compile(r"response\.headers\['([\w-]+)'\]")
_PLAIN = re.compile(r"^(?:\$\{\{ )?response\.json((?:\.\w+|\[\d+\])*) \}\}$")


def kind_of(name: str) -> ConnectorKind:
    """The kind of a file. Where a token is fetched first (`test_oauth.py`), it stands here as a bearer token."""
    text = re.sub(
        r"\nauth:(?: \{ oauth2:.*|\n  (?:oauth2|login):(?:\n    .*)*)", "\nauth: { bearer: token }", shipped()[name]
    )
    kind, problems = kind_from_text(text, f"connectors/{name}.yaml")
    assert problems == ()
    assert kind is not None
    return kind


def secrets_of(kind: ConnectorKind) -> dict[str, str]:
    own = {name: said for name, said in kind.settings().items() if name not in HTTP_SETTINGS}
    return {name: f"s3cret-{name}-x9" for name, said in own.items() if is_secret(said)}


def connect(name: str, server: HttpServer | None = None) -> Connector:
    """A connection with everything that its file knows, to the scripted service or to nowhere."""
    kind, secrets = kind_of(name), secrets_of(kind_of(name))
    line: dict[str, Any] = {setting: {"secret": setting.upper()} for setting in secrets}
    line |= sample({n: said for n, said in kind.settings().items() if n not in secrets and n not in HTTP_SETTINGS})
    line |= {"origin": server.origin, "allow_private": True} if server else {"origin": "https://service.example.test"}
    lent = Lent(**{setting.upper(): value for setting, value in secrets.items()})
    lent.keep(PAPER)
    return kind.connect(name, line, lent)


def inputs_of(action: Action) -> list[dict[str, Any]]:
    """All fields given, and only those that must be. A file is one that is kept."""
    made = json.dumps(sample(action.input)).replace(
        sample({"file": "file"})["file"]["sha256"], sha256(PAPER).hexdigest()
    )
    given = json.loads(made)
    return [given, {name: value for name, value in given.items() if not optional(action.input[name])}]


def purpose_of(action: Action) -> Purpose:
    return "read" if action.effect == "read" else "do"


def actions() -> Iterator[tuple[str, str]]:
    for name in NAMES:
        for action in kind_of(name).actions():
            yield name, action


ALL = list(actions())
IDS = [".".join(one) for one in ALL]


# --- the file itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_file_names_its_pages_and_its_proof(name: str) -> None:
    told = marked(shipped()[name])
    assert told.pages
    assert all(page.startswith("https://") for page in told.pages)
    assert told.proof.startswith(("run against ", "compared with ", "documentation only"))


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


# --- answers -------------------------------------------------------------------------------------------------------


async def exchange(
    name: str,
    action: str,
    status: int,
    content: Any,
    purpose: Purpose | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[Outcome, HttpServer]:
    """One call that is answered so."""
    said = kind_of(name).actions()[action]
    async with http_server() as server:
        server.on("*", answer(status, content, **(headers or {})))
        connection, why = connect(name, server), purpose or purpose_of(said)
        given = sample({n: said.input[n] for n in said.find_by}) if why == "find" else inputs_of(said)[0]
        request = connection.prepare(action, given, key=KEY, purpose=why)
        outcome = await connection.send(action, request, key=KEY, purpose=why, limit=5_000)
        await connection.close()
        return outcome, server


def put(content: Any, path: str, value: Any) -> Any:
    """The content with a value at a path like `.data[0].id`; what is there already is kept below it."""
    step = STEP.match(path)
    if step is None:
        return value if content is None or value is not None else content
    rest, (name, index, quoted) = path[step.end() :], step.groups()
    if index:
        items = list(content or [])
        items += [None] * (int(index) + 1 - len(items))
        items[int(index)] = put(items[int(index)], rest, value)
        return items
    found: dict[str, Any] = dict(content) if isinstance(content, Mapping) else {}
    found[name or quoted] = put(found.get(name or quoted), rest, value)
    return found


def success_of(name: str, action: str, word: str = "") -> tuple[int, Any]:
    """(status, content) of an answer that the file reads as a success: every path it reads holds something fitting."""
    written = CONNECTORS[name]["actions"][action]
    block = written if not word else written[word]
    outputs = written.get("output") or {}
    sources = {**((block.get("output") if word else written.get("result")) or {})}
    asked = str(block.get("success", "")) + str(block.get("count", ""))
    said = re.search(r"response\.status == (2\d\d)", asked)
    if said and said[1] == "204":
        return 204, None
    content: Any = None
    for path in _COUNTED.findall(asked):
        content = put(content, path, [] if path in _NONE.findall(asked) else [{}])
    for path in reads_of({}, block, sources):
        content = put(content, path, None)
    for path in READ.findall(str(block.get("external_id", ""))):
        content = put(content, path, "id_1")
    values = sample(outputs)
    for field in outputs:
        paths = READ.findall(str(sources[field])) if field in sources else [f".{field}"]
        for path in filter(None, paths):
            content = put(content, path, values[field])
    for path, value in (*_EQUAL.findall(asked), *_AMONG.findall(asked)):
        content = put(content, path, value)
    plain, refused = _PLAIN.match(asked), _NOT.search(asked)
    for found, is_true in ((plain, True), (refused, False)):
        content = put(content, found[1], is_true) if found else content
    return int(said[1]) if said else 200, {} if content is None else content


CONNECTORS = {name: read_yaml(f"connectors/{name}.yaml") for name in NAMES}


@pytest.mark.parametrize(("name", "action"), ALL, ids=IDS)
async def test_a_success_is_read_with_its_fields_and_its_outside_id(name: str, action: str) -> None:
    written, said = CONNECTORS[name]["actions"][action], kind_of(name).actions()[action]
    if said.effect == "read" and "pages" in written:
        return  # a page that is answered for ever has no end; pages are tested beside their language
    status, content = success_of(name, action)
    headers = {
        header: f"{header}_1" for header in _HEADER.findall(f"{written.get('result')} {written.get('external_id')}")
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


def sent_key(key: Mapping[str, Any]) -> str:
    """Our key in the form that the file gives it."""
    return formed(KEY, KeyModel.model_validate(key))


def _check_key(key: Mapping[str, Any], server: HttpServer) -> None:
    got = server.got[0]
    if "header" in key:
        sent = got.headers[key["header"].lower()]
    elif "query" in key:
        sent = got.query[key["query"]]
    else:
        sent = got.json()[key["field"]]
    assert sent == sent_key(key)


WITH_LOOKUP = [one for one in ALL if kind_of(one[0]).actions()[one[1]].has_lookup]
WITH_FIND = [one for one in ALL if kind_of(one[0]).actions()[one[1]].find_by]


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
    path = _COUNTED.search(count)
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
