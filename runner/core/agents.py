"""Agents: a model that works towards a goal with tools, one thing at a time, each of them a call like any other.

What an agent does is numbered from 1 (`handle/3`): a turn of its model, which is a read (`handle/1/model`), or one call
of a tool (`handle/2/find_contact`). A turn may want several tools; they are carried out in order, one after the other.
Which tools there are, and what of their input is fixed, stands in the flow alone: nothing that a model or a tool
answers can change it. What does not fit goes back to the model, and counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from runner.contract import Action, Json
from runner.core import events as e
from runner.core.commands import Command, Record
from runner.core.paths import is_in, join, number_of
from runner.core.place import Place, action_input, complete
from runner.core.state import Scope, State, StepState
from runner.errors import EvaluationError
from runner.language.bundle import Bundle
from runner.language.fields import field_types, holds_file
from runner.language.flow import MODEL, Step
from runner.language.nearest import did_you_mean
from runner.language.types import read_entries

MOST_FAULTS = 5
_TEMPLATED = ("template", "values", "language")


def moves_of(state: State, path: str) -> list[Scope]:
    """What the agent at this path did so far: turns of its model and calls of tools, in order."""
    found: list[Scope] = []
    while (scope := state.scopes.get(join(path, str(len(found) + 1)))) is not None:
        found.append(scope)
    return found


def belongs_to_agent(bundle: Bundle, path: str) -> bool:
    """The step at this path is an agent, or does something for one."""
    step = bundle.find(path) if path else None
    return step is not None and (step.verb == "agent" or step.tool_of != "")


def begin(place: Place) -> tuple[Command, ...] | None:
    """What an agent that has not begun asks for; None where it is under way."""
    if place.known is not None:
        return None
    if place.is_passed_over:
        return place.skip()
    given = place.value(dict(place.step.with_))
    return (Record(event=e.ScopeStarted(at=place.now, step=place.path, kind="agent", value=given)),)


def steps_now(place: Place) -> tuple[str, tuple[Step, ...]]:
    """(scope, steps) of what the agent did last; a call that did not fit has none."""
    moves = moves_of(place.state, place.path)
    if not moves:
        return "", ()
    scope = join(place.path, str(len(moves)))
    if moves[-1].kind == "turn":
        return scope, (place.step.turn,)
    return scope, () if moves[-1].inputs["wrong"] else _branch(place.step, moves[-1].name)


def _branch(agent: Step, tool: str) -> tuple[Step, ...]:
    return next((branch.steps for branch in agent.branches if branch.name == tool), ())


def next_move(place: Place) -> tuple[Command, ...]:
    """What follows when the last thing has ended: the next tool that the model wants, its next turn, or the end."""
    moves = moves_of(place.state, place.path)
    turn = next((number for number, move in reversed([*enumerate(moves, 1)]) if move.kind == "turn"), 0)
    said = _said(place, turn)
    wanted = _wanted(place.state.steps.get(join(join(place.path, str(turn)), MODEL), StepState()))
    begun = len(moves) - turn
    has_more = begun < len(wanted)
    if turn and not wanted:
        return (_end(place, said),)
    over = _over_limit(place, moves, wanted[begun]["tool"] if has_more else "")
    if over:
        return (Record(event=e.StepFailed(at=place.now, step=place.path, kind="limit", summary=over)),)
    path = join(place.path, str(len(moves) + 1))
    if has_more:
        tool, value = _asked(place, wanted[begun])
        return (Record(event=e.ScopeStarted(at=place.now, step=path, kind="tool", name=tool, value=value)),)
    return (Record(event=e.ScopeStarted(at=place.now, step=path, kind="turn")),)


def _said(place: Place, turn: int) -> Mapping[str, Json]:
    """What the model answered in this turn; nothing where a person passed it over."""
    return place.state.steps.get(join(join(place.path, str(turn)), MODEL), StepState()).output


def _wanted(turn: StepState) -> Sequence[Mapping[str, Json]]:
    """The tools that the model wants, each with its `input`. Raises EvaluationError, also where the answer was lost."""
    calls = turn.output.get("calls", [] if turn.status != "done" else None)
    if not isinstance(calls, list):
        raise EvaluationError("what its model answered cannot be read")
    for call in calls:
        if not isinstance(call, Mapping) or not isinstance(call.get("input"), Mapping) or "tool" not in call:
            raise EvaluationError("what its model answered names no tool and its input")
    return calls


def _end(place: Place, said: Mapping[str, Json]) -> Command:
    state, path = place.state, place.path
    turns = [_said(place, number) for number, move in enumerate(moves_of(state, path), 1) if move.kind == "turn"]
    costs = [turn["cost"] for turn in turns if turn.get("cost") is not None]
    did = [
        {"tool": move.name, "outcome": known.outcome, "id": _outside_id(state, path, number, move)}
        for number, move in enumerate(moves_of(state, path), 1)
        if move.kind == "tool" and (known := _known(state, path, number, move)) is not None
    ]
    output = {
        "text": said.get("text", ""), "model": said.get("model", ""), "did": did,
        "tokens": sum(turn.get("tokens", 0) for turn in turns), "cost": sum(costs) if costs else None,
    }  # fmt: skip
    return Record(event=e.ScopeEnded(at=place.now, step=path, kind="agent", outcome="done", output=output))


def _known(state: State, path: str, number: int, move: Scope) -> StepState | None:
    return state.steps.get(join(join(path, str(number)), move.name))


def _outside_id(state: State, path: str, number: int, move: Scope) -> str:
    call = state.calls.get((join(join(path, str(number)), move.name), "do", 0))
    return call.external_id if call is not None else ""


# --- limits --------------------------------------------------------------------------------------------------------


def _over_limit(place: Place, moves: Sequence[Scope], tool: str) -> str:
    """Why nothing more is begun (`tool`: what is wanted, empty for a turn); empty where it may go on."""
    limits, known = place.step.limits, place.known
    assert limits is not None
    assert known is not None
    called = sum(move.kind == "tool" for move in moves[known.begun_after :])
    if tool and called >= limits.calls:
        return f"The limit of tool calls is reached ({called}, limits: calls), and it wants another one: {tool}."
    worked = _worked(place.state, place.path, known.begun_after)
    if worked >= limits.within:
        spent, most = worked // 1000, limits.within // 1000
        return f"It has worked for {spent} s, and may for {most} s (limits: within)."
    if limits.cost is not None and _cost_left(place) <= 0:
        cost = f"{limits.cost:g}"
        return f"Its model has cost as much as it may, {cost} (limits: cost)."
    return ""


def _worked(state: State, path: str, after: int) -> int:
    """ms that its calls took, from each one's first attempt to its last answer: waiting for people does not count."""
    return sum(
        max(call.last_at - call.first_at, 0)
        for (at, _, _), call in state.calls.items()
        if is_in(at, path) and number_of(path + at[len(path) :].rpartition("/")[0]) > after
    )


def _cost_left(place: Place) -> float:
    limits, known = place.step.limits, place.known
    assert limits is not None
    assert limits.cost is not None
    assert known is not None
    moves = moves_of(place.state, place.path)
    costs = (_said(place, number).get("cost") or 0 for number in range(known.begun_after + 1, len(moves) + 1))
    return round(limits.cost - sum(costs), 6)


# --- a turn of the model -------------------------------------------------------------------------------------------


def call_input(place: Place, action: Action, names: Mapping[str, Json]) -> Mapping[str, Json]:
    """What a step's call is prepared from: a model's turn, a tool as the model asked for it, or as the flow says."""
    scope = place.state.scopes.get(place.scope) if place.step.tool_of else None
    if scope is None:
        return action_input(place, action, place.step.with_, names)
    if scope.kind == "turn":
        return _turn_input(place)
    return complete(place, action, dict(scope.inputs["input"]), names)


def _turn_input(place: Place) -> Mapping[str, Json]:
    path, _, number = place.scope.rpartition("/")
    agent = Place(bundle=place.bundle, state=place.state, step=place.bundle.step(path), path=path, now=place.now)
    assert agent.step.limits is not None
    assert agent.known is not None
    turn: dict[str, Json] = {
        "tools": [_tool_shown(place.bundle, branch.steps[-1]) for branch in agent.step.branches],
        "so_far": list(_so_far(agent, int(number))),
        "cost_left": None if agent.step.limits.cost is None else _cost_left(agent),
    }
    return {**agent.known.input, "turn": turn}


def _tool_shown(bundle: Bundle, tool: Step) -> Mapping[str, Json]:
    action = bundle.actions[tool.action]
    about = tool.about or action.title or tool.action
    return {"name": tool.id, "about": about, "fields": _open_fields(action, tool)}


def _open_fields(action: Action, tool: Step) -> dict[str, Json]:
    """What of the action's input the model gives: all but what the flow fixes. Neither a file nor a template is its to
    name."""
    kinds = field_types(action.input)
    own = _TEMPLATED if action.renders_template and "template" not in tool.with_ else ()
    return {
        name: written
        for name, written in action.input.items()
        if not (name in tool.with_ or name in own or holds_file(kinds[name]))
    }


def _so_far(agent: Place, before: int) -> Iterator[Mapping[str, Json]]:
    """What was said and done before a turn: each answer of the model, then what became of each call it wanted."""
    for number, move in enumerate(moves_of(agent.state, agent.path)[: before - 1], 1):
        if move.kind == "turn":
            said = _said(agent, number)
            ids = [f"call_{number + at}" for at in range(1, len(said.get("calls") or ()) + 1)]
            calls = [{**call, "id": id_} for call, id_ in zip(said.get("calls") or (), ids, strict=True)]
            yield {"said": said.get("text", ""), "calls": calls}
        else:
            yield {"id": f"call_{number}", **_became(agent, number, move)}


def _became(agent: Place, number: int, move: Scope) -> Mapping[str, Json]:
    """The answer of a tool, or in one sentence why there is none."""
    if move.inputs["wrong"]:
        return {"wrong": move.inputs["wrong"]}
    known = _known(agent.state, agent.path, number, move) or StepState()
    if known.status in ("done", "found"):
        return {"answer": known.output}
    return {"wrong": "It was not done; a person decided so."}


# --- what the model asked for --------------------------------------------------------------------------------------


def _asked(agent: Place, call: Mapping[str, Json]) -> tuple[str, Mapping[str, Json]]:
    """(the tool, what is recorded of the call): `input` is all that the tool is given, `wrong` why it is not called.

    Raises EvaluationError where what the flow fixes has no value.
    """
    name, given = str(call["tool"]), call["input"]
    tools = {branch.name: branch.steps[-1] for branch in agent.step.branches}
    tool = tools.get(name)
    if tool is None:
        wrong = f'there is no tool "{name}"; {did_you_mean(name, tools, "there are")}'
        return name, {"input": given, "wrong": wrong}
    if call.get("wrong"):
        return name, {"input": given, "wrong": call["wrong"]}
    fields = field_types(_open_fields(agent.bundle.actions[tool.action], tool))
    values, unfit = read_entries(fields, given, zone=agent.bundle.zone, strict=True)
    if unfit:
        wrong = "; ".join(f"{field}: {what}" for field, what in [*unfit.items()][:MOST_FAULTS])
        return name, {"input": given, "wrong": wrong}
    said = {field: value for field, value in values.items() if value is not None}
    return name, {"input": {**said, **agent.value(dict(tool.with_))}, "wrong": ""}
