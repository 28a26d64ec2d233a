"""Connectors written in YAML: one file per service, checked whole when it loads.

Begin at `kind_from_text`. The shape is `model.py`, the rules are `checks.py`, requests are made by `rendering.py` and
answers read by `reading.py`; what all HTTP connections share is `service.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from importlib.resources import files
from pathlib import PurePath
from types import SimpleNamespace

from connectors.auth import checked_header, named_values
from connectors.batching import Rows
from connectors.checks import check_connector, known_settings
from connectors.model import ActionModel, ConnectorModel, completed, schema
from connectors.openapi.writing import import_document
from connectors.paging import read_pages
from connectors.reading import counted, outcome_of
from connectors.rendering import Template, checked_input, formed
from connectors.service import (
    Service,
    check_settings,
    is_secret,
    no_such_action,
    read_place,
    resolver,
    secret_only,
    token_source,
)
from runner.contract import Action, Connector, ConnectorKind, Draft, Json, Outcome, Purpose, Request, Retry, Tools, Undo
from runner.errors import Problem, RequestError, SettingsError
from runner.language.clauses import duration, given
from runner.language.expressions import names
from runner.language.fields import FieldType, field_types
from runner.language.fitting import fit
from runner.language.source import read
from runner.language.types import check_fields

_STAND_IN: Mapping[str, Json] = {"title": "?", "connector": "unnamed"}


@lru_cache(maxsize=128)
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


@cache
def shipped() -> Mapping[str, str]:
    """The connector files that come with Amends: name to text."""
    folder = files("connectors")
    return {
        entry.name.removesuffix(".yaml"): entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda one: one.name)
        if entry.name.endswith(".yaml")
    }


DECLARATIVE = SimpleNamespace(
    kind_from_text=kind_from_text,
    shipped=shipped,
    schema=schema,
    imported=partial(import_document, check=lambda text, file: kind_from_text(text, file)[1]),
)
"""What the entry point `declarative` names: makes kinds out of files, and files out of OpenAPI documents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """One action of a file, read once for all its calls."""

    model: ActionModel
    action: Action
    types: Mapping[str, FieldType]
    templates: Mapping[Purpose, Template]
    keeps_input: bool
    """Whether the reading of the answer needs the input, which then is kept with the request."""
    reads_text: bool
    """Whether the reading of the answer needs it as text."""

    @classmethod
    def of(cls, name: str, model: ActionModel, personal: tuple[str, ...]) -> _Plan:
        asked = Template(model.request, model.key, model.rows.of if model.rows is not None else None)
        templates: dict[Purpose, Template] = {"do": asked, "undo": asked, "read": asked}
        if model.find is not None:
            templates["find"] = Template(model.find.request)
        if model.lookup is not None:
            templates["lookup"] = templates["undo_lookup"] = Template(model.lookup.request)
        used = {use.path[:2] for text in _answer_texts(model) if isinstance(text, str) for use in names(text)}
        return cls(
            model=model,
            action=declared(name, model, personal),
            types=field_types(model.input or {}),
            templates=templates,
            keeps_input=any(path[0] == "input" for path in used),
            reads_text=bool(used & {("response",), ("response", "text")}),
        )


def _answer_texts(model: ActionModel) -> Iterator[Json]:
    """What reads the answer."""
    yield from (model.success, model.external_id, *(model.result or {}).values())
    yield model.key.replayed if model.key is not None else None
    for line in model.failures or ():
        yield from (line.when, line.say)
    for block in (model.lookup, model.find):
        if block is not None:
            yield from (block.count, block.external_id, *(block.output or {}).values())
    if model.pages is not None:
        yield from (model.pages.cursor, model.pages.link, model.pages.last)
    if model.rows is not None:
        yield from (model.rows.answer, model.rows.match, model.rows.status)


def declared(name: str, model: ActionModel, personal: tuple[str, ...] = ()) -> Action:
    """What the engine is told about an action of a file. `personal` are names of fields."""
    key, lookup, find, undo, draft = model.key, model.lookup, model.find, model.undo, model.draft
    return Action(
        name=name,
        title=model.title or "",
        effect="read" if model.reads else model.writes or "once",
        input=model.input or {},
        output={
            **({"found": "yes_no"} if model.reads else {}),
            **(model.output or {}),
            **({"incomplete": "yes_no"} if model.pages is not None else {}),
        },
        key_life=_ms(key.life, 0) if key is not None else 0,
        has_lookup=lookup is not None,
        lookup_delay=_ms(lookup.delay, 0) if lookup is not None else 0,
        find_by=tuple(find.by) if find is not None else (),
        undo=Undo(action=undo.action, with_=undo.with_ or {}) if undo is not None else None,
        cannot_undo=model.cannot_undo or "",
        draft=Draft(action=draft.action, with_=draft.with_ or {}) if draft is not None else None,
        sample=model.sample,
        retry=_retry(model),
        timeout=_ms(model.timeout, 30_000),
        personal=personal,
    )


def _ms(text: str | None, otherwise: int) -> int:
    return duration(text).ms if text else otherwise


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


class DeclarativeKind:
    """The kind of one connector file."""

    def __init__(self, model: ConnectorModel) -> None:
        self.name = model.connector
        self.title = model.title
        self._model = model
        self.limits = {word: said for word in ("rate", "at_once") if (said := getattr(model, word)) is not None}
        personal = tuple(model.personal or ())
        self._plans = {
            name: _Plan.of(name, completed(model, action), personal) for name, action in model.actions.items()
        }
        self._actions = {name: plan.action for name, plan in self._plans.items()}

    def settings(self) -> Mapping[str, Json]:
        return known_settings(self._model)

    def actions(self) -> Mapping[str, Action]:
        return self._actions

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        known, auth = self.settings(), self._model.auth or {}
        check_settings(name, self.name, known, settings)
        for setting, value in settings.items():
            if is_secret(known[setting]):  # credentials are named, never written
                secret_only(name, setting, value)
        named = named_values(auth)
        plain = {
            setting: value
            for setting, value in settings.items()
            if not is_secret(known[setting]) and not (setting in named and isinstance(value, Mapping))
        }
        resolve = resolver(tools, settings)
        for wrong in check_fields({setting: known[setting] for setting in plain}, plain):
            raise SettingsError(f"{name}: {wrong}")
        origin, sandbox = self._model.origin or "", self._model.sandbox
        if sandbox is not None and settings.get("sandbox"):
            origin = sandbox.origin
            settings = {**given(sandbox, "token_url", "authorize_url"), **settings}
        place, client = read_place(name, settings, origin, tools=tools)
        return _Connection(
            name=name,
            actions=self._actions,
            place=place,
            client=client,
            tools=tools,
            auth=auth,
            tokens=token_source(name, auth, settings, place=place, client=client, tools=tools, resolve=resolve),
            resolve=resolve,
            plans=self._plans,
            plain={setting: plain.get(setting) for setting, kind in known.items() if not is_secret(kind)},
        )


@dataclass(kw_only=True)
class _Connection(Service):
    """One connection to a declared service. `plain` are the settings that expressions may use."""

    plans: Mapping[str, _Plan] = field(default_factory=dict)
    plain: Mapping[str, Json] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)

    async def close(self) -> None:
        """Waits for what is on its way, and closes every connection."""
        for rows in self.rows.values():
            await rows.close()
        await super().close()

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        plan = self._plan(action)
        template = plan.templates.get(purpose)
        if template is None:
            how = "found" if purpose == "find" else "looked up"
            raise RequestError(f"{action} says nothing about how it is {how}")
        if purpose == "find":
            by = plan.action.find_by
            for name in input:
                if name not in by:
                    raise RequestError(f'{action} cannot be found by "{name}"; it can be found by {", ".join(by)}')
            given = {name: input.get(name) for name in by}
        else:
            given = checked_input(plan.action, input, plan.types)
        key = formed(key, plan.model.key)
        carrier = plan.model.key if purpose in ("do", "undo") else None
        if carrier is not None and carrier.header:
            checked_header(carrier.header, key)
        body = template.render({"input": given, "connection": self.plain, "key": key}, key=key, url=self.url)
        if plan.keeps_input:
            body["input"] = {name: value for name, value in given.items() if value is not None}
        return Request.of(body)

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        plan = self._plan(action)
        model, carrier = plan.model, plan.model.key
        key = formed(key, carrier)
        asks = purpose not in ("do", "undo") or bool(model.reads)
        given = {**dict.fromkeys(plan.action.input), **request.body.get("input", {})}
        scope = {"input": given, "connection": self.plain, "key": key}
        ask = partial(
            self.exchange,
            scope=scope,
            extra={carrier.header.lower(): key} if carrier is not None and carrier.header and not asks else {},
            reads=asks,
            once=not asks and model.writes == "once",
            with_text=plan.reads_text,
        )
        if model.pages is not None:
            return await read_pages(model, model.pages, request.body, ask=ask, url=self.url, limit=limit)
        if model.rows is not None and "row" in request.body:
            rows = self.rows.setdefault(action, Rows(model.rows, ask))
            seen = await rows.answer(request.body, key=key, limit=limit, scope=scope)
        else:
            seen = await ask(request.body, limit=limit)
        if isinstance(seen, Outcome):
            return seen
        block = model.find if purpose == "find" else model.lookup if purpose in ("lookup", "undo_lookup") else None
        if block is not None:
            return counted(block, model, seen)
        return outcome_of(model, seen, undo=purpose == "undo")

    def _plan(self, action: str) -> _Plan:
        return self.plans.get(action) or no_such_action(self.name, action, self.plans)
