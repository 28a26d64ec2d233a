"""What tests of the shipped connector files have alike: connections to nowhere or to a scripted service, and answers that a
file reads as a success, made out of the file itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from connectors.declarative import kind_from_text, shipped
from connectors.model import KeyModel
from connectors.rendering import formed
from connectors.service import HTTP_SETTINGS, is_secret
from runner.contract import Action, Connector, ConnectorKind, Outcome, Purpose, optional
from runner.language.types import sample
from tests.connectors.against import READ, STEP, reads_of
from tests.connectors.against import load as read_yaml
from tests.connectors.httpserver import HttpServer, Script, answer, http_server
from tests.connectors.tools import Lent

NAMES = sorted(shipped())
PAPER = b"%PDF-1.7 a page"
KEY = "am_0123456789abcdef0123456789abcdef"
_EQUAL = re.compile(r"response\.json((?:\.\w+|\[\d+\])+) == '(\w+)'")
_AMONG = re.compile(r"response\.json((?:\.\w+|\[\d+\])+) in \['(\w+)'")
_NOT = re.compile(r"not response\.json((?:\.\w+|\[\d+\])+)")
COUNTED = re.compile(r"response\.json((?:\.\w+|\[\d+\])*)(?: \| default\(\[\]\))? \| length")
_NONE = re.compile(r"response\.json((?:\.\w+|\[\d+\])*) \| length == 0")
HEADER = re.compile(r"response\.headers\['([\w-]+)'\]")
_PLAIN = re.compile(r"^(?:\$\{\{ )?response\.json((?:\.\w+|\[\d+\])*) \}\}$")


CONNECTORS = {name: read_yaml(f"connectors/{name}.yaml") for name in NAMES}


@cache
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


async def exchange(
    name: str,
    action: str,
    status: int,
    content: Any,
    purpose: Purpose | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[Outcome, HttpServer]:
    """One call that is answered so."""
    return await scripted(name, action, answer(status, content, **(headers or {})), purpose)


async def scripted(
    name: str, action: str, script: Script, purpose: Purpose | None = None, limit: int = 5_000
) -> tuple[Outcome, HttpServer]:
    """One call to a service that does so with its request."""
    said = kind_of(name).actions()[action]
    async with http_server() as server:
        server.on("*", script)
        connection, why = connect(name, server), purpose or purpose_of(said)
        given = sample({n: said.input[n] for n in said.find_by}) if why == "find" else inputs_of(said)[0]
        request = connection.prepare(action, given, key=KEY, purpose=why)
        outcome = await connection.send(action, request, key=KEY, purpose=why, limit=limit)
        await connection.close()
        return outcome, server


def actions() -> Iterator[tuple[str, str]]:
    """(file, action) of all that are shipped."""
    for name in NAMES:
        for action in kind_of(name).actions():
            yield name, action


ALL = list(actions())
IDS = [".".join(one) for one in ALL]
WRITES = [one for one in ALL if kind_of(one[0]).actions()[one[1]].effect != "read"]


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
    for path in COUNTED.findall(asked):
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


def sent_key(key: Mapping[str, Any], ours: str = KEY) -> str:
    """Our key in the form that the file gives it."""
    return formed(ours, KeyModel.model_validate(key))
