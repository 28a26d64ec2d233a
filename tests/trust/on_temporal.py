"""A pytest plugin (`-p tests.trust.on_temporal`): every engine of the tests is driven by a real Temporal cluster.

The tests are as they are; only who drives is another, and takes longer, so they wait longer. The address of the cluster
is in TESTS_TEMPORAL.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from runner import app
from runner.clock import Clock
from runner.engine.carrier import Carrier
from runner.engine.driven import Desk
from runner.engine.temporal.engine import TemporalEngine
from runner.language.project import Project
from runner.language.settings import Cluster
from runner.outside import ProjectOutside
from runner.store.sql import SqlStore
from tests.cases import ground

ADDRESS = os.environ.get("TESTS_TEMPORAL", "")
PATIENCE = 40.0
"""Seconds that a test waits for something, instead of five."""


def made_engine(
    project: Project, store: SqlStore, outside: ProjectOutside, clock: Clock, desk: Desk, *, lasts: bool = True,
    only: Sequence[str] = (),
) -> Carrier:  # fmt: skip
    """As the product's, whatever amends.yaml says."""
    queue = "t" + hashlib.sha256(str(project.folder).encode()).hexdigest()[:12]
    return TemporalEngine(
        store, outside, clock, cluster=Cluster(address=ADDRESS, queue=queue), folder=project.folder,
        secret=outside.secret, lasts=False, workers=project.settings.runs_at_once, desk=desk,
    )  # fmt: skip


def pytest_configure() -> None:
    """Before any test."""
    if ADDRESS:
        setattr(app, "made_engine", made_engine)  # noqa: B010 - a name that the module only imports
        ground.until.__defaults__ = (PATIENCE,)
