"""The kind `sheet`: rows of one spreadsheet file on this machine.

A change reads the file, makes the new one beside it and puts that in its place, so there is never half a file; two
writers wait for each other by a lock. `append` is keyed where the sheet has a column for our key (`key`); without one
it is `once`. `update` can be asked: does the row hold these values?
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from connectors.disk import FOREVER, Doubtful, Refused, in_time, settle
from connectors.rendering import checked_input
from connectors.service import check_settings, no_such_action
from connectors.sheet.books import ONLY_READ, WRITTEN, Book, Told, Unfit, encoding_of, read_book
from runner.contract import Action, Connector, Effect, Json, Outcome, Purpose, Request, Tools, Undo
from runner.errors import RequestError, SettingsError

LARGEST = 50_000_000
MOST_ROWS = 10_000
_ROW = {"row": "record"}

READ = Action(
    name="read",
    title="Reads the rows whose columns hold what `where` says.",
    effect="read",
    input={"where": "record or empty", "most": "integer or empty"},
    output={
        "found": "yes_no",
        "row": "record or empty",
        "rows": {"list": "record"},
        "count": "integer",
        "incomplete": "yes_no",
    },
)
UPDATE = Action(
    name="update",
    title="Changes cells of the one row that `by` names; with `expect` only while they hold that.",
    effect="lookup",
    has_lookup=True,
    input={"by": "record", "set": "record", "expect": "record or empty"},
    output={"row": "record", "before": "record or empty"},
    undo=Undo(
        action="update",
        with_={"by": "${{ input.by }}", "set": "${{ output.before }}", "expect": "${{ input.set }}"},
    ),
    sample={"row": {}, "before": {}},
)
REMOVE = Action(
    name="remove",
    title="Takes out the row that `append` made.",
    effect="keyed",
    key_life=FOREVER,
    input={"key": "text"},
    output={"removed": "yes_no", "row": "record or empty"},
    cannot_undo="A row that was taken out is gone; its cells stand in the answer.",
    sample={"removed": True, "row": {}},
)


def _append(effect: Effect) -> Action:
    keyed = effect == "keyed"
    return Action(
        name="append",
        title="Adds a row below the last one.",
        effect=effect,
        key_life=FOREVER * keyed,
        input=_ROW,
        output={"key": "text", **_ROW},
        undo=Undo(action="remove", with_={"key": "${{ output.key }}"}) if keyed else None,
        cannot_undo="" if keyed else "The sheet has no column for keys, so nobody knows which row it was.",
        sample={"key": "draft", "row": {}},
    )


class SheetKind:
    """The kind `sheet`."""

    name = "sheet"
    title = "Rows of a CSV or Excel file"

    def settings(self) -> Mapping[str, Json]:
        return {
            "file": "text",
            "key": "text or empty",
            "sheet": "text or empty",
            "head": "integer or empty",
            "encoding": "text or empty",
            "separator": "text or empty",
        }

    def actions(self) -> Mapping[str, Action]:
        """Those of a file that can be written, with a column for keys."""
        return {"read": READ, "append": _append("keyed"), "update": UPDATE, "remove": REMOVE}

    def actions_for(self, settings: Mapping[str, Json]) -> Mapping[str, Action]:
        """Those of a connection with these settings."""
        if Path(str(settings.get("file"))).suffix.lower() in ONLY_READ:
            return {"read": READ}
        if settings.get("key"):
            return self.actions()
        return {"read": READ, "append": _append("once"), "update": UPDATE}

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        check_settings(name, self.name, self.settings(), settings)
        file = tools.place(str(settings["file"]))
        kind, encoding, separator = (
            file.suffix.lower(),
            str(settings.get("encoding") or ""),
            settings.get("separator", ","),
        )
        if kind not in (*WRITTEN, *ONLY_READ):
            raise SettingsError(
                f"{name}: file must be one of {', '.join(WRITTEN)}, or to be read {', '.join(ONLY_READ)}"
            )
        for word in ("encoding", "separator") if kind != ".csv" else ("sheet",):
            if word in settings:
                raise SettingsError(f"{name}: {word} means nothing to a {kind} file")
        if separator == "tab":
            separator = "\t"
        if not isinstance(separator, str) or len(separator) != 1 or separator in '"\r\n':
            raise SettingsError(f'{name}: separator must be one sign like "," or ";", or tab')
        try:
            encoding_of(encoding)
        except (LookupError, ValueError):
            raise SettingsError(
                f'{name}: there is no encoding "{encoding}"; there are utf-8, shift_jis, big5 …'
            ) from None
        head = settings.get("head", 1)
        if not isinstance(head, int) or isinstance(head, bool) or not 1 <= head <= 1_000:
            raise SettingsError(f"{name}: head must be the number of the row with the names of the columns, from 1")
        told = Told(
            kind=kind, encoding=encoding, separator=separator, sheet=str(settings.get("sheet") or ""), head=head
        )
        key = str(settings.get("key") or "")
        return _Sheet(name=name, file=file, told=told, key=key, actions=self.actions_for(settings), tools=tools)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sheet:
    """One file. `key` is the column that holds our keys, or empty."""

    name: str
    file: Path
    told: Told
    key: str
    actions: Mapping[str, Action]
    tools: Tools

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        """The input as it was checked; of an `append` with our key in its column."""
        declared = self.actions.get(action) or no_such_action(self.name, action, self.actions)
        asks = purpose in ("lookup", "undo_lookup")
        if purpose == "find" or (asks and not declared.has_lookup):
            raise RequestError(f"{self.name}.{action} cannot be asked by a key; use read with where")
        given = {name: value for name, value in checked_input(declared, input).items() if value is not None}
        for word in ("row", "by", "set"):
            if word in given and not given[word]:
                raise RequestError(f"{action} needs at least one column in {word}")
        if action == "append" and self.key:
            if self.key in given["row"]:
                raise RequestError(f'the column "{self.key}" holds our keys; leave it out of row')
            given["row"] = {**given["row"], self.key: key}
        for name in given["set"] if action == "update" else ():
            if name in given["by"]:
                raise RequestError(f'"{name}" names the row, so it cannot be changed by the same update')
        return Request.of(given)

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        asks, body = purpose in ("lookup", "undo_lookup"), request.body
        reads = asks or action == "read"
        work: Callable[[Book], tuple[Json, bool]] = {
            "read": lambda book: _read(book, body),
            "append": lambda book: _add(book, body["row"], self.key),
            "update": lambda book: _change(book, body),
            "remove": lambda book: _remove(book, body["key"], self.key),
        }[action]
        if asks:
            work = lambda book: _asked(book, body)  # noqa: E731
        whole = partial(self._do, work, reads, time.monotonic() + limit / 1000)
        return await in_time(whole, limit / 1000 + 1, f"{self.file.name} could not be written in time")

    async def close(self) -> None:
        """Nothing is open between two calls."""

    def origin(self) -> str:
        return f"sheet:{self.file.name}"

    def _do(self, work: Callable[[Book], tuple[Json, bool]], reads: bool, until: float) -> Outcome:
        """On a thread. What is refused has left the file as it was."""
        try:
            file = Path(os.path.realpath(self.file))  # what a link leads to is written, and the link stays
            with contextlib.nullcontext() if reads else _alone(file, until):
                data, seen = self._content()
                book = read_book(self.told, data, to_write=not reads)
                output, changed = work(book)
                if changed:
                    _replace(file, book.content(), seen, until)
        except Unfit as error:
            return Outcome(result="refused", reason="invalid", summary=f"{self.file.name} {error}")
        except Refused as error:
            return Outcome(result="refused", reason=error.reason, summary=f"{self.file.name} {error}")
        except Doubtful:
            return Outcome(
                result="unknown", reason="unknown", summary=f"{self.file.name} was written, perhaps not for good"
            )
        except OSError as error:
            why = f"{self.file.name} cannot be used: {error.strerror}"
            return Outcome(result="refused", reason="unavailable", summary=why)
        count = output.pop("matching", None)
        external = str(output.get("key") or "")
        return Outcome(result="applied", output=output, external_id=external, count=count)

    def _content(self) -> tuple[bytes, tuple[int, ...]]:
        try:
            with self.file.open("rb") as opened:
                seen = os.fstat(opened.fileno())
                if seen.st_size > LARGEST:
                    raise Refused("invalid", f"is larger than {LARGEST // 1_000_000} MB")
                return opened.read(), (seen.st_ino, seen.st_size, seen.st_mtime_ns)
        except FileNotFoundError:
            raise Refused(
                "not_found", "is not there; make it, with the names of the columns in its first row"
            ) from None


def _replace(file: Path, content: bytes, seen: tuple[int, ...], until: float) -> None:
    """Puts the new file in the old one's place, unless that was changed meanwhile, an office program has it, or nobody
    waits for it any more."""
    for mark in (f"~${file.name}", f".~lock.{file.name}#"):
        if (file.parent / mark).exists():
            raise Refused("unavailable", "is open in an office program; nothing was written")
    part, folder = file.with_name(f".{file.name}.part"), os.open(file.parent, os.O_RDONLY)
    try:
        with part.open("wb") as out:
            os.fchmod(out.fileno(), file.stat().st_mode & 0o777)
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        now = file.stat()
        if (now.st_ino, now.st_size, now.st_mtime_ns) != seen:
            raise Refused("unavailable", "was changed by somebody else meanwhile; nothing was written")
        if time.monotonic() >= until:
            raise Refused("unavailable", "was not ready in time; nothing was written")
        part.replace(file)
        settle(folder)
    finally:
        part.unlink(missing_ok=True)
        os.close(folder)


@contextlib.contextmanager
def _alone(file: Path, until: float) -> Iterator[None]:
    """Nobody else of Amends writes the file. Raises Refused when that does not come in time."""
    with file.with_name(f".{file.name}.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise Refused("unavailable", "is being written by another run; nothing was written") from None
                time.sleep(0.02)
        yield


def _holds(row: Mapping[str, Json], wanted: Mapping[str, Json]) -> bool:
    return all(_same(row.get(name), value) for name, value in wanted.items())


def _same(cell: Json, value: Json) -> bool:
    """A file without kinds has texts only, so a number is compared as it is written."""
    if isinstance(cell, str) and isinstance(value, bool):
        return cell.upper() == str(value).upper()
    if isinstance(cell, str) and isinstance(value, int | float):
        try:
            return float(cell) == value
        except ValueError:
            return False
    return bool((cell or None) == (value or None)) if "" in (cell, value) else bool(cell == value)


def _read(book: Book, body: Mapping[str, Json]) -> tuple[Json, bool]:
    where, most = body.get("where") or {}, body.get("most") or 1_000
    book.check_columns(list(where))
    found = [row for row in book.rows if _holds(row, where)]
    most = max(1, min(most, MOST_ROWS))
    rows = found[:most]
    first = rows[0] if rows else None
    output = {"found": bool(rows), "row": first, "rows": rows, "count": len(rows), "incomplete": len(found) > most}
    return output, False


def _add(book: Book, row: Mapping[str, Json], key: str) -> tuple[Json, bool]:
    book.check_columns(list(row))
    there = [one for one in book.rows if key and one[key] == row[key]]
    if not there:
        book.append(row)
    return {"key": row.get(key, ""), "row": there[0] if there else dict(row)}, not there


def _one(book: Book, by: Mapping[str, Json]) -> int:
    book.check_columns(list(by))
    found = [at for at, row in enumerate(book.rows) if _holds(row, by)]
    if len(found) != 1:
        many = "several rows" if found else "no row"
        raise Refused(
            "conflict" if found else "not_found", f"has {many} where {', '.join(by)} is that; nothing was written"
        )
    return found[0]


def _change(book: Book, body: Mapping[str, Json]) -> tuple[Json, bool]:
    book.check_columns([*body["set"], *body.get("expect", ())])
    at = _one(book, body["by"])
    row = book.rows[at]
    if not _holds(row, body.get("expect") or {}):
        raise Refused("conflict", "holds other values by now than are expected; nothing was written")
    book.change(at, body["set"])
    return {"row": {**row, **body["set"]}, "before": {name: row[name] for name in body["set"]}}, True


def _asked(book: Book, body: Mapping[str, Json]) -> tuple[Json, bool]:
    """Whether the one row holds what an update set. What it held before is not known any more."""
    found = [row for row in book.rows if _holds(row, body["by"]) and _holds(row, body["set"])]
    return {"matching": len(found), "row": found[0] if found else {}, "before": None}, False


def _remove(book: Book, wanted: str, key: str) -> tuple[Json, bool]:
    book.check_columns([key])
    found = [at for at, row in enumerate(book.rows) if row[key] == wanted]
    if found:
        book.remove(found[0])
    return {"removed": bool(found), "row": book.rows[found[0]] if found else None}, bool(found)


KIND: Any = SheetKind()
