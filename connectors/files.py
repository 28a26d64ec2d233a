"""Files of one folder, on this machine, in a bucket of S3 or on an SFTP server, and nothing outside it.

A file is written once: what is there under a name is never overwritten. It gets its name when all of it is there, so
nobody sees half of it, and a second attempt finds the name with the same bytes under it. `remove` moves into the
folder that `trash` names, if the connection has one, and can be undone then.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

from connectors.bucket import Bucket
from connectors.disk import FOREVER
from connectors.far import LARGEST
from connectors.folder import Folder
from connectors.rendering import checked_input
from connectors.servers import Server
from connectors.service import check_settings, no_such_action, read_place, resolver, secret_only, switch
from connectors.sftp import Sftp, known_key
from connectors.stored import stored_files
from runner.contract import Action, Connector, Json, Outcome, Purpose, Request, Tools, Undo, missing
from runner.errors import RequestError, SettingsError
from runner.guard import AddressRefused, Guard

_PLACE = {"path": "text", "sha256": "text"}

_READ = Action(
    name="read",
    title="Reads a file into the store, so that other steps can send it.",
    effect="read",
    input={"path": "text"},
    output={"found": "yes_no", "file": "file or empty"},
)
_LIST = Action(
    name="list",
    title="Names the files of a folder, hidden ones not; `pattern` is like *.pdf.",
    effect="read",
    input={"folder": "text or empty", "pattern": "text or empty", "most": "integer or empty"},
    output={"found": "yes_no", "files": {"list": "record"}, "count": "integer", "incomplete": "yes_no"},
)
_WRITE = Action(
    name="write",
    title="Writes a file, or a text as one, under a name that is not taken; folders are made.",
    effect="keyed",
    key_life=FOREVER,
    input={"path": "text", "file": "file or empty", "text": "text or empty"},
    output={**_PLACE, "size": "integer"},
    undo=Undo(action="remove", with_={"path": "${{ output.path }}", "sha256": "${{ output.sha256 }}"}),
    sample={"path": "draft.txt", "sha256": "", "size": 0},
)
_MOVE = Action(
    name="move",
    title="Moves a file to a name that is not taken; folders are made.",
    effect="keyed",
    key_life=FOREVER,
    input={"path": "text", "to": "text"},
    output={"path": "text"},
    undo=Undo(action="move", with_={"path": "${{ input.to }}", "to": "${{ input.path }}"}),
    sample={"path": "draft.txt"},
)


def _remove(trash: str) -> Action:
    back = Undo(action="move", with_={"path": "${{ output.kept_at }}", "to": "${{ input.path }}"})
    return Action(
        name="remove",
        title="Takes a file away; with `sha256` only while it holds just these bytes.",
        effect="keyed",
        key_life=FOREVER,
        input={"path": "text", "sha256": "text or empty"},
        output={"removed": "yes_no", "kept_at": "text or empty"},
        undo=back if trash else None,
        cannot_undo="" if trash else "A file that was taken away is gone; with trash at the connection it is kept.",
        sample={"removed": True, "kept_at": "draft.txt"},
    )


_FAR: Mapping[str, Json] = {
    "origin": "text or empty",
    "region": "text or empty",
    "access_key": "secret or empty",
    "secret_key": "secret or empty",
    "user": "text or empty",
    "password": "secret or empty",
    "private_key": "secret or empty",
    "host_key": "text or empty",
    "allow_private": "yes_no or empty",
    "ca": "text or empty",
}
_OF = {
    "s3": frozenset({"origin", "region", "access_key", "secret_key", "allow_private", "ca"}),
    "sftp": frozenset({"user", "password", "private_key", "host_key", "allow_private"}),
    "": frozenset[str](),
}
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


class FilesKind:
    """The kind `files`."""

    name = "files"
    title = "The files of a folder: on this machine, in a bucket of S3, or on an SFTP server"

    def settings(self) -> Mapping[str, Json]:
        return {"folder": "text", "trash": "text or empty", **_FAR}

    def actions(self) -> Mapping[str, Action]:
        """Those of a connection without `trash`."""
        return self.actions_for({})

    def actions_for(self, settings: Mapping[str, Json]) -> Mapping[str, Action]:
        """Those of a connection with these settings."""
        found = (_READ, _LIST, _WRITE, _MOVE, _remove(str(settings.get("trash") or "")))
        return {action.name: action for action in found}

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        check_settings(name, self.name, self.settings(), settings)
        trash = str(settings.get("trash") or "")
        try:
            _steps(trash) if trash else ()
        except RequestError as error:
            raise SettingsError(f"{name}: trash: {error}") from None
        place = _place(name, settings, tools)
        return _Files(name=name, place=place, trash=trash, actions=self.actions_for(settings))


class Place(Protocol):
    """Where the files are."""

    @property
    def shown(self) -> str:
        """Its name in sentences."""
        ...

    async def run(self, action: str, body: Mapping[str, Json], *, limit: int) -> Outcome:
        """What an action came to within `limit` ms."""
        ...

    async def close(self) -> None:
        """Closes what is open."""
        ...


def _place(name: str, settings: Mapping[str, Json], tools: Tools) -> Place:
    """The place that `folder` names. Raises SettingsError."""
    written = str(settings["folder"])
    try:
        parts = urlsplit(written)
    except ValueError:
        parts = urlsplit("")
    way = parts.scheme if parts.scheme in _OF and "://" in written else ""
    if "://" in written and not way:
        raise SettingsError(f'{name}: folder "{written}" must be a folder, s3://bucket/… or sftp://host/…')
    for setting in settings:
        if setting in _FAR and setting not in _OF[way]:
            raise SettingsError(f'{name}: {setting} is not for a folder like "{written}"')
    if way and (parts.query or parts.fragment or parts.username or parts.password):
        raise SettingsError(f"{name}: folder holds a user, a query or a fragment; say only where it is")
    return _PLACES[way](name, settings, parts, tools)


def _local(name: str, settings: Mapping[str, Json], parts: SplitResult, tools: Tools) -> Place:
    root = tools.place(str(settings["folder"]))
    if ".amends" in root.parts:
        raise SettingsError(f"{name}: folder lies in Amends' own state, which nobody else writes")
    return Folder(root=root, tools=tools)


def _secret(name: str, settings: Mapping[str, Json], word: str, tools: Tools) -> Any:
    return partial(resolver(tools), secret_only(name, word, settings[word])) if word in settings else None


def _s3(name: str, settings: Mapping[str, Json], parts: SplitResult, tools: Tools) -> Place:
    region = str(settings.get("region") or "us-east-1")
    for absent in missing({"access_key": "secret", "secret_key": "secret"}, list(settings)):
        raise SettingsError(f"{name}: files in a bucket need {absent}")
    if not _BUCKET.fullmatch(parts.netloc):
        raise SettingsError(f'{name}: "{parts.netloc}" cannot be the name of a bucket')
    place = {word: value for word, value in settings.items() if word in ("origin", "allow_private", "ca")}
    origin, client = read_place(name, place, f"https://s3.{region}.amazonaws.com", tools=tools, largest=LARGEST)
    access, secret = (_secret(name, settings, word, tools) for word in ("access_key", "secret_key"))
    return Bucket(
        origin=origin, bucket=parts.netloc, prefix=_below(name, parts), region=region, client=client, tools=tools,
        access=access, secret=secret,
    )  # fmt: skip


def _sftp(name: str, settings: Mapping[str, Json], parts: SplitResult, tools: Tools) -> Place:
    for absent in missing({"user": "text", "host_key": "text"}, list(settings)):
        raise SettingsError(f"{name}: files on an SFTP server need {absent}")
    password, private_key = (_secret(name, settings, word, tools) for word in ("password", "private_key"))
    if (password is None) == (private_key is None):
        raise SettingsError(f"{name}: files on an SFTP server need a password or a private_key")
    guard = Guard(allow_private=switch(name, settings, "allow_private"))
    try:
        host, port = parts.hostname or "", parts.port or 22
        guard.check_host(host)
    except (AddressRefused, ValueError) as error:
        raise SettingsError(f"{name}: folder: {error}") from None
    server = Server(host=host, port=port, security="ssh", guard=guard, ca="")
    return Sftp(
        server=server, folder=f"/{_below(name, parts)}".rstrip("/"), user=str(settings["user"]), tools=tools,
        key=known_key(name, str(settings["host_key"])), password=password, private_key=private_key,
    )  # fmt: skip


def _below(name: str, parts: SplitResult) -> str:
    """The path of `folder`, without slashes around it. Raises SettingsError."""
    path = parts.path.strip("/")
    try:
        return "/".join(_steps(path)) if path else ""
    except RequestError as error:
        raise SettingsError(f"{name}: folder: {error}") from None


_PLACES = {"": _local, "s3": _s3, "sftp": _sftp}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Files:
    """One folder."""

    name: str
    place: Place
    trash: str
    actions: Mapping[str, Action]

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        declared = self.actions.get(action) or no_such_action(self.name, action, self.actions)
        if purpose not in ("do", "undo", "read"):
            raise RequestError(f"{self.name} cannot be asked by a key; its writes are keyed by name and content")
        given = {name: value for name, value in checked_input(declared, input).items() if value is not None}
        for word in ("path", "to", "folder"):
            if word in given:
                given[word] = "/".join(_steps(given[word]))
        if action == "write":
            if ("file" in given) == ("text" in given):
                raise RequestError("write takes either a file or a text")
            if "file" in given:
                given["file"] = stored_files(given["file"], "file")[0]
        if action == "remove" and self.trash:
            given["to"] = f"{self.trash}/{hashlib.sha256(key.encode()).hexdigest()[:16]}/{_steps(given['path'])[-1]}"
        return Request.of(given)

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        return await self.place.run(action, request.body, limit=limit)

    async def close(self) -> None:
        """Closes what is open."""
        await self.place.close()

    def origin(self) -> str:
        return f"files:{self.place.shown}"


def _steps(path: Json) -> list[str]:
    """The steps of a path below the folder. Raises RequestError."""
    steps = str(path).split("/")
    if any(step in ("", ".", "..") or "\\" in step or not step.isprintable() for step in steps):
        raise RequestError(f'"{path}" is no path below the folder; write it like 2026/invoice.pdf')
    return steps


KIND: Any = FilesKind()
