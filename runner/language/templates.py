"""Longer texts: the files under `templates/`, from text to a mail.

`welcome.md` gives text and HTML, `welcome.txt` text, with `welcome.html` beside it HTML too; `welcome.ja.md` is taken
for a reader whose language is `ja`. The first line may be `subject: …`. In a template stand markers, `{% for %}` and
`{% if %}`. Values are written so that they stay values: nothing typed into a form draws a link, a button or a heading.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from runner.contract import Json, digest
from runner.errors import EvaluationError
from runner.language.calendar import Calendar
from runner.language.expressions import (
    Fault,
    Frame,
    NameUse,
    Path,
    Read,
    compiled,
    decided,
    given_paths,
    missing_paths,
    printed,
    source_faults,
    source_names,
    told,
    tree,
)
from runner.language.functions import needs_list
from runner.language.markers import place
from runner.language.markup import Place, address_of, mark_of, places_of, write_value
from runner.language.nearest import did_you_mean
from runner.language.passages import Choice, Loop, Part, Value, every_part, parse_passage
from runner.language.values import LONGEST_TEXT

ENDINGS = ("md", "txt", "html")
MOST_ROUNDS = 100_000
"""Rounds that all loops of one template may take together."""

_SUBJECT = re.compile(r"subject:[ \t]*(.*?)[ \t]*(?:\r?\n|\Z)(?:[ \t]*\r?\n)?", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})?")
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")

Write = Callable[[Value, str], str]
"""How one printed value goes into the text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Letter:
    """A template in its two parts; `body_at` is where the body begins in the text."""

    subject: str | None
    subject_at: int
    body: str
    body_at: int


# --- what is wrong -------------------------------------------------------------------------------------------------


def template_faults(name: str, text: str) -> tuple[Fault, ...]:
    """Everything in a template that is not in the language, with line and column. `name` is the file's name."""
    found = _name_faults(name)
    letter = _letter(text)
    if letter.subject is not None:
        found += _passage_faults(letter.subject, letter.subject_at, with_blocks=False)
    found += _passage_faults(letter.body, letter.body_at)
    if name.endswith(".html") and not found:
        found += _markup_faults(letter)
    return tuple(place(text, fault) for fault in sorted(found, key=lambda fault: fault.offset))


def used_names(text: str) -> tuple[NameUse, ...]:
    """Every dotted name that a template uses, the names of its own loops left out."""
    letter = _letter(text)
    found: list[NameUse] = []
    for part, start in ((letter.subject or "", letter.subject_at), (letter.body, letter.body_at)):
        found.extend(_names_in(parse_passage(part).parts, start, frozenset(), frozenset()))
    return tuple(sorted(found, key=lambda use: use.offset))


def subject_of(text: str) -> str:
    """What the first line of a template says behind `subject:`; empty where it says nothing."""
    return (_letter(text).subject or "").strip()


def _name_faults(name: str) -> list[Fault]:
    parts = name.split(".")
    if parts[-1] not in ENDINGS or len(parts) not in (2, 3) or not parts[0]:
        what = f'"{name}" is not the name of a template'
        return [Fault(offset=0, length=1, what=what, hint="name it welcome.md, welcome.txt or welcome.html")]
    if len(parts) == 3 and not _LANGUAGE.fullmatch(parts[1]):
        return [Fault(offset=0, length=1, what=f'"{parts[1]}" in "{name}" is not a language', hint="write ja or zh-TW")]
    return []


def _passage_faults(text: str, start: int, *, with_blocks: bool = True) -> list[Fault]:
    passage = parse_passage(text)
    found = list(passage.faults)
    for part in every_part(passage.parts):
        if not isinstance(part, str) and part.source is not None:
            found.extend(source_faults(part.source, part.offset))
    if not with_blocks and any(isinstance(part, (Choice, Loop)) for part in passage.parts):
        found.append(Fault(offset=0, length=1, what="a subject has no blocks", hint="write a if b else c in a marker"))
    return [fault.behind(start) for fault in found]


def _markup_faults(letter: _Letter) -> list[Fault]:
    parts = parse_passage(letter.body).parts
    places, wrong = places_of(_marked(parts))
    found = []
    for value in every_part(parts):
        if isinstance(value, Value) and (value.index in wrong or value.index not in places):
            what, offset = wrong.get(value.index, "a value cannot stand here"), letter.body_at + value.offset
            found.append(Fault(offset=offset, length=len(value.source), what=what, hint="put it into the text"))
    return found


def _marked(parts: tuple[Part, ...]) -> str:
    """The text with every branch and loop once, and a mark for each value."""
    written = (mark_of(part.index) if isinstance(part, Value) else part for part in every_part(parts))
    return "".join(part for part in written if isinstance(part, str))


def _names_in(parts: tuple[Part, ...], start: int, own: frozenset[str], known: frozenset[Path]) -> Iterator[NameUse]:
    """The names in the parts of a text that begins at `start`; `own` are names of loops, `known` paths with a value."""

    def used(source: str, offset: int, known: frozenset[Path]) -> Iterator[NameUse]:
        return (use for use in source_names(source, start + offset, known) if use.path[0] not in own)

    for part in parts:
        if isinstance(part, (Value, Loop)):
            yield from used(part.source, part.offset, known)
        if isinstance(part, Loop):
            yield from _names_in(part.body, start, own | {part.name}, known)
        seen = known
        for arm in part.arms if isinstance(part, Choice) else ():
            inside = seen
            if arm.source is not None:
                yield from used(arm.source, arm.offset, seen)
                if not source_faults(arm.source):
                    inside = seen | given_paths(tree(arm.source))
                    seen = seen | missing_paths(tree(arm.source))
            yield from _names_in(arm.body, start, own, inside)


# --- from template to mail -----------------------------------------------------------------------------------------


def render_mail(
    templates: Mapping[str, str],
    name: str,
    scope: Mapping[str, Json],
    *,
    language: str,
    now: int,
    zone: str,
    calendar: Calendar | None = None,
) -> dict[str, str]:
    """`{subject, text, html}` of the template `name`; html is empty when there is none, subject when it has none.

    `templates` maps file names to texts. Raises `EvaluationError`: no such template, a missing value, a bound exceeded.
    """
    frame = Frame(scope, now, zone, calendar)
    for ending in language_endings(language):
        markdown = templates.get(f"{name}{ending}.md")
        if markdown is not None:
            return _from_markdown(_letter(markdown), frame, language)
        text = templates.get(f"{name}{ending}.txt")
        if text is not None:
            letter, page = _letter(text), templates.get(f"{name}{ending}.html")
            whole = "" if page is None else _from_html(page, frame)
            return {"subject": _subject(letter, frame), "text": _plainly(letter.body, frame), "html": whole}
    known = {file.split(".")[0] for file in templates}
    hint = did_you_mean(name, known, "templates") or "put one under templates/"
    raise EvaluationError(f'there is no template "{name}.md" or "{name}.txt": {hint}')


def language_endings(language: str) -> tuple[str, ...]:
    """Which variants of a file fit a reader, best first: `.zh-TW`, `.zh`, and the one without a language."""
    exact, family = language.strip(), language.strip().split("-")[0]
    return tuple(dict.fromkeys([*(f".{one}" for one in (exact, family) if one), ""]))


def _from_markdown(letter: _Letter, frame: Frame, language: str) -> dict[str, str]:
    stem = f"v{digest(letter.body)[:12]}n"
    seen: list[str] = []

    def mark(value: Value, printed: str) -> str:
        seen.append(printed)
        return f"{stem}{len(seen) - 1}z"

    tokens = _MARKDOWN.parse(_written(letter.body, frame, mark))
    filler = _Filler(re.compile(rf"{stem}([0-9]+)z"), seen)
    body = _MARKDOWN.renderer.render(filler.filled(tokens), _MARKDOWN.options, {})
    page = (
        f'<!DOCTYPE html>\n<html lang="{html.escape(language or "en")}">\n<head><meta charset="utf-8"></head>\n<body>\n'
    )
    return {
        "subject": _subject(letter, frame),
        "text": _plainly(letter.body, frame),
        "html": f"{page}{body}</body>\n</html>\n",
    }


def _from_html(page: str, frame: Frame) -> str:
    body = _letter(page).body
    places, wrong = places_of(_marked(parse_passage(body).parts))
    if wrong:
        raise EvaluationError(next(iter(wrong.values())))

    def write(value: Value, printed: str) -> str:
        at: Place | None = places.get(value.index)
        if at is None:
            raise EvaluationError("a value stands where none can stand in HTML")
        return write_value(printed, at)

    return _written(body, frame, write)


def _subject(letter: _Letter, frame: Frame) -> str:
    """One line: line breaks and control signs become spaces."""
    if letter.subject is None:
        return ""
    return " ".join(_CONTROL.sub(" ", _plainly(letter.subject, frame)).split())


@lru_cache(maxsize=512)
def _letter(text: str) -> _Letter:
    text = text.removeprefix("\ufeff")
    match = _SUBJECT.match(text)
    if match is None:
        return _Letter(subject=None, subject_at=0, body=text, body_at=0)
    return _Letter(subject=match[1], subject_at=match.start(1), body=text[match.end() :], body_at=match.end())


# --- writing -------------------------------------------------------------------------------------------------------


class _Sheet:
    """The text that is being written, within its bounds."""

    __slots__ = ("left", "parts", "rounds", "write")

    def __init__(self, write: Write) -> None:
        self.write = write
        self.parts: list[str] = []
        self.left = LONGEST_TEXT
        self.rounds = MOST_ROUNDS

    def add(self, text: str) -> None:
        self.left -= len(text)
        if self.left < 0:
            raise EvaluationError(f"the template's text is longer than {LONGEST_TEXT:,} characters")
        self.parts.append(text)

    def turn(self) -> None:
        self.rounds -= 1
        if self.rounds < 0:
            raise EvaluationError(f"the template's loops take more than {MOST_ROUNDS:,} rounds")


Put = Callable[[Frame, _Sheet], None]


def _plainly(text: str, frame: Frame) -> str:
    return _written(text, frame, lambda value, printed: printed)


def _written(text: str, frame: Frame, write: Write) -> str:
    sheet = _Sheet(write)
    _putter(text)(frame, sheet)
    return "".join(sheet.parts)


@lru_cache(maxsize=512)
def _putter(text: str) -> Put:
    passage = parse_passage(text)
    if passage.faults:
        fault = place(text, passage.faults[0])
        raise EvaluationError(f"the template cannot be read at line {fault.line}: {fault.what}")
    return _put_all(passage.parts)


def _put_all(parts: tuple[Part, ...]) -> Put:
    puts = [_put_one(part) for part in parts]

    def put(frame: Frame, sheet: _Sheet) -> None:
        for one in puts:
            one(frame, sheet)

    return put


def _put_one(part: Part) -> Put:
    if isinstance(part, str):
        return lambda frame, sheet: sheet.add(part)
    if isinstance(part, Value):
        read = printed(part.source)
        return lambda frame, sheet: sheet.add(sheet.write(part, read(frame)))
    return _put_loop(part) if isinstance(part, Loop) else _put_choice(part)


def _put_loop(loop: Loop) -> Put:
    read, body = told(loop.source, compiled(loop.source)), _put_all(loop.body)

    def put(frame: Frame, sheet: _Sheet) -> None:
        for item in needs_list(read(frame), "for"):
            sheet.turn()
            body(frame.within(loop.name, item), sheet)

    return put


def _put_choice(choice: Choice) -> Put:
    arms: list[tuple[str, Read | None, Put]] = [
        (arm.source or "", told(arm.source, compiled(arm.source)) if arm.source else None, _put_all(arm.body))
        for arm in choice.arms
    ]

    def put(frame: Frame, sheet: _Sheet) -> None:
        for source, test, body in arms:
            if test is None or decided(test(frame), source):
                body(frame, sheet)
                return

    return put


# --- values in Markdown --------------------------------------------------------------------------------------------


class _Filler:
    """Puts the values into parsed Markdown, where they can draw nothing any more."""

    def __init__(self, mark: re.Pattern[str], seen: list[str]) -> None:
        self._mark = mark
        self._seen = seen

    def filled(self, tokens: list[Token]) -> list[Token]:
        found: list[Token] = []
        for token in tokens:
            for name, value in token.attrs.items():
                if isinstance(value, str):
                    token.attrs[name] = self._address(value) if name in ("href", "src") else self._plain(value)
            token.info = self._plain(token.info)
            if token.children:
                token.children = self.filled(token.children)
            if token.type == "text" and self._mark.search(token.content):
                found.extend(self._lines(token))
                continue
            if token.type != "inline":
                token.content = self._plain(token.content)
            found.append(token)
        return found

    def _plain(self, text: str) -> str:
        return self._mark.sub(lambda match: self._seen[int(match[1])], text)

    def _address(self, text: str) -> str:
        """The whole address is a value, or values stand inside one."""
        match = self._mark.match(text)
        if match is not None:
            begins = address_of(self._seen[int(match[1])])
            return begins + self._mark.sub(self._quoted, text[match.end() :])
        return self._mark.sub(self._quoted, text)

    def _quoted(self, match: re.Match[str]) -> str:
        return quote(self._seen[int(match[1])], safe="@")

    def _lines(self, token: Token) -> Iterator[Token]:
        """The text with its values; a line break inside a value stays one."""
        for number, line in enumerate(self._plain(token.content).split("\n")):
            if number:
                yield Token("hardbreak", "br", 0)
            yield Token("text", "", 0, content=line)
