"""Signs that deceive a reader: those nobody sees, those that turn the text round, letters of another alphabet."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_WORD = re.compile(r"[^\W\d_]+")
_ALPHABETS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
_JOINER = "\u200d"


def visible(text: str) -> str:
    """The text with its line breaks, and with every sign that nobody sees written out: pay⟨U+202E⟩fdp."""
    text = text.replace("\r\n", "\n")
    return "".join(f"⟨U+{ord(sign):04X}⟩" if _is_unseen(text, at) else sign for at, sign in enumerate(text))


def _is_unseen(text: str, at: int) -> bool:
    sign = text[at : at + 1]
    if sign in ("\n", "\t") or unicodedata.category(sign) not in _UNSEEN:
        return False
    joins = sign == _JOINER and 0 < at < len(text) - 1
    return not (joins and ord(text[at - 1]) > 0x2000 and ord(text[at + 1]) > 0x2000)  # of emoji, not of letters


def mixed_words(texts: Iterable[str]) -> list[tuple[str, str]]:
    """(word, its foreign letter in words) of words whose letters are of several alphabets: pаypal, the а Cyrillic."""
    found: dict[str, str] = {}
    for text in texts:
        for word in _WORD.findall(text) if not text.isascii() else ():
            kinds = {sign: kind for sign in word if (kind := _alphabet(sign))}
            if len(set(kinds.values())) > 1:
                few = min(set(kinds.values()), key=lambda kind: (sum(kinds[s] == kind for s in kinds), kind == "LATIN"))
                stranger = next(sign for sign in word if kinds.get(sign) == few)
                found[word] = f"{stranger} {unicodedata.name(stranger).capitalize()}"
    return list(found.items())


def _alphabet(sign: str) -> str:
    first = unicodedata.name(sign, "").partition(" ")[0]
    return first if first in _ALPHABETS else ""
