"""The connector file out of a document: its text with the decisions at their places, checked before it is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from connectors.openapi.document import Document, Operation, Unsayable, read_document
from connectors.openapi.operations import ID_NAMES, Said, said_of, sentence
from runner.contract import Json, optional
from runner.errors import NotFound, NotPossible, Problem
from runner.language.connections import Imported
from runner.language.nearest import did_you_mean
from runner.language.source import as_quoted, plain_value

MOST_BYTES = 1_000_000
"""A larger connector file would not be read again."""
WIDEST = 118
MARK: Final = "# decide:"

_BARE = re.compile(r"[A-Za-z_/$][\w ./$?&=%()'\"\[\]{}-]*")
_IN_FLOW = re.compile(r"[\w./ $()-]+")
_DULL = frozenset({"api", "rest", "openapi", "open", "swagger", "the", "spec", "specification", "platform", "cloud"})

_GRANTS: Final = {"clientCredentials": "client_credentials", "authorizationCode": "authorization_code"}
_ADDRESSES: Final = {"tokenUrl": "token_url", "authorizationUrl": "authorize_url"}

Check = Callable[[str, str], Sequence[Problem]]
"""What is wrong with the text of a connector file of that name."""


def import_document(text: str, file: str, *, name: str = "", tags: Sequence[str] = (), check: Check) -> Imported:
    """The connector file for the operations with one of these tags, or for all. Raises NotPossible, NotFound."""
    document = read_document(text, file)
    operations = list(_chosen(document, tags))
    title = sentence((document.data.get("info") or {}).get("title")) or "A service"
    name = name or _name_of(title)
    said, left_out = _said(document, operations)
    _point_out_undo(said)
    blocks = {action.name: "\n".join(_action_lines(action)) for action in said}
    head = "\n".join(_head_lines(document, name, title, said))
    made = ""
    while blocks:
        made = "\n".join([head, *blocks.values(), ""])
        if len(made.encode()) > MOST_BYTES:
            raise NotPossible(
                f"{file} makes a file of {len(made) // 1000} kB, and more than 1 MB is not read; {_by_tag(document)}"
            )
        wrong = {_at(head, blocks, problem.line): problem.what for problem in check(made, f"connectors/{name}.yaml")}
        if not wrong:
            break
        if "" in wrong:
            raise NotPossible(f"{file} makes no connector that can be used: {wrong['']}")
        left_out += [(each, wrong[each]) for each in wrong]
        blocks = {each: block for each, block in blocks.items() if each not in wrong}
    else:
        why = f"; the first: {left_out[0][0]}: {left_out[0][1]}" if left_out else ""
        raise NotPossible(f"nothing in {file} can be said as an action{why}")
    reads = sum(action.reads for action in said if action.name in blocks)
    return Imported(
        name=name, text=made, operations=len(operations), reads=reads, writes=len(blocks) - reads,
        left_out=tuple(left_out),
    )  # fmt: skip


def _said(document: Document, operations: Sequence[Operation]) -> tuple[list[Said], list[tuple[str, str]]]:
    """(the actions, the operations that cannot be said, and why)."""
    said: dict[str, Said] = {}
    left_out: list[tuple[str, str]] = []
    for operation in operations:
        try:
            action = said_of(document, operation)
        except Unsayable as error:
            left_out.append((operation.spoken, str(error)))
            continue
        except (AttributeError, TypeError, ValueError):
            left_out.append((operation.spoken, "it is not written as OpenAPI has it"))
            continue
        while action.name in said:
            action.name += "_2"
        said[action.name] = action
    return list(said.values()), left_out


def _chosen(document: Document, tags: Sequence[str]) -> Iterator[Operation]:
    known = {tag for operation in document.operations() for tag in operation.tags}
    for tag in tags:
        if tag not in known:
            hint = did_you_mean(tag, known, "there are") or "none of its operations has a tag"
            raise NotFound(f'no operation has the tag "{tag}"; {hint}')
    yield from (each for each in document.operations() if not tags or set(tags) & set(each.tags))


def _by_tag(document: Document) -> str:
    tags = sorted({tag for operation in document.operations() for tag in operation.tags})
    more = f" … ({len(tags)} in all)" if len(tags) > 12 else ""
    return f"take a part of it with --tag: {', '.join(tags[:12])}{more}" if tags else "cut the document into parts"


def _name_of(title: str) -> str:
    words = [
        word for word in re.split(r"\W+|_", title.lower().replace("'s", "")) if word.isascii() and word[:1].isalpha()
    ]
    words = [word for word in words if word not in _DULL and not re.fullmatch(r"v?\d+", word)]
    return "_".join(words[:3]) or "service"


def _at(head: str, blocks: Mapping[str, str], line: int) -> str:
    """The action that stands at a line; empty for the head."""
    end = head.count("\n") + 1
    for name, block in blocks.items():
        before, end = end, end + block.count("\n") + 1
        if before < line <= end:
            return name
    return ""


def _point_out_undo(said: Sequence[Said]) -> None:
    """A DELETE below the path of a POST may take back what it made."""
    deletes = {path: each for each in said if (path := each.request.get("delete"))}
    for action in said:
        made = action.request.get("post")
        for path, other in deletes.items():
            if made and re.fullmatch(re.escape(str(made).rstrip("/")) + r"/\$\{\{ input\.\w+ \}\}", path):
                own = next((name for name in ID_NAMES if name in action.output), "")
                needed = [name for name, word in other.input.items() if not optional(word)]
                given = f'{{ {needed[-1]}: "${{{{ output.{own} }}}}" }}' if own and len(needed) == 1 else "{ … }"
                what = f"{other.name} may take it back: undo: {{ action: {other.name}, with: {given} }}"
                action.decide.append(("undo", f"{what}, and no cannot_undo"))


# --- text ----------------------------------------------------------------------------------------------------------


def _head_lines(document: Document, name: str, title: str, said: Sequence[Said]) -> Iterator[str]:
    origin, told = _origin(document)
    info, docs = document.data.get("info") or {}, document.data.get("externalDocs") or {}
    yield f"# Out of the OpenAPI document of {title} {sentence(str(info.get('version', '')))}".rstrip() + "."
    if isinstance(docs, Mapping) and str(docs.get("url", "")).startswith("http"):
        yield f"# {' '.join(str(docs['url']).split())[:100]}"
    yield f"# What a person must decide stands behind `{MARK[2:]}`; take the line out when it is decided."
    yield f"connector: {_scalar(name)}"
    yield f"title: {_scalar(title)}"
    if told:
        yield _decide("origin", told)
    if origin:
        yield f"origin: {_scalar(origin)}"
    auth, others = _auth(document)
    if others:
        yield _decide("auth", others)
    if auth:
        yield from _lines("auth", auth, 0)
    if any(not action.reads for action in said):
        yield _decide("effect", "each write is `once` and cannot be undone until somebody says better")
    yield "actions:"


def _decide(topic: str, what: str) -> str:
    """A comment, of one line whatever names the document uses."""
    return f"{MARK} {topic}: {' '.join(what.split())}"


def _origin(document: Document) -> tuple[str, str]:
    servers = [one for one in document.data.get("servers") or () if isinstance(one, Mapping)]
    url = str(servers[0].get("url", "")) if servers else ""
    for variable, told in (servers[0].get("variables") or {}).items() if servers else ():
        url = url.replace(f"{{{variable}}}", str(told.get("default", "")))
    parts = urlsplit(url)
    others = f"the document names {len(servers)} servers, this is the first" if len(servers) > 1 else ""
    if parts.scheme in ("http", "https") and parts.hostname and "{" not in url and not parts.query:
        plain = "it is not encrypted (http)" if parts.scheme == "http" else ""
        return url.rstrip("/"), "; ".join(filter(None, (plain, others)))
    below = f" and ends with {parts.path}" if parts.path.strip("/") else ""
    return "", f"the document does not say where the service is; the connection's origin says it{below}"


def _auth(document: Document) -> tuple[dict[str, Any], str]:
    """(auth, what is to be decided about it)."""
    written = (document.data.get("components") or {}).get("securitySchemes") or {}
    wanted = [name for one in document.data.get("security") or () if isinstance(one, Mapping) for name in one]
    found: list[tuple[str, dict[str, Any], str]] = []
    for name in dict.fromkeys([*wanted, *written]):
        try:
            found += [(name, *way) for way in _ways(document.resolved(written.get(name)))]
        except Unsayable:
            continue
    if not found:
        return {}, "the document does not say how we prove who we are; bearer, header, basic or query"
    name, auth, told = found[0]
    others = dict.fromkeys(f'"{other}"' for other, _, _ in found[1:] if other != name)
    also = f'this is "{name}"; there is also {", ".join(others)}' if others else ""
    return auth, "; ".join(filter(None, (told, also)))


def _ways(scheme: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    kind, way, place = scheme.get("type"), str(scheme.get("scheme", "")).lower(), scheme.get("in")
    name = str(scheme.get("name", ""))
    if kind == "http" and way == "basic":
        yield {"basic": {"user": "user", "password": "password"}}, ""
    elif kind == "http":
        yield {"bearer": "token"}, "" if way == "bearer" else f'the document says "{way}"'
    elif kind == "apiKey" and place in ("header", "query"):
        told = "does a word stand before the key? then prefix" if name.lower() == "authorization" else ""
        yield {str(place): {"name": name, "value": "api_key"}}, told
    elif kind in ("oauth2", "openIdConnect"):
        flows = scheme.get("flows") or {}
        for flow, grant in _GRANTS.items():
            offered = flows.get(flow) or {}
            addresses = {word: str(offered[key]) for key, word in _ADDRESSES.items() if offered.get(key)}
            if addresses and all(url.startswith("https://") for url in addresses.values()):
                scopes = ", ".join(list(offered.get("scopes") or ())[:5])
                auth = {"grant": grant, **addresses, "client": "client_id", "secret": "client_secret"}
                yield {"oauth2": auth}, f"which scope is needed? the document names {scopes}" if scopes else ""
        yield {"bearer": "token"}, "the document says OAuth2; here a token that somebody has got is sent"


def _action_lines(action: Said) -> Iterator[str]:
    yield f"  {_scalar(action.name)}:"
    yield from (f"    {_decide(topic, what)}" for topic, what in action.decide)
    parts: dict[str, Json] = {"title": action.title}
    parts |= {"reads": True} if action.reads else {"writes": "once"}
    for word in ("input", "request", "pages", "success", "output", "result", "external_id", "failures"):
        parts |= {word: value} if (value := getattr(action, word)) else {}
    if not action.reads:
        parts["cannot_undo"] = "Nobody has said yet what takes this back."
    for key, value in parts.items():
        yield from _lines(key, value, 4)


def _lines(key: str, value: Json, indent: int) -> Iterator[str]:
    """One key with its value: in one line where that is short, else a line for each part."""
    start = f"{' ' * indent}{_scalar(key)}:"
    if not isinstance(value, Mapping | list):
        yield f"{start} {_scalar(value)}"
        return
    short = f"{start} {_flow(value)}"
    if len(short) <= WIDEST:
        yield short
    elif isinstance(value, Mapping):
        yield start
        for inner, part in value.items():
            yield from _lines(inner, part, indent + 2)
    else:
        yield start
        yield from (f"{' ' * indent}  - {_flow(part)}" for part in value)


def _flow(value: Json) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_flow(str(key))}: {_flow(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(inner) for inner in value) + "]"
    text = _scalar(value)
    is_safe = not isinstance(value, str) or text.startswith('"') or _IN_FLOW.fullmatch(text)
    return text if is_safe else as_quoted(value)


def _scalar(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return str(value)
    is_bare = _BARE.fullmatch(value) and value == value.strip() and plain_value(value) == value
    return value if is_bare else as_quoted(value)
