"""The peers: other engines with the same work, in an environment of their own outside the repository."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench._goals import Judged
from tests.support.processes import HttpProcess


def measured(names: Sequence[str], work: str, size: int, service: HttpProcess | None = None) -> Judged:
    """What each of these does at the same work, against the same service."""
    return Judged(findings=[], wrong=[])
