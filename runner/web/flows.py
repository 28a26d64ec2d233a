"""Flows: the list, one as a diagram with its compensations, and the form that starts a run of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from runner.contract import Action, Json
from runner.engine.starting import Wish
from runner.errors import InputsInvalid, NotFound, NotPossible, RunKeyConflict
from runner.language.called import CheckedFlow
from runner.language.fields import FieldType, shape_of, typed_value
from runner.language.flow import Duration, Flow, Step
from runner.language.nearest import did_you_mean
from runner.language.slots import Timed, schedules_of
from runner.recorded import retold
from runner.telling import words
from runner.telling.words import action_title
from runner.tongue import _, length, marked, point, several
from runner.web.console import Console, console_of
from runner.web.guard import Caller, Sees, Starts, form_of
from runner.web.render import go, page

ROUTES = APIRouter()
NEXT = 3
"""Slots of a schedule that a flow's page shows."""

SHORT: Mapping[str, str] = {"ms": "millisecond", "s": "second", "min": "minute"}
"""Units that are written short, and without a plural."""
MADE_GOOD: Mapping[str, str] = {
    "cancel": marked("cancel it"),
    "mark": marked("mark it for a person"),
    "correct": marked("send a correction"),
    "quarantine": marked("set it aside"),
    "hand_off": marked("a person decides"),
    "none": marked("left as it is"),
}
"""What follows if a later step fails, by the word of the compensation."""


@ROUTES.get("/flows")
def flows(request: Request, caller: Sees) -> Response:
    """All flows of the project, with what is wrong with them."""
    console = console_of(request)
    listed = [(each, faults(each), _kept(console, each)) for each in console.project.check()]
    return page(request, caller, "flows", flows=listed)


def _kept(console: Console, each: CheckedFlow) -> str:
    """The problem of a flow that goes on with its last good version; empty for any other."""
    active = console.driver.triggers.active.flows.get(each.flow.id if each.flow is not None else Path(each.file).stem)
    return active.problem if active is not None and active.bundle else ""


def faults(each: CheckedFlow) -> str:
    """How many problems a flow has, in words; empty for none."""
    errors, warnings = (sum(one.level == level for one in each.problems) for level in ("error", "warning"))
    if errors:
        return several("{count} error: it cannot run", "{count} errors: it cannot run", errors)
    return several("{count} warning", "{count} warnings", warnings) if warnings else ""


@ROUTES.get("/flows/{flow}")
def flow(request: Request, caller: Sees, flow: str) -> Response:
    """One flow as a diagram."""
    console = console_of(request)
    checked = _checked(console, flow)
    assert checked.flow is not None
    return page(
        request, caller, "flow", flow=checked.flow, steps=drawn(console, checked.flow), problems=checked.problems,
        is_fit=checked.is_fit_to_run, kept=_kept(console, checked),
        triggers=[", ".join(map(str, each)) for each in checked.flow.trigger],
        slots=_slots(console, checked.flow) if checked.is_fit_to_run else (),
        forms=[each["form"] for each in checked.flow.trigger if "form" in each],
    )  # fmt: skip


def _slots(console: Console, found: Flow) -> Sequence[tuple[Timed, Sequence[str]]]:
    """The next slots of each schedule, as they are shown."""
    now, triggers = console.amends.clock.now(), schedules_of(found.trigger, console.project.settings.zone)
    return [(each, [point(at, each.zone) for at in islice(each.after(now), NEXT)]) for each in triggers]


def drawn(console: Console, found: Flow) -> Sequence[dict[str, object]]:
    """The steps as the diagram shows them: nested, each with what it does and how it is made good."""
    return [_drawn(console.project.connections.actions(), step) for step in found.steps]


def _drawn(actions: Mapping[str, Action], step: Step) -> dict[str, object]:
    return {
        "id": step.id, "verb": step.verb, "title": _title(actions, step), "action": step.action,
        "when": _bare(step.when), "good": _good(step), "rule": step.rule,
        "branches": [
            {"name": branch.name or _bare(branch.when) or _("otherwise"),
             "steps": [_drawn(actions, inner) for inner in branch.steps]}
            for branch in step.branches
        ],
    }  # fmt: skip


def _title(actions: Mapping[str, Action], step: Step) -> str:
    if step.action:
        return action_title(actions, step.action)
    told = {
        "wait": _("Waits {time}", time=duration(step.wait)),
        "wait_for": _("Waits for {event}", event=step.event),
        "choose": _("One of these ways"),
        "parallel": _("At the same time"),
        "each": _("For each of {list}", list=_bare(str(step.each))),
        "call": _("Runs the flow {flow}", flow=step.flow),
        "emit": _("Sends the event {event}", event=step.event),
        "hand_off": _("Hands over to {who}", who=step.hand_off_to),
        "approve": _("Asks: {question}", question=step.approval.question if step.approval else ""),
    }
    return words.plain(told.get(step.verb, step.verb))


def _good(step: Step) -> str:
    """How a step is made good, in words; empty where there is nothing to make good."""
    made = step.compensate
    if made is None:
        return ""
    more = made.action or made.target or made.reason
    return _(MADE_GOOD[made.word]) + (f": {words.bare(more)}" if more else "")


def _bare(text: str | None) -> str:
    return words.plain(text).removeprefix("${{").removesuffix("}}").strip() if text else ""


def duration(value: Duration | str | None) -> str:
    """A wait as it is written: 3 days, 2 business days; until an expression."""
    if not isinstance(value, Duration):
        return _("until {time}", time=_bare(value))
    count, unit = value.amount, value.unit
    if unit == "business_day":
        return several("{count} business day", "{count} business days", count)
    if unit == "business_hour":
        return several("{count} business hour", "{count} business hours", count)
    english = f"{unit}s" if count != 1 and unit not in SHORT else unit
    return length(count, SHORT.get(unit, unit), english)


def _checked(console: Console, name: str) -> CheckedFlow:
    """A flow by its id. Raises NotFound with the nearest name."""
    found = {each.flow.id: each for each in console.project.again().check() if each.flow is not None}
    if name not in found:
        raise NotFound(f'there is no flow "{words.plain(name)}"; {did_you_mean(name, found, "there are")}')
    return found[name]


@ROUTES.get("/flows/{flow}/start")
def ask(request: Request, caller: Starts, flow: str) -> Response:
    """The form that starts a run."""
    return _form(request, caller, flow, {}, {})


@ROUTES.post("/flows/{flow}/start")
async def start(request: Request, caller: Starts, flow: str) -> Response:
    """Starts a run, or joins the one that has the key."""
    console, form = console_of(request), await form_of(request)
    checked = _checked(console, flow)
    assert checked.flow is not None
    given = {name: form.get(f"input.{name}", "") for name in checked.flow.inputs}
    values: dict[str, Json] = {
        name: typed_value(text, checked.flow.inputs[name]) for name, text in given.items() if text != ""
    }
    wish = Wish(
        given=values, key=form.get("key", "").strip(), starter=caller.person,
        mode="draft" if form.get("draft") else "",
    )  # fmt: skip
    try:
        started = await console.driver.start(flow, wish)
    except InputsInvalid as error:
        return _form(request, caller, flow, form, error.problems)
    except (RunKeyConflict, NotPossible) as error:
        return _form(request, caller, flow, form, {"": str(error)})
    return go(request, f"/runs/{started.run}?said={'joined' if started.joined else 'started'}")


def _fields(flow: Flow) -> dict[str, FieldType]:
    """The inputs; a yes or no is a choice of two."""
    found = {name: shape_of(kind) or FieldType(kind="any") for name, kind in flow.inputs.items()}
    both: dict[str | int, str] = {"yes": _("Yes"), "no": _("No")}
    return {name: replace(kind, choices=both) if kind.kind == "yes_no" else kind for name, kind in found.items()}


def _form(request: Request, caller: Caller, name: str, given: Mapping[str, str], wrong: Mapping[str, str]) -> Response:
    checked = _checked(console_of(request), name)
    assert checked.flow is not None
    if not checked.is_fit_to_run:
        raise NotPossible(_("Flow {flow} has errors, so it cannot run: see its page.", flow=name))
    told = {field: words.sentence(retold(what)) for field, what in wrong.items()}
    return page(
        request, caller, "start", flow=checked.flow, fields=_fields(checked.flow), given=given, wrong=told,
        code=422 if wrong else 200,
        takes_key="trigger" in checked.flow.run_key,
    )  # fmt: skip
