"""Which drill of a flow is on record: `.amends/drills/<flow>.json`, for the digest of its bundle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from runner.contract import Json
from runner.errors import NotPossible

FOLDER = Path(".amends") / "drills"


def name_of(flow: str) -> str:
    """The record of a flow, by its path from the project folder."""
    return (FOLDER / f"{flow}.json").as_posix()


def place_of(project: Path, flow: str) -> Path:
    """Where the record of a flow stands."""
    return project / name_of(flow)


def recorded(project: Path, flow: str) -> str | None:
    """The digest of the bundle that was drilled last; None where no drill is on record, or it cannot be read."""
    try:
        return digest_in(place_of(project, flow).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def digest_in(text: str) -> str | None:
    """The digest in a record's text; None where there is none."""
    try:
        digest = json.loads(text)["digest"]
    except (ValueError, TypeError, KeyError, RecursionError):
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
