"""The figures for a monitor: who may ask, what they say after real runs, and that the dashboard asks for what is there."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import httpx
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from runner.clock import MachineClock
from runner.engine.starting import Wish
from runner.people.holds import Hold
from runner.store.tables import runs
from runner.web.figures import Metrics
from runner.web.metrics import DASHBOARD
from tests.cli.terminal import Running, amends
from tests.web.ground import console_at, make_project, started
from tests.web.test_api import token_of
from tests.web.test_serving import opened

Figures = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def figures_of(text: str) -> Figures:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def at(found: Figures, name: str, **labels: str) -> float:
    return sum(value for (what, has), value in found.items() if what == name and labels.items() <= dict(has).items())


def test_the_figures_of_runs_that_have_ended_and_of_runs_that_wait(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    with Running("serve", "--port", "0", folder=folder) as serving:
        address, _ = opened(serving)
        header = token_of("vera", folder)
        assert httpx.get(f"{address}/metrics").status_code == 401
        text = ""
        before = after = figures_of(httpx.get(f"{address}/metrics", headers=header).text)
        assert (at(before, "amends_runs"), at(before, "amends_runs_without_witness")) == (0, 0)
        amends("run", "asking", "-i", "number=1", "--detach", folder=folder)
        amends("run", "waiting", "--detach", folder=folder)
        for _ in range(100):
            text = httpx.get(f"{address}/metrics", headers=header).text
            after = figures_of(text)
            if at(after, "amends_runs", status="needs_person") == at(after, "amends_open_runs", kind="timer") == 1:
                break
            time.sleep(0.1)
        assert at(after, "amends_runs") == 2
        assert at(after, "amends_open_runs", status="needs_person") == 1
        assert at(after, "amends_open_runs", status="waiting", kind="timer") == 1
        assert at(after, "amends_calls_total", effect="keyed", purpose="do", result="applied") >= 1
        assert at(after, "amends_handoffs_total", flow="asking", kind="step") == 1
        assert at(after, "amends_commit_seconds_count") > at(before, "amends_commit_seconds_count") > 0
        assert at(after, "amends_commit_writes_sum") >= at(after, "amends_commit_writes_count")
        assert "_created" not in text
        shown = httpx.get(f"{address}/metrics/grafana.json", headers=header).json()
        assert shown["title"] == "Amends"


class LaterClock(MachineClock):
    """Two hours on."""

    def now(self) -> int:
        return super().now() + 7_200_000


MORE = {
    "asked": """flow: asked
title: A person is asked
owner: person:tom
mode: live
run_key: ${{ trigger.id }}
steps:
  - { id: go, approve: Make a note?, by: person:tom, escalate_to: person:olga, covers: [note] }
  - id: note
    do: records.create
    with: { collection: notes, text: one }
    compensate: { none: A note harms nobody. }
""",
    "stuck": """flow: stuck
title: A step is refused, and so is the way back
owner: person:tom
mode: live
run_key: ${{ trigger.id }}
steps:
  - id: note
    do: records.create
    with: { collection: notes, text: one }
    compensate:
      mark: records.update
      with: { collection: notes, id: nobody_knows_it, text: dropped }
      unattended: It is our own table.
  - id: change
    do: records.update
    with: { collection: notes, id: nobody_knows_it, text: two }
    unattended: Nothing is changed.
    compensate: { none: Nothing is changed. }
""",
}


async def test_each_figure_tells_what_it_is_about(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    for name, flow in MORE.items():
        (folder / "flows" / f"{name}.yaml").write_text(flow, encoding="utf-8")
    async with console_at(folder) as console:
        store = console.driver.store
        later = Metrics(console.driver, LaterClock())  # the same database, asked two hours on

        def told() -> Figures:
            return figures_of(generate_latest(console.metrics.registry).decode()) | {
                key: value for key, value in figures_of(generate_latest(later.registry).decode()).items() if value
            }

        await started(console, "stuck")
        await started(console, "asked")
        lost = await started(console, "waiting")
        found = told()
        assert at(found, "amends_forward_failures_total", flow="stuck") == 1
        assert at(found, "amends_failed_compensations_total", flow="stuck") == 1
        assert at(found, "amends_calls_total", purpose="do", effect="keyed", result="applied") == 2
        assert at(found, "amends_calls_total", purpose="do", result="refused") == 1
        assert at(found, "amends_calls_total", purpose="undo", result="refused") == 1
        assert at(found, "amends_open_runs", kind="approval") == 1
        assert 7_199 < at(found, "amends_open_runs_oldest_seconds", kind="approval") < 7_260
        assert at(found, "amends_runs_without_witness") == 0
        assert at(found, "amends_commit_seconds_count") == at(found, "amends_commit_writes_count") > 0

        await store.write(
            lambda row: row.execute(runs.update().where(runs.c.run_id == lost).values(wake_at=None, waiting_for=""))
        )
        assert at(told(), "amends_runs_without_witness") == 1

        await console.driver.hold(Hold(kind="flow", name="asked", is_held=True, reason="", by="person:tom"))
        await console.driver.start("asked", Wish(given={}, key="k2", starter="person:anna"))
        assert at(told(), "amends_runs", status="queued") == 1
        assert 7_199 < at(told(), "amends_open_runs_oldest_seconds", status="queued") < 7_260


def test_the_dashboard_asks_for_what_is_told(tmp_path: Path) -> None:
    told = (Path(__file__).parents[2] / "runner" / "web" / "figures.py").read_text()
    asked = {
        name
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
        for name in re.findall(r"amends_\w+", target["expr"])
    }
    plain = {re.sub(r"^amends_|_(total|bucket|sum|count)$", "", name) for name in asked}
    assert [name for name in plain if name not in told] == []
    assert plain >= set(
        "runs open_runs open_runs_oldest_seconds runs_without_witness calls forward_failures failed_compensations "
        "commit_seconds commit_writes".split()
    )
