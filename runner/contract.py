"""What a connector is: the promise between the engine and the code that talks to a service.

A connector answers three questions about each action, and carries it out:

1. `Action`: what does it do to the world? Read or write, how the service dedupes or can be asked, what undoes it.
2. `prepare`: which exact request would be sent? Pure: no I/O, no clock, no credentials. The engine hashes and stores it
   before anything leaves, and sends exactly that again on a retry.
3. `send`: send a prepared request once and say what became of it, in one of four words.

`send` never raises for what the outside did: it returns an `Outcome`. What it may claim:

- `applied`   a complete, valid answer says that it was done;
- `refused`   a complete, valid answer says that nothing was done;
- `not_sent`  provably no byte of the request left (over SMTP the request is the message after DATA);
- `unknown`   anything else. A timeout is never `not_sent`; a 503 on a write is never `refused`.

Any exception that escapes `send` is recorded as `unknown`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from runner.quick import quick

Effect = Literal["read", "keyed", "lookup", "once"]
"""read: changes nothing. keyed: the service dedupes our key. lookup: it can be asked by our key. once: neither."""

Purpose = Literal["do", "read", "find", "lookup", "undo", "undo_lookup"]
"""Why a call is made. `find` asks by the business's own fields, `lookup` and `undo_lookup` by our key."""

Result = Literal["applied", "refused", "not_sent", "unknown"]

Reason = Literal[
    "",
    "invalid",
    "forbidden",
    "not_found",
    "conflict",
    "rate_limited",
    "already_there",
    "in_progress",
    "unavailable",
    "timeout",
    "connection",
    "unreadable",
    "redirect",
    "interrupted",
    "late",
    "restored",
    "unknown",
]

Json = Any
"""A value made of None, bool, int, float, str, list and dict with text keys."""


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """How often and how fast a call is tried. `tries` counts all of them; pauses are ms."""

    tries: int
    pause: int
    growth: Literal["none", "linear", "double"] = "double"
    longest: int = 300_000
    never_on: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Undo:
    """An action's own undo: another action of the same connector, with input in expressions over `input`, `output`."""

    action: str
    with_: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """What a draft run does in an action's place: another action of the same connector, which leaves a draft that sends
    nothing and has an `undo`. It gets the input fields of the same name, and what `with_` says, in expressions over
    `input`."""

    action: str
    with_: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """What one action does to the world. Pure data; part of the bundle a run pins.

    `input` and `output` map field name to the field's type as FLOW-LANGUAGE writes it ("text", "number or empty",
    {"choice": [...]}); a field whose type ends in " or empty" or has `empty: true` is optional.
    `key_life` and `lookup_delay` are ms. `fan_out` names the input field whose list items are one call each.
    `own` marks an action on our own tables: carried out inside the transaction that records its outcome.
    """

    name: str
    title: str = ""
    effect: Effect = "once"
    input: Mapping[str, Json] = field(default_factory=dict)
    output: Mapping[str, Json] = field(default_factory=dict)
    key_life: int = 0
    has_lookup: bool = False
    lookup_delay: int = 0
    find_by: tuple[str, ...] = ()
    undo: Undo | None = None
    cannot_undo: str = ""
    draft: Draft | None = None
    sample: Mapping[str, Json] | None = None
    retry: Retry | None = None
    timeout: int = 30_000
    fan_out: str = ""
    own: bool = False
    renders_template: bool = False
    from_ai: bool = False
    is_agent: bool = False
    """One turn of an agent: beside its input it is given `turn`, the tools and what was said and done so far."""
    open_input: bool = False
    """Further input fields are welcome (the generic http and records actions)."""
    open_output: bool = False
    """The output's fields are not known beforehand, so any name below `steps.<id>` passes the check."""
    personal: tuple[str, ...] = ()
    """Fields of input and output, at any depth, that are personal data wherever they stand."""


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A prepared request: JSON-able, without credentials. `hash` binds a key to exactly one request."""

    body: Mapping[str, Json]
    hash: str

    @classmethod
    def of(cls, body: Mapping[str, Json]) -> Request:
        """The request with its hash: SHA-256 over the canonical JSON."""
        return cls(body=body, hash=digest(body))


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of one send.

    `count` is for find and lookup only: how many records matched (0 none, 1 found, more: a person must look).
    `retry_after` is ms. `evidence` is a short, redacted excerpt of what was seen (status, content type, text).
    """

    result: Result
    reason: Reason = ""
    summary: str = ""
    output: Mapping[str, Json] = field(default_factory=dict)
    external_id: str = ""
    retry_after: int | None = None
    count: int | None = None
    evidence: str = ""


class Connector(Protocol):
    """One connection to one service: a connector with its settings filled in."""

    @property
    def actions(self) -> Mapping[str, Action]:
        """The actions by name."""

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        """The exact request. Pure. Raises `RequestError` (or `EvaluationError`) with a sentence.

        For `find` the input holds the fields the author named; for `lookup` the input of the write asked about.
        """

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        """Sends it once, within `limit` ms in all. Credentials are added here and nowhere else."""

    async def close(self) -> None:
        """Closes what is open."""

    def origin(self) -> str:
        """Where requests go, without credentials: `https://api.example.test`, `smtp://mail.example.test:587`."""


@runtime_checkable
class Consenting(Protocol):
    """A connector to which a person may have to agree at the service's own pages (OAuth2)."""

    def consent_address(self, *, back: str, state: str, verifier: str) -> str:
        """The address to open; the browser comes back to `back`. Raises NotPossible where nobody needs to agree."""

    async def take_consent(self, code: str, *, back: str, verifier: str) -> None:
        """Takes what the browser came back with. Raises an AmendsError that says why it was in vain."""


class ConnectorKind(Protocol):
    """What an entry point of the group `amends.connectors` names: makes connections of one kind."""

    name: str
    title: str

    def settings(self) -> Mapping[str, Json]:
        """The settings a line of connections.yaml may carry: name -> type, as in `Action.input`."""

    def actions(self) -> Mapping[str, Action]:
        """The actions, known without any settings."""

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        """A connector for one line of connections.yaml. Raises `SettingsError`."""


class Tools(Protocol):
    """What the engine lends a connector."""

    def secret(self, name: str) -> str:
        """The secret's value, read at the send. Raises `SecretMissing`."""

    def redact(self, text: str) -> str:
        """The text without any known secret value, in its usual encodings too."""

    def file(self, sha256: str) -> bytes:
        """The bytes of a stored file. Raises `NotFound`."""

    def keep(self, content: bytes) -> str:
        """Stores a file and gives its SHA-256, once it is on the disk. Raises OSError."""

    def place(self, path: str) -> Path:
        """Where a path of connections.yaml leads: one that is not absolute begins at the project's folder."""

    @property
    def vault(self) -> Vault:
        """Where a connector keeps what a service gives it: tokens."""


@runtime_checkable
class Watching(Protocol):
    """Tools that are told of each exchange besides."""

    def exchanged(self, sent: Mapping[str, Json], answer: Mapping[str, Json]) -> None:
        """What went out (`method url headers body`, no credentials) and came back (`status headers text`), redacted."""


class Vault(Protocol):
    """Keeps small maps of texts and numbers by name, encrypted, for every process of the project."""

    def read(self, name: str) -> Mapping[str, Json]:
        """What was kept, empty where there is nothing. Its texts are redacted from now on."""

    def write(self, name: str, what: Mapping[str, Json]) -> None:
        """Keeps it; it is on the disk when this returns. Raises StoreUnwritable."""

    def alone(self, name: str) -> AbstractAsyncContextManager[None]:
        """Nobody else is inside under this name, in no process."""


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _written() -> Callable[[Json], str]:
    """What `_CANONICAL.encode` writes. It builds its inner part anew for each value, which costs as much as a small
    value does; here that is built once, where Python has it in C."""
    make, quote = (getattr(json.encoder, name, None) for name in ("c_make_encoder", "encode_basestring"))
    if make is None or quote is None:
        return _CANONICAL.encode
    parts = make(None, _CANONICAL.default, quote, None, ":", ",", True, False, False)
    return lambda value: "".join(parts(value, 0))


_WRITTEN = _written()


def canonical(value: Json) -> bytes:
    """The one byte form of a JSON value: sorted keys, no spaces, UTF-8, no NaN. Raises ValueError, TypeError."""
    try:
        return _WRITTEN(value).encode()
    except RecursionError:
        return _CANONICAL.encode(value).encode()  # tells what holds itself from what is merely deep


def digest(value: Json) -> str:
    """SHA-256 of the canonical form, hexadecimal."""
    return hashlib.sha256(canonical(value)).hexdigest()


def optional(field_type: Json) -> bool:
    """Whether a field of this type may be left out."""
    if isinstance(field_type, str):
        return field_type.endswith(" or empty")
    return isinstance(field_type, Mapping) and (bool(field_type.get("empty")) or "default" in field_type)


def missing(fields: Mapping[str, Json], given: Sequence[str]) -> list[str]:
    """The required fields that are not among `given`, in declared order."""
    return [name for name, kind in fields.items() if not optional(kind) and name not in given]
