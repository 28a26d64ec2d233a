"""`amends handoffs`: what waits for a person, and the answers."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from runner.cli import WRONG, bulk, page, timeline, watching
from runner.cli.lists import HANDOFFS as COMMANDS
from runner.cli.place import AsJson, By, Reason, Reference, Reveal, RunId
from runner.cli.questions import answers, question_json
from runner.cli.run import read_given
from runner.errors import NotFound, NotPossible
from runner.people.operations import Order

HandOffId = Annotated[str, typer.Argument(metavar="[HANDOFF]", help="The question, where a run has more than one: h1.")]


@COMMANDS.command(help="Show a question: what is known, what was done before, what to type for each answer.")
def show(run: RunId, handoff: HandOffId = "", reveal: Reveal = False, as_json: AsJson = False) -> None:
    with watching.opened() as amends:
        story = watching.story_of(amends, run, reveal=reveal)
        people = amends.project.people
    asked = list(story.state.open_handoffs) if story.is_asked else []
    found = [each for each in asked if handoff in ("", each.id)]
    if not found:
        known = ", ".join(each.id for each in asked)
        asks = f'asks {known}, and not "{handoff}"' if known else "asks nothing of a person"
        raise NotFound(f"run {story.view.run} ({story.view.status}) {asks}")
    if as_json:
        page.say_json([question_json(story, each) for each in found])
        return
    out = page.console()
    before = (timeline.head(story), Text(), Text("What happened", style="bold"), timeline.timeline(story, out))
    page.show(*before, *timeline.ending(story, handoff), out=out)
    if people.has_file and watching.ME not in people.names():
        page.say("", f"Say who answers: --by person:… (or AMENDS_PERSON); else the log says {watching.ME}.")


@COMMANDS.command(help="Say that somebody is looking at it; the question stays open.")
def ack(run: RunId, handoff: HandOffId = "", by: By = "", as_json: AsJson = False) -> None:
    watching.act(run, Order(action="acknowledge", by=by, handoff=handoff), as_json=as_json)


@COMMANDS.command(help="Answer a question with one of the choices that `show` lists.")
def resolve(
    run: RunId,
    words_given: Annotated[
        list[str],
        typer.Argument(metavar="[HANDOFF] CHOICE [NAME=VALUE]...", help="h1 happened id=C17, or just: close."),
    ],
    external_id: Annotated[str, typer.Option("--id", help="The id that the service knows it by.")] = "",
    and_alike: Annotated[
        bool, typer.Option("--and-alike", help="The same answer to every open question of the run that is alike.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --and-alike: say which these are, do nothing.")
    ] = False,
    reason: Reason = "",
    reference: Reference = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    output = read_given([word for word in words_given if "=" in word], "", {})
    *handoff, choice = [word.replace("-", "_") for word in words_given if "=" not in word] or [""]
    with watching.opened() as amends:
        story = watching.story_of(amends, run)
    asked = [each for each in story.state.open_handoffs if handoff in ([], [each.id]) and story.is_asked]
    if asked and not any(choice in each.choices for each in asked):
        meant = ", ".join(each.id for each in asked)
        commands = [command for each in asked for command in answers(story, each).values()]
        page.complain(f'amends: "{choice}" does not answer {meant}; these do:', *(f"  {each}" for each in commands))
        raise typer.Exit(WRONG)
    order = Order(
        action=choice, by=by, handoff="".join(handoff), reason=reason, reference=reference, output=output,
        external_id=external_id or str(output.get("id", "")),
    )  # fmt: skip
    if and_alike:
        raise typer.Exit(bulk.answer_alike(run, order, dry_run=dry_run, as_json=as_json))
    if dry_run:
        raise NotPossible("--dry-run goes with --and-alike; `show` says what one question is about")
    watching.act(run, order, as_json=as_json)
