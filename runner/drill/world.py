"""All the services of a run, with no network: they answer as a script says, and where it is silent with a sample.

Requests are prepared by the project's own connectors, which is pure. What would have reached a service is kept in
`World.sent`, what would have taken effect there in `World.landed`: the truth that a log is compared with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from runner.contract import Action, Connector, Json, Outcome, Purpose, Reason, Request, Result, canonical
from runner.core import events as e
from runner.core.paths import list_of, outwards, scope_of
from runner.engine.advance import Turn
from runner.engine.simulated import Answer as Arrival
from runner.language.bundle import Bundle
from runner.language.samples import sample_output

SOON = 100
"""ms until an answer comes."""
WRITES = ("do", "undo")
SAID: Mapping[Result, tuple[Reason, str]] = {
    "applied": ("", ""),
    "refused": ("invalid", "The service said no."),
    "not_sent": ("connection", "The service could not be reached."),
    "unknown": ("timeout", "No answer came."),
}
"""What an answer gives as its reason and sentence where it has none of its own."""

Connect = Callable[[str], Connector]
Ask = Callable[[e.CallIntended, Request, Mapping[str, Json]], Outcome | None]
"""Somebody else who may know the answer (a real read, a recording), given the input; None where they do not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallName:
    """Which calls are meant: `step` is the step's id, or its pattern where a called flow has one of the same id
    (`log/mail`). `item` is an item around it, by its name or its number; empty for whichever.
    """

    step: str
    purpose: Purpose = "do"
    item: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What becomes of one attempt.

    `applied` is answered with a sample and, over that, `output` (`found: false` stands alone). `unknown` has `happened`
    or has not: a look-up then finds what it can. `count` is how many records a find or look-up finds instead. An answer
    that `stays` is given to every attempt from there on; any other is used up. `after` is ms.
    """

    result: Result = "applied"
    reason: Reason = ""
    summary: str = ""
    output: Mapping[str, Json] | None = None
    external_id: str = ""
    happened: bool = False
    count: int | None = None
    stays: bool = False
    after: int = SOON


Script = Mapping[CallName, Sequence[Answer]]
"""The answers of each call, in order. Calls of several items or recipients that are meant alike take turns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    """One attempt: what was prepared from `input`, and what became of it."""

    at: int
    intent: e.CallIntended
    input: Mapping[str, Json]
    request: Request
    outcome: Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Landed:
    """One true effect outside. `step` is the path, `purpose` do or undo."""

    at: int
    step: str
    purpose: str
    part: int
    action: str
    key: str
    input: Mapping[str, Json]
    output: Mapping[str, Json]
    external_id: str


class Preparing:
    """The project's connectors, of which only `prepare` is used; what was prepared once is known from then on."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connectors: dict[str, Connector] = {}
        self._known: dict[tuple[str, str, str, str, bytes], Request] = {}

    def connector(self, connection: str) -> Connector:
        """The real one. Raises SettingsError."""
        if connection not in self._connectors:
            self._connectors[connection] = self._connect(connection)
        return self._connectors[connection]

    def prepare(self, connection: str, action: str, given: Mapping[str, Json], key: str, purpose: Purpose) -> Request:
        """The exact request. Raises RequestError, EvaluationError."""
        name = (connection, action, key, purpose, canonical(given))
        if name not in self._known:
            self._known[name] = self.connector(connection).prepare(action, given, key=key, purpose=purpose)
        return self._known[name]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Clerk:
    """A connection as a run sees it: requests are noted, and nothing is ever sent."""

    name: str
    preparing: Preparing
    inputs: dict[tuple[str, str], Mapping[str, Json]]

    @property
    def actions(self) -> Mapping[str, Action]:
        return self.preparing.connector(self.name).actions

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        request = self.preparing.prepare(self.name, action, input, key, purpose)
        self.inputs[key, purpose] = input
        return request

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        raise AssertionError("nothing leaves this world")

    async def close(self) -> None:
        """Nothing is open."""

    def origin(self) -> str:
        return self.preparing.connector(self.name).origin()


class World:
    """The services of one run; see `engine.simulated.Outside`. Give its `watch` to the simulation as `observe`, so that
    items can be meant by their names.
    """

    def __init__(self, bundle: Bundle, preparing: Preparing, script: Script | None = None, ask: Ask | None = None):
        self.sent: list[Sent] = []
        self.landed: list[Landed] = []
        self._bundle = bundle
        self._preparing = preparing
        self._script = script or {}
        self._ask = ask
        self._taken = Counter[CallName]()
        self._items: dict[str, str] = {}
        self._inputs: dict[tuple[str, str], Mapping[str, Json]] = {}
        self.unasked = {name for name, answers in self._script.items() if answers}
        """What the script has an answer for and nobody has asked yet."""

    def watch(self, turn: Turn) -> None:
        """Learns what the items that have begun are called."""
        for event in turn.events:
            if isinstance(event, e.ScopeStarted) and event.kind == "item":
                self._items[event.step] = event.name

    def connect(self, connection: str) -> Connector:
        """See `engine.simulated.Outside`."""
        return _Clerk(name=connection, preparing=self._preparing, inputs=self._inputs)

    def send(self, intent: e.CallIntended, request: Request, *, now: int, durable: int) -> Arrival:
        """See `engine.simulated.Outside`."""
        answer = self._scripted(intent)
        given = self._inputs.get((intent.key, intent.purpose), {})
        known = self._ask(intent, request, given) if answer is None and self._ask is not None else None
        answer = answer or Answer()
        outcome = known or self._outcome(intent, answer, given, now)
        if known is not None and known.result == "applied" and intent.purpose in WRITES:
            outcome = self._applied(intent, Answer(output=known.output, external_id=known.external_id), given, now)
        self.sent.append(Sent(at=now, intent=intent, input=given, request=request, outcome=outcome))
        return Arrival(outcome=outcome, after=answer.after)

    # -- the script --

    def names_of(self, intent: e.CallIntended) -> Iterator[CallName]:
        """Everything by which a script may mean this call, the most exact first."""
        pattern = "/".join(part for part in intent.step.split("/") if not part.isdigit())
        around = [scope for scope in outwards(scope_of(intent.step)) if list_of(scope)]
        items = [name for scope in around for name in (self._items.get(scope, ""), scope.rpartition("/")[2]) if name]
        for item in (*items, ""):
            for step in dict.fromkeys((pattern, pattern.rpartition("/")[2])):
                yield CallName(step=step, purpose=intent.purpose, item=item)  # type: ignore[arg-type]

    def _scripted(self, intent: e.CallIntended) -> Answer | None:
        name = next((name for name in self.names_of(intent) if name in self._script), None)
        answers = self._script[name] if name is not None else ()
        if name is None or not answers:
            return None
        self.unasked.discard(name)
        place = self._taken[name]
        self._taken[name] += 1
        if place >= len(answers):
            return answers[-1] if answers[-1].stays else None
        return answers[place]

    # -- what becomes of it --

    def _outcome(self, intent: e.CallIntended, answer: Answer, given: Mapping[str, Json], now: int) -> Outcome:
        if answer.result == "applied":
            return self._applied(intent, answer, given, now)
        if answer.result == "unknown" and answer.happened and intent.purpose in WRITES:
            self._land(intent, answer, given, now)
        reason, summary = SAID[answer.result]
        return Outcome(
            result=answer.result, reason=answer.reason or reason, summary=answer.summary or summary,
        )  # fmt: skip

    def _applied(self, intent: e.CallIntended, answer: Answer, given: Mapping[str, Json], now: int) -> Outcome:
        if intent.purpose in WRITES:
            landed = self._land(intent, answer, given, now)
            return Outcome(result="applied", output=landed.output, external_id=landed.external_id)
        if intent.purpose == "read":
            return Outcome(result="applied", output=self._output(intent, answer, given), external_id=answer.external_id)
        seen = self._seen(intent, given)
        count = answer.count if answer.count is not None else len(seen)
        if count == 1 and not seen:
            output = self._output(intent, answer, given)
            return Outcome(result="applied", count=1, output=output, external_id=answer.external_id or _id_of(output))
        first = seen[0] if count and seen else None
        output = dict(answer.output or first.output) if first is not None else {}
        external_id = answer.external_id or (first.external_id if first is not None else "")
        return Outcome(result="applied", count=count, output=output, external_id=external_id)

    def _land(self, intent: e.CallIntended, answer: Answer, given: Mapping[str, Json], now: int) -> Landed:
        """The effect, or the one that stands already: the service may know our key."""
        dedupes = self._bundle.actions[intent.action].effect == "keyed"
        known = [each for each in self.landed if (each.key, each.purpose) == (intent.key, intent.purpose)]
        if dedupes and known:
            return known[0]
        output = self._output(intent, answer, given)
        landed = Landed(
            at=now, step=intent.step, purpose=intent.purpose, part=intent.part, action=intent.action, key=intent.key,
            input=given, output=output, external_id=answer.external_id or _id_of(output),
        )  # fmt: skip
        self.landed.append(landed)
        return landed

    def _seen(self, intent: e.CallIntended, given: Mapping[str, Json]) -> list[Landed]:
        """What a find or a look-up finds of what we did."""
        if intent.purpose == "find":
            alike = (each for each in self.landed if (each.action, each.purpose) == (intent.action, "do"))
            return [each for each in alike if all(each.input.get(name) == value for name, value in given.items())]
        purpose = "undo" if intent.purpose == "undo_lookup" else "do"
        return [each for each in self.landed if (each.key, each.purpose) == (intent.key, purpose)]

    def _output(self, intent: e.CallIntended, answer: Answer, given: Mapping[str, Json]) -> Mapping[str, Json]:
        if answer.output is not None and answer.output.get("found") is False:
            return answer.output
        return {**sample_output(self._bundle.actions[intent.action], given), **(answer.output or {})}


def _id_of(output: Mapping[str, Json]) -> str:
    """What a service would call what it made: its first field that is an id."""
    found = (value for name, value in output.items() if name == "id" or name.endswith("_id"))
    return str(next(found, ""))
