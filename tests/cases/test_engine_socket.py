"""Where an engine listens: one folder for a project, whoever died there, and none that somebody else may enter."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from runner.contract import Json
from runner.engine.handover import Listener, Tell, ask


async def _serve(request: Mapping[str, Json], tell: Tell) -> Mapping[str, Json]:
    return {"heard": request["order"]}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's folder for passing files, empty."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


async def test_an_engine_that_was_killed_leaves_no_second_folder(place: Path) -> None:
    killed = Listener(_serve)
    left = await killed.open("/a/project")
    after = Listener(_serve)
    assert await after.open("/a/project") == left, "the socket of the dead one is taken over"
    assert await ask(left, {"order": "hello"}) == {"heard": "hello"}
    assert len(list(place.iterdir())) == 1
    await after.close()
    await killed.close()
    assert list(place.iterdir()) == []


async def test_a_folder_that_others_may_enter_is_not_used(place: Path) -> None:
    first = Listener(_serve)
    folder = Path(await first.open("/a/project")).parent
    await first.close()
    folder.mkdir(mode=0o755)
    second = Listener(_serve)
    path = Path(await second.open("/a/project"))
    assert path.parent != folder
    assert path.parent.stat().st_mode & 0o077 == 0
    await second.close()


async def test_two_projects_listen_at_two_places() -> None:
    one, other = Listener(_serve), Listener(_serve)
    assert await one.open("/a/project") != await other.open("/b/project")
    await one.close()
    await other.close()
