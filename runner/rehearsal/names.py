"""How a flow test calls steps: `paid`, `undo paid`, `letter (INV-7)`; of a called flow `log/mail`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from runner.core.paths import join, list_of, outwards, scope_of
from runner.language.bundle import Bundle
from runner.language.flow import Verb
from runner.language.nearest import did_you_mean

_WRITTEN = re.compile(r"(?:(undo|find|look_up) )?([A-Za-z][\w/]*)(?: \((.+)\))?")
UNDO = "undo"
CALLS: tuple[Verb, ...] = ("do", "read")


@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """What a name in a test means: a step by its pattern, which side of it (`undo`, `find`, `look_up`, or the step
    itself), and one item of a list by name or number; empty for whichever.
    """

    step: str
    side: str = ""
    item: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class At:
    """A place in a run's log, as it can be named: `items` are the names and numbers of the items around it."""

    step: str
    side: str
    items: tuple[str, ...]
    shown: str

    def is_meant(self, spot: Spot) -> bool:
        """Whether this name means it."""
        return (self.step, self.side) == (spot.step, spot.side) and spot.item in ("", *self.items)


class Names:
    """The names of one flow's steps."""

    def __init__(self, bundle: Bundle) -> None:
        self._steps = bundle.steps

    def spot(self, written: str, verbs: Collection[Verb] = (), side: str = "") -> Spot:
        """What a name means among the steps of these verbs (all, where there are none). Raises ValueError with a
        sentence and, after "; ", a hint.
        """
        match = _WRITTEN.fullmatch(written)
        if match is None:
            raise ValueError(f'"{written}" is no step; write its id, or: undo contact, letter (INV-7)')
        own, name, item = match[1] or side, match[2], match[3] or ""
        numbers = [part for part in name.split("/") if part.isdigit()]
        name = "/".join(part for part in name.split("/") if not part.isdigit())
        fitting = [step for step in self._steps if step == name or step.endswith(f"/{name}")]
        fitting = [step for step in fitting if not verbs or self._steps[step].verb in verbs]
        if name in fitting:
            fitting = [name]
        if not fitting:
            raise ValueError(self._unknown(name, verbs))
        if len(fitting) > 1:
            raise ValueError(f'more than one step is called "{name}"; write one of {", ".join(fitting)}')
        return Spot(step=fitting[0], side=own, item=item or (numbers[-1] if numbers else ""))

    def _unknown(self, name: str, verbs: Collection[Verb]) -> str:
        if name in self._steps:
            wanted = ", ".join(verbs)
            return f'"{name}" is a step of another kind ({self._steps[name].verb}); here stand steps of kind {wanted}'
        known = [step for step, one in self._steps.items() if not verbs or one.verb in verbs]
        return f'there is no step "{name}"; {did_you_mean(name, known, "there are")}'

    def at(self, path: str, side: str, items: Mapping[str, str]) -> At:
        """A path of the log as it can be named; `items` gives the names of items by their paths."""
        step = "/".join(part for part in path.split("/") if not part.isdigit())
        known = self._steps.get(step)
        if known is not None and known.tool_of and known.approval is not None:  # asked about a tool, and called like it
            step = join(scope_of(step), known.approval.covers[0])
        around = [scope for scope in outwards(scope_of(path)) if list_of(scope)]
        if list_of(path):
            around.insert(0, path)
        labels = [items.get(scope) or scope.rpartition("/")[2] for scope in around]
        numbers = [scope.rpartition("/")[2] for scope in around]
        name = step.rpartition("/")[2]
        if sum(other == name or other.endswith(f"/{name}") for other in self._steps) > 1:
            name = step
        shown = f"{side} {name}" if side else name
        item = f" ({labels[0]})" if labels else ""
        return At(step=step, side=side, items=(*labels, *numbers), shown=shown + item)


def side_of(kind: str, purpose: str) -> str:
    """Which side of a step a question to a person is about, by its kind and purpose."""
    is_undo = kind.startswith("compensation") or purpose.startswith("undo") or (kind == "request" and not purpose)
    return UNDO if is_undo else ""
