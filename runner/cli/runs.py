"""`amends runs`: see runs, and do to them what a person can do."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from runner.cli import OK, WRONG, bulk, page, place, timeline, watching
from runner.cli.lists import RUNS as COMMANDS
from runner.cli.place import AsJson, By, Reason, Reference, Reveal, RunId
from runner.cli.run import read_given
from runner.contract import Json
from runner.core.paths import is_in
from runner.errors import NotFound, NotPossible
from runner.language.nearest import did_you_mean
from runner.language.versions import changes, short
from runner.people.holds import Hold
from runner.people.operations import Order
from runner.people.rerun import wish_anew
from runner.people.versions import plan_move
from runner.telling import sent
from runner.telling.words import PROGRAM
from runner.triggers.uploads import clean_name

StepId = Annotated[str, typer.Argument(metavar="STEP", help="The step that is meant, where there is a choice.")]
Which = Annotated[str, typer.Option("--handoff", help="The question that is meant, where there is more than one: h1.")]
TooCompensate = Annotated[bool, typer.Option("--compensate", help="Make good what was done.")]

RunOrMany = Annotated[str, typer.Argument(metavar="RUN", help="The run's id; or choose many with --flow and so on.")]

WORDS: Mapping[str, tuple[Any, Any]] = {
    "compensate": (TooCompensate, False), "step": (StepId, ""), "handoff": (Which, ""), "reason": (Reason, ""),
    "reference": (Reference, ""), "by": (By, ""), "as_json": (AsJson, False), "run": (RunOrMany, ""),
    "flow": (bulk.Flow, ""), "failed_at": (bulk.FailedAt, ""), "since": (bulk.Since, ""),
    "status": (bulk.Status, None), "dry_run": (bulk.DryRun, False),
}  # fmt: skip
MANY = ("flow", "failed_at", "since", "status", "dry_run")
ORDERS: Mapping[str, tuple[str, str]] = {
    "pause": ("reason", "Begin nothing new in this run until it is resumed; an open call gets its answer."),
    "resume": ("", "Let a paused run go on."),
    "stop": (
        "compensate reason",
        "Stop a run here: what was done stays and is listed. With --compensate it is made good.",
    ),
    "compensate": ("handoff reason", "Make good what a run has done, newest first."),
    "retry": ("step handoff reason", "Try a failed step, or a failed compensation, again."),
    "skip": (
        "step handoff reason reference",
        "Go on without a step that failed; say why, or where it was done instead.",
    ),
    "take-over": (
        "handoff reason",
        "Take a run over by hand: nothing more is done by itself, and it is closed.",
    ),
}
"""Orders that are alike: which of `WORDS` each one takes, and what it does."""


@COMMANDS.command(help="Show one run: what happened, what stands, what can be done now.")
def show(
    run: RunId,
    step: Annotated[str, typer.Option("--step", help="All that happened at one step, or in one item: letters/7.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Every item of every list.")] = False,
    reveal: Reveal = False,
    as_json: AsJson = False,
) -> None:
    with watching.opened() as amends:
        whole = step or ("" if everything else None)
        story = watching.placed(amends, watching.story_of(amends, run, reveal=reveal, whole=whole))
        if step and not any(line.step == step or is_in(line.step, step) for line in story.told):
            raise NotFound(f'nothing has happened at "{step}" in run {story.view.run}')
    if as_json:
        page.say_json(timeline.as_json(story))
        return
    out = page.console()
    page.show(timeline.full(story, out), out=out)


@COMMANDS.command("file", help="Save a file of a run's inputs.")
def save(
    run: RunId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The file's name, as `show` prints it.")],
    out: Annotated[str, typer.Option("--out", help="Where to; else its name, in this folder.")] = "",
    reveal: Reveal = False,
) -> None:
    with watching.opened() as amends:
        story = watching.story_of(amends, run, reveal=reveal)
        known = {str(each["name"]): str(each["sha256"]) for each in sent.files_in(story.state.inputs)}
        if name not in known:
            has = did_you_mean(name, list(known), "there are") if known else "there is none"
            raise NotFound(f'the inputs of run {story.view.run} have no file "{name}"; {has}')
        content = amends.store.artifacts.get(known[name])
    file = Path(out or clean_name(name))
    place.write(file, content)
    page.say(f"Saved: {file}")


@COMMANDS.command(help="Watch a run until it rests; it is driven here when no other process does.")
def watch(run: RunId, as_json: AsJson = False) -> None:
    with watching.opened() as amends:
        name = amends.store.run(run).run
        view = watching.watched(amends, lambda driver: watching.follow(amends, driver, name, quiet=as_json), [name])
        raise typer.Exit(watching.tell_rest(amends, view, as_json=as_json))


def _order(name: str, takes: str, summary: str) -> None:
    """Makes the command of an order."""

    def command(run: str, as_json: bool, compensate: bool = False, **said: Any) -> None:
        many = {word: said.pop(word) for word in MANY if word in said}
        many["status"] = many.get("status") or ()
        action = "stop_compensate" if compensate else name.replace("-", "_")
        if run and any(many.values()):
            raise NotPossible("name one run, or choose many with --flow, --failed-at, --since and --status; not both")
        if run:
            watching.act(run, Order(action=action, **said), as_json=as_json)
            return
        if not any(value for word, value in many.items() if word != "dry_run"):
            raise NotPossible(
                f"name a run (`amends runs {name} RUN`), or choose many with --flow, --failed-at, --since"
            )
        raise typer.Exit(bulk.order_many(Order(action=action, **said), as_json=as_json, **many))

    taken = [("run", RunId, inspect.Parameter.empty)] if name == "take-over" else [("run", *WORDS["run"])]
    many_too = () if name == "take-over" else MANY
    taken += [(word, *WORDS[word]) for word in (*takes.split(), *many_too, "by", "as_json")]
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(word, inspect.Parameter.KEYWORD_ONLY, annotation=a, default=d) for word, a, d in taken]
    )
    command.__annotations__ = {word: annotation for word, annotation, _ in taken}
    COMMANDS.command(name, help=summary)(command)


for order, (words_taken, what) in ORDERS.items():
    _order(order, words_taken, what)


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
    with watching.opened() as amends:
        bundle, _ = amends.state(amends.store.run(run).run)
        written = bundle.find(step)
        output = bundle.actions[written.action].output if written is not None and written.action else {}
        values = read_given(fields or [], "", output)
    order = Order(
        action="happened" if happened else "did_not", by=by, step=step, handoff=handoff, reason=reason,
        reference=reference, output=values, external_id=external_id or str(values.get("id", "")),
    )  # fmt: skip
    watching.act(run, order, as_json=as_json)


@COMMANDS.command(help="Start a run anew, with the same inputs and key. Refused while anything of the old one stands.")
def rerun(
    run: RunId,
    detach: Annotated[bool, typer.Option("--detach", help="Start it and leave.")] = False,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    with watching.opened() as amends:
        view = amends.store.run(run)
        wish = wish_anew(amends.store, view, amends.state(view.run)[1], watching.person(amends, by))
        code = watching.start_and_watch(
            amends, lambda driver: driver.start(view.flow, wish), detach=detach, as_json=as_json
        )
        raise typer.Exit(OK if detach else code)


@COMMANDS.command(help="Go on with another version of the flow. Refused, with every reason, where that would be wrong.")
def move(
    run: RunId,
    to: Annotated[str, typer.Option("--to", help="latest (the file as it stands), or the beginning of a digest.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change, and why not.")] = False,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    with watching.opened() as amends:
        name = amends.store.run(run).run
        plan = plan_move(amends.project, amends.store, name, to)
    found = changes(plan.old, plan.new)
    if as_json and (dry_run or plan.reasons):
        told: dict[str, Json] = {"run": name, "old": plan.old.digest, "new": plan.new.digest}
        page.say_json(
            {**told, "changes": [asdict(change) for change in found], "kept": plan.kept, "reasons": plan.reasons}
        )
    elif not as_json and plan.old.digest != plan.new.digest:
        page.say(f"Run {name} of {plan.state.flow}, from version {short(plan.old.digest)} to {short(plan.new.digest)}:")
        said = [change.text for change in found] or ["Only comments or blanks differ."]
        page.say(*(f"  {text}" for text in (*said, *plan.kept)))
    if plan.reasons:
        if not as_json:
            page.complain("amends: it cannot be moved:", *(f"  {reason}" for reason in plan.reasons))
        raise typer.Exit(WRONG)
    if not dry_run:
        watching.act(name, Order(action="move", by=by, reference=plan.new.digest), as_json=as_json)
    elif not as_json:
        page.say(
            "Nothing speaks against it."
            if plan.old.digest != plan.new.digest
            else f"Run {name} is on version {short(plan.new.digest)} already."
        )


RecordName = Annotated[str, typer.Argument(metavar="RECORD", help="The record, as flows name it: invoice/17.")]


@COMMANDS.command(help="Hold a record: no run changes anything on it until it is released.")
def hold(record: RecordName, reason: Reason = "", by: By = "") -> None:
    _hold(record, reason, by, is_held=True)
    page.say(f"Held: no run changes anything on {record} until `{PROGRAM} runs release {record}`.")


@COMMANDS.command(help="Release a record that a person holds; what waits for it goes on.")
def release(record: RecordName, reason: Reason = "", by: By = "") -> None:
    _hold(record, reason, by, is_held=False)
    page.say(f"Released: {record}. What waits for it goes on with `{PROGRAM} serve`, or when it is watched.")


def _hold(record: str, reason: str, by: str, *, is_held: bool) -> None:
    with watching.opened() as amends:
        wish = Hold(kind="record", name=record, by=watching.person(amends, by), reason=reason, is_held=is_held)
        watching.drive(amends, lambda driver: driver.hold(wish))
