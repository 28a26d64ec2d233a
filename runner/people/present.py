"""What stands outside now beside what an approval would write: asked of the services while somebody looks, never kept.

It is no part of what is approved. A step that is found by fields of the business (`find`) is looked for by them. Else
the same connection is asked by the reading action that takes what the step is given, and answers the fields it sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from runner.contract import Action, Json, Outcome, Purpose
from runner.core.consents import UNDO
from runner.core.place import Place
from runner.core.state import Gate, State
from runner.engine.asking import NO_KEY, Connect
from runner.errors import AmendsError
from runner.language.bundle import Bundle
from runner.language.fields import shape_of
from runner.store import records
from runner.store.sql import SqlStore

LIMIT = 2_000
"""ms that all of it may take."""
MOST = 8
"""Steps of which it is asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Present:
    """The record as the service has it. `is_there` is None where it is not known, for the reason `why`; `is_found`: it
    was looked for as the step itself will, so the step will take it as it is.
    """

    is_there: bool | None = None
    is_found: bool = False
    fields: Mapping[str, Json] = field(default_factory=dict)
    external_id: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One question to a service: `action` is of the connection."""

    connection: str
    action: str
    input: Mapping[str, Json]
    purpose: Purpose
    own: bool = False


async def present(
    bundle: Bundle, state: State, approval: str, inputs: Mapping[str, Mapping[str, Json]], connect: Connect,
    store: SqlStore, *, now: int, held: Iterable[str] = (),
) -> Mapping[str, Present]:  # fmt: skip
    """What is there now of each covered step that can be asked about, but for items of lists. `held` connections are
    left alone (`connection:crm`).
    """
    gate = state.gates[approval]
    asked: dict[str, Question] = {}
    for path, given in inputs.items():
        if not gate.covers[path].item and len(asked) < MOST:
            try:
                question = question_about(
                    bundle, state, gate, path, given, connect, is_undo=approval.endswith(UNDO), now=now
                )
            except AmendsError:  # it names what is not known yet, or a line of connections.yaml is gone
                continue
            if question is not None and f"connection:{question.connection}" not in held:
                asked[path] = question
    answers = await asyncio.gather(*(_answer(each, connect, store) for each in asked.values()))
    return dict(zip(asked, answers, strict=True))


def question_about(
    bundle: Bundle, state: State, gate: Gate, path: str, given: Mapping[str, Json], connect: Connect, *, is_undo: bool,
    now: int,
) -> Question | None:  # fmt: skip
    """How it can be asked what a covered step would change; None where it cannot."""
    connection, _, name = gate.covers[path].action.partition(".")
    actions, step = connect(connection).actions, bundle.step(path)
    if step.find is not None and not is_undo:
        found = Place(bundle=bundle, state=state, step=step, path=path, now=now).value(dict(step.find))
        return Question(connection=connection, action=name, input=found, purpose="find")
    reads = {each: fit for each, action in actions.items() if (fit := _fit(action, actions[name], given))}
    if not reads:
        return None
    best = max(reads, key=lambda each: reads[each])
    wanted = {each: given[each] for each in actions[best].input if each in given}
    return Question(
        connection=connection, action=best, input=wanted, purpose="read", own=actions[best].own,
    )  # fmt: skip


def _fit(read: Action, write: Action, given: Mapping[str, Json]) -> tuple[int, int] | None:
    """How well a reading action tells of what is written: (fields of it that it answers, fields it is asked by)."""
    shapes = {name: shape_of(kind) for name, kind in read.input.items()}
    needed = [name for name, shape in shapes.items() if shape is None or not shape.optional]
    if (
        read.effect != "read"
        or (read.open_output and not read.own)
        or not needed
        or any(given.get(name) is None for name in needed)
    ):
        return None
    answered = len([name for name in read.output if name in write.input and name not in read.input])
    return (answered, len(needed)) if answered or "id" in needed else None


async def _answer(question: Question, connect: Connect, store: SqlStore) -> Present:
    if question.own:
        row = store.ask(lambda connection: records.now(connection, question.input))
        return Present(is_there=row is not None, fields=row or {})
    connector = connect(question.connection)
    try:
        request = connector.prepare(question.action, question.input, key=NO_KEY, purpose=question.purpose)
        async with asyncio.timeout(LIMIT / 1000):
            outcome = await connector.send(
                question.action, request, key=NO_KEY, purpose=question.purpose, limit=LIMIT
            )  # fmt: skip
    except TimeoutError:
        return Present(why=f"no answer came within {LIMIT // 1000} s")
    except AmendsError as error:
        return Present(why=str(error))
    except Exception as error:  # noqa: BLE001 - whatever a connector raises, the page is shown
        return Present(why=f"The connector broke off: {type(error).__name__}.")
    return _told(question, outcome)


def _told(question: Question, outcome: Outcome) -> Present:
    if outcome.result != "applied":
        return Present(why=outcome.summary or "No answer came.")
    if question.purpose == "find":
        if (outcome.count or 0) > 1:
            return Present(why=f"{outcome.count} records match; it is not clear which one is ours.")
        is_there = outcome.count == 1
        return Present(
            is_there=is_there, is_found=is_there, fields=outcome.output if is_there else {},
            external_id=outcome.external_id if is_there else "",
        )  # fmt: skip
    fields = {name: value for name, value in outcome.output.items() if name != "found"}
    return Present(is_there=outcome.output.get("found") is not False, fields=fields)
