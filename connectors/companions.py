"""Rules about the other actions that an action names: what takes it back, and what leaves a draft of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from connectors.model import ActionModel
from connectors.subject import Subject, rule
from runner.contract import Json, missing, optional
from runner.errors import Problem
from runner.language.fitting import value_at
from runner.language.nearest import did_you_mean


@rule
def _undo_is_there(at: Subject) -> Iterator[Problem]:
    undo = at.action.undo
    if undo is None:
        return
    if at.action.cannot_undo is not None:
        yield at.on_key("FL006", ("cannot_undo",), f"{at.name} has an undo, and says that it has none")
    other = at.connector.actions.get(undo.action)
    if other is None:
        yield from _no_action(at, "undo", undo.action)
        return
    if other.reads:
        yield at.on_value("FL201", ("undo", "action"), f'"{undo.action}" only reads, so it takes nothing back')
    yield from _input_fits(at, "undo", undo.action, other, undo.with_ or {}, undo.with_ or {})


@rule
def _draft_is_whole(at: Subject) -> Iterator[Problem]:
    draft = at.action.draft
    if draft is None:
        return
    other = at.connector.actions.get(draft.action)
    if other is None:
        yield from _no_action(at, "draft", draft.action)
        return
    given = draft.with_ or {}
    if draft.action == at.name and not given:
        yield at.on_value(
            "FL006",
            ("draft", "action"),
            f"{at.name} would be sent in a draft run",
            "say under with: what makes it a draft",
        )
    if other.reads:
        yield at.on_value("FL201", ("draft", "action"), f'"{draft.action}" only reads, so it leaves no draft')
    elif other.undo is None:
        what = f'"{draft.action}" has no undo, so its drafts could not be removed'
        yield at.on_value("FL005", ("draft", "action"), what, f"add undo: to {draft.action}")
    alike = [name for name, kind in (at.action.input or {}).items() if not optional(kind)]
    yield from _input_fits(at, "draft", draft.action, other, given, [*alike, *given])


def _no_action(at: Subject, word: str, name: str) -> Iterator[Problem]:
    """What is said of a name that no action has; one whose action could not be read has been told."""
    written = value_at(at.source.data, ("actions",))
    if not isinstance(written, dict) or name not in written:
        hint = did_you_mean(name, at.connector.actions)
        yield at.on_value("FL208", (word, "action"), f'there is no action "{name}"', hint)


def _input_fits(
    at: Subject, word: str, name: str, other: ActionModel, given: Mapping[str, Json], has: Iterable[str]
) -> Iterator[Problem]:
    """`given` are fields of the other action, and `has` are all that it needs."""
    fields = other.input or {}
    yield from at.strangers("FL208", (word, "with"), given, fields, f'"{name}" has no field "{{}}"')
    for field in missing(fields, list(has)):
        yield at.on_key("FL208", (word,), f'"{name}" needs the field "{field}"')
