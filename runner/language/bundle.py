"""What a run pins: the flow, its templates and what its connectors say of their actions, by one digest.

Editing a file never changes a run under way: a run is decided by its bundle alone. A bundle is a set of named texts
(`flow:signup`, `schema:schemas/signup.json`, `template:welcome.md`, `connector:billing`, `actions:mail`, `project`),
stored once per digest.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from threading import Lock

from runner.contract import Action, Json, Retry, Undo, canonical
from runner.contract import digest as digest_of
from runner.errors import InvalidFlow, StoreCorrupt
from runner.language.facts import ProjectFacts
from runner.language.flow import Flow, Step
from runner.language.load import load_flow
from runner.language.source import ReadFile

KEPT = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """One pinned version of a flow with everything it needs to be decided.

    `actions` maps `connection.action` to what the connector says of it; `templates` file name to text; `texts` is what
    is stored. `zone` and `language` are the project's at the time.
    """

    digest: str
    flow: Flow
    actions: Mapping[str, Action]
    templates: Mapping[str, str] = field(default_factory=dict)
    zone: str = "UTC"
    language: str = "en"
    project: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, Step] = field(default_factory=dict)
    """Every step by its id."""

    def connector(self, connection: str) -> tuple[str, str]:
        """(connector's name, its YAML text or empty for one in Python) of a connection that the flow uses.

        Raises KeyError for another name.
        """
        described = json.loads(self.texts[f"actions:{connection}"])
        return described["connector"], self.texts.get(f"connector:{connection}", "")


def assemble(flow_text: str, file: str, facts: ProjectFacts) -> Bundle:
    """Pins a flow as it stands now. Raises InvalidFlow if the text has a problem of shape; the rules are not asked."""
    flow = _flow_of(flow_text, file, facts.read_file)
    around = {"file": file, "zone": facts.zone, "language": facts.language, "project": facts.project}
    texts = {f"flow:{flow.id}": flow_text, "project": canonical(around).decode()}
    for connection, actions in _used_actions(flow, facts).items():
        found = facts.connections.get(connection)
        described = {
            "connector": found.connector if found is not None else connection,
            "actions": {name: action_to_json(action) for name, action in actions.items()},
        }
        texts[f"actions:{connection}"] = canonical(described).decode()
        if found is not None and found.found.text:
            texts[f"connector:{connection}"] = found.found.text
    if flow.schema_file:
        texts[f"schema:{flow.schema_file}"] = _text_of(flow.schema_file, facts)
    texts |= {f"template:{name}": text for name, text in used_templates(flow, facts.templates).items()}
    return restore(digest_of(texts), texts)


def _text_of(name: str, facts: ProjectFacts) -> str:
    found = facts.read_file(name)
    return found[0] if found is not None else ""


def _flow_of(text: str, file: str, read_file: ReadFile) -> Flow:
    flow, _, problems = load_flow(text, file, read_file)
    if flow is None or any(found.level == "error" for found in problems):
        raise InvalidFlow(problems, {file: text})
    return flow


def restore(digest: str, texts: Mapping[str, str]) -> Bundle:
    """The bundle out of its stored texts; the last ones asked for are kept. Raises StoreCorrupt, InvalidFlow."""
    with _lock:
        kept = _kept.get(digest)
        if kept is not None:
            _kept.move_to_end(digest)
            return kept
    bundle = _restore(digest, texts)
    with _lock:
        _kept[digest] = bundle
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return bundle


_kept: OrderedDict[str, Bundle] = OrderedDict()
_lock = Lock()


def _restore(digest: str, texts: Mapping[str, str]) -> Bundle:
    texts = dict(texts)
    if digest_of(texts) != digest:
        raise StoreCorrupt(f"the stored texts of bundle {digest[:12]} are not what the run began with")
    named = [name for name in texts if name.startswith("flow:")]
    if len(named) != 1 or "project" not in texts:
        raise StoreCorrupt(f"bundle {digest[:12]} has no flow")
    around = json.loads(texts["project"])
    schemas = {name.partition(":")[2]: text for name, text in texts.items() if name.startswith("schema:")}
    flow = _flow_of(texts[named[0]], around["file"], lambda name: (schemas[name], None) if name in schemas else None)
    return Bundle(
        digest=digest,
        flow=flow,
        actions=dict(_stored_actions(texts)),
        templates={name.partition(":")[2]: text for name, text in texts.items() if name.startswith("template:")},
        zone=around["zone"],
        language=around["language"],
        project=around["project"],
        texts=texts,
        steps={step.id: step for step in flow.every_step()},
    )


def _stored_actions(texts: Mapping[str, str]) -> Iterator[tuple[str, Action]]:
    for name, text in texts.items():
        kind, _, connection = name.partition(":")
        if kind == "actions":
            for action, described in json.loads(text)["actions"].items():
                yield f"{connection}.{action}", action_from_json(described)


# --- what a flow uses ----------------------------------------------------------------------------------------------


def used_action_names(flow: Flow) -> Iterator[str]:
    """Every `connection.action` that a flow names itself, those of its compensations too."""
    for step in flow.every_step():
        words = step.compensate
        for action, shown in ((step.action, step.show), (words.action, words.show) if words is not None else ("", {})):
            if action:
                yield action
            if isinstance(shown.get("read"), str):
                yield shown["read"]
        if words is not None and words.word == "quarantine" and words.target:
            yield "quarantine.add"


def _used_actions(flow: Flow, facts: ProjectFacts) -> dict[str, dict[str, Action]]:
    used: dict[str, dict[str, Action]] = {}
    waiting = list(dict.fromkeys(used_action_names(flow)))
    while waiting:
        name = waiting.pop(0)
        connection, _, action_name = name.partition(".")
        action = facts.actions.get(name)
        if action is None or action_name in used.get(connection, {}):
            continue
        used.setdefault(connection, {})[action_name] = action
        if action.undo is not None:
            waiting.append(f"{connection}.{action.undo.action}")
    return used


def used_templates(flow: Flow, templates: Mapping[str, str]) -> dict[str, str]:
    """The files of each template that is named; all of them where a name is an expression."""
    named: set[str] = set()
    for step in flow.every_step():
        compensation = step.compensate.with_ if step.compensate is not None else {}
        named.update(str(given["template"]) for given in (step.with_, compensation) if "template" in given)
    if any("${{" in name for name in named):
        return dict(templates)
    return {name: text for name, text in templates.items() if name.split(".")[0] in named or name in named}


# --- an action as JSON ---------------------------------------------------------------------------------------------


def action_to_json(action: Action) -> dict[str, Json]:
    """An action as JSON, without what has its default."""
    written: dict[str, Json] = {}
    for one in fields(Action):
        value = getattr(action, one.name)
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        if value != default:
            written[one.name] = _plain(value)
    return written


def _plain(value: Json) -> Json:
    if isinstance(value, Undo):
        return {"action": value.action, "with": _plain(value.with_)}
    if isinstance(value, Retry):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(Retry)}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def action_from_json(written: Mapping[str, Json]) -> Action:
    """The action out of its JSON; keys that this version does not know are passed over."""
    known = {one.name for one in fields(Action)}
    given = {key: value for key, value in written.items() if key in known}
    if given.get("undo") is not None:
        given["undo"] = Undo(action=given["undo"]["action"], with_=given["undo"]["with"])
    if given.get("retry") is not None:
        given["retry"] = Retry(**{**given["retry"], "never_on": frozenset(given["retry"]["never_on"])})
    if "find_by" in given:
        given["find_by"] = tuple(given["find_by"])
    return Action(**given)
