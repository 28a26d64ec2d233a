"""A project with one flow of the test's own beside the examples' people and connections, and its flow test."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from runner.outside import ProjectOutside
from runner.rehearsal.suite import Outcome, rehearse
from tests.flows.stage import copy_flows, project_of

HEAD = "flow: sample\ntitle: A sample\nowner: person:aya\nmode: live\nrun_key: ${{ trigger.id }}\n"


def project_in(folder: Path, flow: str) -> Path:
    """The examples' project in this folder, with the flow `sample`."""
    copy_flows(folder, backoffice="http://127.0.0.1:1", shop="http://127.0.0.1:1", smtp_port=1)
    (folder / "sample.yaml").write_text(HEAD + flow, encoding="utf-8")
    return folder


def play(folder: Path, test: str, only: str = "") -> Outcome:
    """Plays these cases of the flow `sample`."""
    file = folder / "sample.test.yaml"
    file.write_text("test: sample\n" + test, encoding="utf-8")
    project = project_of(folder)
    outside = ProjectOutside(project)
    return rehearse(project, file, lambda bundle: partial(outside.connector, bundle), only)


def told(outcome: Outcome) -> list[str]:
    """Everything that is not as expected, with its line in the file."""
    assert not outcome.problems, [one.what for one in outcome.problems]
    return [
        "; ".join((f"{line} {one.what}", *one.lines)) for each in outcome.verdicts for line, one in each.differences
    ]


def faults(outcome: Outcome) -> list[str]:
    """The problems of the file."""
    return [f"{one.line}:{one.column} {one.code} {one.what}|{one.hint}" for one in outcome.problems]
