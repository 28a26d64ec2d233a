"""How places of a bound are divided: played with many engines that ask, use and give back in any order."""

from __future__ import annotations

from random import Random

import pytest

from runner.store.dividing import Grant, Other, Wish, divide


class Hall:
    """Engines on one bound. Each is (what it has, what it wants), with what it may use and what it uses."""

    def __init__(self, whole: int, engines: int) -> None:
        self.whole = whole
        self.rows = [Other(has=0, wants=0)] * engines
        self.own, self.spare, self.used = [0] * engines, [0] * engines, [0] * engines

    def ask(self, mine: int, wants: int, gone: int = 0) -> Grant:
        others = [row for at, row in enumerate(self.rows) if at != mine]
        wish = Wish(whole=self.whole, wants=max(wants, self.used[mine]), used=self.used[mine], spare=self.spare[mine])
        grant = divide(wish, self.rows[mine].has, others, gone=gone)
        self.rows[mine] = Other(has=grant.has, wants=wish.wants)
        self.own[mine], self.spare[mine] = grant.own, grant.spare
        return grant

    def begin(self, mine: int) -> bool:
        may = self.used[mine] < self.own[mine] + self.spare[mine]
        self.used[mine] += may
        return may

    def end(self, mine: int) -> None:
        if self.used[mine] > self.own[mine]:
            self.spare[mine] = max(self.spare[mine] - 1, 0)
        self.used[mine] -= 1

    def holds(self) -> bool:
        told = all(used <= row.has for used, row in zip(self.used, self.rows, strict=True))
        return told and sum(row.has for row in self.rows) <= self.whole


@pytest.mark.parametrize("seed", range(60))
def test_all_together_never_have_more_than_there_are(seed: int) -> None:
    random = Random(seed)
    hall = Hall(random.choice((1, 2, 3, 5, 10, 100)), random.randint(1, 5))
    for _ in range(400):
        mine = random.randrange(len(hall.rows))
        what = random.random()
        if what < 0.4:
            hall.ask(mine, random.choice((0, 0, 1, 2, hall.whole)))
        elif what < 0.7:
            hall.begin(mine)
        elif hall.used[mine]:
            hall.end(mine)
        assert hall.holds()


@pytest.mark.parametrize(("whole", "engines"), [(1, 2), (1, 3), (2, 3), (5, 2), (10, 3)])
def test_where_all_want_everything_each_has_its_turn(whole: int, engines: int) -> None:
    """Each asks when it has no room, as engines do; calls end oldest first."""
    hall, made, out = Hall(whole, engines), [0] * engines, list[int]()
    for turn in range(600):
        for mine in [(turn + at) % engines for at in range(engines)]:
            if not hall.begin(mine):
                hall.ask(mine, whole)
                if not hall.begin(mine):
                    continue
            made[mine] += 1
            out.append(mine)
            assert hall.holds()
        if out:
            ended = out.pop(0)
            hall.end(ended)
            hall.ask(ended, whole)
    assert sum(made) > 500
    assert min(made) > sum(made) / engines * 0.6, made


def test_who_is_alone_has_what_it_needs_and_keeps_it() -> None:
    hall = Hall(10, 2)
    assert hall.ask(0, 2) == Grant(own=4, spare=0, has=4)
    assert hall.ask(0, 10) == Grant(own=10, spare=0, has=10)
    assert hall.ask(0, 0) == Grant(own=10, spare=0, has=10)


def test_who_needs_some_gets_them_from_who_does_not() -> None:
    hall = Hall(10, 2)
    hall.ask(0, 10)
    assert hall.ask(1, 3) == Grant(own=0, spare=0, has=0)
    assert hall.ask(0, 2) == Grant(own=4, spare=0, has=4, owes=True)
    assert hall.ask(1, 3) == Grant(own=5, spare=0, has=5)


def test_what_is_in_use_is_given_back_when_it_ends() -> None:
    hall = Hall(4, 2)
    hall.ask(0, 4)
    hall.used[0] = 4
    hall.ask(1, 4)
    assert hall.ask(0, 4) == Grant(own=2, spare=0, has=4, owes=True)
    hall.end(0)
    assert hall.ask(0, 4) == Grant(own=2, spare=0, has=3, owes=True)
    assert hall.ask(1, 4) == Grant(own=1, spare=0, has=1, owes=True)


def test_what_engines_that_are_gone_have_used_counts_still() -> None:
    assert divide(Wish(whole=5, wants=5), 0, [], gone=3) == Grant(own=2, spare=0, has=2)
    assert divide(Wish(whole=5, wants=5), 0, [], gone=9) == Grant(own=0, spare=0, has=0)


def test_who_leaves_gives_back_all_but_what_counts_still() -> None:
    assert divide(Wish(whole=0, wants=0, used=2), 5, []) == Grant(own=0, spare=0, has=2)


@pytest.mark.parametrize("seed", range(20))
def test_a_bound_that_is_lowered_holds_as_soon_as_all_have_asked(seed: int) -> None:
    random = Random(seed)
    hall = Hall(20, 3)
    for mine in range(3):
        hall.ask(mine, 20)
        hall.used[mine] = random.randint(0, hall.own[mine])
    hall.whole = random.randint(1, 6)
    for mine in (0, 1, 2, 0, 1, 2):
        hall.ask(mine, 20)
    assert sum(hall.own) + sum(hall.spare) <= hall.whole
    while any(hall.used):
        mine = random.choice([at for at, used in enumerate(hall.used) if used])
        hall.end(mine)
        hall.ask(mine, 20)
    for mine in (0, 1, 2, 0, 1, 2):
        hall.ask(mine, 20)
    assert hall.holds()
    assert sum(row.has for row in hall.rows) == hall.whole


def test_who_was_taken_for_gone_counts_what_it_has_out() -> None:
    assert divide(Wish(whole=5, wants=2, used=2), 0, [Other(has=4, wants=0)]).has == 1
    assert divide(Wish(whole=5, wants=2, used=2), 0, []).has == 4
