"""Starting a run: one transaction, one run for each business event, whoever asks and however often."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runner.clock import DAY, MINUTE, iso
from runner.contract import Json, digest
from runner.core import events as e
from runner.core.state import State
from runner.errors import AmendsError, EvaluationError, InputsInvalid, NotPossible
from runner.language.bundle import Bundle
from runner.language.expressions import evaluate
from runner.language.schemas import read_inputs
from runner.store.facts import NewRun, Started, Store

LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"
_ID = re.compile(rf"\d{{6}}-[{LETTERS}]{{8}}")
_PLACES = len(LETTERS) ** 8
_PER_MS = _PLACES // DAY
_NEAR = MINUTE * _PER_MS


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """A run that somebody or something asks for. `key` is the trigger's id (a fresh one where it is empty).

    `rerun` asks for a new run although the business event has one. `told` is what `trigger` says besides.
    """

    given: Mapping[str, Json] = field(default_factory=dict)
    key: str = ""
    starter: str = ""
    source: str = "manual"
    mode: str = ""
    rerun: int = 0
    told: Mapping[str, Json] = field(default_factory=dict)


class _Places:
    """Places in a day, one for each run: by chance within its ms, behind one that was taken shortly before."""

    def __init__(self) -> None:
        self._last = 0

    def take(self, now: int) -> int:
        place = now % DAY * _PER_MS + secrets.randbelow(_PER_MS)
        if place <= self._last < place + _NEAR:
            place = self._last + 1
        self._last = place
        return place % _PLACES


_PLACES_TODAY = _Places()


def new_run_id(now: int) -> str:
    """A run's id: the day it began and eight letters, `261129-k3x9m2qa`. Ids sort in the order of time.

    What a database keeps by run stands together then where runs go on together: a commit touches few of its pages.
    """
    place, letters = _PLACES_TODAY.take(now), ""
    for _ in range(8):
        place, letter = divmod(place, len(LETTERS))
        letters = LETTERS[letter] + letters
    return f"{iso(now)[2:10].replace('-', '')}-{letters}"


def is_whole_id(run: str) -> bool:
    """Whether it is no mere beginning of a run's id."""
    return _ID.fullmatch(run) is not None


async def keep(store: Store, bundle: Bundle) -> None:
    """Stores a bundle, with those of what follows it."""
    for pinned, texts in (*bundle.beside.items(), (bundle.digest, bundle.texts)):
        await store.keep_bundle(pinned, texts)


async def start_run(store: Store, bundle: Bundle, wish: Wish, *, now: int) -> tuple[Started, e.RunStarted]:
    """Starts the run or joins the one that has the key: what stands now, and the RunStarted that was written for it.

    Raises InputsInvalid, NotPossible, RunKeyConflict.
    """
    new, started = new_run(bundle, wish, now=now)
    await keep(store, bundle)
    return await store.start(new), started


async def start_many(
    store: Store, bundle: Bundle, wishes: Sequence[Wish], begin: Callable[[Started, e.RunStarted], None], *, now: int
) -> list[Started | AmendsError]:
    """The same for many, in one commit: what became of each, in their order. `begin` is told of those that stand."""
    found: list[Started | AmendsError] = []
    made: list[tuple[int, NewRun, e.RunStarted]] = []
    for at, wish in enumerate(wishes):
        try:
            made.append((at, *new_run(bundle, wish, now=now)))
            found.append(NotPossible(""))
        except AmendsError as refused:
            found.append(refused)
    await keep(store, bundle)
    answers = await store.start_many([new for _, new, _ in made])
    for (at, _, event), answer in zip(made, answers, strict=True):
        found[at] = answer
        if isinstance(answer, Started):
            begin(answer, event)
    return found


def new_run(bundle: Bundle, wish: Wish, *, now: int) -> tuple[NewRun, e.RunStarted]:
    """What the start of a run writes. Raises InputsInvalid, NotPossible."""
    run = new_run_id(now)
    inputs = read_inputs(bundle.flow.inputs, wish.given, zone=bundle.zone, schema=bundle.flow.schema)
    trigger: dict[str, Json] = {"id": wish.key or run, "at": iso(now), **wish.told}
    if wish.starter:
        trigger["by"] = wish.starter
    flow, mode = bundle.flow, wish.mode or bundle.flow.mode
    if wish.key and wish.source == "manual" and "trigger" not in flow.run_key:
        raise NotPossible(
            f"the key of a run of {flow.id} is made by run_key: {flow.run_key}, so a key given with the start has no "
            "effect; give other inputs, or leave the key out"
        )
    run_key, record = keys_of(bundle, inputs, trigger, now)
    started = e.RunStarted(
        at=now, run=run, flow=flow.id, mode=mode, bundle=bundle.digest, owner=flow.owner, record=record,
        run_key=run_key, rerun=wish.rerun, starter=wish.starter, inputs=inputs, trigger=trigger,
    )  # fmt: skip
    new = NewRun(
        run=run, flow=flow.id, mode=mode, run_key=run_key, rerun=wish.rerun, bundle=bundle.digest, title=flow.title,
        owner=flow.owner, record=record, inputs_digest=digest(inputs), event=started, starter=wish.starter,
        receipt=(f"{wish.source}:{flow.id}:{mode}", wish.key) if wish.key else None,
    )  # fmt: skip
    return new, started


def keys_of(bundle: Bundle, inputs: Mapping[str, Json], trigger: Mapping[str, Json], now: int) -> tuple[str, str]:
    """(the run key, the record) of a run with these inputs. Raises InputsInvalid, NotPossible for an empty part."""
    names: dict[str, Json] = {"inputs": inputs, "trigger": trigger}
    flow = bundle.flow
    run_key = _key_part(flow.run_key, names, "run_key", bundle, now)
    return run_key, _key_part(flow.record, names, "record", bundle, now) if flow.record else ""


def following_id(run: str) -> str:
    """The id of the run that is started when this one has ended."""
    return f"{run}-then"


def following(bundle: Bundle, state: State, ended: e.RunFinished) -> NewRun:
    """The run that `then_run` starts, in the transaction of the end. `bundle` was pinned with the first run."""
    run, flow, now = following_id(state.run), bundle.flow, ended.at
    inputs = read_inputs(flow.inputs, ended.then_inputs, zone=bundle.zone, schema=flow.schema)
    trigger: dict[str, Json] = {"id": run, "at": iso(now), "by": f"run:{state.run}"}
    try:
        _, record = keys_of(bundle, inputs, trigger, now)
    except (InputsInvalid, NotPossible):
        record = ""  # a failure must not end in another one: it runs, and keeps no other run off
    started = e.RunStarted(
        at=now, run=run, flow=flow.id, mode=state.mode, bundle=bundle.digest, owner=flow.owner, record=record,
        run_key=run, starter=state.starter, inputs=inputs, trigger=trigger,
    )  # fmt: skip
    return NewRun(
        run=run, flow=flow.id, mode=state.mode, run_key=run, rerun=0, bundle=bundle.digest, title=flow.title,
        owner=flow.owner, record=record, inputs_digest=digest(inputs), event=started, starter=state.starter,
    )  # fmt: skip


def _key_part(text: str, names: Mapping[str, Json], word: str, bundle: Bundle, now: int) -> str:
    try:
        value = evaluate(text, names, now=now, zone=bundle.zone, calendar=bundle.calendar)
    except EvaluationError as error:
        raise InputsInvalid({word: str(error)}) from error
    parts = str(value).split("/") if word == "record" else [str(value)]
    if value is None or isinstance(value, bool | list | dict) or any(not part.strip() for part in parts):
        raise NotPossible(f"the {word} of flow {bundle.flow.id} has an empty part: {text} gave {value!r}")
    return str(value)
