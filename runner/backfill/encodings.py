"""Which encoding a text file has. What is not clear is refused: the person says it with --encoding."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from runner.errors import InputsInvalid

CHUNK = 1 << 20
SAMPLE = 1 << 16
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
AS_WINDOWS_HAS_IT = {"shift_jis": "cp932", "big5": "cp950"}
"""Encodings that are read with the additions under which files of that name are written."""

CLEAR = 0.8
"""Share of signs that must be everyday ones, before a text is taken to be in an encoding."""
LOW_BYTES = 0.1
"""Least share of second bytes below 0x7F in Big5; encodings that look like it (EUC, GB) have none."""
_WIDE = re.compile(r"[^\x00-\x7f]+")


def encoding_of(file: Path, told: str = "") -> str:
    """The encoding as Python calls it. Raises InputsInvalid where it is not clear, or `told` is none."""
    if told:
        return _named(told)
    with file.open("rb") as source:
        head = source.read(4)
        for mark, encoding in MARKS:
            if head.startswith(mark):
                return encoding
        source.seek(0)
        decoder, sample = codecs.getincrementaldecoder("utf-8")(), bytearray()
        is_utf8 = True
        while chunk := source.read(CHUNK):
            if b"\0" in chunk:
                raise InputsInvalid(
                    {file.name: "holds signs that no text has; if it is UTF-16, say --encoding utf-16-le"}
                )
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError:
                is_utf8 = False
                sample += b"".join(line for line in chunk.splitlines(keepends=True) if not line.isascii())[:SAMPLE]
            if len(sample) >= SAMPLE:
                break
    return "utf-8" if is_utf8 else _clear(file, bytes(sample))


def _named(told: str) -> str:
    try:
        name = codecs.lookup(told.strip()).name
        "".encode(name)
    except (LookupError, ValueError):
        raise InputsInvalid(
            {"--encoding": f'there is no encoding "{told}"; there are utf-8, cp932, big5, cp1252 …'}
        ) from None
    if name == "utf-8":
        return "utf-8-sig"
    return AS_WINDOWS_HAS_IT.get(name, name)


def _clear(file: Path, sample: bytes) -> str:
    fitting = [encoding for encoding, first in (("cp932", 0x97), ("cp950", 0xC6)) if _fits(sample, encoding, first)]
    if len(fitting) == 1:
        return fitting[0]
    raise InputsInvalid(
        {file.name: "is not UTF-8, and it is not clear what else; say --encoding cp932 (Shift_JIS), big5, cp1252 …"}
    )


def _fits(sample: bytes, encoding: str, last: int) -> bool:
    """Whether most of it are everyday signs, two bytes each whose first is at most `last`, side by side as in words."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return False
    words = _WIDE.findall(text)
    signs = [sign.encode(encoding, "replace") for word in words for sign in word]
    everyday = [sign for sign in signs if len(sign) == 2 and sign[0] <= last]
    low = sum(sign[1] < 0x7F for sign in everyday)
    is_clear = bool(signs) and len(everyday) >= CLEAR * len(signs) and len(signs) >= 1.5 * len(words)
    return is_clear and (encoding != "cp950" or low >= LOW_BYTES * len(everyday))
