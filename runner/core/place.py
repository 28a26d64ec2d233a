"""One step at its place in a run: what a decision about it looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.contract import Action, Json
from runner.core import events as e
from runner.core.commands import Command, Record
from runner.core.names import names_in_reach
from runner.core.paths import join, scope_of
from runner.core.state import State, StepState
from runner.errors import EvaluationError
from runner.language import templates
from runner.language.bundle import Bundle
from runner.language.expressions import NoValue, condition, evaluate
from runner.language.flow import NUMBERED, Branch, Step
from runner.quick import quick


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A step, where it stands, and when it is decided about."""

    bundle: Bundle
    state: State
    step: Step
    path: str
    now: int

    @property
    def known(self) -> StepState | None:
        """What has become of it so far."""
        return self.state.steps.get(self.path)

    @property
    def scope(self) -> str:
        """The scope it stands in."""
        return scope_of(self.path)

    @property
    def owner(self) -> str:
        """Who is asked about it."""
        return self.step.owner or self.state.owner

    def names(self, wanted: frozenset[str] | None = None) -> dict[str, Json]:
        """The names in reach, or those of them that are wanted."""
        return names_in_reach(self.state, self.scope, wanted=wanted)

    def value(self, written: Json, names: Mapping[str, Json] | None = None) -> Json:
        """What is written, with every marker answered. Raises EvaluationError."""
        bundle, scope = self.bundle, self.names() if names is None else names
        return evaluate(written, scope, now=self.now, zone=bundle.zone, calendar=bundle.calendar)

    def shown(self, written: Mapping[str, Json], names: Mapping[str, Json]) -> dict[str, Json]:
        """What people are to see; None where there is no value. Raises EvaluationError."""
        seen: dict[str, Json] = {}
        for name, text in written.items():
            try:
                seen[name] = self.value(text, names)
            except NoValue:
                seen[name] = None
        return seen

    def is_so(self, text: str) -> bool:
        """The yes or no of a condition. Raises EvaluationError."""
        bundle = self.bundle
        return condition(text, self.names(), now=self.now, zone=bundle.zone, calendar=bundle.calendar)

    @property
    def is_passed_over(self) -> bool:
        """Its own `when` says no. Raises EvaluationError."""
        return self.step.when is not None and not self.is_so(self.step.when)

    def skip(self) -> tuple[Command, ...]:
        """Its `when` was no: it has an outcome, and so have the steps of its branches."""
        skipped = e.StepSkipped(at=self.now, step=self.path, why="when")
        return (Record(event=skipped), *pass_over(self, self.step.branches))


def pass_over(place: Place, branches: tuple[Branch, ...]) -> tuple[Command, ...]:
    """The steps of branches that are not taken have an outcome too: skipped. What a list or a flow holds has none."""
    if place.step.verb in NUMBERED:
        return ()
    found: list[Command] = []
    for branch in branches:
        for step in branch.steps:
            inner = Place(
                bundle=place.bundle, state=place.state, step=step, path=join(place.scope, step.id), now=place.now
            )
            found.append(Record(event=e.StepSkipped(at=place.now, step=inner.path, why="branch")))
            found.extend(pass_over(inner, step.branches))
    return tuple(found)


def action_input(
    place: Place, action: Action, written: Mapping[str, Json], names: Mapping[str, Json]
) -> Mapping[str, Json]:
    """The action's input, evaluated, and complete."""
    return complete(place, action, place.value(dict(written), names), names)


def complete(place: Place, action: Action, whole: dict[str, Json], names: Mapping[str, Json]) -> Mapping[str, Json]:
    """An action's input out of values: a mail's template rendered into subject, text and html."""
    bundle = place.bundle
    if action.renders_template and "template" in whole:
        values = whole.pop("values", {})
        rendered = templates.render_mail(
            bundle.templates, str(whole.pop("template")), {**names, "values": values},
            language=str(whole.pop("language", None) or bundle.language), now=place.now, zone=bundle.zone,
            calendar=bundle.calendar,
        )  # fmt: skip
        whole = {**rendered, **whole}
    field = action.fan_out
    if field and isinstance(whole.get(field), list):
        items = list(dict.fromkeys(str(item) for item in whole[field]))
        if not items:
            raise EvaluationError(f"{field} is an empty list")
        whole[field] = items if len(items) > 1 else items[0]
    return whole
