"""`amends approvals`: what waits for somebody's yes, exactly what would leave, and the decision."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Literal

import typer
from rich.console import RenderableType
from rich.text import Text

from runner.app import Amends
from runner.cli import OK, page, place, watching
from runner.cli.place import AsJson, RunId
from runner.clock import iso, shown
from runner.contract import Json
from runner.core import events as e
from runner.core.state import Gate
from runner.driver import Driver
from runner.errors import NotFound, NotPossible
from runner.outside import ProjectOutside
from runner.people.access import digest_of
from runner.people.approvals import Decision, gate_of, preview
from runner.people.desk import ProjectDesk
from runner.store import access
from runner.store.facts import RunView
from runner.telling import approval, times, words
from runner.telling.approval import Paper, Sheet
from runner.telling.story import Story

COMMANDS = place.noun("What waits for somebody's yes: list, show, approve, reject.")
SHORT = 12
"""Signs of a hash that stand for the whole; fewer are not taken."""

Name = Annotated[
    str, typer.Argument(metavar="[APPROVAL]", help="The approval, where a run asks for more than one: go.")
]
Token = Annotated[
    str, typer.Option("--token", envvar="AMENDS_TOKEN", help="Your own token (`amends people token NAME` makes it).")
]
Hash = Annotated[
    str, typer.Option("--hash", help="The hash that `show` prints: what you looked at is what you decide.")
]
Comment = Annotated[str, typer.Option("--comment", help="What you want to say to it; it stands in the log.")]
Why = Annotated[str, typer.Option("--reason", help="Why not, in one sentence; it stands in the log.")]
Changes = Annotated[
    str | None, typer.Option("--changes", help="Why not, as what should be changed: a no that asks for changes.")
]
LeftOut = Annotated[
    list[str] | None, typer.Option("--leave-out", metavar="ITEM", help="An item that is not to be done: rows/2.")
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One open approval of a run. `event` is the fact that asked for it, `why` what made the one before lapse."""

    name: str
    story: Story
    gate: Gate
    event: e.ApprovalRequested
    paper: Paper
    why: str


@COMMANDS.command("list", help="List what waits for a yes, the most urgent first.")
def list_all(
    who: Annotated[str, typer.Option("--for", help="Only what is asked of this person: person:tom.")] = "",
    as_json: AsJson = False,
) -> None:
    with watching.opened() as amends:
        zone = place.zone_of(amends)
        found = sorted(
            approval.open_gates(amends, watching.person(amends, who) if who else ""), key=lambda one: one[2].due
        )
        rows = [(run, name, gate, approval.question_of(amends, run, gate)) for run, name, gate in found]
    if as_json:
        page.say_json([
            {"run": run, "approval": name, "question": question, **_as_json(gate, zone)}
            for run, name, gate, question in rows
        ])  # fmt: skip
    elif not rows:
        page.say("Nothing waits for a yes.")
    else:
        until = f"until ({times.offsets([gate.due for _, _, gate, _ in rows], zone)})"
        lines = [
            (run, name, " or ".join(gate.by), times.short(gate.due, zone), question)
            for run, name, gate, question in rows
        ]
        page.show(page.listed(("run", "", "for", until, "question"), lines, fixed=(0, 1, 3)))
        page.say("", f"Look at one: {words.PROGRAM} approvals show {rows[0][0]} {rows[0][1]}")


def _as_json(gate: Gate, zone: str) -> dict[str, Json]:
    return {
        "round": gate.round, "hash": gate.hash, "by": list(gate.by), "asked": list(gate.asked), "needs": gate.needs,
        "yes": [yes.by for yes in gate.yes], "due": iso(gate.due, zone),
    }  # fmt: skip


@COMMANDS.command(help="Show exactly what would leave, what follows on a yes and on a no, and what to type.")
def show(run: RunId, name: Name = "", as_json: AsJson = False) -> None:
    with watching.opened() as amends:
        asked = _asked(amends, run, name)
    if as_json:
        steps = {path: dict(covered.input) for path, covered in asked.gate.covers.items()}
        told = asdict(asked.paper)
        page.say_json(
            {"run": asked.story.view.run, "approval": asked.name, **_as_json(asked.gate, asked.story.zone), **told}
            | {"inputs": steps}
        )
        return
    page.show(*_whole(asked), *_to_type(asked))


def _asked(amends: Amends, run: str, name: str) -> Asked:
    """The open approval that is meant, as it stands. Raises NotFound, NotPossible."""
    story = watching.story_of(amends, run, reveal=True)
    state, now = story.state, amends.clock.now()
    opened = [each for each, gate in state.gates.items() if gate.status == "open" and now < gate.due]
    if not name and len(opened) != 1:
        asks = f"asks for {', '.join(opened)}; name one" if opened else "asks for no yes"
        raise NotFound(f"run {state.run} ({story.view.status}) {asks}")
    name = name or opened[0]
    gate = gate_of(state, name)
    if name not in opened:
        raise NotPossible(f"approval {name} of run {state.run} is not open any more ({gate.status})")
    event, before, why = approval.history(amends.store.events_of(state.run, *approval.HISTORY), name, gate.round)
    if event is None or not event.shown:
        raise NotPossible("what was asked here was erased")
    outside = ProjectOutside(amends.project, amends.store)
    connect = partial(outside.connector, story.bundle)
    new = preview(story.bundle, state, name, {}, connect, ProjectDesk(lambda: amends.project))
    told = approval.paper(story, name, event, new, {path: was for path, was in before.items() if path not in gate.used})
    return Asked(name=name, story=story, gate=gate, event=event, paper=told, why=why)


# --- what is shown ---------------------------------------------------------------------------------------------------


def _whole(asked: Asked) -> Iterator[RenderableType]:
    gate, story, told = asked.gate, asked.story, asked.paper
    again = f", asked for the {gate.round}. time" if gate.round > 1 else ""
    draft = " DRAFT: nothing will be sent." if story.view.mode == "draft" else ""
    yield Text(f"Run {story.view.run} of {story.view.flow}, approval {asked.name}{again}.{draft}")
    yield Text(told.question, style="bold")
    table = page.grid((9, None))
    needs = f" ({gate.needs} of them must say yes)" if gate.needs > 1 else ""
    table.add_row("For", " or ".join(map(words.plain, gate.by)) + needs)
    table.add_row("Until", f"{shown(gate.due, story.zone)}; silence is a no")
    table.add_row("Started", approval.started_by(story, words.plain))
    table.add_row("Hash", gate.hash[:SHORT])
    for yes in gate.yes:
        table.add_row("Yes", f"{yes.by} {yes.comment}".strip())
    yield table
    if asked.why or told.changes:
        yield Text(f"\nIt was approved before, and is asked again: {asked.why}")
        yield from (Text(f"  {where}: {was} → {now}") for where, was, now in told.changes)
    if told.shows:
        yield Text("")
        yield from (Text(f"{path}: {value}") for path, value in told.shows)
    for sheet in told.sheets:
        yield from _sheet(sheet)
    if told.rows:
        yield Text("")
        yield page.listed(("", *told.columns), [(row.path, *row.cells) for row in told.rows])
        yield Text(f"{len(told.rows)} in all" + "".join(f", {total}" for total in told.totals if total))
        yield from (part for row in told.rows for sheet in row.sheets for part in _sheet(sheet))
    yield from (Text(f"Look closely: {where}: {what}", style="yellow") for where, what in told.odd)
    yield Text(f"\n{told.on_no}")
    yield from (Text(f"  {where}: {what}") for where, what in told.undone)
    yield from (Text(f"  stays: {each}") for each in told.stays)
    yield Text(told.on_wish)


def _sheet(sheet: Sheet) -> Iterator[RenderableType]:
    """One request in words: a letter as it will be read, anything else with its fields and as it is sent."""
    yield Text(f"\n{sheet.path}: {sheet.does}", style="bold")
    if sheet.mail is not None:
        heads = {"From": sheet.mail["from"], "To": ", ".join(sheet.to), "Reply to": sheet.mail["reply_to"]}
        heads |= {"Subject": sheet.mail["subject"], "Files": ", ".join(sheet.files)}
        yield from (Text(f"  {name:<9}{text}") for name, text in heads.items() if text)
        yield from (Text(f"  | {line}".rstrip()) for line in sheet.mail["text"].splitlines())
    else:
        yield Text(f"  {sheet.place}")
        yield from (Text(f"  {name}: {value}") for name, value in sheet.fields)
        yield from (Text(f"    {line}", style="dim") for line in sheet.raw.splitlines())
    yield Text(f"  {sheet.later}")


def _to_type(asked: Asked) -> Iterator[RenderableType]:
    where = f"{asked.story.view.run} {asked.name} --hash {asked.gate.hash[:SHORT]}"
    is_own = is_own_draft(asked.story)
    yield Text("\nIt is a draft of yours, so without a token:" if is_own else "\nWith your own token in AMENDS_TOKEN:")
    told = asked.paper
    for text, command in (
        (told.yes, f"approve {where}"), (told.no, f'reject {where} --reason "…"'),
        (told.wish, f'reject {where} --changes "…"'),
    ):  # fmt: skip
        yield Text(f"  {text}")
        yield Text(f"    {words.PROGRAM} approvals {command}", no_wrap=True, overflow="ignore")


# --- deciding --------------------------------------------------------------------------------------------------------


@COMMANDS.command(help="Say yes to exactly what `show` prints.")
def approve(
    run: RunId, name: Name = "", token: Token = "", hash_: Hash = "", comment: Comment = "", leave_out: LeftOut = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    _decide(run, name, "yes", token, hash_, comment, leave_out or (), as_json=as_json)


@COMMANDS.command(help="Say no. What follows then is what `show` prints.")
def reject(
    run: RunId, name: Name = "", token: Token = "", hash_: Hash = "", reason: Why = "", changes: Changes = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    if reason and changes is not None:
        raise NotPossible("say it once: --changes takes the place of --reason")
    if (changes or reason) in ("…", "..."):
        option = "--changes" if changes else "--reason"
        raise NotPossible(f'the "…" of {option} stands for your own words; write them in its place')
    answer: Literal["no", "changes"] = "no" if changes is None else "changes"
    _decide(run, name, answer, token, hash_, changes or reason, (), as_json=as_json)


def _decide(
    run: str, name: str, answer: Literal["yes", "no", "changes"], token: str, seen: str, comment: str,
    leave_out: Sequence[str], *, as_json: bool,
) -> None:  # fmt: skip
    with watching.opened() as amends:
        is_own = is_own_draft(watching.story_of(amends, run))
        by = watching.ME if is_own else _whose(amends, token)
        asked = _asked(amends, run, name)
        if not seen:
            _confirm(asked, answer)
        elif len(seen) < SHORT or not asked.gate.hash.startswith(seen):
            raise NotPossible(
                f"what would be sent is not what has the hash {seen}; look at it with "
                f"`{words.PROGRAM} approvals show {asked.story.view.run} {asked.name}`"
            )
        left_out = tuple(
            path for path in asked.gate.covers if any(path == item or path.startswith(f"{item}/") for item in leave_out)
        )
        decision = Decision(
            approval=asked.name, round=asked.gate.round, hash=asked.gate.hash, answer=answer, by=by,
            proof="" if is_own else "token", comment=comment, left_out=left_out or tuple(leave_out),
        )  # fmt: skip
        _record(amends, asked.story.view.run, decision, as_json=as_json)


def _record(amends: Amends, run: str, decision: Decision, *, as_json: bool) -> None:
    before = amends.store.log_end(run).seq

    async def doing(driver: Driver) -> RunView:
        await driver.decide(run, decision)
        return await watching.follow(amends, driver, run, quiet=True)

    view = watching.watched(amends, doing, [run])
    watching.tell_rest(amends, view, as_json=as_json, since=before)
    raise typer.Exit(OK)


def is_own_draft(story: Story) -> bool:
    """A draft that whoever has the terminal started in no name of people.yaml: it is theirs to decide."""
    return story.view.mode == "draft" and story.state.starter == watching.ME


def _whose(amends: Amends, token: str) -> str:
    """The person whose token it is. Raises NotPossible."""
    found = amends.store.ask(access.find(digest_of(token), amends.clock.now())) if token else None
    if found is None or found.kind != "token":
        why = "this token opens nothing (any more)" if token else "deciding needs your own token (AMENDS_TOKEN)"
        raise NotPossible(f"{why}; `{words.PROGRAM} people token NAME` makes one")
    return found.person


def _confirm(asked: Asked, answer: str) -> None:
    """Shows it and asks, where somebody sits there. Raises NotPossible where nobody does, or they do not want it."""
    if not sys.stdin.isatty():
        raise NotPossible(
            f"say what you have looked at: `{words.PROGRAM} approvals show {asked.story.view.run} {asked.name}` prints "
            "it with its hash, for --hash"
        )
    page.show(*_whole(asked))
    wanted = {"yes": asked.paper.yes, "no": asked.paper.no}.get(answer, asked.paper.wish)
    if not typer.confirm(f"\n{wanted}?"):
        raise NotPossible("nothing was decided")
