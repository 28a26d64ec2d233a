"""The filters and functions of the flow language, each a small function over plain values.

`x | name(a)` and `name(x, a)` mean the same; `now()` and `today()` begin a value. `default` and `given`, which must see
a missing value, stand here for their description and are carried out by `expressions`.
Everything is bounded: no text beyond 1,000,000 characters, no list beyond 100,000 items.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

from runner.contract import Json, canonical, digest
from runner.errors import EvaluationError
from runner.language import dates
from runner.language.calendar import Calendar, business_day
from runner.language.values import (
    LARGEST_NUMBER,
    LONGEST_LIST,
    LONGEST_TEXT,
    NoValue,
    as_text,
    count,
    currency_digits,
    equal,
    exact,
    is_currency,
    is_money,
    is_number,
    kind_of,
    less,
    plain,
    read_number,
    shown,
)

Gives = Literal["any", "text", "number", "yes_no", "list", "money", "date", "time", "datetime"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """What an evaluation knows besides its values: the recorded time (ms), the zone, the business calendar."""

    now: int
    zone: str
    calendar: Calendar | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """One word of the language. `least` and `most` count its values, the one before `|` included.

    `gives` is the kind of its answer, `any` where that follows from what goes in. `is_source`: begins a value, so it
    cannot stand behind `|`. `check` says of literal values (the first left out) what is wrong with them, or raises.
    """

    name: str
    call: Callable[..., Json]
    least: int
    most: int
    gives: Gives
    is_source: bool = False
    check: Callable[..., object] | None = None


FUNCTIONS: dict[str, Function] = {}


Call = Callable[..., Json]


def _word(
    gives: Gives, name: str = "", most: int = 0, check: Callable[..., object] | None = None
) -> Callable[[Call], Call]:
    def register(call: Call) -> Call:
        signature = list(inspect.signature(call).parameters.values())[1:]
        least = sum(one.default is one.empty and one.kind is not one.VAR_POSITIONAL for one in signature)
        word = name or call.__name__.rstrip("_")
        FUNCTIONS[word] = Function(
            name=word,
            call=call,
            least=least,
            most=most or len(signature),
            gives=gives,
            is_source=not signature,
            check=check,
        )
        return call

    return register


def needs_text(value: Json, name: str) -> str:
    """The value, which must be a text."""
    if not isinstance(value, str):
        hint = ": print a number in a text of its own" if is_number(value) else ""
        raise EvaluationError(f'"{name}" works on a text, not on {shown(value)}{hint}')
    return value


def needs_list(value: Json, name: str) -> list[Json]:
    """The value, which must be a list."""
    if kind_of(value) != "list":
        raise EvaluationError(f'"{name}" works on a list, not on {shown(value)}')
    return list(value)


def needs_whole(value: Json, name: str, least: int = -LARGEST_NUMBER, most: int = LARGEST_NUMBER) -> int:
    """The value, which must be a whole number between the bounds."""
    if not is_number(value) or value != int(value):
        raise EvaluationError(f'"{name}" needs a whole number, not {shown(value)}')
    if not least <= value <= most:
        raise EvaluationError(f'"{name}" takes a number from {least} to {most}, not {shown(value)}')
    return int(value)


def bounded_text(text: str) -> str:
    """The text, unless it is too long."""
    if len(text) > LONGEST_TEXT:
        raise EvaluationError(f"the text is longer than {LONGEST_TEXT:,} characters")
    return text


# --- missing values (carried out by `expressions`) -----------------------------------------------------------------


@_word("any")
def default(at: Moment, value: Json, otherwise: Json) -> Json:
    return otherwise if value is None else value


@_word("yes_no")
def given(at: Moment, value: Json) -> Json:
    return value is not None


# --- text ----------------------------------------------------------------------------------------------------------


@_word("text")
def upper(at: Moment, value: Json) -> Json:
    return bounded_text(needs_text(value, "upper").upper())


@_word("text")
def lower(at: Moment, value: Json) -> Json:
    return bounded_text(needs_text(value, "lower").lower())


@_word("text")
def trim(at: Moment, value: Json) -> Json:
    return needs_text(value, "trim").strip()


@_word("text")
def replace(at: Moment, value: Json, old: Json, new: Json) -> Json:
    text, old, new = (needs_text(one, "replace") for one in (value, old, new))
    if not old:
        raise EvaluationError('"replace" needs a text to look for, not an empty one')
    if len(text) + text.count(old) * (len(new) - len(old)) > LONGEST_TEXT:
        raise EvaluationError(f"the text would be longer than {LONGEST_TEXT:,} characters")
    return text.replace(old, new)


@_word("list")
def split(at: Moment, value: Json, by: Json) -> Json:
    text, by = needs_text(value, "split"), needs_text(by, "split")
    if not by:
        raise EvaluationError('"split" needs a text to split at, not an empty one')
    if text.count(by) >= LONGEST_LIST:
        raise EvaluationError(f"the list would be longer than {LONGEST_LIST:,} items")
    return text.split(by)


@_word("yes_no")
def contains(at: Moment, value: Json, part: Json) -> Json:
    if isinstance(value, str):
        return needs_text(part, "contains") in value
    return any(kind_of(item) == kind_of(part) and equal(item, part) for item in needs_list(value, "contains"))


@_word("yes_no")
def starts_with(at: Moment, value: Json, part: Json) -> Json:
    return needs_text(value, "starts_with").startswith(needs_text(part, "starts_with"))


@_word("yes_no")
def ends_with(at: Moment, value: Json, part: Json) -> Json:
    return needs_text(value, "ends_with").endswith(needs_text(part, "ends_with"))


@_word("text")
def truncate(at: Moment, value: Json, length: Json) -> Json:
    """At most that many characters, the last of them `…` where something was cut."""
    text, length = needs_text(value, "truncate"), needs_whole(length, "truncate", 1, LONGEST_TEXT)
    return text if len(text) <= length else text[: length - 1] + "…"


@_word("text")
def one_line(at: Moment, value: Json) -> Json:
    """Every run of spaces and line breaks becomes one space."""
    return " ".join(needs_text(value, "one_line").split())


# --- lists ---------------------------------------------------------------------------------------------------------


@_word("number")
def length(at: Moment, value: Json) -> Json:
    if kind_of(value) not in ("text", "list", "record"):
        raise EvaluationError(f'"length" counts a text, a list or a record, not {shown(value)}')
    return len(value)


@_word("any")
def first(at: Moment, value: Json) -> Json:
    items = needs_list(value, "first")
    if not items:
        raise NoValue("the list is empty and has no first item")
    return items[0]


@_word("any")
def last(at: Moment, value: Json) -> Json:
    items = needs_list(value, "last")
    if not items:
        raise NoValue("the list is empty and has no last item")
    return items[-1]


@_word("text")
def join(at: Moment, value: Json, by: Json = ", ") -> Json:
    items, by = [as_text(item) for item in needs_list(value, "join")], needs_text(by, "join")
    if sum(map(len, items)) + len(by) * len(items) > LONGEST_TEXT:
        raise EvaluationError(f"the text would be longer than {LONGEST_TEXT:,} characters")
    return by.join(items)


@_word("any", name="sum")
def total(at: Moment, value: Json) -> Json:
    items = needs_list(value, "sum")
    if not items:
        return 0
    if not (is_number(items[0]) or is_money(items[0])):
        raise EvaluationError(f'"sum" adds numbers or money, not {shown(items[0])}')
    return functools.reduce(lambda one, other: count("+", one, other), items)


@_word("any", name="min", most=20)
def least(at: Moment, value: Json, *others: Json) -> Json:
    return _extreme("min", value, others, less)


@_word("any", name="max", most=20)
def greatest(at: Moment, value: Json, *others: Json) -> Json:
    return _extreme("max", value, others, lambda one, other: less(other, one))


def _extreme(name: str, value: Json, others: tuple[Json, ...], goes_before: Callable[[Json, Json], bool]) -> Json:
    items = [value, *others] if others else needs_list(value, name)
    if not items:
        raise NoValue(f'the list is empty and has no "{name}"')
    return functools.reduce(lambda one, other: other if goes_before(other, one) else one, items)


@_word("list")
def sort(at: Moment, value: Json, field: Json = "") -> Json:
    """Smallest first; with a field, records by that field."""
    items, field = needs_list(value, "sort"), needs_text(field, "sort")
    order = functools.cmp_to_key(_order)
    return sorted(items, key=lambda item: order(_field(item, field) if field else item))


def _order(one: Json, other: Json) -> int:
    return less(other, one) - less(one, other)


@_word("list")
def unique(at: Moment, value: Json) -> Json:
    """The first of each; what counts is the whole value."""
    seen: dict[bytes, Json] = {}
    for item in needs_list(value, "unique"):
        seen.setdefault(canonical(item), item)
    return list(seen.values())


@_word("list")
def where(at: Moment, value: Json, field: Json, wanted: Json) -> Json:
    """The records whose field is that value; a record without the field is left out."""
    field = needs_text(field, "where")
    return [item for item in needs_list(value, "where") if _fits(_optional_field(item, field), wanted)]


def _fits(found: Json, wanted: Json) -> bool:
    return found is not None and equal(found, wanted)


@_word("list")
def pick(at: Moment, value: Json, field: Json) -> Json:
    """That field of each record."""
    field = needs_text(field, "pick")
    return [_field(item, field) for item in needs_list(value, "pick")]


def _field(item: Json, field: str) -> Json:
    found = _optional_field(item, field)
    if found is None:
        raise NoValue(f'a record of the list has no "{field}"')
    return found


def _optional_field(item: Json, field: str) -> Json:
    for key in field.split("."):
        if item is None:
            return None
        if not isinstance(item, Mapping):
            raise EvaluationError(f'the list holds {shown(item)}, which has no field "{key}"')
        item = item.get(key)
    return item


# --- numbers -------------------------------------------------------------------------------------------------------


@_word("number")
def number(at: Moment, value: Json) -> Json:
    """The number in a text, strictly read; the bare number of money."""
    if is_money(value):
        return value["value"]
    if is_number(value):
        return value
    try:
        return read_number(needs_text(value, "number"))
    except ValueError as error:
        raise EvaluationError(str(error)) from error


@_word("any", name="round")
def rounded(at: Moment, value: Json, digits: Json = None) -> Json:
    """Half away from zero; money to its currency's decimals unless digits are given."""
    if is_money(value):
        places = currency_digits(value["currency"]) if digits is None else digits
        amount: Json = rounded(at, value["value"], places)
        return {"value": amount, "currency": value["currency"]}
    if not is_number(value):
        raise EvaluationError(f'"round" works on a number, not on {shown(value)}')
    places = needs_whole(0 if digits is None else digits, "round", -12, 12)
    step = Decimal(1).scaleb(-places)
    return plain((exact(value) / step).to_integral_value(ROUND_HALF_UP) * step)


def _known_currency(currency: Json) -> str:
    if not isinstance(currency, str) or not is_currency(currency):
        raise EvaluationError(f"{shown(currency)} is not a currency: write three capital letters, such as JPY")
    return currency


@_word("money", check=_known_currency)
def money(at: Moment, value: Json, currency: Json) -> Json:
    """The number as an amount of that currency."""
    currency = _known_currency(currency)
    if is_money(value):
        if value["currency"] != currency:
            raise EvaluationError(f"{as_text(value)} is not {currency}: nothing is exchanged here")
        return value
    return {"value": number(at, value), "currency": currency}


# --- dates ---------------------------------------------------------------------------------------------------------


@_word("datetime")
def now(at: Moment) -> Json:
    return dates.moment_text(at.now, at.zone)


@_word("date")
def today(at: Moment) -> Json:
    return dates.moment_text(at.now, at.zone)[:10]


@_word("date", name="date")
def day_of(at: Moment, value: Json) -> Json:
    return dates.date_text(value, at.zone)


@_word("time", name="time")
def time_of(at: Moment, value: Json) -> Json:
    return dates.time_text(value, at.zone)


@_word("any")
def add_days(at: Moment, value: Json, days: Json) -> Json:
    return dates.days_later(value, needs_whole(days, "add_days", -4_000_000, 4_000_000), at.zone)


@_word("any")
def add_months(at: Moment, value: Json, months: Json) -> Json:
    return dates.months_later(value, needs_whole(months, "add_months", -120_000, 120_000), at.zone)


@_word("date")
def add_business_days(at: Moment, value: Json, days: Json) -> Json:
    """A date; 0 gives the day itself or the next business day."""
    amount = needs_whole(days, "add_business_days", -2_600, 2_600)
    start = date.fromisoformat(dates.date_text(value, at.zone))
    try:
        return business_day(start, amount, at.calendar or Calendar(zone=at.zone)).isoformat()
    except (ValueError, OverflowError) as error:
        raise EvaluationError(f"{amount} business days from {shown(value)}: there is no such day") from error


def _known_pattern(pattern: Json, language: Json = "en") -> None:
    dates.pattern_words(needs_text(pattern, "format_date"), needs_text(language, "format_date"))


@_word("text", check=_known_pattern)
def format_date(at: Moment, value: Json, pattern: Json, language: Json = "en") -> Json:
    pattern, language = needs_text(pattern, "format_date"), needs_text(language, "format_date")
    return dates.format_date(value, pattern, at.zone, language)


@_word("datetime", check=lambda zone: dates.zone_of(needs_text(zone, "in_zone")))
def in_zone(at: Moment, value: Json, zone: Json) -> Json:
    return dates.in_zone(value, at.zone, needs_text(zone, "in_zone"))


@_word("number")
def days_between(at: Moment, start: Json, end: Json) -> Json:
    return dates.days_between(start, end, at.zone)


# --- other ---------------------------------------------------------------------------------------------------------


@_word("text", name="json")
def json_text(at: Moment, value: Json) -> Json:
    return bounded_text(json.dumps(value, ensure_ascii=False, allow_nan=False))


@_word("text", name="hash")
def hash_text(at: Moment, value: Json) -> Json:
    """SHA-256 of the canonical JSON, hexadecimal."""
    return digest(value)
