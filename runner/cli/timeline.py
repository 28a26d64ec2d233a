"""A run as a page: its head, what happened line by line, what stands, what a person can do now and what to type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.text import Text

from runner.cli import page
from runner.cli.lists import view_json
from runner.cli.questions import offered, question, question_json, to_all
from runner.clock import iso, shown
from runner.contract import Json
from runner.core.paths import list_of
from runner.core.state import HandOff
from runner.people.letters import nothing_was_sent
from runner.people.operations import asks_like
from runner.store.abridged import FEW
from runner.store.facts import EffectView
from runner.telling import planned, sent, times, words
from runner.telling.ahead import steps_to_come, what_it_does
from runner.telling.consequences import consequence, further, named
from runner.telling.questions import what_was_sent
from runner.telling.story import (
    Clock,
    Story,
    became,
    became_of,
    chosen,
    events_sent,
    reason,
    status_line,
    tagged,
)

STEP, DEEPER, LONGEST = 14, 4, 28
"""How wide the column of the steps may be, how much wider for each depth, and at most."""
INDENT = "  "
DEEP = 24
"""From this length on the place of a step leaves room for a short id only."""
MOST_EFFECTS, MOST_NAMED, SHOWN = 60, 12, 3
TOLD = ("seq", "sign", "step", "place", "branch", "text", "details", "depth")
"""The fields of a timeline's line that machines get, beside its time."""


def full(story: Story, out: Console) -> RenderableType:
    """The whole page: head, timeline, effects, what stands, what can be done. Of one part only what happened there."""
    start = story.view.started_at
    when = f"{times.moment(start, story.zone):%Y-%m-%d}, times {times.offset(start, story.zone)}"
    parts = [head(story), Text(), Text(f"What happened ({when})", style="bold"), timeline(story, out)]
    if signs := page.legend({line.sign for line in chosen(story)}, out):
        parts += [Text(), signs]
    if story.effects or story.folded or events_sent(story):
        parts += [Text(), Text("What was done outside, and what has become of it", style="bold"), *effects(story)]
    if any(listing.items.count > FEW for listing in story.state.lists.values()) and story.whole is None:
        shown_all = f"{words.PROGRAM} runs show {story.view.run}"
        counted = f"Ended items are counted only. All: {shown_all} --all; one: {shown_all} --step {_an_item(story)}"
        parts += [Text(), Text(counted, style="dim")]
    return Group(*parts, *ending(story))


def brief(story: Story, out: Console, since: int = 0) -> RenderableType:
    """What is shown when a run that was watched has come to rest: what the log tells after the entry `since`."""
    told = timeline(story, out, since=since)
    return Group(Text(f"Run {story.view.run} ", style="bold") + status(story), told, *ending(story))


_STYLES = {
    "succeeded": "green", "drafted": "green", "compensated": "cyan", "failed": "red", "stopped": "red",
    "needs_person": "yellow", "paused": "yellow",
}  # fmt: skip


def status(story: Story) -> Text:
    """The status in words and in its colour, with what is waited for."""
    return Text(status_line(story), style=_STYLES.get(story.view.status, ""))


# --- head ------------------------------------------------------------------------------------------------------------


def head(story: Story) -> RenderableType:
    """Which run this is, how it stands and whose it is."""
    view, zone = story.view, story.zone
    table = page.grid((8, None))
    table.add_row("Run", Text(view.run, style="bold"))
    table.add_row("Flow", f"{view.flow}: {words.plain(view.title)}" + (" (draft)" if view.mode == "draft" else ""))
    table.add_row("Status", status(story))
    if why := reason(story):
        table.add_row("Why", why)
    if story.state.inputs:
        inputs = sent.pairs(story.state.inputs)
        table.add_row("Inputs", f"{inputs} (whole: --json)" if "…" in inputs else inputs)
    by = f", by {words.plain(view.starter)}" if view.starter else ""
    table.add_row("Started", f"{shown(view.started_at, zone)}{by}")
    if view.ended_at is not None:
        table.add_row("Ended", f"{shown(view.ended_at, zone)}, after {times.span(view.ended_at - view.started_at)}")
    if view.run_key and view.run_key != view.run:
        again = f" (run again, {view.rerun})" if view.rerun else ""
        table.add_row("Key", f"{words.plain(view.run_key)}{again}")
    if view.record:
        held = "; other runs on it wait until this one is settled" if story.state.holds_record else ""
        table.add_row("Record", f"{words.plain(view.record)}{held}")
    starter = " (whoever started it from the terminal)" if view.owner == "person:me" else ""
    table.add_row("Owner", f"{words.plain(view.owner)}{starter}")
    if view.continues:
        table.add_row("After", f"it cleans up after run {view.continues}")
    if story.successor:
        table.add_row("Anew", f"it was started anew as run {story.successor}")
    if story.state.outputs:
        table.add_row("Result", sent.pairs(story.state.outputs))
    return table


# --- timeline --------------------------------------------------------------------------------------------------------


def timeline(story: Story, out: Console, *, ahead: bool = False, since: int = 0) -> RenderableType:
    """What happened, one line for each thing. With `ahead` the steps still to come follow, cut to fit the terminal."""
    clock = Clock(story)
    lines: list[tuple[str, words.Sign | None, str, str]] = []
    for line in chosen(story, ahead=ahead, since=since):
        lines.append((clock.time(line.at), line.sign, INDENT * line.depth + line.name, clock.text(line)))
        lines += [] if ahead else [("", None, "", text) for text in line.details]
    if ahead:
        todo = [] if story.state.root.closed else steps_to_come(story.bundle.flow.steps, story.state)
        names = story.bundle.flow.branch_names()
        lines += [("", "note", s.id, tagged(names.get(s.id, ""), what_it_does(story.bundle, s))) for s in todo]
        lines = lines[-max(out.height - 3, 5) :]
    deepest = max((line.depth for line in story.told), default=0)
    widest = min(STEP + DEEPER * deepest, LONGEST)
    longest = min(max((cell_len(step) for _, _, step, _ in lines), default=0), widest)
    table = page.grid((clock.width, 1, longest, None))
    for at, sign, step, text in lines:
        shown_text = Text(text, "" if at else "dim", no_wrap=ahead, overflow="ellipsis" if ahead else "fold")
        table.add_row(Text(at, style="dim"), page.sign(sign, out) if sign else "", step, shown_text)
    return table


# --- effects ---------------------------------------------------------------------------------------------------------


def effects(story: Story) -> Iterator[RenderableType]:
    """Every effect with its outside id and what has become of it; those of ended items of long lists as counts."""
    longest = 30 if max((len(story.place(each.path)) for each in story.effects), default=0) <= DEEP else 12
    rows = [
        (story.place(each.path), _did(story, each), words.shown_id(each.external_id, longest),
         became(story, each))
        for each in (story.effects if story.whole is not None else story.effects[:MOST_EFFECTS])
    ]  # fmt: skip
    rows += [
        (story.place(each.path), each.action, f"{each.count:,} in all", became_of(story, each)) for each in story.folded
    ]
    rows += [(place, event, "", now) for place, event, now in events_sent(story)]
    yield page.listed(("step", "action", "outside id", "now"), rows, fixed=(0, 1, 2))
    if story.whole is None and len(story.effects) > MOST_EFFECTS:
        yield Text(f"and {len(story.effects) - MOST_EFFECTS} more (--all)")


def _did(story: Story, effect: EffectView) -> str:
    to = story.receiver(effect.path, effect.part)
    return f"{effect.action} {to}" if to else effect.action


# --- what can be done ------------------------------------------------------------------------------------------------


def ending(story: Story, only: str = "") -> Iterator[RenderableType]:
    """What stands, what is not known, what can be done now (of the questions `only` this one); a draft says so last."""
    if not story.went_well and story.view.status not in ("failed", "compensated"):
        stands, by_hand, left = (
            _some(story.with_effect(*each)) for each in (("pending", "stands"), ("by_hand",), ("left",))
        )
        yield Text()
        if by_hand:
            yield Text(f"By hand:    {', '.join(by_hand)}.")
        if left:
            yield Text(f"Not undone: {', '.join(left)}.", style="yellow")
        unknown = [*story.unknown, *story.with_effect("in_doubt")]
        if stands or not (by_hand or left):
            yield Text(f"Stands now: {', '.join(stands) or 'nothing'}.")
        if unknown:
            yield Text(f"Not known:  {', '.join(_some(unknown))}.", style="yellow")
    if story.is_asked:
        yield from _questions(story, only)
    gates, orders = {} if only or story.state.has_ended else story.state.gates, typed_orders(story)
    asks = [name for name, gate in gates.items() if gate.status == "open"]
    if orders or asks:
        yield Text()
        yield Text("You can also" if story.is_asked else "You can", style="bold")
        for name in asks:
            command = f"{words.PROGRAM} approvals show {story.view.run}{f' {name}' if len(asks) > 1 else ''}"
            yield from offered("see what is asked", "It prints what to type for a yes or a no.", command)
        for choice, command in orders.items():
            yield from offered(named(story, choice), consequence(story, choice), command)
    if story.view.mode == "draft":
        yield from () if only else _planned(story)
        yield Text()
        yield Text(nothing_was_sent(story.state), style="bold")


def _planned(story: Story) -> Iterator[RenderableType]:
    """What going live would send, filled in."""
    found = planned.would_be_sent(story)
    if found:
        yield Text()
        yield Text("What going live would send", style="bold")
    most = len(found) if story.whole is not None else MOST_EFFECTS
    for each in found[:most]:
        by = f" ({each.action})" if each.action else ""
        yield Text(f"  {each.place}: {each.what}{by}")
        rows = [(f"    {name}:", text) for name, text in each.fields]
        yield page.grid_of(rows)
        yield from (Text(f"    {text}", style="dim") for text in (each.undo, *each.drafts) if text)
    if len(found) > most:
        yield Text(f"  and {len(found) - most} more (--all)")


def _questions(story: Story, only: str) -> Iterator[RenderableType]:
    """The open questions (`only` this one); of many that are alike one as a whole."""
    yield Text()
    yield Text(_waiting(story))
    for alike in _alike(story, only):
        whole = len(alike) if len(alike) <= SHOWN else 1
        for handoff in alike[:whole]:
            yield Text()
            yield from question(story, handoff)
        if rest := alike[whole:]:
            yield Text()
            yield Text(f"and {len(rest)} more ask the same, each shown by `{_shown(story, rest[0])}`:", style="bold")
            yield page.grid_of(_short(story, each) for each in rest[:MOST_EFFECTS])
        yield from to_all(story, alike)


def _alike(story: Story, only: str) -> list[list[HandOff]]:
    """The open questions, those that ask the same of the same step of different items together."""
    found: dict[object, list[HandOff]] = {}
    for handoff in story.state.open_handoffs:
        if only in ("", handoff.id):
            found.setdefault(asks_like(handoff), []).append(handoff)
    return list(found.values())


def _waiting(story: Story) -> str:
    """Whether the run rests until the open questions are answered."""
    count = len(story.state.open_handoffs)
    if story.view.status != "needs_person":
        goes = "is paused" if story.state.is_paused else "goes on"
        return f"The rest of the run {goes}; {times.counted(count, 'question')} to answer:"
    return "The run waits for this answer:" if count == 1 else f"The run waits for all of these {count} answers:"


def _short(story: Story, handoff: HandOff) -> tuple[str, str, str, str]:
    """One question in one line: its id, where it stands, the outside id, what was sent."""
    known = what_was_sent(story, handoff)
    return f"  {handoff.id}", story.place(handoff.step), known.get("Id", ""), known.get("With", "")


def _shown(story: Story, handoff: HandOff) -> str:
    return f"{words.PROGRAM} handoffs show {story.view.run} {handoff.id}"


def _some(found: list[str]) -> list[str]:
    """The first of them, and how many more there are."""
    return found if len(found) <= MOST_NAMED else [*found[:MOST_NAMED], f"and {len(found) - MOST_NAMED:,} more"]


def typed_orders(story: Story) -> dict[str, str]:
    """The orders that fit beside the answers to open questions, and what to type for each."""
    run = story.view.run
    wordings = {"stop_compensate": f"stop {run} --compensate", "take_over": f"take-over {run}"}
    return {choice: f"{words.PROGRAM} runs {wordings.get(choice, f'{choice} {run}')}" for choice in further(story)}


# --- the same for machines -------------------------------------------------------------------------------------------


def as_json(story: Story) -> dict[str, Json]:
    """The run, its timeline, effects and open questions as JSON; times are ISO 8601 in the reader's zone."""
    return {
        **view_json(story.view, story.zone),
        "outputs": dict(story.state.outputs),
        "timeline": [
            {"at": iso(line.at, story.zone), **{name: getattr(line, name) for name in TOLD}} for line in story.lines
        ],
        "lists": {path: _list_json(story, path) for path in story.state.lists},
        "effects": [_effect_json(story, effect) for effect in story.effects],
        "effects_of_ended_items": [{**asdict(each), "became": became_of(story, each)} for each in story.folded],
        "inputs": dict(story.state.inputs),
        "would_be_sent": [planned.as_json(each) for each in planned.would_be_sent(story)],
        "unknown": story.unknown,
        "questions": [question_json(story, each) for each in story.state.open_handoffs if story.is_asked],
        "can_do": typed_orders(story),
    }


def _list_json(story: Story, path: str) -> dict[str, Json]:
    listing = story.state.lists[path]
    return {
        "items": listing.items.count, "begun": listing.started, "done": listing.done, "under_way": len(listing.open),
        "set_aside": [
            {"step": f"{path}/{number}", "name": each.name, "reason": each.reason}
            for number, each in sorted(listing.aside.items())
        ],
    }  # fmt: skip


def _an_item(story: Story) -> str:
    """An item, as it can be asked for."""
    lists = [path for path, listing in story.state.lists.items() if listing.items.count > FEW]
    return next((line.step for line in story.told if list_of(line.step) in lists), f"{lists[0]}/1")


def _effect_json(story: Story, effect: EffectView) -> dict[str, Json]:
    given, known = story.input_of(effect.path, "do", effect.part), story.reference(effect.path, "do", effect.part)
    return {**asdict(effect), "input": dict(given), "reference": known, "became": became(story, effect)}
