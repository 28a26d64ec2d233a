"""Where each step of a flow stands: what has to be so for it to begin, and where the names that it uses come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from runner.contract import Json
from runner.errors import EvaluationError
from runner.language.bundle import Bundle
from runner.language.expressions import names
from runner.language.expressions.comparisons import Comparison, comparisons, lone_path
from runner.language.flow import NUMBERED, Flow, Step

Origin = tuple[str, ...]
"""Where a value comes from: `("inputs", "amount")`, `("steps", "log/mail", "id")` (by the step's pattern), or
`("outcome", "contact")`; `*` stands for every item of a list."""
EVERY = "*"
DEEPEST = 6
"""How many steps back a name is followed through conditions and called flows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """What can be seen at a place: `prefixes` of patterns, innermost first; `item`: where the item comes from; `given`:
    what a called flow was given, and `around` where it was.
    """

    prefixes: tuple[str, ...] = ("",)
    item: Origin | None = None
    given: Mapping[str, Json] | None = None
    around: Reach | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Stand:
    """One step. `guards` are the conditions on the way to it, with where each stands."""

    pattern: str
    step: Step
    reach: Reach
    guards: tuple[tuple[str, Reach], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """All steps of a bundle, by their patterns."""

    bundle: Bundle
    stands: Mapping[str, Stand] = field(default_factory=dict)

    @classmethod
    def of(cls, bundle: Bundle) -> Places:
        """Reads them out of the flow and those that it calls."""
        found = cls(bundle=bundle)
        walked = {stand.pattern: stand for stand in found._walk(bundle.flow.steps, "", Reach(), ())}
        return replace(found, stands=walked)

    def _walk(
        self, steps: tuple[Step, ...], prefix: str, reach: Reach, guards: tuple[tuple[str, Reach], ...]
    ) -> Iterator[Stand]:
        for step in steps:
            own = (*guards, (step.when, reach)) if step.when is not None else guards
            pattern = prefix + step.id
            yield Stand(pattern=pattern, step=step, reach=reach, guards=own)
            inside = f"{pattern}/"
            if step.verb == "call":
                deeper = Reach(prefixes=(inside,), given=step.with_, around=reach)
                yield from self._walk(self.bundle.called[step.flow].steps, inside, deeper, own)
            before: tuple[tuple[str, Reach], ...] = ()
            if step.verb == "agent":
                yield Stand(pattern=inside + step.turn.id, step=step.turn, reach=reach, guards=own)
            for branch in step.branches:
                if step.verb in NUMBERED:
                    item = self.list_of(step, reach) if step.verb == "each" else reach.item
                    deeper = replace(reach, prefixes=(inside, *reach.prefixes), item=item)
                    yield from self._walk(branch.steps, inside, deeper, own)
                    continue
                if branch.when is not None:
                    before = (*before, (branch.when, reach))
                yield from self._walk(branch.steps, prefix, reach, (*own, *before))

    def list_of(self, step: Step, reach: Reach) -> Origin | None:
        """Where the items of an `each` come from; None where that is not one name."""
        lone = lone_path(step.each)
        found = [use.path for use in names(step.each)] if lone is None and isinstance(step.each, str) else [lone]
        path = found[0] if found else None
        origin = self.origin(path, reach) if path else None
        return (*origin, EVERY) if origin else None

    def origin(self, path: tuple[str, ...], reach: Reach) -> Origin | None:
        """Where a name comes from, followed through what called flows were given."""
        root, rest = path[0], path[1:]
        if root == "item":
            return (*reach.item, *rest) if reach.item is not None else None
        if root == "inputs" and rest and reach.given is not None and reach.around is not None:
            lone = lone_path(reach.given.get(rest[0]))
            outer = self.origin(lone, reach.around) if lone is not None else None
            return (*outer, *rest[1:]) if outer else None
        if root in ("steps", "outcome") and rest:
            known = (prefix + rest[0] for prefix in reach.prefixes)
            pattern = next((name for name in known if name in self.bundle.steps), None)
            return (root, pattern, *rest[1:]) if pattern is not None else None
        return path if root == "inputs" and rest else None

    def hangs_on(self, stand: Stand) -> list[tuple[Origin, Comparison]]:
        """What the conditions on the way to a step compare, and what decides about that in turn."""
        found: dict[tuple[Origin, Comparison], None] = {}
        for text, reach in stand.guards:
            self._follow(text, reach, found, 0)
        return list(found)

    def _follow(self, text: str, reach: Reach, found: dict[tuple[Origin, Comparison], None], depth: int) -> None:
        for comparison in _compared(text) if depth < DEEPEST else ():
            origin = self.origin(comparison.path, reach)
            if origin is None or (origin, comparison) in found:
                continue
            found[origin, comparison] = None
            step = self.bundle.steps.get(origin[1]) if origin[0] in ("steps", "outcome") else None
            if step is None:
                continue
            stand = self.stands.get(origin[1]) if self.stands else None
            for guard, where in stand.guards if stand is not None and origin[0] == "outcome" else ():
                self._follow(guard, where, found, depth + 1)
            if stand is not None and step.verb == "call" and len(origin) > 2:
                flow: Flow = self.bundle.called[step.flow]
                inside = Reach(prefixes=(f"{origin[1]}/",), given=step.with_, around=stand.reach)
                self._follow(str(flow.outputs.get(origin[2], "")), inside, found, depth + 1)


def _compared(text: str) -> tuple[Comparison, ...]:
    try:
        return comparisons(text)
    except EvaluationError:
        return ()
