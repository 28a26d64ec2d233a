"""Files that people send with a form: what they are by their content, and where they wait until the form is sent.

A form that becomes a run puts its files into the artifact store; until then they stand in `.amends/uploads`, for a day,
and together no more than BOUND. The page carries a sealed receipt for each.
"""

from __future__ import annotations

import codecs
import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from runner.clock import DAY, SECOND
from runner.contract import Json
from runner.errors import NotPossible
from runner.language.fields import FieldType
from runner.language.types import read_entry
from runner.store.anchor import write_synced

BOUND = 500_000_000
"""Bytes of all files that wait."""
LONGEST_NAME = 120

_ZIP, _OLE, _TIFF = (b"PK\x03\x04", b"PK\x05\x06"), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",), (b"II*\x00", b"MM\x00*")
_BEGINNINGS: Mapping[str, tuple[bytes, ...]] = {
    "pdf": (b"%PDF-",), "jpg": (b"\xff\xd8\xff",), "jpeg": (b"\xff\xd8\xff",), "png": (b"\x89PNG\r\n\x1a\n",),
    "gif": (b"GIF87a", b"GIF89a"), "bmp": (b"BM",), "tif": _TIFF, "tiff": _TIFF, "webp": (b"RIFF",),
    "zip": _ZIP, "docx": _ZIP, "xlsx": _ZIP, "pptx": _ZIP, "odt": _ZIP, "ods": _ZIP, "odp": _ZIP,
    "doc": _OLE, "xls": _OLE, "ppt": _OLE, "msg": _OLE, "gz": (b"\x1f\x8b",), "rtf": (b"{\\rtf",),
}  # fmt: skip
"""How the content of a kind of file begins."""
_AT_FOUR = {"heic": b"ftyp", "heif": b"ftyp", "avif": b"ftyp", "mp4": b"ftyp", "mov": b"ftyp", "m4a": b"ftyp"}
_TEXTS = frozenset({"txt", "csv", "tsv", "json", "xml", "md", "log", "yaml", "yml", "ics", "vcf", "eml"})
_CODINGS = ("utf-8", "cp932", "big5")
_PROGRAMS = (b"MZ", b"\x7fELF", b"#!", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BAD = re.compile("[\x00-\x1f\x7f-\x9f/\\\\\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def is_what_it_says(kind: str, data: bytes) -> bool:
    """Whether the content can be that of a file with this ending. A kind that is not known here may be anything but a
    program."""
    if kind in _BEGINNINGS:
        return data.startswith(_BEGINNINGS[kind]) and (kind != "webp" or data[8:12] == b"WEBP")
    if kind in _AT_FOUR:
        return data[4:8] == _AT_FOUR[kind]
    return _is_text(data) if kind in _TEXTS else not data.startswith(_PROGRAMS)


def _is_text(data: bytes) -> bool:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return True
    return b"\x00" not in data and any(_decodes(data, coding) for coding in _CODINGS)


def _decodes(data: bytes, coding: str) -> bool:
    try:
        data.decode(coding)
    except UnicodeDecodeError:
        return False
    return True


def clean_name(name: str) -> str:
    """A file's name as it can stand in mails and folders: no path, no signs that are not seen, not too long; composed,
    since some computers send か゛ for が."""
    bare = unicodedata.normalize("NFC", _BAD.sub("", name.replace("\\", "/").rpartition("/")[2])).strip(" .")
    stem, dot, ending = bare.rpartition(".")
    return f"{stem[: LONGEST_NAME - len(ending)]}.{ending}" if dot and len(ending) < 10 else bare[:LONGEST_NAME]


class Uploads:
    """The files that wait. `place` is the project's state folder."""

    def __init__(self, place: Path) -> None:
        self._root = place / "uploads"

    def keep(self, kind: FieldType, name: str, file: BinaryIO, *, size: int, largest: int, now: int) -> dict[str, Json]:
        """Keeps a file; its name, size, kind and sha256. Raises ValueError with a sentence that can follow the field's
        name, NotPossible where there is no room."""
        named = clean_name(name)
        ending = named.rpartition(".")[2].lower() if "." in named else ""
        if not size:
            raise ValueError(f'"{named}" is empty')
        told: dict[str, Json] = {"name": named, "size": size, "kind": ending}
        read_entry(replace(kind, most=min(kind.most or largest, largest)), {**told, "sha256": "0" * 64})
        data = file.read()
        if not is_what_it_says(ending, data):
            raise ValueError(f'the content of "{named}" is not what its name says')
        digest = hashlib.sha256(data).hexdigest()
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.sweep(now) + len(data) > BOUND:
            raise NotPossible("There is no room for more files at the moment.")
        write_synced(self._root / digest, data)
        return {**told, "sha256": digest}

    def content(self, digest: str) -> bytes | None:
        """A file that waits, None where it is no longer there."""
        if not _DIGEST.fullmatch(digest):
            return None
        try:
            return (self._root / digest).read_bytes()
        except FileNotFoundError:
            return None

    def has(self, digest: str) -> bool:
        """Whether a file waits."""
        return _DIGEST.fullmatch(digest) is not None and (self._root / digest).is_file()

    def drop(self, digest: str) -> None:
        """A file that waits no longer."""
        if _DIGEST.fullmatch(digest):
            (self._root / digest).unlink(missing_ok=True)

    def sweep(self, now: int) -> int:
        """Takes away what is older than a day; bytes that are left."""
        left = 0
        for file in self._root.iterdir() if self._root.is_dir() else ():
            try:
                seen = file.stat()
            except FileNotFoundError:
                continue
            if seen.st_mtime * SECOND < now - DAY:
                file.unlink(missing_ok=True)
            else:
                left += seen.st_size
        return left
