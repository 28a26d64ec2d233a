"""Where things stand in a run: paths of steps and scopes, and which scope surrounds which.

A step `send` stands at `send` in the run itself, at `invoices/3/send` in the third item of the list `invoices`, at
`log/send` in the flow that the step `log` calls. A scope's path is its item (`invoices/3`) or its call step (`log`).
"""

from __future__ import annotations

from collections.abc import Iterator

from runner.core.state import Failure, State


def join(scope: str, step: str) -> str:
    """The path of a step in a scope."""
    return f"{scope}/{step}" if scope else step


def scope_of(path: str) -> str:
    """The scope a step stands in."""
    return path.rpartition("/")[0]


def list_of(scope: str) -> str:
    """The path of the `each` that a scope is an item of; empty for any other scope."""
    head, _, last = scope.rpartition("/")
    return head if last.isdigit() else ""


def number_of(scope: str) -> int:
    """The number of an item in its list, from 1."""
    return int(scope.rpartition("/")[2])


def around(scope: str) -> str:
    """The next scope outwards."""
    return scope_of(list_of(scope) or scope)


def outwards(scope: str) -> Iterator[str]:
    """The scope and all around it; the run itself, "", comes last."""
    while scope:
        yield scope
        scope = around(scope)
    yield ""


def is_in(path: str, scope: str) -> bool:
    """Whether a path stands in a scope, however deep."""
    return not scope or path.startswith(scope + "/")


def catcher_of(state: State, path: str) -> str:
    """The scope that a failure at this path ends: the nearest item that may fail alone, else the run."""
    around_it = (scope for scope in outwards(scope_of(path)) if scope in state.scopes)
    return next((scope for scope in around_it if scope and state.scopes[scope].catches), "")


def is_closed_at(state: State, path: str) -> bool:
    """Whether forward of a scope around this path is closed."""
    return any(scope in state.scopes and state.scopes[scope].closed for scope in outwards(scope_of(path)))


def failure_at(state: State, path: str) -> Failure | None:
    """The failure that what stands at this path is made good for."""
    found = None
    for scope in outwards(scope_of(path)):
        inner = state.scopes.get(scope)
        if inner is not None and inner.closed:
            found = inner.failure
            break
    return found


def generation_at(state: State, path: str) -> int:
    """The generation that calls at this path begin with."""
    scope = state.scopes.get(scope_of(path))
    return scope.generation if scope is not None else 0


def forgotten_item(state: State, path: str) -> str:
    """The outermost item around this path that has ended and is not in the state; empty if all are there."""
    found = ""
    for scope in outwards(scope_of(path)):
        if list_of(scope) in state.lists and scope not in state.scopes:
            found = scope
    return found
