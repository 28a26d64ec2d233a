"""The rules of a connector file beyond its shape: what does not hold together does not load. Each rule registers
itself.

A rule gets one action and yields problems with their place. All problems of a file come at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from connectors import companions
from connectors.auth import faults as auth_faults
from connectors.auth import is_header_name, named_values
from connectors.letter import MAIL_FIELDS
from connectors.model import METHODS, ActionModel, ConnectorModel, RequestModel, RowsModel
from connectors.paging import PAGING, ways
from connectors.rendering import lone_name
from connectors.service import HTTP_SETTINGS, is_secret
from connectors.subject import RULES, Subject, rule
from runner.contract import Json, missing, optional
from runner.errors import Problem
from runner.language.expressions import faults, markers, names
from runner.language.markers import pieces
from runner.language.nearest import did_you_mean
from runner.language.source import Path, Source
from runner.language.types import field_type

RESPONSE = ("status", "headers", "json", "text")
CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie", "host", "content-length", "connection"})
_CLOCK = re.compile(r"\b(now|today)\s*\(")
_BODIES = ("json_", "form", "multipart", "mail")
_PARTS = frozenset({"query", "json", "form", "multipart", "mail", "headers"})
_EXPRESSIONS = frozenset(
    [("pages", word) for word in ("cursor", "link", "last", "seen_by")]
    + [("rows", word) for word in ("answer", "match", "status")]
)
_FIELD = re.compile(r'"(\w+)":')
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


ROOMS = (companions,)
"""Further rules, which register themselves."""


def check_connector(source: Source, model: ConnectorModel, broken: frozenset[str]) -> Iterator[Problem]:
    """Everything that does not hold together in a connector file. `broken` are actions whose shape has a problem
    already: what else could be said of them would be a guess."""
    auth = model.auth or {}
    for what in auth_faults(auth) if auth else ():
        yield source.problem("FL006", ("auth",), what)
    yield from _personal_problems(source, model)
    for name, kind in (model.settings or {}).items():
        yield from _type_problems(source, ("settings", name), name, kind)
    yield from _everywhere_problems(source, model)
    for name, action in model.actions.items():
        if name in broken:
            continue
        subject = Subject(source=source, connector=model, name=name, action=action)
        for check in RULES:
            yield from check(subject)


def _everywhere_problems(source: Source, model: ConnectorModel) -> Iterator[Problem]:
    """What is said for all actions: `auth`, headers, and answers that are no success. Secrets are not in reach."""
    connection = tuple(name for name, kind in known_settings(model).items() if not is_secret(kind))
    failures = [line.model_dump(by_alias=True) for line in model.failures or ()]
    for name in model.headers or {}:
        if not is_header_name(name) or name.lower() in CREDENTIALS:
            yield source.problem("FL401", ("headers", name), f'the header "{name}" is not written here', on="key")
    for path, text in _texts({"auth": model.auth or {}, "headers": model.headers or {}, "failures": failures}, ()):
        if path[-1] == "when" and not len(pieces(text.strip())) == len(markers(text)) == 1:
            yield source.problem("FL103", path, '"when" must be one expression')
        reach = {"connection": connection} | _further_reach(path)
        for fault in faults(text):
            yield source.problem("FL007", path, fault.what, fault.hint)
        for use in names(text):
            known = reach.get(use.path[0])
            if use.path[0] not in reach or (known is not None and use.path[1:2] and use.path[1] not in known):
                hint = f"in reach: {', '.join(reach)}"
                yield source.problem("FL101", path, f'there is no "{".".join(use.path)}" here', hint)


def _further_reach(path: tuple[str | int, ...]) -> dict[str, tuple[str, ...] | None]:
    """What else may be named in what is said for all actions."""
    if path[0] == "failures":
        return {"key": None, "response": RESPONSE}
    if path[:2] != ("auth", "login"):
        return {}
    reach: dict[str | int, dict[str, tuple[str, ...] | None]] = {
        "json": {"user": None, "password": None},
        "token": {"user": None, "response": RESPONSE},
    }
    return next((reach[word] for word in path[2:3] if word in reach), {})


def _personal_problems(source: Source, model: ConnectorModel) -> Iterator[Problem]:
    written = json.dumps([[action.input, action.output] for action in model.actions.values()])
    fields = sorted(set(_FIELD.findall(written)))
    for number, name in enumerate(model.personal or ()):
        if name not in fields:
            what, hint = f'no action has a field "{name}"', did_you_mean(name, fields)
            yield source.problem("FL003", ("personal", number), what, hint)


def known_settings(model: ConnectorModel) -> dict[str, Json]:
    """The settings a connection to this connector may have: name to type."""
    found: dict[str, Json] = dict(HTTP_SETTINGS)
    if not model.origin:
        found["origin"] = "text"
    auth = model.auth or {}
    found.update(named_values(auth) if auth and not auth_faults(auth) else {})
    if model.sandbox is not None:
        found["sandbox"] = "yes_no or empty"
    found.update(model.settings or {})
    return found


# --- what kind of action -------------------------------------------------------------------------------------------


@rule
def _says_its_effect(at: Subject) -> Iterator[Problem]:
    action = at.action
    if action.reads and action.writes:
        yield at.on_key("FL006", ("writes",), f"{at.name} reads and writes; it can be one of them")
    if not action.reads and not action.writes:
        hint = "reads: true, or writes: keyed | lookup | once"
        yield at.on_key("FL005", (), f"{at.name} does not say what it does", hint)
    for word in ("key", "lookup", "find", "undo", "cannot_undo", "draft") if action.reads else ():
        if getattr(action, word) is not None:
            yield at.on_key("FL006", (word,), f'a reading action has no "{word}"')


@rule
def _key_is_whole(at: Subject) -> Iterator[Problem]:
    key, writes, request = at.action.key, at.action.writes, at.action.request
    if key is None:
        if writes == "keyed":
            hint = "key: { header: Idempotency-Key, life: 24 hours }"
            yield at.on_key("FL005", (), f"{at.name} is keyed and does not say where the key goes", hint)
        return
    if writes == "once":
        yield at.on_key("FL006", ("key",), "an action of class once has no key; is it keyed?")
    if sum(carrier is not None for carrier in (key.header, key.field, key.query)) != 1:
        yield at.on_key("FL006", ("key",), "the key goes into one place: header, field or query")
    if writes == "keyed" and key.life is None:
        yield at.on_key("FL005", ("key",), "key does not say how long the service remembers it", "life: 24 hours")
    if key.header is not None and (not is_header_name(key.header) or key.header.lower() in CREDENTIALS):
        yield at.on_value("FL006", ("key", "header"), f'"{key.header}" cannot be the header of a key')
    if key.field is not None and not _has_fields(request) and (request.json_, request.mail) != (None, None):
        yield at.on_value("FL006", ("key", "field"), "the body is not a map, so it has no field for the key")


@rule
def _lookup_is_whole(at: Subject) -> Iterator[Problem]:
    action, key = at.action, at.action.key
    if action.writes == "lookup":
        if action.lookup is None:
            yield at.on_key("FL005", (), f"{at.name} is of class lookup and has no lookup")
        is_carried = key is not None and any((key.header, key.field, key.query))
        carriers = [action.request] if action.rows is None else [action.rows]
        if not is_carried and not any(map(_uses_key, carriers)):
            what = f"{at.name} does not send our key, so nobody can be asked by it"
            yield at.on_key("FL006", ("request",), what, "put ${{ key }} into the request")
    if action.lookup is not None and not _uses_key(action.lookup.request):
        yield at.on_key("FL006", ("lookup", "request"), "the lookup does not ask by our key", "${{ key }}")
    for word, block in (("lookup", action.lookup), ("find", action.find)):
        if block is None:
            continue
        declared, given = action.output or {}, block.output or {}
        for name in missing(declared, list(given)):
            what = f'{word} does not yield "{name}", which {at.name} does'
            yield at.on_key("FL005", (word,), what, f"add it under {word}: output:")
        what = f'{word} yields "{{}}", which is not in the output of {at.name}'
        yield from at.strangers("FL003", (word, "output"), given, declared, what)
        if action.external_id is not None and block.external_id is None:
            what = f"{word} does not yield the outside id, which {at.name} does"
            yield at.on_key("FL005", (word,), what, f"add external_id: under {word}")


@rule
def _pages_are_whole(at: Subject) -> Iterator[Problem]:
    action, pages = at.action, at.action.pages
    if pages is None:
        return
    if not action.reads:
        yield at.on_key("FL006", ("pages",), "only a reading action has pages")
    kind = (action.output or {}).get(pages.of)
    if kind is None:
        hint = did_you_mean(pages.of, action.output or {})
        yield at.on_value("FL003", ("pages", "of"), f'"{pages.of}" is not in the output of {at.name}', hint)
    elif kind != "list" and not (isinstance(kind, Mapping) and "list" in kind):
        yield at.on_value("FL006", ("pages", "of"), f'"{pages.of}" is not a list', f"{pages.of}: list")
    if "incomplete" in (action.output or {}):
        yield at.on_key("FL006", ("output", "incomplete"), "an action with pages has this field by itself")
    found, carried = ways(pages), [word for word in ("query", "field") if getattr(pages, word) is not None]
    if len(found) != 1:
        what = "pages go on in one way" + (f", and here are {' and '.join(found)}" if found else "")
        yield at.on_key("FL005", ("pages",), what, ", ".join(PAGING))
    elif PAGING[found[0]].is_address and carried:
        yield at.on_key("FL006", ("pages", carried[0]), "a link is a whole address; nothing else carries it")
    elif not PAGING[found[0]].is_address and len(carried) != 1:
        yield at.on_key("FL005", ("pages",), f"where the {found[0]} goes is said by one word", "query, field")
    if pages.field is not None and (action.request.multipart is not None or not _has_fields(action.request)):
        yield at.on_value("FL006", ("pages", "field"), "the request has no body with fields")


@rule
def _rows_are_whole(at: Subject) -> Iterator[Problem]:
    action, rows, key = at.action, at.action.rows, at.action.key
    if rows is None:
        return
    if action.reads:
        yield at.on_key("FL006", ("rows",), "a reading action has no rows")
    bodies = [word for word in _BODIES if getattr(action.request, word) is not None]
    if bodies or action.request.get is not None:
        yield at.on_key("FL006", ("rows",), "the rows are the body; it stands under rows: of, and not in request")
    for word in ("header", "query"):
        if key is not None and getattr(key, word) is not None:
            what = "several rows share the request, so a key goes into its row"
            yield at.on_value("FL006", ("key", word), what, "key: { field: … }")
    if action.writes == "keyed" and rows.match is not None and (key is None or key.field is None):
        yield at.on_key("FL006", ("rows", "match"), "no row carries our key, by which answers are matched")
    if rows.status is None and action.success is None:
        what = "nothing says which rows were done"
        yield at.on_key("FL005", ("rows",), what, "status: ${{ row.status }}, or success of the action")


# --- requests ------------------------------------------------------------------------------------------------------


@rule
def _requests_are_whole(at: Subject) -> Iterator[Problem]:
    for path, request in _requests(at.action):
        methods = [word for word in METHODS if getattr(request, word) is not None]
        if len(methods) != 1:
            what = "a request has one method" + (f", and here are {' and '.join(methods)}" if methods else "")
            yield at.on_key("FL005", path, what, ", ".join(METHODS))
            continue
        method = methods[0]
        if not getattr(request, method).startswith("/"):
            what = f'"{getattr(request, method)}" must begin with "/"'
            yield at.on_value("FL006", (*path, method), what, "the origin stands before it")
        bodies = [word for word in _BODIES if getattr(request, word) is not None]
        if len(bodies) > 1:
            yield at.on_key("FL006", (*path, bodies[1]), "a request has one body: json, form, multipart or mail")
        if method == "get" and bodies:
            yield at.on_key("FL006", path, "a get has no body; use query")
        yield from at.strangers("FL003", (*path, "mail"), request.mail or (), MAIL_FIELDS, 'a mail has no "{}"')
        for name in missing(MAIL_FIELDS, list(request.mail)) if request.mail is not None else ():
            yield at.on_key("FL005", (*path, "mail"), f'a mail needs "{name}"')
        if path != ("request",) and method in ("put", "patch", "delete"):
            yield at.on_key("FL201", path, f"a {path[0]} asks and changes nothing; it cannot be a {method}")
        for name in request.headers or {}:
            if not is_header_name(name):
                yield at.on_key("FL006", (*path, "headers", name), f'"{name}" cannot be the name of a header')
            elif name.lower() in CREDENTIALS:
                what = f'the header "{name}" is not written here'
                yield at.on_key("FL401", (*path, "headers", name), what, "credentials belong in auth")


def _requests(action: ActionModel) -> Iterator[tuple[Path, RequestModel]]:
    yield ("request",), action.request
    if action.lookup is not None:
        yield ("lookup", "request"), action.lookup.request
    if action.find is not None:
        yield ("find", "request"), action.find.request


def _has_fields(request: RequestModel) -> bool:
    return request.form is not None or request.multipart is not None or isinstance(request.json_, dict)


def _uses_key(request: RequestModel | RowsModel) -> bool:
    data = request.model_dump(by_alias=True, exclude_none=True)
    return any(use.path[0] == "key" for _, text in _texts(data, ()) for use in names(text))


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
    declared, sample = at.action.output or {}, at.action.sample
    what = f'{{}} has "{{{{}}}}", which is not in the output of {at.name}'
    yield from at.strangers("FL003", ("result",), at.action.result or {}, declared, what.format("result"))
    if sample is not None:
        for name in missing(declared, list(sample)):
            yield at.on_key("FL005", ("sample",), f'the sample has no "{name}"')
        yield from at.strangers("FL003", ("sample",), sample, declared, what.format("the sample"))


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
        for fault in faults(text):
            yield at.on_part("FL007", path, fault.offset, fault.length, fault.what, fault.hint)
        yield from _clock_problems(at, path, text)
        yield from _name_problems(at, path, text)
        is_one_marker = len(pieces(text.strip())) == len(markers(text)) == 1
        is_word = path == ("pages", "link") and text == "header"
        is_asked = path[-1] in ("success", "when", "count", "replayed") or path[:2] in _EXPRESSIONS
        if is_asked and not is_one_marker and not is_word:
            what = f'"{path[-1]}" must be one expression'
            yield at.on_value("FL103", path, what, f"{path[-1]}: ${{{{ {text.strip()[:60]} }}}}")


def _clock_problems(at: Subject, path: Path, text: str) -> Iterator[Problem]:
    for part in markers(text):
        found = _CLOCK.search(_QUOTED.sub(lambda quoted: " " * len(quoted[0]), part.source))
        if found:
            what = f"a connector has no clock, so {found[1]}() cannot stand here"
            hint = "let the flow give the time as an input"
            yield at.on_part("FL007", path, part.start + found.start(), len(found[1]), what, hint)


def _name_problems(at: Subject, path: Path, text: str) -> Iterator[Problem]:
    """Names that are not there, and optional fields that would have no value: inside a text or an undo, since one that
    stands alone in a request is left out."""
    reach = _reach(at, path)
    optionals = {name for name, kind in (at.action.input or {}).items() if optional(kind)}
    may_be_empty = path[-1] == "say" or path[0] == "find" or (_is_part(path) and lone_name(text) is not None)
    for use in names(text):
        root, rest = use.path[0], use.path[1:2]
        known = reach.get(root)
        if root not in reach:
            hint = did_you_mean(root, reach, "in reach")
            yield at.on_part("FL101", path, use.offset, use.length, f'there is no "{root}" here', hint)
        elif known is not None and rest and rest[0] not in known:
            hint = did_you_mean(str(rest[0]), known, f"{root} has")
            yield at.on_part("FL101", path, use.offset, use.length, f'there is no {root} "{rest[0]}"', hint)
        elif root == "input" and rest and not use.guarded and not may_be_empty and rest[0] in optionals:
            what = f'"{rest[0]}" may be empty, and then there is no value here'
            hint = f"write {'.'.join(use.path)} | default(…), or make the field required"
            yield at.on_part("FL102", path, use.offset, use.length, what, hint)


def _is_part(path: Path) -> bool:
    """Whether an empty value is left out there."""
    return not _PARTS.isdisjoint(path) or path[:2] == ("rows", "of")


def _reach(at: Subject, path: Path) -> dict[str, tuple[str, ...] | None]:
    """The names in reach at this place, with what each has; None where that is not known."""
    fields: tuple[str, ...] = tuple(at.action.input or {})
    if path[0] == "find":
        fields = tuple(at.action.find.by) if at.action.find is not None else ()
    if path[0] == "undo":
        return {"input": fields, "output": tuple(at.action.output or {})}
    if path[0] == "draft":
        return {"input": fields}
    if path == ("pages", "seen_by"):
        return {"item": None}
    if path[0] == "rows" and path[1] != "of":
        return {"response": RESPONSE, **({"row": None} if path[1] != "answer" else {})}
    connection = tuple(name for name, kind in known_settings(at.connector).items() if not is_secret(kind))
    reach: dict[str, tuple[str, ...] | None] = {"input": fields, "connection": connection, "key": None}
    if "request" not in path and path[0] != "rows":
        reach["response"] = RESPONSE
    return reach
