"""A project's own schema of a flow: the one of the language, narrowed to the actions, people, flows and templates of
this project, so that an editor offers `crm.create_contact` and then its fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runner import __version__
from runner.contract import Action, Json, digest, missing
from runner.contract import optional as is_optional
from runner.language.called import named_flow
from runner.language.clauses import APPROVER, WHO, WHO_IF_ANY
from runner.language.facts import ProjectFacts
from runner.language.fields import WORDS, FieldType, shape_of
from runner.language.flow import Flow

Schema = dict[str, Json]

IN_MARKER = r"\$\{\{"
_PLACES: Mapping[str, tuple[str, ...]] = {
    "reads": ("ReadModel.read", "ReadToolModel.read", "HandOffModel.show", "PollModel.poll"),
    "writes": (
        "DoModel.do", "DoToolModel.do", "CancelModel.cancel", "MarkModel.mark", "CorrectModel.correct",
        "QuarantineModel.quarantine",
    ),
    "agents": ("AgentModel.agent",),
}  # fmt: skip
"""Where an action of each sort is named: model and key."""
_EFFECTS: Mapping[str, str] = {
    "read": "Reads: it changes nothing.",
    "keyed": "Changes the world; the service recognises a repeated call.",
    "lookup": "Changes the world; the service can be asked what became of a call.",
    "once": "Changes the world, and is tried once: the service can neither recognise a repeated call nor be asked.",
}


def narrowed(flow: Schema, facts: ProjectFacts) -> Schema:
    """The flow's schema for one project; `$comment` says for which state of it."""
    models: dict[str, Schema] = dict(flow["$defs"])
    sorts: dict[str, dict[str, Action]] = {sort: {} for sort in _PLACES}
    for name, each in facts.actions.items():
        sorts["agents" if each.is_agent else "reads" if each.effect == "read" else "writes"][name] = each
    for sort, places in _PLACES.items():
        for place in places:
            model, _, word = place.partition(".")
            models[model] = _with_actions(models[model], word, sorts[sort], is_tool=model.endswith("ToolModel"))
    for place, connector in (("WebhookModel.signed_by", "webhook"), ("MailboxModel.mail", "imap")):
        model, _, word = place.partition(".")
        lines = {name: each.found.kind.title for name, each in facts.connections.items() if each.connector == connector}
        models[model] = _with_names(models[model], word, lines, [])
    flows = dict(_flows(facts))
    models["CallModel"] = _with_flows(models["CallModel"], "call", flows)
    models["OnFailureModel"] = _with_flows(models["OnFailureModel"], "then_run", flows)
    models |= {f"in {name}": _inputs(each, facts) for name, each in facts.actions.items()}
    models |= {f"part {name}": {**models[f"in {name}"], "required": []} for name in facts.actions}
    models |= {f"in {name}": _inputs_of(name, each) for name, each in flows.items()}
    whole: Schema = {**flow, "$defs": models}
    return {"$comment": state_of(facts), **_with_people(whole, _people(facts))}


def state_of(facts: ProjectFacts) -> str:
    """A digest of everything that the project's own schema is made of."""
    inputs = {name: [flow.title, repr(flow.inputs)] for name, flow in _flows(facts)}
    actions = {
        name: [each.title, each.effect, each.input, list(each.find_by), each.cannot_undo, bool(each.undo)]
        for name, each in facts.actions.items()
    }
    lines = {name: each.connector for name, each in facts.connections.items()}
    return digest([__version__, actions, lines, _people(facts), inputs, sorted(facts.templates)])


def _flows(facts: ProjectFacts) -> Iterator[tuple[str, Flow]]:
    for name in sorted(facts.flows):
        found = named_flow(facts, name)
        if found is not None and found.flow is not None:
            yield name, found.flow


# --- actions -------------------------------------------------------------------------------------------------------


def _with_actions(model: Schema, word: str, actions: Mapping[str, Action], *, is_tool: bool) -> Schema:
    """The model of a step, compensation or trigger whose `word` names one of these actions. Of a tool's input a part is
    written, the rest comes from the agent."""
    names = {name: told(each) for name, each in actions.items()}
    own = [{"pattern": "^[A-Za-z][A-Za-z0-9_]*$", "title": "a list of our own"}] if word == "quarantine" else []
    named = [
        _if_named(word, name, () if is_tool else missing(each.input, ()), each, "part" if is_tool else "in")
        for name, each in actions.items()
        if word != "show"
    ]
    return _with_names(model, word, names, named, own)


def _with_names(
    model: Schema, word: str, names: Mapping[str, str], named: list[Schema], more: Sequence[Schema] = ()
) -> Schema:
    """The model with these names (and what they are) at one key, and what follows from each. Without any, as it is."""
    if not names:
        return model
    place = {**model["properties"][word], "examples": [next(iter(names))], "anyOf": [*_consts(names), *more]}
    place.pop("pattern", None)
    return {**model, "properties": {**model["properties"], word: place}, **({"allOf": named} if named else {})}


def _consts(names: Mapping[str, str]) -> list[Schema]:
    return [{"const": name, "title": name, "description": about} for name, about in names.items()]


def _if_named(word: str, name: str, needs: Sequence[str], action: Action | None = None, kind: str = "in") -> Schema:
    then: Schema = {"properties": {"with": {"$ref": f"#/$defs/{kind} {name}"}}}
    if needs:
        then["required"] = ["with"]
    if action is not None and action.find_by and word == "do":
        found = {field: given(field, action.input.get(field, "any")) for field in action.find_by}
        then["properties"]["find"] = {"title": "Find", "properties": found, "additionalProperties": False}
    return {"if": {"properties": {word: {"const": name}}, "required": [word]}, "then": then}


def _inputs(action: Action, facts: ProjectFacts) -> Schema:
    fields = {name: given(name, written) for name, written in action.input.items()}
    if action.renders_template and "template" in fields:
        names = sorted({name.partition(".")[0] for name in facts.templates})
        fields["template"] = {**fields["template"], "examples": names[:3] or ["welcome"], **_one_of(names)}
    return {
        "title": f"Input of {action.name}",
        "properties": fields,
        "required": missing(action.input, ()),
        "additionalProperties": action.open_input,
    }


def _one_of(names: list[str]) -> Schema:
    """One of these names, or an expression."""
    return {"anyOf": [{"enum": names}, {"pattern": IN_MARKER}]} if names else {}


def told(action: Action) -> str:
    """What an action does, as an editor shows it: title, effect, how it is undone, fields and answer."""
    undone = f"It is undone by {action.undo.action}." if action.undo is not None else action.cannot_undo
    takes = ", ".join(f"{name}{'?' if is_optional(kind) else ''}" for name, kind in action.input.items())
    gives = ", ".join(action.output)
    lines = [action.title, " ".join(filter(None, (_EFFECTS[action.effect], undone)))]
    lines += [f"Takes: {takes}." if takes else "", f"Answers: {gives}." if gives else ""]
    return "\n\n".join(filter(None, lines))


# --- fields --------------------------------------------------------------------------------------------------------


def given(name: str, written: Json) -> Schema:
    """What a flow may write into a field of this type: a value of it, or an expression."""
    shape = shape_of(written) or FieldType(kind="any")
    words = [WORDS.get(shape.kind, "anything") if shape.kind != "choice" else "one of its choices"]
    words += ["may be left out"] if is_optional(written) else []
    about = ", ".join(words)
    title = name.replace("_", " ").capitalize()
    return {
        "title": shape.label or title,
        "description": f"{shape.help} {about.capitalize()}." if shape.help else f"{about.capitalize()}.",
        "examples": [f"${{{{ inputs.{name} }}}}"],
        **_shape(shape),
    }


def _shape(shape: FieldType) -> Schema:
    kind = shape.kind
    wrong = f"not {WORDS.get(kind, '')}, and not an expression ${{{{ … }}}}"
    marker = {"pattern": IN_MARKER, "patternErrorMessage": wrong}
    if kind == "any":
        return {}
    if kind == "choice":
        return {"anyOf": [{"enum": list(shape.choices)}, marker]}
    if kind in ("number", "integer"):
        return {"type": [kind, "string"], **marker}
    if kind == "yes_no":
        return {"anyOf": [{"enum": [True, False, "yes", "no"]}, {"type": "string", **marker}]}
    if kind == "money":
        return {"type": ["number", "object", "string"], **marker}
    if kind == "list":
        return {"type": ["array", "string"], **marker}
    if kind in ("record", "file"):
        inside = {name: given(name, one) for name, one in (shape.fields or {}).items()}
        return {"type": ["object", "string"], **({"properties": inside} if inside else {}), **marker}
    return {"type": "string"}


# --- flows and people ----------------------------------------------------------------------------------------------


def _with_flows(model: Schema, word: str, flows: Mapping[str, Flow]) -> Schema:
    named = [_if_named(word, name, _inputs_of(name, each)["required"]) for name, each in flows.items()]
    return _with_names(model, word, {name: each.title for name, each in flows.items()}, named)


def _inputs_of(name: str, flow: Flow) -> Schema:
    shapes = {one: shape_of(written) or FieldType(kind="any") for one, written in flow.inputs.items()}
    return {
        "title": f"Inputs of {name}",
        "properties": {one: given(one, written) for one, written in flow.inputs.items()},
        "required": [one for one, shape in shapes.items() if not shape.optional and shape.default is None],
        "additionalProperties": False,
    }


def _people(facts: ProjectFacts) -> dict[str, str]:
    people = facts.people
    return {
        "person:me": "Whoever starts the run from the terminal.",
        **{f"person:{name}": each.name for name, each in people.people.items()},
        **{f"person:{name}": f"The post, held by {holder}." for name, holder in people.posts.items()},
        **{f"team:{name}": f"The team of {', '.join(each.members)}." for name, each in people.teams.items()},
    }


_MORE: Mapping[str, Mapping[str, str]] = {
    WHO: {},
    APPROVER: {"manager_of:starter": "The manager of whoever starts the run."},
    WHO_IF_ANY: {"nobody": "Nobody."},
}
"""Who else may stand where the schema has this pattern."""


def _with_people(part: Any, known: dict[str, str]) -> Any:
    """Every place where somebody is named, with the names that there are."""
    if isinstance(part, list):
        return [_with_people(item, known) for item in part]
    if not isinstance(part, dict):
        return part
    pattern = part.get("pattern")
    if not isinstance(pattern, str) or pattern not in _MORE:
        return {key: value if key == "examples" else _with_people(value, known) for key, value in part.items()}
    rest = {key: value for key, value in part.items() if key != "pattern"}
    examples: Schema = {"examples": [next(reversed(known))]} if "examples" in part else {}
    return {**rest, **examples, "anyOf": _consts({**known, **_MORE[pattern]})}
