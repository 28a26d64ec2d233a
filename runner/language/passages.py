"""The parts of a template: plain text, markers, `{% for %}` and `{% if %}`. Nothing is evaluated here.

A block that stands alone on its line takes the line with it, so that lists come out without gaps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from runner.language.functions import FUNCTIONS
from runner.language.markers import CLOSE, MISTAKEN, OPEN, Fault, end_of

TAKEN_NAMES = frozenset("inputs steps outcome run trigger output failure values loop self super range".split())
"""Names that a `for` cannot take."""

DEEPEST = 10

_SIGN = re.compile(rf"\$\{{\{{|{MISTAKEN}|\{{\{{|\{{%|\{{#")
_BLOCK_END = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|%\}|\{%", re.DOTALL)
_FOR = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s+in\s+(?=\S)")
_LINE_START = re.compile(r"(?:^|\n)([ \t]*)\Z")
_LINE_END = re.compile(r"[ \t]*(?:\n|\Z)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """One marker; `index` counts the markers of the text."""

    source: str
    offset: int
    index: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One branch of an `if`; the source is None for the `else`."""

    source: str | None
    offset: int
    body: tuple[Part, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """`{% if %}` with its branches."""

    arms: tuple[Arm, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loop:
    """`{% for name in source %}`."""

    name: str
    source: str
    offset: int
    body: tuple[Part, ...]


Part = str | Value | Choice | Loop


def every_part(parts: tuple[Part, ...]) -> Iterator[str | Value | Loop | Arm]:
    """Every part, those inside loops and branches too, in the order of the text."""
    for part in parts:
        for one in part.arms if isinstance(part, Choice) else (part,):
            yield one
            if isinstance(one, (Loop, Arm)):
                yield from every_part(one.body)


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A parsed text: its parts, or why it has none."""

    parts: tuple[Part, ...]
    faults: tuple[Fault, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Block:
    words: str
    offset: int


@dataclass(kw_only=True, slots=True, frozen=True)
class _Open:
    """A block that is not closed yet."""

    word: str
    offset: int
    name: str = ""
    arms: list[tuple[str | None, int, list[Part]]] = field(default_factory=list)

    @property
    def body(self) -> list[Part]:
        return self.arms[-1][2]


@lru_cache(maxsize=512)
def parse_passage(text: str) -> Passage:
    """The parts of a template's text."""
    faults: list[Fault] = []
    pieces = _split(text, faults)
    parts = _nest(pieces, faults) if not faults else ()
    return Passage(parts=() if faults else parts, faults=tuple(faults))


def _split(text: str, faults: list[Fault]) -> list[str | Value | _Block]:
    pieces: list[str | Value | _Block] = []
    at = 0
    count = 0
    while True:
        match = _SIGN.search(text, at)
        if match is None:
            pieces.append(text[at:])
            return pieces
        plain, start = text[at : match.start()], match.start()
        if match[0] == OPEN:
            end, fault = end_of(text, match.end())
            if fault is not None:
                faults.append(fault)
                return pieces
            pieces += [plain, Value(source=text[match.end() : end], offset=match.end(), index=count)]
            count += 1
            at = end + len(CLOSE)
        elif match[0] == "{%":
            block, at = _block(text, start, faults)
            if block is None:
                return pieces
            alone = _LINE_START.search(text, 0, start)
            rest = _LINE_END.match(text, at)
            if alone and rest and len(plain) >= len(alone[1]):
                plain, at = plain[: len(plain) - len(alone[1])], rest.end()
            pieces += [plain, block]
        elif not match[0].isascii() or match[0] == "${":
            what, hint = f'"{match[0]}" begins no expression', 'write "${{" before it and "}}" behind it'
            faults.append(_fault(start, what, hint, len(match[0])))
            pieces, at = [*pieces, plain], match.end()
        elif match[0] == "{{":
            faults.append(_fault(start, '"{{" without "$" is not a marker', "write ${{ … }}", 2))
            pieces, at = [*pieces, plain], match.end()
        else:
            if "#}" in text[start:]:
                faults.append(_fault(start, "comments are not in the language of templates", "leave it out", 2))
            pieces, at = [*pieces, plain + match[0]], match.end()


def _block(text: str, start: int, faults: list[Fault]) -> tuple[_Block | None, int]:
    """(the block that begins at `start`, where the text goes on)."""
    for stop in _BLOCK_END.finditer(text, start + 2):
        if stop[0] == "%}":
            inner = text[start + 2 : stop.start()]
            if inner.startswith(("-", "+")) or inner.endswith(("-", "+")):
                hint = "leave the sign out: a block alone on its line leaves no gap"
                faults.append(_fault(start, '"{%-" and "-%}" are not in the language', hint, 3))
            return _Block(words=inner, offset=start + 2), stop.end()
        if stop[0] == "{%":
            break
    faults.append(_fault(start, '"{%" is never closed', 'close it with "%}"', 2))
    return None, len(text)


def _nest(pieces: list[str | Value | _Block], faults: list[Fault]) -> tuple[Part, ...]:
    opened = [_Open(word="", offset=0, arms=[(None, 0, [])])]
    for piece in pieces:
        if not isinstance(piece, _Block):
            if piece != "":
                opened[-1].body.append(piece)
            continue
        lead = len(piece.words) - len(piece.words.lstrip())
        word, _, rest = piece.words.strip().partition(" ")
        offset = piece.offset + lead
        source, source_at = rest.strip(), offset + len(word) + 1 + len(rest) - len(rest.lstrip())
        fault = _take(opened, word, source, source_at, offset)
        if fault is not None:
            faults.append(fault)
            return ()
    if len(opened) > 1:
        word = opened[-1].word
        faults.append(
            _fault(opened[-1].offset, f'"{word}" is never closed', f"close it with {{% end{word} %}}", len(word))
        )
    return tuple(opened[0].body)


def _take(opened: list[_Open], word: str, source: str, source_at: int, offset: int) -> Fault | None:
    """One block: opens, continues or closes what stands around it."""
    inner = opened[-1]
    if word in ("for", "if"):
        return _open(opened, word, source, source_at, offset)
    if word in ("elif", "else") and inner.word == "if" and inner.arms[-1][0] is not None:
        if (word == "elif") != bool(source):
            what = f'"{word}" {"needs a condition" if word == "elif" else "takes no condition"}'
            return _fault(offset, what, "", len(word))
        inner.arms.append((source or None, source_at, []))
        return None
    if word in ("endfor", "endif") and word == f"end{inner.word}" and not source:
        opened.pop()
        arms = tuple(Arm(source=arm, offset=at, body=tuple(body)) for arm, at, body in inner.arms)
        first = arms[0]
        loop = Loop(name=inner.name, source=first.source or "", offset=first.offset, body=first.body)
        opened[-1].body.append(loop if inner.word == "for" else Choice(arms=arms))
        return None
    if word in ("elif", "else", "endfor", "endif"):
        return _fault(offset, f'"{word}" does not belong here', "", len(word))
    return _fault(offset, f'"{word}" is not in the language of templates', "there are for and if", max(1, len(word)))


def _open(opened: list[_Open], word: str, source: str, source_at: int, offset: int) -> Fault | None:
    if len(opened) > DEEPEST:
        return _fault(offset, f"blocks are nested more than {DEEPEST} deep", "", len(word))
    name, match = "", _FOR.match(source)
    if word == "for":
        if match is None:
            return _fault(offset, '"for" is written {% for line in values.lines %}', "", 3)
        name = match[1]
        if name in TAKEN_NAMES or name in FUNCTIONS or name.startswith("_"):
            return _fault(source_at, f'"{name}" is taken', "choose another name for the item", len(name))
        source, source_at = source[match.end() :], source_at + match.end()
    elif not source:
        return _fault(offset, '"if" needs a condition', "", 2)
    opened.append(_Open(word=word, offset=offset, name=name, arms=[(source, source_at, [])]))
    return None


def _fault(offset: int, what: str, hint: str, length: int) -> Fault:
    return Fault(offset=offset, length=length, what=what, hint=hint)
