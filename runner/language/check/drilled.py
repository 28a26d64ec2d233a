"""A live flow with steps that cannot be undone has been drilled as it is (FL210)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.errors import InvalidFlow, Problem
from runner.language import drills
from runner.language.bundle import assemble
from runner.language.check.context import Context, rule


@rule("FL210")
def find_no_drill(context: Context) -> Iterator[Problem]:
    """No drill on record, or one of the flow as it was before."""
    flow, facts = context.flow, context.facts
    if not facts.keeps_drills or flow.mode != "live" or context.within is not None:
        return
    final = next((step.id for step in flow.every_step() if context.cannot_be_undone(step)), "")
    if not final or context.source.broken:
        return
    found = facts.read_file(drills.name_of(flow.id))
    digest = drills.digest_in(found[0]) if found is not None else None
    what = f'the flow is live, "{final}" cannot be undone, and no drill of it is on record'
    if digest is not None:
        try:
            if assemble(context.source.text, flow.file, facts).digest == digest:
                return
        except InvalidFlow:
            return  # its problems are told
        what = "the flow, or something that it uses, has changed since it was last drilled"
    hint = f"amends drill {flow.id} --record shows what would stand outside after each failure, and keeps it"
    yield context.source.problem("FL210", ("mode",), what, hint, on="key", level="warning")
