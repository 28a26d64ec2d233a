"""The soak in short; the long form is `python -m tests.trust soak`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.trust import soak
from tests.trust.soak import LONG, SHORT, Sample


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system has no /proc")
@pytest.mark.timeout(240)
def test_a_short_life_is_whole_and_holds_no_more_than_it_may() -> None:
    life = soak.live(120, every=0.1, rate=8, kills=False, runs=16)
    assert life.wrong == []
    assert soak.grown(life.samples, SHORT) == []
    assert sum(life.ends.values()) >= 16
    assert life.effects >= 24
    assert life.troubles > 3
    assert all(soak.see_small_mistakes(life.samples, SHORT, times=1_000).values())


def flat(**grows: float) -> Sequence[Sample]:
    """Samples of a long life; what `grows` with each run."""
    wave = (0, 200_000, -100_000, 400_000)
    calm = [
        Sample(
            runs=run,
            memory=150_000_000 + wave[run // 60 % 4],
            files=30,
            threads=9,
            log=4_000_000,
            database=run * 50_000,
        )
        for run in range(0, 6_000, 60)
    ]
    return [
        replace(one, **{name: getattr(one, name) + int(each * one.runs) for name, each in grows.items()})
        for one in calm
    ]  # fmt: skip


def test_what_is_flat_is_not_said_to_grow() -> None:
    assert soak.grown(flat(), LONG) == []
    assert soak.grown(flat(memory=400), LONG) == []
    assert soak.grown(flat(), replace(LONG, log=3_000_000)) == [
        "the write-ahead log came to 4,000,000 bytes; 3,000,000 are the most"
    ]
    assert soak.grown(flat()[:5], LONG) == ["only 3 samples, that show nothing"]


@pytest.mark.parametrize(
    ("what", "each", "said"),
    [
        ("memory", 600, "memory grows by 600 bytes with each run; 512 are the most"),
        ("files", 0.01, "open files went from 56 to 82"),
        ("threads", 0.01, "open threads went from 34 to 62"),
        ("log", 10_000, "the write-ahead log came to 63,400,000 bytes; 24,000,000 are the most"),
    ],
)
def test_what_grows_is_said(what: str, each: float, said: str) -> None:
    assert soak.grown(flat(**{what: each}), LONG) == [said]
