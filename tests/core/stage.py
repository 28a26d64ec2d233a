"""A stage for single runs: outcomes as written, people who act at a word, no chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runner.contract import Json, Outcome, Request
from runner.core import events as e
from runner.core.state import State
from runner.engine.simulated import Answer, Calm, Fate, Result, Simulation
from runner.errors import RequestError
from runner.language.bundle import Bundle, patterns
from runner.language.flow import Flow
from runner.language.load import load_flow
from runner.people.operations import Order, report_for
from tests.laws.flows import ACTIONS
from tests.laws.play import start_of
from tests.laws.world import answer_of

Script = Mapping[tuple[str, str], Sequence[Any]]
Act = tuple[Callable[[State], bool], Order]

REFUSED = Outcome(result="refused", reason="invalid", summary="no")
BUSY = Outcome(result="refused", reason="rate_limited", summary="slow down", retry_after=0)
LOST = Outcome(result="unknown", reason="timeout", summary="no answer")
NOT_SENT = Outcome(result="not_sent", reason="connection", summary="nobody listens")
NONE = Outcome(result="applied", count=0)
ONE = Outcome(result="applied", count=1, output={"id": "found"}, external_id="found")
TWO = Outcome(result="applied", count=2, output={"id": "found"})
CANNOT = RequestError("it cannot be written")


def flow_of(name: str, steps: str, top: str = "", mode: str = "live") -> Flow:
    """A flow out of its steps as YAML."""
    text = f"flow: {name}\ntitle: It\nowner: person:owner\nmode: {mode}\n{top}steps:\n{steps}"
    flow, _, problems = load_flow(text, f"{name}.yaml")
    assert flow is not None
    assert not problems, problems
    return flow


def bundle_of(steps: str, top: str = "", mode: str = "live", called: Sequence[Flow] = ()) -> Bundle:
    """A flow called `it`, out of its steps as YAML, with the corpus's service, and the flows that it calls."""
    flow, others = flow_of("it", steps, top, mode), {one.id: one for one in called}
    return Bundle(digest="it", flow=flow, actions=ACTIONS, steps=patterns(flow, others), called=others)


def do(id: str, action: str = "svc.keyed", undo: str = "svc.undo", more: str = "", with_: str = "{ name: x }") -> str:
    """One `do` step as YAML. `undo` is an action that takes it back, or the whole clause in braces."""
    clause = undo if undo.startswith("{") else f'{{ cancel: {undo}, with: {{ id: "${{{{ output.id }}}}" }} }}'
    return f"  - id: {id}\n    do: {action}\n    with: {with_}\n    compensate: {clause}\n{more}"


class Scripted:
    """The services: outcomes by (step, purpose), one for each attempt; applied when there is none left."""

    def __init__(self, bundle: Bundle, script: Script) -> None:
        self.bundle = bundle
        self.left = {place: list(outcomes) for place, outcomes in script.items()}
        self.sent: list[tuple[str, str, int]] = []
        self.takes = 10

    def connect(self, connection: str) -> Any:
        return self

    def origin(self) -> str:
        return "https://svc.example.test"

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: str) -> Request:
        if action == "unbuildable" or input.get("to") == "bad":
            raise CANNOT
        if self.left.get(("any", purpose)):
            raise self.left[("any", purpose)].pop(0)
        return Request.of({"action": action, "input": dict(input), "key": key, "purpose": purpose})

    def send(self, intent: e.CallIntended, request: Request, *, now: int, durable: int) -> Answer:
        self.sent.append((intent.step, intent.purpose, intent.part))
        left = self.left.get((intent.step, intent.purpose), [])
        if left:
            return Answer(outcome=left.pop(0), after=self.takes)
        count = 1 if intent.purpose in ("lookup", "undo_lookup") else 0 if intent.purpose == "find" else None
        output = answer_of(self.bundle.actions[intent.action], f"{intent.step}-{intent.part}")
        return Answer(outcome=Outcome(result="applied", output=output, count=count), after=self.takes)


class Crowd:
    """People who act as soon as the state is as they wait for, each once, in order."""

    def __init__(self, acts: Sequence[Act]) -> None:
        self.left = list(acts)

    def next_at(self, state: State, now: int) -> int | None:
        return now if self.left and self.left[0][0](state) else None

    def acts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        if not self.left or not self.left[0][0](state):
            return ()
        _, order = self.left.pop(0)
        return (report_for(bundle, state, order, now),)

    def interrupts(self, bundle: Bundle, state: State, now: int) -> Sequence[e.Event]:
        return ()


class Fates(Calm):
    """Commits with their fates, in order; then all are kept. `crashes`: after which sends the engine dies."""

    def __init__(self, *fates: Fate, crashes: Sequence[int] = ()) -> None:
        self.fates = list(fates)
        self.crashes = crashes
        self.sends = 0

    def commit(self) -> Fate:
        return self.fates.pop(0) if self.fates else "kept"

    def crash_after_send(self) -> bool:
        self.sends += 1
        return self.sends in self.crashes


def asked(choice: str, step: str = "", **words: Any) -> Act:
    """Answers as soon as there is a question about the step (or any)."""
    order = Order(action=choice, by="person:owner", step=step, reason="so", **words)
    return (lambda state: any(h.step == step or not step for h in state.open_handoffs)), order


def once(action: str, when: Callable[[State], bool]) -> Act:
    """An operator's order as soon as `when` holds."""
    return when, Order(action=action, by="person:ops", reason="so")


def calling(step: str, purpose: str) -> Callable[[State], bool]:
    """A call of this kind is out."""
    return lambda state: any(name[:2] == (step, purpose) and call.is_open for name, call in state.calls.items())


def waiting(step: str, purpose: str) -> Callable[[State], bool]:
    """A timer of this kind of call runs."""
    return lambda state: any(name[:2] == (step, purpose) and call.due for name, call in state.calls.items())


def asking(step: str) -> Callable[[State], bool]:
    """There is an open question about the step."""
    return lambda state: any(handoff.step == step for handoff in state.open_handoffs)


def run(
    bundle: Bundle, script: Script | None = None, acts: Sequence[Act] = (), *, weather: Any = None,
    before: Sequence[e.Event] = (), started: e.RunStarted | None = None, people: Crowd | None = None,
) -> Result:  # fmt: skip
    """Plays a run to its rest. It must not spin."""
    outside = Scripted(bundle, script or {})
    first = started or start_of(bundle)
    simulation = Simulation(bundle, outside, first, people=people or Crowd(acts), weather=weather, before=before)
    result = simulation.run()
    assert result.spins == 0
    assert result.end != "exhausted"
    return result


def facts(result: Result, *kinds: type[e.Event]) -> list[Any]:
    """The facts of these kinds, in order."""
    return [event for event in result.events if isinstance(event, kinds)]


def undone(result: Result) -> list[str]:
    """The steps whose compensation was applied, in that order."""
    return [event.step for event in facts(result, e.CallApplied) if event.purpose == "undo"]


def words_of(result: Result) -> dict[str, str]:
    """Each effect's disposition by its step."""
    return {effect.path: effect.disposition for effect in result.state.effects.values()}
