"""What a rule sees: the flow, its source, the project, every step with its place and every expression."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from runner.contract import Action, Json
from runner.errors import EvaluationError, Level, Problem
from runner.language.called import CheckedFlow, calls_of, named_flow, ring_of
from runner.language.expressions import NameUse, markers, names, source_names, tree
from runner.language.facts import ProjectFacts
from runner.language.fields import FieldType
from runner.language.fitting import value_at
from runner.language.flow import NUMBERED, Branch, Flow, Step
from runner.language.load import steps_in
from runner.language.source import Path, Source

Reach = Literal["start", "step", "compensation", "trigger", "end"]
"""When an expression is read: before the run, in a step, in its compensation, at a trigger, when all is over."""

_IN_STEP = "when with find key lock wait each match say approve question".split()
_OF_TOOL = ("find", "lock", "question")
"""Where a tool of an agent sees what it is given."""
_NAMES_IN_STEP = ("show", "shows", "may_leave_out")
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

    @property
    def names(self) -> frozenset[str]:
        """`item`, where the step stands in an `each`."""
        return frozenset({"item"} if any(outer.step.verb == "each" for outer in self.around) else ())


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """One text with an expression in it. `names` are further roots in reach (`item`, `output`, `fields` …).

    `is_name`: it is a name as it stands, without a marker, as `show: [inputs.amount]` has them.
    """

    path: Path
    text: str
    reach: Reach
    placed: Placed | None = None
    names: frozenset[str] = frozenset()
    is_name: bool = False

    @property
    def uses(self) -> tuple[NameUse, ...]:
        """Every dotted name in it."""
        return source_names(self.text) if self.is_name else names(self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """One place where an action is named, with the input it is given. `inputs` is the path of that input's map; a poll
    has no step (`placed`)."""

    action: str
    path: Path
    inputs: Path
    placed: Placed | None
    word: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """One place where another flow is named, by `call` or `then_run`. `inputs` is the path of what it is given."""

    flow: str
    path: Path
    inputs: Path
    placed: Placed | None = None


class Context:
    """Made once for each check; what is costly is worked out when it is first asked for.

    Another flow that is named is looked at once for all of one check, and in the mode of the flow that names it:
    `within` is the context that asks.
    """

    def __init__(self, flow: Flow, source: Source, facts: ProjectFacts, within: Context | None = None) -> None:
        self.flow = flow
        self.source = source
        self.facts = facts
        self.within = within
        self._written: dict[str, CheckedFlow | None] = {} if within is None else within._written
        self._others: dict[str, Context | None] = {} if within is None else within._others
        self._others[flow.id] = self
        self._problems: tuple[Problem, ...] | None = None
        self.answers: dict[str, FieldType | None] | None = None
        """The types of the outputs, once `shapes` has found them."""

    # --- other flows ----------------------------------------------------------------------------------------------

    @cached_property
    def named(self) -> tuple[Named, ...]:
        """Every flow that is named."""
        steps = [placed for placed in self.placed if placed.step.verb == "call"]
        found = [
            Named(flow=one.step.flow, path=(*one.path, "call"), inputs=(*one.path, "with"), placed=one) for one in steps
        ]
        after, path = self.flow.on_failure.then_run, ("on_failure", "then_run")
        return (*found, *([Named(flow=after, path=path, inputs=("on_failure", "with"))] if after else []))

    def written(self, name: str) -> CheckedFlow | None:
        """Another flow of the project as its file stands, with the problems of its shape; None where there is none."""
        if name not in self._written:
            self._written[name] = named_flow(self.facts, name)
        return self._written[name]

    def other(self, name: str) -> Context | None:
        """Another flow of the project as the rules see it; None where nothing could be made of it."""
        if name not in self._others:
            self._others[name] = None
            found = self.written(name)
            if found is not None and found.flow is not None and found.source is not None:
                Context(replace(found.flow, mode=self.flow.mode), found.source, self.facts, self)
        return self._others[name]

    def ring(self, name: str) -> tuple[str, ...]:
        """The way of calls from this flow through the named one back to it; empty where none leads back."""
        return ring_of(self.flow.id, name, self._calls_of)

    def _calls_of(self, name: str) -> Iterator[str]:
        other = self.other(name)
        return calls_of(other.flow) if other is not None else iter(())

    def called(self, name: str) -> Context | None:
        """A flow that is called; None where nothing could be made of it, or it leads back here."""
        return None if self.ring(name) else self.other(name)

    def changes_the_world(self) -> bool:
        """Whether there is a `do`, here or in a flow that is called."""
        called = [self.called(step.flow) for step in self.flow.every_step() if step.verb == "call"]
        has_own = any(step.verb == "do" for step in self.flow.every_step())
        return has_own or any(other is not None and other.changes_the_world() for other in called)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What the rules find. Of a flow that is just being looked at nothing is known yet, so it is told once."""
        if self._problems is None:
            self._problems = ()
            self._problems = tuple(self._find())
        return self._problems

    def _find(self) -> Iterator[Problem]:
        """What is wrong only when a flow is live comes as an error for a live flow and as a warning for a draft."""
        found = [problem for rule in RULES for problem in rule.find(self)]
        live: Level = "error" if self.flow.mode == "live" else "warning"
        for problem in dict.fromkeys(found):
            if problem.line not in self.source.mended:
                yield replace(problem, level=live) if problem.level == "live" else problem

    # --- steps ----------------------------------------------------------------------------------------------------

    @cached_property
    def placed(self) -> tuple[Placed, ...]:
        """Every step with its place, in the order they are written."""
        paths: dict[tuple[str, int], Path] = {}
        for path, data in steps_in(self.source.data):
            line = self.source.at(path).line
            paths.setdefault(("", line), path)
            if isinstance(data.get("id"), str):
                paths.setdefault((data["id"], line), path)
        self._paths = paths
        return tuple(self._walk(self.flow.steps, Placed(step=Step(id="", verb="wait"), path=()), ()))

    def _walk(self, steps: tuple[Step, ...], above: Placed, around: tuple[Placed, ...]) -> Iterator[Placed]:
        """`above` holds what is so before the first of the steps."""
        earlier = above.earlier
        for step in steps:
            path = self._path_of(step)
            guards = (*above.guards, step.when) if step.when is not None else above.guards
            branches = above.branches
            placed = Placed(step=step, path=path, around=around, branches=branches, earlier=earlier, guards=guards)
            yield placed
            for number, branch in enumerate(step.branches):
                inside = Placed(
                    step=step,
                    path=path,
                    branches=(*branches, (step.id, number)),
                    earlier=earlier,
                    guards=(*guards, branch.when) if branch.when is not None else guards,
                )
                yield from self._walk(branch.steps, inside, (*around, placed))
            earlier = earlier | {step.id} | (_ids(step.branches) if step.verb not in NUMBERED else frozenset())

    def _path_of(self, step: Step) -> Path:
        """Where a step is written; the approval of a tool stands inside the tool."""
        if step.tool_of and step.approval is not None:
            return (*self._paths.get((step.approval.covers[0], step.line), ()), "approve")
        return self._paths.get((step.id, step.line)) or self._paths.get(("", step.line), ())

    @cached_property
    def by_id(self) -> dict[str, Placed]:
        """The first step of each id."""
        return {placed.step.id: placed for placed in reversed(self.placed)}

    @cached_property
    def gates(self) -> dict[str, list[Placed]]:
        """The approvals that cover each step."""
        found: dict[str, list[Placed]] = {}
        for placed in self.placed:
            for name in placed.step.approval.covers if placed.step.approval is not None else ():
                found.setdefault(name, []).append(placed)
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
        """Every action that is named, those of compensations and polls too."""
        polls = [
            Use(action=str(said["poll"]), path=(*path, "poll"), inputs=(*path, "with"), placed=None, word="poll")
            for path, said in self.triggers
            if "poll" in said
        ]
        return (*(use for placed in self.placed for use in _uses_of(placed)), *polls)

    @cached_property
    def triggers(self) -> tuple[tuple[Path, Mapping[str, Json]], ...]:
        """Every trigger with its path."""
        if not isinstance(value_at(self.source.data, ("trigger",)), list):
            return tuple((("trigger",), said) for said in self.flow.trigger)
        return tuple((("trigger", number), said) for number, said in enumerate(self.flow.trigger))

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
        return tuple(self._texts())

    def _texts(self) -> Iterator[Text]:
        for key in ("run_key", "record"):
            yield from self._below((key,), "start")
        written = value_at(self.source.data, ("trigger",))
        several = enumerate(written) if isinstance(written, list) else [(None, written)]
        for number, trigger in several:
            here: Path = ("trigger",) if number is None else ("trigger", number)
            kinds = [kind for kind in TRIGGER_NAMES if isinstance(trigger, dict) and kind in trigger]
            names = frozenset(name for kind in kinds for name in TRIGGER_NAMES[kind])
            for key in _IN_TRIGGER if isinstance(trigger, dict) else ():
                asks = key == "with"  # nothing has come yet when it is asked for
                yield from self._below((*here, key), "trigger", names=frozenset() if asks else names)
        for placed in self.placed:
            yield from self._of_step(placed)
        yield from self._below(("outputs",), "end")
        yield from self._below(("on_failure", "with"), "end", names=frozenset({"failure"}))

    def _of_step(self, placed: Placed) -> Iterator[Text]:
        names = placed.names
        tool = frozenset({"input"} if placed.step.tool_of else ())
        for key in _IN_STEP if not tool else [key for key in _IN_STEP if key != "approve"]:
            in_reach = names | tool if key in _OF_TOOL else names
            yield from self._below((*placed.path, key), "step", placed, in_reach)
        for key in _NAMES_IN_STEP:
            for text in self._below((*placed.path, key), "step", placed, names):
                is_name = key != "show" or isinstance(text.path[-1], int)
                yield replace(text, is_name=is_name)
        for number, branch in enumerate(placed.step.branches):
            path = (*placed.path, "choose", number, "when")
            if branch.when is not None and path in self.source.scalars:
                yield Text(path=path, text=self.source.scalars[path].text, reach="step", placed=placed, names=names)
        yield from self._below((*placed.path, "named"), "step", placed, names | {"item"})
        for key in _IN_COMPENSATION:
            path = (*placed.path, "compensate", key)
            yield from self._below(path, "compensation", placed, names | tool | {"output", "failure"})

    def _below(
        self, path: Path, reach: Reach, placed: Placed | None = None, names: frozenset[str] = frozenset()
    ) -> Iterator[Text]:
        """Every text at or below this path."""
        value = value_at(self.source.data, path)
        if isinstance(value, str):
            yield Text(path=path, text=value, reach=reach, placed=placed, names=names)
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            yield from self._below((*path, key), reach, placed, names)


def _ids(branches: tuple[Branch, ...]) -> frozenset[str]:
    steps = [step for branch in branches for step in branch.steps]
    return frozenset(step.id for step in steps).union(
        *(_ids(step.branches) for step in steps if step.verb not in NUMBERED)
    )


def _uses_of(placed: Placed) -> Iterator[Use]:
    step, path, words = placed.step, placed.path, placed.step.compensate
    if step.action:
        yield Use(action=step.action, path=(*path, step.verb), inputs=(*path, "with"), placed=placed, word=step.verb)
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
    if len(found) == 1 and text.strip() == text[found[0].start - 3 : found[0].end + 2]:
        return found[0].source
    return None


def parsed(source: str | None) -> Any:
    """The expression's tree, or None where there is none or it is not in the language (FL007 says so)."""
    try:
        return None if source is None else tree(source)
    except EvaluationError:
        return None


def parts_of(tree: Any) -> Iterator[Any]:
    """Every part of a tree, itself included."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(part.iter_child_nodes())


# --- the register --------------------------------------------------------------------------------------------------

Find = Callable[[Context], Iterator[Problem]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule: the codes of the problems it may give, and how it finds them."""

    codes: tuple[str, ...]
    find: Find


RULES: list[Rule] = []


def rule(*codes: str) -> Callable[[Find], Find]:
    """Registers a rule under the codes it gives."""

    def register(find: Find) -> Find:
        RULES.append(Rule(codes=codes, find=find))
        return find

    return register
