"""What there is to see of a flow, row by row: the same for every form of the picture."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from runner.contract import Action
from runner.language.flow import NUMBERED, Duration, Flow, Step
from runner.telling import times, words
from runner.telling.words import action_title
from runner.tongue import _, length, marked, several

_MARKER = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")
SHORT: Mapping[str, str] = {"ms": "millisecond", "s": "second", "min": "minute"}
"""Units that are written short, and without a plural."""
MADE_GOOD: Mapping[str, str] = {
    "cancel": marked("cancel it"),
    "mark": marked("mark it for a person"),
    "correct": marked("send a correction"),
    "quarantine": marked("set it aside"),
    "hand_off": marked("a person decides"),
    "none": marked("left as it is"),
}
"""What follows if a later step fails, by the word of the compensation."""
SIGNS: Mapping[str, str] = {
    "read": marked("read"),
    "keyed": marked("keyed"),
    "lookup": marked("lookup"),
    "once": marked("once"),
    "final": marked("cannot be undone"),
}
"""What the signs on a step say: its action's class, and that it cannot be undone."""
CHIPS: Mapping[str, str] = {
    "read": marked("changes nothing"),
    "keyed": marked("a call that is repeated counts once"),
    "lookup": marked("the service can be asked what became of a call"),
    "once": marked("tried once; what is not known goes to a person"),
    "final": marked("cannot be undone"),
}
"""What each sign on a step means."""
IF_LATE: Mapping[str, str] = {
    "fail": marked("else it fails"),
    "continue": marked("else it goes on"),
    "hand_off": marked("else a person decides"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Good:
    """How a step is made good: the word, the action or name behind it, and what more is said."""

    word: str
    text: str
    action: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One step, or the name of a branch (`step` is empty). `look` is its class in the stylesheet, `ends` how many lists
    and branches end below it. `gates` are the approvals whose yes it needs, `covers` the steps that need its own."""

    text: str
    depth: int = 0
    step: str = ""
    verb: str = ""
    look: str = "branch"
    code: str = ""
    notes: tuple[str, ...] = ()
    chips: tuple[str, ...] = ()
    good: Good | None = None
    line: int = 0
    gates: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    is_open: bool = False
    """Further rows stand inside of it."""
    ends: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A whole flow."""

    flow: str
    title: str
    about: str
    begins: str
    rows: tuple[Row, ...]
    fails: tuple[str, ...] = field(default=())
    """What follows a failure."""

    @property
    def chips(self) -> tuple[str, ...]:
        """The signs that are used, in their order."""
        used = {chip for row in self.rows for chip in row.chips}
        return tuple(chip for chip in CHIPS if chip in used)


def plan_of(flow: Flow, actions: Mapping[str, Action], named: Callable[[str], str] = str) -> Plan:
    """The flow's plan in the reader's language. `named` says how a person or team is called."""
    planning = _Planning(actions, named)
    rows = list(planning.rows(flow.steps, 0))
    mode = _("draft") if flow.mode == "draft" else _("live")
    return Plan(
        flow=flow.id,
        title=words.plain(flow.title),
        about=f"{flow.id} · {mode} · {_('owner: {who}', who=named(flow.owner))}",
        begins=_("It begins with: {triggers}", triggers="; ".join(map(_trigger, flow.trigger))),
        rows=tuple(rows),
        fails=tuple(planning.failing(flow)),
    )


def _trigger(said: Mapping[str, object]) -> str:
    kind = next(iter(said))
    return kind if said[kind] is True else f"{kind} {words.plain(str(said[kind]))}"


class _Planning:
    def __init__(self, actions: Mapping[str, Action], named: Callable[[str], str]) -> None:
        self.actions = actions
        self.named = named

    def rows(self, steps: tuple[Step, ...], depth: int) -> Iterator[Row]:
        for step in steps:
            inside = list(self._inside(step, depth + 1))
            yield self._row(step, depth, is_open=bool(inside))
            yield from inside

    def _inside(self, step: Step, depth: int) -> Iterator[Row]:
        """What stands inside of a step; the last row of it says so."""
        rows: list[Row] = []
        for branch in step.branches:
            if step.verb not in NUMBERED:
                text = branch.name or (
                    _("if {condition}", condition=bare(branch.when)) if branch.when else _("otherwise")
                )
                rows.append(Row(text=text, depth=depth))
            rows += self.rows(branch.steps, depth)
        if rows:
            last = rows.pop()
            yield from rows
            yield replace(last, ends=last.ends + 1)

    def _row(self, step: Step, depth: int, *, is_open: bool) -> Row:
        action = self.actions.get(step.action)
        effect = action.effect if action is not None and step.verb in ("read", "do") else ""
        is_final = step.verb == "do" and action is not None and bool(action.cannot_undo)
        is_final = is_final and (step.compensate is None or step.compensate.word != "cancel")
        return Row(
            step=step.id, verb=step.verb, depth=depth, line=step.line, is_open=is_open,
            text=title_of(self.actions, step, self.named), code=step.action,
            look=effect or step.verb,
            notes=tuple(shown(note) for note in self._notes(step)),
            chips=((effect,) if effect else ()) + (("final",) if is_final else ()),
            good=self._good(step), gates=step.covered_by,
            covers=step.approval.covers if step.approval is not None else (),
        )  # fmt: skip

    def _notes(self, step: Step) -> Iterator[str]:
        if step.when is not None:
            yield _("only if {condition}", condition=bare(step.when))
        if step.approval is not None:
            asked = step.approval
            who = " / ".join(map(self.named, asked.by))
            yield _("asks {who}, {time}", who=who, time=duration(asked.within))
            if asked.needs > 1:
                yield several("{count} person must say yes", "{count} people must say yes", asked.needs)
            if asked.escalate_to:
                yield _("then {who} too", who=self.named(asked.escalate_to))
            yield _("for: {steps}", steps=", ".join(asked.covers))
        if step.covered_by:
            yield _("needs the yes of {steps}", steps=", ".join(step.covered_by))
        if step.unattended:
            reason = step.unattended
            is_asked = bool(step.covered_by)
            yield (
                _("else nobody is asked: {reason}", reason=reason)
                if is_asked
                else _("nobody is asked: {reason}", reason=reason)
            )
        if step.limits is not None:
            calls = several("at most {count} call", "at most {count} calls", step.limits.calls)
            yield f"{calls}, {times.span(step.limits.within)}"
        if step.verb == "wait_for" and step.within is not None:
            yield f"{duration(step.within)}, {_(IF_LATE[step.if_late])}"
        if step.say:
            yield step.say
        if step.owner:
            yield _("owner: {who}", who=self.named(step.owner))

    def _good(self, step: Step) -> Good | None:
        made = step.compensate
        if made is None:
            return None
        action, own = made.action, self.actions.get(step.action)
        if made.word == "cancel" and not action and own is not None and own.undo is not None:
            action = f"{step.action.partition('.')[0]}.{own.undo.action}"
        target = f"quarantine: {made.target}" if made.word == "quarantine" and made.target else ""
        who = self.named(made.target) if made.word == "hand_off" else ""
        notes = [who, made.reason, made.say]
        if made.approve_by:
            notes.append(_("asks {who} before", who=" / ".join(map(self.named, made.approve_by))))
        return Good(
            word=made.word, text=_(MADE_GOOD[made.word]), action=action or target,
            notes=tuple(shown(note) for note in notes if note),
        )  # fmt: skip

    def failing(self, flow: Flow) -> Iterator[str]:
        """What follows a failure, in short sentences."""
        after = flow.on_failure
        if after.do == "review":
            yield _("If a step fails, a person chooses what is done.")
        else:
            yield _("If a step fails, what was done is made good, the newest first.")
        if after.tell and after.tell != "nobody":
            yield _("{who} is told.", who=self.named(after.tell))
        if after.then_run:
            yield _("Then the flow {flow} runs.", flow=after.then_run)


def title_of(actions: Mapping[str, Action], step: Step, named: Callable[[str], str] = str) -> str:
    """What a step does, in words."""
    if step.action and step.verb != "agent":
        return action_title(actions, step.action)
    told = {
        "wait": _("Waits {time}", time=duration(step.wait)),
        "wait_for": _("Waits for {event}", event=step.event),
        "choose": _("One of these ways"),
        "parallel": _("At the same time"),
        "each": _("For each of {list}", list=bare(str(step.each))),
        "call": _("Runs the flow {flow}", flow=step.flow),
        "emit": _("Sends the event {event}", event=step.event),
        "hand_off": _("Hands over to {who}", who=named(step.hand_off_to)),
        "agent": _("An agent works with {names}", names=", ".join(branch.name for branch in step.branches)),
        "approve": _("Asks: {question}", question=step.approval.question if step.approval else ""),
    }
    return shown(told.get(step.verb, step.verb))


def shown(text: str) -> str:
    """A sentence of the author with its expressions in single braces, on one line."""
    return _MARKER.sub(r"{\1}", words.plain(text))


def bare(text: str | None) -> str:
    """An expression without its marker."""
    return words.plain(text).removeprefix("${{").removesuffix("}}").strip() if text else ""


def duration(value: Duration | str | None) -> str:
    """A wait as it is written: 3 days, 2 business days; until an expression."""
    if not isinstance(value, Duration):
        return _("until {time}", time=bare(value))
    count, unit = value.amount, value.unit
    if unit == "business_day":
        return several("{count} business day", "{count} business days", count)
    if unit == "business_hour":
        return several("{count} business hour", "{count} business hours", count)
    english = f"{unit}s" if count != 1 and unit not in SHORT else unit
    return length(count, SHORT.get(unit, unit), english)
