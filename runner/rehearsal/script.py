"""A case's voices as answers: what services, people and events say in it, those of `given` behind its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from runner.contract import Json, Purpose
from runner.drill.world import Answer, CallName
from runner.errors import Problem
from runner.language.bundle import Bundle
from runner.language.clauses import duration
from runner.language.fields import field_type
from runner.language.flow import Verb
from runner.language.rehearsed import CaseModel, FlowTestModel, VoicesModel
from runner.language.source import Path, Source
from runner.language.types import read_money
from runner.rehearsal.cast import Coming, Parts, Saying
from runner.rehearsal.names import CALLS, Names, Spot

PURPOSES: Mapping[str, tuple[Purpose, ...]] = {
    "undo": ("undo",),
    "find": ("find",),
    "look_up": ("lookup", "undo_lookup"),
}
_WORDS: Mapping[str, Answer] = {
    "done": Answer(),
    "not_sent": Answer(result="not_sent"),
    "nothing_found": Answer(output={"found": False}),
    "several_found": Answer(count=2),
}
WAITS: tuple[Verb, ...] = ("wait_for",)
ASKED: tuple[Verb, ...] = ("approve", "hand_off", "wait_for", "each", "agent", *CALLS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """One case, ready to be played. `own` are the places in the test where the case itself makes somebody speak."""

    path: Path
    name: str
    inputs: Mapping[str, Json]
    now: str
    by: str
    key: str
    trigger: Mapping[str, Json]
    mode: str
    answers: Mapping[CallName, Sequence[Answer]]
    parts: Parts
    own: Mapping[CallName | Spot, Path] = field(default_factory=dict)


class Reader:
    """Makes the cases of one flow test into scripts. `problems` is what is wrong with the names in them."""

    def __init__(self, test: FlowTestModel, source: Source, bundle: Bundle) -> None:
        self.problems: list[Problem] = []
        self._test = test
        self._source = source
        self._bundle = bundle
        self._names = Names(bundle)

    def spot(self, written: str, path: Path, verbs: Collection[Verb] = (), side: str = "") -> Spot | None:
        """What a name means; None where it means nothing, and then that is a problem."""
        try:
            return self._names.spot(written, verbs, side)
        except ValueError as error:
            what, _, hint = str(error).partition("; ")
            self.problems.append(self._source.problem("FL101", path, what, hint, on="key"))
            return None

    def script(self, number: int) -> Script:
        """One case, by its place in the file from 0."""
        case = self._test.cases[number]
        both: list[tuple[VoicesModel | None, Path]] = [(self._test.given, ("given",)), (case, ("cases", number))]
        answers: dict[CallName, Sequence[Answer]] = {}
        people: dict[Spot, Sequence[Saying]] = {}
        events: dict[Spot, Coming | None] = {}
        own: dict[CallName | Spot, Path] = {}
        for voices, around in both:
            if voices is None:
                continue
            found = {**self._services(voices.services or {}, (*around, "services"))}
            answers |= {name: said for name, (said, _) in found.items()}
            said = self._people(voices.people or {}, (*around, "people"))
            people |= said
            coming = self._events(voices.events or {}, (*around, "events"))
            events |= coming
            if voices is case:
                own |= {name: path for name, (_, path) in found.items()}
                own |= {spot: one.path for spot, one in coming.items() if one is not None}
                own |= {spot: each[0].path for spot, each in said.items()}
        return Script(
            path=("cases", number), name=case.case, answers=answers, parts=Parts(people=people, events=events), own=own,
            inputs=self._both(case, "inputs"), trigger=self._both(case, "trigger"), now=self._either(case, "now"),
            by=self._either(case, "by") or "person:me", key=self._either(case, "key") or "t1",
            mode=self._either(case, "mode") or "live",
        )  # fmt: skip

    def _both(self, case: CaseModel, name: str) -> dict[str, Json]:
        return {**(getattr(self._test.given, name, None) or {}), **(getattr(case, name) or {})}

    def _either(self, case: CaseModel, name: str) -> str:
        return str(getattr(case, name) or getattr(self._test.given, name, None) or "")

    # -- services --

    def _services(self, written: Mapping[str, Any], path: Path) -> dict[CallName, tuple[list[Answer], Path]]:
        found: dict[CallName, tuple[list[Answer], Path]] = {}
        for name, said in written.items():
            here = (*path, name)
            spot = self.spot(name, here, CALLS)
            if spot is None:
                continue
            for one in said if isinstance(said, list) else [said]:
                for purpose in self._purposes(spot, one):
                    call = CallName(step=spot.step, purpose=purpose, item=spot.item)
                    found.setdefault(call, ([], here))[0].extend(self._answers(spot, one, here))
        return found

    def _purposes(self, spot: Spot, said: Any) -> tuple[Purpose, ...]:
        if spot.side:
            return PURPOSES[spot.side]
        if said == "several_found" or hasattr(said, "found"):
            return ("find",)
        return (cast("Purpose", self._bundle.steps[spot.step].verb),)

    def _fields(self, spot: Spot, given: Mapping[str, Json], path: Path) -> dict[str, Json]:
        """Fields of an answer, with its money as the service's answer would have it."""
        action = self._bundle.actions.get(self._bundle.steps[spot.step].action)
        known: Mapping[str, Json] = action.output if action is not None and not spot.side else {}
        found = dict(given)
        for name in found.keys() & known.keys():
            try:
                found[name] = read_money(field_type(known[name]), found[name])
            except ValueError as error:
                self.problems.append(self._source.problem("FL006", path, f'"{name}": {error}', on="key"))
        return found

    def _answers(self, spot: Spot, said: Any, path: Path) -> Iterator[Answer]:
        if isinstance(said, str):
            yield _WORDS[said]
            return
        answer = Answer(summary=said.say or "", stays=bool(said.always))
        words: dict[str, Any] = {name: getattr(answer, name) for name in ("summary", "stays")}
        if hasattr(said, "gives"):
            words |= {"output": self._fields(spot, said.gives, path)}
        elif hasattr(said, "found"):
            words |= {"output": self._fields(spot, said.found, path), "count": 1}
        elif hasattr(said, "refused"):
            words |= {"result": "refused", "reason": said.refused}
            if said.refused == "not_found" and self._bundle.steps[spot.step].verb == "read" and not spot.side:
                words = {"output": {"found": False}, "stays": answer.stays}
        elif hasattr(said, "not_sent"):
            words |= {"result": "not_sent", "summary": said.not_sent}
        else:
            words |= {
                "result": "unknown",
                "happened": said.unknown == "happened",
                "output": self._fields(spot, said.output or {}, path),
            }
        for _ in range(said.times or 1):
            yield Answer(**words)

    # -- people and events --

    def _people(self, written: Mapping[str, Any], path: Path) -> dict[Spot, Sequence[Saying]]:
        found: dict[Spot, Sequence[Saying]] = {}
        for name, said in written.items():
            spot = self.spot(name, (*path, name), ASKED)
            if spot is not None:
                several = said if isinstance(said, list) else [said]
                found[spot] = [_saying(one, (*path, name)) for one in several]
        return found

    def _events(self, written: Mapping[str, Any], path: Path) -> dict[Spot, Coming | None]:
        found: dict[Spot, Coming | None] = {}
        for name, said in written.items():
            spot = self.spot(name, (*path, name), WAITS)
            if spot is None:
                continue
            words: dict[str, Any] = {}
            if not isinstance(said, str):
                words = {"carries": said.carries or {}} | (
                    {} if said.after is None else {"after": duration(said.after)}
                )
            found[spot] = None if said == "never" else Coming(path=(*path, name), **words)
        return found


def _saying(said: Any, path: Path) -> Saying:
    if isinstance(said, str):
        return Saying(say=said, path=path)
    words: dict[str, Any] = {} if said.after is None else {"after": duration(said.after)}
    return Saying(
        say=said.say, path=path, by=said.by or "", why=said.why or "", changes=said.changes or "", output=said.output,
        edit=said.edit or {}, leave_out=tuple(said.leave_out or ()), **words,
    )  # fmt: skip
