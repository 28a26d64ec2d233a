"""A run as a picture over time, out of its log: a row for each step, a bar for each attempt, wait and question.

The times between things that happen are not to scale, or a wait of a week would leave a call of a second no room: each
stretch is as long as the logarithm of its time, and says how long it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from runner.core import events as e
from runner.store.facts import LogRow
from runner.telling import times, words
from runner.telling.story import Story
from runner.tongue import _, marked
from runner.web.render import part

WIDTH, ROW, LEFT, TOP = 720, 30, 150, 26
BAR = 14
NARROWEST, WIDEST = 10.0, 90.0
"""Bounds of one stretch before all are fitted to the width."""
LABELLED = 70
"""From this width on a stretch says how long it was."""

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


def picture(rows: Sequence[LogRow], story: Story) -> Markup:
    """The picture as SVG; empty for a run of which there is nothing to draw."""
    bars = list(bars_of(rows, story.view.ended_at or max(story.now, story.view.started_at)))
    if not bars:
        return Markup("")
    steps = list(dict.fromkeys(bar.step for bar in bars))
    place = _places(bars)
    drawn = [
        {
            "x": round(place[bar.start], 1), "y": TOP + steps.index(bar.step) * ROW + (ROW - BAR) // 2,
            "width": round(max(place[bar.end] - place[bar.start], 4), 1), "look": bar.look, "text": bar.text,
        }
        for bar in bars
    ]  # fmt: skip
    bottom = TOP + len(steps) * ROW
    names = [
        {"text": name or _("the run"), "y": TOP + number * ROW + ROW // 2 + 4, "line": TOP + number * ROW}
        for number, name in enumerate(steps)
    ]
    looks = dict.fromkeys(bar.look for bar in bars)
    return Markup(
        part(
            "picture", bars=drawn, names=names, stretches=_stretches(place), bottom=bottom, width=LEFT + WIDTH + 10,
            height=bottom + 8, top=TOP, left=LEFT, bar=BAR, looks=[(look, _(LOOKS[look])) for look in looks],
        )
    )  # fmt: skip


LOOKS: Mapping[str, str] = {
    "applied": marked("done"), "read": marked("read"), "refused": marked("refused"), "not-sent": marked("not sent"),
    "unknown": marked("no clear answer"), "open": marked("no answer yet"), "undo": marked("made good"),
    "wait": marked("wait"), "person": marked("a person is asked"),
}  # fmt: skip
"""What each look means, for the legend."""


def bars_of(rows: Iterable[LogRow], until: int) -> Iterable[Bar]:
    """The bars, in the order in which they begin; what has not ended goes on `until` then."""
    drawing = _Drawing()
    for row in rows:
        if row.event is not None:
            drawing.read(row.event)
    return drawing.ended(until)


class _Drawing:
    """Reads a log row by row; what has begun waits in `_open` for its end."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, ...], tuple[int, e.Event]] = {}
        self._bars: list[Bar] = []

    def read(self, event: e.Event) -> None:
        """One more fact."""
        if isinstance(event, e.CallIntended):
            self._open["call", *map(str, event.call)] = (event.at, event)
        elif isinstance(event, e.OutcomeEvent):
            self._end_call(event)
        elif isinstance(event, e.TimerSet):
            self._open["timer", event.step] = (event.at, event)
        elif isinstance(event, e.TimerFired):
            self._end("timer", event.step, at=event.at, look="wait")
        elif isinstance(event, e.HandedOff):
            self._open["question", event.handoff] = (event.at, event)
        elif isinstance(event, e.HandOffResolved):
            self._end("question", event.handoff, at=event.at, look="person")

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
            self._bars.append(_bar(name[0], begun[1], at, look))

    def ended(self, until: int) -> list[Bar]:
        """All of them."""
        looks = {"call": "open", "timer": "wait", "question": "person"}
        rest = [_bar(name[0], begun[1], max(until, begun[0]), looks[name[0]]) for name, begun in self._open.items()]
        return sorted([*self._bars, *rest], key=lambda bar: bar.start)


def _bar(kind: str, begun: e.Event, at: int, look: str) -> Bar:
    told = {
        "call": _("no answer yet"),
        "timer": _("wait"),
        "question": _("{who} is asked", who=words.plain(getattr(begun, "owner", ""))),
    }
    text = f"{begun.step or _('the run')}: {told[kind]}, {_span(begun.at, at)}"
    return Bar(step=begun.step, start=begun.at, end=at, look=look, text=text)


def _span(start: int, end: int) -> str:
    return times.span(end - start)


def _places(bars: Sequence[Bar]) -> dict[int, float]:
    """Where each moment stands, from the left."""
    moments = sorted({at for bar in bars for at in (bar.start, bar.end)})
    gaps = [after - before for before, after in pairwise(moments)]
    wide = [min(NARROWEST + 7 * math.log2(1 + gap / 50), WIDEST) for gap in gaps]
    scale = WIDTH / sum(wide) if wide else 1.0
    places, x = {}, float(LEFT)
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
