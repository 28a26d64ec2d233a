"""What a language model answered is followed to where it is used: through values, steps, templates, lists, conditions,
our own tables and called flows. None of it reaches a step that cannot be undone before a person has read it (FL207)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from runner.contract import Json
from runner.errors import Problem
from runner.language.check.context import Context, Placed, Text, rule
from runner.language.check.letters import letters_of
from runner.language.expressions import NameUse
from runner.language.source import Path

_ANYWHERE = "*"
"""The table of a step that names it by an expression."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origins:
    """What comes, directly or through steps, from an AI action: `steps.x`, `steps.x.y`, `inputs.x` -> whose it is; and
    the tables of ours that hold such an answer."""

    values: dict[tuple[str, ...], str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """One place where such an answer goes where it cannot be taken back. `how` is a further word about it."""

    path: Path
    part: tuple[int, int] | None
    origin: str
    what: str
    how: str = ""
    way_out: str = "put an approval before it, or say why not: unattended: …"


@rule("FL207")
def find_unread_answers(context: Context) -> Iterator[Problem]:
    """An answer that nobody has read is about to leave for good, or decides that something does."""
    if not any(action.from_ai for action in context.facts.actions.values()):
        return
    told: set[Path] = set()
    for one in _unread(context, _origins(context, {}, has_own=True)):
        if one.path not in told:
            told.add(one.path)
            what = f'{one.what} cannot be undone, and nobody has read what "{one.origin}" answered{one.how}'
            yield context.source.problem("FL207", one.path, what, one.way_out, part=one.part)


def _unread(context: Context, origins: Origins) -> Iterator[Unread]:
    direct: set[str] = set()
    for text in context.texts:
        for one in _of_text(context, text, origins):
            direct.add(one.what)
            yield one
    for placed in context.placed:
        if placed.step.tool_of and _is_unasked(context, placed):
            what, hint = f'"{placed.step.id}"', "say who is asked before each of its calls: approve: team:…"
            yield Unread(path=(*placed.path, "do"), part=None, origin=placed.step.tool_of, what=what, way_out=hint)
        elif _is_unasked(context, placed) and f'"{placed.step.id}"' not in direct:
            yield from _of_letters(context, placed, origins)
            yield from _of_conditions(context, placed, origins)


def _of_text(context: Context, text: Text, origins: Origins) -> Iterator[Unread]:
    placed = text.placed
    if placed is None:
        if text.path[:2] == ("on_failure", "with") and context.flow.on_failure.then_run:
            yield from _passed_on(context, context.flow.on_failure.then_run, text, str(text.path[2]), origins)
        return
    step, at = placed.step, len(placed.path)
    if text.reach == "compensation":
        what = f'the compensation of "{step.id}"' if _makes_good_unasked(context, placed) else ""
    else:
        what = f'"{step.id}"' if _is_unasked(context, placed) else ""
    for use, origin in _uses(placed, text.uses, origins) if what else ():
        yield Unread(path=text.path, part=(use.offset, use.length), origin=origin, what=what)
    is_asked = bool(step.unattended) or step.id in context.gates
    if step.verb == "call" and text.path[at] == "with" and not is_asked:
        yield from _passed_on(context, step.flow, text, str(text.path[at + 1]), origins)


def _is_unasked(context: Context, placed: Placed) -> bool:
    is_asked = bool(placed.step.unattended) or placed.step.id in context.gates
    return not is_asked and bool(context.cannot_be_undone(placed.step))


def _makes_good_unasked(context: Context, placed: Placed) -> bool:
    words = placed.step.compensate
    action = (
        context.action(words.action) if words is not None and not words.approve_by and not words.unattended else None
    )
    return action is not None and bool(action.cannot_undo)


def _passed_on(context: Context, flow: str, text: Text, name: str, origins: Origins) -> Iterator[Unread]:
    """An answer that is an input of another flow, as far as it leaves there."""
    other = context.called(flow) if text.placed is not None else context.other(flow)
    for use, origin in _uses(text.placed, text.uses, origins) if other is not None else ():
        for one in _unread(other, _origins(other, {name: origin}, has_own=False)) if other is not None else ():
            part = (use.offset, use.length)
            yield Unread(path=text.path, part=part, origin=origin, what=f"{one.what} of flow {flow}", how=one.how)


def _of_letters(context: Context, placed: Placed, origins: Origins) -> Iterator[Unread]:
    for path, name, uses in letters_of(context, placed):
        for _, origin in _uses(placed, uses, origins):
            how = f", which the template {name} uses"
            yield Unread(path=path, part=None, origin=origin, what=f'"{placed.step.id}"', how=how)


def _of_conditions(context: Context, placed: Placed, origins: Origins) -> Iterator[Unread]:
    """What is asked of the steps around it decides whether, and how often, it runs."""
    taken = dict(placed.branches)
    for outer in placed.around:
        asked = [(*outer.path, "when"), (*outer.path, "each")]
        asked += [(*outer.path, "choose", number, "when") for number in range(taken.get(outer.step.id, 0) + 1)]
        for text in context.texts:
            for use, origin in _uses(outer, text.uses, origins) if text.path in asked else ():
                part, how = (use.offset, use.length), ", on which it depends"
                yield Unread(path=text.path, part=part, origin=origin, what=f'"{placed.step.id}"', how=how)


def _uses(placed: Placed | None, uses: Iterable[NameUse], origins: Origins) -> Iterator[tuple[NameUse, str]]:
    """Each use of an answer, with whose it is."""
    lists = [outer.step.id for outer in placed.around if outer.step.verb == "each"] if placed is not None else []
    for use in uses:
        path = ("steps", *use.path[1:2]) if use.path[0] == "outcome" else use.path
        path = ("steps", lists[-1]) if path[0] == "item" and lists else path
        found = [origin for place, origin in origins.values.items() if place[: len(path)] == path[: len(place)]]
        if found and len(path) > 1:
            yield use, found[0]


# --- where answers go ------------------------------------------------------------------------------------------------


def _origins(context: Context, given: Mapping[str, str], *, has_own: bool) -> Origins:
    """`given` are the inputs that hold such an answer; `has_own`: the flow's own AI steps count too."""
    found = Origins(values={("inputs", name): origin for name, origin in given.items()})
    texts: dict[str, list[Text]] = {}
    for text in context.texts:
        if text.placed is not None and text.reach == "step":
            texts.setdefault(text.placed.step.id, []).append(text)
    for placed in context.placed:
        step, action = placed.step, context.action(placed.step.action)
        origins = [origin for text in texts.get(step.id, ()) for _, origin in _uses(placed, text.uses, found)]
        if has_own and action is not None and action.from_ai:
            found.values["steps", step.id] = step.id
        elif step.verb == "call":
            found.values.update(_answered(context, placed, texts.get(step.id, []), found, has_own=has_own))
        elif (
            action is not None and action.own and (kept := _in_table(step.with_, origins, found.tables, action.effect))
        ):
            found.values["steps", step.id] = kept
        elif origins:
            found.values["steps", step.id] = origins[0]
    return found


def _in_table(given: Mapping[str, Json], origins: list[str], tables: dict[str, str], effect: str) -> str:
    """Whose answer a step on our own tables deals with: one that it puts there, or that was put there before."""
    table = str(given.get("collection", ""))
    table = _ANYWHERE if "${{" in table else table
    if effect != "read":
        if origins:
            tables.setdefault(table, origins[0])
        return origins[0] if origins else ""
    kept = [origin for name, origin in tables.items() if _ANYWHERE in (name, table) or name == table]
    return (origins or kept or [""])[0]


def _answered(
    context: Context, placed: Placed, texts: list[Text], found: Origins, *, has_own: bool
) -> dict[tuple[str, ...], str]:
    """The outputs of a called flow that hold such an answer: one that it was given, or its own."""
    called, at, name = context.called(placed.step.flow), len(placed.path), placed.step.id
    if called is None:
        return {}
    fed = [text for text in texts if text.path[at] == "with"]
    given = {str(text.path[at + 1]): origin for text in fed for _, origin in _uses(placed, text.uses, found)}
    inner = _origins(called, given, has_own=has_own)
    found.tables.update(inner.tables)
    outputs = [text for text in called.texts if text.path[0] == "outputs"]
    return {
        ("steps", name, str(text.path[1])): origin if origin in given.values() else name
        for text in outputs
        for _, origin in _uses(None, text.uses, inner)
    }
