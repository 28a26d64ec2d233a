"""The rules of a connector file beyond its shape: what does not hold together does not load. Each rule registers
itself.

A rule gets one action and yields problems with their place. All problems of a file come at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from connectors.auth import faults as auth_faults
from connectors.auth import is_header_name, named_values
from connectors.model import METHODS, ActionModel, ConnectorModel, FindModel, LookupModel, RequestModel
from connectors.rendering import lone_name
from connectors.service import HTTP_SETTINGS
from runner.contract import Json, missing, optional
from runner.errors import Problem
from runner.language.expressions import faults, names
from runner.language.fitting import value_at
from runner.language.markers import Marker, pieces
from runner.language.nearest import did_you_mean
from runner.language.source import Path, Source, problem_at
from runner.language.types import field_type

RESPONSE = ("status", "headers", "json", "text")
CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie", "host", "content-length", "connection"})
_CLOCK = re.compile(r"\b(now|today)\s*\(")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """One action of a file that is being checked."""

    source: Source
    connector: ConnectorModel
    name: str
    action: ActionModel

    @property
    def path(self) -> Path:
        return ("actions", self.name)

    def problem(self, code: str, path: Path, what: str, hint: str = "", on_key: bool = False) -> Problem:
        """A problem below this action."""
        return self.source.problem(code, (*self.path, *path), what, hint, on="key" if on_key else "value")


Rule = Callable[[Subject], Iterator[Problem]]
RULES: list[Rule] = []


def rule(check: Rule) -> Rule:
    """Registers a rule."""
    RULES.append(check)
    return check


def check_connector(source: Source, model: ConnectorModel, broken: frozenset[str]) -> Iterator[Problem]:
    """Everything that does not hold together in a connector file. `broken` are actions whose shape has a problem
    already: what else could be said of them would be a guess."""
    auth = model.auth or {}
    for what in auth_faults(auth) if auth else ():
        yield source.problem("FL006", ("auth",), what)
    for name, kind in (model.settings or {}).items():
        yield from _type_problems(source, ("settings", name), name, kind)
    for name, action in model.actions.items():
        if name in broken:
            continue
        subject = Subject(source=source, connector=model, name=name, action=action)
        for check in RULES:
            yield from check(subject)


def known_settings(model: ConnectorModel) -> dict[str, Json]:
    """The settings a connection to this connector may have: name to type."""
    found: dict[str, Json] = dict(HTTP_SETTINGS)
    if not model.origin:
        found["origin"] = "text"
    auth = model.auth or {}
    for name in named_values(auth) if auth and not auth_faults(auth) else ():
        found[name] = "secret"
    found.update(model.settings or {})
    return found


# --- what kind of action -------------------------------------------------------------------------------------------


@rule
def _says_its_effect(at: Subject) -> Iterator[Problem]:
    action = at.action
    if action.reads and action.writes:
        yield at.problem("FL006", ("writes",), f"{at.name} reads and writes; it can be one of them", on_key=True)
    if not action.reads and not action.writes:
        yield at.problem(
            "FL005",
            (),
            f"{at.name} does not say what it does",
            "reads: true, or writes: keyed | lookup | once",
            on_key=True,
        )
    for word in ("key", "lookup", "find", "undo", "cannot_undo") if action.reads else ():
        if getattr(action, word) is not None:
            yield at.problem("FL006", (word,), f'a reading action has no "{word}"', on_key=True)


@rule
def _key_is_whole(at: Subject) -> Iterator[Problem]:
    key, writes = at.action.key, at.action.writes
    if writes == "keyed" and key is None:
        hint = "key: { header: Idempotency-Key, life: 24 hours }"
        yield at.problem("FL005", (), f"{at.name} is keyed and does not say where the key goes", hint, on_key=True)
    if key is None:
        return
    if writes == "once":
        yield at.problem("FL006", ("key",), "an action of class once has no key; is it keyed?", on_key=True)
    carriers = [word for word in ("header", "field", "query") if getattr(key, word) is not None]
    if len(carriers) != 1:
        yield at.problem("FL006", ("key",), "the key goes into one place: header, field or query", on_key=True)
    if writes == "keyed" and key.life is None:
        yield at.problem(
            "FL005", ("key",), "key does not say how long the service remembers it", "life: 24 hours", on_key=True
        )
    if key.header is not None and (not is_header_name(key.header) or key.header.lower() in CREDENTIALS):
        yield at.problem("FL006", ("key", "header"), f'"{key.header}" cannot be the header of a key')
    body = at.action.request.json_
    if key.field is not None and at.action.request.form is None and body is not None and not isinstance(body, dict):
        yield at.problem("FL006", ("key", "field"), "the body is not a map, so it has no field for the key")


@rule
def _lookup_is_whole(at: Subject) -> Iterator[Problem]:
    action = at.action
    if action.writes == "lookup" and action.lookup is None:
        yield at.problem("FL005", (), f"{at.name} is of class lookup and has no lookup", on_key=True)
    if action.writes == "lookup" and not _sends_key(action):
        what = f"{at.name} does not send our key, so nobody can be asked by it"
        yield at.problem("FL006", ("request",), what, "put ${{ key }} into the request", on_key=True)
    if action.lookup is not None:
        if "key" not in set(_roots(action.lookup.request)):
            yield at.problem(
                "FL006", ("lookup", "request"), "the lookup does not ask by our key", "${{ key }}", on_key=True
            )
        yield from _yields_the_same(at, "lookup", action.lookup)
    if action.find is not None:
        yield from _yields_the_same(at, "find", action.find)


def _yields_the_same(at: Subject, word: str, block: LookupModel | FindModel) -> Iterator[Problem]:
    declared, given = at.action.output or {}, block.output or {}
    for name in missing(declared, list(given)):
        what = f'{word} does not yield "{name}", which {at.name} does'
        yield at.problem("FL005", (word,), what, f"add it under {word}: output:", on_key=True)
    for name in given:
        if name not in declared:
            what = f'{word} yields "{name}", which is not in the output of {at.name}'
            yield at.problem("FL003", (word, "output", name), what, did_you_mean(name, declared), on_key=True)
    if at.action.external_id is not None and block.external_id is None:
        what = f"{word} does not yield the outside id, which {at.name} does"
        yield at.problem("FL005", (word,), what, f"add external_id: under {word}", on_key=True)


def _sends_key(action: ActionModel) -> bool:
    key = action.key
    carried = key is not None and any((key.header, key.field, key.query))
    return carried or "key" in set(_roots(action.request))


@rule
def _undo_is_there(at: Subject) -> Iterator[Problem]:
    undo = at.action.undo
    if undo is None:
        return
    if at.action.cannot_undo is not None:
        yield at.problem("FL006", ("cannot_undo",), f"{at.name} has an undo, and says that it has none", on_key=True)
    other = at.connector.actions.get(undo.action)
    written = value_at(at.source.data, ("actions",))
    if other is None:
        if isinstance(written, dict) and undo.action in written:
            return
        hint = did_you_mean(undo.action, at.connector.actions)
        yield at.problem("FL208", ("undo", "action"), f'there is no action "{undo.action}"', hint)
        return
    if other.reads:
        yield at.problem("FL201", ("undo", "action"), f'"{undo.action}" only reads, so it takes nothing back')
    fields, given = other.input or {}, undo.with_ or {}
    for name in given:
        if name not in fields:
            what = f'"{undo.action}" has no field "{name}"'
            yield at.problem("FL208", ("undo", "with", name), what, did_you_mean(name, fields), on_key=True)
    for name in missing(fields, list(given)):
        yield at.problem("FL208", ("undo",), f'"{undo.action}" needs the field "{name}"', on_key=True)


# --- requests ------------------------------------------------------------------------------------------------------


@rule
def _requests_are_whole(at: Subject) -> Iterator[Problem]:
    for path, request in _requests(at.action):
        methods = [word for word in METHODS if getattr(request, word) is not None]
        if len(methods) != 1:
            what = "a request has one method" + (f", and here are {' and '.join(methods)}" if methods else "")
            yield at.problem("FL005", path, what, ", ".join(METHODS), on_key=True)
            continue
        template = getattr(request, methods[0])
        if not template.startswith("/"):
            hint = "the origin stands before it"
            yield at.problem("FL006", (*path, methods[0]), f'"{template}" must begin with "/"', hint)
        if request.json_ is not None and request.form is not None:
            yield at.problem("FL006", (*path, "form"), "a request has one body: json or form", on_key=True)
        if methods[0] == "get" and (request.json_ is not None or request.form is not None):
            yield at.problem("FL006", path, "a get has no body; use query", on_key=True)
        if path != ("request",) and methods[0] in ("put", "patch", "delete"):
            yield at.problem(
                "FL201", path, f"a {path[0]} asks and changes nothing; it cannot be a {methods[0]}", on_key=True
            )
        for name in request.headers or {}:
            if not is_header_name(name):
                yield at.problem(
                    "FL006", (*path, "headers", name), f'"{name}" cannot be the name of a header', on_key=True
                )
            elif name.lower() in CREDENTIALS:
                what = f'the header "{name}" is not written here'
                yield at.problem("FL401", (*path, "headers", name), what, "credentials belong in auth", on_key=True)


def _requests(action: ActionModel) -> Iterator[tuple[Path, RequestModel]]:
    yield ("request",), action.request
    if action.lookup is not None:
        yield ("lookup", "request"), action.lookup.request
    if action.find is not None:
        yield ("find", "request"), action.find.request


def _roots(request: RequestModel) -> Iterator[str]:
    data = request.model_dump(by_alias=True, exclude_none=True)
    for _, text in _texts(data, ()):
        yield from (use.path[0] for use in names(text) if use.path)


def _texts(value: Json, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index))


# --- types ---------------------------------------------------------------------------------------------------------


@rule
def _fields_have_types(at: Subject) -> Iterator[Problem]:
    for word in ("input", "output"):
        for name, kind in (getattr(at.action, word) or {}).items():
            yield from _type_problems(at.source, (*at.path, word, name), name, kind)
    declared = at.action.output or {}
    for name in at.action.result or {}:
        if name not in declared:
            what = f'result has "{name}", which is not in the output of {at.name}'
            yield at.problem("FL003", ("result", name), what, did_you_mean(name, declared), on_key=True)
    sample = at.action.sample
    if sample is not None:
        for name in missing(declared, list(sample)):
            yield at.problem("FL005", ("sample",), f'the sample has no "{name}"', on_key=True)
        for name in sample:
            if name not in declared:
                what = f'the sample has "{name}", which is not in the output of {at.name}'
                yield at.problem("FL003", ("sample", name), what, did_you_mean(name, declared), on_key=True)


def _type_problems(source: Source, path: Path, name: str, kind: Json) -> Iterator[Problem]:
    try:
        field_type(kind)
    except ValueError as error:
        yield source.problem("FL006", path, f"{name}: {error}")


# --- expressions ---------------------------------------------------------------------------------------------------


@rule
def _expressions_are_in_the_language(at: Subject) -> Iterator[Problem]:
    data = at.action.model_dump(by_alias=True, exclude_none=True)
    for path, text in _texts(data, ()):
        if path[0] in ("title", "input", "output", "sample", "cannot_undo"):
            continue
        full = (*at.path, *path)
        for fault in faults(text):
            place = at.source.inside(full, fault.offset, fault.length)
            yield problem_at(at.source.file, place, "FL007", fault.what, fault.hint)
        yield from _clock_problems(at, full, text)
        yield from _name_problems(at, path, text)
        yield from _missing_problems(at, path, text)
        if path[-1] in ("success", "when", "count") and not _is_one_marker(text):
            what = f'"{path[-1]}" must be one expression'
            yield at.source.problem("FL103", full, what, f"{path[-1]}: ${{{{ {text.strip()[:60]} }}}}")


def _clock_problems(at: Subject, full: Path, text: str) -> Iterator[Problem]:
    for part in pieces(text):
        if isinstance(part, Marker) and (found := _CLOCK.search(_QUOTED.sub(lambda m: " " * len(m[0]), part.source))):
            place = at.source.inside(full, part.start + found.start(), len(found[1]))
            what = f"a connector has no clock, so {found[1]}() cannot stand here"
            yield problem_at(at.source.file, place, "FL007", what, "let the flow give the time as an input")


def _is_one_marker(text: str) -> bool:
    parts = pieces(text.strip())
    return len(parts) == 1 and isinstance(parts[0], Marker)


def _name_problems(at: Subject, path: Path, text: str) -> Iterator[Problem]:
    reach = _reach(at, path)
    for use in names(text):
        place = at.source.inside((*at.path, *path), use.offset, use.length)
        root = use.path[0]
        if root not in reach:
            what = f'there is no "{root}" here'
            yield problem_at(at.source.file, place, "FL101", what, did_you_mean(root, reach, "in reach"))
            continue
        known = reach[root]
        if known is not None and len(use.path) > 1 and use.path[1] not in known:
            what = f'there is no {root} "{use.path[1]}"'
            yield problem_at(at.source.file, place, "FL101", what, did_you_mean(use.path[1], known, f"{root} has"))


def _missing_problems(at: Subject, path: Path, text: str) -> Iterator[Problem]:
    """An optional field inside a text or an undo would have no value there; alone in a request it is left out."""
    if path[-1] == "say" or (set(path) & {"query", "json", "form", "headers"} and lone_name(text)):
        return
    optionals = {name for name, kind in (at.action.input or {}).items() if optional(kind)}
    for use in names(text):
        if (
            path[0] != "find"
            and use.path[0] == "input"
            and not use.guarded
            and use.path[1:2]
            and use.path[1] in optionals
        ):
            place = at.source.inside((*at.path, *path), use.offset, use.length)
            what = f'"{use.path[1]}" may be empty, and then there is no value here'
            hint = f"write {'.'.join(use.path)} | default(…), or make the field required"
            yield problem_at(at.source.file, place, "FL102", what, hint)


def _reach(at: Subject, path: Path) -> dict[str, tuple[str, ...] | None]:
    """The names in reach at this place, with what each has; None where that is not known."""
    fields: tuple[str, ...] = tuple(at.action.input or {})
    if path[0] == "find":
        fields = tuple(at.action.find.by) if at.action.find is not None else ()
    if path[0] == "undo":
        return {"input": fields, "output": tuple(at.action.output or {})}
    connection = tuple(name for name, kind in known_settings(at.connector).items() if kind != "secret")
    reach: dict[str, tuple[str, ...] | None] = {"input": fields, "connection": connection, "key": None}
    if "request" not in path:
        reach["response"] = RESPONSE
    return reach
