"""A made-up outside for the laws: services that behave like their class, persons who answer, a machine that breaks.

Every chance comes from one `random.Random(seed)`. The `Ledger` is the truth at the receivers: what reached them and what
took effect. `calm()` ends all faults, so that a run must then come to its end.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.contract import Action, Json, Outcome, Request, Result, digest
from runner.core import events as e
from runner.core.paths import join
from runner.core.state import HandOff, State
from runner.engine.simulated import Answer, Fate, MemoryLog
from runner.errors import NotPossible, RequestError
from runner.language.bundle import Bundle
from runner.people.operations import Order, fields_needed, report_for
from runner.people.table import open_questions
from tests.laws.deciders import Deciders
from tests.laws.senders import Senders
from tests.laws.staff import Staff

WRITES = ("do", "undo")
FIND_DELAY = 2_000
REFUSES = "svc.refuses"


@dataclass(frozen=True, kw_only=True)
class Touch:
    """Bytes of one attempt that reached a receiver. `durable` is how long the log was at that moment."""

    at: int
    intent: e.CallIntended
    hash: str
    durable: int


@dataclass(frozen=True, kw_only=True)
class Landed:
    """One true effect. It takes effect at `at` and shows in look-ups from `shows` on."""

    at: int
    shows: int
    intent: e.CallIntended
    input: Mapping[str, Json]
    output: Mapping[str, Json]
    external_id: str


@dataclass(kw_only=True)
class Ledger:
    """What is true outside. `found` holds what others had made, by action and the fields looked for."""

    touches: list[Touch] = field(default_factory=list)
    landed: list[Landed] = field(default_factory=list)
    found: dict[str, int] = field(default_factory=dict)
    staff: Staff = field(default_factory=Staff)

    def of_key(self, key: str, purpose: str) -> list[Landed]:
        return [each for each in self.landed if each.intent.key == key and each.intent.purpose == purpose]


@dataclass(kw_only=True)
class Faults:
    """How likely each fault of a call is, in per cent."""

    refused: int = 8
    rate_limited: int = 8
    unavailable: int = 3
    not_sent: int = 8
    unknown_with: int = 10
    unknown_without: int = 8
    odd_answer: int = 3
    unbuildable: int = 1
    others_record: int = 30


NO_FAULTS = Faults(
    refused=0, rate_limited=0, unavailable=0, not_sent=0, unknown_with=0, unknown_without=0, odd_answer=0,
    unbuildable=0, others_record=0,
)  # fmt: skip


class RandomOutside:
    """All services of a bundle."""

    def __init__(self, bundle: Bundle, rng: random.Random, faults: Faults) -> None:
        self.bundle = bundle
        self.rng = rng
        self.faults = faults
        self.ledger = Ledger()
        if any(step.covered_by or (step.compensate and step.compensate.approve_by) for step in bundle.steps.values()):
            self.ledger.staff = Staff.at_random(rng)
        self._made = 0

    def calm(self) -> None:
        """No more faults."""
        self.faults = NO_FAULTS

    def connect(self, connection: str) -> Any:
        return _Connector(self, connection)

    def send(self, intent: e.CallIntended, request: Request, *, now: int, durable: int) -> Answer:
        if self._happens(self.faults.not_sent):
            is_late = (
                not self.bundle.actions[intent.action].own and digest([intent.key, intent.attempt])[-1] in "02468ace"
            )
            why = _no("not_sent", "late", "too busy") if is_late else _no("not_sent", "connection", "nobody listens")
            return Answer(outcome=why, after=self.rng.randint(0, 50))
        if self.bundle.actions[intent.action].own:
            return self._carry_out(intent, request, now, durable)
        touch = Touch(at=now, intent=intent, hash=digest(request.body), durable=durable)
        self.ledger.touches.append(touch)
        if intent.purpose in WRITES:
            return self._write(intent, request, now)
        return self._asked(intent, request, now)

    # -- writes --

    def _write(self, intent: e.CallIntended, request: Request, now: int) -> Answer:
        action = self.bundle.actions[intent.action]
        known = self._deduped(intent, action, now)
        soon = self.rng.randint(0, 400) if self._happens(90) else self.rng.randint(0, intent.limit - 1)
        if self._happens(self.faults.rate_limited):
            pause = self.rng.choice([None, 0, 1_500, 60_000])
            return Answer(outcome=_no("refused", "rate_limited", "slow down", retry_after=pause), after=soon)
        if self._happens(self.faults.unavailable):
            return Answer(outcome=_no("refused", "unavailable", "closed for repairs"), after=soon)
        if intent.action == REFUSES or (known is None and self._happens(self.faults.refused)):
            reason = self.rng.choice(["invalid", "forbidden", "conflict", "not_found"])
            return Answer(outcome=_no("refused", reason, f"no: {reason}"), after=soon)
        if known is not None and self._happens(self.faults.odd_answer):
            reason = self.rng.choice(["invalid", "conflict"])
            return Answer(outcome=_no("refused", reason, "this key was used"), after=soon)
        if self._happens(self.faults.unknown_without):
            return Answer(outcome=_no("unknown", "timeout", "no answer"), after=self._until_lost(intent))
        is_lost = self._happens(self.faults.unknown_with)
        lands = now + (self.rng.randint(0, intent.limit) if is_lost else soon)
        effect = known or self._land(intent, action, request, lands)
        if is_lost:
            return Answer(outcome=_no("unknown", "timeout", "no answer"), after=self._until_lost(intent))
        if known is not None and self._happens(self.faults.odd_answer):
            return Answer(outcome=_no("unknown", self.rng.choice(["already_there", "in_progress"]), "seen"), after=soon)
        done = Outcome(result="applied", output=effect.output, external_id=effect.external_id)
        return Answer(outcome=done, after=soon)

    def _carry_out(self, intent: e.CallIntended, request: Request, now: int, durable: int) -> Answer:
        """An action on our own tables: done and recorded at once."""
        self.ledger.touches.append(Touch(at=now, intent=intent, hash=digest(request.body), durable=durable))
        if self._happens(self.faults.refused):
            return Answer(outcome=_no("refused", "conflict", "it is there already"), after=0)
        effect = self._land(intent, self.bundle.actions[intent.action], request, now)
        return Answer(outcome=Outcome(result="applied", output=effect.output), after=0)

    def _deduped(self, intent: e.CallIntended, action: Action, now: int) -> Landed | None:
        if action.effect != "keyed":
            return None
        known = [each for each in self.ledger.of_key(intent.key, intent.purpose) if now <= each.at + action.key_life]
        return known[0] if known else None

    def _land(self, intent: e.CallIntended, action: Action, request: Request, at: int) -> Landed:
        self._made += 1
        delay = action.lookup_delay if action.has_lookup else FIND_DELAY
        external_id = f"{intent.action}-{self._made}"
        effect = Landed(
            at=at, shows=at + self.rng.randint(0, delay), intent=intent, input=request.body["input"],
            output=answer_of(action, external_id), external_id=external_id,
        )  # fmt: skip
        self.ledger.landed.append(effect)
        return effect

    def _until_lost(self, intent: e.CallIntended) -> int:
        return self.rng.choice([intent.limit, self.rng.randint(0, intent.limit)])

    # -- reads, look-ups and finds --

    def _asked(self, intent: e.CallIntended, request: Request, now: int) -> Answer:
        soon = self.rng.randint(0, 300)
        if self._happens(self.faults.rate_limited):
            return Answer(outcome=_no("refused", "rate_limited", "slow down", retry_after=1_000), after=soon)
        if self._happens(self.faults.refused // 2):
            return Answer(outcome=_no("refused", "forbidden", "you may not see this"), after=soon)
        if self._happens(self.faults.unknown_without + self.faults.unknown_with):
            return Answer(outcome=_no("unknown", "timeout", "no answer"), after=self._until_lost(intent))
        action = self.bundle.actions[intent.action]
        if action.is_agent:
            return Answer(outcome=Outcome(result="applied", output=self._turn(request)), after=soon)
        if intent.purpose == "read":
            return Answer(outcome=Outcome(result="applied", output=answer_of(action, "r1")), after=soon)
        if intent.purpose == "find":
            return Answer(outcome=self._find(intent, request, now), after=soon)
        purpose = "undo" if intent.purpose == "undo_lookup" else "do"
        seen = [each for each in self.ledger.of_key(intent.key, purpose) if each.shows <= now]
        return Answer(outcome=_counted(seen, len(seen)), after=soon)

    def _turn(self, request: Request) -> dict[str, Json]:
        """What an agent's model wants: a few of its tools, or something that it does not have; now and then nothing."""
        tools = [*request.body["input"]["turn"]["tools"], {"name": "erase", "fields": {}}]
        wanted = [self.rng.choice(tools) for _ in range(self.rng.choice([0, 1, 1, 2, 3]))]
        calls = [{"tool": tool["name"], "input": self._given(tool["fields"])} for tool in wanted]
        return {"text": "" if calls else "Done.", "calls": calls, "tokens": 10, "cost": None}

    def _given(self, fields: Mapping[str, Json]) -> dict[str, Json]:
        given: dict[str, Json] = {"id": f"c{self.rng.randint(1, 2)}", "email": "one@x.test", "amount": 5}
        given = {name: value for name, value in given.items() if name in fields}
        return {**given, "text": "mine"} if self._happens(10) else given

    def _find(self, intent: e.CallIntended, request: Request, now: int) -> Outcome:
        wanted: Mapping[str, Json] = request.body["input"]
        place = f"{intent.action} {digest(dict(wanted))}"
        if place not in self.ledger.found:
            others = self.rng.choice([1, 1, 2]) if self._happens(self.faults.others_record) else 0
            self.ledger.found[place] = others
        elif self._happens(self.faults.odd_answer):
            self.ledger.found[place] += 1
        ours = [
            each
            for each in self.ledger.landed
            if each.intent.action == intent.action and each.shows <= now
            if all(each.input.get(name) == value for name, value in wanted.items())
        ]
        others = self.ledger.found[place]
        if not ours and others:
            output = answer_of(self.bundle.actions[intent.action], f"{intent.action}-others")
            return Outcome(result="applied", count=others, output=output, external_id=output.get("id", ""))
        return _counted(ours, len(ours) + others)

    def _happens(self, per_cent: int) -> bool:
        return self.rng.random() * 100 < per_cent


class _Connector:
    """Prepares requests; now and then one cannot be built (a connection's settings are broken)."""

    def __init__(self, outside: RandomOutside, connection: str) -> None:
        self.outside = outside
        self.connection = connection

    def origin(self) -> str:
        return f"https://{self.connection}.example.test"

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: str) -> Request:
        is_bad = action == "unbuildable" or (action == "picky" and input.get("to") == "bad")
        if is_bad or self.outside.rng.random() * 100 < self.outside.faults.unbuildable:
            raise RequestError(f"{self.connection}.{action}: the request cannot be built")
        return Request.of({"action": action, "input": dict(input), "key": key, "purpose": purpose})


def _no(result: Result, reason: Any, summary: str, retry_after: int | None = None) -> Outcome:
    return Outcome(result=result, reason=reason, summary=summary, retry_after=retry_after)


def _counted(seen: Sequence[Landed], count: int) -> Outcome:
    first = seen[0] if seen else None
    return Outcome(
        result="applied",
        count=count,
        output=first.output if first else {},
        external_id=first.external_id if first else "",
    )


def answer_of(action: Action, external_id: str) -> dict[str, Json]:
    """An output of the declared fields."""
    kinds: dict[str, Json] = {"id": external_id, "rows": [external_id]}
    return {name: kinds.get(name, f"{name} of {external_id}") for name in action.output}


# --- people --------------------------------------------------------------------------------------------------------

OPERATIONS = ("pause", "stop", "stop_compensate", "compensate", "retry", "skip", "take_over", "acknowledge", "resume")
LIKELY = {"take_over": 1, "close": 2, "acknowledge": 0}


class RandomPeople:
    """Operators who interfere at chance moments, and owners who answer after a while, truthfully or not.

    `is_honest`: whoever says "it happened" or "it did not" says what is so.
    """

    def __init__(
        self,
        outside: RandomOutside,
        rng: random.Random,
        *,
        operations: int,
        is_honest: bool = True,
        answers: bool = True,
    ) -> None:
        self.outside = outside
        self.rng = rng
        self.is_honest = is_honest
        self.answers = answers
        has_lists = any(step.verb == "each" for step in outside.bundle.steps.values())
        last = 90 if has_lists else 28
        self._plans = sorted((rng.randint(1, last), rng.choice(OPERATIONS)) for _ in range(operations))
        self._may_stop = operations > 1
        self._due: dict[str, int] = {}
        self._retries = 0
        self.log = MemoryLog()
        self.before: Sequence[e.Event] = ()
        self._senders = Senders(rng)
        self._deciders = Deciders(rng, outside.connect, outside.ledger.staff)
        self._held_back: list[e.Event] = []
        self.is_calm = False

    def calm(self) -> None:
        """No more interference; every question is answered, and soon."""
        self._plans = []
        self._senders.is_calm = self._deciders.is_calm = True
        self.is_calm = self.answers = True
        self._due = {}

    def next_at(self, state: State, now: int) -> int | None:
        times = [self._when(f"paused {state.seq}", now)] if state.is_paused else []
        if self._plans:
            times.append(self._when(f"plan {len(self._plans)} at {state.seq}", now))
        if self.answers:
            times.extend(self._when(handoff.id, now) for handoff in state.open_handoffs)
        times.extend(self._senders.times(state, now))
        times.extend(self._deciders.times(state, now))
        return min(times, default=None)

    def _when(self, what: str, now: int) -> int:
        if what not in self._due:
            self._due[what] = now + self.rng.choice([0, 1_000, 90_000, 4_000_000, 200_000_000])
        return self._due[what]

    def acts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        if state.has_ended:
            return ()
        fed = self._senders.feed(self.log, state, now)
        if fed:
            return fed
        made = self._held_back or self._stop_in_between(state, now) or self._operations(bundle, state, now)
        made = made or self._deciders.decide(bundle, state, now)
        self._held_back = []
        if state.is_paused and self._when(f"paused {state.seq}", now) <= now:
            made = [*made, e.RunResumed(at=now, by="person:ops")]
        for handoff in open_questions(state):
            if self.answers and self._when(handoff.id, now) <= now and not made:
                made = [*made, *self._answer(bundle, state, handoff, now)]
        if made and not self.is_calm and self.rng.random() < 0.1:
            self._held_back = made
            return ()
        return made

    def interrupts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        if self.rng.random() < 0.3:
            made, self._held_back = self._held_back, []
            return made or self._operations(bundle, state, now)
        return ()

    def _stop_in_between(self, state: State, now: int) -> list[e.Event]:
        """Now and then somebody stops a run while ended items of a list are being made good."""
        is_meant = any(scope.is_recalled for scope in state.scopes.values()) and state.stop is None
        if not is_meant or self.is_calm or not self._may_stop or self.rng.random() > 0.06:
            return []
        return [e.StopRequested(at=now, by="person:ops", compensate=False, reason="enough")]

    def _operations(self, bundle: Bundle, state: State, now: int) -> list[e.Event]:
        if not self._plans or state.has_ended:
            return []
        if self._plans[0][0] > state.seq and self._when(f"plan {len(self._plans)} at {state.seq}", now) > now:
            return []
        _, action = self._plans.pop(0)
        try:
            return [report_for(bundle, state, Order(action=action, by="person:ops", reason="because"), now)]
        except NotPossible:
            return []

    def _answer(self, bundle: Bundle, state: State, handoff: HandOff, now: int) -> list[e.Event]:
        choices = [choice for choice in handoff.choices if choice != "retry" or self._retries < 6]
        choice = self.rng.choices(choices, [LIKELY.get(choice, 6) for choice in choices])[0]
        self._retries += choice == "retry"
        if handoff.kind == "set_aside" and choice in ("retry", "skip") and self.rng.random() < 0.6:
            number = self.rng.choice(sorted(state.lists[handoff.step].aside))
            order = Order(action=choice, by="person:owner", step=join(handoff.step, str(number)), reason="this one")
            return [report_for(bundle, state, order, now)]
        output: Mapping[str, Json] = {}
        external_id = ""
        if choice in ("happened", "did_not") and handoff.purpose in WRITES:
            landed = self._truth(state, handoff)
            if self.is_honest:
                choice = "happened" if landed else "did_not"
            external_id = landed.external_id if landed else "seen by a person"
        if choice == "happened":
            action = bundle.actions[bundle.step(handoff.step).action]
            needed = dict.fromkeys(fields_needed(bundle, state, handoff.step), "told")
            output = needed | answer_of(action, external_id)
        order = Order(
            action=choice, by="person:owner", handoff=handoff.id, reason="as I see it", output=output,
            external_id=external_id,
        )  # fmt: skip
        return [report_for(bundle, state, order, now)]

    def _truth(self, state: State, handoff: HandOff) -> Landed | None:
        name = (handoff.step, handoff.purpose, handoff.part)
        intents = (x for x in (*self.before, *self.log.events) if isinstance(x, e.CallIntended) and x.call == name)
        landed = self.outside.ledger.of_key([*intents][-1].key, handoff.purpose)
        return landed[0] if landed else None


# --- the machine ---------------------------------------------------------------------------------------------------


class RandomWeather:
    """An engine that dies and a disk that cannot be trusted, `rate` in per cent of the commits."""

    def __init__(self, rng: random.Random, *, rate: int, holds: int) -> None:
        self.rng = rng
        self.rate = rate
        self.holds = holds

    def calm(self) -> None:
        """All is well from here on."""
        self.rate = self.holds = 0

    def commit(self) -> Fate:
        if self.rng.random() * 100 >= self.rate:
            return "kept"
        return self.rng.choice(["error_kept", "error_lost", "crash_kept", "crash_lost"])

    def crash_after_send(self) -> bool:
        return self.rng.random() * 100 < self.rate

    def answer_of_the_dead(self) -> bool:
        return self.rng.random() < 0.5

    def holder(self, record: str, now: int) -> tuple[str, int] | None:
        if self.rng.random() * 100 < self.holds:
            return "other-run", now + self.rng.choice([1_000, 5_000_000])
        return None

    def slots(self) -> int:
        return 64 if self.rate == 0 else self.rng.choice([1, 2, 64, 64])
