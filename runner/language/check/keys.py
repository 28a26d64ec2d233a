"""Keys: built on a clock or empty (FL206), or not written where they must be (FL209)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runner.errors import Problem
from runner.language.check.context import Context, Text, parsed
from runner.language.check.names import problem_in
from runner.language.check.rules import rule
from runner.language.check.shapes import path_of
from runner.language.expressions import markers

CLOCKS = ("now", "today")
CLOCK_NAMES = (("run", "started_at"), ("run", "id"), ("trigger", "at"))
NEED_A_KEY = ("schedule", "cron", "poll", "mail", "manual")


@rule("FL206")
def find_clocks(context: Context) -> Iterator[Problem]:
    """A key that would be another one at each try."""
    for text in context.texts:
        name = str(text.path[-1])
        is_key = text.path == ("run_key",) or (text.placed is not None and text.path == (*text.placed.path, "key"))
        if not is_key:
            continue
        if not text.text.strip() or _is_empty(text.text):
            yield problem_in(
                context, text, "FL206", 0, len(text.text) or 1, f'"{name}" is empty', "name the business event"
            )
        for marker in markers(text.text):
            tree = parsed(marker.source)
            for shown in _clocks(tree) if tree is not None else ():
                yield _clock(context, text, marker.start, marker.source, name, shown)


def _clock(context: Context, text: Text, start: int, source: str, name: str, shown: str) -> Problem:
    at = source.find(shown.removesuffix("()"))
    what = f'"{name}" is built on {shown}, which is never the same twice'
    hint = "use what names the business event, an order number or a date out of the inputs"
    if shown == "run.id" and name == "run_key":
        what = '"run_key" is built on run.id, which every run has its own of'
    return problem_in(context, text, "FL206", start + max(at, 0), len(shown), what, hint)


def _clocks(tree: Any) -> Iterator[str]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if type(node).__name__ == "Call" and type(node.node).__name__ == "Name" and node.node.name in CLOCKS:
            yield f"{node.node.name}()"
            continue
        path = path_of(node)
        if path is not None and path[:2] in CLOCK_NAMES:
            yield ".".join(path[:2])
            continue
        waiting.extend(node.iter_child_nodes())


def _is_empty(text: str) -> bool:
    found = markers(text)
    if len(found) != 1 or text.strip() != text[found[0].start - 3 : found[0].end + 2]:
        return False
    tree = parsed(found[0].source)
    return type(tree).__name__ == "Const" and tree.value in ("", None)


@rule("FL209")
def find_missing_key(context: Context) -> Iterator[Problem]:
    """A `do`, a trigger that has no id of its own, and no `run_key`."""
    if ("run_key",) in context.source.keys or not any(placed.step.verb == "do" for placed in context.placed):
        return
    kinds = [kind for trigger in context.flow.trigger for kind in NEED_A_KEY if kind in trigger]
    if kinds and not _is_unsure(context):
        word = {"manual": "a start by hand", "cron": "a schedule"}.get(kinds[0], f"a {kinds[0]}")
        what = f"the flow changes the world, and {word} does not say which business event a run is for"
        hint = "write run_key: what the same event always has, for example ${{ inputs.order_no }}"
        path = ("trigger",) if ("trigger",) in context.source.keys else ("flow",)
        yield context.source.problem("FL209", path, what, hint, on="key")


def _is_unsure(context: Context) -> bool:
    return (
        () in context.source.broken
        and "run_key" not in context.source.data
        and any(str(key).startswith(("run", "key")) and key != "run_key" for key in context.source.data)
    )
