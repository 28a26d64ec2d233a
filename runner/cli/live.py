"""A run while it goes: the list of its steps on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from runner.cli import page, words
from runner.cli.telling import AGAIN, Line, Sign
from runner.cli.timeline import Clock, Story
from runner.core.state import Call, HandOff, State, StepState
from runner.language.bundle import Bundle
from runner.language.flow import Step

Read = Callable[[], Story]
FORWARD = ("do", "read")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One step as it stands: what it does and how far it is."""

    sign: Sign
    step: str
    what: str
    how: str


def rows(bundle: Bundle, state: State, now: int) -> list[Row]:
    """Every step in the order of the flow, then the compensations in the order they are begun."""
    found = [_forward(bundle, state, step, now) for step in bundle.flow.every_step()]
    return [*found, *(_backward(bundle, state, path, now) for path in state.undo)]


def _what(bundle: Bundle, step: Step) -> str:
    if step.action:
        return words.action_title(bundle.actions, step.action)
    return {"wait": "Waits", "hand_off": "Hands over to a person"}.get(step.verb, step.verb)


def _forward(bundle: Bundle, state: State, step: Step, now: int) -> Row:
    what = _what(bundle, step)
    known = state.steps.get(step.id)
    if known is None:
        return Row(sign="note", step=step.id, what=what, how="" if not state.root.closed else "not begun")
    calls = [
        call for name, call in state.calls.items() if name[0] == step.id and name[1] in (*FORWARD, "find", "lookup")
    ]
    sign, how = _how(known, calls, _asked(state, step.id, is_undo=False), now)
    return Row(sign=sign, step=step.id, what=what, how=how)


def _asked(state: State, path: str, *, is_undo: bool) -> HandOff | None:
    return next((each for each in state.open_handoffs if each.step == path and _is_undo(each) == is_undo), None)


def _is_undo(handoff: HandOff) -> bool:
    return handoff.kind.startswith("compensation") or handoff.kind == "request"


_ENDS: dict[str, tuple[Sign, str]] = {
    "found": ("done", "was there already"),
    "skipped": ("note", "left out"),
    "refused": ("note", "refused, the flow goes on"),
    "failed": ("failed", "failed"),
}


def _how(known: StepState, calls: list[Call], asked: HandOff | None, now: int) -> tuple[Sign, str]:
    if asked is not None:
        return "person", f"{words.plain(asked.owner)} is asked ({asked.id})"
    if known.status == "done":
        return "done", _with_id("done", calls)
    if known.status in _ENDS:
        sign, text = _ENDS[known.status]
        why = next((call.summary for call in calls if call.summary), "")
        return sign, f"{text}: {words.bare(why)}" if why and known.status == "failed" else text
    if known.due is not None:
        return "wait", f"goes on {page.left(known.due - now)}"
    return _moving(calls, now)


def _with_id(text: str, calls: list[Call]) -> str:
    ids = [words.shown_id(call.external_id) for call in calls if call.is_applied and call.external_id]
    return f"{text}, {', '.join(ids[:2])}" + (" …" if len(ids) > 2 else "") if ids else text


def _moving(calls: list[Call], now: int) -> tuple[Sign, str]:
    for call in calls:
        if call.is_open:
            return "wait", "asks" if call.attempt == 1 else f"asks, try {call.tries}"
    for call in calls:
        if call.due is not None:
            verb = "is looked up" if call.due_for == "lookup" else "asked again"
            why = f": {words.bare(call.summary)}" if call.summary else ""
            return "wait", f"{verb} {page.left(call.due - now)}{why}"
    return "wait", "asks"


def _backward(bundle: Bundle, state: State, path: str, now: int) -> Row:
    undo = state.undo[path]
    calls = [call for name, call in state.calls.items() if name[0] == path and name[1] in ("undo", "undo_lookup")]
    step = bundle.steps[path]
    word = next((call.word for call in calls if call.word), step.compensate.word if step.compensate else "hand_off")
    title = words.action_title(bundle.actions, calls[0].action) if calls else "Makes it good"
    if undo.status == "done":
        return Row(sign="good", step=path, what=title, how=_with_id(words.MADE_GOOD[word], calls))
    if undo.status == "skipped":
        return Row(sign="note", step=path, what="Stays", how=words.bare(undo.summary) or "left as it is")
    asked = _asked(state, path, is_undo=True)
    if undo.status in ("failed", "handed_off"):
        who = f"{words.plain(asked.owner)} is asked ({asked.id})" if asked else "a person is asked"
        return Row(sign="person", step=path, what=title, how=who)
    sign, how = _moving(calls, now)
    return Row(sign=sign, step=path, what=title, how=how)


def step_list(story: Story, out: Console, now: int) -> RenderableType:
    """The list as it is shown: the run's status, then a line for each step."""
    found = rows(story.bundle, story.state, now)
    table = page.grid((1, min(max((len(row.step) for row in found), default=1), 14), 30, None))
    head = Text(f"Run {story.view.run} ", style="bold") + Text(words.STATUS[story.view.status])
    for row in found:
        table.add_row(page.sign(row.sign, out), row.step, Text(row.what, style="" if row.how else "dim"), row.how)
    return Group(head, table)


class Watcher:
    """Shows a run as it goes. `turn` is to be called when something new stands in the log."""

    def __init__(self, read: Read, now: Callable[[], int], out: Console) -> None:
        self._read = read
        self._now = now
        self._out = out
        self._story: Story | None = None
        self._printed: dict[int, Line] = {}
        self._live: Live | None = None

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Shows the list until it is left; on a terminal the list is taken away again then."""
        if not self._out.is_terminal:
            yield
            return
        with Live(get_renderable=self._list, console=self._out, refresh_per_second=8, transient=True) as live:
            self._live = live
            yield
        self._live = None

    def turn(self) -> None:
        """Something new stands in the log."""
        self._story = self._read()
        if self._live is None:
            self._append(self._story)

    def _list(self) -> RenderableType:
        return step_list(self._story, self._out, self._now()) if self._story is not None else Text("…")

    def _append(self, story: Story) -> None:
        clock = Clock(story)
        for place, line in enumerate(story.lines):
            text = line.text.removesuffix(AGAIN).rstrip()
            before = self._printed.get(place)
            shown = replace(line, text=text)
            if before is not None and shown in (before, replace(before, seq=line.seq, at=line.at, until=None, then="")):
                continue
            self._printed[place] = shown
            step = f"{line.step}: " if line.step else ""
            page.say(f"{clock.time(line.at)} {page.sign(line.sign, self._out).plain} {step}{clock.text(line)}")
