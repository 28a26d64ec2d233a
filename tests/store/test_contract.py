"""What every implementation of the store owes: written against `Store` alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from runner.contract import Outcome
from runner.core.events import (
    CallApplied,
    CallIntended,
    CallRefused,
    ConnectionHeld,
    ConnectionReleased,
    DeliveryConflict,
    Event,
    FlowHeld,
    FlowReleased,
    HandedOff,
    PersonalDataErased,
    QuarantineDiscarded,
    QuarantineReleased,
    RecordHeld,
    RecordQuarantined,
    RecordReleased,
    RunFinished,
    RunHeld,
    RunPaused,
    RunStarted,
    SlotMissed,
    StopRequested,
)
from runner.errors import NotFound, RunKeyConflict, SequenceConflict, StoreError
from runner.store.facts import AlreadyReported, OwnOperation, RecordIsHeld, RunFilter
from runner.store.sql import SqlStore
from runner.store.tables import metadata
from tests.store.samples import (
    BUNDLE,
    TurnedClock,
    append,
    applied,
    begun,
    columns,
    effect,
    handoff,
    intended,
    new_run,
    refused,
)

# --- starting ----------------------------------------------------------------------------------------------------------


async def test_a_start_is_a_queued_run_with_its_first_entry(store: SqlStore, clock: TurnedClock) -> None:
    told = await store.start(new_run("r1", key="k1", record="customer/ada", receipt=("form", "d-1")))
    assert (told.run, told.joined, told.status, told.rerun) == ("r1", False, "queued", 0)
    view = store.run("r1")
    assert (view.status, view.phase, view.seq, view.flow, view.run_key) == ("queued", "forward", 1, "signup", "k1")
    assert (view.record, view.owner, view.starter, view.bundle) == ("customer/ada", "team:sales", "person:ada", BUNDLE)
    assert (view.started_at, view.updated_at, view.ended_at, view.wake_at) == (1_000, clock.at, None, None)
    [row] = store.log("r1")
    assert isinstance(row.event, RunStarted)
    assert row.event.inputs == {"email": "ada@a.test"}
    assert store.log_end("r1").hash == row.hash


async def test_the_same_key_joins_and_is_told_the_status(store: SqlStore) -> None:
    await begun(store, "r1", intended(), key="k1")
    again = await store.start(new_run("r2", key="k1"))
    assert (again.run, again.joined, again.status) == ("r1", True, "running")
    with pytest.raises(NotFound):
        store.run("r2")


async def test_a_finished_run_is_joined_too(store: SqlStore) -> None:
    done = columns("succeeded", ended_at=9_000)
    await begun(store, "r1", RunFinished(at=9_000, status="succeeded"), told=done, key="k1")
    assert (await store.start(new_run("r2", key="k1"))).status == "succeeded"


async def test_other_inputs_under_the_same_key_are_a_recorded_conflict(store: SqlStore) -> None:
    await store.start(new_run("r1", key="k1", digest="d1"))
    with pytest.raises(RunKeyConflict) as told:
        await store.start(new_run("r2", key="k1", digest="d2"))
    assert str(told.value) == (
        'the run key "k1" of signup belongs to run r1, which was started with other inputs; give this start a key of its own'
    )
    [row] = store.log("_site")
    assert isinstance(row.event, DeliveryConflict)
    assert row.event.data["inputs_digest"] == "d2"
    assert store.counts() == {"queued": 1}


async def test_flows_and_modes_have_keys_of_their_own(store: SqlStore) -> None:
    for run, flow, mode in (("r1", "signup", "live"), ("r2", "signup", "draft"), ("r3", "leave", "live")):
        assert not (await store.start(new_run(run, key="same", flow=flow, mode=mode, digest=run))).joined


async def test_the_same_delivery_always_leads_to_the_same_run(store: SqlStore) -> None:
    await store.start(new_run("r1", key="k1", receipt=("hook", "d-1")))
    await store.start(new_run("r2", key="k1", rerun=1))
    again = await store.start(new_run("r3", key="another", receipt=("hook", "d-1")))
    assert (again.run, again.joined) == ("r1", True)
    with pytest.raises(RunKeyConflict, match="delivery d-1 from hook came before with other content and led to run r1"):
        await store.start(new_run("r4", key="k4", receipt=("hook", "d-1"), digest="other"))


async def test_a_joiner_s_delivery_is_kept_too(store: SqlStore) -> None:
    await store.start(new_run("r1", key="k1", receipt=("hook", "d-1")))
    assert (await store.start(new_run("r2", key="k1", receipt=("hook", "d-2")))).joined
    again = await store.start(new_run("r3", key="elsewhere", receipt=("hook", "d-2")))
    assert again.run == "r1"


async def test_a_rerun_is_a_new_run_and_joiners_join_the_newest(store: SqlStore) -> None:
    await store.start(new_run("r1", key="k1"))
    rerun = await store.start(new_run("r2", key="k1", rerun=1, digest="d2"))
    assert (rerun.run, rerun.joined, rerun.rerun) == ("r2", False, 1)
    for digest in ("d1", "d2"):
        joined = await store.start(new_run("r3", key="k1", digest=digest))
        assert (joined.run, joined.joined, joined.rerun) == ("r2", True, 1)
    twice = await store.start(new_run("r4", key="k1", rerun=1, digest="d2"))
    assert (twice.run, twice.joined) == ("r2", True)
    newest = store.run_of_key("signup", "live", "k1")
    assert newest is not None
    assert (newest[0], newest[1]) == (store.run("r2"), "d2")
    assert store.run_of_key("signup", "draft", "k1") is None


async def test_many_starts_of_one_event_at_once_make_one_run(store: SqlStore) -> None:
    starts = [store.start(new_run(f"r{i}", key="k1", receipt=("hook", f"d{i % 7}"))) for i in range(60)]
    told = await asyncio.gather(*starts)
    assert {one.run for one in told} == {told[0].run}
    assert [one.joined for one in told].count(False) == 1
    assert store.counts() == {"queued": 1}


async def test_starts_of_one_key_with_other_inputs_at_once_let_one_through(store: SqlStore) -> None:
    starts = [store.start(new_run(f"r{i}", key="k1", digest=f"d{i}")) for i in range(20)]
    told = await asyncio.gather(*starts, return_exceptions=True)
    assert [isinstance(one, RunKeyConflict) for one in told].count(True) == 19
    assert len(store.log("_site")) == 19


# --- decisions ---------------------------------------------------------------------------------------------------------


async def test_an_append_is_read_back_as_it_was_written(store: SqlStore) -> None:
    events = (intended(request={"url": "http://a.test", "body": {"名": "愛"}}, start_no=1), applied(count=3, note="n"))
    end = await begun(store, "r1", *events)
    rows = store.log("r1", after=1)
    assert tuple(row.event for row in rows) == events
    assert [row.seq for row in rows] == [2, 3]
    assert (rows[1].type, rows[1].step, rows[1].external_id, rows[1].at) == ("CallApplied", "contact", "c-1", 3_000)
    assert store.log_end("r1") == end
    assert (end.seq, end.hash) == (3, rows[1].hash)


async def test_an_append_elsewhere_than_at_the_end_is_refused(store: SqlStore) -> None:
    await store.start(new_run("r1"))
    old = store.log_end("r1")
    await store.append(append(store, "r1", old, intended()))
    with pytest.raises(SequenceConflict, match="run r1 stands at entry 2, not 1"):
        await store.append(append(store, "r1", old, intended(2)))
    assert len(store.log("r1")) == 2


async def test_an_append_on_another_chain_s_end_is_refused(store: SqlStore) -> None:
    await store.start(new_run("r1"))
    await store.start(new_run("r2"))
    with pytest.raises(SequenceConflict):
        await store.append(append(store, "r1", store.log_end("r2"), intended()))


async def test_an_old_fence_is_refused(store: SqlStore) -> None:
    await store.start(new_run("r1"))
    with pytest.raises(SequenceConflict, match="this engine's turn is over"):
        await store.append(append(store, "r1", store.log_end("r1"), intended(), fence=store.fence() - 1))


async def test_an_append_to_no_run_is_refused(store: SqlStore) -> None:
    await store.start(new_run("r1"))
    with pytest.raises(NotFound, match="there is no run r9"):
        await store.append(append(store, "r9", store.log_end("r1"), intended()))


async def test_one_refused_append_takes_no_other_of_its_group_with_it(store: SqlStore) -> None:
    for i in range(30):
        await store.start(new_run(f"r{i}"))
    ends = [store.log_end(f"r{i}") for i in range(30)]
    await store.report("r7", RunPaused(at=1, by="ada"))
    appends = [store.append(append(store, f"r{i}", ends[i], intended())) for i in range(30)]
    told = await asyncio.gather(*appends, return_exceptions=True)
    assert [i for i, one in enumerate(told) if isinstance(one, SequenceConflict)] == [7]
    assert [store.run(f"r{i}").seq for i in range(30)] == [2] * 30
    assert not store.verify()


async def test_two_deciders_of_one_run_at_once_one_wins(store: SqlStore) -> None:
    await store.start(new_run("r1"))
    end = store.log_end("r1")
    appends = [store.append(append(store, "r1", end, intended(i))) for i in range(1, 9)]
    told = await asyncio.gather(*appends, return_exceptions=True)
    assert [isinstance(one, SequenceConflict) for one in told].count(True) == 7
    assert store.run("r1").seq == 2


async def test_columns_alone(store: SqlStore) -> None:
    await store.start(new_run("r1"))
    end = store.log_end("r1")
    told = columns("waiting", wake_at=77, waiting_for="event paid", at_step="pay", needs="team:x", summary="s")
    assert await store.append(append(store, "r1", end, told=told)) == end
    view = store.run("r1")
    assert (view.status, view.wake_at, view.waiting_for, view.at_step, view.needs, view.summary, view.seq) == (
        "waiting", 77, "event paid", "pay", "team:x", "s", 1,
    )  # fmt: skip
    await store.write_columns("r1", 1, columns("running"))
    assert (store.run("r1").status, store.run("r1").wake_at) == ("running", None)
    await store.write_columns("r1", 9, columns("failed"))
    await store.write_columns("nobody", 1, columns("failed"))
    assert store.run("r1").status == "running"


# --- reports -----------------------------------------------------------------------------------------------------------


async def test_a_report_takes_the_next_place_and_leaves_the_columns(store: SqlStore) -> None:
    await begun(store, "r1", intended(), told=columns("running", wake_at=5))
    end = await store.report("r1", applied())
    assert end.seq == 3
    assert (store.run("r1").status, store.run("r1").wake_at, store.run("r1").seq) == ("running", 5, 3)


async def test_of_orders_that_were_checked_against_the_same_place_one_is_kept(store: SqlStore) -> None:
    await begun(store, "r1", intended())
    orders = (store.report("r1", RunPaused(at=1, by=f"person:{n}"), 2) for n in range(5))
    told = await asyncio.gather(*orders, return_exceptions=True)
    assert [type(one).__name__ for one in told].count("SequenceConflict") == 4
    assert [row.type for row in store.log("r1")] == ["RunStarted", "CallIntended", "RunPaused"]


async def test_a_report_comes_once(store: SqlStore) -> None:
    await begun(store, "r1", intended())
    await store.report("r1", applied())
    with pytest.raises(AlreadyReported) as told:
        await store.report("r1", refused())
    assert str(told.value) == "run r1 has this already, as entry 3 of its log (outcome:contact:do:0:0:1)"
    assert [row.type for row in store.log("r1")] == ["RunStarted", "CallIntended", "CallApplied"]


async def test_a_report_to_no_run_is_refused(store: SqlStore) -> None:
    with pytest.raises(NotFound):
        await store.report("r9", applied())


async def test_a_report_to_a_finished_run_is_kept(store: SqlStore) -> None:
    await begun(store, "r1", RunFinished(at=9, status="succeeded"), told=columns("succeeded", ended_at=9))
    await store.report("r1", StopRequested(at=10, by="ada", compensate=False))
    assert store.run("r1").seq == 3
    assert store.run("r1").status == "succeeded"


async def test_the_same_report_at_once_is_written_once(store: SqlStore) -> None:
    await begun(store, "r1", intended())
    told = await asyncio.gather(*(store.report("r1", applied()) for _ in range(20)), return_exceptions=True)
    assert [isinstance(one, AlreadyReported) for one in told].count(True) == 19
    assert store.run("r1").seq == 3
    assert not store.verify()


async def test_reports_without_a_guard_may_repeat(store: SqlStore) -> None:
    await store.start(new_run("r1"))
    await asyncio.gather(*(store.report("r1", RunPaused(at=i, by="ada")) for i in range(5)))
    assert [row.seq for row in store.log("r1")] == [1, 2, 3, 4, 5, 6]


# --- lists -------------------------------------------------------------------------------------------------------------


async def test_effects_are_kept_by_start_number_and_counted(store: SqlStore) -> None:
    await store.start(new_run("r1"))
    pending = (effect(2, "pending"), effect(1, "pending", external_id="c-1"), effect(3, "stands"))
    end = await store.append(append(store, "r1", store.log_end("r1"), effects=pending))
    assert [one.start_no for one in store.effects("r1")] == [1, 2, 3]
    assert store.effects("r1")[0].external_id == "c-1"
    assert store.run("r1").stands == 3
    await store.append(append(store, "r1", end, effects=(effect(1, "undone", note="taken back"), effect(2, "by_hand"))))
    assert [(one.disposition, one.note) for one in store.effects("r1")] == [
        ("undone", "taken back"),
        ("by_hand", ""),
        ("stands", ""),
    ]
    assert store.run("r1").stands == 1
    assert store.runs(RunFilter())[0].stands == 1


async def test_hand_offs_are_listed_until_they_are_resolved(store: SqlStore) -> None:
    for run, at in (("r1", 5_000), ("r2", 4_000)):
        await store.start(new_run(run))
        await store.append(append(store, run, store.log_end(run), handoffs=(handoff("h1", opened_at=at),)))
    assert [one.run for one in store.handoffs()] == ["r2", "r1"]
    [mine] = store.handoffs(run="r1")
    assert (mine.flow, mine.choices, mine.status, mine.owner) == (
        "signup",
        ("happened", "did_not"),
        "open",
        "team:sales",
    )
    done = handoff("h1", "resolved", resolved_by="ada", choice="happened")
    await store.append(append(store, "r1", store.log_end("r1"), handoffs=(done,)))
    assert [one.run for one in store.handoffs()] == ["r2"]
    [closed] = store.handoffs(run="r1", open_only=False)
    assert (closed.resolved_by, closed.choice, closed.opened_at) == ("ada", "happened", 5_000)


async def test_a_held_record_stops_the_others(store: SqlStore) -> None:
    for run in ("r1", "r2"):
        await store.start(new_run(run, record="customer/ada"))
    assert store.holder("customer/ada") == ""
    end = await store.append(
        append(store, "r1", store.log_end("r1"), RecordHeld(at=1, record="customer/ada", handoff="h1"))
    )
    assert store.holder("customer/ada") == "r1"
    with pytest.raises(RecordIsHeld) as told:
        await store.append(append(store, "r2", store.log_end("r2"), intended(), records=("customer/ada",)))
    assert told.value.by_run == "r1"
    assert str(told.value) == "customer/ada is held by run r1, which waits for a person"
    end = await store.append(append(store, "r1", end, intended(), records=("customer/ada",)))
    held = RunHeld(at=2, why="record", name="customer/ada", by_run="r1")
    waiting = columns("waiting", waiting_for="record")
    await store.append(append(store, "r2", store.log_end("r2"), held, told=waiting, waits=("customer/ada",)))
    assert store.next_in_line("customer/ada") == "", "it is held still"
    await store.append(append(store, "r1", end, RecordReleased(at=3, record="customer/ada")))
    assert (store.holder("customer/ada"), store.next_in_line("customer/ada")) == ("", "r2"), "its turn has come"
    await store.append(append(store, "r2", store.log_end("r2"), intended(), records=("customer/ada",), waits=()))
    assert (store.holder("customer/ada"), store.next_in_line("customer/ada")) == ("", "")


async def test_two_broken_runs_on_one_record_must_both_let_go(store: SqlStore) -> None:
    for run in ("r1", "r2", "r3"):
        await store.start(new_run(run, record="x"))
    first = await store.append(append(store, "r1", store.log_end("r1"), RecordHeld(at=1, record="x")))
    await store.append(append(store, "r2", store.log_end("r2"), RecordHeld(at=2, record="x")))
    assert store.holder("x") == "r1"
    await store.append(append(store, "r1", first, RecordReleased(at=3, record="x")))
    assert store.holder("x") == "r2"
    with pytest.raises(RecordIsHeld, match="by run r2"):
        await store.append(append(store, "r3", store.log_end("r3"), intended(), records=("x",)))


async def test_a_hold_taken_in_the_same_group_counts(store: SqlStore) -> None:
    for run in ("r1", "r2"):
        await store.start(new_run(run, record="x"))
    held = store.append(append(store, "r1", store.log_end("r1"), RecordHeld(at=1, record="x")))
    wants = store.append(append(store, "r2", store.log_end("r2"), intended(), records=("x",)))
    told = await asyncio.gather(held, wants, return_exceptions=True)
    assert isinstance(told[1], RecordIsHeld)


async def test_site_facts_and_site_holds(store: SqlStore) -> None:
    await store.site(ConnectionHeld(at=1, name="crm", by="ada"))
    await store.site(FlowHeld(at=2, name="signup", by="bob"))
    await store.site(SlotMissed(at=3, name="nightly", data={"slot": "02:00"}))
    assert store.site_holds() == {"connection:crm": "ada", "flow:signup": "bob"}
    await store.site(ConnectionReleased(at=4, name="crm", by="ada"))
    await store.site(FlowReleased(at=5, name="other", by="ada"))
    assert store.site_holds() == {"flow:signup": "bob"}
    assert [row.type for row in store.log("_site")] == [
        "ConnectionHeld", "FlowHeld", "SlotMissed", "ConnectionReleased", "FlowReleased",
    ]  # fmt: skip
    assert store.log_end("_site").seq == 5
    assert not store.verify()


async def test_the_quarantine_list(store: SqlStore) -> None:
    await begun(store, "r1", RecordQuarantined(at=1, step="contact", record="customer/ada", reason="half done"))
    await begun(store, "r2", RecordQuarantined(at=2, record="customer/bob"))
    await begun(store, "r3", RecordQuarantined(at=3, record="customer/cy"))
    assert [(one.record, one.reason, one.run) for one in store.quarantined()] == [
        ("customer/ada", "half done", "r1"),
        ("customer/bob", "", "r2"),
        ("customer/cy", "", "r3"),
    ]
    await store.report("r1", QuarantineReleased(at=4, record="customer/ada", by="ada"))
    await store.report("r2", QuarantineDiscarded(at=5, record="customer/bob", by="bob"))
    assert [one.record for one in store.quarantined()] == ["customer/cy"]
    assert [(one.status, one.answered_by) for one in store.quarantined(open_only=False)] == [
        ("released", "ada"),
        ("discarded", "bob"),
        ("set_aside", ""),
    ]


async def test_a_bundle_is_stored_once(store: SqlStore) -> None:
    texts = {"flow:signup": "id: signup\n", "template:w.md": "Hello", "template:v.md": "Hello"}
    await asyncio.gather(*(store.keep_bundle(BUNDLE, texts) for _ in range(3)))
    await store.keep_bundle("c" * 64, {"flow:signup": "id: signup\n"})
    assert store.bundle(BUNDLE) == texts
    with pytest.raises(NotFound):
        store.bundle("d" * 64)


# --- runs --------------------------------------------------------------------------------------------------------------


async def test_runs_are_listed_newest_first_by_page_and_filter(store: SqlStore) -> None:
    for i in range(12):
        flow = "leave" if i % 3 == 0 else "signup"
        await store.start(new_run(f"r{i:02}", at=1_000 + i // 2, flow=flow, record="x" if i == 4 else ""))
    for i in (1, 2, 6):
        await store.write_columns(f"r{i:02}", 1, columns("needs_person"))
    await store.write_columns("r03", 1, columns("failed", ended_at=5))
    newest = [f"r{i:02}" for i in reversed(range(12))]

    def names(**wanted: Any) -> list[str]:
        return [view.run for view in store.runs(RunFilter(**wanted))]

    assert names() == newest
    assert names(limit=5) == newest[:5]
    assert names(limit=5, before="r07") == newest[5:10]
    assert names(flow="leave") == ["r09", "r06", "r03", "r00"]
    assert names(status=("needs_person",)) == ["r06", "r02", "r01"]
    assert names(status=("needs_person", "failed"), limit=3) == ["r06", "r03", "r02"]
    assert names(status=("needs_person", "failed"), flow="leave") == ["r06", "r03"]
    assert names(record="x") == ["r04"]
    assert names(since=1_004) == ["r11", "r10", "r09", "r08"]
    with pytest.raises(NotFound):
        names(before="nobody")
    assert store.counts() == {"queued": 8, "needs_person": 3, "failed": 1}


async def test_a_run_is_found_by_the_beginning_of_its_id(store: SqlStore) -> None:
    for run in ("abc1", "abc2", "b_1", "bx1"):
        await store.start(new_run(run))
    assert store.run("b_").run == "b_1"
    assert store.run("abc2").run == "abc2"
    with pytest.raises(NotFound, match=r"abc is the beginning of several runs \(abc1, abc2, …\)"):
        store.run("abc")
    for nothing in ("", "zz"):
        with pytest.raises(NotFound):
            store.run(nothing)


async def test_what_is_due(store: SqlStore) -> None:
    for run, wake in (("r1", 300), ("r2", 100), ("r3", None), ("r4", 200)):
        await store.start(new_run(run))
        await store.write_columns(run, 1, columns("waiting", wake_at=wake))
    await store.write_columns("r4", 1, columns("failed", wake_at=200, ended_at=9))
    assert store.due(99) == []
    assert store.due(300) == ["r2", "r1"]
    assert store.next_due() == 100
    assert store.open_runs() == ["r1", "r2", "r3"]


async def test_runs_that_nothing_would_wake_are_counted(store: SqlStore, clock: TurnedClock) -> None:
    told = {
        "queued": columns("queued"),
        "paused": columns("paused"),
        "due": columns("waiting", wake_at=5),
        "awaiting": columns("waiting", waiting_for="event paid"),
        "lost": columns("running"),
        "lost2": columns("needs_person"),
        "ended": columns("failed", ended_at=5),
    }
    for run, what in told.items():
        await store.start(new_run(run))
        await store.write_columns(run, 1, what)
    await begun(store, "calling", intended())
    await begun(store, "answered", intended(), applied())
    await begun(store, "handed", told=columns("needs_person"))
    await store.append(append(store, "handed", store.log_end("handed"), handoffs=(handoff("h1"),)))
    assert store.without_witness(clock.at + 59_000) == []
    assert sorted(store.without_witness(clock.at + 60_000)) == ["answered", "lost", "lost2"]


async def test_a_run_that_waits_for_a_free_record_is_lost(store: SqlStore, clock: TurnedClock) -> None:
    await begun(store, "r1", RecordHeld(at=1, record="x"), told=columns("needs_person", waiting_for="person"))
    waiting = columns("waiting", waiting_for="record x")
    await store.start(new_run("r2"))
    held = RunHeld(at=2, why="record", name="x", by_run="r1")
    await store.append(append(store, "r2", store.log_end("r2"), held, told=waiting, waits=("x",)))
    later = clock.at + 60_000
    assert store.without_witness(later) == []
    await store.append(
        append(store, "r1", store.log_end("r1"), RecordReleased(at=3, record="x"), told=columns("paused"))
    )
    assert store.without_witness(later) == ["r2"]
    for text in ("a place at crm", "the release of connection crm (held by person:me)"):
        await store.write_columns("r2", 2, columns("waiting", waiting_for=text))
        assert (store.without_witness(later), store.in_line()) == ([], ["r2"]), "the engine looks after these"


async def test_reading_what_is_not_there(store: SqlStore) -> None:
    for ask in (store.log, store.log_end, store.verify):
        with pytest.raises(NotFound, match="there is no run r9"):
            ask("r9")
    assert store.effects("r9") == []
    assert store.log("_site") == []


# --- our own tables ----------------------------------------------------------------------------------------------------


def settled(attempt: int = 1, step: str = "keep") -> Callable[[Outcome], Event]:
    """What the engine makes of an outcome."""

    def settle(outcome: Outcome) -> Event:
        words: dict[str, Any] = {"at": 5_000, "step": step, "purpose": "do", "attempt": attempt}
        if outcome.result == "applied":
            return CallApplied(**words, output=outcome.output, external_id=outcome.external_id, count=outcome.count)
        return CallRefused(**words, reason=outcome.reason, summary=outcome.summary)

    return settle


def own(action: str, key: str = "key-1", **given: Any) -> OwnOperation:
    return OwnOperation(run="r1", step="keep", action=action, key=key, input=given)


async def carried(store: SqlStore, operation: OwnOperation, attempt: int) -> Event:
    return (await store.carry_out(operation, settled(attempt)))[1]


async def test_records_are_made_changed_found_and_deleted(store: SqlStore) -> None:
    await store.start(new_run("r1"))
    made = await carried(store, own("records.create", collection="people", name="Ada", age=36), 1)
    assert isinstance(made, CallApplied)
    id = made.output["id"]
    assert made.output == {"id": id, "collection": "people", "name": "Ada", "age": 36}
    assert made.external_id == id
    changed = await carried(store, own("records.update", collection="people", id=id, age=37), 2)
    assert isinstance(changed, CallApplied)
    assert changed.output == {"id": id, "collection": "people", "name": "Ada", "age": 37}
    got = await carried(store, own("records.get", collection="people", id=id), 3)
    assert isinstance(got, CallApplied)
    assert got.output == {"found": True, "id": id, "collection": "people", "name": "Ada", "age": 37}
    await carried(store, own("records.create", key="key-2", collection="people", name="Bob", age=37), 4)
    found = await carried(store, own("records.find", collection="people", where={"age": 37}), 5)
    assert isinstance(found, CallApplied)
    assert (found.count, found.output["count"], found.output["found"]) == (2, 2, True)
    none = await carried(store, own("records.find", collection="people", where={"age": "37"}), 6)
    assert isinstance(none, CallApplied)
    assert (none.count, none.output) == (0, {"found": False, "rows": [], "count": 0})
    gone = await carried(store, own("records.delete", collection="people", id=id), 7)
    assert isinstance(gone, CallApplied)
    nothing = await carried(store, own("records.get", collection="people", id=id), 8)
    assert isinstance(nothing, CallApplied)
    assert nothing.output == {"found": False}
    assert not store.verify()


async def test_an_own_action_happens_once_however_often_it_is_told(store: SqlStore) -> None:
    await store.start(new_run("r1"))
    operation = own("records.create", collection="people", name="Ada")
    told = await asyncio.gather(*(store.carry_out(operation, settled()) for _ in range(9)), return_exceptions=True)
    assert [isinstance(one, AlreadyReported) for one in told].count(True) == 8
    found = await carried(store, own("records.find", collection="people"), 2)
    assert isinstance(found, CallApplied)
    assert found.count == 1
    again = await carried(store, operation, 3)
    assert isinstance(again, CallApplied)
    assert again.output["id"] == found.output["rows"][0]["id"]


async def test_a_repeated_own_action_changes_nothing(store: SqlStore) -> None:
    await store.start(new_run("r1"))
    await carried(store, own("records.create", collection="c", id="one", n=1), 1)
    await carried(store, own("records.update", collection="c", id="one", n=2), 2)
    with pytest.raises(AlreadyReported):
        await carried(store, own("records.update", collection="c", id="one", n=3), 2)
    with pytest.raises(AlreadyReported):
        await carried(store, own("quarantine.add", record="x"), 2)
    got = await carried(store, own("records.get", collection="c", id="one"), 3)
    assert isinstance(got, CallApplied)
    assert got.output["n"] == 2
    assert store.quarantined() == []


@pytest.mark.parametrize(
    ("operation", "reason", "summary"),
    [
        (own("records.update", collection="c", id="no", n=1), "not_found", "c has no record no"),
        (own("records.delete", collection="c", id="no"), "not_found", "c has no record no"),
        (own("records.create", key="k9", collection="c", id="one"), "conflict", "c has a record one already"),
        (own("records.create", n=1), "invalid", "records.create needs collection, a text that is not empty"),
        (own("records.create", collection="c", id=7), "invalid", "the id of a record is a text that is not empty"),
        (own("quarantine.release", record="x"), "not_found", "x is not in quarantine"),
        (own("records.burn"), "invalid", "there is no action records.burn on our own tables"),
    ],
)
async def test_what_cannot_be_done_is_refused(
    store: SqlStore, operation: OwnOperation, reason: str, summary: str
) -> None:
    await store.start(new_run("r1"))
    await carried(store, own("records.create", key="k1", collection="c", id="one", n=1), 1)
    told = await carried(store, operation, 2)
    assert isinstance(told, CallRefused)
    assert (told.reason, told.summary) == (reason, summary)
    got = await carried(store, own("records.get", collection="c", id="one"), 3)
    assert isinstance(got, CallApplied)
    assert got.output["n"] == 1


async def test_quarantine_by_action(store: SqlStore) -> None:
    await store.start(new_run("r1"))
    await carried(store, own("quarantine.add", record="customer/ada", reason="half done", content={"n": 1}), 1)
    [aside] = store.quarantined()
    assert (aside.record, aside.reason, aside.content, aside.step) == ("customer/ada", "half done", {"n": 1}, "keep")
    told = await carried(store, own("quarantine.get", record="customer/ada"), 2)
    assert isinstance(told, CallApplied)
    assert told.output == {"found": True, "why": "half done"}
    await carried(store, own("quarantine.release", record="customer/ada"), 3)
    assert store.quarantined() == []
    told = await carried(store, own("quarantine.get", record="customer/ada"), 4)
    assert isinstance(told, CallApplied)
    assert told.output == {"found": False, "why": None}
    await carried(store, own("quarantine.add", record="customer/ada"), 5)
    assert [one.status for one in store.quarantined()] == ["set_aside"]


async def test_an_event_that_cannot_be_made_undoes_the_action(store: SqlStore) -> None:
    await store.start(new_run("r1"))

    def breaks(outcome: Outcome) -> Event:
        raise ZeroDivisionError(outcome.result)

    other = store.report("r1", RunPaused(at=1, by="ada"))
    broken = store.carry_out(own("records.create", collection="c", id="one"), breaks)
    told = await asyncio.gather(other, broken, return_exceptions=True)
    assert isinstance(told[1], ZeroDivisionError)
    got = await carried(store, own("records.get", collection="c", id="one"), 2)
    assert isinstance(got, CallApplied)
    assert got.output == {"found": False}
    assert [row.type for row in store.log("r1")] == ["RunStarted", "RunPaused", "CallApplied"]


# --- what does not fit -------------------------------------------------------------------------------------------------


async def test_a_value_that_is_not_json_is_refused_and_takes_no_other_with_it(store: SqlStore) -> None:
    await store.start(new_run("r1"))
    with pytest.raises((TypeError, ValueError)):
        await store.append(append(store, "r1", store.log_end("r1"), intended(input={"x": float("nan")})))
    assert store.run("r1").seq == 1


async def test_an_outcome_is_kept_even_if_its_output_cannot_be_written(store: SqlStore) -> None:
    await begun(store, "r1", intended())
    await store.report("r1", applied(output={"x": float("inf")}))
    event = store.log("r1")[-1].event
    assert isinstance(event, CallApplied)
    assert event.output == {}
    assert event.note.startswith("output lost: it is not JSON")


async def test_half_a_character_survives(store: SqlStore) -> None:
    await begun(store, "r1", intended())
    await store.report("r1", applied(output={"x": "\ud83d", "y": "\0"}, external_id="a\0b\ud83d"))
    event = store.log("r1")[-1].event
    assert isinstance(event, CallApplied)
    assert event.output == {"x": "\ud83d", "y": "\0"}
    assert event.external_id == "a\\x00b\\ud83d"
    assert not store.verify()


async def test_a_number_that_no_database_holds_is_that_caller_s_error_alone(store: SqlStore) -> None:
    for run in ("r1", "r2"):
        await store.start(new_run(run))
    bad = store.append(append(store, "r1", store.log_end("r1"), intended(at=2**70)))
    good = store.append(append(store, "r2", store.log_end("r2"), intended()))
    told = await asyncio.gather(bad, good, return_exceptions=True)
    assert isinstance(told[0], OverflowError if Path(store.name).is_file() else StoreError)
    assert store.run("r1").seq == 1
    assert store.run("r2").seq == 2


async def test_erased_payloads_are_gone_and_the_chain_holds(store: SqlStore) -> None:
    await begun(store, "r1", intended(input={"name": "Ada Lovelace " * 2_000}), applied())
    await store.report("r1", applied(7, purpose="read", output={"text": "Ada Lovelace" * 9_000}))
    await store.erase("r1", PersonalDataErased(at=9, by="ada", seqs=(1, 2, 4)))
    assert [path for path in store.artifacts.root.rglob("*") if path.is_file()] == []
    rows = store.log("r1")
    assert [row.event is None for row in rows] == [True, True, False, True, False]
    assert (rows[1].type, rows[1].step) == ("CallIntended", "contact")
    assert not store.verify()
    for table in metadata.sorted_tables:
        assert "Lovelace" not in repr(store.ask(lambda connection: connection.execute(select(table)).all()))  # noqa: B023
    store.close()
    if Path(store.name).is_file():
        assert b"Lovelace" not in Path(store.name).read_bytes()


async def test_every_kind_of_event_comes_back(store: SqlStore) -> None:
    handed = HandedOff(
        at=1, step="s", handoff="h", kind="unknown", owner="o", choices=("a", "b"), show={"x": [1, None]}
    )
    await begun(store, "r1", handed, CallIntended(at=1, purpose="do", action="a", key="k", request_hash="h", parts=2))
    assert store.log("r1", after=1)[0].event == handed
