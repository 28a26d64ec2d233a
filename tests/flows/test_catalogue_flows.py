"""The example flow of each connector file: it is there, it is checked without a word, and failing in every way at every step
it leaves nothing that nobody is told of."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.declarative import shipped
from runner.drilling import drill_of
from runner.language.project import Project
from tests.flows.stage import kinds

FOLDER = Path(__file__).resolve().parents[2] / "flows" / "catalogue"
NO_DRILL_IS_KEPT = "FL210"
SETTINGS = {"amends", "people", "connections"}
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem not in SETTINGS)


def test_each_connector_file_has_its_example() -> None:
    assert sorted(shipped()) == EXAMPLES


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_fit_to_run(name: str) -> None:
    project = Project.open(FOLDER, kinds=kinds())
    path = FOLDER / f"{name}.yaml"
    problems = [one for checked in project.check(path) for one in checked.problems]
    assert [str(one) for one in problems if one.code != NO_DRILL_IS_KEPT] == []
    text = path.read_text(encoding="utf-8")
    assert f"do: {name}." in text
    assert len(text.splitlines()) <= 34


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_made_good_whichever_way_it_fails(name: str) -> None:
    """Each request is prepared by the real connector file; what comes back is made up, and nothing is sent."""
    drill = drill_of(Project.open(FOLDER, kinds=kinds()), name)
    assert len(drill.rows) > 5
    assert (drill.untold, drill.unreached) == ((), ())
    assert {row.end for row in drill.rows} <= {"succeeded", "compensated", "failed", "stopped", "needs_person"}
