"""Input types: from what somebody gave to values that can be trusted.

`fields` reads what the author wrote as a type; here a value is read as one; `schemas` reads all inputs of a run with
it. The text of a form or terminal becomes the value (numbers, money, switches, dates). With `strict`, as for what one
program hands another, a text stays a text. Every refusal is a ValueError whose sentence can follow the field's name.
A text stays exactly the characters written.
"""

# ruff: noqa: TRY004 (a wrong kind in what somebody wrote is a wrong value)
from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from types import ModuleType
from urllib.parse import urlsplit

import email_validator

from runner.contract import Json
from runner.errors import EvaluationError
from runner.language import dates
from runner.language.fields import FieldType, field_type, field_types
from runner.language.nearest import did_you_mean
from runner.language.values import (
    LARGEST_NUMBER,
    currency_digits,
    decimals,
    exact,
    is_currency,
    is_money,
    is_number,
    kind_of,
    number_text,
    read_number,
    shown,
)

__all__ = ["FieldType", "check_fields", "email_address", "field_type", "is_web_address", "sample"]

MISSING = "is required and has no value"
MONEY_WRITTEN = "write { value: 12000, currency: JPY }, or a bare number where the type is { money: JPY }"

_MONEY = re.compile(r"([+-]?[0-9][0-9,]*(?:\.[0-9]+)?) ?([A-Z]{3})?")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")
_PHONE = re.compile(r"\+?[0-9(][0-9 ()./-]{3,24}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_HOST = re.compile(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]")
_YES, _NO = ("true", "yes"), ("false", "no")
_BREAKS = re.compile(r"[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def is_missing(field: FieldType, value: Json) -> bool:
    """Nothing, or the empty text that a form sends for a field left empty."""
    return value is None or (isinstance(value, str) and not value.strip() and (field.optional or field.kind != "text"))


def read_entry(field: FieldType, value: Json, *, zone: str = "UTC", strict: bool = False) -> Json:
    """The value as its type. Raises ValueError with a sentence. Missing values are the caller's matter."""
    way = WAYS[field.kind]
    if strict and not takes(field, kind_of(value)):
        more = f": {MONEY_WRITTEN}" if field.kind == "money" else ""
        raise ValueError(f"must be {way.called}, not {shown(value)}{more}")
    return way.read(field, value, zone, strict)


def takes(field: FieldType, kind: str) -> bool:
    """Whether a value of this kind is taken as it is. A bare number is money where the type names the currency."""
    kinds = WAYS[field.kind].kinds
    return not kinds or kind in kinds or (kind == "number" and bool(field.currency))


def read_money(field: FieldType, value: Json, *, strict: bool = False) -> Json:
    """The value with the money in it, at any depth, read as money; the rest stays as it is. Raises ValueError."""
    if field.kind == "money" and value is not None:
        return read_entry(field, value, strict=strict)
    if field.items is not None and isinstance(value, list | tuple):
        return [read_money(field.items, item, strict=strict) for item in value]
    if field.fields is not None and isinstance(value, Mapping):
        amounts = {name: read_money(kind, value.get(name), strict=strict) for name, kind in field.fields.items()}
        return {name: amounts.get(name, one) for name, one in value.items()}
    return value


_PLAIN: Mapping[str, type] = {"text": str, "integer": int, "number": int, "yes_no": bool}


def is_plain(field: FieldType, value: Json) -> bool:
    """Whether a strict reading gives the value itself, as its Python type alone says: so it is with most values."""
    if value.__class__ is not _PLAIN.get(field.kind) or field.least is not None or field.most is not None:
        return False
    return value.__class__ is not int or -LARGEST_NUMBER <= value <= LARGEST_NUMBER


def read_entries(
    fields: Mapping[str, FieldType], given: Mapping[str, Json], *, zone: str = "UTC", strict: bool = False
) -> tuple[dict[str, Json], dict[str, str]]:
    """(values by name, one sentence by the name of each field that does not fit). A missing optional is None."""
    found: dict[str, Json] = {}
    wrong: dict[str, str] = {}
    for name, field in fields.items():
        value = given.get(name)
        if is_missing(field, value) and not (strict and isinstance(value, str) and field.kind == "text"):
            value = field.default
        try:
            found[name] = None if value is None else read_entry(field, value, zone=zone, strict=strict)
            if value is None and not field.optional:
                wrong[name] = MISSING
        except ValueError as error:
            wrong[name] = str(error)
    for name in given:
        if name not in fields:
            wrong[str(name)] = no_such_field(str(name), fields)
    return found, wrong


def no_such_field(name: str, fields: Mapping[str, Json]) -> str:
    """The sentence about a name that is not among the fields."""
    return f"there is no such field, {did_you_mean(name, fields, 'there are') or 'there are none'}"


# --- one kind each -------------------------------------------------------------------------------------------------


def _text(field: FieldType, value: Json, zone: str, strict: bool) -> Json:
    value = needs_text(value, "a text")
    if not value.strip() and not strict:
        raise ValueError("must not be empty")
    if field.least is not None and len(value) < field.least:
        raise ValueError(f"has {len(value)} characters, it needs at least {number_text(field.least)}")
    if field.most is not None and len(value) > field.most:
        raise ValueError(f"has {len(value)} characters, at most {number_text(field.most)} are allowed")
    return value


def _number(field: FieldType, value: Json, zone: str, strict: bool) -> Json:
    number = read_number(value) if isinstance(value, str) else value
    if not is_number(number):
        raise ValueError(f"must be a number, not {shown(value)}")
    if not math.isfinite(number) or abs(number) > LARGEST_NUMBER:
        raise ValueError("is too large a number")
    if field.least is not None and number < field.least:
        raise ValueError(f"must be at least {number_text(field.least)}, not {number_text(number)}")
    if field.most is not None and number > field.most:
        raise ValueError(f"must be at most {number_text(field.most)}, not {number_text(number)}")
    return number


def _integer(field: FieldType, value: Json, zone: str, strict: bool) -> Json:
    number = _number(field, value, zone, strict)
    if number != int(number):
        raise ValueError(f"must be a whole number, not {number_text(number)}")
    return int(number)


def _money(field: FieldType, value: Json, zone: str, strict: bool) -> Json:
    amount, currency = _money_parts(value)
    wanted = field.currency or currency
    if not wanted:
        raise ValueError(f"{shown(value)} has no currency: write it as 12,000 JPY")
    if currency and currency != wanted:
        raise ValueError(f"must be in {wanted}, not in {currency}")
    number = _number(FieldType(kind="number"), amount, zone, strict)
    digits = currency_digits(wanted)
    if not strict and decimals(exact(number)) > digits:
        most = f"at most {digits} decimals" if digits else "no decimals"
        raise ValueError(f"{number_text(number)} {wanted} is not an amount: {wanted} has {most}")
    return {"value": number, "currency": wanted}


def _money_parts(value: Json) -> tuple[int | float, str]:
    """(amount, currency or "")."""
    if is_money(value):
        return value["value"], value["currency"]
    if is_number(value):
        return value, ""
    if isinstance(value, Mapping) and set(value) == {"value", "currency"} and isinstance(value["currency"], str):
        currency = value["currency"]
        if not is_currency(currency):
            raise ValueError(f"{shown(currency)} is not a currency: write three capital letters, such as JPY")
        return read_number(value["value"]) if isinstance(value["value"], str) else value["value"], currency
    match = _MONEY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or ("," in match[1] and not _GROUPED.fullmatch(match[1])):
        raise ValueError(f"{shown(value)} is not an amount of money: write it as 12,000 JPY")
    return read_number(match[1].replace(",", "")), match[2] or ""


def _date(field: FieldType, value: Json, zone: str, strict: bool) -> Json:
    """A date, or a moment where the field is a `datetime`."""
    try:
        when = dates.read(value, zone)
    except EvaluationError as error:
        written = "2026-09-01" if field.kind == "date" else "2026-09-01T09:00"
        sentence, sign, _ = str(error).partition(": write it as ")
        raise ValueError(f"{sentence}{sign}{written}" if sign else sentence) from error
    if field.kind == "date" and isinstance(when, datetime):
        raise ValueError(f"{shown(value)} has a time of day, a date is written as 2026-09-01")
    if field.kind == "datetime" and not isinstance(when, datetime):
        raise ValueError(f"{shown(value)} has no time of day, write it as 2026-09-01T09:00")
    return dates.text_of(when)


def _yes_no(field: FieldType, value: Json, zone: str, strict: bool) -> Json:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in _YES or word in _NO:
        return word in _YES
    raise ValueError(f"must be yes or no (true or false), not {shown(value)}")


def _phone(field: FieldType, value: Json, zone: str, strict: bool) -> Json:
    number = _line(value, "a phone number").strip()
    if not _PHONE.fullmatch(number) or not 4 <= sum(sign.isdigit() for sign in number) <= 17:
        raise ValueError(f"{shown(value)} is not a phone number: write it as +81 3 1234 5678")
    return number


def _url(field: FieldType, value: Json, zone: str, strict: bool) -> Json:
    url = _line(value, "a web address").strip()
    if not is_web_address(url):
        raise ValueError(f"{shown(value)} is not a web address: write it as https://example.test/page")
    return url


def is_web_address(text: str) -> bool:
    """http or https, a host, and nothing that a browser would read differently."""
    if not text.isascii() or not text.isprintable() or any(sign in text for sign in ' "<>\\^`{|}'):
        return False
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    host = parts.netloc.removesuffix(f":{port}") if port is not None else parts.netloc.removesuffix(":")
    return parts.scheme in ("http", "https") and _HOST.fullmatch(host) is not None


def needs_text(value: Json, what: str) -> str:
    """The value, which must be a text. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"must be {what}, not {shown(value)}")
    return value


def _line(value: Json, what: str) -> str:
    if _BREAKS.search(needs_text(value, what)):
        raise ValueError(f"must be {what} on one line, without line breaks")
    return str(value)


def _list(field: FieldType, value: Json, zone: str, strict: bool) -> Json:
    items = _from_json(value, "[", "a list") if isinstance(value, str) else value
    if kind_of(items) != "list":
        raise ValueError(f"must be a list, not {shown(value)}")
    if field.items is None:
        return list(items)
    found = []
    for place, item in enumerate(items, start=1):
        if item is None:
            raise ValueError(f"item {place} has no value")
        try:
            found.append(read_entry(field.items, item, zone=zone, strict=strict))
        except ValueError as error:
            raise ValueError(f"item {place}: {error}") from error
    return found


def _record(field: FieldType, value: Json, zone: str, strict: bool) -> Json:
    record = _from_json(value, "{", "a record") if isinstance(value, str) else value
    if not isinstance(record, Mapping):
        raise ValueError(f"must be a record, not {shown(value)}")
    if field.fields is None:
        return dict(record)
    found, wrong = read_entries(field.fields, record, zone=zone, strict=strict)
    if wrong:
        raise ValueError("; ".join(f"{name}: {what}" for name, what in wrong.items()))
    return found


def _from_json(text: str, opens: str, what: str) -> Json:
    if not text.strip().startswith(opens):
        raise ValueError(f'must be {what}, written as JSON that begins with "{opens}"')
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"must be {what}, and the JSON cannot be read") from error


def _file(field: FieldType, value: Json, zone: str, strict: bool) -> Json:
    keys = ("name", "size", "kind", "sha256")
    has_keys = isinstance(value, Mapping) and set(value) == set(keys)
    name, size, kind, sha256 = (value[key] for key in keys) if has_keys else ("", 0, "", "")
    if not isinstance(name, str) or not isinstance(kind, str) or not _SHA256.fullmatch(str(sha256)):
        raise ValueError("must be a stored file with name, size, kind and sha256")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError("must be a stored file whose size is a number of bytes")
    ending = name.rsplit(".", 1)[-1].lower() if "." in name else ""
    if field.kinds and ending not in field.endings:
        raise ValueError(f'"{name}" is not one of the kinds {", ".join(field.kinds)}')
    if field.most is not None and size > field.most:
        raise ValueError(f'"{name}" has {size:,} bytes, at most {int(field.most):,} are allowed')
    return dict(value)


def _choice(field: FieldType, value: Json, zone: str, strict: bool) -> Json:
    for choice in field.choices:
        if kind_of(choice) == kind_of(value) and choice == value:
            return choice
        if not strict and isinstance(value, str) and value.strip() == str(choice):
            return choice
    allowed = ", ".join(str(choice) for choice in field.choices)
    raise ValueError(f"must be one of {allowed}, not {shown(value)}")


# --- mail addresses ------------------------------------------------------------------------------------------------


def email_address(text: str) -> str:
    """The bare address `aya@acme.example`. Raises ValueError with a sentence; line breaks and names are refused."""
    if _CONTROL.search(text):
        raise ValueError("a mail address stands on one line, without line breaks or control signs")
    address = text.strip()
    if "<" in address or "," in address or ";" in address:
        raise ValueError(f"{shown(text)} is not one bare mail address: write it as name@example.test")
    if not address.isascii():
        raise ValueError(
            f"{shown(text)} has letters that mail servers do not carry in an address{_ascii_hint(address)}"
        )
    try:
        found = _mail_rules().validate_email(
            address, allow_smtputf8=False, globally_deliverable=False, check_deliverability=False
        )
    except email_validator.EmailNotValidError as error:
        raise ValueError(f"{shown(text)} is not a mail address: write it as name@example.test") from error
    if "." not in found.domain and found.domain != "localhost":
        raise ValueError(f"{shown(text)} has no domain behind the @: write it as name@example.test")
    if len(found.local_part) > 64:
        raise ValueError(f"{shown(text)} has more than 64 characters before the @, no mail address has")
    return address


@cache
def _mail_rules() -> ModuleType:
    """Mail inside one house goes to hosts of these names too; whether they exist is the mail server's to say."""
    own = ("local", "localhost", "test")
    kept = [name for name in email_validator.SPECIAL_USE_DOMAIN_NAMES if name not in own]
    email_validator.SPECIAL_USE_DOMAIN_NAMES[:] = kept
    return email_validator


def _ascii_hint(address: str) -> str:
    if not address.rpartition("@")[0].isascii():
        return ""
    try:
        return f": write it as {_mail_rules().validate_email(address, check_deliverability=False).ascii_email}"
    except email_validator.EmailNotValidError:
        return ""


def sample_entry(name: str, field: FieldType) -> Json:
    """A value of that type for a draft; the same each time."""
    if field.default is not None:
        return field.default
    if field.kind == "choice":
        return next(iter(field.choices))
    if field.kind == "money":
        return {"value": 1000, "currency": field.currency or "USD"}
    if field.kind == "list":
        return [sample_entry(name, field.items)] if field.items else []
    if field.kind == "record":
        return {key: sample_entry(key, inner) for key, inner in (field.fields or {}).items()}
    if field.kind in ("number", "integer"):
        return field.least if field.least is not None else field.most if (field.most or 1) < 1 else 1
    if field.kind == "text":
        text = f"draft {name}"
        return text[: int(field.most)] if field.most is not None else text.ljust(int(field.least or 0), ".")
    return WAYS[field.kind].sample


Read = Callable[[FieldType, Json, str, bool], Json]


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """How values of one kind are read: what a message calls them, which kinds are taken as they are, and a sample."""

    read: Read
    called: str
    kinds: tuple[str, ...] = ("text",)
    sample: Json = None


_SAMPLE_FILE = {"name": "draft.txt", "size": 0, "kind": "text/plain", "sha256": "0" * 64}
WAYS: dict[str, Way] = {
    "text": Way(read=_text, called="a text"),
    "number": Way(read=_number, called="a number", kinds=("number",)),
    "integer": Way(read=_integer, called="a whole number", kinds=("number",)),
    "money": Way(read=_money, called="an amount of money", kinds=("money",)),
    "date": Way(read=_date, called="a date such as 2026-09-01", sample="2026-01-01"),
    "time": Way(
        read=lambda field, value, zone, strict: dates.read_time(needs_text(value, "a time such as 09:00")),
        called="a time such as 09:00",
        sample="09:00",
    ),
    "datetime": Way(
        read=_date, called="a date and time such as 2026-09-01T09:00:00+09:00", sample="2026-01-01T09:00:00+00:00"
    ),
    "yes_no": Way(read=_yes_no, called="yes or no", kinds=("yes_no",), sample=True),
    "phone": Way(read=_phone, called="a phone number", sample="+81 3 0000 0000"),
    "url": Way(read=_url, called="a web address", sample="https://example.test/draft"),
    "list": Way(read=_list, called="a list", kinds=("list",)),
    "record": Way(read=_record, called="a record", kinds=("record", "money")),
    "file": Way(read=_file, called="a stored file", kinds=("record",), sample=_SAMPLE_FILE),
    "choice": Way(read=_choice, called="one of its choices", kinds=("text", "number")),
    "email": Way(
        read=lambda field, value, zone, strict: email_address(needs_text(value, "a mail address")),
        called="a mail address",
        sample="draft@example.test",
    ),
    "any": Way(read=lambda field, value, zone, strict: value, called="a value", kinds=(), sample="draft"),
}


# --- the door ------------------------------------------------------------------------------------------------------


def check_fields(fields: Mapping[str, Json], given: Mapping[str, Json]) -> tuple[str, ...]:
    """What is wrong with an action's input, one sentence per field; nothing is converted here."""
    _, wrong = read_entries(field_types(fields), given, strict=True)
    return tuple(f"{name}: {what}" for name, what in wrong.items())


def sample(fields: Mapping[str, Json]) -> dict[str, Json]:
    """An answer made out of output types, for drafts; the same each time."""
    return {name: sample_entry(name, field) for name, field in field_types(fields).items()}
