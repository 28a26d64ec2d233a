"""A folder on an SFTP server. The server proves itself by the key that the connection names; every call logs in anew.

A file is written beside its place and gets its name by a link (or, where the server has none, by a rename that does not
write over). No step of a path may be a link to somewhere else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from connectors.disk import Refused
from connectors.far import LARGEST, Errand, Found, Lost, too_large
from connectors.servers import Server
from runner.contract import Json, Outcome, Tools
from runner.errors import SettingsError
from runner.guard import AddressRefused

try:
    import asyncssh
except ImportError:  # installed without amends[sftp]
    asyncssh = None  # type: ignore[assignment]


def known_key(name: str, host_key: str) -> Any:
    """The key by which the server is known. Raises SettingsError, also where the library is missing."""
    if asyncssh is None:
        raise SettingsError(f'{name}: files on an SFTP server need a package more: pip install "amends[sftp]"')
    try:
        return asyncssh.import_public_key(host_key)
    except (asyncssh.KeyImportError, ValueError):
        what = "host_key must be the public key of the server, like ssh-ed25519 AAAA…"
        raise SettingsError(
            f"{name}: {what} (ssh-keyscan -t ed25519 HOST shows it; compare it with its owner)"
        ) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sftp:
    """One folder on one server."""

    server: Server
    folder: str
    user: str
    key: Any
    tools: Tools
    password: Callable[[], str] | None
    private_key: Callable[[], str] | None

    @property
    def shown(self) -> str:
        return f"{self.server.host}{self.folder}"

    async def run(self, action: str, body: Mapping[str, Json], *, limit: int) -> Outcome:
        """What an action came to within `limit` ms."""
        return await Errand(_Session(place=self, client=None), self.tools).run(action, body, limit=limit)

    async def close(self) -> None:
        """Nothing is open between two calls."""

    def login(self) -> dict[str, Any]:
        """What proves who we are. Raises Refused, SecretMissing."""
        if self.private_key is None:
            return {"client_keys": None, "password": self.password() if self.password else None}
        try:
            return {"client_keys": [asyncssh.import_private_key(self.private_key())], "password": None}
        except (asyncssh.KeyImportError, ValueError):
            raise Refused("forbidden", "private_key is no private key without a password") from None


@contextmanager
def _told(shown: str, *, is_in: bool = True) -> Iterator[None]:
    """What the library raises, in our words: Refused, or Lost."""
    try:
        yield
    except AddressRefused as error:
        raise Refused("forbidden", str(error)) from None
    except asyncssh.HostKeyNotVerifiable:
        raise Refused("forbidden", f"{shown} does not prove itself by the key that host_key names") from None
    except asyncssh.PermissionDenied:
        raise Refused("forbidden", f"{shown} does not let us in") from None
    except asyncssh.SFTPPermissionDenied:
        raise Refused("forbidden", f"{shown}: this user may not do that") from None
    except (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection):
        raise Lost("connection", f"the connection to {shown} broke") from None
    except asyncssh.SFTPError as error:
        word = type(error).__name__.removeprefix("SFTP")
        raise Refused("unavailable", f"{shown} said no ({word})") from None
    except TimeoutError:
        raise
    except (OSError, asyncssh.Error):
        why = f"the connection to {shown} broke" if is_in else f"{shown} cannot be connected to"
        raise Lost("connection", why, is_sent=is_in) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Session:
    """The folder during one call."""

    place: Sftp
    client: Any

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[_Session]:
        server, login = self.place.server, self.place.login()
        with _told(server.shown, is_in=False):
            sock = await server.connect()
            connection = await asyncssh.connect(
                server.host, server.port, sock=sock, username=self.place.user, known_hosts=((self.place.key,), (), ()),
                config=None, agent_path=None, gss_host=None, **login,
            )  # fmt: skip
        try:
            with _told(server.shown, is_in=False):
                client = await connection.start_sftp_client()
                if not await client.isdir(self.place.folder or "/"):
                    raise Refused("unavailable", f"the folder {self.place.folder} is not there")
            yield replace(self, client=client)
        finally:
            connection.close()
            with contextlib.suppress(OSError, asyncssh.Error):
                await connection.wait_closed()

    async def content(self, path: str) -> bytes | None:
        with _told(self.place.server.shown):
            if not await self._is_inside(path.rpartition("/")[0]):
                return None
            return await self._bytes(path)

    async def put(self, path: str, content: bytes) -> bool:
        folder, _, name = path.rpartition("/")
        with _told(self.place.server.shown):
            here = self.place.folder
            steps = folder.split("/") if folder else []
            for number, step in enumerate(steps):
                await self._is_inside("/".join(steps[:number]))
                here = f"{here}/{step}"
                with contextlib.suppress(asyncssh.SFTPFailure, asyncssh.SFTPFileAlreadyExists):
                    await self.client.mkdir(here)
            if not await self._is_inside(folder):
                raise Refused("unavailable", f"the folder of {path} cannot be made")
            part = f"{here}/.{hashlib.sha256(content).hexdigest()[:16]}.{os.urandom(4).hex()}.part"
            try:
                async with self.client.open(part, "xb") as out:
                    await out.write(content)
                    with contextlib.suppress(asyncssh.SFTPOpUnsupported):
                        await out.fsync()
                return await self._name(part, f"{here}/{name}")
            finally:
                with contextlib.suppress(OSError, asyncssh.Error):
                    await self.client.remove(part)

    async def drop(self, path: str) -> None:
        with _told(self.place.server.shown), contextlib.suppress(asyncssh.SFTPNoSuchFile):
            await self.client.remove(f"{self.place.folder}/{path}")

    async def files(self, folder: str) -> list[Found]:
        with _told(self.place.server.shown):
            if not await self._is_inside(folder):
                return []
            found = await self.client.readdir(f"{self.place.folder}/{folder}".rstrip("/"))
        return [
            (str(one.filename), int(one.attrs.size or 0), datetime.fromtimestamp(one.attrs.mtime or 0, UTC))
            for one in found
            if stat.S_ISREG(one.attrs.permissions or 0)
        ]

    async def _bytes(self, path: str) -> bytes | None:
        full = f"{self.place.folder}/{path}"
        try:
            seen = await self.client.lstat(full)
        except asyncssh.SFTPNoSuchFile:
            return None
        if not stat.S_ISREG(seen.permissions or 0):
            raise Refused("invalid", f"{path} is no plain file")
        if (seen.size or 0) > LARGEST:
            raise too_large(path)
        async with self.client.open(full, "rb") as opened:
            content: bytes = await opened.read()
        return content

    async def _is_inside(self, folder: str) -> bool:
        """Whether a folder is there. Raises Refused where a link leads somewhere else."""
        wanted = f"{self.place.folder}/{folder}".rstrip("/")
        try:
            if not await self.client.isdir(wanted):
                return False
            root, found = await self.client.realpath(self.place.folder), await self.client.realpath(wanted)
        except asyncssh.SFTPNoSuchFile:
            return False
        if str(found).rstrip("/") != f"{str(root).rstrip('/')}/{folder}".rstrip("/"):
            raise Refused("forbidden", f"{folder} leads over a link, which is not followed")
        return True

    async def _name(self, part: str, full: str) -> bool:
        """Gives a whole file its name; False where that is taken."""
        try:
            try:
                await self.client.link(part, full)
            except asyncssh.SFTPOpUnsupported:
                await self.client.rename(part, full)
        except (asyncssh.SFTPFailure, asyncssh.SFTPFileAlreadyExists, asyncssh.SFTPPermissionDenied):
            if await self.client.lexists(full):
                return False
            raise
        return True
