"""Reading: a checked tree becomes a function of a `Frame`, one small function for each part.

A part without an entry in `_READERS` cannot be evaluated. Only records and lists are looked into; a Python attribute is
never read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import nodes

from runner.contract import Json
from runner.errors import EvaluationError
from runner.language.calendar import Calendar
from runner.language.functions import FUNCTIONS, Moment
from runner.language.nearest import nearest
from runner.language.values import NoValue, among, count, equal, less, negate, shown

Key = str | int
Read = Callable[["Frame"], Json]


class Frame:
    """What one evaluation reads: the names in reach and the moment."""

    __slots__ = ("_at", "_calendar", "_now", "_zone", "scope")

    def __init__(self, scope: Mapping[str, Json], now: int, zone: str, calendar: Calendar | None = None) -> None:
        self.scope = scope
        self._now, self._zone, self._calendar = now, zone, calendar
        self._at: Moment | None = None

    @property
    def at(self) -> Moment:
        if self._at is None:
            self._at = Moment(now=self._now, zone=self._zone, calendar=self._calendar)
        return self._at

    def within(self, name: str, value: Json) -> Frame:
        """The same moment with one more name in reach."""
        return Frame({**self.scope, name: value}, self._now, self._zone, self._calendar)


def reader(part: nodes.Node) -> Read:
    """The part as a function. Only for trees in which no fault was found."""
    make = _READERS.get(type(part))
    if make is None:
        raise EvaluationError("this construct is not in the language")
    return make(part)


def path_of(part: nodes.Node) -> tuple[Key, ...] | None:
    """The keys of a plain path (`steps.plan.rows[0]`), or None for anything else."""
    keys: list[Key] = []
    while True:
        if isinstance(part, nodes.Name):
            return (part.name, *reversed(keys))
        key = key_of(part)
        if key is None:
            return None
        keys.append(key)
        part = part.node  # type: ignore[attr-defined]


def key_of(part: nodes.Node) -> Key | None:
    """The key that a `.name`, `["name"]` or `[0]` reads, or None."""
    if isinstance(part, nodes.Getattr):
        return part.attr
    if isinstance(part, nodes.Getitem) and isinstance(part.arg, nodes.Const):
        key = part.arg.value
        return key if isinstance(key, (str, int)) and not isinstance(key, bool) else None
    return None


def path_text(keys: tuple[Key, ...]) -> str:
    """The path as the author writes it."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)[1:]


# --- names and keys ------------------------------------------------------------------------------------------------


def _read_path(keys: tuple[Key, ...]) -> Read:
    def read(frame: Frame) -> Json:
        value: Json = frame.scope
        for key in keys:
            is_record = type(value) is dict and type(key) is str
            value = value.get(key) if is_record else _step(value, key, keys)
            if value is None:
                raise _missing(frame.scope, keys)
        return value

    return read


def _step(value: Json, key: Json, keys: tuple[Key, ...] = ()) -> Json:
    """The value of a key in a record, or of a place in a list; None where there is none."""
    if isinstance(key, str):
        if isinstance(value, Mapping):
            return value.get(key)
        where = f"{path_text(keys[: keys.index(key)])} is" if key in keys[1:] else "it is"
        more = ": use pick for that field of each item" if isinstance(value, list) else ""
        raise EvaluationError(f'{where} {shown(value)} and has no "{key}"{more}')
    if isinstance(key, int) and not isinstance(key, bool):
        if isinstance(value, (list, tuple)):
            return value[key] if -len(value) <= key < len(value) else None
        raise EvaluationError(f"[{key}] takes an item of a list, not of {shown(value)}")
    raise EvaluationError(f"{shown(key)} is not a key: a key is a text or a whole number")


def _missing(scope: Mapping[str, Json], keys: tuple[Key, ...]) -> NoValue:
    value: Json = scope
    for place, key in enumerate(keys):
        inner = _step(value, key, keys)
        if inner is not None:
            value = inner
            continue
        near = _near(value, key)
        hint = f', did you mean "{near}"?' if near else ""
        path = path_text(keys)
        reached = path_text(keys[: place + 1])
        because = f" ({reached} has none)" if reached != path else ""
        return NoValue(f"{path} has no value{because}{hint}")
    return NoValue(f"{path_text(keys)} has no value")


def _near(value: Json, key: Key) -> str:
    if not isinstance(value, Mapping) or not isinstance(key, str) or key in value:
        return ""
    return nearest(key, [name for name in value if isinstance(name, str)])


def _read_key(part: nodes.Getattr | nodes.Getitem) -> Read:
    keys = path_of(part)
    if keys is not None:
        return _read_path(keys)
    holder = reader(part.node)
    if isinstance(part, nodes.Getattr):
        attr = part.attr
        return lambda frame: _found(_step(holder(frame), attr), attr)
    key = reader(part.arg)

    def read(frame: Frame) -> Json:
        wanted = key(frame)
        return _found(_step(holder(frame), wanted), wanted)

    return read


def _found(value: Json, key: Json) -> Json:
    if value is None:
        raise NoValue(f"there is no item [{key}]" if isinstance(key, int) else f'"{key}" has no value')
    return value


def _read_name(part: nodes.Name) -> Read:
    return _read_path((part.name,))


def _read_const(part: nodes.Const) -> Read:
    value = part.value
    return lambda frame: value


def _read_list(part: nodes.List) -> Read:
    items = [reader(item) for item in part.items]
    return lambda frame: [item(frame) for item in items]


# --- counting, comparing, deciding ---------------------------------------------------------------------------------


def _read_arithmetic(part: nodes.BinExpr) -> Read:
    sign, left, right = part.operator, reader(part.left), reader(part.right)
    return lambda frame: count(sign, left(frame), right(frame))


def _read_negative(part: nodes.Neg) -> Read:
    inner = reader(part.node)
    return lambda frame: negate(inner(frame))


def _read_positive(part: nodes.Pos) -> Read:
    inner = reader(part.node)
    return lambda frame: count("*", inner(frame), 1)


_COMPARISONS: Mapping[str, Callable[[Json, Json], bool]] = {
    "eq": equal,
    "ne": lambda left, right: not equal(left, right),
    "lt": less,
    "gt": lambda left, right: less(right, left),
    "lteq": lambda left, right: not less(right, left),
    "gteq": lambda left, right: not less(left, right),
    "in": among,
    "notin": lambda left, right: not among(left, right),
}


def _read_compare(part: nodes.Compare) -> Read:
    start = reader(part.expr)
    tests = [(_COMPARISONS[operand.op], reader(operand.expr)) for operand in part.ops]
    if len(tests) == 1:
        test, other = tests[0]
        return lambda frame: test(start(frame), other(frame))

    def read(frame: Frame) -> bool:
        left = start(frame)
        for test, other in tests:
            right = other(frame)
            if not test(left, right):
                return False
            left = right
        return True

    return read


def _decided(value: Json) -> bool:
    if isinstance(value, bool):
        return value
    raise EvaluationError(
        f'"and", "or", "not" and "if" need a yes or no, not {shown(value)}: compare it with something'
    )


def _read_and(part: nodes.And) -> Read:
    left, right = reader(part.left), reader(part.right)
    return lambda frame: _decided(left(frame)) and _decided(right(frame))


def _read_or(part: nodes.Or) -> Read:
    left, right = reader(part.left), reader(part.right)
    return lambda frame: _decided(left(frame)) or _decided(right(frame))


def _read_not(part: nodes.Not) -> Read:
    inner = reader(part.node)
    return lambda frame: not _decided(inner(frame))


def _read_choice(part: nodes.CondExpr) -> Read:
    if part.expr2 is None:
        raise EvaluationError('"if" needs an "else"')
    test, one, other = reader(part.test), reader(part.expr1), reader(part.expr2)
    return lambda frame: one(frame) if _decided(test(frame)) else other(frame)


# --- functions -----------------------------------------------------------------------------------------------------


def _read_filter(part: nodes.Filter) -> Read:
    if part.node is None:
        raise EvaluationError("this construct is not in the language")
    return _read_use(part.name, [part.node, *part.args])


def _read_call(part: nodes.Call) -> Read:
    if not isinstance(part.node, nodes.Name):
        raise EvaluationError("only a function of the language can be called")
    return _read_use(part.node.name, part.args)


def _read_use(name: str, values: list[nodes.Expr]) -> Read:
    if name == "default":
        return _read_default(reader(values[0]), reader(values[1]))
    if name == "given":
        return _read_given(reader(values[0]))
    call, reads = FUNCTIONS[name].call, [reader(value) for value in values]
    if len(reads) == 1:
        only = reads[0]
        return lambda frame: call(frame.at, only(frame))
    return lambda frame: call(frame.at, *[read(frame) for read in reads])


def _read_default(value: Read, otherwise: Read) -> Read:
    def read(frame: Frame) -> Json:
        try:
            found = value(frame)
        except NoValue:
            found = None
        return otherwise(frame) if found is None else found

    return read


def _read_given(value: Read) -> Read:
    def read(frame: Frame) -> bool:
        try:
            return value(frame) is not None
        except NoValue:
            return False

    return read


_READERS: Mapping[type[nodes.Node], Callable[[Any], Read]] = {
    nodes.Name: _read_name,
    nodes.Getattr: _read_key,
    nodes.Getitem: _read_key,
    nodes.Const: _read_const,
    nodes.List: _read_list,
    nodes.Add: _read_arithmetic,
    nodes.Sub: _read_arithmetic,
    nodes.Mul: _read_arithmetic,
    nodes.Div: _read_arithmetic,
    nodes.FloorDiv: _read_arithmetic,
    nodes.Mod: _read_arithmetic,
    nodes.Pow: _read_arithmetic,
    nodes.Neg: _read_negative,
    nodes.Pos: _read_positive,
    nodes.Compare: _read_compare,
    nodes.And: _read_and,
    nodes.Or: _read_or,
    nodes.Not: _read_not,
    nodes.CondExpr: _read_choice,
    nodes.Filter: _read_filter,
    nodes.Call: _read_call,
}
