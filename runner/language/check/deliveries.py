"""Webhooks: who proves that a delivery is from whom it says (FL403)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.errors import Problem
from runner.language.check.context import Context, rule
from runner.language.nearest import did_you_mean
from runner.language.source import Path

KIND = "webhook"
"""The connector whose connections prove deliveries."""


@rule("FL403")
def find_unproved_deliveries(context: Context) -> Iterator[Problem]:
    """Webhooks that anybody may send to, whose `signed_by` proves nothing, or that stand in one flow twice."""
    seen: set[object] = set()
    for path, trigger in context.triggers:
        if KIND in trigger:
            yield from _of_one(context, path, trigger.get("signed_by"))
            if trigger[KIND] in seen:
                what = f'the hook "{trigger[KIND]}" is there already, and a delivery comes to one trigger of a flow'
                yield context.source.problem("FL403", (*path, KIND), what, "give it another name, or put both into one")
            seen.add(trigger[KIND])


def _of_one(context: Context, path: Path, signed_by: object) -> Iterator[Problem]:
    lines, at = context.facts.connections, (*path, "signed_by")
    if not isinstance(signed_by, str):
        if not context.is_broken(path):
            what, hint = "whoever knows this hook's address can start runs", f"write signed_by: {_example(context)}"
            yield context.source.problem("FL403", (*path, KIND), what, hint, level="live", on="key")
    elif signed_by not in context.facts.known_connections() | context.facts.unreadable:
        hint = did_you_mean(signed_by, _senders(context)) or f"connections.yaml needs a line: {_line(signed_by)}"
        yield context.source.problem("FL403", at, f'there is no connection "{signed_by}"', hint)
    elif signed_by in lines and lines[signed_by].connector != KIND:
        what = f'"{signed_by}" is a connection to {lines[signed_by].connector}, and proves no delivery'
        yield context.source.problem("FL403", at, what, f"a line of its own: {_line(signed_by + '_hook')}")
    elif signed_by in lines and lines[signed_by].settings.get("scheme") == "token":
        what = "the secret itself stands in every delivery, so whoever sees one can make others"
        hint = "where the sender can sign, take scheme: standard, hmac or its own"
        yield context.source.problem("FL403", at, what, hint, level="warning")


def _senders(context: Context) -> list[str]:
    return [name for name, line in context.facts.connections.items() if line.connector == KIND]


def _example(context: Context) -> str:
    return next(iter(_senders(context)), f"shop, and into connections.yaml {_line('shop')}")


def _line(name: str) -> str:
    return f"{name}: {{ connector: webhook, scheme: standard, secret: {{ secret: {name.upper()} }} }}"
