"""Flows: the list, one as a diagram with its compensations, and the form that starts a run of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from fastapi import APIRouter
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from runner.contract import Action, Json
from runner.drawing.plan import MADE_GOOD, Row, bare, plan_of, title_of
from runner.drawing.svg import inline
from runner.engine.starting import Wish
from runner.errors import InputsInvalid, NotFound, NotPossible, RunKeyConflict
from runner.language.called import CheckedFlow
from runner.language.fields import FieldType, shape_of, typed_value
from runner.language.flow import Flow, Step
from runner.language.nearest import did_you_mean
from runner.language.slots import Timed, schedules_of
from runner.recorded import retold
from runner.telling import words
from runner.tongue import _, point, several
from runner.web.console import Console, console_of
from runner.web.guard import Caller, Sees, Starts, form_of
from runner.web.render import go, page, who

ROUTES = APIRouter()
NEXT = 3
"""Slots of a schedule that a flow's page shows."""


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
    checked = checked_flow(console, flow)
    assert checked.flow is not None
    actions = console.project.connections.actions()
    plan = plan_of(checked.flow, actions, lambda name: who(console, name))
    return page(
        request, caller, "flow", flow=checked.flow, steps=drawn(actions, checked.flow.steps), problems=checked.problems,
        wide=Markup(inline(plan, link=_line)), narrow=Markup(inline(plan, is_narrow=True, link=_line)),
        lines=checked.text.splitlines(),
        is_fit=checked.is_fit_to_run, kept=_kept(console, checked),
        triggers=[", ".join(map(str, each)) for each in checked.flow.trigger],
        slots=_slots(console, checked.flow) if checked.is_fit_to_run else (),
        forms=[each["form"] for each in checked.flow.trigger if "form" in each],
    )  # fmt: skip


def _line(row: Row) -> str:
    """Where a step stands in the file, further down on the page."""
    return f"#L{row.line}"


def _slots(console: Console, found: Flow) -> Sequence[tuple[Timed, Sequence[str]]]:
    """The next slots of each schedule, as they are shown."""
    now, triggers = console.amends.clock.now(), schedules_of(found.trigger, console.project.settings.zone)
    return [(each, [point(at, each.zone) for at in islice(each.after(now), NEXT)]) for each in triggers]


def drawn(actions: Mapping[str, Action], steps: Sequence[Step]) -> Sequence[dict[str, object]]:
    """The steps in words: nested, each with what it does and how it is made good."""
    return [
        {
            "id": step.id, "verb": step.verb, "title": title_of(actions, step), "action": step.action,
            "line": step.line, "when": bare(step.when), "good": _good(step),
            "branches": [
                {"name": branch.name or bare(branch.when) or _("otherwise"), "steps": drawn(actions, branch.steps)}
                for branch in step.branches
            ],
        }
        for step in steps
    ]  # fmt: skip


def _good(step: Step) -> str:
    """How a step is made good, in words; empty where there is nothing to make good."""
    made = step.compensate
    if made is None:
        return ""
    more = made.action or made.target or made.reason
    return _(MADE_GOOD[made.word]) + (f": {words.bare(more)}" if more else "")


def checked_flow(console: Console, name: str) -> CheckedFlow:
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
    checked = checked_flow(console, flow)
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
    checked = checked_flow(console_of(request), name)
    assert checked.flow is not None
    if not checked.is_fit_to_run:
        raise NotPossible(_("Flow {flow} has errors, so it cannot run: see its page.", flow=name))
    told = {field: words.sentence(retold(what)) for field, what in wrong.items()}
    return page(
        request, caller, "start", flow=checked.flow, fields=_fields(checked.flow), given=given, wrong=told,
        code=422 if wrong else 200,
        takes_key="trigger" in checked.flow.run_key,
    )  # fmt: skip
