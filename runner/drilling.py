"""Drills and simulations of a project's own flows: its connectors prepare, its people are asked, nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.contract import Json
from runner.drill.table import Drill, Driller
from runner.drill.world import Preparing
from runner.language.project import Project
from runner.outside import ProjectOutside
from runner.people.desk import ProjectDesk


def driller_of(project: Project, flow: str) -> Driller:
    """Who drills a flow as it stands now. Raises NotFound, InvalidFlow."""
    outside = ProjectOutside(project)
    return Driller(project.bundle(flow), Preparing(outside.present), ProjectDesk(lambda: project))


def drill_of(project: Project, flow: str, given: Sequence[tuple[str, Mapping[str, Json]]] = ()) -> Drill:
    """The failure table of a flow as it stands now. Raises NotFound, InvalidFlow, NotPossible."""
    return driller_of(project, flow).drill(given)
