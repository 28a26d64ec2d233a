"""How wide a text will be, and its lines: no font is at hand, so it is rather too wide than too narrow."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache

_WIDTHS = {
    **dict.fromkeys("iIjl'|`", 0.32), **dict.fromkeys("ftr.,:;!()[]/ -", 0.42), **dict.fromkeys("mMW@%", 1.0),
    **dict.fromkeys("w+=<>~#&", 0.85), "_": 0.52,
}  # fmt: skip
_NEVER_FIRST = "、。，．：；）」』】！？ーぁぃぅぇぉっゃゅょァィゥェォッャュョ"


def width(text: str, size: float, *, is_bold: bool = False, is_code: bool = False) -> float:
    """Pixels that the text takes at this size."""
    return size * sum(_em(sign, is_code) for sign in text) * (1.1 if is_bold else 1)


@lru_cache(maxsize=4096)
def _em(sign: str, is_code: bool) -> float:
    if unicodedata.combining(sign) or unicodedata.category(sign) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(sign) in ("W", "F"):
        return 1.0
    if is_code:
        return 0.62
    if not sign.isascii():
        return 0.95 if unicodedata.east_asian_width(sign) == "A" else 0.7
    return _WIDTHS.get(sign, 0.74 if sign.isupper() else 0.64)


def lines(
    text: str, room: float, size: float, most: int = 2, *, is_bold: bool = False, is_code: bool = False
) -> list[str]:
    """The text in at most so many lines; what has no room ends in `…`. Breaks stand at blanks, and between signs that
    have no blanks between them (Japanese, Chinese)."""

    def fits(line: str) -> bool:
        return width(line, size, is_bold=is_bold, is_code=is_code) <= room

    found: list[str] = []
    rest = text.strip()
    while rest and len(found) < most:
        if fits(rest):
            return [*found, rest]
        end = _end(rest, fits, is_last=len(found) == most - 1)
        line = rest[:end].rstrip()
        rest = rest[end:].lstrip()
        found.append(f"{line}…" if len(found) == most - 1 and rest else line)
    return found


def _end(text: str, fits: Callable[[str], bool], *, is_last: bool) -> int:
    """Where the first line ends."""
    tail = "…" if is_last else ""
    low, high = 1, len(text)
    while low <= high:
        middle = (low + high) // 2
        if fits(text[:middle].rstrip() + tail):
            low = middle + 1
        else:
            high = middle - 1
    end = max(high, 1)
    if is_last or end >= len(text):
        return end
    for at in range(end, max(end * 2 // 5, 1), -1):
        may_break = text[at - 1] in " /-" or (_is_wide(text[at - 1]) and text[at] not in _NEVER_FIRST)
        if text[at] == " " or may_break:
            return at
    return end


def _is_wide(sign: str) -> bool:
    return unicodedata.east_asian_width(sign) in ("W", "F")
