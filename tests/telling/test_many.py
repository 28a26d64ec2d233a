"""A list of thousands in a real database: what is read of its log, and the page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.app import Amends
from runner.cli.timeline import full
from runner.clock import MachineClock
from runner.contract import Json
from runner.core import events as e
from runner.demo import make_project
from runner.store.facts import Append, EffectChange, NewRun, RunColumns
from runner.store.lock import EngineLock
from runner.store.sql import open_store
from runner.telling.story import Telling, story_of
from tests.cli.test_timeline import printed

MANY = 2_000
BAD = range(7, MANY, 500)
RUN = "260829-manymany"
AT = 1_788_000_000_000
FLOW = """\
flow: many
title: Everybody gets a to-do
owner: person:me
mode: live
run_key: ${{ trigger.id }}
inputs: { names: { list: { name: text } } }
steps:
  - id: letters
    each: ${{ inputs.names }}
    named: ${{ item.name }}
    if_one_fails: continue
    steps:
      - id: note
        do: tasks.create
        with: { title: "Note for ${{ item.name }}" }
        compensate: cancel
"""


def facts(number: int) -> Iterator[e.Event]:
    """All of one item."""
    item, at = f"letters/{number}", AT + number
    call = {"step": f"{item}/note", "purpose": "do"}
    yield e.ScopeStarted(at=at, step=item, kind="item", name=f"INV-{number}")
    yield e.CallIntended(
        at=at, action="tasks.create", key=f"k{number}", request_hash="h", start_no=number, step=call["step"],
        purpose="do",
    )  # fmt: skip
    if number in BAD:
        yield e.CallRefused(at=at, step=call["step"], purpose="do", reason="invalid", summary="There is no room.")
        yield e.StepFailed(at=at, step=call["step"], kind="refused", summary="There is no room.")
        yield e.ForwardClosed(
            at=at, step=item, cause="failure", compensate=True, kind="refused", summary="There is no room.",
            failed_step=call["step"],
        )  # fmt: skip
        yield e.CompensationBegun(at=at, step=item)
        yield e.ItemSetAside(at=at, step=item, reason="There is no room.", name=f"INV-{number}")
        return
    yield e.CallApplied(at=at, step=call["step"], purpose="do", output={"id": "T"}, external_id=f"T-{number}")
    yield e.ScopeEnded(at=at, step=item, kind="item", outcome="done")


async def write(folder: Path, amends: Amends) -> None:
    """The log of a run that rests: some items were set aside."""
    items: list[Json] = [{"name": f"INV-{number}"} for number in range(1, MANY + 1)]
    bundle, lock = amends.project.bundle("many"), EngineLock(folder)
    assert lock.acquire()
    store = open_store(folder, clock=MachineClock(), writable=True, lock=lock, url="")
    try:
        await store.keep_bundle(bundle.digest, bundle.texts)
        began = e.RunStarted(
            at=AT, run=RUN, flow="many", mode="live", bundle=bundle.digest, owner="person:me", inputs={"names": items}
        )
        started = await store.start(
            NewRun(
                run=RUN, flow="many", mode="live", run_key="k", rerun=0, bundle=bundle.digest, title="Many",
                owner="person:me", record="", inputs_digest="d", event=began,
            )
        )  # fmt: skip
        begins = e.ScopeStarted(at=AT, step="letters", kind="each", value=items, catches=True)
        rests = e.HandedOff(
            at=AT, step="letters", handoff="h1", kind="set_aside", owner="person:me", choices=("retry", "skip"),
            summary=f"{len(BAD)} items were set aside.",
        )  # fmt: skip
        done = [number for number in range(1, MANY + 1) if number not in BAD]
        assert started.end is not None
        await store.append(
            Append(
                run=RUN, seq=started.end.seq, fence=store.fence(), previous_hash=started.end.hash,
                columns=RunColumns(status="needs_person", phase="forward", needs="person:me", at_step="letters"),
                events=(begins, *(fact for number in range(1, MANY + 1) for fact in facts(number)), rests),
                effects=tuple(
                    EffectChange(
                        start_no=number, path=f"letters/{number}/note", part=0, action="tasks.create",
                        disposition="pending", external_id=f"T-{number}",
                    )
                    for number in done
                ),
            )
        )  # fmt: skip
    finally:
        store.close()
        lock.release()


@pytest.fixture(scope="module")
def amends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Amends]:
    folder = tmp_path_factory.mktemp("many") / "project"
    make_project(folder, backoffice_url="http://127.0.0.1:9", smtp_port=9)
    (folder / "flows" / "many.yaml").write_text(FLOW, encoding="utf-8")
    made = Amends.open(folder)
    asyncio.run(write(folder, made))
    yield made
    made.close()


def test_only_what_is_told_is_read(amends: Amends) -> None:
    read = amends.store.abridged(RUN)
    assert (read.done, read.end) == ({"letters": MANY - len(BAD)}, amends.store.log_end(RUN).seq)
    assert len(read.rows) < 10 + 8 * len(BAD)


def test_the_page_of_thousands_is_short(amends: Amends) -> None:
    text = printed(story_of(amends, RUN, "UTC"), full)
    assert len(text.splitlines()) < 60
    assert "letters     2,000 items: 1,996 done, 4 set aside.\n" in text
    assert "INV-507   Set aside: There is no room.\n" in text
    assert "letters › note  tasks.create  1,996 in all  stands" in text
    assert "INV-508" not in text
    assert f"do INV-7 alone anew     amends runs retry {RUN} letters/7\n" in text
    assert "Leave them set aside. These items stay set aside, and the run goes on without" in text
    assert f'\n    amends runs skip {RUN} letters --reason "…"\n' in text


def test_one_item_and_everything_can_be_asked_for(amends: Amends) -> None:
    one = printed(story_of(amends, RUN, "UTC", whole="letters/508"), full)
    assert "INV-508  Done." in one
    assert "done, T-508." in one
    assert "INV-7" not in one.partition("What happened")[2].partition("h1")[0]
    everything = story_of(amends, RUN, "UTC", whole="")
    assert sum(line.step.startswith("letters/") for line in everything.lines) == 2 * MANY
    assert len(everything.effects) == MANY - len(BAD)


def test_what_was_read_once_is_not_read_again(amends: Amends) -> None:
    telling = Telling(amends, RUN, "UTC")
    first = telling.story()
    assert telling.story().told == first.told
    assert first.state.lists["letters"].done == MANY - len(BAD)
