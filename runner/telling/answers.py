"""What was sent with a form and became runs: for people who work with it in a spreadsheet or a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from runner.clock import iso
from runner.contract import Json
from runner.core.events import RunStarted
from runner.language.values import is_money, number_text
from runner.store.arrivals import led_to
from runner.store.sql import SqlStore
from runner.telling import sent

OURS = ("reference", "sent at", "flow", "status", "sent by")
LONGEST = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One form that was sent: its run, when (ms), by whom if they had signed in, what; None where it was erased."""

    run: str
    at: int
    flow: str
    status: str
    by: str
    inputs: Mapping[str, Json] | None


def answers_to(store: SqlStore, form: str, *, reveal: bool) -> Iterator[Answer]:
    """Everything that was sent with a form, oldest first; without personal data unless told."""
    for run in store.ask(led_to(f"form:{form}")):
        view, rows = store.run(run), store.log(run, 0, 1)
        event = rows[0].event
        personal = None if reveal else store.personal(run, rows)
        if personal is not None:
            view, event = personal.fields_of(view), personal.event(event) if event is not None else None
        told = event if isinstance(event, RunStarted) and not rows[0].erased else None
        yield Answer(
            run=run, at=rows[0].at, flow=view.flow, status=view.status, by=told.starter if told is not None else "",
            inputs=told.inputs if told is not None else None,
        )  # fmt: skip


def answer_json(answer: Answer, zone: str) -> dict[str, Json]:
    """An answer for programs."""
    return {
        "reference": answer.run, "sent_at": iso(answer.at, zone), "flow": answer.flow, "status": answer.status,
        "sent_by": answer.by or None, "inputs": answer.inputs,
    }  # fmt: skip


def answer_rows(answers: Iterable[Answer], zone: str) -> Iterator[Sequence[str | int | float]]:
    """The heads, then a row for each answer. Of a record each field has its column, and so has an amount's currency."""
    known = [(answer, dict(_cells(answer.inputs or {}))) for answer in answers]
    names = list(dict.fromkeys(name for _answer, cells in known for name in cells))
    yield [*OURS, *(f"{name} (form)" if name in OURS else name for name in names)]
    for answer, cells in known:
        ours = (answer.run, iso(answer.at, zone), answer.flow, answer.status, answer.by)
        yield [*ours, *(cells.get(name, "") for name in names)]


def _cells(inputs: Mapping[str, Json], above: str = "") -> Iterator[tuple[str, str | int | float]]:
    for key, value in inputs.items():
        name = f"{above}{key}"
        if is_money(value):
            yield name, value["value"]
            yield f"{name} currency", value["currency"]
        elif isinstance(value, Mapping) and {"name", "sha256"} <= set(value):
            yield name, str(value["name"])
        elif isinstance(value, Mapping):
            yield from _cells(value, f"{name}.")
        elif isinstance(value, list):
            yield name, "\n".join(_line(item) for item in value)
        else:
            yield name, _line(value) if isinstance(value, str | bool) or value is None else value


def _line(value: Json) -> str:
    """A value inside a cell: texts as they are, a record as `sku: A, qty: 2`."""
    if isinstance(value, str) or value is None:
        return value or ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_text(value)
    is_record = isinstance(value, Mapping) and not is_money(value)
    return sent.pairs(value, LONGEST) if is_record else sent.value(value, LONGEST)
