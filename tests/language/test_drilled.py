"""FL210 in a project: a drill on record is of the flow as it is now."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.language import drills
from runner.language.kept import check_again
from runner.language.project import Project
from tests.flows.stage import copy_flows

MISSING = 'the flow is live, "welcome" cannot be undone, and no drill of it is on record'
CHANGED = "the flow, or something that it uses, has changed since it was last drilled"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copy_flows(tmp_path / "flows", backoffice="http://127.0.0.1:1", shop="http://127.0.0.1:1", smtp_port=1)


def told(folder: Path) -> list[str]:
    [fresh] = Project.open(folder).check("signup_to_paid")
    [kept] = check_again(Project.open(folder), "signup_to_paid")
    assert fresh.problems == kept.problems
    return [problem.what for problem in fresh.problems]


def test_a_drill_on_record_is_of_the_flow_as_it_is(folder: Path) -> None:
    assert told(folder) == [MISSING]
    drills.record(folder, "signup_to_paid", {"digest": Project.open(folder).bundle("signup_to_paid").digest})
    assert told(folder) == []
    flow = folder / "signup_to_paid.yaml"
    flow.write_text(flow.read_text(encoding="utf-8").replace("New signup", "A new signup"), encoding="utf-8")
    assert told(folder) == [CHANGED]
    drills.record(folder, "signup_to_paid", {"digest": Project.open(folder).bundle("signup_to_paid").digest})
    assert told(folder) == []
    connector = folder / "connectors" / "billing.yaml"
    connector.write_text(
        connector.read_text(encoding="utf-8").replace("cannot_undo: ", "cannot_undo: So far, "), encoding="utf-8"
    )
    assert told(folder) == [CHANGED]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"digest": 7}', '{"digest": "of another"}'])
def test_a_record_that_is_none_or_of_another_flow_does_not_count(folder: Path, text: str) -> None:
    place = drills.place_of(folder, "signup_to_paid")
    place.parent.mkdir(parents=True)
    place.write_text(text, encoding="utf-8")
    assert told(folder) == [CHANGED if "another" in text else MISSING]
    assert drills.recorded(folder, "signup_to_paid") == ("of another" if "another" in text else None)
