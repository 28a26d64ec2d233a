"""A plan as SVG: steps from top to bottom, beside them a lane for what makes each of them good, rails for approvals.

Nothing is loaded: one text with its own styles, light, dark and for paper. There is a wide form with the lane beside
the steps, and a narrow one (telephones) with what makes a step good below it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from runner.drawing.measure import lines, width
from runner.drawing.plan import CHIPS, SIGNS, Good, Plan, Row
from runner.drawing.states import STATES
from runner.tongue import _

STYLE = (files("runner.drawing") / "drawing.css").read_text(encoding="utf-8")
"""The rules of a drawing. Its colours are variables, those of the pages."""
_LIGHT = (
    "--paper: #fff; --ground: #f5f5f3; --ink: #1c1c1a; --quiet: #5a5a55; --line: #cfcfc8; --link: #0b5394; "
    "--wait: #6a6a64; --good: #1b6e3c; --bad: #a61c1c; --ask: #8a4b00; --undo: #0f6674; --bad-ground: #fbeaea; "
    "--ask-ground: #fdf1df; --undo-ground: #e3f2f4; --good-ground: #e7f3ea; background: #fff;"
)
_DARK = (
    "--paper: #1b1c1e; --ground: #26272a; --ink: #ececea; --quiet: #a9a9a3; --line: #46474b; --link: #8ab8ee; "
    "--wait: #a3a39c; --good: #7fce9b; --bad: #f39a9a; --ask: #f0b768; --undo: #7ccbd8; --bad-ground: #3a1c1c; "
    "--ask-ground: #38290f; --undo-ground: #12323a; --good-ground: #17301f; background: #131416;"
)
_ALONE = (
    f".drawing {{ {_LIGHT} }}\n@media screen and (prefers-color-scheme: dark) {{ .drawing {{ {_DARK} }} }}\n{STYLE}"
)

WIDE, NARROW = 860, 372
HEAD, TEXT, BRANCH, SMALL, TINY = 19.0, 13.5, 12.0, 11.5, 10.5
PAD, GAP, DEEPER, RAIL, WAY, BESIDE = 11, 15, 16, 13, 22, 36
_BOLD = ("head", "id", "word", "branch")
_STRONG = ("final", "state")


def drawing(plan: Plan) -> str:
    """The picture as a file of its own, with its title and colours."""
    return _Drawing(plan, WIDE, is_alone=True).text()


def inline(
    plan: Plan,
    *,
    is_narrow: bool = False,
    link: Callable[[Row], str] | None = None,
    states: Mapping[str, str] | None = None,
) -> str:
    """The picture for a page whose stylesheet has `STYLE`. `link` gives a step's address; the same links stand
    elsewhere on the page, for whoever has no mouse or does not see it. `states`: how far a run is."""
    return _Drawing(plan, NARROW if is_narrow else WIDE, link=link, states=states).text()


@dataclass(kw_only=True, slots=True)
class _Placed:
    """A step that was drawn: where its box begins and ends."""

    row: Row
    x: float
    y: float
    low: float


class _Drawing:
    """One picture while it is drawn. `y` is how far it is; what lies under the boxes is kept apart."""

    def __init__(
        self,
        plan: Plan,
        wide: int,
        *,
        is_alone: bool = False,
        link: Callable[[Row], str] | None = None,
        states: Mapping[str, str] | None = None,
    ) -> None:
        self.plan, self.wide, self.is_alone, self.link, self.states = plan, wide, is_alone, link, states or {}
        self.tracks = _tracks(plan.rows)
        self.left = 5.0 + (RAIL * (max(self.tracks.values()) + 1) + 6 if self.tracks else 0)
        self.lane = wide * 0.35 if wide == WIDE else 0.0
        self.right = wide - 5 - (self.lane + BESIDE if self.lane else 0)
        self.y = self.low = 6.0
        """How far it is, and where the last box of the way down ends."""
        self.under: list[str] = []
        self.over: list[str] = []
        self.placed: list[_Placed] = []
        self.open: list[_Placed] = []
        self.undone = 0.0
        """Where the last thing in the lane ends."""
        self.is_begun = False
        """Whether the name of a branch stands just above."""

    def text(self) -> str:
        """All of it."""
        self._heads()
        for row in self.plan.rows:
            if row.step:
                self._step(row)
            else:
                self._branch(row)
            for _each in range(row.ends):
                self._close()
        self._ends()
        self._rails()
        title = escape(_("The flow {flow} as a picture", flow=self.plan.title))
        height = round(self.y + 6)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" viewBox="0 0 {self.wide} {height}" '
            f'width="{self.wide}" height="{height}" role="img" aria-label="{title}"><title>{title}</title>'
            f"{f'<style>{_ALONE}</style>' if self.is_alone else ''}{''.join(self.under)}{''.join(self.over)}</svg>\n"
        )

    # --- pieces ---------------------------------------------------------------------------------------------------

    def _write(
        self, x: float, y: float, text: str, room: float, look: str, size: float, most: int = 2
    ) -> tuple[str, float]:
        """A text in lines, and where it ends."""
        step = size * 1.32
        found = lines(text, room, size, most, is_bold=look in _BOLD, is_code=look == "act")
        drawn = [
            f'<text x="{x:.1f}" y="{y + size + number * step:.1f}" class="{look}">{escape(line, quote=False)}</text>'
            for number, line in enumerate(found)
        ]
        return "".join(drawn), y + len(found) * step

    def _box(self, x: float, y: float, wide: float, high: float, look: str, round_: float = 7) -> str:
        return f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="{round_:g}" class="{look}"/>'

    def _heads(self) -> None:
        room = self.wide - 16
        if self.is_alone:
            title, self.y = self._write(8, self.y, self.plan.title, room, "head", HEAD, 3)
            about, self.y = self._write(8, self.y + 2, self.plan.about, room, "note", SMALL, 3)
            self.over.append(title + about)
            self.y += 10
        top = self.y
        said, low = self._write(self.left + 14, top + 6, self.plan.begins, self.right - self.left - 28, "note", SMALL)
        self.over += [self._box(self.left, top, self.right - self.left, low - top + 9, "pill", 14), said]
        if self.lane:
            words, self.undone = self._write(
                self.right + BESIDE, top + 5, _("If a later step fails"), self.lane, "word", TEXT
            )
            self.over.append(words)
        self.y = self.low = low + 9

    def _branch(self, row: Row) -> None:
        x = self._x(row)
        said, self.y = self._write(x + 2, self.y + 9, row.text, self._end(row) - x - 4, "branch", BRANCH)
        self.over.append(said)
        self.is_begun = True

    def _x(self, row: Row) -> float:
        return self.left + row.depth * DEEPER

    def _end(self, row: Row) -> float:
        return self.right - row.depth * 7

    # --- a step ---------------------------------------------------------------------------------------------------

    def _step(self, row: Row) -> None:
        x, gap = self._x(row), 5 if self.is_begun else GAP
        if not self.is_begun:
            self._way(x + WAY, self.low, self.y + gap)
        self.is_begun = False
        top, end = self.y + gap, self._end(row)
        inside, low = self._inside(row, x + PAD + 4, top + 7, end - x - 2 * PAD - 4)
        low += 9
        box = self._box(x, top, end - x, low - top, "card")
        box += self._box(x + 4, top + 7, 3.5, low - top - 14, "side", 1.7)
        state = f" is-{self.states[row.step]}" if row.step in self.states else ""
        drawn = f'<g class="{row.look}{state}">{box}{inside}</g>'
        if self.link is not None:
            drawn = f'<a href="{escape(self.link(row))}" tabindex="-1">{drawn}</a>'
        self.over.append(drawn)
        placed = _Placed(row=row, x=x, y=top, low=low)
        self.placed.append(placed)
        if row.is_open:
            self.open.append(placed)
        bottom = self._good(row, x, end, top, low)
        self.low, self.y = low if self.lane else bottom, max(low, bottom)

    def _inside(self, row: Row, x: float, y: float, room: float) -> tuple[str, float]:
        """What stands in a step's box, and where it ends."""
        chips = [(chip, _(SIGNS[chip])) for chip in row.chips]
        chips = chips or [("", row.verb.replace("_", " "))]
        if row.step in self.states:
            chips.append(("state", _(STATES[self.states[row.step]])))
        taken = sum(width(text, TINY, is_bold=chip in _STRONG) + 18 for chip, text in chips)
        has_room = width(row.step, TEXT, is_bold=True) + taken <= room
        drawn, low = self._write(x, y, row.step, room - taken if has_room else room, "id", TEXT, 1)
        drawn += self._chips(chips, x + room - taken + 6 if has_room else x, y if has_room else low + 2)
        low += 0 if has_room else 20
        text, code = row.text if row.text != row.code else "", row.code
        if text and code and width(text, TEXT) + 10 + width(code, SMALL, is_code=True) <= room:
            said, low = self._write(x, low + 1, text, room, "", TEXT, 1)
            drawn += said.replace("</text>", f'<tspan class="act" dx="9">{escape(code, quote=False)}</tspan></text>')
            text = code = ""
        parts = [(text, "", TEXT, 3), (code, "act", SMALL, 1), *((note, "note", SMALL, 3) for note in row.notes)]
        for part, look, size, most in parts:
            said, low = self._write(x, low + 1, part, room, look, size, most) if part else ("", low)
            drawn += said
        return drawn, low

    def _chips(self, chips: Sequence[tuple[str, str]], x: float, y: float) -> str:
        drawn = ""
        for chip, text in chips:
            wide = width(text, TINY, is_bold=chip in _STRONG) + 12
            look = f"chiptext {chip}" if chip in _STRONG else "chiptext"
            drawn += self._box(x, y, wide, 16, f"chip {chip}" if chip else "chip", 8)
            at = f'x="{x + wide / 2:.1f}" y="{y + 11.7:.1f}" text-anchor="middle"'
            drawn += f'<text {at} class="{look}">{escape(text)}</text>'
            x += wide + 6
        return drawn

    def _good(self, row: Row, x: float, end: float, top: float, low: float) -> float:
        """How it is made good, beside the step or below it; where that ends."""
        good = row.good
        if good is None and row.verb != "do":
            return low
        good = good or Good(word="bare", text=_("nothing is said"))
        at, wide = (self.right + BESIDE, self.lane) if self.lane else (x + 20, end - x - 20)
        begin = top if self.lane else low + 5
        word, bottom = self._write(at + 10, begin + 6, good.text, wide - 20, "word", TEXT, 2)
        for text, look, most in ((good.action, "act", 1), *((note, "note", 3) for note in good.notes)):
            said, bottom = (
                self._write(at + 10, bottom + 1, text, wide - 20, look, SMALL, most) if text else ("", bottom)
            )
            word += said
        bottom += 8
        look = {"none": "left", "bare": "bare"}.get(good.word, "good")
        self.over.append(f'<g class="{look}">{self._box(at, begin, wide, bottom - begin, "back")}{word}</g>')
        if self.lane:
            self._undo(end, at, top, bottom)
        else:
            self.under.append(f'<path class="undo" d="M{x + 9:.1f} {low:.1f}V{begin + 14:.1f}H{at:.1f}"/>')
        return bottom

    def _undo(self, end: float, at: float, top: float, bottom: float) -> None:
        """The dashed lines: from the step to what makes it good, and from there to the one before."""
        self.under.append(f'<path class="undo" d="M{end:.1f} {top + 17:.1f}H{at - 5:.1f}"/>')
        self.under.append(f'<path class="undotip" d="M{at - 6:.1f} {top + 13:.1f}v8l6 -4z"/>')
        middle = at + self.lane / 2
        if top - self.undone > 8:
            self.under.append(f'<path class="undo" d="M{middle:.1f} {top:.1f}V{self.undone + 9:.1f}"/>')
            self.under.append(f'<path class="undotip" d="M{middle - 4:.1f} {self.undone + 9:.1f}h8l-4 -6z"/>')
        self.undone = bottom

    def _way(self, x: float, start: float, end: float) -> None:
        self.under.append(f'<path class="way" d="M{x:.1f} {start:.1f}V{end - 5:.1f}"/>')
        self.under.append(f'<path class="tip" d="M{x - 4:.1f} {end - 6:.1f}h8l-4 6z"/>')

    def _close(self) -> None:
        """A frame around what stands inside of the step that was opened last."""
        opened = self.open.pop()
        end = self._end(opened.row)
        self.y += 10
        high = self.y - opened.low + 6
        self.under.insert(0, self._box(opened.x, opened.low - 6, end - opened.x, high, "frame"))
        self.low = self.y

    # --- around them ----------------------------------------------------------------------------------------------

    def _ends(self) -> None:
        x = self.left + WAY
        self.under.append(f'<path class="way" d="M{x:.1f} {self.low:.1f}V{self.y + 12:.1f}"/>')
        self.under.append(f'<circle class="tip" cx="{x:.1f}" cy="{self.y + 16:.1f}" r="5"/>')
        at, room = (self.right + BESIDE, self.lane) if self.lane else (self.left, self.right - self.left)
        begin = self.y + 12 if self.lane else self.y + 30
        drawn, low = "", begin + 5
        for text in self.plan.fails:
            said, low = self._write(at + 12, low, text, room - 24, "note", SMALL, 3)
            drawn += said
        self.over += [self._box(at, begin, room, low - begin + 8, "pill", 10), drawn]
        self.y = max(self.y + 24, low + 8) + 8
        for chip in self.plan.chips:
            if chip == "final":
                continue
            said, self.y = self._write(
                8, self.y, f"{_(SIGNS[chip])}: {_(CHIPS[chip])}", self.wide - 16, "note", SMALL, 2
            )
            self.over.append(said)

    def _rails(self) -> None:
        """From each approval to the steps that need its yes."""
        at = {each.row.step: each for each in self.placed}
        for name, track in self.tracks.items():
            x, look = 7.0 + RAIL * track, f"rail r{track % 4}"
            asks = at[name]
            covered = [at[step] for step in asks.row.covers if step in at]
            low = max(each.y + 17 for each in covered)
            self.under.append(f'<path class="{look}" d="M{asks.x:.1f} {asks.y + 17:.1f}H{x:.1f}V{low:.1f}"/>')
            for each in covered:
                self.under.append(f'<path class="{look}" d="M{x:.1f} {each.y + 17:.1f}H{each.x - 5:.1f}"/>')
                self.over.append(f'<circle class="dot" cx="{each.x - 1:.1f}" cy="{each.y + 17:.1f}" r="4.5"/>')


def _tracks(rows: Sequence[Row]) -> dict[str, int]:
    """The rail of each approval, so that no two lie over each other."""
    number = {row.step: place for place, row in enumerate(rows) if row.step}
    busy: list[int] = []
    found: dict[str, int] = {}
    for row in rows:
        covered = [number[step] for step in row.covers if step in number]
        if not covered:
            continue
        start = number[row.step]
        track = next((place for place, until in enumerate(busy) if until < start), len(busy))
        busy[track : track + 1] = [max(covered)]
        found[row.step] = track
    return found
