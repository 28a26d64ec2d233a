"""What a run pins: the flow, those it calls, its templates and what its connectors say of their actions, by one digest.

Editing a file never changes a run under way: a run is decided by its bundle alone. A bundle is a set of named texts
(`flow:signup`, `schema:schemas/signup.json`, `template:welcome.md`, `connector:billing`, `actions:mail`, `project`,
and `calendar` where business days or hours matter), stored once per digest. The flow of `then_run` has a bundle of its
own, pinned at the same time and named by its digest.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock

from runner.contract import Action, Json, canonical
from runner.contract import digest as digest_of
from runner.errors import InvalidFlow, StoreCorrupt
from runner.language.actions import action_from_json, action_to_json
from runner.language.calendar import Calendar
from runner.language.called import every_called, fit_flow
from runner.language.duty import calendar_of
from runner.language.facts import ProjectFacts
from runner.language.flow import MODEL, NUMBERED, Flow, Step
from runner.language.load import load_flow
from runner.language.personal import TEXT as PERSONAL
from runner.language.personal import marks as personal_marks
from runner.language.source import Place, ReadFile, problem_at

KEPT = 256
CALENDAR = "calendar"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """One pinned version of a flow with everything it needs to be decided.

    `actions` maps `connection.action` to what the connector says of it; `templates` file name to text; `texts` is what
    is stored. `zone` and `language` are the project's at the time. `called` are the flows that are called, directly or
    by another one, by id. `follows` is the digest of the bundle of `then_run`, empty without one; `beside` holds the
    texts of that and of what follows it, by digest: a store that keeps this bundle keeps them too.
    """

    digest: str
    flow: Flow
    actions: Mapping[str, Action]
    templates: Mapping[str, str] = field(default_factory=dict)
    zone: str = "UTC"
    calendar: Calendar | None = None
    language: str = "en"
    project: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, Step] = field(default_factory=dict)
    """Every step by its pattern, `patterns` says how."""
    called: Mapping[str, Flow] = field(default_factory=dict)
    follows: str = ""
    follow: Flow | None = None
    """Of the flow of `then_run` its id and its inputs."""
    beside: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False)
    reached: dict[int, tuple[Step, frozenset[str] | None]] = field(default_factory=dict, compare=False, repr=False)
    """By a step's `id()`: the step, and the names that what it sends is worked out of, once that was asked."""

    @property
    def working(self) -> Calendar:
        """When people work: what business days and hours go by."""
        return self.calendar or Calendar(zone=self.zone)

    def step(self, path: str) -> Step:
        """The step at a path of the log: `invoices/3/send` is the step `send` inside `invoices`. Raises KeyError."""
        return self.steps[path if "/" not in path else "/".join(_names(path))]

    def find(self, path: str) -> Step | None:
        """As `step`; None where there is none."""
        return self.steps.get("/".join(_names(path)))

    def flow_at(self, scope: str) -> Flow:
        """The flow whose steps stand directly in this scope: a called flow, or the root's (`""`). Raises KeyError."""
        names = _names(scope) if scope else []
        while names:
            step = self.steps["/".join(names)]
            if step.verb == "call":
                return self.called[step.flow]
            names.pop()
        return self.flow

    def connections(self) -> list[str]:
        """The connections that it uses, and those of what follows it."""
        names = {name for texts in (self.texts, *self.beside.values()) for name in texts}
        return sorted(name.partition(":")[2] for name in names if name.startswith("actions:"))

    def connector(self, connection: str) -> tuple[str, str]:
        """(connector's name, its YAML text or empty for one in Python) of a connection that the flow uses.

        Raises KeyError for another name.
        """
        described = json.loads(self.texts[f"actions:{connection}"])
        return described["connector"], self.texts.get(f"connector:{connection}", "")


def _names(path: str) -> list[str]:
    """The ids in a path; the numbers of items are left out."""
    return [part for part in path.split("/") if not part.isdigit()]


def patterns(flow: Flow, called: Mapping[str, Flow]) -> dict[str, Step]:
    """Every step by its pattern: its id, behind the ids of the `each`, `call` and `agent` steps it runs in:
    `log/mail`."""
    return dict(_patterns(flow.steps, "", called))


def _patterns(steps: tuple[Step, ...], scope: str, called: Mapping[str, Flow]) -> Iterator[tuple[str, Step]]:
    for step in steps:
        here = scope + step.id
        yield here, step
        if step.verb == "call":
            yield from _patterns(called[step.flow].steps, f"{here}/", called)
        if step.verb == "agent":
            yield f"{here}/{MODEL}", step.turn
        for branch in step.branches:
            yield from _patterns(branch.steps, f"{here}/" if step.verb in NUMBERED else scope, called)


def assemble(flow_text: str, file: str, facts: ProjectFacts) -> Bundle:
    """Pins a flow as it stands now. Raises InvalidFlow if a text has a problem of shape; the rules are not asked."""
    return _assemble(_flow_of(flow_text, file, facts.read_file), flow_text, facts, ())


def _assemble(flow: Flow, text: str, facts: ProjectFacts, before: tuple[str, ...]) -> Bundle:
    called = every_called(flow, facts)
    flows = (flow, *(other for other, _ in called.values()))
    following = _following(flow, facts, (*before, flow.id))
    around: dict[str, Json] = {
        "flow": flow.id,
        "file": flow.file,
        "called": {name: other.file for name, (other, _) in called.items()},
        "follows": following.digest if following is not None else "",
        "zone": facts.zone,
        "language": facts.language,
        "project": facts.project,
    }
    if following is not None:
        next_flow = following.flow
        around["next"] = {"id": next_flow.id, "inputs": next_flow.inputs, "schema": next_flow.schema}
    texts = {f"flow:{name}": other for name, (_, other) in called.items()}
    texts |= {f"flow:{flow.id}": text, "project": canonical(around).decode()}
    used = _used_actions(flows, facts)
    for connection, actions in used.items():
        found = facts.connections.get(connection)
        described = {
            "connector": found.connector if found is not None else connection,
            "actions": {name: action_to_json(action) for name, action in actions.items()},
        }
        texts[f"actions:{connection}"] = canonical(described).decode()
        if found is not None and found.found.text:
            texts[f"connector:{connection}"] = found.found.text
    for one in flows:
        if one.schema_file:
            texts[f"schema:{one.schema_file}"] = _text_of(one.schema_file, facts)
        texts |= {f"template:{name}": found for name, found in used_templates(one, facts.templates).items()}
    named = {f"{connection}.{name}": each for connection, actions in used.items() for name, each in actions.items()}
    if facts.people.calendars and any(_reckons(one) for one in texts.items()):
        texts[CALENDAR] = canonical(calendar_of(facts.people, facts.zone).as_json()).decode()
    if personal := personal_marks(flows, named):
        texts[PERSONAL] = personal
    bundle = restore(digest_of(texts), texts)
    return bundle if following is None else replace(bundle, beside=_kept_beside(following))


def _reckons(named: tuple[str, str]) -> bool:
    """Whether a text may speak of business days: an approval has some by itself."""
    name, text = named
    return name.startswith(("flow:", "template:")) and ("business" in text or "approve" in text)


def _following(flow: Flow, facts: ProjectFacts, before: tuple[str, ...]) -> Bundle | None:
    """The bundle of what is run after a failure."""
    name = flow.on_failure.then_run
    if not name:
        return None
    if name in before:
        what = f"the flows follow each other without end: {' -> '.join((*before, name))}"
        raise InvalidFlow((problem_at(flow.file, Place(line=1, column=1), "FL101", what),), {})
    return _assemble(*fit_flow(flow, name, facts), facts, before)


def _kept_beside(following: Bundle) -> dict[str, Mapping[str, str]]:
    return {**following.beside, following.digest: following.texts}


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
    around = json.loads(texts.get("project", "{}"))
    flows = [name.partition(":")[2] for name in texts if name.startswith("flow:")]
    root = around.get("flow", flows[0] if len(flows) == 1 else "")
    if root not in flows or not around:
        raise StoreCorrupt(f"bundle {digest[:12]} has no flow")
    schemas = {name.partition(":")[2]: text for name, text in texts.items() if name.startswith("schema:")}
    files = {**around.get("called", {}), root: around["file"]}
    found = {
        name: _flow_of(
            texts[f"flow:{name}"], files[name], lambda name: (schemas[name], None) if name in schemas else None
        )
        for name in flows
    }
    flow = found.pop(root)
    return Bundle(
        digest=digest,
        flow=flow,
        actions=dict(_stored_actions(texts)),
        templates={name.partition(":")[2]: text for name, text in texts.items() if name.startswith("template:")},
        zone=around["zone"],
        calendar=Calendar.of_json(json.loads(texts[CALENDAR])) if CALENDAR in texts else None,
        language=around["language"],
        project=around["project"],
        texts=texts,
        steps=patterns(flow, found),
        called=found,
        follows=around.get("follows", ""),
        follow=Flow(title="", owner="", **around["next"]) if "next" in around else None,
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


def _used_actions(flows: tuple[Flow, ...], facts: ProjectFacts) -> dict[str, dict[str, Action]]:
    used: dict[str, dict[str, Action]] = {}
    waiting = list(dict.fromkeys(name for flow in flows for name in used_action_names(flow)))
    while waiting:
        name = waiting.pop(0)
        connection, _, action_name = name.partition(".")
        action = facts.actions.get(name)
        if action is None or action_name in used.get(connection, {}):
            continue
        used.setdefault(connection, {})[action_name] = action
        others = (other for other in (action.undo, action.draft) if other is not None)
        waiting.extend(f"{connection}.{other.action}" for other in others)
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
