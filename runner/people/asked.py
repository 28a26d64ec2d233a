"""What each kind of hand-off asks, and why anything was made good before: for mails and pages alike."""

from __future__ import annotations

from collections.abc import Mapping

from runner.core.paths import failure_at
from runner.core.state import Failure, HandOff, State
from runner.tongue import _, marked

ASKS: Mapping[str, str] = {
    "unknown": marked("Did {about} happen?"),
    "several": marked("Which record is the one of {about}?"),
    "failure": marked("What is to follow the failure of {about}?"),
    "set_aside": marked("What is to become of the items of {about} that were set aside?"),
    "late": marked("What {about} waits for did not come in time. How to go on?"),
    "then_run": marked("The flow that is to follow cannot be started. What now?"),
    "step": marked("The flow stops here and asks how to go on."),
    "compensation": marked("Please make {about} good by hand."),
    "compensation_failed": marked("{About} could not be made good. What now?"),
    "compensation_unknown": marked("Did the compensation of {about} happen?"),
    "erased": marked("Its personal data was erased. Who makes good by hand what it did?"),
    "outputs": marked("The run's outputs have no answer. What now?"),
    "request": marked("The compensation of {about} could not be put together. What now?"),
}
"""What each kind of hand-off asks."""
MAKING_GOOD = frozenset({"compensation", "compensation_failed", "compensation_unknown", "request"})
"""The kinds that come up while something is made good."""


def asks_about(kind: str, about: str) -> str:
    """The question of a kind of hand-off about `step contact`, or `the run`."""
    form = ASKS.get(kind, marked("Please look at {about}."))
    return _(form, about=about, About=about[:1].upper() + about[1:])


def first_failure(state: State, handoff: HandOff) -> Failure | None:
    """What failed first, so that there was anything to make good; None where the question is about that itself."""
    failure = failure_at(state, handoff.step) if handoff.kind in MAKING_GOOD else None
    return failure if failure is not None and failure.step else None
