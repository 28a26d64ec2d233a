"""Takes what comes to a trigger: for each flow that has it, the run starts, is joined, or it is said why not.

Whoever answers a sender does so after `take`: by then everything is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from runner.clock import Clock, iso
from runner.contract import Json, canonical
from runner.core.events import RunStarted
from runner.engine.starting import Wish, keep, new_run
from runner.errors import EvaluationError, InputsInvalid, NotPossible
from runner.language.expressions import decided, evaluate
from runner.language.personal import personal_inputs
from runner.language.types import MISSING
from runner.store.arrivals import Arrival, Arrived
from runner.store.facts import NewRun, Started
from runner.store.sql import SqlStore
from runner.triggers.active import Armed

UNTOLD = "does not fit; it is personal, so it is not quoted here"


@dataclass(frozen=True, kw_only=True, slots=True)
class Coming:
    """What came. `id` is the trigger's own name for the event, `digest` that of its content (hex).

    `names` are what expressions reach (`body`, `headers`); `given` inputs that were read already. With a `status` it
    starts nothing and is kept with the reason `why`. `is_again`: the `starter` has it taken again, and says `why`; it
    was kept under this id, which an event `is_apart` goes on with.
    """

    id: str
    digest: str
    names: Mapping[str, Json]
    given: Mapping[str, Json] | None = None
    starter: str = ""
    status: str = ""
    why: str = ""
    is_again: bool = False
    is_apart: bool = False


class Intake:
    """`begin` is told of each run that was started, `mode` says what the project forces on its runs."""

    def __init__(
        self, store: SqlStore, clock: Clock, begin: Callable[[Started, RunStarted], None], mode: Callable[[], str]
    ) -> None:
        self._store = store
        self._clock = clock
        self._begin = begin
        self._mode = mode

    async def take(self, armed: Iterable[Armed], coming: Coming) -> tuple[Arrived, ...]:
        """One event, for every trigger that it came to. Raises StoreError when it cannot be kept."""
        return await self.take_all([(one, coming) for one in armed])

    async def take_all(
        self, several: Sequence[tuple[Armed, Coming]], *, cursor: tuple[str, str] | None = None
    ) -> tuple[Arrived, ...]:
        """Several events, and where their trigger stands after them, in one transaction. Raises StoreError."""
        now = self._clock.now()
        read = [self._read(armed, coming, now) for armed, coming in several]
        for bundle in {armed.bundle.digest: armed.bundle for armed, _ in several}.values():
            await keep(self._store, bundle)
        took = await self._store.arrive([(arrival, new) for arrival, new, _ in read], cursor)
        for arrived, (_, _, event) in zip(took, read, strict=True):
            if arrived.started is not None and event is not None:
                self._begin(arrived.started, event)
        return tuple(took)

    def wants(self, armed: Armed, coming: Coming) -> bool:
        """Whether it is meant for this trigger, as far as `only_if` can tell."""
        try:
            return not coming.status and self._asked(armed, coming, self._clock.now()).is_meant()
        except EvaluationError:
            return True

    def _asked(self, armed: Armed, coming: Coming, now: int) -> _Asked:
        trigger: dict[str, Json] = {"id": coming.id, "at": iso(now), armed.kind: armed.name}
        return _Asked(armed, {**coming.names, "trigger": trigger}, now)

    def _read(self, armed: Armed, coming: Coming, now: int) -> tuple[Arrival, NewRun | None, RunStarted | None]:
        """What is kept of it, and the run that it starts."""
        arrival = Arrival(
            flow=armed.flow, source=armed.source, id=coming.id, digest=coming.digest, at=now, why=coming.why,
            content=canonical(dict(coming.names)).decode(), status=coming.status or "started",
        )  # fmt: skip
        if coming.is_again:
            arrival = replace(arrival, by=coming.starter, was=coming.id, reason=coming.why, why="")
        if coming.status:
            return arrival, None, None
        told: dict[str, Json] = {armed.kind: armed.name}
        ask = self._asked(armed, coming, now)
        try:
            if not ask.is_meant():
                why = f"only_if says no: {armed.said['only_if']}"
                return replace(arrival, status="ignored", why=why, content=""), None, None
            name = coming.id if coming.is_apart else ask.text("id") or coming.id
            arrival = replace(arrival, id=name, entity=ask.text("entity"), position=ask.position())
            wish = Wish(
                given=ask.inputs(coming.given), key=arrival.id, starter=coming.starter,
                source=armed.source, mode=self._mode(), told=told,
            )  # fmt: skip
            new, event = new_run(armed.bundle, wish, now=now)
        except InputsInvalid as error:
            if coming.given is not None:
                raise
            return replace(arrival, status="refused", why=_told(armed, error)), None, None
        except (EvaluationError, NotPossible) as error:
            return replace(arrival, status="refused", why=str(error)), None, None
        return arrival, replace(new, receipt=None), event


def _told(armed: Armed, error: InputsInvalid) -> str:
    """Why the inputs do not fit, for whoever may see the list: a personal one is not quoted."""
    hidden = personal_inputs(armed.bundle.flow)
    said = {name: what if what == MISSING or name not in hidden else UNTOLD for name, what in error.problems.items()}
    return str(InputsInvalid(said))


class _Asked:
    """What a trigger's expressions say about one event. Raises EvaluationError, NotPossible."""

    def __init__(self, armed: Armed, names: Mapping[str, Json], now: int) -> None:
        self._armed = armed
        self._names = names
        self._now = now

    def _answer(self, value: Json) -> Json:
        bundle = self._armed.bundle
        return evaluate(value, self._names, now=self._now, zone=bundle.zone, calendar=bundle.calendar)

    def is_meant(self) -> bool:
        """The answer of `only_if`."""
        said = self._armed.said.get("only_if")
        return said is None or decided(self._answer(said), str(said))

    def text(self, word: str) -> str:
        """What names the event or its entity; empty where the trigger does not say."""
        if word not in self._armed.said:
            return ""
        value = self._answer(self._armed.said[word])
        if value is None or isinstance(value, bool | list | dict) or not str(value).strip():
            raise NotPossible(f"{word}: {self._armed.said[word]} gave {value!r}, which names nothing")
        return str(value)

    def position(self) -> Json:
        """Where it stands among the events of its entity: a number, or text."""
        said = self._armed.said.get("order_by")
        value = self._answer(said)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return value if said is None or is_number else self.text("order_by")

    def inputs(self, given: Mapping[str, Json] | None) -> Mapping[str, Json]:
        """What `fill` says, and the inputs that are `given`; else what the event brings under an input's name."""
        known = self._armed.bundle.flow.inputs
        own = {name: value for name, value in (given or {}).items() if name in known}
        if "fill" in self._armed.said:
            filled = self._answer(self._armed.said["fill"])
            return {**own, **(filled if isinstance(filled, Mapping) else {})}
        if given is not None:
            return own
        inner = (self._names.get(word) for word in ("fields", "body", "item", "event"))
        brought = dict(self._names)
        for one in inner:
            brought |= one if isinstance(one, Mapping) else {}
        return {name: brought[name] for name in known if name in brought}
