"""Which names an expression uses, where they stand, and whether it has an answer without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import nodes

from runner.language.expressions.reading import key_of

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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Guard:
    """`everything` under a default or given; `known` are paths that a given has found before."""

    everything: bool = False
    known: frozenset[Path] = frozenset()

    def covers(self, path: Path) -> bool:
        return self.everything or any(path[: len(known)] == known for known in self.known)

    def knowing(self, more: frozenset[Path]) -> _Guard:
        return _Guard(everything=self.everything, known=self.known | more)


def uses_of(parsed: nodes.Expr, source: str, known: frozenset[Path] = frozenset()) -> tuple[NameUse, ...]:
    """Every name in the tree, in the order of the source. `known` are paths that are there in any case."""
    found = list(_walk(parsed, source, _Guard(known=known)))
    return tuple(sorted(found, key=lambda use: use.offset))


def given_paths(test: nodes.Expr) -> frozenset[Path]:
    """The paths that have a value where the condition is a yes."""
    if isinstance(test, nodes.And):
        return given_paths(test.left) | given_paths(test.right)
    subject = _given_subject(test)
    path = static_path(subject)[0] if subject is not None else None
    return frozenset({path}) if path else frozenset()


def missing_paths(test: nodes.Expr) -> frozenset[Path]:
    """The paths that have a value where the condition is a no: `not given(x)`."""
    if isinstance(test, nodes.Or):
        return missing_paths(test.left) | missing_paths(test.right)
    return given_paths(test.node) if isinstance(test, nodes.Not) else frozenset()


def static_path(part: nodes.Node) -> tuple[Path | None, nodes.Node, list[nodes.Expr]]:
    """(the text keys from the root as far as they are literal, the part they end in, the dynamic keys).

    The path is None when the part does not begin with a name.
    """
    chain: list[nodes.Getattr | nodes.Getitem] = []
    dynamic: list[nodes.Expr] = []
    while isinstance(part, (nodes.Getattr, nodes.Getitem)):
        chain.append(part)
        if isinstance(part, nodes.Getitem) and key_of(part) is None:
            dynamic.append(part.arg)
        part = part.node
    if not isinstance(part, nodes.Name):
        return None, part, dynamic
    keys, end = [part.name], part
    last: nodes.Node = end
    for link in reversed(chain):
        key = key_of(link)
        if not isinstance(key, str):
            break
        keys.append(key)
        last = link
    return tuple(keys), last, dynamic


def _walk(part: nodes.Node, source: str, guard: _Guard) -> Iterator[NameUse]:
    if isinstance(part, (nodes.Name, nodes.Getattr, nodes.Getitem)):
        yield from _walk_path(part, source, guard)
    elif (values := _used_values(part)) is not None:
        name, items = values
        for place, item in enumerate(items):
            is_subject = place == 0 and name in ("default", "given")
            yield from _walk(item, source, _Guard(everything=True) if is_subject else guard)
    elif isinstance(part, nodes.CondExpr):
        yield from _walk(part.test, source, guard)
        yield from _walk(part.expr1, source, guard.knowing(given_paths(part.test)))
        if part.expr2 is not None:
            yield from _walk(part.expr2, source, guard.knowing(missing_paths(part.test)))
    elif isinstance(part, (nodes.And, nodes.Or)):
        known = given_paths(part.left) if isinstance(part, nodes.And) else missing_paths(part.left)
        yield from _walk(part.left, source, guard)
        yield from _walk(part.right, source, guard.knowing(known))
    else:
        for child in part.iter_child_nodes():
            yield from _walk(child, source, guard)


def _walk_path(part: nodes.Node, source: str, guard: _Guard) -> Iterator[NameUse]:
    path, end, dynamic = static_path(part)
    for key in dynamic:
        yield from _walk(key, source, guard)
    if path is None:
        yield from _walk(end, source, guard)
        return
    root = part
    while isinstance(root, (nodes.Getattr, nodes.Getitem)):
        root = root.node
    length = _end(end, source) - root.lineno
    yield NameUse(path=path, offset=root.lineno, length=length, guarded=guard.covers(path))


def _end(part: nodes.Node, source: str) -> int:
    """Where the part ends in the source."""
    if isinstance(part, nodes.Getattr):
        return source.find(part.attr, part.lineno) + len(part.attr)
    if isinstance(part, nodes.Getitem):
        return source.find("]", part.arg.lineno) + 1
    return part.lineno + len(part.name) if isinstance(part, nodes.Name) else part.lineno + 1


def _used_values(part: nodes.Node) -> tuple[str, list[nodes.Expr]] | None:
    """(name, values) of a filter or a function call."""
    if isinstance(part, nodes.Filter) and part.node is not None:
        return part.name, [part.node, *part.args]
    if isinstance(part, nodes.Call) and isinstance(part.node, nodes.Name):
        return part.node.name, list(part.args)
    return None


def _given_subject(test: nodes.Expr) -> nodes.Node | None:
    values = _used_values(test)
    return values[1][0] if values is not None and values[0] == "given" and values[1] else None
