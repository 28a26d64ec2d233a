"""`amends runs`: see runs, and do to them what a person can do."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.app import Driver
from runner.cli import page, place, timeline, words
from runner.cli.place import AsJson, By, Reason, Reference, RunId
from runner.cli.run import code_of, follow, read_given, start_and_watch, tell_rest, watched
from runner.clock import shown
from runner.core import events as e
from runner.engine.starting import Wish
from runner.errors import NotFound, NotPossible
from runner.people.operations import Order, refuse_rerun
from runner.store.facts import RunFilter, RunView

COMMANDS = place.noun("See runs, and do to them what a person can do.")

StepId = Annotated[str, typer.Argument(metavar="[STEP]", help="The step that is meant, where there is a choice.")]
Which = Annotated[str, typer.Option("--handoff", help="The question that is meant, where there is more than one: h1.")]


@COMMANDS.command("list", help="List runs, newest first.")
def list_(
    flow: Annotated[str, typer.Option("--flow", help="Only runs of this flow.")] = "",
    status: Annotated[
        list[str] | None, typer.Option("--status", help="Only runs with this status; may be repeated.")
    ] = None,
    record: Annotated[str, typer.Option("--record", help="Only runs on this record: customer/aya@example.test.")] = "",
    before: Annotated[str, typer.Option("--before", help="Only runs older than this one: to page on.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    wrong = [word for word in status or [] if word not in words.STATUS]
    if wrong:
        raise NotFound(f'there is no status "{wrong[0]}"; there are {", ".join(words.STATUS)}')
    with place.opened() as amends:
        zone = place.zone_of(amends)
        wanted = RunFilter(flow=flow, status=tuple(status or ()), record=record, before=before, limit=limit)
        found = place.runs_of(amends, wanted)
        if as_json:
            page.say_json([timeline.view_json(view, zone) for view in found])
            return
        if not found:
            page.say("There are no such runs." if flow or status or record or before else "There are no runs yet.")
            return
        when = f"started ({page.offsets([view.started_at for view in found], zone)})"
        heads = ("run", "flow", "status", when, "waits for, or why")
        page.show(page.listed(heads, [_row(view, zone) for view in found], fixed=(0, 2, 3)))
        if len(found) == limit:
            page.say(f"There may be more: amends runs list --before {found[-1].run}")


def _row(view: RunView, zone: str) -> tuple[str, ...]:
    draft = " (draft)" if view.mode == "draft" and view.status != "drafted" else ""
    if view.status == "needs_person":
        why = f"{view.needs}: {view.at_step}" if view.at_step else view.needs
    elif view.status == "waiting":
        wake = f"until {shown(view.wake_at, zone)}" if view.wake_at is not None else view.waiting_for
        why = f"{view.at_step} {wake}".strip()
    else:
        why = view.summary
    if view.status == "stopped" and view.stands:
        why = f"{view.stands} stand. {why}"
    return view.run, view.flow, f"{view.status}{draft}", page.short(view.started_at, zone), words.plain(why)


@COMMANDS.command(help="Show one run: what happened, what stands, what can be done now.")
def show(run: RunId, as_json: AsJson = False) -> None:
    with place.opened() as amends:
        story = place.story(amends, run)
        if as_json:
            page.say_json(timeline.as_json(story))
            return
        out = page.console()
        page.show(timeline.full(story, out), out=out)


@COMMANDS.command(help="Watch a run until it rests; it is driven here when no other process does.")
def watch(run: RunId, as_json: AsJson = False) -> None:
    with place.opened() as amends:
        name = amends.store.run(run).run
        view = watched(amends, lambda driver: follow(amends, driver, name, quiet=as_json), [name])
        if as_json:
            page.say_json(timeline.as_json(place.story(amends, name)))
        else:
            tell_rest(amends, name)
        raise typer.Exit(code_of(view))


@COMMANDS.command(help="Begin nothing new in this run until it is resumed; an open call gets its answer.")
def pause(run: RunId, reason: Reason = "", by: By = "", as_json: AsJson = False) -> None:
    act(run, Order(action="pause", by=place.person(by), reason=reason), as_json=as_json)


@COMMANDS.command(help="Let a paused run go on.")
def resume(run: RunId, by: By = "", as_json: AsJson = False) -> None:
    act(run, Order(action="resume", by=place.person(by)), as_json=as_json)


@COMMANDS.command(help="Stop a run here: what was done stays and is listed. With --compensate it is made good.")
def stop(
    run: RunId,
    compensate_too: Annotated[bool, typer.Option("--compensate", help="Make good what was done.")] = False,
    reason: Reason = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    action = "stop_compensate" if compensate_too else "stop"
    act(run, Order(action=action, by=place.person(by), reason=reason), as_json=as_json)


@COMMANDS.command(help="Make good what a run has done, newest first.")
def compensate(run: RunId, handoff: Which = "", reason: Reason = "", by: By = "", as_json: AsJson = False) -> None:
    act(run, Order(action="compensate", by=place.person(by), handoff=handoff, reason=reason), as_json=as_json)


@COMMANDS.command(help="Try a failed step, or a failed compensation, again.")
def retry(
    run: RunId, step: StepId = "", handoff: Which = "", reason: Reason = "", by: By = "", as_json: AsJson = False
) -> None:
    act(run, Order(action="retry", by=place.person(by), step=step, handoff=handoff, reason=reason), as_json=as_json)


@COMMANDS.command(help="Go on without a step that failed; say why, or where it was done instead.")
def skip(
    run: RunId,
    step: StepId = "",
    handoff: Which = "",
    reason: Reason = "",
    reference: Reference = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    order = Order(action="skip", by=place.person(by), step=step, handoff=handoff, reason=reason, reference=reference)
    act(run, order, as_json=as_json)


@COMMANDS.command(help="Say whether a call with an unknown outcome did happen. Fields of its answer follow: id=C17.")
def settle(
    run: RunId,
    step: Annotated[str, typer.Argument(metavar="STEP", help="The step that is meant.")],
    fields: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="What the service answered.")
    ] = None,
    happened: Annotated[bool, typer.Option("--happened", help="It did happen.")] = False,
    did_not: Annotated[
        bool, typer.Option("--did-not", help="It did not happen: it is sent again, with a new key.")
    ] = False,
    external_id: Annotated[str, typer.Option("--id", help="The id that the service knows it by.")] = "",
    handoff: Which = "",
    reason: Reason = "",
    reference: Reference = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    if happened == did_not:
        raise NotPossible("say either --happened or --did-not: nobody else can know it")
    if did_not and (fields or external_id):
        raise NotPossible("what did not happen has no answer: leave the fields out")
    with place.opened() as amends:
        bundle, _ = amends.state(amends.store.run(run).run)
        written = bundle.steps.get(step)
        output = bundle.actions[written.action].output if written is not None and written.action else {}
        values = read_given(fields or [], "", output)
    order = Order(
        action="happened" if happened else "did_not", by=place.person(by), step=step, handoff=handoff, reason=reason,
        reference=reference, output=values, external_id=external_id or str(values.get("id", "")),
    )  # fmt: skip
    act(run, order, as_json=as_json)


@COMMANDS.command("take-over", help="Take a run over by hand: nothing more is done by itself, and it is closed.")
def take_over(run: RunId, handoff: Which = "", reason: Reason = "", by: By = "", as_json: AsJson = False) -> None:
    act(run, Order(action="take_over", by=place.person(by), handoff=handoff, reason=reason), as_json=as_json)


@COMMANDS.command(help="Start a run anew, with the same inputs and key. Refused while anything of the old one stands.")
def rerun(
    run: RunId,
    detach: Annotated[bool, typer.Option("--detach", help="Start it and leave.")] = False,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    with place.opened() as amends:
        view = amends.store.run(run)
        refuse_rerun(view)
        first = amends.store.log(view.run)[0].event
        if not isinstance(first, e.RunStarted) or first.continues:
            raise NotPossible(f"run {view.run} cannot be started anew: its inputs were erased, or it was a clean-up")
        again = view.rerun + 1
        wish = Wish(
            given=first.inputs, key=str(first.trigger.get("id", "")), starter=place.person(by), mode=view.mode,
            source=f"rerun {again}", rerun=again,
        )  # fmt: skip
        rested = start_and_watch(amends, lambda driver: driver.start(view.flow, wish), detach=detach, as_json=as_json)
        raise typer.Exit(0 if detach else code_of(rested))


def act(run: str, order: Order, *, as_json: bool) -> None:
    """Carries out an order, watches what follows from it, and tells how the run stands then."""
    with place.opened() as amends:
        name = amends.store.run(run).run
        found = [name]

        async def doing(driver: Driver) -> RunView:
            view = await driver.act(name, order)
            found[0] = view.run
            if view.status in ("paused", "needs_person") or view.ended_at is not None:
                return view
            return await follow(amends, driver, view.run, quiet=as_json)

        view = watched(amends, doing, found)
        if as_json:
            page.say_json(timeline.as_json(place.story(amends, view.run)))
            return
        out = page.console()
        page.show(timeline.brief(place.story(amends, view.run), out), out=out)
