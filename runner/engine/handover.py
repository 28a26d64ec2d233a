"""How one process hands its facts to the process that holds the engine: JSON lines over a local socket.

A request is `{"order": name, …}`; answers are lines `{"turn": …}` while something goes on, then one `{"done": …}` or
`{"refused": kind, "text": sentence, …}`. The socket stands in a folder that only its owner may enter.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import stat
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from runner import errors
from runner.contract import Json
from runner.store.lock import EngineLock

Tell = Callable[[Mapping[str, Json]], Awaitable[None]]
Serve = Callable[[Mapping[str, Json], Tell], Awaitable[Mapping[str, Json]]]
LONGEST_LINE = 64 * 1024 * 1024
GRACE = 2.0
"""Seconds that orders under way get to end when the engine stops."""
SUCCEEDS = 0.5
"""Seconds between two looks whether another engine of the folder has gone."""
WENT_AWAY = (
    "the process that drives this project went away before it answered; look whether what was asked for was done, then "
    "start it, or ask again"
)

log = logging.getLogger("amends.engine")


def _own_folder(project: str) -> Path:
    """A folder that only this user may enter: the same for every engine of a project, so that killed ones leave one."""
    name = hashlib.sha256(project.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"amends-{os.getuid()}-{name}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    seen = folder.lstat()
    is_ours = stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid() and not seen.st_mode & 0o077
    return folder if is_ours else Path(tempfile.mkdtemp(prefix="amends-"))


class Listener:
    """The side that holds the engine. `serve` answers one request; it may tell of turns on the way.

    An order in `for_watchers` is given up when its asker has gone, or when the engine stops.
    """

    def __init__(self, serve: Serve, *, for_watchers: frozenset[str] = frozenset()) -> None:
        self._serve = serve
        self._for_watchers = for_watchers
        self._server: asyncio.Server | None = None
        self._folder = ""
        self._busy: set[asyncio.Task[Any]] = set()
        self._serving: dict[asyncio.Task[Any], bool] = {}
        self.path = ""

    async def open(self, project: str) -> str:
        """Begins to listen for a project (its folder), for the holder of its lock. Answers the socket's path."""
        self._folder = str(_own_folder(project))
        self.path = str(Path(self._folder) / "engine.sock")
        self._server = await asyncio.start_unix_server(self._answer, self.path, limit=LONGEST_LINE)
        return self.path

    async def succeed(self, lock: EngineLock, project: str) -> None:
        """Begins to listen, with the lock, once the engine that had both is gone: a folder whose engines are several
        has one that commands are handed to as long as any of them lasts."""
        while True:
            await asyncio.sleep(SUCCEEDS)
            with contextlib.suppress(errors.StoreUnwritable):
                if lock.acquire():
                    lock.announce(await self.open(project))
                    return

    async def close(self) -> None:
        """Answers what has been asked, tells those who watch that the engine stops, then stops listening."""
        if self._server is not None:
            self._server.close()
        for only_watchers in (True, False):
            for serving, watches in list(self._serving.items()):
                if watches or not only_watchers:
                    serving.cancel()
            if self._busy:
                await asyncio.wait(set(self._busy), timeout=GRACE)
        with contextlib.suppress(OSError):
            Path(self.path).unlink()
        with contextlib.suppress(OSError):
            Path(self._folder).rmdir()

    @property
    def is_busy(self) -> bool:
        """Somebody waits for an answer."""
        return bool(self._busy)

    async def settle(self) -> None:
        """Returns when nobody waits for an answer."""
        while self._busy:
            await asyncio.wait(set(self._busy))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering = asyncio.current_task()
        assert answering is not None
        self._busy.add(answering)

        async def tell(line: Mapping[str, Json]) -> None:
            writer.write(json.dumps(line).encode() + b"\n")
            await writer.drain()

        try:
            request = json.loads(await reader.readline())
            await tell(await self._outcome(request, reader, tell))
        except (ConnectionError, ValueError):
            pass
        finally:
            self._busy.discard(answering)
            writer.close()

    async def _outcome(
        self, request: Mapping[str, Any], reader: asyncio.StreamReader, tell: Tell
    ) -> Mapping[str, Json]:
        """The last line of an answer."""
        watches = request.get("order") in self._for_watchers
        serving = asyncio.create_task(self._answered(request, tell))
        gone = asyncio.create_task(reader.read(1))
        self._serving[serving] = watches
        try:
            await asyncio.wait({serving, gone} if watches else {serving}, return_when=asyncio.FIRST_COMPLETED)
            serving.cancel()
            return await serving
        except asyncio.CancelledError:
            return refusal(errors.EngineBusy("the engine was stopped meanwhile; the run goes on with the next one"))
        finally:
            del self._serving[serving]
            gone.cancel()

    async def _answered(self, request: Mapping[str, Any], tell: Tell) -> Mapping[str, Json]:
        try:
            return {"done": await self._serve(request, tell)}
        except errors.AmendsError as error:
            return refusal(error)
        except ConnectionError:
            raise
        except Exception:
            log.exception("the order %s of another command could not be carried out", request.get("order"))
            return refusal(errors.AmendsError("the process that drives this project met a defect; its log says which"))


def refusal(error: errors.AmendsError) -> dict[str, Json]:
    """An error as a line."""
    line: dict[str, Json] = {"refused": type(error).__name__, "text": str(error)}
    if isinstance(error, errors.InputsInvalid):
        line["problems"] = error.problems
    return line


def raised(line: Mapping[str, Any]) -> errors.AmendsError:
    """The error that a line says."""
    kind = getattr(errors, str(line["refused"]), errors.AmendsError)
    if kind is errors.InputsInvalid:
        return errors.InputsInvalid(line["problems"])
    if kind is errors.InvalidFlow or not issubclass(kind, errors.AmendsError):
        kind = errors.AmendsError
    error: errors.AmendsError = kind(line["text"])
    return error


async def ask(
    path: str, request: Mapping[str, Json], told: Callable[[Mapping[str, Json]], None] | None = None
) -> Mapping[str, Json]:
    """Asks the process that listens at `path`. Raises what it refused with, or EngineBusy when it cannot be reached, or
    goes away before it has answered."""
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=LONGEST_LINE)
    except OSError as error:
        raise errors.EngineBusy(f"the process that drives this project does not listen at {path}") from error
    try:
        return await _answer_of(reader, writer, request, told)
    except (OSError, asyncio.IncompleteReadError, json.JSONDecodeError) as error:  # half a line: it was killed
        raise errors.EngineBusy(WENT_AWAY) from error
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _answer_of(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Mapping[str, Json],
    told: Callable[[Mapping[str, Json]], None] | None,
) -> Mapping[str, Json]:  # fmt: skip
    with contextlib.suppress(ConnectionError):  # it may have answered, or said why not, before it read all
        writer.write(json.dumps(request).encode() + b"\n")
        await writer.drain()
    while True:
        text = await reader.readline()
        if not text:
            raise errors.EngineBusy(WENT_AWAY)
        line = json.loads(text)
        if "done" in line:
            answer: Mapping[str, Json] = line["done"]
            return answer
        if "refused" in line:
            raise raised(line)
        if told is not None:
            told(line["turn"])
