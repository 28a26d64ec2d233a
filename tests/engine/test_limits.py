"""Who may call a connection, and when: the limits alone, on a clock that the test turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count
from random import Random
from typing import Literal

import pytest

from runner.clock import HOUR, MINUTE, SECOND
from runner.contract import Outcome
from runner.engine.bounds import Asker, Bound, Want
from runner.engine.limits import Begun, Limits
from runner.engine.simulated import VirtualClock

DONE = Outcome(result="applied")


class Hall:
    """A connection's runs: each wants some calls, makes those it may, and is woken when it may make more."""

    def __init__(self, bounds: Mapping[str, Bound]) -> None:
        self.clock = VirtualClock(1_000_000)
        self.woken: list[str] = []
        self.alarms: list[int] = []
        self.limits = Limits(self.clock, wake=self.woken.append, later=lambda ms: self.alarms.append(self.now + ms))
        self.limits.set_bounds(bounds)
        self.wishes: dict[str, tuple[Asker, list[Want]]] = {}
        self.out: list[Begun] = []
        self.begun: list[tuple[int, str]] = []
        self._ages = count()

    @property
    def now(self) -> int:
        return self.clock.at

    def run(self, name: str, flow: str = "a", calls: int = 1, *, urgent: bool = False, at: str = "crm") -> int:
        """A run comes that wants so many calls; how many it makes at once."""
        wants = [Want(connection=at, step="s", is_urgent=urgent)] * calls
        self.wishes[name] = (Asker(run=name, flow=flow, since=next(self._ages)), wants)
        return self.turn(name)

    def turn(self, name: str) -> int:
        """A turn of a run, as the engine makes one."""
        asker, wants = self.wishes[name]
        granted = self.limits.take(asker, wants)
        for want in [want for want, may in zip(wants, granted, strict=True) if may]:
            begun = self.limits.begin(want.connection, name)
            if begun is not None:
                self.out.append(begun)
            self.begun.append((self.now, name))
            wants.remove(want)
        return granted.count(True)

    def settle(self) -> None:
        """Every run that was woken has its turn."""
        while self.woken:
            self.turn(self.woken.pop(0))

    def end(self, outcome: Outcome = DONE) -> None:
        """The oldest call ends, and whoever is woken has a turn."""
        self.limits.end(self.out.pop(0), outcome)
        self.settle()

    def wait(self, ms: int) -> None:
        """Time passes; alarms ring when they are due."""
        end = self.now + ms
        while self.alarms and min(self.alarms) <= end:
            self.clock.at = max(self.now, min(self.alarms))
            self.alarms.remove(min(self.alarms))
            self.limits.serve()
            self.settle()
        self.clock.at = end

    def names(self) -> list[str]:
        return [name for _, name in self.begun]


def test_no_more_calls_than_at_once_are_out() -> None:
    hall = Hall({"crm": Bound(at_once=3)})
    assert [hall.run(f"r{number}") for number in range(6)] == [1, 1, 1, 0, 0, 0]
    assert [hall.limits.place(f"r{number}") for number in (2, 3, 5)] == [None, ("crm", 1), ("crm", 3)]
    assert hall.limits.waits_for("r5") == ("s", "a place at crm")
    for _ in range(6):
        hall.end()
    assert hall.names() == ["r0", "r1", "r2", "r3", "r4", "r5"]
    assert hall.limits.usage()["crm"] == {"in_use": 0, "waiting": 0, "share": 100, "restored_in": 0}


def test_a_connection_without_limits_is_never_asked() -> None:
    hall = Hall({})
    assert hall.limits.is_idle
    hall = Hall({"crm": Bound(at_once=1)})
    assert [hall.run("r1", at="mail"), hall.run("r2", at="mail")] == [1, 1]
    assert hall.out == []


def test_the_rate_holds_in_every_stretch_of_its_time() -> None:
    hall = Hall({"crm": Bound(rate=(5, 1_000))})
    for number in range(23):
        hall.run(f"r{number:02}")
        hall.wait(30)
    hall.wait(5_000)
    times = [at for at, _ in hall.begun]
    assert len(times) == 23
    assert all(later - at >= 1_000 for at, later in zip(times, times[5:], strict=False))
    assert times[-1] - times[0] < 5_000, "what may be sent is sent"


def test_what_was_kept_and_not_begun_uses_no_rate() -> None:
    hall = Hall({"crm": Bound(rate=(1, 1_000))})
    assert hall.limits.take(Asker(run="r1", flow="a", since=1), [Want(connection="crm", step="s")]) == [True]
    hall.limits.leave("r1")
    assert hall.run("r2") == 1


def test_flows_take_turns_and_the_oldest_run_of_a_flow_is_first() -> None:
    hall = Hall({"crm": Bound(at_once=1)})
    hall.run("first", "many")
    for number in range(8):
        hall.run(f"m{number}", "many")
    for number in range(3):
        hall.run(f"f{number}", "few")
    assert [hall.limits.place(name) for name in ("m0", "f0", "m1", "f2", "m7")] == [
        ("crm", 1), ("crm", 2), ("crm", 3), ("crm", 6), ("crm", 11),
    ]  # fmt: skip
    told = {name: hall.limits.place(name) for name in hall.wishes if name != "first"}
    for _ in range(12):
        hall.end()
    assert hall.names()[1:7] == ["m0", "f0", "m1", "f1", "m2", "f2"]
    assert {name: ("crm", number) for number, name in enumerate(hall.names())} | {"first": None} == told | {
        "first": None
    }


def test_an_older_run_that_comes_back_goes_before_younger_ones() -> None:
    hall = Hall({"crm": Bound(at_once=1)})
    hall.run("old")
    hall.run("young")
    hall.wishes["old"][1].append(Want(connection="crm", step="s2"))
    hall.turn("old")
    hall.end()
    assert hall.names() == ["old", "old"]


def test_making_good_goes_before_new_work() -> None:
    hall = Hall({"crm": Bound(at_once=1)})
    for number in range(4):
        hall.run(f"r{number}", f"flow{number}")
    hall.run("undo", "other", urgent=True)
    assert hall.limits.place("undo") == ("crm", 1)
    assert hall.limits.place("r1") == ("crm", 2)
    hall.end()
    hall.end()
    assert hall.names() == ["r0", "undo", "r1"]


def test_a_run_that_wants_several_gets_what_there_is_and_waits_for_the_rest() -> None:
    hall = Hall({"crm": Bound(at_once=2)})
    assert hall.run("fan", calls=5) == 2
    assert hall.run("one", "other") == 0
    hall.end()
    assert hall.names() == ["fan", "fan", "fan"], "its flow had the first turn"
    hall.end()
    assert hall.names()[3:] == ["one"], "then the other flow's"
    for _ in range(5):
        hall.end() if hall.out else None
    assert Counter(hall.names()) == {"fan": 5, "one": 1}


def test_a_place_that_is_not_used_is_given_back() -> None:
    hall = Hall({"crm": Bound(at_once=1)})
    for name in ("r1", "r2", "r3"):
        hall.run(name)
    hall.limits.end(hall.out.pop(), DONE)
    assert hall.woken == ["r2"]
    hall.wishes["r2"][1].clear()  # it was stopped meanwhile
    hall.settle()
    assert hall.names() == ["r1", "r3"]
    hall.wishes["r3"] = hall.wishes["r2"]
    hall.end()
    assert hall.limits.usage()["crm"]["in_use"] == 0


def test_a_run_that_is_paused_leaves_the_line() -> None:
    hall = Hall({"crm": Bound(at_once=1)})
    for name in ("r1", "r2", "r3"):
        hall.run(name)
    hall.wishes["r2"][1].clear()
    hall.turn("r2")
    assert hall.limits.place("r3") == ("crm", 1)
    assert hall.limits.waits_for("r2") is None


def too_many(pause: int | None = None) -> Outcome:
    return Outcome(result="refused", reason="rate_limited", retry_after=pause)


def test_a_429_halves_the_limits_and_nothing_is_sent_before_it_says() -> None:
    hall = Hall({"crm": Bound(at_once=8, rate=(100, 1_000))})
    for number in range(40):
        hall.run(f"r{number:02}")
    assert len(hall.begun) == 8
    hall.end(too_many(3_000))
    while hall.out:
        hall.end()
    assert len(hall.begun) == 8, "nobody is sent while the service wants none"
    hall.wait(2_999)
    assert len(hall.begun) == 8
    hall.wait(1)
    assert len(hall.begun) == 12, "half of eight"
    assert hall.limits.usage()["crm"] == {"in_use": 4, "waiting": 28, "share": 50, "restored_in": 5_000}
    hall.wait(2_000)
    assert (len(hall.begun), hall.limits.usage()["crm"]["share"]) == (13, 70), "0.7 of eight is five"
    hall.wait(3_000)
    assert (len(hall.begun), hall.limits.usage()["crm"]["share"]) == (16, 100)


def test_calls_that_were_out_already_do_not_lower_it_twice_but_later_ones_do() -> None:
    hall = Hall({"crm": Bound(at_once=8)})
    for number in range(20):
        hall.run(f"r{number:02}")
    for _ in range(8):
        hall.end(too_many())
    assert hall.limits.usage()["crm"]["share"] == 50
    hall.wait(SECOND)
    assert len(hall.out) == 4
    hall.end(too_many())
    assert hall.limits.usage()["crm"]["share"] == 25


def test_a_pause_without_end_is_cut_and_one_call_is_always_possible() -> None:
    hall = Hall({"crm": Bound(at_once=1, rate=(1, MINUTE))})
    hall.run("r1")
    for number in range(2, 9):
        hall.end(too_many(24 * HOUR))
        hall.run(f"r{number}")
        hall.wait(HOUR)
        assert len(hall.begun) == number


def test_limits_that_are_raised_or_taken_away_let_those_go_on_who_wait() -> None:
    hall = Hall({"crm": Bound(at_once=1)})
    for number in range(5):
        hall.run(f"r{number}")
    hall.limits.set_bounds({"crm": Bound(at_once=3)})
    hall.settle()
    assert len(hall.begun) == 3
    hall.limits.set_bounds({})
    hall.settle()
    assert len(hall.begun) == 5
    hall.end()
    assert hall.limits.is_idle


@pytest.mark.parametrize("kind", ["connection", "flow"])
def test_what_is_held_begins_nothing_until_it_is_released(kind: Literal["connection", "flow"]) -> None:
    name = {"connection": "connection:crm", "flow": "flow:a"}[kind]
    hall = Hall({"crm": Bound(at_once=1)})
    hall.run("r1")
    hall.run("r2")
    hall.limits.hold(name, "person:aya")
    hall.settle()
    assert hall.limits.waits_for("r2") == ("s", f"the release of {name.replace(':', ' ')} (held by person:aya)")
    hall.end()
    assert (hall.run("r3"), hall.run("r4", "b", at="mail")) == (0, 1)
    assert hall.run("u1", urgent=True) == (1 if kind == "flow" else 0), "a flow's hold lets it make good"
    assert hall.run("r5", "b") == 0
    hall.limits.release(name)
    hall.settle()
    while hall.out:
        hall.end()
    assert sorted(hall.names()) == ["r1", "r2", "r3", "r4", "r5", "u1"]


def test_a_hold_stops_a_place_that_was_kept_already() -> None:
    hall = Hall({"crm": Bound(at_once=1)})
    hall.run("r1")
    hall.run("r2")
    hall.limits.end(hall.out.pop(), DONE)
    assert hall.woken == ["r2"]
    hall.limits.hold("connection:crm", "person:aya")
    hall.settle()
    assert hall.names() == ["r1"]


def _random_days(seed: int) -> Iterator[Hall]:
    """Runs come, calls end as they like, are refused, holds come and go."""
    dice = Random(seed)
    hall = Hall({"crm": Bound(at_once=4, rate=(10, 1_000))})
    for number in range(400):
        hall.run(f"r{number:03}", dice.choice("abc"), dice.choice((1, 1, 3)), urgent=dice.random() < 0.1)
        if hall.out and dice.random() < 0.7:
            dice.shuffle(hall.out)
            hall.end(too_many(dice.choice((None, 500))) if dice.random() < 0.05 else DONE)
        if dice.random() < 0.02:
            hall.limits.hold("connection:crm", "person:aya")
        elif dice.random() < 0.1:
            hall.limits.release("connection:crm")
        if dice.random() < 0.05:
            gone = hall.wishes[dice.choice(list(hall.wishes))]
            gone[1].clear()
        hall.wait(dice.choice((0, 5, 200)))
        hall.settle()
        yield hall


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_no_limit_is_passed_and_nobody_is_forgotten(seed: int) -> None:
    hall = None
    for hall in _random_days(seed):
        assert len(hall.out) <= 4
    assert hall is not None
    times = [at for at, _ in hall.begun]
    assert all(later - at >= 1_000 for at, later in zip(times, times[10:], strict=False))
    hall.limits.release("connection:crm")
    hall.settle()
    for _ in range(2_000):
        if hall.out:
            hall.end()
        hall.wait(200)
    assert not [name for name, (_, wants) in hall.wishes.items() if wants]
    assert len(hall.begun) > 300
    assert hall.limits.usage()["crm"]["in_use"] == 0
