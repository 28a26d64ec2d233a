"""What can be said of an expression without evaluating it: the names it uses, and the kind of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jinja2 import nodes

from runner.language.expressions.reading import ARITHMETIC, Key, key_of, path_of, use_of
from runner.language.functions import FUNCTIONS
from runner.language.values import kind_of

Path = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class NameUse:
    """One dotted name in a text: `steps.plan.label` is `("steps", "plan", "label")`; a path ends before a `[number]`.

    `guarded`: the expression has an answer without it (`default`, `given`, or behind a `given` of the same name).
    """

    path: Path
    offset: int
    length: int
    guarded: bool


_EVERYTHING: frozenset[Path] = frozenset({()})
"""What is known under a `default` or `given`: every path begins with the empty one."""


def uses_of(parsed: nodes.Expr, source: str, known: frozenset[Path] = frozenset()) -> tuple[NameUse, ...]:
    """Every name in the tree, in the order of the source. `known` are paths that are there in any case."""
    return tuple(sorted(_walk(parsed, source, known), key=lambda use: use.offset))


def given_paths(test: nodes.Expr) -> frozenset[Path]:
    """The paths that have a value where the condition is a yes."""
    if isinstance(test, nodes.And):
        return given_paths(test.left) | given_paths(test.right)
    name, values = use_of(test) or ("", [])
    path = _static_path(values[0])[0] if name == "given" and values else None
    return frozenset({path}) if path else frozenset()


def missing_paths(test: nodes.Expr) -> frozenset[Path]:
    """The paths that have a value where the condition is a no: `not given(x)`."""
    if isinstance(test, nodes.Or):
        return missing_paths(test.left) | missing_paths(test.right)
    return given_paths(test.node) if isinstance(test, nodes.Not) else frozenset()


def kind_of_answer(part: nodes.Node, kind_of_name: Callable[[tuple[Key, ...]], str] = lambda path: "") -> str:
    """The kind that a tree's answer has in any case: text, number, date …; empty where it is not known."""
    if isinstance(part, nodes.Const):
        return "" if part.value is None else kind_of(part.value)
    if isinstance(part, nodes.List):
        return "list"
    if isinstance(part, (nodes.Compare, nodes.And, nodes.Or, nodes.Not)):
        return "yes_no"
    path, (name, values) = path_of(part), use_of(part) or ("", [])
    if path is not None:
        return kind_of_name(path)
    if isinstance(part, nodes.CondExpr):
        values = [part.expr1, part.expr2 or part.expr1]
    elif isinstance(part, ARITHMETIC):
        kinds = {kind_of_answer(side, kind_of_name) for side in (part.left, part.right)}
        return "number" if kinds == {"number"} else ""
    elif name != "default":
        return "" if name not in FUNCTIONS or FUNCTIONS[name].gives == "any" else FUNCTIONS[name].gives
    kinds = {kind_of_answer(value, kind_of_name) for value in values}
    return kinds.pop() if len(kinds) == 1 else ""


def _static_path(part: nodes.Node) -> tuple[Path | None, nodes.Node, nodes.Node, list[nodes.Expr]]:
    """(the text keys from the root as far as they are literal, the root, the part they end in, the dynamic keys).

    The path is None when the part does not begin with a name.
    """
    chain: list[nodes.Getattr | nodes.Getitem] = []
    while isinstance(part, (nodes.Getattr, nodes.Getitem)):
        chain.append(part)
        part = part.node
    dynamic = [link.arg for link in chain if isinstance(link, nodes.Getitem) and key_of(link) is None]
    if not isinstance(part, nodes.Name):
        return None, part, part, dynamic
    keys: list[str] = [part.name]
    last: nodes.Node = part
    for link in reversed(chain):
        key = key_of(link)
        if not isinstance(key, str):
            break
        keys.append(key)
        last = link
    return tuple(keys), part, last, dynamic


def _walk(part: nodes.Node, source: str, known: frozenset[Path]) -> Iterator[NameUse]:
    used = use_of(part)
    if isinstance(part, (nodes.Name, nodes.Getattr, nodes.Getitem)):
        path, root, end, dynamic = _static_path(part)
        for key in dynamic:
            yield from _walk(key, source, known)
        if path is None:
            yield from _walk(root, source, known)
            return
        is_guarded = any(path[: len(one)] == one for one in known)
        yield NameUse(path=path, offset=root.lineno, length=_end(end, source) - root.lineno, guarded=is_guarded)
    elif used is not None:
        for place, item in enumerate(used[1]):
            is_subject = place == 0 and used[0] in ("default", "given")
            yield from _walk(item, source, _EVERYTHING if is_subject else known)
    elif isinstance(part, nodes.CondExpr):
        yield from _walk(part.test, source, known)
        yield from _walk(part.expr1, source, known | given_paths(part.test))
        if part.expr2 is not None:
            yield from _walk(part.expr2, source, known | missing_paths(part.test))
    elif isinstance(part, (nodes.And, nodes.Or)):
        yield from _walk(part.left, source, known)
        more = given_paths(part.left) if isinstance(part, nodes.And) else missing_paths(part.left)
        yield from _walk(part.right, source, known | more)
    else:
        for child in part.iter_child_nodes():
            yield from _walk(child, source, known)


def _end(part: nodes.Node, source: str) -> int:
    """Where the part ends in the source."""
    if isinstance(part, nodes.Getattr):
        return source.find(part.attr, part.lineno) + len(part.attr)
    if isinstance(part, nodes.Getitem):
        return source.find("]", part.arg.lineno) + 1
    return part.lineno + len(part.name) if isinstance(part, nodes.Name) else part.lineno + 1
