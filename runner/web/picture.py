"""A run as a picture over time, out of its log: a row for each step, a bar for each attempt, wait and question.

Rows of a list, an item or a called flow stand under its own; what happened inside a long list is one bar.

The times between things that happen are not to scale, or a wait of a week would leave a call of a second no room: each
stretch is as long as the logarithm of its time, and says how long it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from runner.core import events as e
from runner.core.paths import is_in
from runner.store.abridged import FEW
from runner.telling import times, words
from runner.telling.story import Story
from runner.tongue import _, marked
from runner.web.render import part

TOP, BAR = 26, 14
DEEPER = 12
"""How much further in a row begins that stands under another."""
MOST = 40
"""Rows that are drawn."""
NARROWEST, WIDEST = 10.0, 90.0
"""Bounds of one stretch before all are fitted to the width."""
LABELLED = 70
"""From this width on a stretch says how long it was."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """How wide the bars are and where they begin, how high a row is, and where its name and its bar stand in it."""

    width: int
    left: int
    row: int
    name: int
    bar: int


WIDE = Form(width=720, left=150, row=30, name=19, bar=8)
NARROW = Form(width=334, left=6, row=42, name=16, bar=22)
"""On telephones the name of a row stands above its bars, and nothing is scrolled sideways."""

KINDS: Mapping[str, str] = {
    "do": marked("call"), "read": marked("reading"), "find": marked("look-up"), "lookup": marked("look-up"),
    "undo": marked("making good"), "undo_lookup": marked("look-up"),
}  # fmt: skip
RESULTS: Mapping[type[e.Event], tuple[str, str]] = {
    e.CallApplied: ("applied", marked("done")),
    e.CallRefused: ("refused", marked("refused")),
    e.CallNotSent: ("not-sent", marked("not sent")),
    e.CallUnknown: ("unknown", marked("no clear answer")),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """Something that took its time. `look` is its class in the stylesheet; `text` what it says of itself."""

    step: str
    start: int
    end: int
    look: str
    text: str


def picture(story: Story, form: Form = WIDE) -> Markup:
    """The picture as SVG; empty for a run of which there is nothing to draw."""
    until = story.view.ended_at or max(story.now, story.view.started_at)
    bars = bars_of(story.events, until, lambda step: row_of(story, step))
    steps = in_tree(bar.step for bar in bars)
    shown = list(steps)[:MOST]
    bars = [bar for bar in bars if bar.step in shown]
    if not bars:
        return Markup("")
    place = _places(bars, form)
    drawn = [
        {
            "x": round(place[bar.start], 1), "y": TOP + shown.index(bar.step) * form.row + form.bar,
            "width": round(max(place[bar.end] - place[bar.start], 4), 1), "look": bar.look, "text": bar.text,
        }
        for bar in bars
    ]  # fmt: skip
    bottom = TOP + len(shown) * form.row
    names = [
        {
            "text": _named(story, step), "x": 4 + DEEPER * steps[step], "y": TOP + number * form.row + form.name,
            "line": TOP + number * form.row,
        }
        for number, step in enumerate(shown)
    ]  # fmt: skip
    looks = dict.fromkeys(bar.look for bar in bars)
    return Markup(
        part(
            "picture", bars=drawn, names=names, stretches=_stretches(place), bottom=bottom,
            width=form.left + form.width + 10, height=bottom + 8, top=TOP, bar=BAR,
            looks=[(look, _(LOOKS[look])) for look in looks], more=len(steps) - len(shown),
        )
    )  # fmt: skip


LOOKS: Mapping[str, str] = {
    "applied": marked("done"), "read": marked("read"), "refused": marked("refused"), "not-sent": marked("not sent"),
    "unknown": marked("no clear answer"), "open": marked("no answer yet"), "undo": marked("made good"),
    "wait": marked("wait"), "person": marked("a person is asked"), "scope": marked("several steps"),
}  # fmt: skip
"""What each look means, for the legend."""


def row_of(story: Story, step: str) -> str:
    """The row that a step is drawn in: its own, or that of the long list around it."""
    whole = story.whole or ""
    if whole and (step == whole or is_in(step, whole) or is_in(whole, step)):
        return step
    long = (each for each, listing in story.state.lists.items() if listing.items.count > FEW)
    return next((each for each in long if is_in(step, each)), step)


def in_tree(steps: Iterable[str]) -> dict[str, int]:
    """The rows in their order, each under the one that it stands in; how deep each one is."""
    first = {step: number for number, step in enumerate(dict.fromkeys(steps))}
    above = {step: [first[path] for path in _paths(step) if path in first] for step in first}
    return {step: len(above[step]) - 1 for step in sorted(first, key=lambda step: above[step])}


def _paths(step: str) -> list[str]:
    parts = step.split("/")
    return ["/".join(parts[: number + 1]) for number in range(len(parts))]


def _named(story: Story, step: str) -> str:
    return story.place(step).rpartition(" › ")[2] or _("the run")


def bars_of(events: Iterable[e.Event], until: int, row: Callable[[str], str] = str) -> list[Bar]:
    """The bars, in the order in which they begin; what has not ended goes on `until` then. `row` says where a step is
    drawn: of those that are drawn elsewhere only the questions are.
    """
    drawing = _Drawing(row)
    for event in events:
        drawing.read(event)
    return drawing.ended(until)


class _Drawing:
    """Reads a log row by row; what has begun waits in `_open` for its end."""

    def __init__(self, row: Callable[[str], str]) -> None:
        self._row = row
        self._open: dict[tuple[str, ...], tuple[int, e.Event]] = {}
        self._bars: list[Bar] = []

    def read(self, event: e.Event) -> None:
        """One more fact."""
        if isinstance(event, e.HandedOff):
            self._open["question", event.handoff] = (event.at, event)
        elif isinstance(event, e.HandOffResolved):
            self._end("question", event.handoff, at=event.at, look="person")
        elif self._row(event.step) == event.step:
            self._read_step(event)

    def _read_step(self, event: e.Event) -> None:
        if isinstance(event, e.CallIntended):
            self._open["call", *map(str, event.call)] = (event.at, event)
        elif isinstance(event, e.OutcomeEvent):
            self._end_call(event)
        elif isinstance(event, e.TimerSet):
            self._open["timer", event.step] = (event.at, event)
        elif isinstance(event, e.TimerFired):
            self._end("timer", event.step, at=event.at, look="wait")
        elif isinstance(event, e.ScopeStarted) and event.kind not in ("parallel", "turn", "tool"):
            self._open["scope", event.step] = (event.at, event)
        elif isinstance(event, e.ScopeEnded | e.ItemSetAside):
            self._end("scope", event.step, at=event.at, look="scope")

    def _end_call(self, event: e.OutcomeEvent) -> None:
        begun = self._open.pop(("call", *map(str, event.call)), None)
        self._open.pop(("timer", event.step), None)
        look, result = RESULTS.get(type(event), ("unknown", ""))
        if begun is None or not result:
            return
        look = "read" if event.purpose not in ("do", "undo") and look == "applied" else look
        look = "undo" if event.purpose == "undo" and look == "applied" else look
        text = f"{event.step}: {_(KINDS.get(event.purpose, event.purpose))}, {_(result)}, {_span(begun[0], event.at)}"
        self._bars.append(Bar(step=event.step, start=begun[0], end=event.at, look=look, text=text))

    def _end(self, *name: str, at: int, look: str) -> None:
        begun = self._open.pop(name, None)
        if begun is not None:
            self._bars.append(self._bar(name[0], begun[1], at, look))

    def ended(self, until: int) -> list[Bar]:
        """All of them."""
        looks = {"call": "open", "timer": "wait", "question": "person", "scope": "scope"}
        rest = [
            self._bar(name[0], begun[1], max(until, begun[0]), looks[name[0]]) for name, begun in self._open.items()
        ]
        return sorted([*self._bars, *rest], key=lambda bar: bar.start)

    def _bar(self, kind: str, begun: e.Event, at: int, look: str) -> Bar:
        text = f"{begun.step or _('the run')}: {_told(kind, begun)}, {_span(begun.at, at)}"
        return Bar(step=self._row(begun.step), start=begun.at, end=at, look=look, text=text)


def _told(kind: str, begun: e.Event) -> str:
    told = {
        "call": _("no answer yet"),
        "timer": _("wait"),
        "question": _("{who} is asked", who=words.plain(getattr(begun, "owner", ""))),
        "scope": _("several steps"),
    }
    return told[kind]


def _span(start: int, end: int) -> str:
    return times.span(end - start)


def _places(bars: Sequence[Bar], form: Form) -> dict[int, float]:
    """Where each moment stands, from the left."""
    moments = sorted({at for bar in bars for at in (bar.start, bar.end)})
    gaps = [after - before for before, after in pairwise(moments)]
    wide = [min(NARROWEST + 7 * math.log2(1 + gap / 50), WIDEST) for gap in gaps]
    scale = form.width / sum(wide) if wide else 1.0
    places, x = {}, float(form.left)
    for moment, width in zip(moments, [*wide, 0.0], strict=True):
        places[moment] = x
        x += width * scale
    return places


def _stretches(place: Mapping[int, float]) -> Sequence[dict[str, object]]:
    """The stretches that are wide enough to say how long they were."""
    moments = sorted(place)
    return [
        {
            "x": round((place[before] + place[after]) / 2, 1),
            "text": _span(before, after),
            "line": round(place[after], 1),
        }
        for before, after in pairwise(moments)
        if place[after] - place[before] >= LABELLED
    ]
