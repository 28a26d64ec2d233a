"""Webhooks while the server is killed: one run for each event, and none for what was never proved (cases J1, J2; I19, I29).

`AMENDS_LONG=1` plays the long form: 10,000 deliveries of 500 events, five kills, 1,500 that are turned away.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.hooks import Storm, judge, make_project, play, told

SHORT = Storm(deliveries=1_200, events=60, senders=20, kills=2, forged=120, stale=60)
LONG = Storm(deliveries=10_000, events=500, senders=20, kills=5, forged=1_000, stale=500)


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_each_event_has_one_run_however_the_server_dies(tmp_path: Path) -> None:
    storm, folder = LONG if os.environ.get("AMENDS_LONG") else SHORT, tmp_path / "shop"
    make_project(folder)
    asyncio.run(play(storm, folder, seed=7))
    judge(storm, folder)
    print(f"\n{told(storm)}")
    assert storm.wrong == []
    assert (storm.runs, len(storm.acknowledged)) == (storm.events, storm.events)
    assert storm.lost >= storm.kills, "no delivery was under way at a kill"
    lost = replace(storm, events=storm.events + 1, acknowledged={*storm.acknowledged, "evt-lost"}, wrong=[])
    judge(lost, folder)
    assert lost.wrong == [
        "1 acknowledged events without a run: evt-lost",
        f"1 events without a run: evt-{storm.events}",
        f"1 events with more or less than one record: evt-{storm.events}",
    ]


@pytest.mark.timeout(200)
def test_the_server_ends_in_good_order_while_deliveries_come(tmp_path: Path) -> None:
    storm, folder = (
        Storm(deliveries=600, events=60, senders=12, kills=2, forged=20, stale=10, gently=True),
        tmp_path / "s",
    )
    make_project(folder)
    asyncio.run(play(storm, folder, seed=11))
    judge(storm, folder)
    print(f"\n{told(storm)}")
    assert storm.wrong == []
    assert (storm.runs, len(storm.acknowledged)) == (storm.events, storm.events)
