"""What the README says is so: its commands exist, its flow passes the check, its files are there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from runner import cli
from runner.engine.temporal import engine
from runner.language.settings import load_settings
from tests.house import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"^\| (`amends .*?) \|", re.MULTILINE)


def project(folder: Path) -> Path:
    """The demo's project with the README's flow in place of its own."""
    shutil.copytree(ROOT / "runner/demo/project", folder, ignore=shutil.ignore_patterns("flows"))
    flow = re.search(r"```yaml\n(flow: (\w+)\n.*?)```", README, re.DOTALL)
    assert flow is not None
    (folder / "flows").mkdir()
    (folder / "flows" / f"{flow[2]}.yaml").write_text(flow[1], encoding="utf-8")
    return folder


def said_commands() -> list[list[str]]:
    """`amends runs list`, `show` -> [runs, list], [runs, show]."""
    found = []
    for cell in COMMAND.findall(README):
        first, *others = re.findall(r"`(.*?)`", cell)
        words = [word for word in first.split()[1:] if re.fullmatch(r"[a-z-]+", word)]
        if words[0] in {"demo", "init", "check", "drill", "run", "serve", "doctor", "erase", "show", "lsp"}:
            words = words[:1]
        found += [words, *([*words[:1], other] for other in others)]
    return found


def test_the_flow_passes_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command(["--project", str(project(tmp_path / "shop")), "check"]) == 0
    assert "error" not in capsys.readouterr().out


def test_a_planted_mistake_in_the_flow_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = project(tmp_path / "shop")
    [flow] = (folder / "flows").iterdir()
    flow.write_text(flow.read_text(encoding="utf-8").replace("output.id", "output.idd"), encoding="utf-8")
    assert cli.run_command(["--project", str(folder), "check"]) == 2
    assert "idd" in capsys.readouterr().out


@pytest.mark.parametrize("words", said_commands(), ids=" ".join)
def test_each_command_exists(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command([*words, "--help"]) == 0
    assert "Usage" in capsys.readouterr().out


def test_every_noun_is_in_the_table() -> None:
    assert {words[0] for words in said_commands()} == set(cli.NOUNS)


def test_the_files_that_are_named_are_there() -> None:
    links = re.findall(r"\]\(([\w./-]+)\)", README)
    named = [name for name in re.findall(r"`([\w.-]+/[\w./-]+|\./check)`", README) if not name.startswith("python")]
    assert links
    assert named
    assert not [name for name in {*links, *named} if not (ROOT / name).exists()]


def test_the_two_commands_are_the_ones_that_are_run() -> None:
    blocks = re.findall(r"```\n(.*?)\n```", README, re.DOTALL)
    assert blocks[0] == "python3 -m venv .venv && .venv/bin/pip install -c constraints.txt . && .venv/bin/amends demo"
    assert blocks[1] == "./check"
    assert (ROOT / "check").stat().st_mode & 0o111
    assert "../check" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_the_files_of_growing_are_read_and_leave_a_worker_time_to_stop() -> None:
    growing = README.partition("## Growing")[2].partition("## Limits today")[0]
    settings, compose, workers = re.findall(r"```yaml\n(.*?)```", growing, re.DOTALL)
    assert load_settings(settings, "amends.yaml", folder="x")[2] == ()
    services = YAML(typ="safe").load(compose)["services"]
    stops_in = engine.GRACE + engine.LONGEST_STOP + engine.LAST_SIGNALS
    assert int(services["worker"]["stop_grace_period"].rstrip("s")) > stops_in
    assert services["worker"]["image"] == services["serve"]["image"]
    pod = YAML(typ="safe").load(workers)["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > stops_in
    for command in (
        services["serve"]["command"],
        services["worker"]["command"],
        " ".join(pod["containers"][0]["command"]),
    ):
        assert cli.run_command([*command.split()[1:], "--help"]) == 0


def test_the_arithmetic_of_growing_is_right() -> None:
    rows = re.findall(
        r"^\| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) (\wB) \| ([\d.]+) (\wB) \| ([\d.]+) (\wB) \|$",
        README,
        re.MULTILINE,
    )
    size = {"MB": 1e6, "GB": 1e9, "TB": 1e12}
    assert len(rows) == 3
    for row in rows:
        runs = int(row[0].replace(",", ""))
        peak = runs / 86_400 * 10
        expected = (peak, peak * 0.0048, runs * 9.3e3, runs * 9.3e3 * 400, runs * 9.3e3 * 30)
        told = (float(row[1]), float(row[2]), *(float(row[at]) * size[row[at + 1]] for at in (3, 5, 7)))
        assert told == pytest.approx(expected, rel=0.1, abs=0.006), row
