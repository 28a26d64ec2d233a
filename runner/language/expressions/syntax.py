"""Parsing: Jinja2 reads the expression, and what is not in the language is named with its place.

Jinja2 is used as a parser alone. Where it keeps a line number, each part of the tree carries its offset in the source.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.lexer import TokenStream
from jinja2.parser import Parser

from runner.errors import EvaluationError
from runner.language.expressions.reading import ARITHMETIC, reader, use_of
from runner.language.expressions.uses import kind_of_answer
from runner.language.functions import FUNCTIONS, Frame, Function
from runner.language.markers import Fault
from runner.language.nearest import did_you_mean
from runner.language.values import KIND_WORDS

LONGEST_SOURCE = 4_000
MOST_PARTS = 400
DEEPEST = 50

NEVER_NAMES = frozenset("self range lipsum dict cycler joiner namespace loop super caller varargs kwargs".split())
"""Names that Jinja2 would know and this language does not."""

_JINJA = Environment(autoescape=True)
_NO_NUMBER = frozenset({"text", "list", "yes_no", "date", "time", "datetime"})
_CURLY = {**dict.fromkeys("“”„‟＂«»「」『』", '"'), **dict.fromkeys("‘’‚‛＇", "'"), "×": "*", "÷": "/", "−": "-"}
_SIGN_HINTS = {
    "&": 'write "and"',
    "!": 'write "not", or "!=" between two values',
    "?": 'write "a if b else c"',
    "=": 'compare with "=="',
    "$": "a marker stands around the whole expression",
    "{": "write a record in YAML",
}

_CURRENCIES = frozenset({"currency", "dollar", "euro", "eur", "jpy", "usd", "yen"})


@lru_cache(maxsize=4096)
def parse(source: str) -> nodes.Expr | Fault:
    """The tree of an expression, or why there is none."""
    if len(source) > LONGEST_SOURCE:
        return Fault(offset=0, length=1, what=f"the expression is longer than {LONGEST_SOURCE:,} characters")
    if not source.strip():
        return Fault(offset=0, length=1, what="nothing stands inside ${{ }}", hint="write a name, such as inputs.email")
    parser = Parser(_JINJA, "")
    try:
        parser.stream = TokenStream(_JINJA.lexer.wrap(_tokens(source)), None, None)
        parsed = parser.parse_expression()
        if not parser.stream.eos:
            return _syntax_fault(source, parser.stream.current.lineno)
    except TemplateSyntaxError as error:
        return _syntax_fault(source, error.lineno, breaks_off=parser.stream.current.type == "eof")
    except (RecursionError, ValueError, MemoryError):
        return Fault(offset=0, length=1, what="the expression is too deep or holds too large a number")
    return _TOO_DEEP if _is_too_deep(parsed) else parsed


_TOO_DEEP = Fault(offset=0, length=1, what="the expression is too long or too deep", hint="split it up")


def _is_too_deep(parsed: nodes.Node) -> bool:
    """Told before anything walks the tree: whatever walks it may go by itself."""
    todo, seen = [(parsed, 1)], 0
    while todo:
        part, depth = todo.pop()
        seen += 1
        if seen > MOST_PARTS or depth > DEEPEST:
            return True
        todo.extend((child, depth + 1) for child in part.iter_child_nodes())
    return False


def _tokens(source: str) -> Iterator[tuple[int, str, str]]:
    """Jinja2's tokens with their offset where the parser expects a line number: each part then knows its place."""
    at = 0
    try:
        for _, kind, value in _JINJA.lexer.tokeniter(source.replace("\r", " "), None, None, "variable"):
            yield at, kind, value
            at += len(value)
    except TemplateSyntaxError as error:
        raise TemplateSyntaxError("unreadable", at) from error


def _syntax_fault(source: str, offset: int, *, breaks_off: bool = False) -> Fault:
    at = min(max(offset, 0), len(source) - 1)
    while at < len(source) - 1 and source[at].isspace():
        at += 1
    if breaks_off:
        return Fault(offset=len(source.rstrip()) - 1, length=1, what="the expression breaks off")
    sign = source[at]
    hint = 'write "or"' if sign == "|" and "||" in source else _SIGN_HINTS.get(sign, "")
    if sign == "," and source[at - 1 : at].isdigit() and source[at + 1 : at + 4].isdigit():
        hint = "a number has no commas: 20000"
    ascii_sign = _CURLY.get(sign) or unicodedata.normalize("NFKC", sign)
    if not sign.isascii() and ascii_sign.isascii():
        return Fault(offset=at, length=1, what=f'"{sign}" stands in an expression', hint=f"write the sign {ascii_sign}")
    word = source[at:].split(maxsplit=1)[0].split("(", 1)[0] if sign.isalnum() else sign
    return Fault(offset=at, length=len(word), what=f'the expression cannot be read at "{word}"', hint=hint)


# --- what is not in the language -----------------------------------------------------------------------------------


def source_faults(source: str, start: int = 0) -> tuple[Fault, ...]:
    """What is not in the language in one expression that begins at offset `start` of its text."""
    parsed = parse(source)
    found = [parsed] if isinstance(parsed, Fault) else _inspect(parsed)
    return tuple(fault.behind(start) for fault in found)


def _inspect(parsed: nodes.Expr) -> list[Fault]:
    wrong: list[Fault] = []
    todo: list[nodes.Node] = [parsed]
    while todo:
        part = todo.pop()
        wrong.extend(_INSPECTORS.get(type(part), _foreign)(part))
        if type(part) in _INSPECTORS:
            todo.extend(_children(part))
    return sorted(wrong or _constant_faults(parsed), key=lambda fault: fault.offset)


def _children(part: nodes.Node) -> list[nodes.Node]:
    """The parts inside a part that are values themselves; a `none` behind `default` is none."""
    name, values = use_of(part) or ("", [])
    if name:
        return [one for place, one in enumerate(values) if not (name == "default" and place and _is_none(one))]
    return list(part.args) if isinstance(part, nodes.Call) else list(part.iter_child_nodes())


def _fault(part: nodes.Node, what: str, hint: str = "", length: int = 1) -> list[Fault]:
    return [Fault(offset=part.lineno, length=length, what=what, hint=hint)]


_FOREIGN = {
    "Concat": ('"~" is not in the language', "write both values in one text, or use join"),
    "Test": ('"is" is not in the language', "write x | given, or compare with =="),
    "Slice": ("a slice is not in the language", "use first, last or truncate"),
    "Tuple": ("a comma between values is not in the language", "write a list: [a, b]"),
    "Dict": ("a record cannot be written in an expression", "write it in YAML"),
}


def _foreign(part: nodes.Node) -> list[Fault]:
    return _fault(part, *_FOREIGN.get(type(part).__name__, ("this construct is not in the language", "")))


def _hidden(part: nodes.Node, name: str, hint: str = "", more: int = 0) -> list[Fault]:
    return _fault(part, f'"{name}" begins with "_", no name does', hint, len(name) + more)


def _inspect_name(part: nodes.Name) -> list[Fault]:
    if part.name.startswith("_"):
        return _hidden(part, part.name)
    if part.name in NEVER_NAMES:
        return _fault(part, f'there is no "{part.name}"', "", len(part.name))
    if part.name in FUNCTIONS:
        return _fault(part, f'"{part.name}" is a function', f"write {part.name}(…)", len(part.name))
    return []


def _inspect_dot(part: nodes.Getattr) -> list[Fault]:
    hint = "" if part.attr.startswith("__") else f'write ["{part.attr}"] for a field of that name'
    return _hidden(part, part.attr, hint, 1) if part.attr.startswith("_") else []


def _inspect_key(part: nodes.Getitem) -> list[Fault]:
    key = part.arg
    if isinstance(key, nodes.Const):
        if isinstance(key.value, str) and key.value.startswith("__"):
            return _hidden(key, key.value, "", 2)
        if not isinstance(key.value, (str, int)) or isinstance(key.value, bool):
            return _fault(key, "a key is a text or a whole number")
    return []


def _inspect_const(part: nodes.Const) -> list[Fault]:
    if part.value is None:
        return _fault(part, '"none" only stands behind default', "ask with x | given", 4)
    if isinstance(part.value, float) and not math.isfinite(part.value):
        return _fault(part, "the number is too large")
    return []


def _inspect_call(part: nodes.Call) -> list[Fault]:
    if isinstance(part.node, nodes.Name):
        return [replace(fault, offset=part.node.lineno) for fault in _inspect_use(part, part.node.name, 0)]
    if isinstance(part.node, nodes.Getattr):
        name = part.node.attr
        hint = f"write x | {name}" if name in FUNCTIONS else "values have no methods"
        return _fault(part.node, f'".{name}()" is not in the language', hint, len(name) + 1)
    return _fault(part, "only a function of the language can be called")


def _inspect_use(part: nodes.Call | nodes.Filter, name: str, before: int) -> list[Fault]:
    """A function by its name and its values; `before` counts the one before `|`."""
    function = FUNCTIONS.get(name)
    if function is None:
        kind = "filter" if before else "function"
        hint = "an amount is written so: x | money('JPY')" if name.lower() in _CURRENCIES else ""
        hint = hint or did_you_mean(name, FUNCTIONS, "there are")
        return _fault(part, f'there is no {kind} "{name}"', hint, len(name))
    if part.kwargs or part.dyn_args is not None or part.dyn_kwargs is not None:
        return _fault(part, f'the values of "{name}" have no names', "write them in order", len(name))
    if before and function.is_source:
        return _fault(part, f'"{name}" begins a value', f"write {name}()", len(name))
    if not function.least <= len(part.args) + before <= function.most:
        return _fault(part, f'"{name}" takes {_arity(function)}', "", len(name))
    values = part.args if before else part.args[1:]
    if function.check is not None and all(isinstance(value, nodes.Const) for value in values):
        try:
            function.check(*[value.value for value in values if isinstance(value, nodes.Const)])
        except EvaluationError as error:
            return _fault(part, str(error), "", len(name))
    return []


def _arity(function: Function) -> str:
    """How many values a word takes behind its name, for a sentence: `2 values`."""
    least, most = function.least - (not function.is_source), function.most - (not function.is_source)
    if most == 0:
        return "nothing in its brackets"
    words = f"{least}" if least == most else f"{least} to {most}"
    return f"{words} value{'' if most == 1 else 's'} in its brackets"


def _inspect_arithmetic(part: nodes.BinExpr) -> list[Fault]:
    for side in (part.left, part.right):
        kind = kind_of_answer(side)
        if kind in _NO_NUMBER:
            hint = "put texts together with join or in one text" if kind == "text" else ""
            return _fault(side, f'"{part.operator}" counts with numbers, not with {_kind_words(kind)}', hint)
    return []


def _inspect_logic(part: nodes.And | nodes.Or | nodes.Not) -> list[Fault]:
    for side in [part.node] if isinstance(part, nodes.Not) else [part.left, part.right]:
        kind = kind_of_answer(side)
        if kind not in ("", "yes_no"):
            what = f'"and", "or" and "not" join yes or no, not {_kind_words(kind)}'
            return _fault(side, what, "compare it with something")
    return []


def _inspect_sign(part: nodes.Neg | nodes.Pos) -> list[Fault]:
    kind = kind_of_answer(part.node)
    return _fault(part, f"a sign stands before a number, not before {_kind_words(kind)}") if kind in _NO_NUMBER else []


def _kind_words(kind: str) -> str:
    words: Mapping[str, str] = KIND_WORDS
    return words.get(kind, f"a {kind}")


def _is_none(part: nodes.Node) -> bool:
    return isinstance(part, nodes.Const) and part.value is None


def _constant_faults(part: nodes.Node) -> list[Fault]:
    """Counting with literals alone has its answer now: what fails then fails already here."""
    if isinstance(part, ARITHMETIC) and all(isinstance(leaf, nodes.Const) for leaf in _leaves(part)):
        try:
            reader(part)(Frame({}, 0, "UTC"))
        except EvaluationError as error:
            return _fault(part, str(error))
        return []
    return [fault for child in part.iter_child_nodes() for fault in _constant_faults(child)]


def _leaves(part: nodes.Node) -> Iterator[nodes.Node]:
    children = list(part.iter_child_nodes())
    if not children:
        yield part
    for child in children:
        yield from _leaves(child)


_INSPECTORS: Mapping[type[nodes.Node], Callable[[Any], list[Fault]]] = {
    nodes.Name: _inspect_name,
    nodes.Getattr: _inspect_dot,
    nodes.Getitem: _inspect_key,
    nodes.Const: _inspect_const,
    **dict.fromkeys((nodes.List, nodes.Compare, nodes.Operand), lambda part: []),
    **dict.fromkeys(ARITHMETIC, _inspect_arithmetic),
    **dict.fromkeys((nodes.Neg, nodes.Pos), _inspect_sign),
    **dict.fromkeys((nodes.And, nodes.Or, nodes.Not), _inspect_logic),
    nodes.CondExpr: lambda part: _fault(part, '"if" needs an "else"', "write a if b else c") if not part.expr2 else [],
    nodes.Filter: lambda part: _inspect_use(part, part.name, 1) if part.node is not None else _foreign(part),
    nodes.Call: _inspect_call,
}
