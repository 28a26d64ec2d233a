"""When forward is closed: settling what is open, making good what was done, newest start first, and the end.

All of it is about one scope: the run, or an item that failed alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from runner.core import events as e
from runner.core.calls import fire_due, is_let_go, progress
from runner.core.commands import Command, Recall, Record
from runner.core.forward import plan_of
from runner.core.gates import ends_here
from runner.core.paths import forgotten_item, is_in, list_of, outwards, scope_of
from runner.core.place import Place
from runner.core.state import State, UndoState
from runner.core.undoing import FAILED_CHOICES, hand_over, undo, undo_step
from runner.language.bundle import Bundle

NOT_BEGUN = UndoState()


def close(bundle: Bundle, state: State, scope: str, now: int) -> tuple[Command, ...]:
    """What is to be done in a scope whose forward is closed and that is made good; nothing when all of it has ended."""
    failed = _hand_failed_off(bundle, state, scope, now)
    if failed:
        return failed
    settling = settle_open(bundle, state, scope, now, with_undo=False)
    facts = tuple(command for command in settling if isinstance(command, Record))
    if facts:
        return facts[:1]
    inside = state.scopes[scope]
    if not inside.has_begun:
        begun = e.CompensationBegun(at=now, step=scope, generation=inside.generation)
        return (fire_due(state, now, scope) or settling) if _is_out(state, scope) else (Record(event=begun),)
    commands = compensate(bundle, state, scope, now)
    if isinstance(commands[0] if commands else None, Recall):
        return settling or commands
    return settling + commands


def close_item(bundle: Bundle, state: State, item: str, now: int) -> tuple[Command, ...]:
    """An item that failed alone: closed, made good, set aside. Where a no ends it, what was done stays."""
    scope, failure = state.scopes[item], state.scopes[item].failure
    assert failure is not None
    if not scope.closed:
        closed = e.ForwardClosed(
            at=now, step=item, cause="failure", compensate=not ends_here(bundle, failure), kind=failure.kind,
            summary=failure.summary, by=failure.by, failed_step=failure.step, generation=scope.generation,
        )  # fmt: skip
        return (Record(event=closed),)
    if not scope.compensates:
        return _end_here(bundle, state, item, now)
    commands = close(bundle, state, item, now)
    if commands or not (scope.has_begun and _has_come_to_rest(state, item)):
        return commands
    return (Record(event=e.ItemSetAside(at=now, step=item, reason=failure.summary, name=scope.name)),)


def _end_here(bundle: Bundle, state: State, item: str, now: int) -> tuple[Command, ...]:
    """An item that a no has ended, once nothing of it is in doubt."""
    settling = settle_open(bundle, state, item, now, with_undo=False)
    is_open = any((call.is_open or call.is_unsettled) and is_in(name[0], item) for name, call in state.calls.items())
    if settling or is_open or _is_asked(state, item):
        return settling
    return (Record(event=e.ScopeEnded(at=now, step=item, kind="item", outcome="ended")),)


def _is_asked(state: State, scope: str) -> bool:
    return any(is_in(handoff.step, scope) for handoff in state.open_handoffs)


def _is_out(state: State, scope: str) -> bool:
    """A call of a scope has no outcome yet."""
    return any(call.is_open and is_in(name[0], scope) for name, call in state.calls.items())


def _has_come_to_rest(state: State, item: str) -> bool:
    """All of an item was made good, nobody is asked about it, and none of its calls is out."""
    return all_have_ended(state, item) and not (_is_asked(state, item) or _is_out(state, item))


def _place(bundle: Bundle, state: State, path: str, now: int) -> Place:
    return Place(bundle=bundle, state=state, step=bundle.step(path), path=path, now=now)


def settle_open(bundle: Bundle, state: State, scope: str, now: int, *, with_undo: bool) -> tuple[Command, ...]:
    """Commands that settle calls whose outcome is unknown, without starting any attempt.

    `with_undo`: compensations are settled too, because none will go on.
    """
    commands: list[Command] = []
    for path in _unsettled_paths(state, "do", scope):
        if not state.stops_here and is_let_go(state, path) and _rest_remains(state, scope):
            continue
        plan = plan_of(_place(bundle, state, path, now), is_closed=True)
        commands.extend(progress(state, plan, now).commands)
    for path in _unsettled_paths(state, "undo", scope) if with_undo else ():
        commands.extend(undo(_place(bundle, state, path, now), is_closed=True))
    return tuple(commands)


def _hand_failed_off(bundle: Bundle, state: State, scope: str, now: int) -> tuple[Command, ...]:
    """Every compensation that gave up is put before a person."""
    asked = {handoff.step for handoff in state.open_handoffs if handoff.kind == "compensation_failed"}
    for path, one in state.undo.items():
        if one.status == "failed" and path not in asked and is_in(path, scope):
            place = _place(bundle, state, path, now)
            return (hand_over(place, "compensation_failed", one.summary, FAILED_CHOICES),)
    return ()


def _unsettled_paths(state: State, purpose: str, scope: str = "") -> list[str]:
    paths = dict.fromkeys(name[0] for name, call in state.calls.items() if name[1] == purpose and call.is_unsettled)
    return [path for path in paths if is_in(path, scope) and (purpose == "do" or not _has_ended_for_good(state, path))]


def _has_ended_for_good(state: State, path: str) -> bool:
    """The compensation is done, or a person said what became of it."""
    undo = state.undo.get(path)
    return undo is not None and undo.status in ("done", "skipped")


def is_settling(state: State) -> bool:
    """An unknown outcome is being looked up or asked about."""
    return bool(_unsettled_paths(state, "do") or _unsettled_paths(state, "undo"))


def all_have_ended(state: State, scope: str) -> bool:
    """Every applied effect in a scope has had its compensation, whatever came of it."""
    return not _left_in(state, scope) and all(_has_ended(state, path) for path in applied_paths(state, scope))


def _lists_left(state: State, scope: str) -> list[str]:
    """The lists of a scope of whose ended items there are effects still to be made good."""
    return [path for path, listing in state.lists.items() if listing.left.get("pending", 0) and is_in(path, scope)]


def _left_in(state: State, scope: str) -> bool:
    return bool(_lists_left(state, scope))


def _is_unsettled(state: State, path: str) -> bool:
    first = state.calls.get((path, "do", 0))
    if first is None or first.parts == 1:
        return first is not None and (first.is_open or first.is_unsettled)
    calls = [state.calls.get((path, "do", part)) for part in range(first.parts)]
    return any(call is not None and (call.is_unsettled or call.is_open) for call in calls)


def _rest_remains(state: State, scope: str) -> bool:
    """Something else is still to be made good."""
    return _left_in(state, scope) or any(
        not (_is_unsettled(state, path) or _has_ended(state, path)) for path in applied_paths(state, scope)
    )


def _has_ended(state: State, path: str) -> bool:
    undo = state.undo.get(path)
    return undo is not None and undo.status != "open"


def applied_paths(state: State, scope: str = "") -> list[str]:
    """The steps of a scope whose calls were applied or may have been, in the order in which they are made good."""
    return [path for path in _turns(state, scope) if not path.endswith("/")]


def _turns(state: State, scope: str) -> list[str]:
    """The applied steps of a scope, newest start first; those of one called flow stand together, where its newest
    stands. `log/` stands for a called flow of which only ended items are left, none of them read back.
    """
    newest: dict[str, int] = {}
    units: dict[str, int] = {}
    for (path, purpose, _), call in state.calls.items():
        if purpose == "do" and (call.is_applied or call.is_unsettled) and is_in(path, scope):
            newest[path] = max(newest.get(path, 0), call.start_no)
    if not state.lists and not any("/" in path for path in newest):
        return sorted(newest, key=newest.__getitem__, reverse=True)
    for path in _lists_left(state, scope):
        for unit in _calls_around(path, scope):
            is_seen = unit in state.scopes and state.scopes[unit].newest > 0
            if is_seen and not any(is_in(other, unit) for other in newest):
                newest[f"{unit}/"] = state.scopes[unit].newest
    for path, start in newest.items():
        for unit in _calls_around(path, scope):
            units[unit] = max(units.get(unit, state.scopes[unit].newest), start)

    def order(path: str) -> list[int]:
        return [*(-units[unit] for unit in _calls_around(path, scope)), -newest[path]]

    return sorted(newest, key=order)


def _calls_around(path: str, scope: str) -> list[str]:
    """The call steps around a path inside a scope, outermost first."""
    if "/" not in path:
        return []
    around = [unit for unit in outwards(scope_of(path)) if unit and not list_of(unit)]
    return [unit for unit in reversed(around) if is_in(unit, scope)]


def compensate(bundle: Bundle, state: State, scope: str, now: int) -> tuple[Command, ...]:
    """The next thing to do about the applied effects; nothing when all were begun and none can move now.

    Starts are ordered, newest first: what is under way, in doubt, held itself, or has failed under
    `if_one_fails: stop` holds what is older, unless that was begun already or stands in another branch of a parallel
    that compensates at once. A question to a person holds nothing. Ended items are read back a page at a time; of a
    called flow all that is left of them before what is older than its newest.
    """
    return _compensate(bundle, state, scope, now, [])


def _compensate(bundle: Bundle, state: State, scope: str, now: int, holders: list[str]) -> tuple[Command, ...]:
    back = _read_back(state, scope)
    if back is not None and back.items:
        return (back,)
    ended = _end_item(state, scope, now)
    if ended:
        return ended
    sends: list[Command] = []
    hidden = _lists_left(state, scope) if back is not None else []
    paths, above = _turns(state, scope), len(holders)
    while paths:
        path = paths.pop(0)
        is_below = back is not None and (back.before is None or _stands_at(state, path, scope) < back.before)
        unit = next((unit for unit in _calls_around(path, scope) if _left_in(state, unit)), "")
        if is_below and _waits_for_hidden(bundle, state, path, hidden, holders):
            break
        if unit:
            paths = [other for other in paths if not is_in(other, unit)]
            commands = _compensate(bundle, state, unit, now, holders)
        else:
            commands = _next_undo(bundle, state, path, holders, now)
        if any(isinstance(command, Record) for command in commands):
            return commands
        sends += commands
        if any(isinstance(command, Recall) for command in commands):
            return tuple(sends)
        above = above if is_below else len(holders)
    else:
        if all(any(not _are_beside(bundle, path, holder) for holder in holders[:above]) for path in hidden):
            return tuple(sends)
    return tuple(sends) if back is None else (*sends, back)


def _waits_for_hidden(bundle: Bundle, state: State, path: str, hidden: list[str], holders: list[str]) -> bool:
    """It would begin now, but for what is not read back yet and may be newer."""
    if _has_begun(state, path) or _has_ended(state, path) or _is_unsettled(state, path):
        return False
    is_held = any(not _are_beside(bundle, path, holder) for holder in holders)
    return not is_held and any(not _are_beside(bundle, path, other) for other in hidden)


def _stands_at(state: State, path: str, scope: str) -> int:
    """The start number where a path has its turn: its own newest, or that of the called flow around it."""
    unit = next(iter(_calls_around(path, scope)), "")
    starts = (
        call.start_no
        for name, call in state.calls.items()
        if name[1] == "do" and (call.is_applied or call.is_unsettled)
        if name[0] == path or (unit and is_in(name[0], unit))
    )
    return max((state.scopes[unit].newest if unit else 0, *starts))


def _read_back(state: State, scope: str) -> Recall | None:
    """Which ended items are to be read back: those that are known in part only, else the next page, as long as there
    is one.
    """
    forgotten = partly_known(state, scope)
    if forgotten:
        return Recall(scope=scope, items=forgotten)
    recalled = state.scopes[scope].recalled
    return Recall(scope=scope, before=recalled) if recalled != 0 and _left_in(state, scope) else None


def partly_known(state: State, scope: str = "") -> tuple[str, ...]:
    """The ended items of a scope that were being made good when the log was read anew."""
    if not state.lists:
        return ()
    tried = (name[0] for name in state.calls if name[1] in ("undo", "undo_lookup"))
    paths = (path for path in (*state.undo, *state.lists, *tried) if is_in(path, scope))
    forgotten = dict.fromkeys(forgotten_item(state, path) for path in paths)
    forgotten.pop("", None)
    return tuple(forgotten)


def _end_item(state: State, scope: str, now: int) -> tuple[Command, ...]:
    """An item that was read back and is made good leaves again."""
    for item, inner in state.scopes.items():
        is_meant = inner.is_recalled and is_in(item, scope)
        if is_meant and _has_come_to_rest(state, item) and not _unsettled_paths(state, "undo", item):
            return (Record(event=_left_again(state, item, "compensated", now)),)
    return ()


def end_begun(state: State, now: int) -> tuple[Command, ...]:
    """Where a run stops here: an ended item of which something was made good leaves again; the rest of it stands."""
    begun = [path for path, inner in state.scopes.items() if inner.is_recalled and _is_begun(state, path)]
    deepest = max(begun, key=lambda path: path.count("/"), default="")
    return (Record(event=_left_again(state, deepest, "stopped", now)),) if deepest else ()


def _is_begun(state: State, item: str) -> bool:
    """Something of an ended item was made good, or tried."""
    lists = (listing.left for path, listing in state.lists.items() if is_in(path, item))
    is_tried = any(is_in(path, item) for path in state.undo)
    return is_tried or any(count for left in lists for name, count in left.items() if name != "pending")


def _left_again(state: State, item: str, outcome: str, now: int) -> e.ScopeEnded:
    deeper = [path for path, inner in state.scopes.items() if inner.is_recalled and is_in(path, item)]
    effects = Counter[str](
        effect.disposition
        for effect in state.effects.values()
        if is_in(effect.path, item) and not any(is_in(effect.path, other) for other in deeper)
    )
    for path, listing in state.lists.items():
        effects.update(listing.left if is_in(path, item) else {})
    effects["stands"] += effects.pop("pending", 0)
    newest = max((call.start_no for name, call in state.calls.items() if is_in(name[0], item)), default=0)
    return e.ScopeEnded(
        at=now,
        step=item,
        kind="item",
        outcome=outcome,
        effects=dict(+effects),
        newest=max(newest, state.scopes[item].newest),
    )


def _next_undo(bundle: Bundle, state: State, path: str, holders: list[str], now: int) -> tuple[Command, ...]:
    """What is due of one compensation; where it holds older ones it is put among the holders."""
    if _is_unsettled(state, path):
        holders += [] if is_let_go(state, path) else [path]
        return ()
    undo = state.undo.get(path, NOT_BEGUN)
    if undo.status == "failed" or _cannot_be_built(state, path):
        holders += [path] if bundle.flow.on_failure.if_one_fails == "stop" else []
    is_open = undo.status == "open" or (undo.status == "handed_off" and _is_in_doubt(state, path))
    if not is_open:
        return ()
    if not _has_begun(state, path) and any(not _are_beside(bundle, path, holder) for holder in holders):
        holders.append(path)
        return ()
    commands = undo_step(_place(bundle, state, path, now))
    if commands or _is_moving(state, path):
        holders.append(path)
    return commands


def _are_beside(bundle: Bundle, path: str, other: str) -> bool:
    """They stand in different branches of a parallel whose branches are made good at once."""
    mine = dict(_lanes(bundle, path))
    theirs = dict(_lanes(bundle, other)) if mine else {}
    return any(theirs.get(parallel, branch) != branch for parallel, branch in mine.items())


def _lanes(bundle: Bundle, path: str) -> Iterator[tuple[str, int]]:
    """The parallels around a path that compensate at once, and which branch of each it stands in."""
    if not any(step.compensate_at_once for step in bundle.steps.values()):
        return
    while path:
        scope = scope_of(path)
        lanes = bundle.flow_at(scope).lanes().get(path[len(scope) + 1 :] if scope else path, {})
        for parallel, branch in lanes.items():
            yield f"{scope}/{parallel}", branch
        path = list_of(scope) or scope


def _cannot_be_built(state: State, path: str) -> bool:
    """A person is asked because the compensation's request has no answer: it gave up before it was sent."""
    return any(handoff.step == path and handoff.kind == "request" for handoff in state.open_handoffs)


def _has_begun(state: State, path: str) -> bool:
    return (path, "undo", 0) in state.calls


def _is_in_doubt(state: State, path: str) -> bool:
    """A person is asked about one part of the compensation; its other parts go on."""
    return any(h.step == path and h.purpose == "undo" for h in state.open_handoffs)


def _is_moving(state: State, path: str) -> bool:
    """A call of the compensation is out, or waits for its time."""
    calls = [call for name, call in state.calls.items() if name[0] == path and name[1] in ("undo", "undo_lookup")]
    return any(call.is_open or call.due is not None for call in calls)
