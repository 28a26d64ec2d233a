"""The truth table of the network in its short form."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.trust import letters, network
from tests.trust.lines import FAULTS, MOMENTS


async def test_a_part_of_the_table(tmp_path: Path) -> None:
    cases = network.some(6)
    table = await network.http_table(cases, tmp_path)
    assert table.wrong == []
    assert len(network.CASES) == 384
    assert {case.fault for case in cases} == set(FAULTS)
    assert {case.moment for case in cases} == set(MOMENTS)
    assert table.effects >= 20
    assert table.bytes_of_not_sent == 0
    assert min(Counter(table.outcomes).values()) >= 3


async def test_a_part_of_the_table_of_mails() -> None:
    mails = await letters.table(6)
    assert mails.wrong == []
    assert sum(mails.outcomes.values()) >= 15


async def test_mistakes_are_seen(tmp_path: Path) -> None:
    assert all((await network.see_mistakes(tmp_path)).values())
