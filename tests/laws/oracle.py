"""INVARIANTS as functions: from a run's story (its log and the truth outside) to sentences that say what is wrong.

None of the laws uses the core's own reading of a log, except where the law is about that reading (I26, I27).
"""

from __future__ import annotations

from tests.laws import (
    agent_laws,
    approval_laws,
    branch_laws,
    call_laws,
    closing_laws,
    draft_laws,
    item_laws,
    lock_laws,
    run_laws,
    wait_laws,
)
from tests.laws.register import LAWS
from tests.laws.story import Story

ROOMS = (
    agent_laws,
    approval_laws,
    branch_laws,
    call_laws,
    closing_laws,
    draft_laws,
    item_laws,
    lock_laws,
    run_laws,
    wait_laws,
)


def violations(story: Story, *, but: frozenset[str] = frozenset()) -> list[str]:
    """Everything that is wrong with a story, each with the law's number; the laws of `but` are not asked."""
    return [f"{name}: {what}" for name, each in LAWS.items() if name not in but for what in each(story)]
