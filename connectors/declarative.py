"""Connectors written in YAML: one file per service, checked whole when it loads.

Begin at `kind_from_text`. The shape is `model.py`, the rules are `checks.py`, requests are made by `rendering.py` and
answers read by `reading.py`; what all HTTP connections share is `service.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from connectors.checks import check_connector, known_settings
from connectors.model import ActionModel, ConnectorModel, RequestModel, schema
from connectors.reading import Seen, counted, outcome_of
from connectors.rendering import checked_input, render
from connectors.service import Place, Service, checked_header, resolver, secret_only, secret_or_text
from runner.clock import MachineClock
from runner.contract import (
    Action,
    Connector,
    ConnectorKind,
    Json,
    Outcome,
    Purpose,
    Request,
    Retry,
    Tools,
    Undo,
    missing,
)
from runner.errors import Problem, RequestError, SettingsError
from runner.language.clauses import duration
from runner.language.expressions import names
from runner.language.fitting import fit
from runner.language.nearest import did_you_mean
from runner.language.source import read
from runner.language.types import check_fields

_STAND_IN: Mapping[str, Json] = {"title": "?", "connector": "unnamed"}


def kind_from_text(text: str, file: str) -> tuple[ConnectorKind | None, tuple[Problem, ...]]:
    """The kind that a connector file describes. With a problem of level error there is no kind; all problems come."""
    source, problems = read(text, file)
    if source is None:
        return None, problems
    fitted = fit(ConnectorModel, source, forms={}, fill=_STAND_IN)
    found = [*problems, *fitted.problems]
    if isinstance(fitted.model, ConnectorModel):
        model = fitted.model
        broken = {str(path[1]) for path in fitted.broken if path[:1] == ("actions",) and len(path) > 1}
        found.extend(check_connector(source, model, frozenset(broken)))
        stem = PurePath(file).stem
        if file.endswith((".yaml", ".yml")) and model.connector not in (stem, "unnamed"):
            what = f'the connector is called "{model.connector}" and its file "{PurePath(file).name}"'
            found.append(source.problem("FL006", ("connector",), what, "give both the same name"))
    found.sort(key=lambda one: (one.line, one.column))
    if not isinstance(fitted.model, ConnectorModel) or any(one.level == "error" for one in found):
        return None, tuple(found)
    return DeclarativeKind(fitted.model), tuple(found)


def shipped() -> Mapping[str, str]:
    """The connector files that come with Amends: name to text."""
    folder = files("connectors")
    return {
        entry.name.removesuffix(".yaml"): entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda one: one.name)
        if entry.name.endswith(".yaml")
    }


class Declarative:
    """What the entry point `declarative` names: makes kinds out of files."""

    kind_from_text = staticmethod(kind_from_text)
    shipped = staticmethod(shipped)
    schema = staticmethod(schema)


DECLARATIVE = Declarative()


class DeclarativeKind:
    """The kind of one connector file."""

    def __init__(self, model: ConnectorModel) -> None:
        self.name = model.connector
        self.title = model.title
        self.model = model
        self._actions = {name: declared(name, action) for name, action in model.actions.items()}

    def settings(self) -> Mapping[str, Json]:
        return known_settings(self.model)

    def actions(self) -> Mapping[str, Action]:
        return self._actions

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        known = self.settings()
        checked: dict[str, Json] = {}
        for setting, value in settings.items():
            if setting not in known:
                hint = did_you_mean(setting, known, "it has")
                raise SettingsError(f'{name}: a connection to {self.name} has no "{setting}"; {hint}')
            secret = known[setting] == "secret"
            checked[setting] = _secret(name, setting, value, self.model) if secret else value
        absent = missing(known, list(settings))
        if absent:
            raise SettingsError(f"{name}: a connection to {self.name} needs {absent[0]}")
        plain = {setting: value for setting, value in checked.items() if known[setting] != "secret"}
        wrong = check_fields({setting: known[setting] for setting in plain}, plain)
        if wrong:
            raise SettingsError(f"{name}: {wrong[0]}")
        service = Service(
            name=name,
            place=Place.read(name, settings, self.model.origin or ""),
            tools=tools,
            auth=self.model.auth or {},
            resolve=resolver(tools, checked),
        )
        declared_plain = {setting: plain.get(setting) for setting, kind in known.items() if kind != "secret"}
        return _Connection(kind=self, service=service, plain=declared_plain)


def _secret(name: str, setting: str, value: Json, model: ConnectorModel) -> Json:
    """Credentials are named, never written; only the user of basic auth may be a plain text."""
    basic = (model.auth or {}).get("basic")
    if isinstance(basic, Mapping) and basic.get("user") == setting:
        return secret_or_text(name, setting, value)
    return secret_only(name, setting, value)


def declared(name: str, model: ActionModel) -> Action:
    """What the engine is told about an action of a file."""
    return Action(
        name=name,
        title=model.title or "",
        effect="read" if model.reads else model.writes or "once",
        input=model.input or {},
        output=({"found": "yes_no", **(model.output or {})} if model.reads else model.output or {}),
        key_life=duration(model.key.life).ms if model.key is not None and model.key.life else 0,
        has_lookup=model.lookup is not None,
        lookup_delay=duration(model.lookup.delay).ms if model.lookup is not None and model.lookup.delay else 0,
        find_by=tuple(model.find.by) if model.find is not None else (),
        undo=Undo(action=model.undo.action, with_=model.undo.with_ or {}) if model.undo is not None else None,
        cannot_undo=model.cannot_undo or "",
        sample=model.sample,
        retry=_retry(model),
        timeout=duration(model.timeout).ms if model.timeout else 30_000,
    )


def _retry(model: ActionModel) -> Retry | None:
    if model.retry is None:
        return None
    said = model.retry.model_dump(exclude_none=True)
    tries, pause, longest = (5, "1 s", "1 min") if model.reads else (4, "10 s", "5 min")
    return Retry(
        tries=said.get("tries", tries),
        pause=duration(said.get("pause", pause)).ms,
        growth=said.get("growth", "double"),
        longest=duration(said.get("longest", longest)).ms,
        never_on=frozenset(said.get("never_on", ())),
    )


class _Connection:
    """One connection to a declared service."""

    def __init__(self, *, kind: DeclarativeKind, service: Service, plain: Mapping[str, Json]) -> None:
        self._kind = kind
        self._service = service
        self._plain = plain
        self._clock = MachineClock()
        self._needs_input = {name: _answer_uses_input(action) for name, action in kind.model.actions.items()}

    @property
    def actions(self) -> Mapping[str, Action]:
        return self._kind.actions()

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        model = self._model(action)
        request = _request_for(model, action, purpose)
        if purpose == "find":
            unknown = [name for name in input if name not in self.actions[action].find_by]
            if unknown:
                by = ", ".join(self.actions[action].find_by)
                raise RequestError(f'{action} cannot be found by "{unknown[0]}"; it can be found by {by}')
            given = {name: input.get(name) for name in self.actions[action].find_by}
        else:
            given = checked_input(self.actions[action], input)
        scope = {"input": given, "connection": self._plain, "key": key}
        carrier = model.key if purpose in ("do", "undo") else None
        if carrier is not None and carrier.header:
            checked_header(carrier.header, key)
        body = render(request, scope, key=key, carrier=carrier, url=self._service.url)
        if self._needs_input[action]:
            body["input"] = {name: value for name, value in given.items() if value is not None}
        return Request.of(body)

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        model = self._model(action)
        asks = purpose in ("read", "find", "lookup", "undo_lookup") or bool(model.reads)
        carried = model.key if not asks else None
        extra = {carried.header.lower(): key} if carried is not None and carried.header else {}
        found = await self._service.exchange(
            request.body,
            extra=extra,
            reads=asks,
            once=not asks and model.writes == "once",
            limit=limit,
        )
        if isinstance(found, Outcome):
            return found
        given = {**dict.fromkeys(model.input or {}), **request.body.get("input", {})}
        seen = Seen.of(
            found,
            {"input": given, "connection": self._plain, "key": key},
            host=self._service.host(request.body),
            url=str(request.body["url"]),
            now=self._clock.now(),
            redact=self._service.tools.redact,
        )
        if purpose == "find" and model.find is not None:
            return counted(model.find, model, seen)
        if purpose in ("lookup", "undo_lookup") and model.lookup is not None:
            return counted(model.lookup, model, seen)
        return outcome_of(model, seen, undo=purpose == "undo")

    async def close(self) -> None:
        await self._service.client.close()

    def origin(self) -> str:
        return self._service.place.origin

    def _model(self, action: str) -> ActionModel:
        model = self._kind.model.actions.get(action)
        if model is None:
            hint = did_you_mean(action, self._kind.model.actions, "it has")
            raise RequestError(f'{self._service.name} has no action "{action}"; {hint}')
        return model


def _request_for(model: ActionModel, action: str, purpose: Purpose) -> RequestModel:
    if purpose == "find":
        if model.find is None:
            raise RequestError(f"{action} says nothing about how it is found")
        return model.find.request
    if purpose in ("lookup", "undo_lookup"):
        if model.lookup is None:
            raise RequestError(f"{action} says nothing about how it is looked up")
        return model.lookup.request
    return model.request


def _answer_uses_input(model: ActionModel) -> bool:
    """Whether the reading of the answer needs the input, which then is kept with the request."""
    texts: list[Any] = [model.success, model.external_id, *(model.result or {}).values()]
    for line in model.failures or []:
        texts += [line.when, line.say]
    for block in (model.lookup, model.find):
        if block is not None:
            texts += [block.count, block.external_id, *(block.output or {}).values()]
    return any(use.path[0] == "input" for text in texts if isinstance(text, str) for use in names(text))
