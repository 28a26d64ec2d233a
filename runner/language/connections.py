"""connections.yaml: what each connection's name stands for here, and where its connector is found.

Connectors in Python are found by the entry points `amends.connectors`; those written in YAML are the project's own
`connectors/*.yaml` first, then the ones that were installed. `http`, `records` and `quarantine` need no line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path as FilePath
from typing import Any, Protocol

from runner.contract import Action, ConnectorKind, Json, Vault, missing, optional
from runner.errors import NotFound, NotPossible, Problem, SecretMissing, SettingsError
from runner.language.clauses import rate as read_rate
from runner.language.fields import WORDS, fits, kind_of_field
from runner.language.nearest import did_you_mean
from runner.language.source import Path, Place, Source, as_quoted, problem_at, read

GROUP = "amends.connectors"
BUILT_IN = ("http", "records", "quarantine")
EVERYWHERE: Mapping[str, Json] = {
    "connector": "text",
    "rate": "text or empty",
    "at_once": "integer or empty",
    "sandbox": "yes_no or empty",
}
"""Settings that every line may carry."""

_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_]*$")
_SECRET_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_SECRET_KEY = re.compile(r"^(api_?key|private_key)$|(^|_)(password|token|secret)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """A connector file out of an OpenAPI document: its text, how many `operations` were asked for, and which of them
    were left out: (operation, why)."""

    name: str
    text: str
    operations: int
    reads: int
    writes: int
    left_out: tuple[tuple[str, str], ...] = ()


class Declarative(Protocol):
    """The entry point `declarative`: makes a connector out of YAML."""

    def kind_from_text(self, text: str, file: str) -> tuple[ConnectorKind | None, tuple[Problem, ...]]:
        """The connector, and everything that is wrong with its text."""

    def shipped(self) -> Mapping[str, str]:
        """The YAML connectors that were installed: name -> text."""

    def imported(self, text: str, file: str, *, name: str = "", tags: Sequence[str] = ()) -> Imported:
        """A connector file out of an OpenAPI document, of all operations or of those with a tag. Raises NotPossible,
        NotFound."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """One connector that was found. `text` is its YAML, empty for one in Python."""

    kind: ConnectorKind
    name: str
    file: str = ""
    text: str = ""


class Kinds:
    """Every connector in reach, loaded when it is asked for.

    `python` maps name to the connector or to a function that loads it; `own` maps the name of each YAML connector of
    the project to (file, text).
    """

    def __init__(
        self,
        *,
        python: Mapping[str, Any] | None = None,
        declarative: Declarative | None = None,
        own: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        self.python = python or {}
        self.declarative = declarative
        self.own = own or {}
        self.problems: list[Problem] = []
        """What is wrong with the connectors that were loaded so far."""
        self._found: dict[str, Found | None] = {}

    def names(self) -> tuple[str, ...]:
        """The connectors' names."""
        shipped = self.declarative.shipped() if self.declarative is not None else {}
        return tuple(sorted({*self.own, *self.python, *shipped}))

    def find(self, name: str) -> Found | None:
        """The connector of this name, or None: then `problems` says why, or there is none of that name."""
        if name not in self._found:
            self._found[name] = self._load(name)
        return self._found[name]

    def file_of(self, name: str) -> str:
        """The file that problems of a connector in YAML give."""
        return self.own[name][0] if name in self.own else f"connectors/{name}.yaml"

    def _load(self, name: str) -> Found | None:
        if name in self.own:
            file, text = self.own[name]
            return self._from_text(name, text, file)
        if name in self.python:
            entry = self.python[name]
            kind = entry.load() if hasattr(entry, "load") else entry
            return Found(kind=kind, name=name)
        shipped = self.declarative.shipped() if self.declarative is not None else {}
        return self._from_text(name, shipped[name], self.file_of(name)) if name in shipped else None

    def _from_text(self, name: str, text: str, file: str) -> Found | None:
        if self.declarative is None:
            what = "connectors in YAML cannot be read here: the connectors package is not installed"
            self.problems.append(problem_at(file, Place(line=0, column=0), "FL208", what))
            return None
        kind, problems = self.declarative.kind_from_text(text, file)
        self.problems.extend(problems)
        broken = any(found.level == "error" for found in problems)
        return None if kind is None or broken else Found(kind=kind, name=name, file=file, text=text)


def installed(own: Mapping[str, tuple[str, str]] | None = None) -> Kinds:
    """The connectors that are installed here, and the project's own."""
    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    declarative = entries.pop("declarative", None)
    return Kinds(
        python=entries,
        declarative=declarative.load() if declarative is not None else None,
        own=own or {},
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """One line of connections.yaml. `settings` is what the connector gets; `{"secret": NAME}` stays a reference.

    `rate` is (how many, in how many ms) or None; `at_once` bounds open calls. `is_sandbox`: what is done there is for
    trying things out.
    """

    name: str
    connector: str
    found: Found
    settings: Mapping[str, Json] = field(default_factory=dict)
    rate: tuple[int, int] | None = None
    at_once: int | None = None
    is_sandbox: bool = False

    actions: Mapping[str, Action] = field(default_factory=dict)
    """The connector's actions by name, as they are with these settings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Connections:
    """Every connection of a project. `unreadable` are names that have a line which cannot be used."""

    by_name: Mapping[str, Connection] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()

    def actions(self) -> dict[str, Action]:
        """Every action as `connection.action`."""
        return {
            f"{name}.{action}": described
            for name, connection in self.by_name.items()
            for action, described in connection.actions.items()
        }


def load_connections(
    text: str | None, file: str, *, kinds: Kinds
) -> tuple[Connections, Source | None, tuple[Problem, ...]]:
    """Reads connections.yaml (`text` is None where there is none). Lines that cannot be used are told and left out."""
    found: dict[str, Connection | None] = {}
    source, told = read(text, file) if text is not None else (None, ())
    problems: list[Problem] = list(told)
    lines = source.data if source is not None and source.data is not None else {}
    if source is not None and not isinstance(lines, dict):
        problems.append(source.problem("FL006", (), f"{file} is a map: a name, and what it stands for"))
    elif source is not None:
        for name in lines:
            found[name], wrong = _connection(name, source, kinds)
            problems.extend(wrong)
    for name in BUILT_IN:
        built_in = kinds.find(name) if name in kinds.python and name not in found else None
        if built_in is not None:
            found[name] = Connection(name=name, connector=name, found=built_in, actions=built_in.kind.actions())
    everything = tuple(sorted([*problems, *kinds.problems], key=lambda one: (one.file, one.line, one.column)))
    by_name = {name: one for name, one in found.items() if one is not None}
    return Connections(by_name=by_name, unreadable=frozenset(found) - frozenset(by_name)), source, everything


def _connection(name: str, source: Source, kinds: Kinds) -> tuple[Connection | None, list[Problem]]:
    line = source.data[name]

    def refused(code: str, what: str, hint: str, at: Path = (name,)) -> tuple[None, list[Problem]]:
        return None, [source.problem(code, at, what, hint, on="key" if at == (name,) else "value")]

    if not _NAME.match(name):
        return refused("FL006", f'"{name}" is not a name', "a name has letters, digits and _, a letter first")
    if not isinstance(line, dict):
        hint = f"for example {name}: {{ connector: email, host: smtp.example.test }}"
        return refused("FL006", f'"{name}" needs a map with its connector', hint)
    connector, before = line.get("connector"), len(kinds.problems)
    if not isinstance(connector, str):
        return refused("FL005", f'connection "{name}" has no "connector"', f"one of: {', '.join(kinds.names())}")
    found = kinds.find(connector)
    if found is None:
        at = (name, "connector")
        if any(problem.level == "error" and problem.file == kinds.file_of(connector) for problem in kinds.problems):
            return None, []  # the connector's own file says it
        if connector in kinds.names() or len(kinds.problems) > before:
            return refused("FL208", f'the connector "{connector}" cannot be used', "its own file has problems", at)
        hint = did_you_mean(connector, kinds.names(), "connectors")
        return refused("FL208", f'there is no connector "{connector}"', hint, at)
    own = found.kind.settings()
    problems = list(_setting_problems(name, line, own, source))
    if any(problem.level == "error" for problem in problems):
        return None, problems
    settings = {key: line[key] for key in line if key != "connector" and (key not in EVERYWHERE or key in own)}
    try:
        actions = _actions(found.kind, settings)
        found.kind.connect(name, settings, _NothingLent())
    except SettingsError as error:
        return refused("FL006", *_refusal(str(error)), _setting_named(name, str(error), line))
    limits = {**getattr(found.kind, "limits", {}), **line}  # a connector may know what its service bears
    return Connection(
        name=name,
        connector=connector,
        found=found,
        settings=settings,
        rate=read_rate(str(limits["rate"])) if "rate" in limits else None,
        at_once=limits.get("at_once"),
        is_sandbox=line.get("sandbox") is True,
        actions=actions,
    ), []


class _NothingLent:
    """What the check lends a connector: it may look at its settings, and at nothing else."""

    def secret(self, name: str) -> str:
        raise SecretMissing(f'the secret "{name}" is not read by a check')

    def redact(self, text: str) -> str:
        return text

    def file(self, sha256: str) -> bytes:
        raise NotFound("no file is read by a check")

    @property
    def vault(self) -> Vault:
        raise NotPossible("no token is read by a check")

    def keep(self, content: bytes) -> str:
        raise NotPossible("no file is stored by a check")

    def place(self, path: str) -> FilePath:
        return FilePath(path)


def _refusal(sentence: str) -> tuple[str, str]:
    """(what, hint) of a connector's sentence; what follows a semicolon is the way out."""
    what, _, hint = sentence.partition("; ")
    return what, hint


def _setting_named(name: str, sentence: str, line: Mapping[str, Json]) -> Path:
    """Where to point: at the first setting of the line that the sentence names, else at the line itself."""
    words = re.findall(r"[A-Za-z_]+", sentence.removeprefix(f"{name}: "))
    named = next((word for word in words if word in line and word != "connector"), None)
    return (name,) if named is None else (name, named)


def _actions(kind: ConnectorKind, settings: Mapping[str, Json]) -> Mapping[str, Action]:
    """The actions with these settings: a kind whose actions depend on them has `actions_for(settings)`."""
    with_settings: Callable[[Mapping[str, Json]], Mapping[str, Action]] | None = getattr(kind, "actions_for", None)
    return kind.actions() if with_settings is None else with_settings(settings)


def _setting_problems(
    name: str, line: Mapping[str, Json], declared: Mapping[str, Json], source: Source
) -> Iterator[Problem]:
    known = {**EVERYWHERE, **declared}
    for key, value in line.items():
        path: Path = (name, key)
        if key == "sandbox" and value is True and _is_everywhere(line, declared):
            what = f'{line["connector"]} has no sandbox of its own, so "sandbox" leads nowhere'
            yield source.problem("FL006", path, what, "write beside it the origin of the place that you try things in")
        elif key not in known:
            hint = did_you_mean(key, known, "its settings")
            yield source.problem("FL003", path, f'"{key}" is not a setting of {line["connector"]}', hint, on="key")
        elif isinstance(value, dict) and "secret" in value:
            yield from _secret_problems(path, value, source)
        else:
            yield from _value_problems(path, value, known[key], source)
    for key in missing(declared, list(line)):
        what = f'connection "{name}" has no "{key}", which {line["connector"]} needs'
        yield source.problem("FL005", (name,), what, on="key")


def _is_everywhere(line: Mapping[str, Json], declared: Mapping[str, Json]) -> bool:
    """A connection that goes where its connector always goes."""
    return "sandbox" not in declared and "origin" not in line and optional(declared.get("origin", ""))


def _secret_problems(path: Path, value: Mapping[str, Json], source: Source) -> Iterator[Problem]:
    for key in value:
        if key != "secret":
            what, hint = f'"{key}" is not a key of a secret', "it is written { secret: NAME }"
            yield source.problem("FL003", (*path, key), what, hint, on="key")
    if not isinstance(value["secret"], str) or not _SECRET_NAME.match(value["secret"]):
        hint = "the name of a line in .env: letters, digits and _"
        yield source.problem("FL006", (*path, "secret"), f'"{value["secret"]}" cannot be the name of a secret', hint)


def _value_problems(path: Path, value: Json, field_type: Json, source: Source) -> Iterator[Problem]:
    key, scalar, kind = str(path[-1]), source.scalars.get(path), kind_of_field(field_type)
    choices = field_type.get("choice") if isinstance(field_type, Mapping) else None
    is_plain = isinstance(value, (str, int)) and not isinstance(value, bool)
    if value is None:
        yield source.problem("FL006", path, f'nothing is written after "{key}"', on="key")
    elif key == "rate":
        try:
            read_rate(str(value))
        except ValueError as error:
            what, _, hint = str(error).partition("; ")
            yield source.problem("FL006", path, what, hint)
    elif key == "at_once" and isinstance(value, int) and value < 1:
        yield source.problem("FL006", path, f"{value} calls at once are none at all", "hold the connection for that")
    elif is_plain and (_SECRET_KEY.search(key) or field_type in ("secret", "secret or empty")):
        hint = f"put it into .env and write {key}: {{ secret: {f'{path[0]}_{key}'.upper()} }}"
        yield source.problem("FL401", path, f'the secret "{key}" is written in the file', hint)
    elif kind == "text" and scalar is not None and isinstance(value, (int, float, bool)):
        what = f'"{key}" is a text, and {scalar.text} would be read as something else'
        yield source.problem("FL002", path, what, f"write it in quotes: {as_quoted(scalar.text)}")
    elif kind in WORDS and not fits(kind, value):
        yield source.problem("FL006", path, f'"{key}" needs {WORDS[kind]}')
    elif isinstance(choices, (list, dict)) and value not in choices:
        hint = did_you_mean(str(value), [str(word) for word in choices], "it is one of")
        yield source.problem("FL006", path, f'"{key}" cannot be "{value}"', hint)
