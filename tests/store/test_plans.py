"""Lists stay quick however many runs there are: every question walks an index, and none sorts or scans all runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
from sqlalchemy import Engine, event

from runner.store.arrivals import cursors_of, listed, restored_after, skipped_behind, still_going
from runner.store.facts import RunFilter
from runner.store.sql import SqlStore
from tests.store.samples import new_run

Ask = Callable[[SqlStore], object]

ASKED: dict[str, Ask] = {
    "newest": lambda store: store.runs(RunFilter()),
    "next page": lambda store: store.runs(RunFilter(before="r1")),
    "status": lambda store: store.runs(RunFilter(status=("needs_person", "failed"))),
    "flow": lambda store: store.runs(RunFilter(flow="signup")),
    "flow and status": lambda store: store.runs(RunFilter(flow="signup", status=("failed",))),
    "record": lambda store: store.runs(RunFilter(record="x")),
    "failed at a step": lambda store: store.runs(RunFilter(flow="signup", at_step="billing", changed_since=1)),
    "open at a step": lambda store: store.runs(RunFilter(flow="signup", at_step="billing", open_only=True)),
    "at a step, with a status": lambda store: store.runs(
        RunFilter(flow="signup", status=("needs_person",), at_step="billing")
    ),
    "of any flow at a step": lambda store: store.runs(RunFilter(at_step="billing", open_only=True)),
    "open": lambda store: store.open_runs(),
    "queued flows": lambda store: store.queued_flows(),
    "queued of a flow": lambda store: store.queued("signup", 0, 500),
    "due": lambda store: store.due(1),
    "next due": lambda store: store.next_due(),
    "next in line": lambda store: store.next_in_line("x"),
    "counts": lambda store: store.counts(),
    "one run": lambda store: store.run("r1"),
    "run of a key": lambda store: store.run_of_key("signup", "live", "key of r1"),
    "log": lambda store: store.log("r1"),
    "effects": lambda store: store.effects("r1"),
    "open hand-offs": lambda store: store.handoffs(),
    "hand-offs of a run": lambda store: store.handoffs(run="r1"),
    "versions": lambda store: store.versions(),
    "versions of a flow": lambda store: store.versions("signup"),
    "runs of a schedule": lambda store: store.ask(still_going("signup", "schedule:")),
    "arrivals": lambda store: store.ask(listed()),
    "next arrivals": lambda store: store.ask(listed(before=(1, "signup", "webhook:x", "7"))),
    "arrivals of a flow": lambda store: store.ask(listed(flow="signup", before=(1, "signup", "webhook:x", "7"))),
    "arrivals with a status": lambda store: store.ask(listed(status=("refused",), before=(1, "", "", ""))),
    "skipped slots": lambda store: store.ask(skipped_behind("signup", "schedule:every day at 09:00")),
    "cursors of a kind": lambda store: store.ask(cursors_of("schedule:")),
    "put back since": lambda store: store.ask(restored_after(1)),
}
SORTED = {"next in line", "hand-offs of a run", "versions", "versions of a flow"}
"""Short lists that may be sorted after they were found."""


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_a_question_walks_an_index(store: SqlStore, name: str) -> None:
    await store.start(new_run("r1"))
    asked: list[str] = []
    engine: Engine = store._readers

    def note(statement: str) -> None:
        if statement.startswith("SELECT"):
            asked.append(statement)

    def watch(connection: sqlite3.Connection, *_: object) -> None:
        connection.set_trace_callback(note)  # what SQLite itself is asked, by whichever way, with its values

    event.listen(engine, "checkout", watch)
    ASKED[name](store)
    event.remove(engine, "checkout", watch)
    assert asked
    reader = sqlite3.connect(store.name)
    for statement in asked:
        plan = [row[3] for row in reader.execute(f"EXPLAIN QUERY PLAN {statement}")]
        for line in plan:
            assert not (line.startswith("SCAN") and "INDEX" not in line and "both" not in line), (statement, plan)
            assert name in SORTED or "TEMP B-TREE" not in line, (statement, plan)
    reader.close()


@pytest.mark.parametrize(("number", "asks"), [(5, 1), (400, 1)])
async def test_a_page_takes_as_many_questions_however_long_it_is(store: SqlStore, number: int, asks: int) -> None:
    for i in range(number):
        await store.start(new_run(f"r{i}"))
    asked: list[str] = []
    event.listen(store._readers, "before_cursor_execute", lambda *words: asked.append(words[2]))
    assert len(store.runs(RunFilter(limit=1_000))) == number
    assert len([statement for statement in asked if statement.startswith("SELECT")]) == asks
