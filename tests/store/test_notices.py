"""Everybody who is asked has a locator of their own, from the transaction in which it is asked."""

from __future__ import annotations

from runner.core import events as e
from runner.store import notices
from runner.store.sql import SqlStore
from tests.store.samples import append, begun


def requested(number: int = 1, *people: str) -> e.ApprovalRequested:
    return e.ApprovalRequested(at=5, step="go", approval="go", round=number, asked=people, shown={"steps": {}})


async def test_whoever_is_asked_has_a_locator_with_the_fact(store: SqlStore) -> None:
    await begun(store, "r1")
    await store.append(append(store, "r1", store.log_end("r1"), requested(1, "person:aya", "person:tom")))
    found = store.ask(notices.of_run("r1"))
    assert {(one.about, one.round, one.person, one.at) for one in found} == {
        ("go", 1, "person:aya", 5), ("go", 1, "person:tom", 5),
    }  # fmt: skip
    assert len({one.locator for one in found}) == 2
    assert all(len(one.locator) >= 20 and store.ask(notices.find(one.locator)) == one for one in found)
    assert store.ask(notices.find("nothing")) is None


async def test_who_joins_gets_one_and_whoever_has_one_keeps_it(store: SqlStore) -> None:
    await begun(store, "r1")
    await store.append(append(store, "r1", store.log_end("r1"), requested(1, "person:aya")))
    before = store.ask(notices.of_run("r1", "go", 1))[0].locator
    told = await store.write(notices.tell("r1", "go", 1, ["person:aya", "person:tom"], 9))
    assert (set(told), told["person:aya"]) == ({"person:aya", "person:tom"}, before)
    assert await store.write(notices.tell("r1", "go", 1, ["person:tom"], 10)) == told
    await store.append(append(store, "r1", store.log_end("r1"), requested(2, "person:aya")))
    assert store.ask(notices.of_run("r1", "go", 2))[0].locator != before
    assert [one.round for one in store.ask(notices.open_for("person:aya"))] == [1, 2]
    assert [one.person for one in store.ask(notices.open_for())].count("person:tom") == 1
