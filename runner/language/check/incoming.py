"""Mailboxes and polls: a connection that is a mailbox, an answer that is a list, items that can be told apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.clock import SECOND
from runner.contract import Action, Json
from runner.errors import Problem
from runner.language.check.context import Context, rule
from runner.language.clauses import duration
from runner.language.fields import FieldType, fields_below, listed_field, shape_of
from runner.language.nearest import nearest
from runner.language.source import Path

SHORTEST = 10 * SECOND
"""Between two polls."""


@rule("FL208")
def find_wrong_mailboxes(context: Context) -> Iterator[Problem]:
    """Mail triggers whose connection is none, or no mailbox."""
    lines = context.facts.connections
    for path, trigger in context.triggers:
        name, at = str(trigger.get("mail", "")), (*path, "mail")
        if not name or name in context.facts.unreadable:
            continue
        line = f"{name}: {{ connector: imap, host: imap.example.com, user: …, password: {{ secret: {name.upper()} }} }}"
        if name not in lines and name not in context.facts.known_connections():
            boxes = [one for one, found in lines.items() if found.connector == "imap"]
            near = nearest(name, boxes)
            hint = f'did you mean "{near}"?' if near else f"connections.yaml needs a line: {line}"
            yield context.source.problem("FL208", at, f'there is no connection "{name}"', hint)
        elif name not in lines or lines[name].connector != "imap":
            what = f'"{name}" is a connection to {lines[name].connector if name in lines else name}, and no mailbox'
            yield context.source.problem("FL208", at, what, "a mailbox is a connection with connector: imap")


@rule("FL005", "FL006", "FL208")
def find_wrong_polls(context: Context) -> Iterator[Problem]:
    """Polls that come too often, whose answer is no list, or whose items nobody can tell apart."""
    for path, trigger in context.triggers:
        if "poll" not in trigger:
            continue
        every = trigger.get("every")
        if isinstance(every, str) and duration(every).ms < SHORTEST:
            what, hint = f"{every} is too often for a poll", f"every is {SHORTEST // 1000} s at least"
            yield context.source.problem("FL006", (*path, "every"), what, hint)
        if "id" in trigger:
            what = "a polled item is known by seen_by, so id means nothing here"
            yield context.source.problem("FL006", (*path, "id"), what, "write seen_by: in its place", on="key")
        action = context.action(str(trigger["poll"]))
        if action is not None and action.effect == "read":
            yield from _of_answer(context, path, trigger, action)


def _of_answer(context: Context, path: Path, trigger: Mapping[str, Json], action: Action) -> Iterator[Problem]:
    at, name = (*path, "poll"), listed_field(action.output)
    if action.own:
        what, hint = f"{trigger['poll']} reads our own tables, which are not polled", "emit an event where they change"
        yield context.source.problem("FL208", at, what, hint)
    elif not name:
        what = f"{trigger['poll']} answers with no list, or with several, so there is nothing to look through"
        yield context.source.problem("FL208", at, what, "its connector needs one output field that is a list, or items")
    elif "seen_by" not in trigger and not _has_id(shape_of(action.output[name])):
        what = f"nothing tells one item of {trigger['poll']} from another"
        yield context.source.problem("FL005", at, what, "write seen_by: ${{ item.… }}, what it is known by", on="key")


def _has_id(answer: FieldType | None) -> bool:
    item = answer.items if answer is not None else None
    return item is not None and "id" in (fields_below(item) or {})
