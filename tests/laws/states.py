"""Laws of the state: read again out of the log it is what it was (I27), and it holds no more of a list than it must."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runner.contract import Json
from runner.core import events as e
from runner.core.commands import Recall
from runner.core.fold import fold_all
from runner.core.recall import LogSource, recall
from runner.core.state import State, replace
from tests.laws.lives import is_inside


def state_faults(live: State, events: Sequence[e.Event], before: Sequence[e.Event], most: int) -> Iterator[str]:
    """What is wrong with the state of an engine whose log stands at `events`. `most`: how many ended items may be held."""
    yield from _read_again(live, events, before)
    yield from _held(live, most)


def _read_again(live: State, events: Sequence[e.Event], before: Sequence[e.Event]) -> Iterator[str]:
    read = fold_all(events, replace(fold_all(before), seq=0))
    source = LogSource([*before, *events])
    for item in sorted((path for path, scope in live.scopes.items() if scope.is_recalled), key=len):
        read = recall(read, Recall(items=(item,)), source)
    one, other = _compared(live), _compared(read)
    for name, value in one.items():
        if value != other[name]:
            yield f"{name} {_differing(value, other[name])}, read again out of the log"


def _differing(live: Any, read: Any) -> str:
    """Where two values of a state differ."""
    if not isinstance(live, Mapping):
        return f"is {live}, and {read}"
    names = [name for name in {**live, **read} if live.get(name) != read.get(name)]
    return "; ".join(f"{name} is {live.get(name)}, and {read.get(name)}" for name in names[:2])


def _compared(state: State) -> Mapping[str, Json]:
    """What of the state matters: all but how far ended items were read back."""
    scopes = {path: replace(scope, recalled=None) for path, scope in state.scopes.items()}
    return {**vars(state), "scopes": scopes}


def _held(live: State, most: int) -> Iterator[str]:
    """Of its lists a run holds the items that are under way, those that wait for a person, and one page of ended ones
    with those that began beside them.
    """
    items = {path: scope for path, scope in live.scopes.items() if scope.kind == "item"}
    for path, scope in items.items():
        head, _, number = path.rpartition("/")
        is_under_way = head in live.lists and int(number) in live.lists[head].open
        if not scope.is_recalled and not is_under_way:
            yield f"{path} is held, and is not under way"
    asked = [handoff.step for handoff in live.open_handoffs]
    back = [path for path, scope in items.items() if scope.is_recalled]
    outmost = [path for path in back if not any(is_inside(path, other) for other in back)]
    resting = [path for path in outmost if any(is_inside(step, path) for step in asked)]
    if len(outmost) - len(resting) > most:
        yield f"{len(outmost)} ended items are held, {len(resting)} of them wait for a person, and {most} may be"
