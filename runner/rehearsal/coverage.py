"""Which steps, branches and compensations of a flow some case has reached."""

from __future__ import annotations

from collections.abc import Sequence

from runner.core import events as e
from runner.language.bundle import Bundle
from runner.language.flow import Step, every_step

_NOT_REACHED = (e.StepSkipped, e.RunFinished, e.ForwardClosed, e.CompensationBegun)


class Coverage:
    """Adds up what the cases of one flow reach. Of a called flow its own tests tell."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._steps: set[str] = set()
        self._branches: set[tuple[str, int]] = set()
        self._undone: set[str] = set()

    def see(self, events: Sequence[e.Event]) -> None:
        """One more log."""
        for event in events:
            step = "/".join(part for part in event.step.split("/") if not part.isdigit())
            if isinstance(event, e.BranchChosen):
                self._branches.add((step, event.branch))
            if _is_undo(event):
                self._undone.add(step)
            elif not isinstance(event, _NOT_REACHED):
                self._steps.add(step)

    def missed(self) -> list[str]:
        """What no case has reached, as people call it, in the order of the flow."""
        own = {id(step) for step in every_step(self._bundle.flow.steps)}
        found: list[str] = []
        for path, step in self._bundle.steps.items():
            if id(step) not in own:
                continue
            if path not in self._steps:
                found.append(path)
            elif step.verb == "choose":
                found += [
                    f"branch {number + 1} of {path}"
                    for number, _ in enumerate(step.branches)
                    if (path, number) not in self._branches
                ]
            elif self._can_be_undone(path, step) and path not in self._undone:
                found.append(f"undo {path}")
        return found

    def _can_be_undone(self, path: str, step: Step) -> bool:
        """What our own tables did is never in doubt, so after the last step of a flow nothing undoes it."""
        if step.compensate is None or step.compensate.word == "none":
            return False
        return path != [*self._bundle.steps][-1] or not self._bundle.actions[step.action].own


def _is_undo(event: e.Event) -> bool:
    if isinstance(event, e.HandedOff):
        return event.kind.startswith("compensation")
    return isinstance(event, e.CompensationSkipped) or (isinstance(event, e.CallEvent) and "undo" in event.purpose)
