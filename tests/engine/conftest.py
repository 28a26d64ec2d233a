"""One Temporal server for all tests of this room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.temporal import TemporalServer, running_temporal


@pytest.fixture(scope="session")
def temporal() -> Iterator[TemporalServer]:
    with running_temporal() as server:
        yield server
