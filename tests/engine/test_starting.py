"""The ids of runs: unlike, in the order of time, and of one form."""

from __future__ import annotations

import re

from runner.clock import DAY
from runner.engine.starting import is_whole_id, new_run_id

NOON = 20_000 * DAY + DAY // 2


def test_ids_sort_in_the_order_in_which_runs_begin_however_many_begin_at_once() -> None:
    found = [new_run_id(NOON + number // 15_000) for number in range(60_000)]
    assert found == sorted(set(found))


def test_an_id_has_the_day_and_eight_letters_from_its_first_ms_to_its_last() -> None:
    for at, day in ((NOON, "241004"), (NOON + DAY // 2 - 1, "241004"), (NOON + DAY // 2, "241005")):
        assert re.fullmatch(rf"{day}-[a-z2-9]{{8}}", new_run_id(at))


def test_a_clock_that_was_put_back_has_ids_of_its_own_time() -> None:
    late = new_run_id(NOON)
    assert new_run_id(NOON - DAY // 4) < late < new_run_id(NOON + 1)


def test_a_beginning_of_an_id_is_not_taken_for_a_whole_one() -> None:
    whole = new_run_id(NOON)
    assert is_whole_id(whole)
    assert not any(is_whole_id(other) for other in (whole[:-1], f"{whole}-then", "_site", ""))
