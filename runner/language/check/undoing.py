"""How a step is made good (FL202), and what cannot be taken back (FL203, FL204)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.errors import Problem
from runner.language.check.context import Context, Placed
from runner.language.check.rules import rule

CAN_FAIL = frozenset({"read", "do", "approve", "wait_for", "call", "choose", "each", "parallel"})


@rule("FL202")
def find_no_compensation(context: Context) -> Iterator[Problem]:
    """A step that changes the world and does not say how it is made good."""
    for placed in context.placed:
        step = placed.step
        if step.verb == "do" and step.compensate is None and not context.is_broken(placed.path):
            action = context.action(step.action)
            hint = "cancel, mark, correct, quarantine or hand_off; or none with a reason"
            if action is not None and action.undo is not None:
                hint = f"{step.action} has an undo of its own: compensate: cancel"
            what = f'"{step.id}" changes the world and does not say how it is made good'
            yield context.source.problem("FL202", (*placed.path, "do"), what, hint, level="live")


@rule("FL203")
def find_unasked(context: Context) -> Iterator[Problem]:
    """A step that cannot be undone, with nobody asked and no reason why not."""
    covered = _covered(context)
    for placed in context.placed:
        step = placed.step
        why = context.cannot_be_undone(step)
        if why and not step.unattended and step.id not in covered and not context.is_broken(placed.path):
            what = f'"{step.id}" cannot be undone, and nobody is asked before it'
            hint = f"{why} Say why nobody need be asked: unattended: …"
            yield context.source.problem("FL203", (*placed.path, "do"), what, hint, level="live")


def _covered(context: Context) -> frozenset[str]:
    """Steps that an approval names. Approvals do not run yet; FL008 says so at the word."""
    found: set[str] = set()
    for placed in context.placed:
        if placed.step.verb == "approve":
            scalars = context.source.scalars
            found.update(scalar.text for path, scalar in scalars.items() if path[:-1] == (*placed.path, "covers"))
    return frozenset(found)


@rule("FL204")
def find_too_soon(context: Context) -> Iterator[Problem]:
    """A step that cannot be undone stands before one that can still fail."""
    for placed in context.placed:
        step = placed.step
        if not context.cannot_be_undone(step) or step.accept_order or context.is_broken(placed.path):
            continue
        later = _can_fail_after(context, placed)
        if later:
            what = f'"{step.id}" cannot be undone and stands before "{later}", which can still fail'
            hint = "move it to the end, or say why not: accept_order: …"
            yield context.source.problem("FL204", (*placed.path, "do"), what, hint, level="warning")


def _can_fail_after(context: Context, placed: Placed) -> str:
    """The first step that runs after this one and can fail."""
    for other in context.placed:
        if placed.step.id in other.earlier and other.step.verb in CAN_FAIL:
            return other.step.id
    return ""
