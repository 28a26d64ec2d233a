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
Call = Callable[..., Json]


class Frame:
    """What one evaluation reads: the names in reach, the recorded time (ms), the zone, the business calendar."""

    __slots__ = ("calendar", "now", "scope", "zone")

    def __init__(self, scope: Mapping[str, Json], now: int, zone: str, calendar: Calendar | None = None) -> None:
        self.scope, self.now, self.zone, self.calendar = scope, now, zone, calendar

    def within(self, name: str, value: Json) -> Frame:
        """The same moment with one more name in reach."""
        return Frame({**self.scope, name: value}, self.now, self.zone, self.calendar)


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """One word of the language; `call` takes the frame and the values.

    `least` and `most` count the values, the one before `|` included. `gives` is the kind of the answer, `any` where
    that follows from what goes in. `is_source`: begins a value, so it cannot stand behind `|`. `check` says of literal
    values (the first left out) what is wrong with them, or raises.
    """

    name: str
    call: Call
    least: int
    most: int
    gives: Gives
    is_source: bool = False
    check: Callable[..., object] | None = None


def _function(
    name: str, gives: Gives, call: Call, most: int = 0, check: Callable[..., object] | None = None
) -> Function:
    values = list(inspect.signature(call).parameters.values())[1:]
    least = sum(one.default is one.empty and one.kind is not one.VAR_POSITIONAL for one in values)
    return Function(
        name=name, call=call, least=least, most=most or len(values), gives=gives, is_source=not values, check=check
    )


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


def _longest(size: int, most: int, what: str) -> None:
    if size > most:
        raise EvaluationError(f"the {what} would be longer than {most:,} {'items' if what == 'list' else 'characters'}")


# --- text ----------------------------------------------------------------------------------------------------------


def _replace(at: Frame, value: Json, old: Json, new: Json) -> Json:
    text, old, new = (needs_text(one, "replace") for one in (value, old, new))
    if not old:
        raise EvaluationError('"replace" needs a text to look for, not an empty one')
    _longest(len(text) + text.count(old) * (len(new) - len(old)), LONGEST_TEXT, "text")
    return text.replace(old, new)


def _split(at: Frame, value: Json, by: Json) -> Json:
    text, by = needs_text(value, "split"), needs_text(by, "split")
    if not by:
        raise EvaluationError('"split" needs a text to split at, not an empty one')
    _longest(text.count(by) + 1, LONGEST_LIST, "list")
    return text.split(by)


def _contains(at: Frame, value: Json, part: Json) -> Json:
    if isinstance(value, str):
        return needs_text(part, "contains") in value
    return any(kind_of(item) == kind_of(part) and equal(item, part) for item in needs_list(value, "contains"))


def _truncate(at: Frame, value: Json, length: Json) -> Json:
    """At most that many characters, the last of them `…` where something was cut."""
    text, length = needs_text(value, "truncate"), needs_whole(length, "truncate", 1, LONGEST_TEXT)
    return text if len(text) <= length else text[: length - 1] + "…"


def _starts_with(at: Frame, value: Json, part: Json) -> Json:
    return needs_text(value, "starts_with").startswith(needs_text(part, "starts_with"))


def _ends_with(at: Frame, value: Json, part: Json) -> Json:
    return needs_text(value, "ends_with").endswith(needs_text(part, "ends_with"))


# --- lists ---------------------------------------------------------------------------------------------------------


def _length(at: Frame, value: Json) -> Json:
    if kind_of(value) not in ("text", "list", "record"):
        raise EvaluationError(f'"length" counts a text, a list or a record, not {shown(value)}')
    return len(value)


def _end_of(name: str, place: int) -> Call:
    def end_of(at: Frame, value: Json) -> Json:
        items = needs_list(value, name)
        if not items:
            raise NoValue(f"the list is empty and has no {name} item")
        return items[place]

    return end_of


def _join(at: Frame, value: Json, by: Json = ", ") -> Json:
    items, by = [as_text(item) for item in needs_list(value, "join")], needs_text(by, "join")
    _longest(sum(map(len, items)) + len(by) * len(items), LONGEST_TEXT, "text")
    return by.join(items)


def _sum(at: Frame, value: Json) -> Json:
    items = needs_list(value, "sum")
    if items and not (is_number(items[0]) or is_money(items[0])):
        raise EvaluationError(f'"sum" adds numbers or money, not {shown(items[0])}')
    return functools.reduce(lambda one, other: count("+", one, other), items) if items else 0


def _extreme(name: str, goes_before: Callable[[Json, Json], bool]) -> Call:
    def extreme(at: Frame, value: Json, *others: Json) -> Json:
        items = [value, *others] if others else needs_list(value, name)
        if not items:
            raise NoValue(f'the list is empty and has no "{name}"')
        return functools.reduce(lambda one, other: other if goes_before(other, one) else one, items)

    return extreme


def _sort(at: Frame, value: Json, field: Json = "") -> Json:
    """Smallest first; with a field, records by that field."""
    items, field = needs_list(value, "sort"), needs_text(field, "sort")
    order = functools.cmp_to_key(lambda one, other: less(other, one) - less(one, other))
    return sorted(items, key=lambda item: order(_field(item, field) if field else item))


def _unique(at: Frame, value: Json) -> Json:
    """The first of each; what counts is the whole value."""
    seen: dict[bytes, Json] = {}
    for item in needs_list(value, "unique"):
        seen.setdefault(canonical(item), item)
    return list(seen.values())


def _where(at: Frame, value: Json, field: Json, wanted: Json) -> Json:
    """The records whose field is that value; a record without the field is left out."""
    field = needs_text(field, "where")
    found = [(item, _optional_field(item, field)) for item in needs_list(value, "where")]
    return [item for item, one in found if one is not None and equal(one, wanted)]


def _pick(at: Frame, value: Json, field: Json) -> Json:
    """That field of each record."""
    field = needs_text(field, "pick")
    return [_field(item, field) for item in needs_list(value, "pick")]


def _under(at: Frame, value: Json, field: Json) -> Json:
    """Each item as a record with it in that field: what `pick` reads."""
    name = needs_text(field, "under")
    return [{name: item} for item in needs_list(value, "under")]


def _with(at: Frame, value: Json, field: Json, item: Json) -> Json:
    """The record with one field set; its name may be worked out."""
    if not isinstance(value, Mapping):
        raise EvaluationError(f"with needs a record, and this is {shown(value)}")
    return {**value, needs_text(field, "with"): item}


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


def _number(at: Frame, value: Json) -> Json:
    """The number in a text, strictly read; the bare number of money."""
    if is_money(value):
        return value["value"]
    if is_number(value):
        return value
    try:
        return read_number(needs_text(value, "number"))
    except ValueError as error:
        raise EvaluationError(str(error)) from error


def _round(at: Frame, value: Json, digits: Json = None) -> Json:
    """Half away from zero; money to its currency's decimals unless digits are given."""
    if is_money(value):
        places = currency_digits(value["currency"]) if digits is None else digits
        return {"value": _round(at, value["value"], places), "currency": value["currency"]}
    if not is_number(value):
        raise EvaluationError(f'"round" works on a number, not on {shown(value)}')
    places = needs_whole(0 if digits is None else digits, "round", -12, 12)
    step = Decimal(1).scaleb(-places)
    return plain((exact(value) / step).to_integral_value(ROUND_HALF_UP) * step)


def _known_currency(currency: Json) -> str:
    if not isinstance(currency, str) or not is_currency(currency):
        raise EvaluationError(f"{shown(currency)} is not a currency: write three capital letters, such as JPY")
    return currency


def _money(at: Frame, value: Json, currency: Json) -> Json:
    """The number as an amount of that currency."""
    currency = _known_currency(currency)
    if is_money(value) and value["currency"] != currency:
        raise EvaluationError(f"{as_text(value)} is not {currency}: nothing is exchanged here")
    return value if is_money(value) else {"value": _number(at, value), "currency": currency}


# --- dates ---------------------------------------------------------------------------------------------------------


def _add_days(at: Frame, value: Json, days: Json) -> Json:
    return dates.days_later(value, needs_whole(days, "add_days", -4_000_000, 4_000_000), at.zone)


def _add_months(at: Frame, value: Json, months: Json) -> Json:
    return dates.months_later(value, needs_whole(months, "add_months", -120_000, 120_000), at.zone)


def _add_business_days(at: Frame, value: Json, days: Json) -> Json:
    """A date; 0 gives the day itself or the next business day."""
    amount = needs_whole(days, "add_business_days", -2_600, 2_600)
    start = date.fromisoformat(dates.date_text(value, at.zone))
    try:
        return business_day(start, amount, at.calendar or Calendar(zone=at.zone)).isoformat()
    except (ValueError, OverflowError) as error:
        raise EvaluationError(f"{amount} business days from {shown(value)}: there is no such day") from error


def _known_pattern(pattern: Json, language: Json = "en") -> list[str]:
    return dates.pattern_words(needs_text(pattern, "format_date"), needs_text(language, "format_date"))


def _format_date(at: Frame, value: Json, pattern: Json, language: Json = "en") -> Json:
    return dates.format_date(value, _known_pattern(pattern, language), at.zone, language)


def _in_zone(at: Frame, value: Json, zone: Json) -> Json:
    return dates.in_zone(value, at.zone, needs_text(zone, "in_zone"))


FUNCTIONS: dict[str, Function] = {
    one.name: one
    for one in (
        _function("default", "any", lambda at, value, otherwise: otherwise if value is None else value),
        _function("given", "yes_no", lambda at, value: value is not None),
        _function("upper", "text", lambda at, value: bounded_text(needs_text(value, "upper").upper())),
        _function("lower", "text", lambda at, value: bounded_text(needs_text(value, "lower").lower())),
        _function("trim", "text", lambda at, value: needs_text(value, "trim").strip()),
        _function("replace", "text", _replace),
        _function("split", "list", _split),
        _function("contains", "yes_no", _contains),
        _function("starts_with", "yes_no", _starts_with),
        _function("ends_with", "yes_no", _ends_with),
        _function("truncate", "text", _truncate),
        _function("one_line", "text", lambda at, value: " ".join(needs_text(value, "one_line").split())),
        _function("length", "number", _length),
        _function("first", "any", _end_of("first", 0)),
        _function("last", "any", _end_of("last", -1)),
        _function("join", "text", _join),
        _function("sum", "any", _sum),
        _function("min", "any", _extreme("min", less), most=20),
        _function("max", "any", _extreme("max", lambda one, other: less(other, one)), most=20),
        _function("sort", "list", _sort),
        _function("unique", "list", _unique),
        _function("where", "list", _where),
        _function("pick", "list", _pick),
        _function("under", "list", _under),
        _function("with", "any", _with),
        _function("number", "number", _number),
        _function("round", "any", _round),
        _function("money", "money", _money, check=_known_currency),
        _function("now", "datetime", lambda at: dates.moment_text(at.now, at.zone)),
        _function("today", "date", lambda at: dates.moment_text(at.now, at.zone)[:10]),
        _function("date", "date", lambda at, value: dates.date_text(value, at.zone)),
        _function("time", "time", lambda at, value: dates.time_text(value, at.zone)),
        _function("add_days", "any", _add_days),
        _function("add_months", "any", _add_months),
        _function("add_business_days", "date", _add_business_days),
        _function("format_date", "text", _format_date, check=_known_pattern),
        _function("in_zone", "datetime", _in_zone, check=lambda zone: dates.zone_of(needs_text(zone, "in_zone"))),
        _function("days_between", "number", lambda at, start, end: dates.days_between(start, end, at.zone)),
        _function(
            "json", "text", lambda at, value: bounded_text(json.dumps(value, ensure_ascii=False, allow_nan=False))
        ),
        _function("hash", "text", lambda at, value: digest(value)),
    )
}
