"""Which drill of a flow is on record: `.amends/drills/<flow>.json`, for the digest of its bundle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from runner.contract import Json
from runner.errors import NotPossible

FOLDER = Path(".amends") / "drills"


def place_of(project: Path, flow: str) -> Path:
    """Where the record of a flow stands."""
    return project / FOLDER / f"{flow}.json"


def recorded(project: Path, flow: str) -> str | None:
    """The digest of the bundle that was drilled last; None where no drill is on record, or it cannot be read."""
    try:
        digest = json.loads(place_of(project, flow).read_text(encoding="utf-8"))["digest"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return digest if isinstance(digest, str) else None


def record(project: Path, flow: str, drill: Mapping[str, Json]) -> Path:
    """Keeps a drill (with its `digest`) in the place of the one before; whole or not at all. Raises NotPossible."""
    place = place_of(project, flow)
    new = place.with_suffix(".new")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps(drill, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        new.replace(place)
    except OSError as error:
        raise NotPossible(f"the drill cannot be kept in {place}: {error.strerror or error}") from None
    return place
