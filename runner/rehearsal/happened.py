"""What happened in a case, as its log says it, by the words of `expect`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from runner.contract import Json
from runner.core import events as e
from runner.core.consents import UNDO as GATE_UNDO
from runner.core.fold import fold
from runner.core.state import Effect, State
from runner.core.status import standing_of
from runner.engine.advance import Turn
from runner.language.bundle import Bundle
from runner.rehearsal.names import UNDO, At, Names, side_of

STANDS = ("pending", "stands")


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One thing that happened at a place, with its fields."""

    at: At
    fields: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Happened:
    """A case as it went. `tries` has every attempt, `trouble` what the script said that could not be."""

    end: str
    because: str = ""
    calls: tuple[Seen, ...] = ()
    compensations: tuple[Seen, ...] = ()
    reads: tuple[Seen, ...] = ()
    asked: tuple[Seen, ...] = ()
    emits: tuple[Seen, ...] = ()
    tries: tuple[At, ...] = ()
    outcomes: tuple[tuple[At, str], ...] = ()
    outputs: Mapping[str, Json] = field(default_factory=dict)
    stands: tuple[At, ...] = ()
    in_doubt: tuple[At, ...] = ()
    told: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    then: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    trouble: tuple[tuple[tuple[str | int, ...], str], ...] = ()


class Watched:
    """What only the turns show: effects of items that have left the state, and who was told."""

    def __init__(self) -> None:
        self.effects: dict[int, Effect] = {}
        self.told: list[str] = []

    def see(self, turn: Turn) -> None:
        """One turn, as soon as it is committed."""
        self.effects |= {**turn.before.effects, **turn.effects, **turn.after.effects}
        self.told += [message.person for message in turn.messages if message.person]


def happened_in(bundle: Bundle, events: Sequence[e.Event], state: State, watched: Watched) -> Happened:
    """What the log of a case says."""
    items = {event.step: event.name for event in events if isinstance(event, e.ScopeStarted) and event.kind == "item"}
    names = Names(bundle)

    def at(path: str, side: str = "") -> At:
        return names.at(path, side, items)

    finished = next((event for event in events if isinstance(event, e.RunFinished)), None)
    failure = state.failure or state.root.failure
    asked = next((one.summary for one in state.open_handoffs), "")
    effects = {**watched.effects, **state.effects}
    stands = [effect.path for effect in effects.values() if effect.disposition in STANDS]
    doubted = [(path, purpose) for (path, purpose, _), call in state.calls.items() if call.is_unsettled]
    return Happened(
        end=standing_of(state).status,
        because=failure.summary if failure is not None else state.summary or asked,
        calls=tuple(_calls(events, "do", at)),
        compensations=tuple(_calls(events, "undo", at)),
        reads=tuple(_calls(events, "read", at)),
        asked=tuple(_asked(events, at)),
        emits=tuple(_emitted(events)),
        tries=tuple(_tries(events, at)),
        outcomes=tuple((at(path), word) for path, word in _outcomes(events).items()),
        outputs=state.outputs,
        stands=tuple(at(path) for path in dict.fromkeys(stands)),
        in_doubt=tuple(at(path, UNDO if "undo" in purpose else "") for path, purpose in dict.fromkeys(doubted)),
        told=tuple(dict.fromkeys(watched.told)),
        set_aside=tuple(event.name or event.step for event in events if isinstance(event, e.ItemSetAside)),
        holds=tuple({*((state.record,) if state.holds_record else ()), *(() if state.has_ended else state.locks)}),
        then={finished.then: finished.then_inputs} if finished is not None and finished.then else {},
    )  # fmt: skip


def _outcomes(events: Sequence[e.Event]) -> dict[str, str]:
    """What became of every step, of items that have ended too."""
    found: dict[str, str] = {}
    state = State()
    for event in events:
        state = fold(state, event)
        step = state.steps.get(event.step)
        if step is not None and step.outcome:
            found[event.step] = step.outcome
    return found


def _calls(events: Sequence[e.Event], purpose: str, at: Callable[[str], At]) -> Iterator[Seen]:
    """One for each call, and one more where a person raised its generation; in a draft what would have been sent."""
    begun: dict[str, int] = {}
    inputs: dict[str, Mapping[str, Json]] = {}
    for event in events:
        if isinstance(event, e.DraftRecorded) and purpose == "do" and not event.action.startswith("emit "):
            yield Seen(at=at(event.step), fields=event.input)
        if not isinstance(event, e.CallIntended) or event.purpose != purpose:
            continue
        inputs[event.step] = event.input or inputs.get(event.step, {})
        if begun.get(event.step) != event.generation:
            begun[event.step] = event.generation
            yield Seen(at=at(event.step), fields=inputs[event.step])


def _tries(events: Sequence[e.Event], at: Callable[[str, str], At]) -> Iterator[At]:
    for event in events:
        if isinstance(event, e.CallIntended) and event.purpose in ("do", "read", "undo"):
            yield at(event.step, UNDO if event.purpose == "undo" else "")


def _asked(events: Sequence[e.Event], at: Callable[[str, str], At]) -> Iterator[Seen]:
    for event in events:
        if isinstance(event, e.ApprovalRequested):
            side = UNDO if event.approval.endswith(GATE_UNDO) else ""
            shown = {"of": list(event.by), "question": event.shown.get("question", ""), "round": event.round}
            yield Seen(at=at(event.step, side), fields=shown)
        elif isinstance(event, e.HandedOff):
            fields = {"of": event.owner, "why": event.summary, "say": event.say, "show": dict(event.show)}
            yield Seen(at=at(event.step, side_of(event.kind, event.purpose)), fields=fields)


def _emitted(events: Sequence[e.Event]) -> Iterator[Seen]:
    for event in events:
        name = data = None
        if isinstance(event, e.Emitted):
            name, data = event.event, event.data
        elif isinstance(event, e.DraftRecorded) and event.action.startswith("emit "):
            name, data = event.action.removeprefix("emit "), event.input
        if name is not None:
            yield Seen(at=At(step=name, side="", items=(), shown=name), fields=data or {})
