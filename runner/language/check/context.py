"""What a rule sees: the flow, its source, the project, every step with its place and every expression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from runner.contract import Action
from runner.errors import EvaluationError
from runner.language.expressions import markers, tree
from runner.language.facts import ProjectFacts
from runner.language.fitting import value_at
from runner.language.flow import Branch, Compensation, Flow, Step
from runner.language.load import steps_in
from runner.language.source import Path, Source

Reach = Literal["start", "step", "compensation", "trigger", "end"]
"""When an expression is read: before the run, in a step, in its compensation, at a trigger, when all is over."""

_IN_STEP = (
    "when",
    "with",
    "find",
    "key",
    "lock",
    "wait",
    "each",
    "match",
    "say",
    "show",
    "approve",
    "emit",
    "wait_for",
)
_IN_COMPENSATION = ("with", "say", "show")
_IN_TRIGGER = ("fill", "id", "only_if", "entity", "order_by", "seen_by", "with")
TRIGGER_NAMES: dict[str, tuple[str, ...]] = {
    "form": ("fields",),
    "webhook": ("body", "headers"),
    "mail": ("from", "to", "subject", "text", "html", "attachments", "message_id", "thread"),
    "poll": ("item",),
    "schedule": ("slot",),
    "cron": ("slot",),
    "event": ("event",),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """One step and its place. `around` are the steps it stands in, outermost first; `earlier` every id that has run,
    or may have run, when it begins; `guards` the conditions that hold then, its own included."""

    step: Step
    path: Path
    around: tuple[Placed, ...] = ()
    branches: tuple[tuple[str, int], ...] = ()
    earlier: frozenset[str] = frozenset()
    guards: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """One text with an expression in it. `names` are further roots in reach (`item`, `output`, `fields` …)."""

    path: Path
    text: str
    reach: Reach
    placed: Placed | None = None
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """One place where an action is named, with the input it is given. `inputs` is the path of that input's map."""

    action: str
    path: Path
    inputs: Path
    placed: Placed
    word: str


class Context:
    """Made once for each check; what is costly is worked out when it is first asked for."""

    def __init__(self, flow: Flow, source: Source, facts: ProjectFacts) -> None:
        self.flow = flow
        self.source = source
        self.facts = facts

    # --- steps ----------------------------------------------------------------------------------------------------

    @cached_property
    def placed(self) -> tuple[Placed, ...]:
        """Every step with its place, in the order they are written."""
        paths: dict[tuple[str, int], Path] = {}
        unnamed: dict[int, Path] = {}
        for path, data in steps_in(self.source.data):
            line = self.source.at(path).line
            unnamed.setdefault(line, path)
            if isinstance(data.get("id"), str):
                paths.setdefault((data["id"], line), path)
        self._paths, self._unnamed = paths, unnamed
        return tuple(self._walk(self.flow.steps, (), (), frozenset(), ()))

    def _walk(
        self,
        steps: tuple[Step, ...],
        around: tuple[Placed, ...],
        branches: tuple[tuple[str, int], ...],
        earlier: frozenset[str],
        guards: tuple[str, ...],
    ) -> Iterator[Placed]:
        for step in steps:
            path = self._paths.get((step.id, step.line)) or self._unnamed.get(step.line, ())
            here = (*guards, step.when) if step.when is not None else guards
            placed = Placed(step=step, path=path, around=around, branches=branches, earlier=earlier, guards=here)
            yield placed
            for number, branch in enumerate(step.branches):
                inside = (*here, branch.when) if branch.when is not None else here
                yield from self._walk(branch.steps, (*around, placed), (*branches, (step.id, number)), earlier, inside)
            earlier = earlier | {step.id} | (_ids(step.branches) if step.verb != "each" else frozenset())

    @cached_property
    def by_id(self) -> dict[str, Placed]:
        """The first step of each id."""
        found: dict[str, Placed] = {}
        for placed in self.placed:
            found.setdefault(placed.step.id, placed)
        return found

    def is_broken(self, path: Path) -> bool:
        """Whether something at or below this path could not be used, so that what is missing may be there after all."""
        return any(broken[: len(path)] == path for broken in self.source.broken)

    # --- actions --------------------------------------------------------------------------------------------------

    def action(self, name: str) -> Action | None:
        """What the connector says of `connection.action`, or None where there is none."""
        return self.facts.actions.get(name)

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """Every action that is named, those of compensations too."""
        return tuple(use for placed in self.placed for use in _uses_of(placed))

    def cannot_be_undone(self, step: Step) -> str:
        """Why the effect of this step stays, in the connector's words; empty where it can be taken back."""
        if step.verb != "do" or (step.compensate is not None and step.compensate.word == "cancel"):
            return ""
        action = self.action(step.action)
        return action.cannot_undo if action is not None else ""

    # --- expressions ----------------------------------------------------------------------------------------------

    @cached_property
    def texts(self) -> tuple[Text, ...]:
        """Every text that is read for expressions, with what is in reach there."""
        return (*self._of_the_run(), *self._of_triggers(), *self._of_steps(), *self._of_the_end())

    def _below(self, path: Path) -> Iterator[tuple[Path, str]]:
        """Every text at or below this path."""
        value = value_at(self.source.data, path)
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict):
            for key in value:
                yield from self._below((*path, key))
        elif isinstance(value, list):
            for index in range(len(value)):
                yield from self._below((*path, index))

    def _of_the_run(self) -> Iterator[Text]:
        for path in (("run_key",), ("record",)):
            for where, text in self._below(path):
                yield Text(path=where, text=text, reach="start")

    def _of_triggers(self) -> Iterator[Text]:
        written = value_at(self.source.data, ("trigger",))
        several = enumerate(written) if isinstance(written, list) else [(None, written)]
        for number, trigger in several:
            if not isinstance(trigger, dict):
                continue
            here: Path = ("trigger",) if number is None else ("trigger", number)
            names = {name for kind, found in TRIGGER_NAMES.items() if kind in trigger for name in found}
            for key in _IN_TRIGGER:
                for where, text in self._below((*here, key)):
                    yield Text(path=where, text=text, reach="trigger", names=frozenset(names))

    def _of_steps(self) -> Iterator[Text]:
        for placed in self.placed:
            in_each = any(outer.step.verb == "each" for outer in placed.around)
            names = frozenset({"item"}) if in_each else frozenset()
            for key in _IN_STEP:
                for where, text in self._below((*placed.path, key)):
                    yield Text(path=where, text=text, reach="step", placed=placed, names=names)
            yield from self._of_branches(placed, names)
            if placed.step.verb == "each":
                for where, text in self._below((*placed.path, "named")):
                    yield Text(path=where, text=text, reach="step", placed=placed, names=names | {"item"})
            for key in _IN_COMPENSATION:
                for where, text in self._below((*placed.path, "compensate", key)):
                    more = names | {"output", "failure"}
                    yield Text(path=where, text=text, reach="compensation", placed=placed, names=more)

    def _of_branches(self, placed: Placed, names: frozenset[str]) -> Iterator[Text]:
        for number, branch in enumerate(placed.step.branches):
            path = (*placed.path, "choose", number, "when")
            if placed.step.verb == "choose" and branch.when is not None and path in self.source.scalars:
                yield Text(path=path, text=self.source.scalars[path].text, reach="step", placed=placed, names=names)

    def _of_the_end(self) -> Iterator[Text]:
        for where, text in self._below(("outputs",)):
            yield Text(path=where, text=text, reach="end")
        for where, text in self._below(("on_failure", "with")):
            yield Text(path=where, text=text, reach="end", names=frozenset({"failure"}))


def _ids(branches: tuple[Branch, ...]) -> frozenset[str]:
    found: set[str] = set()
    for branch in branches:
        for step in branch.steps:
            found.add(step.id)
            if step.verb != "each":
                found |= _ids(step.branches)
    return frozenset(found)


def _uses_of(placed: Placed) -> Iterator[Use]:
    step, path = placed.step, placed.path
    if step.action:
        yield Use(action=step.action, path=(*path, step.verb), inputs=(*path, "with"), placed=placed, word=step.verb)
    words: Compensation | None = step.compensate
    if words is None:
        return
    here = (*path, "compensate")
    if words.action:
        yield Use(action=words.action, path=(*here, words.word), inputs=(*here, "with"), placed=placed, word=words.word)
    shown = words.show.get("read")
    if isinstance(shown, str):
        yield Use(action=shown, path=(*here, "show"), inputs=(*here, "show"), placed=placed, word="show")


def only_expression(text: str) -> str | None:
    """The inner expression of a text that is one marker and nothing else; None for any other text."""
    found = markers(text)
    stripped = text.strip()
    if len(found) != 1 or not (stripped.startswith("${{") and stripped.endswith("}}")):
        return None
    return found[0].source if len(stripped) == found[0].end - found[0].start + 5 else None


def parsed(source: str) -> Any:
    """The expression's tree, or None where it is not in the language (FL007 says so)."""
    try:
        return tree(source)
    except EvaluationError:
        return None
