"""What a condition hangs on: which names it compares, with what. For whoever looks for values that decide it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import nodes

from runner.contract import Json
from runner.language.expressions import markers, tree
from runner.language.expressions.reading import path_of, use_of
from runner.language.expressions.uses import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """One name of a condition. `values` are the literals it is compared with; none where it is a yes or no itself
    (`is_alone`), or is compared with another name.
    """

    path: Path
    values: tuple[Json, ...] = ()
    is_alone: bool = False


def comparisons(text: str) -> tuple[Comparison, ...]:
    """The comparisons of a text's expressions, in order. Raises EvaluationError."""
    return tuple(found for marker in markers(text) for found in _compared(tree(marker.source)))


def lone_path(written: Json) -> Path | None:
    """The path that a value is, where it is one marker with one plain path; else None."""
    if not isinstance(written, str):
        return None
    found = markers(written)
    is_lone = len(found) == 1 and written.strip().startswith("${{") and written.strip().endswith("}}")
    return _path(tree(found[0].source)) if is_lone else None


def _path(part: nodes.Node) -> Path | None:
    """The text keys of a plain path, with or without a default."""
    name, values = use_of(part) or ("", [])
    part = values[0] if name == "default" else part
    keys = path_of(part) if isinstance(part, (nodes.Name, nodes.Getattr, nodes.Getitem)) else None
    return tuple(map(str, keys)) if keys is not None else None


def _compared(part: nodes.Node) -> Iterator[Comparison]:
    if isinstance(part, nodes.Compare):
        sides = [part.expr, *(one.expr for one in part.ops)]
        values = tuple(value for side in sides for value in _literals(side))
        for side in sides:
            path = _path(side)
            if path is not None:
                yield Comparison(path=path, values=values)
    elif isinstance(part, (nodes.And, nodes.Or)):
        yield from _compared(part.left)
        yield from _compared(part.right)
    elif isinstance(part, nodes.Not):
        yield from _compared(part.node)
    elif (path := _path(part)) is not None:
        yield Comparison(path=path, is_alone=True)


def _literals(part: nodes.Node) -> list[Json]:
    items = part.items if isinstance(part, nodes.List) else [part]
    return [item.value for item in items if isinstance(item, nodes.Const)]
