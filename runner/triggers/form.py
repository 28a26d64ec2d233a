"""A form made out of a flow's inputs: what stands on its page, and from what was typed there to inputs.

Pure. A page is a tree of entries; whatever was typed stays in it, also what does not fit. In a page's form an entry is
called `in.<place>`, such as `in.lines.0.sku`; `rows.<place>` says how many rows a list has.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from runner.contract import Json, canonical
from runner.errors import InputsInvalid
from runner.language.fields import FieldType, field_types
from runner.language.schemas import read_inputs
from runner.language.types import MISSING, is_missing, read_entry
from runner.language.values import is_money, number_text
from runner.triggers.active import Armed

MOST_ROWS = 100
SHORT = 200
"""Characters up to which a text is one line."""
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−ーｰ－"), "-")
_DAY = re.compile(r"(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})日?")
_CLOCK = re.compile(r"(\d{1,2})[:時](\d{1,2})(?:分|(:\d{2}))?")
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_SIGNS: Mapping[str, str] = {"JPY": "¥円", "TWD": "NT$元", "USD": "$", "EUR": "€", "CNY": "¥元"}
"""How people write a currency beside its amount."""

Posted = Mapping[str, str]
Files = Mapping[str, Mapping[str, Json] | str]
"""By place: a file that was kept, or what is wrong with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One field of the page. `parts` are the fields of a record or the rows of a list; `file` is a stored file.

    `place` is where it stands: `lines.0.sku`; `wrong` one sentence, empty where it fits.
    """

    place: str
    kind: FieldType
    text: str = ""
    file: Mapping[str, Json] | None = None
    parts: tuple[Entry, ...] = ()
    wrong: str = ""

    @property
    def name(self) -> str:
        """What it is called where nobody has given it a label."""
        return self.kind.label or self.place.rpartition(".")[2].replace("_", " ")

    @property
    def anchor(self) -> str:
        """Where it stands on the page."""
        return f"in-{self.place.replace('.', '-')}"

    @property
    def described(self) -> str:
        """Where it stands what it is, and what is wrong with it."""
        beside = (("help", self.kind.help), ("wrong", self.wrong))
        return " ".join(f"{word}-{self.anchor}" for word, text in beside if text)

    @property
    def is_optional(self) -> bool:
        """It may stay empty."""
        return self.kind.optional or self.kind.default is not None

    @property
    def is_list(self) -> bool:
        """It has rows."""
        return self.kind.kind == "list"

    @property
    def is_group(self) -> bool:
        """It is a record with known fields."""
        return self.kind.kind == "record" and self.kind.fields is not None

    @property
    def is_long(self) -> bool:
        """Its text may have several lines."""
        bound = self.kind.most if self.kind.kind == "text" else None
        return self.kind.kind in ("record", "any") or (bound is not None and bound > SHORT) or "\n" in self.text

    @property
    def is_blank(self) -> bool:
        """Nothing was typed in it."""
        return not (self.text.strip() or self.file or self.wrong) and all(part.is_blank for part in self.parts)

    @property
    def is_native(self) -> bool:
        """What was typed can stand in the browser's own field for dates and times, which shows nothing else."""
        pattern = {"date": r"\d{4}-\d\d-\d\d", "time": r"\d\d:\d\d(:\d\d)?", "datetime": r"\d{4}-\d\d-\d\dT\d\d:\d\d"}
        return not self.text or re.fullmatch(pattern[self.kind.kind], self.text, re.ASCII) is not None

    def each(self) -> Iterator[Entry]:
        """It and all within it."""
        yield self
        for part in self.parts:
            yield from part.each()


Page = tuple[Entry, ...]


def fields_of(*armed: Armed) -> dict[str, FieldType]:
    """The fields of a form: the inputs of all flows that it starts, without those that a trigger fills in by itself."""
    found: dict[str, FieldType] = {}
    for one in armed:
        kinds = field_types(one.bundle.flow.inputs)
        found |= {name: kind for name, kind in kinds.items() if name not in {*found, *one.said.get("fill", {})}}
    return found


# --- what stands on the page ---------------------------------------------------------------------------------------


def blank(fields: Mapping[str, FieldType]) -> Page:
    """The page before anything is typed, with the defaults in it."""
    return tuple(_filled(name, kind, kind.default) for name, kind in fields.items())


def _filled(place: str, kind: FieldType, value: Json) -> Entry:
    if kind.kind == "list":
        rows = value if isinstance(value, list) and value else [None]
        parts = tuple(_filled(f"{place}.{number}", _row(kind), row) for number, row in enumerate(rows))
        return Entry(place=place, kind=kind, parts=parts)
    if kind.kind == "record" and kind.fields is not None:
        inner = value if isinstance(value, Mapping) else {}
        parts = tuple(
            _filled(f"{place}.{name}", one, inner.get(name, one.default)) for name, one in kind.fields.items()
        )
        return Entry(place=place, kind=kind, parts=parts)
    return Entry(place=place, kind=kind, text=_written(value))


def _row(kind: FieldType) -> FieldType:
    """The type of a list's rows: of a list that takes anything, texts."""
    return kind.items if kind.items is not None else FieldType(kind="text")


def _written(value: Json) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number_text(value)
    return number_text(value["value"]) if is_money(value) else canonical(value).decode()


def typed(fields: Mapping[str, FieldType], posted: Posted, files: Files) -> Page:
    """The page as it was sent. `posted` are the values by name."""
    return tuple(_typed(name, kind, posted, files) for name, kind in fields.items())


def _typed(place: str, kind: FieldType, posted: Posted, files: Files) -> Entry:
    parts: tuple[Entry, ...] = ()
    if kind.kind == "list":
        count = posted.get(f"rows.{place}", "")
        rows = min(int(count), MOST_ROWS) if count.isascii() and count.isdigit() and len(count) < 6 else 0
        parts = tuple(_typed(f"{place}.{number}", _row(kind), posted, files) for number in range(rows))
    elif kind.kind == "record" and kind.fields is not None:
        parts = tuple(_typed(f"{place}.{name}", one, posted, files) for name, one in kind.fields.items())
    text = posted.get(f"in.{place}", "").replace("\r\n", "\n").replace("\x00", "")
    file = files.get(place)
    if isinstance(file, str):
        return Entry(place=place, kind=kind, wrong=file)
    return Entry(place=place, kind=kind, text=text, file=file, parts=parts)


def changed(page: Page, wish: str) -> Page:
    """The page after a button: `add:lines` puts a row at the end of a list, `drop:lines.0` takes a row or file out."""
    word, _sign, place = wish.partition(":")
    return tuple(_changed(entry, word, place) for entry in page)


def _changed(entry: Entry, word: str, place: str) -> Entry:
    if word == "add" and entry.place == place and entry.is_list and len(entry.parts) < MOST_ROWS:
        return replace(entry, parts=(*entry.parts, _filled(f"{place}.{len(entry.parts)}", _row(entry.kind), None)))
    if word == "drop" and entry.place == place:
        return replace(entry, file=None)
    if word == "drop" and entry.is_list and place in (part.place for part in entry.parts):
        left = [part for part in entry.parts if part.place != place]
        return replace(entry, parts=tuple(_moved(part, f"{entry.place}.{at}") for at, part in enumerate(left)))
    return replace(entry, parts=tuple(_changed(part, word, place) for part in entry.parts))


def _moved(entry: Entry, place: str) -> Entry:
    parts = tuple(_moved(part, place + part.place.removeprefix(entry.place)) for part in entry.parts)
    return replace(entry, place=place, parts=parts)


# --- from what was typed to inputs ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """`given` are the inputs, `page` the page with a sentence at each entry that does not fit, `wrong` sentences about
    the whole. The inputs count only if `fits`."""

    given: Mapping[str, Json]
    page: Page
    wrong: tuple[str, ...] = ()

    @property
    def faults(self) -> list[Entry]:
        """The entries that do not fit."""
        return [entry for top in self.page for entry in top.each() if entry.wrong]

    @property
    def fits(self) -> bool:
        """Nothing is wrong."""
        return not self.wrong and not self.faults


def read(armed: Sequence[Armed], page: Page) -> Reading:
    """The inputs that a page gives, each entry alone and then all together as every run's are."""
    given: dict[str, Json] = {}
    found: list[Entry] = []
    for entry in page:
        value, told = _value(entry, armed[0].bundle.zone)
        found.append(told)
        if value is not None:
            given[entry.place] = value
    told_at = {entry.place for entry in found if any(part.wrong for part in entry.each())}
    wrong: dict[str, str] = {}
    for one in armed:
        known = {name: value for name, value in given.items() if name in one.bundle.flow.inputs}
        wrong |= {name: what for name, what in _faults(one, known).items() if name not in told_at}
    placed = tuple(replace(one, wrong=wrong[one.place]) if one.place in wrong else one for one in found)
    # what was not read cannot be judged as part of the whole either
    whole = () if told_at else tuple(what for name, what in wrong.items() if name not in {one.place for one in found})
    return Reading(given=given, page=placed, wrong=whole)


def _faults(armed: Armed, given: Mapping[str, Json]) -> Mapping[str, str]:
    """What a flow says about its inputs; those that the trigger fills in are not there yet."""
    flow = armed.bundle.flow
    try:
        read_inputs(flow.inputs, given, zone=armed.bundle.zone, schema=flow.schema)
    except InputsInvalid as error:
        return {name: what for name, what in error.problems.items() if name not in armed.said.get("fill", {})}
    return {}


def _value(entry: Entry, zone: str) -> tuple[Json, Entry]:
    """(the value of an entry, None for none; the entry with what is wrong in it)."""
    kind = entry.kind
    if entry.wrong:
        return None, entry
    if entry.is_blank:
        missing = not entry.is_optional
        if missing and entry.is_group:
            inner = tuple(_value(part, zone)[1] for part in entry.parts)
            return (None, replace(entry, parts=inner)) if any(part.wrong for part in inner) else ({}, entry)
        return None, replace(entry, wrong=MISSING) if missing else entry
    if entry.is_list:
        kept = [(part, _value(part, zone)) for part in entry.parts]
        told = tuple(part if part.is_blank else found[1] for part, found in kept)
        return [found[0] for part, found in kept if not part.is_blank], replace(entry, parts=told)
    if entry.is_group:
        pairs = [_value(part, zone) for part in entry.parts]
        record = {part.place.rpartition(".")[2]: pair[0] for part, pair in zip(entry.parts, pairs, strict=True)}
        return {name: one for name, one in record.items() if one is not None}, replace(
            entry, parts=tuple(pair[1] for pair in pairs)
        )
    value = entry.file if kind.kind == "file" else as_meant(kind, entry.text)
    if is_missing(kind, value):
        return None, entry
    try:
        return read_entry(kind, value, zone=zone), entry
    except ValueError as error:
        return None, replace(entry, wrong=str(error))


def as_meant(kind: FieldType, text: str) -> str:
    """What was typed as the language writes it: full-width signs, spaces and separators of people's own way of writing
    numbers, dates and phone numbers. A text stays as it is."""
    if kind.kind not in _WAYS:
        return text
    plain = unicodedata.normalize("NFKC", text).strip()
    return _WAYS[kind.kind](kind, plain)


def _number(kind: FieldType, text: str) -> str:
    text = text.translate(_DASHES).replace(" ", "")
    return text.replace(",", "") if _GROUPED.fullmatch(text) else text


def _money(kind: FieldType, text: str) -> str:
    text = text.translate(_DASHES).replace("、", ",")
    bare = text.removesuffix(kind.currency).strip() if kind.currency else text
    return bare.strip(_SIGNS.get(kind.currency, "") + " ")


def _date(kind: FieldType, text: str) -> str:
    text = text.translate(_DASHES)
    day = _DAY.match(text)
    if day is None:
        return text
    rest = text[day.end() :].lstrip("T ").strip()
    written = f"{day[1]}-{day[2]:0>2}-{day[3]:0>2}"
    return f"{written}T{_time(kind, rest)}" if rest else written


def _time(kind: FieldType, text: str) -> str:
    clock = _CLOCK.match(text)
    if clock is None:
        return text
    return f"{clock[1]:0>2}:{clock[2]:0>2}{clock[3] or ''}{text[clock.end() :]}"


def _phone(kind: FieldType, text: str) -> str:
    return text.translate(_DASHES)


def _address(kind: FieldType, text: str) -> str:
    return text


_WAYS = {
    "number": _number, "integer": _number, "money": _money, "date": _date, "datetime": _date, "time": _time,
    "phone": _phone, "email": _address, "yes_no": _address,
}  # fmt: skip
"""A mail address with full-width signs is the one without: mail servers carry no others."""
