"""Steps that hold steps: walking through them, branches, lists, the flows that are called, and agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain

from runner.contract import Json
from runner.core import agents
from runner.core import events as e
from runner.core.calls import next_handoff
from runner.core.closing import close_item
from runner.core.commands import Command, Recall, Record, Send
from runner.core.forward import call_service, failed
from runner.core.gates import approve
from runner.core.names import names_in_reach
from runner.core.paths import is_in, join, scope_of
from runner.core.place import Place, pass_over
from runner.core.state import Listing, State, replace
from runner.core.waits import emit, hand_off, wait, wait_for
from runner.errors import EvaluationError, InputsInvalid
from runner.language.bundle import Bundle
from runner.language.expressions import evaluate
from runner.language.flow import Flow, Step
from runner.language.schemas import read_inputs

ASIDE_CHOICES = ("retry", "skip", "compensate", "take_over")
MOST_IN_DOUBT = 20
"""How many items may wait for a person before no more of the list begin."""


def walk(bundle: Bundle, state: State, steps: tuple[Step, ...], scope: str, now: int) -> tuple[Command, ...] | None:
    """What the first step of a scope that has not ended asks for; None when all have ended."""
    for step in steps:
        path = join(scope, step.id)
        known = state.steps.get(path)
        if known is not None and known.status != "open":
            continue
        place = Place(bundle=bundle, state=state, step=step, path=path, now=now)
        try:
            return _VERBS[step.verb](place)
        except EvaluationError as error:
            return (failed(place, "evaluation", str(error)),)
    return None


def leave(bundle: Bundle, state: State, scope: str, now: int) -> tuple[Command, ...] | None:
    """What stands before the end of a scope whose steps have ended: items set aside. None when nothing does."""
    for path, listing in state.lists.items():
        if not listing.aside or scope_of(path) != scope:
            continue
        asked = state.handoff_about(path, "", 0)
        if asked is not None and not asked.choice:
            return ()
        some = ", ".join(aside.name for aside in list(listing.aside.values())[:5])
        more = f" and {len(listing.aside) - 5} more" if len(listing.aside) > 5 else ""
        step = bundle.step(path)
        handed = e.HandedOff(
            at=now, step=path, handoff=next_handoff(state), kind="set_aside", owner=step.owner or state.owner,
            choices=ASIDE_CHOICES, summary=f"{_counted(listing)} set aside: {some}{more}.",
        )  # fmt: skip
        return (Record(event=handed),)
    return None


def _counted(listing: Listing) -> str:
    return "1 item was" if len(listing.aside) == 1 else f"{len(listing.aside)} items were"


# --- branches ------------------------------------------------------------------------------------------------------


def _choose(place: Place) -> tuple[Command, ...]:
    step, known = place.step, place.known
    if known is None:
        if place.is_passed_over:
            return place.skip()
        for number, branch in enumerate(step.branches):
            if branch.when is None or place.is_so(branch.when):
                others = tuple(other for other in step.branches if other is not branch)
                chosen = e.BranchChosen(at=place.now, step=place.path, branch=number)
                return (Record(event=chosen), *pass_over(place, others))
        return place.skip()
    commands = walk(place.bundle, place.state, step.branches[known.branch].steps, place.scope, place.now)
    return _ended(place) if commands is None else commands


def _parallel(place: Place) -> tuple[Command, ...]:
    """Every branch goes on by itself; what they ask for starts in the order they are written.

    The facts of one branch at a time: what it decides stands together, and may change what the others ask for.
    """
    if place.known is None:
        if place.is_passed_over:
            return place.skip()
        return (Record(event=e.ScopeStarted(at=place.now, step=place.path, kind="parallel")),)
    branches = place.step.branches
    found = [walk(place.bundle, place.state, branch.steps, place.scope, place.now) for branch in branches]
    if all(commands is None for commands in found):
        return _ended(place)
    return _together(place.state, [commands or () for commands in found])


def _together(state: State, found: Iterable[tuple[Command, ...]]) -> tuple[Command, ...]:
    """The facts of the first that has any, or what it wants read back; else the calls of all, numbered in order."""
    sends: list[tuple[Command, ...]] = []
    for commands in found:
        if commands and isinstance(commands[0], Record | Recall):
            return commands
        sends.append(commands)
    ordered: list[Command] = []
    next_start = state.next_start
    for send in chain.from_iterable(sends):
        if isinstance(send, Send) and send.start_no >= state.next_start:
            send = replace(send, start_no=next_start)
            next_start += 1
        ordered.append(send)
    return tuple(ordered)


def _ended(place: Place, output: Json = None) -> tuple[Command, ...]:
    ended = e.ScopeEnded(at=place.now, step=place.path, kind=place.step.verb, outcome="done", output=output)
    return (Record(event=ended),)


# --- lists ---------------------------------------------------------------------------------------------------------


def _each(place: Place) -> tuple[Command, ...]:
    """Items begin in order, `at_once` at a time; one that waits for a person makes room for the next."""
    listing = place.state.lists.get(place.path)
    if listing is None:
        return place.skip() if place.known is None and place.is_passed_over else (_begin_list(place),)
    found: list[tuple[Command, ...]] = []
    for number in listing.open:
        commands = _item(place, number)
        if commands and isinstance(commands[0], Record | Recall):
            return commands
        found.append(commands)
    in_doubt = _in_doubt(place, listing)
    if len(listing.open) - in_doubt < place.step.at_once and in_doubt < max(MOST_IN_DOUBT, place.step.at_once):
        started = _next_item(place, listing)
        if started is not None:
            return (started,)
    return _together(place.state, found) if listing.open else _ended(place)


def _begin_list(place: Place) -> Command:
    items = place.value(place.step.each)
    if not isinstance(items, list):
        raise EvaluationError(f"each of step {place.step.id} is not a list")
    if place.step.named:
        seen: set[str] = set()
        names = place.names()
        for item in items:
            name = _name(place, {**names, "item": item})
            if name in seen:
                raise EvaluationError(f'two items of step {place.step.id} are named "{name}"')
            seen.add(name)
    catches = place.step.if_one_fails == "continue"
    return Record(event=e.ScopeStarted(at=place.now, step=place.path, kind="each", value=items, catches=catches))


def _name(place: Place, names: Mapping[str, Json]) -> str:
    name = place.value(place.step.named, names)
    if isinstance(name, bool) or not isinstance(name, str | int) or str(name).strip() == "":
        raise EvaluationError(f"the name of an item of step {place.step.id} is empty")
    return str(name)


def _next_item(place: Place, listing: Listing) -> Command | None:
    number, generation = listing.started + 1, 0
    if listing.again:
        number, generation = listing.again[0]
    elif number > listing.items.count:
        return None
    names = {**place.names(), "item": listing.items[number]} if place.step.named else {}
    name = _name(place, names) if names else str(number)
    return Record(
        event=e.ScopeStarted(
            at=place.now, step=join(place.path, str(number)), kind="item", name=name, generation=generation
        )
    )


def _item(place: Place, number: int) -> tuple[Command, ...]:
    bundle, state, now = place.bundle, place.state, place.now
    path = join(place.path, str(number))
    scope = state.scopes[path]
    if scope.closed or scope.failure is not None:
        return close_item(bundle, state, path, now)
    commands = walk(bundle, state, place.step.branches[0].steps, path, now)
    if commands is None:
        commands = leave(bundle, state, path, now)
    if commands is None:
        return (Record(event=e.ScopeEnded(at=now, step=path, kind="item", outcome="done")),)
    return commands


def _in_doubt(place: Place, listing: Listing) -> int:
    """How many items a person is asked about while nothing of them moves."""
    asked = [handoff.step for handoff in place.state.open_handoffs]
    if not asked:
        return 0
    moving = [name[0] for name, call in place.state.calls.items() if call.is_open or call.due is not None]
    items = [join(place.path, str(number)) for number in listing.open]
    return sum(
        any(is_in(path, item) for path in asked) and not any(is_in(path, item) for path in moving) for item in items
    )


# --- called flows --------------------------------------------------------------------------------------------------


def _call(place: Place) -> tuple[Command, ...]:
    """The called flow's steps are this run's, in a scope of their own that sees its inputs alone."""
    bundle, state, now, path = place.bundle, place.state, place.now, place.path
    flow = bundle.called[place.step.flow]
    if place.known is None:
        if place.is_passed_over:
            return place.skip()
        inputs = _inputs_of(flow, place.value(dict(place.step.with_)), bundle.zone)
        return (Record(event=e.ScopeStarted(at=now, step=path, kind="call", name=flow.id, value=inputs)),)
    commands = walk(bundle, state, flow.steps, path, now)
    if commands is None:
        commands = leave(bundle, state, path, now)
    if commands is None:
        names = names_in_reach(state, path)
        return _ended(place, evaluate(dict(flow.outputs), names, now=now, zone=bundle.zone, calendar=bundle.calendar))
    return commands


def _inputs_of(flow: Flow, given: Mapping[str, Json], zone: str) -> Mapping[str, Json]:
    try:
        return read_inputs(flow.inputs, given, zone=zone, schema=flow.schema)
    except InputsInvalid as wrong:
        raise EvaluationError(f"flow {flow.id} cannot be called: {wrong}") from wrong


# --- agents --------------------------------------------------------------------------------------------------------


def _agent(place: Place) -> tuple[Command, ...]:
    """What an agent did last goes to its end, then comes what follows it."""
    beginning = agents.begin(place)
    if beginning is not None:
        return beginning
    scope, steps = agents.steps_now(place)
    commands = walk(place.bundle, place.state, steps, scope, place.now)
    return agents.next_move(place) if commands is None else commands


Decide = Callable[[Place], tuple[Command, ...]]

_VERBS: Mapping[str, Decide] = {
    "approve": approve,
    "read": call_service,
    "do": call_service,
    "wait": wait,
    "wait_for": wait_for,
    "choose": _choose,
    "parallel": _parallel,
    "each": _each,
    "call": _call,
    "emit": emit,
    "hand_off": hand_off,
    "agent": _agent,
}
