"""A failure table in words: what fails, what is made good in which order, what is still there, who knows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from runner.contract import Json
from runner.drill.places import EVERY
from runner.drill.rows import ENDED_WELL, Amend, Row, Standing, Told
from runner.drill.situations import Choice, Situation
from runner.drill.table import Drill, Unreached
from runner.drill.ways import CALM
from runner.language import values
from runner.recorded import retold
from runner.telling import words
from runner.telling.words import Sign
from runner.tongue import _, marked, several

WAYS: Mapping[str, str] = {
    "nothing": marked("nothing goes wrong"),
    "found": marked("found, not made"),
    "several": marked("several records match"),
    "refused": marked("refused"),
    "not_sent": marked("cannot be sent"),
    "lost_happened": marked("answer lost, it had happened"),
    "lost_did_not": marked("answer lost, it had not happened"),
    "lost_for_ever": marked("answer lost, nothing can be looked up"),
    "no_answer": marked("no answer"),
    "not_found": marked("nothing found"),
    "killed": marked("engine dies"),
    "killed_happened": marked("engine dies, it had happened"),
    "killed_did_not": marked("engine dies, it had not happened"),
    "part_refused": marked("all but the first refused"),
    "part_lost": marked("all but the first without an answer"),
    "no": marked("approval refused"),
    "late": marked("approval late"),
    "never": marked("event never comes"),
    "answer_nobody_answers": marked("nobody answers"),
    "answer_compensate": marked("answer: make good"),
    "answer_close": marked("answer: close the run"),
    "undo_no": marked("undo: approval refused"),
    "undo_late": marked("undo: approval late"),
    "undo_refused": marked("undo: refused"),
    "undo_not_sent": marked("undo: cannot be sent"),
    "undo_lost_happened": marked("undo: answer lost, it had happened"),
    "undo_lost_did_not": marked("undo: answer lost, it had not happened"),
    "undo_lost_for_ever": marked("undo: answer lost, nothing can be looked up"),
    "undo_killed_happened": marked("undo: engine dies, it had happened"),
    "undo_killed_did_not": marked("undo: engine dies, it had not happened"),
    "stop_here": marked("stopped here by hand"),
    "stop_compensate": marked("stopped and made good by hand"),
}
"""Each way of failing."""
NOBODY = marked("NOBODY")
LEGEND = marked("A step with ? may be there or not, which only a person can find out. Undo: what makes the step good.")
LEGEND_SILENCE = marked("Nothing can be looked up: asked later what became of it, the service does not answer either.")

_GOOD: Mapping[str, str] = {
    "cancel": marked("{step} cancelled"),
    "mark": marked("{step} marked"),
    "correct": marked("{step} corrected"),
    "quarantine": marked("{step} quarantined"),
    "hand_off": marked("{step} settled by {who}"),
    "none": marked("{step} left as it is"),
}
_BAD: Mapping[str, str] = {
    "failed": marked("{step} NOT made good"),
    "in_doubt": marked("{step} in doubt"),
    "handed": marked("{step} by hand: {who}"),
    "declined": marked("{step} not approved"),
    "left": marked("{step} left as it is"),
    "waits": marked("{step} waits for {who}"),
}
_THERE: Mapping[str, str] = {
    "stands": "{step}",
    "in_doubt": marked("{step}?"),
    "marked": marked("{step} (marked)"),
    "corrected": marked("{step} (corrected)"),
    "quarantined": marked("{step} (quarantined)"),
    "left": marked("{step} (left, as the flow says)"),
    "twice": marked("{step} TWICE"),
}
_KNOWS: Mapping[str, str] = {
    "asked": marked("asked: {who}"),
    "approves": marked("asked for a yes: {who}"),
    "told": marked("told: {who}"),
    "stopped": "{who}",
}
_PEOPLE: Mapping[str, str] = {
    "person:me": marked("the starter"),
    "person:operator": marked("who stopped it"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One row in words. `sign` says at a glance how it is; `where` are its situations, empty where it holds in all."""

    step: str
    what: str
    good: str
    there: str
    knows: str
    end: str
    where: str
    sign: Sign
    why: str = ""

    @property
    def fails(self) -> str:
        """What fails, in which situations, and where it then fails by itself."""
        what = f"{self.what} ({self.where})" if self.where else self.what
        return _("{what}; then fails {why}", what=what, why=self.why) if self.why else what


def line_of(row: Row, *, is_all: bool) -> Line:
    """A row in words; `is_all`: it holds in every situation that comes by the step."""
    end = _("was not through in time") if row.end == "exhausted" else _(words.STATUS_NAMES.get(row.end, row.end))
    if row.follows:
        end += _("; then {flow} is run", flow=row.follows)
    there = [there_of(one) for one in row.standing]
    return Line(
        step=_placed(row.step, row.item),
        what=what_of(row),
        good=", ".join(good_of(one) for one in row.amends) or "-",
        there=", ".join(there) or (_("as the flow means it") if row.end in ENDED_WELL else _("nothing")),
        knows=_(NOBODY) if row.is_untold else ", ".join(dict.fromkeys(map(knows_of, row.told))) or "-",
        end=end,
        where="" if is_all else " ".join(letter(number) for number in row.situations),
        sign=_sign_of(row),
        why=why_of(row),
    )


def what_of(row: Row) -> str:
    """The way of failing, with what fails later."""
    what = _(WAYS[row.way])
    if row.after == "stop":
        return _("{what} (after a stop)", what=what)
    return _("{what} (after {step} failed)", what=what, step=_placed(row.after, "")) if row.after else what


def why_of(row: Row) -> str:
    """`refund: must be a number`: where and why a run failed that was not made to fail there."""
    return f"{_placed(row.failed_at, '')}: {words.bare(retold(row.why))}" if row.why else ""


def good_of(amend: Amend) -> str:
    """One compensation."""
    step, who = _placed(amend.step, amend.item), _who(amend.by)
    text = _GOOD[amend.word] if amend.became == "done" else _BAD[amend.became]
    return _(text, step=step, who=who)


def there_of(one: Standing) -> str:
    """One effect that is outside."""
    return _(_THERE[one.how], step=_placed(one.step, one.item))


def knows_of(one: Told) -> str:
    """Somebody who knows."""
    return _(_KNOWS[one.how], who=_who(one.who))


def _sign_of(row: Row) -> Sign:
    if row.is_untold or row.end == "exhausted" or (row.way == CALM and row.end not in ENDED_WELL):
        return "failed"
    if row.end in ENDED_WELL:
        return "done"
    if any(told.how in ("asked", "approves") for told in row.told):
        return "person"
    return "good" if row.amends else "note"


def _placed(pattern: str, item: str) -> str:
    """`letters › reminder [2]`: a step, in the second item."""
    return " › ".join(pattern.split("/")) + (f" [{item}]" if item else "")


def _who(name: str) -> str:
    parts = [_(_PEOPLE[one]) if one in _PEOPLE else one.partition(":")[2] or one for one in name.split(" or ")]
    return _(" or ").join(parts)


# --- what stands around the table ----------------------------------------------------------------------------------


def lines_of(drill: Drill) -> list[Line]:
    """Every row in words."""
    came: dict[str, set[int]] = {}
    for row in drill.rows:
        came.setdefault(row.step, set()).update(row.situations)
    return [line_of(row, is_all=set(row.situations) == came[row.step]) for row in drill.rows]


def calm_of(drill: Drill) -> list[Line]:
    """The runs in which nothing goes wrong, in words."""
    return [line_of(row, is_all=len(row.situations) == len(drill.situations)) for row in drill.calm]


def shown_lines(drill: Drill) -> list[Line]:
    """The table as it is shown, calm runs first; ways of one step that come to the same are one line."""
    merged: dict[Line, list[str]] = {}
    for line in (*calm_of(drill), *lines_of(drill)):
        merged.setdefault(replace(line, what=""), []).append(line.what)
    return [replace(line, what=_("; ").join(what)) for line, what in merged.items()]


def legends(lines: Sequence[Line]) -> list[str]:
    """What has to be known to read these lines."""
    silence = _(WAYS["lost_for_ever"])
    is_so = {LEGEND: any("?" in line.there for line in lines), LEGEND_SILENCE: any(silence in ln.what for ln in lines)}
    return [_(legend) for legend, wanted in is_so.items() if wanted]


def letter(number: int) -> str:
    """What a situation is called in the table: A, B … Z, A1 …"""
    return chr(65 + number % 26) + (str(number // 26) if number >= 26 else "")


def situation_line(number: int, situation: Situation) -> str:
    """`B: amount = 500001, order found`."""
    told = [choice_text(one) for one in situation.choices]
    first = _("inputs of {file}", file=situation.name) if situation.name else _("made-up inputs") if not told else ""
    return f"{letter(number)}: " + ", ".join([first, *told] if first else told)


def choice_text(choice: Choice) -> str:
    """One value that is not the made-up one."""
    kind, *rest = choice.origin
    name = ".".join("›".join(one.split("/")) for one in rest if one != EVERY)
    if choice.is_count:
        return several("{name} has {count} item", "{name} has {count} items", int(choice.value), name=name)
    if kind == "outcome":
        return f"{name}: {choice.value}"
    value = {True: _("yes"), False: _("no")}[choice.value] if isinstance(choice.value, bool) else choice.value
    return f"{name} = {words.plain(values.shown(value) if values.is_money(value) else value)}"


def unreached_line(one: Unreached) -> str:
    """A step that was not drilled, and why."""
    step, _sign, number = one.step.partition("#" if one.why == "branch" else "*")
    place = _placed(step, "")
    if one.why == "branch":
        return _("{step}: way {number} was never taken", step=place, number=int(number) + 1)
    if one.why == "list":
        return _("{step}: never with {count} items", step=place, count=number)
    if one.why == "failed":
        return _("{step}: it fails before it begins", step=place)
    if one.why == "before":
        return _("{step}: every run ended before it", step=place)
    return _("{step}: no made-up value makes its condition so", step=place)


def verdict(drill: Drill) -> str:
    """What it comes to: whether it fails by itself, and what all that can go wrong leaves."""
    return " ".join([*map(_by_itself, drill.failing), _of_rows(drill)])


def _by_itself(row: Row) -> str:
    where = " ".join(letter(number) for number in row.situations)
    why = why_of(row) or _(words.STATUS_NAMES.get(row.end, row.end))
    return _("With nothing going wrong, the flow fails by itself ({where}): {why}.", where=where, why=why)


def _of_rows(drill: Drill) -> str:
    rows = len(drill.rows)
    if drill.left_out and not drill.untold:
        return _("{rows} rows, and {count} were left out for lack of time.", rows=rows, count=drill.left_out)
    if not rows:
        return _("{flow} has no step that can fail.", flow=drill.flow)
    if drill.untold:
        return several(
            "Of {rows} rows, {count} leaves something outside of which nobody is told.",
            "Of {rows} rows, {count} leave something outside of which nobody is told.", len(drill.untold), rows=rows,
        )  # fmt: skip
    return several(
        "{count} row: whatever is left outside, somebody is told of it.",
        "{count} rows: whatever is left outside, somebody is told of it.", rows,
    )  # fmt: skip


HINT = marked(
    "Name somebody who is told: on_failure: { do: compensate, tell: team:x }, or an owner for the step; for an event, "
    "say `within`."
)


FAILS_BY_ITSELF = marked(
    "Mend the flow; or, where only the made-up values are to blame, give inputs that are real, or the connector's "
    "action a `sample`."
)


def hints(drill: Drill) -> list[str]:
    """The ways out of what the verdict names."""
    return [_(hint) for hint, is_so in ((FAILS_BY_ITSELF, drill.failing), (HINT, drill.untold)) if is_so]


def as_json(drill: Drill, when: str = "") -> dict[str, Json]:
    """The whole table as data; `says` is each row in words. Inputs that somebody gave are named and not repeated: they
    may be about persons.
    """
    rows, calm = (
        [{**asdict(row), "untold": row.is_untold, "says": asdict(line)} for row, line in zip(told, lines, strict=True)]
        for told, lines in ((drill.rows, lines_of(drill)), (drill.calm, calm_of(drill)))
    )
    return {
        "flow": drill.flow, "title": drill.title, "digest": drill.digest, "when": when, "rows": rows, "calm": calm,
        "situations": [
            {"inputs": {} if one.name else dict(one.inputs), "name": one.name,
             "differs": [choice_text(each) for each in one.choices]}
            for one in drill.situations
        ],
        "unreached": [{"step": one.step, "why": unreached_line(one)} for one in drill.unreached],
        "untold": len(drill.untold), "failing": len(drill.failing), "left_out": drill.left_out, "runs": drill.trials,
        "seconds": round(drill.seconds, 3),
    }  # fmt: skip
