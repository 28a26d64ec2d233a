"""Where an engine listens: one folder for a project, whoever died there, and none that somebody else may enter."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from runner.contract import Json
from runner.engine.handover import Listener, Tell, ask
from runner.errors import EngineBusy, NotPossible, StoreUnwritable
from runner.store.lock import EngineLock

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


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


async def _half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.write(b'{"done": {"run": "26')
    writer.close()


async def _gone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Goes with what was asked unread: the asker's system says that the connection was reset."""
    await reader.readexactly(1)
    writer.transport.abort()


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.close()


async def _refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Does not read, and says why."""
    writer.write(b'{"refused": "NotPossible", "text": "not now"}\n')
    await writer.drain()
    writer.close()


@pytest.mark.parametrize("peer", [_half, _gone, _silent])
async def test_an_engine_that_goes_away_is_one_clear_error(peer: Peer, tmp_path: Path) -> None:
    request = {"order": "act", "what": "x" * 4_000_000}
    async with await asyncio.start_unix_server(peer, tmp_path / "engine.sock", limit=8_000_000):
        with pytest.raises(EngineBusy, match="went away before it answered"):
            await ask(str(tmp_path / "engine.sock"), request)


async def test_why_an_engine_does_not_read_is_what_it_says(tmp_path: Path) -> None:
    request = {"order": "act", "what": "x" * 4_000_000}
    async with await asyncio.start_unix_server(_refusing, tmp_path / "engine.sock"):
        with pytest.raises((NotPossible, EngineBusy)):
            await ask(str(tmp_path / "engine.sock"), request)


def test_a_lock_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / ".amends").write_text("no folder", encoding="utf-8")
    with pytest.raises(StoreUnwritable, match="engine.lock cannot be written"):
        EngineLock(tmp_path).acquire()
