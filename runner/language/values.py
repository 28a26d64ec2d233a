"""Values of the flow language: their kinds, how they are counted, compared and printed.

Everything an expression touches is JSON: text, number, yes/no, list, record, nothing. Two kinds are conventions on top:
money is the record `{"value": 12000, "currency": "JPY"}`, a date or time is its ISO text. Counting is decimal, so that
0.1 + 0.2 is 0.3. Nothing is guessed: text never becomes a number, and kinds that do not fit raise `EvaluationError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import ROUND_FLOOR, Context, Decimal, DecimalException
from typing import Literal

from runner.contract import Json
from runner.errors import EvaluationError

Kind = Literal["nothing", "text", "number", "yes_no", "list", "record", "money"]

LONGEST_TEXT = 1_000_000
"""Characters one expression may yield."""
LONGEST_LIST = 100_000
"""Items a list made by an expression may have."""
LARGEST_NUMBER = 10**30
"""No result of counting may be larger, on either side of zero."""
LARGEST_POWER = 100

KIND_WORDS: Mapping[str, str] = {
    "nothing": "nothing",
    "text": "a text",
    "number": "a number",
    "yes_no": "a yes or no",
    "list": "a list",
    "record": "a record",
    "money": "an amount of money",
}

_AMOUNTS = ("number", "money")
_COUNTING = Context(prec=60)
_SMALL = 10**15
_CURRENCY = re.compile(r"[A-Z]{3}")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})"
)
_WITHOUT_CENTS = frozenset("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF".split())
_WITH_MILLS = frozenset("BHD IQD JOD KWD LYD OMR TND".split())


class NoValue(EvaluationError):
    """A value is missing: the one error that `default()` and `given()` answer."""


def kind_of(value: Json) -> Kind:
    """Which kind a value is."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "yes_no"
    if isinstance(value, (int, float)):
        return "number"
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "money" if is_money(value) else "record"
    if isinstance(value, (list, tuple)):
        return "list"
    raise EvaluationError(f"a value of the kind {type(value).__name__} cannot stand in a flow")


def is_number(value: Json) -> bool:
    """A number, and not a yes or no."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_money(value: Json) -> bool:
    """A record of exactly `value` (a number) and `currency` (three capital letters)."""
    if not isinstance(value, Mapping) or len(value) != 2:
        return False
    currency = value.get("currency")
    return isinstance(currency, str) and is_currency(currency) and is_number(value.get("value"))


def is_currency(text: str) -> bool:
    """Three capital letters."""
    return _CURRENCY.fullmatch(text) is not None


def shown(value: Json) -> str:
    """A value as an error quotes it: its kind, and a short text or number itself."""
    kind = kind_of(value)
    if kind == "text":
        return f'the text "{value if len(value) <= 40 else value[:39] + "…"}"'
    if kind in ("number", "yes_no", "money"):
        return as_text(value)
    return KIND_WORDS[kind]


# --- printing ------------------------------------------------------------------------------------------------------


def as_text(value: Json) -> str:
    """The value inside a sentence: numbers without an exponent, `yes`/`no`, `12,000 JPY`.

    Nothing, lists and records raise: None never becomes a word, and how a list reads is for the author to say.
    """
    if isinstance(value, str):
        return value
    kind = kind_of(value)
    if kind == "number":
        return number_text(value)
    if kind == "yes_no":
        return "yes" if value else "no"
    if kind == "money":
        return money_text(value)
    if kind == "nothing":
        raise NoValue("nothing cannot stand inside a text")
    raise EvaluationError(f"{KIND_WORDS[kind]} cannot stand inside a text: use join or json")


def number_text(value: int | float) -> str:
    """`1200`, `59.97`: no exponent, no grouping, no zeros behind the point that say nothing."""
    if isinstance(value, int):
        return str(value)
    written = format(exact(value), "f")
    return written.rstrip("0").removesuffix(".") if "." in written else written


def money_text(value: Mapping[str, Json]) -> str:
    """`12,000 JPY`, `1,234.50 USD`: a whole amount without decimals, else at least the currency's own."""
    amount, currency = exact(value["value"]), value["currency"]
    if amount == amount.to_integral_value():
        return f"{int(amount):,} {currency}"
    wanted = max(currency_digits(currency), decimals(amount))
    return f"{amount:,.{wanted}f} {currency}"


def currency_digits(currency: str) -> int:
    """How many decimals the currency has: JPY 0, KWD 3, most 2."""
    if currency in _WITHOUT_CENTS:
        return 0
    return 3 if currency in _WITH_MILLS else 2


def decimals(amount: Decimal) -> int:
    """How many digits stand behind the point."""
    exponent = amount.as_tuple().exponent
    return -exponent if isinstance(exponent, int) and exponent < 0 else 0


# --- counting ------------------------------------------------------------------------------------------------------


def exact(value: int | float) -> Decimal:
    """The decimal that a person reads in the number: 0.1 is a tenth."""
    if isinstance(value, int):
        return Decimal(value)
    return Decimal(repr(value))


def plain(amount: Decimal) -> int | float:
    """Back to JSON: whole results are whole numbers. Raises past the largest number."""
    if not amount.is_finite() or abs(amount) > LARGEST_NUMBER:
        raise EvaluationError("the result is too large a number")
    whole = amount.to_integral_value()
    return int(whole) if whole == amount else float(amount)


def read_number(text: str) -> int | float:
    """The number in a text: digits, an optional sign and one point. Raises ValueError with a sentence."""
    trimmed = text.strip()
    if not _NUMBER.fullmatch(trimmed):
        hint = ", write it without separators" if _NUMBER.fullmatch(trimmed.replace(",", "")) else ""
        raise ValueError(f"{shown(text)} is not a number{hint}")
    amount = Decimal(trimmed)
    if abs(amount) > LARGEST_NUMBER:
        raise ValueError(f"{shown(text)} is too large a number")
    number = int(amount) if amount == amount.to_integral_value() else float(amount)
    if exact(number) != amount:
        raise ValueError(f"{shown(text)} has more digits than a number can keep")
    return number


def count(sign: str, left: Json, right: Json) -> Json:
    """`left sign right` for the signs + - * / // % **, on numbers and money."""
    if type(left) is int and type(right) is int and -_SMALL < left < _SMALL and -_SMALL < right < _SMALL:
        quick = _QUICK.get(sign)
        if quick is not None:
            return quick(left, right)
    if is_number(left) and is_number(right):
        return plain(_decimal(sign, exact(left), exact(right)))
    if is_money(left) or is_money(right):
        return _count_money(sign, left, right)
    wrong = right if is_number(left) else left
    more = ": put texts together with join or in one text" if isinstance(wrong, str) else ""
    raise EvaluationError(f'"{sign}" counts with numbers, not with {shown(wrong)}{more}')


def _decimal(sign: str, left: Decimal, right: Decimal) -> Decimal:
    try:
        return _SIGNS[sign](left, right)
    except DecimalException as error:
        if sign in ("/", "//", "%") and right == 0:
            raise EvaluationError("a number cannot be divided by zero") from error
        raise EvaluationError(f'"{sign}" has no answer for these numbers') from error


def _power(left: Decimal, right: Decimal) -> Decimal:
    if right != right.to_integral_value() or abs(right) > LARGEST_POWER:
        raise EvaluationError(f"a power must be a whole number up to {LARGEST_POWER}")
    if left == 0 and right < 0:
        raise EvaluationError("a number cannot be divided by zero")
    return _COUNTING.power(left, right)


def _floor(left: Decimal, right: Decimal) -> Decimal:
    return _COUNTING.divide(left, right).to_integral_value(ROUND_FLOOR)


_QUICK: Mapping[str, Callable[[int, int], int]] = {
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
}
_SIGNS: Mapping[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": _COUNTING.add,
    "-": _COUNTING.subtract,
    "*": _COUNTING.multiply,
    "/": _COUNTING.divide,
    "//": _floor,
    "%": lambda left, right: _COUNTING.subtract(left, _COUNTING.multiply(right, _floor(left, right))),
    "**": _power,
}


def _count_money(sign: str, left: Json, right: Json) -> Json:
    if is_money(left) and is_money(right):
        _same_currency(left, right)
        result = plain(_decimal(sign, exact(left["value"]), exact(right["value"]))) if sign in "+-/" else None
        if result is not None:
            return result if sign == "/" else {"value": result, "currency": left["currency"]}
    elif sign == "*" and (is_number(left) or is_number(right)):
        money, factor = (left, right) if is_money(left) else (right, left)
        return {"value": plain(_decimal("*", exact(money["value"]), exact(factor))), "currency": money["currency"]}
    elif sign == "/" and is_number(right):
        return {"value": plain(_decimal("/", exact(left["value"]), exact(right))), "currency": left["currency"]}
    elif sign in "+-" and (is_number(left) or is_number(right)):
        currency = (left if is_money(left) else right)["currency"]
        raise EvaluationError(f'"{sign}" needs money on both sides: write the number as 100 | money("{currency}")')
    raise EvaluationError(f'"{sign}" cannot be used between {shown(left)} and {shown(right)}')


def _same_currency(left: Mapping[str, Json], right: Mapping[str, Json]) -> None:
    if left["currency"] != right["currency"]:
        raise EvaluationError(f"{money_text(left)} and {money_text(right)} are different currencies")


# --- comparing -----------------------------------------------------------------------------------------------------


def equal(left: Json, right: Json) -> bool:
    """Whether two values of one kind are the same. Other kinds raise: text never equals a number."""
    one, other = kind_of(left), kind_of(right)
    if one in _AMOUNTS and other in _AMOUNTS:
        first, second = _amount_pair(left, right)
        return first == second
    if one != other:
        raise EvaluationError(_unlike(left, right))
    if left == right or one != "text":
        return bool(left == right)
    moments = _moments(left, right)
    return moments is not None and moments[0] == moments[1]


def less(left: Json, right: Json) -> bool:
    """Whether `left` comes before `right`: numbers, money, dates and times, other texts by their letters."""
    one, other = kind_of(left), kind_of(right)
    if one in _AMOUNTS and other in _AMOUNTS:
        first, second = _amount_pair(left, right)
        return first < second
    if one != other:
        raise EvaluationError(_unlike(left, right))
    if one != "text":
        raise EvaluationError(f"{KIND_WORDS[one]} has no order")
    if _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right):
        raise EvaluationError(f"{shown(left)} and {shown(right)} are texts: compare them as numbers with | number")
    moments = _moments(left, right)
    return bool(left < right) if moments is None else moments[0] < moments[1]


def among(item: Json, holder: Json) -> bool:
    """`item in holder`: an item of a list, or a part of a text."""
    if isinstance(holder, str):
        if not isinstance(item, str):
            raise EvaluationError(f"only a text can be in a text, not {shown(item)}")
        return item in holder
    if kind_of(holder) != "list":
        raise EvaluationError(f'"in" looks into a list or a text, not into {shown(holder)}')
    kind = kind_of(item)
    alike = [other for other in holder if kind_of(other) in (_AMOUNTS if kind in _AMOUNTS else (kind,))]
    if holder and not alike:
        raise EvaluationError(_unlike(item, holder[0]))
    return any(equal(item, other) for other in alike)


def _amount_pair(left: Json, right: Json) -> tuple[int | float, int | float]:
    if is_money(left) and is_money(right):
        _same_currency(left, right)
    return (left["value"] if is_money(left) else left, right["value"] if is_money(right) else right)


def _moments(left: str, right: str) -> tuple[datetime, datetime] | None:
    """Both as moments, where both are one; None for other texts."""
    if not (_MOMENT.fullmatch(left) and _MOMENT.fullmatch(right)):
        return None
    try:
        return datetime.fromisoformat(left), datetime.fromisoformat(right)
    except ValueError:
        return None


def _unlike(left: Json, right: Json) -> str:
    kinds = {kind_of(left), kind_of(right)}
    hint = ": turn the text into a number with | number" if kinds == {"text", "number"} else ""
    if kinds == {"text", "yes_no"}:
        hint = ": a yes or no is compared with true or false, without quotes"
    return f"{shown(left)} cannot be compared with {shown(right)}{hint}"
