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
from runner.language.functions import FUNCTIONS, Frame
from runner.language.nearest import nearest
from runner.language.values import NoValue, among, count, equal, less, shown

Key = str | int
Read = Callable[[Frame], Json]


def reader(part: nodes.Node) -> Read:
    """The part as a function. Only for trees in which no fault was found."""
    make = _READERS.get(type(part))
    if make is None:
        raise EvaluationError("this construct is not in the language")
    return make(part)


def path_of(part: nodes.Node) -> tuple[Key, ...] | None:
    """The keys of a plain path (`steps.plan.rows[0]`), or None for anything else."""
    keys: list[Key] = []
    while not isinstance(part, nodes.Name):
        key = key_of(part)
        if key is None:
            return None
        keys.append(key)
        part = part.node  # type: ignore[attr-defined]
    return (part.name, *reversed(keys))


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


def _read_path(keys: tuple[Key, ...], *, is_needed: bool = True) -> Read:
    def read(frame: Frame) -> Json:
        value: Json = frame.scope
        for key in keys:
            is_record = type(value) is dict and type(key) is str
            value = value.get(key) if is_record else _step(value, key, keys)
            if value is None:
                if is_needed:
                    raise _missing(frame.scope, keys)
                return None
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
        if inner is None:
            is_unknown = isinstance(value, Mapping) and isinstance(key, str) and key not in value
            near = nearest(str(key), filter(_is_text, value)) if is_unknown else ""
            because = f" ({path_text(keys[: place + 1])} has none)" if place + 1 < len(keys) else ""
            return NoValue(f"{path_text(keys)} has no value{because}" + (f', did you mean "{near}"?' if near else ""))
        value = inner
    return NoValue(f"{path_text(keys)} has no value")


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _read_key(part: nodes.Name | nodes.Getattr | nodes.Getitem) -> Read:
    keys = path_of(part)
    if keys is not None or isinstance(part, nodes.Name):
        return _read_path(keys or ())
    holder = reader(part.node)
    key = _read_value(part.attr) if isinstance(part, nodes.Getattr) else reader(part.arg)

    def read(frame: Frame) -> Json:
        wanted = key(frame)
        value = _step(holder(frame), wanted)
        if value is None:
            raise NoValue(f"there is no item [{wanted}]" if isinstance(wanted, int) else f'"{wanted}" has no value')
        return value

    return read


def _read_value(value: Json) -> Read:
    return lambda frame: value


def _read_list(part: nodes.List) -> Read:
    items = [reader(item) for item in part.items]
    return lambda frame: [item(frame) for item in items]


# --- counting, comparing, deciding ---------------------------------------------------------------------------------


def _read_arithmetic(part: nodes.BinExpr) -> Read:
    sign, left, right = part.operator, reader(part.left), reader(part.right)
    return lambda frame: count(sign, left(frame), right(frame))


def _read_sign(part: nodes.Neg | nodes.Pos) -> Read:
    inner, sign = reader(part.node), -1 if isinstance(part, nodes.Neg) else 1
    return lambda frame: count("*", inner(frame), sign)


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


def _read_both(part: nodes.And | nodes.Or) -> Read:
    left, right = reader(part.left), reader(part.right)
    if isinstance(part, nodes.And):
        return lambda frame: _decided(left(frame)) and _decided(right(frame))
    return lambda frame: _decided(left(frame)) or _decided(right(frame))


def _read_not(part: nodes.Not) -> Read:
    inner = reader(part.node)
    return lambda frame: not _decided(inner(frame))


def _read_choice(part: nodes.CondExpr) -> Read:
    test, one, other = reader(part.test), reader(part.expr1), reader(part.expr2 or part.expr1)
    return lambda frame: one(frame) if _decided(test(frame)) else other(frame)


# --- functions -----------------------------------------------------------------------------------------------------


def use_of(part: nodes.Node) -> tuple[str, list[nodes.Expr]] | None:
    """(name, values) of a filter or a function call, the value before `|` included; None for anything else."""
    if isinstance(part, nodes.Filter) and part.node is not None:
        return part.name, [part.node, *part.args]
    if isinstance(part, nodes.Call) and isinstance(part.node, nodes.Name):
        return part.node.name, list(part.args)
    return None


def _read_use(part: nodes.Filter | nodes.Call) -> Read:
    name, values = use_of(part) or ("", [])
    if name in ("default", "given"):
        value = _read_perhaps(values[0])
        if name == "given":
            return lambda frame: value(frame) is not None
        otherwise = reader(values[1])
        return lambda frame: otherwise(frame) if (found := value(frame)) is None else found
    call, reads = FUNCTIONS[name].call, [reader(one) for one in values]
    if len(reads) == 1:
        only = reads[0]
        return lambda frame: call(frame, only(frame))
    return lambda frame: call(frame, *[read(frame) for read in reads])


def _read_perhaps(part: nodes.Expr) -> Read:
    """The value, or None where there is none."""
    keys = path_of(part)
    if keys is not None:
        return _read_path(keys, is_needed=False)
    value = reader(part)

    def read(frame: Frame) -> Json:
        try:
            return value(frame)
        except NoValue:
            return None

    return read


ARITHMETIC = (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow)
_READERS: Mapping[type[nodes.Node], Callable[[Any], Read]] = {
    nodes.Name: _read_key,
    nodes.Getattr: _read_key,
    nodes.Getitem: _read_key,
    nodes.Const: lambda part: _read_value(part.value),
    nodes.List: _read_list,
    **dict.fromkeys(ARITHMETIC, _read_arithmetic),
    nodes.Neg: _read_sign,
    nodes.Pos: _read_sign,
    nodes.Compare: _read_compare,
    nodes.And: _read_both,
    nodes.Or: _read_both,
    nodes.Not: _read_not,
    nodes.CondExpr: _read_choice,
    nodes.Filter: _read_use,
    nodes.Call: _read_use,
}
