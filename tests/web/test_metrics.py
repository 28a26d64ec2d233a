"""The figures for a monitor: who may ask, what they say after real runs, and that the dashboard asks for what is there."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from runner.web.metrics import DASHBOARD
from tests.cli.terminal import Running, amends
from tests.web.ground import make_project
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


def test_the_dashboard_asks_for_what_is_told(tmp_path: Path) -> None:
    told = (Path(__file__).parents[2] / "runner" / "web" / "figures.py").read_text()
    asked = {
        name
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
        for name in re.findall(r"amends_\w+", target["expr"])
    }
    plain = {re.sub(r"^amends_|_(total|bucket|sum|count)$", "", name) for name in asked}
    assert len(plain) >= 8
    assert [name for name in plain if name not in told] == []
