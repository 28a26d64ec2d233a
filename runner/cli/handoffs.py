"""`amends handoffs`: what waits for a person, and the answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from runner.cli import page, place, timeline, words
from runner.cli.place import AsJson, By, Reason, Reference, RunId
from runner.cli.run import read_given
from runner.cli.runs import act
from runner.clock import iso
from runner.errors import NotFound
from runner.people.operations import CHOICES, Order
from runner.store.facts import HandOffView

COMMANDS = place.noun("What waits for a person, and the answers.")

HandOffId = Annotated[str, typer.Argument(metavar="[HANDOFF]", help="The question, where a run has more than one: h1.")]


@COMMANDS.command("list", help="List open questions, oldest first.")
def list_(
    run: Annotated[str, typer.Option("--run", help="Only those of this run.")] = "",
    owner: Annotated[str, typer.Option("--owner", help="Only those for this person or team.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="The answered ones too.")] = False,
    as_json: AsJson = False,
) -> None:
    with place.opened() as amends:
        zone = place.zone_of(amends)
        name = amends.store.run(run).run if run else ""
        found = [
            each for each in place.handoffs_of(amends, name, open_only=not everything) if owner in ("", each.owner)
        ]
        if as_json:
            page.say_json([{**asdict(each), "opened_at": iso(each.opened_at, zone)} for each in found])
            return
        if not found:
            page.say("Nothing waits for a person.")
            return
        since = f"since ({page.offsets([each.opened_at for each in found], zone)})"
        heads = ("run", "", "step", "for", since, "what it is about")
        page.show(page.listed(heads, [_row(each, zone) for each in found], fixed=(0, 1, 4)))
        page.say("", f"Look at one: amends handoffs show {found[0].run} {found[0].handoff}")


def _row(each: HandOffView, zone: str) -> tuple[str, ...]:
    about = words.plain(each.summary)
    if each.status == "resolved":
        about = f"answered: {words.ANSWERED.get(each.choice, each.choice) or 'by the end of the run'}"
    elif each.status == "acknowledged":
        about = f"(seen) {about}"
    return each.run, each.handoff, each.step or "the run", each.owner, page.short(each.opened_at, zone), about


@COMMANDS.command(help="Show a question: what is known, what was done before, what to type for each answer.")
def show(run: RunId, handoff: HandOffId = "", as_json: AsJson = False) -> None:
    with place.opened() as amends:
        story = place.story(amends, run)
        found = [each for each in story.state.open_handoffs if handoff in ("", each.id)]
        if not found or story.state.has_ended:
            known = ", ".join(each.id for each in story.state.open_handoffs)
            asked = f"asks {known}" if known and not story.state.has_ended else "asks nothing of a person"
            raise NotFound(
                f"run {story.view.run} ({story.view.status}) {asked}" + (f', and not "{handoff}"' if known else "")
            )
        if as_json:
            page.say_json([timeline.question_json(story, each) for each in found])
            return
        out = page.console()
        before = (timeline.head(story), Text(), Text("What happened", style="bold"), timeline.timeline(story, out))
        page.show(*before, *timeline.ending(story), out=out)


@COMMANDS.command(help="Say that somebody is looking at it; the question stays open.")
def ack(run: RunId, handoff: HandOffId = "", by: By = "", as_json: AsJson = False) -> None:
    act(run, Order(action="acknowledge", by=place.person(by), handoff=handoff), as_json=as_json)


@COMMANDS.command(help="Answer a question with one of the choices that `show` lists.")
def resolve(
    run: RunId,
    words_given: Annotated[
        list[str],
        typer.Argument(metavar="[HANDOFF] CHOICE [NAME=VALUE]...", help="h1 happened id=C17, or just: close."),
    ],
    external_id: Annotated[str, typer.Option("--id", help="The id that the service knows it by.")] = "",
    reason: Reason = "",
    reference: Reference = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    fields = [word for word in words_given if "=" in word]
    said = [word.replace("-", "_") for word in words_given if "=" not in word]
    choice = said[-1] if said else ""
    if choice not in CHOICES or len(said) > 2:
        raise NotFound(f'"{choice}" is no answer; answers are {", ".join(CHOICES)}')
    output = read_given(fields, "", {})
    order = Order(
        action=choice, by=place.person(by), handoff=said[0] if len(said) == 2 else "", reason=reason,
        reference=reference, output=output, external_id=external_id or str(output.get("id", "")),
    )  # fmt: skip
    act(run, order, as_json=as_json)
