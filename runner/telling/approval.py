"""What somebody is asked to approve, as people read it: exactly what will leave, and what happens on yes and on no."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from runner.app import Amends
from runner.contract import Action, Json
from runner.core import events as e
from runner.core.consents import UNDO
from runner.core.state import Gate
from runner.language.fields import shape_of
from runner.language.flow import Step
from runner.language.values import as_text, count, is_money, kind_of
from runner.people.approvals import Preview, items_of
from runner.people.present import Present
from runner.recorded import retold
from runner.store import notices
from runner.telling.consequences import WILL_BE, made_good
from runner.telling.odd import mixed_words, visible
from runner.telling.sent import place
from runner.telling.story import Story
from runner.telling.words import bare, called, capital, plain, sentence
from runner.tongue import _, marked, several

LONGEST_LABEL = 60
OF_TABLE: Mapping[str, str] = {
    "records.create": marked("add a record to {table}"), "records.update": marked("change a record of {table}"),
    "records.delete": marked("take a record out of {table}"),
}  # fmt: skip
"""Actions on our own tables, in the words of a button."""
_MANY = 3
"""So many things are named on a button."""
Fields = Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """What one covered step sends. `mail` has the fields of a letter, and `to` everybody it goes to; else `place` is
    where it is written. `fields` are name and value, `raw` the requests as they stand in the log. `now` is what the
    service has in these fields, `record` what else it has, `standing` what there is to say of it.
    """

    path: str
    does: str
    title: str
    mail: Mapping[str, str] | None
    to: Sequence[str]
    place: str
    fields: Fields
    files: Sequence[str]
    raw: str
    later: str
    now: Mapping[str, str]
    record: Fields
    standing: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One item of a list: its path, a cell for each column, its sheets."""

    path: str
    cells: Sequence[str]
    sheets: Sequence[Sheet]


@dataclass(frozen=True, kw_only=True, slots=True)
class Paper:
    """Everything the page of one approval says. `changes` are (where, before, now) since it was approved before;
    `wish` is the no that asks for changes, as a button, and `on_wish` what it does.
    """

    question: str
    shows: Fields
    sheets: Sequence[Sheet]
    columns: Sequence[str]
    rows: Sequence[Row]
    totals: Sequence[str]
    may_leave_out: bool
    odd: Sequence[tuple[str, str]]
    changes: Sequence[tuple[str, str, str]]
    yes: str
    no: str
    on_no: str
    wish: str
    on_wish: str
    undone: Sequence[tuple[str, str]]
    stays: Sequence[str]


def started_by(story: Story, name_of: Callable[[str], str]) -> str:
    """Who or what has started the run, a person as `name_of` says; empty where nothing is known."""
    state = story.state
    if state.starter:
        return name_of(state.starter)
    kind, name = next(((kind, one) for kind, one in state.trigger.items() if kind not in ("id", "at", "by")), ("", ""))
    named = {"name": visible(str(name))}
    return "" if not kind else _("the form {name}", **named) if kind == "form" else _("the trigger {name}", **named)


def open_gates(amends: Amends, person: str = "") -> Iterator[tuple[str, str, Gate]]:
    """(run, approval, gate) of what waits for a yes, of one person where one is named."""
    asked = amends.store.ask(notices.open_for(person)) if amends.has_log else ()
    for run, name in dict.fromkeys((one.run, one.about) for one in asked):
        gate = amends.state(run)[1].gates.get(name)
        if gate is not None and gate.status == "open" and amends.clock.now() < gate.due:
            yield run, name, gate


def question_of(amends: Amends, run: str, gate: Gate) -> str:
    """What an approval asks, without personal data."""
    event = amends.store.log(run, gate.opened_seq - 1, 1)[0].event
    personal = amends.store.personal(run)
    event = personal.event(event) if personal is not None and event is not None else event
    return plain(str(event.shown.get("question", ""))) if isinstance(event, e.ApprovalRequested) else ""


HISTORY = ("ApprovalRequested", "ApprovalDecided", "ApprovalLapsed")


def history(
    log: Iterable[e.Event], name: str, number: int
) -> tuple[e.ApprovalRequested | None, dict[str, Mapping[str, Json]], str]:
    """Of a round of an approval: the fact that asked for it, path -> input as approved before, why that lapsed.

    `log` are the facts of the types of HISTORY.
    """
    before: dict[str, Mapping[str, Json]] = {}
    asked, lapsed = None, ""
    for event in log:
        if isinstance(event, e.ApprovalRequested) and event.approval == name:
            if event.round < number:
                before = {path: one["input"] for path, one in event.shown.get("steps", {}).items()}
            elif event.round == number:
                asked = event
        elif isinstance(event, e.ApprovalDecided) and event.approval == name and event.round < number:
            before |= {path: one["input"] for path, one in event.edited.items()}
        elif isinstance(event, e.ApprovalLapsed) and event.approval == name and event.round < number:
            lapsed = sentence(retold(event.why))
    return asked, before, lapsed


def paper(
    story: Story, name: str, asked: e.ApprovalRequested, new: Preview, before: Mapping[str, Mapping[str, Json]],
    there: Mapping[str, Present] | None = None,
) -> Paper:  # fmt: skip
    """The page of the approval `name`; `before` are the inputs that were approved before it lapsed, `there` is what the
    services have now.
    """
    gate, items = story.state.gates[name], items_of(story.state.gates[name])
    step = None if name.endswith(UNDO) else story.bundle.step(name)
    words, fields = step.approval if step is not None else None, asked.shown["shows"]
    known = there or {}
    sheets = {path: _sheet(story, path, gate, new, known.get(path), is_undo=name.endswith(UNDO)) for path in new.inputs}
    in_list = {path for paths in items.values() for path in paths}
    columns, rows, totals = _table(story, gate, new, items, sheets)
    plain = [sheet for path, sheet in sheets.items() if path not in in_list]
    if_no = words.if_no if words is not None else ""
    undone = made_good(story) if if_no == "compensate" else []
    no = _no(if_no, sheets.values(), undone)
    return Paper(
        question=visible(str(asked.shown["question"])),
        shows=[
            (_label(story, path) or visible(called(path, fields)), _("not given") if shown is None else value(shown))
            for path, shown in fields.items()
        ],
        sheets=plain, columns=columns, rows=rows, totals=totals,
        may_leave_out=bool(words is not None and words.may_leave_out and rows),
        odd=mixed_words(_texts([asked.shown["shows"], new.inputs])),
        changes=list(_changes(new, before)), yes=_yes(plain, rows),
        no=no, on_no=_on_no(if_no, undone), wish=_("Ask for changes. {no}", no=no), on_wish=_on_wish(if_no),
        undone=undone, stays=story.with_effect("pending", "stands", "in_doubt") if if_no == "end" else [],
    )  # fmt: skip


def _label(story: Story, path: str) -> str:
    """What a form calls the input that a path leads to; empty where it calls it nothing."""
    shape = shape_of(story.bundle.flow.inputs.get(path.removeprefix("inputs."))) if path.startswith("inputs.") else None
    return visible(shape.label) if shape is not None else ""


def _sheet(story: Story, path: str, gate: Gate, new: Preview, there: Present | None, *, is_undo: bool) -> Sheet:
    covered, requests = gate.covers[path], new.requests[path]
    action = story.bundle.actions[covered.action]
    first = requests[0]
    letter = first if "recipient" in first and "message_id" in first else None
    to = [visible(str(body["to"])) for body in requests] if letter is not None else []
    inputs = story.state.inputs if there is None else {}
    fields = [
        ((_label(story, f"inputs.{name}") if inputs.get(name) == given else "") or name, value(given))
        for name, given in new.inputs[path].items()
        if given is not None
    ]
    raw = "\n\n".join(json.dumps(_sent(body), ensure_ascii=False, indent=2) for body in requests)
    own = first.get("own", "")
    return Sheet(
        path=path, does=_does(action, covered.action, new.inputs[path], to), title=visible(action.title),
        mail=_letter(letter) if letter is not None else None,
        to=to, place=visible(place(first)) or (_("our own table") if own else ""), fields=fields,
        files=[file_words(each) for each in (letter or {}).get("attach", ())], raw=visible(raw),
        later="" if is_undo else _later(story.bundle.step(path), action),
        **_beside(there, new.inputs[path]),
    )  # fmt: skip


def _beside(there: Present | None, given: Mapping[str, Json]) -> dict[str, Any]:
    """What the service has now, beside what is given."""
    if there is None:
        return {"now": {}, "record": (), "standing": ""}
    if there.is_there is None:
        said = _("What is there now could not be read: {why}.", why=bare(visible(retold(there.why))))
    elif not there.is_there:
        said = _("There is no such record now.")
    elif there.is_found:
        known = visible(there.external_id)
        said = _("There is one already: {id}. The step takes it as it is, and sends nothing.", id=known)
    else:
        said = ""
    now = {name: value(there.fields[name]) for name in given if name in there.fields}
    record = [
        (visible(name), value(one)) for name, one in there.fields.items() if name not in given and one is not None
    ]
    return {"now": now if there.is_there else {}, "record": record, "standing": said}


def _sent(body: Mapping[str, Json]) -> Mapping[str, Json]:
    """A request without what our key makes of it: that is another one at each sending."""
    return {name: value for name, value in body.items() if name != "message_id"}


def _letter(letter: Mapping[str, Json]) -> Mapping[str, str]:
    shown = {name: visible(str(letter.get(name, ""))) for name in ("from", "reply_to", "subject", "text")}
    return {**shown, "html": str(letter.get("html", ""))}


def _later(step: Step, action: Action) -> str:
    """What becomes of it when the run fails after it."""
    undo = step.compensate
    if undo is None or undo.word == "none":
        return visible(retold(action.cannot_undo)) or _("This cannot be taken back.")
    what = _(WILL_BE[undo.word])
    what = _("{what} ({by})", what=what, by=undo.action) if undo.action else what
    return _("If the run fails later, this {what}.", what=what)


# --- values ----------------------------------------------------------------------------------------------------------


def value(given: Json) -> str:
    """A value whole, over several lines where it needs them, with every sign that nobody sees written out."""
    kind = kind_of(given)
    if kind == "nothing":
        return "–"
    if kind == "list":
        inner = [value(each) for each in given]
        return ("\n" if any("\n" in each for each in inner) else ", ").join(inner) or "–"
    if kind == "record":
        if "sha256" in given and "name" in given:
            return file_words(given)
        return "\n".join(f"{visible(str(name))}: {value(each)}" for name, each in given.items())
    return visible(as_text(given))


def file_words(file: Mapping[str, Json]) -> str:
    """A file: receipt.pdf (120 KB)."""
    size = int(file.get("size") or 0)
    told = f"{size / 1_000_000:.1f} MB" if size >= 1_000_000 else f"{-(-size // 1000)} KB"
    return f"{visible(str(file['name']))} ({told})"


def _texts(given: Json) -> Iterator[str]:
    if isinstance(given, str):
        yield given
    elif isinstance(given, Mapping):
        for name, inner in given.items():
            yield str(name)
            yield from _texts(inner)
    elif isinstance(given, list):
        for inner in given:
            yield from _texts(inner)


def _amounts(given: Json) -> Iterator[str]:
    if is_money(given):
        yield as_text(given)
    elif isinstance(given, (Mapping, list)):
        for inner in given.values() if isinstance(given, Mapping) else given:
            yield from _amounts(inner)


# --- lists -----------------------------------------------------------------------------------------------------------


def _table(
    story: Story, gate: Gate, new: Preview, items: Mapping[str, Sequence[str]], sheets: Mapping[str, Sheet]
) -> tuple[list[str], list[Row], list[str]]:
    """One row for each item, a column for each field that any of its steps sends; the sums of amounts."""
    columns: dict[tuple[str, str], None] = {}
    for paths in items.values():
        for path in paths:
            step = path.rpartition("/")[2]
            columns.update(((step, name), None) for name, given in new.inputs[path].items() if _is_short(name, given))
    steps = {step for step, _name in columns}
    rows, sums = [], dict.fromkeys(columns, None) if items else {}
    cells: dict[tuple[str, str], list[Json]] = {column: [] for column in sums}
    for item, paths in items.items():
        found = {path.rpartition("/")[2]: new.inputs[path] for path in paths}
        given = [found.get(step, {}).get(name) for step, name in columns]
        for column, one in zip(columns, given, strict=True):
            cells[column].append(one)
        texts = ["" if one is None else value(one) for one in given]
        rows.append(Row(path=item, cells=texts, sheets=[sheets[path] for path in paths]))
    heads = [name if len(steps) == 1 else f"{step}: {name}" for step, name in columns]
    kinds = {path.rpartition("/")[2]: story.bundle.actions[gate.covers[path].action] for path in new.inputs}
    return heads, rows, [_total(cells[step, name], kinds[step].input.get(name)) for step, name in columns]


def _is_short(name: str, given: Json) -> bool:
    """Whether it fits into a cell; what does not stands in the item's sheet."""
    return given is not None and name not in ("text", "html") and (is_money(given) or not isinstance(given, Mapping))


def _total(cells: Sequence[Json], kind: Json) -> str:
    """The sum of amounts of one currency, or of a field that is a number."""
    there = [one for one in cells if one is not None]
    if there and all(map(is_money, there)) and len({one["currency"] for one in there}) == 1:
        return as_text(reduce(partial(count, "+"), there))
    if there and str(kind).startswith("number") and all(kind_of(one) == "number" for one in there):
        return as_text(reduce(partial(count, "+"), there))
    return ""


# --- what it does ----------------------------------------------------------------------------------------------------


def _does(action: Action, name: str, given: Mapping[str, Json], to: Sequence[str]) -> str:
    """The step in the words of a button: send this mail to aya@acme.example; take a payment (12,000 JPY)."""
    if to:
        whom = to[0].rpartition("<")[2].rstrip(">")
        return _("send this mail to {who}", who=whom) if len(to) == 1 else _("send {count} mails", count=len(to))
    amounts = ", ".join(dict.fromkeys(_amounts(given)))
    what = imperative(action.title) or visible(name)
    if name in OF_TABLE:
        what = _(OF_TABLE[name], table=visible(str(given.get("collection", "")))[:LONGEST_LABEL])
    return _("{what} ({by})", what=what, by=amounts) if amounts else what


def imperative(title: str) -> str:
    """The title of an action as an order: `Takes a payment` is `take a payment`. Of other languages as it is."""
    text = visible(retold(re.split(r"[.;]", title, maxsplit=1)[0])).strip()
    first, space, rest = text.partition(" ")
    if not re.fullmatch(r"[A-Z][a-z]+s", first) or first.endswith("ss"):
        return text[:LONGEST_LABEL]
    low = first.lower()
    if low.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")):
        low = low[:-2]
    else:
        low = f"{low[:-3]}y" if low.endswith("ies") else low[:-1]
    return f"{low}{space}{rest}"[:LONGEST_LABEL]


def _yes(sheets: Sequence[Sheet], rows: Sequence[Row]) -> str:
    is_one = len(sheets) == 1 and not rows
    does = [sheet.does if is_one or len(sheet.to) != 1 else _("send this mail") for sheet in sheets]
    if rows:
        each = dict.fromkeys(sheet.title or sheet.path for row in rows for sheet in row.sheets)
        what = _joined([imperative(title) for title in list(each)[:_MANY]])
        does.append(several("{what}, for {count} item", "{what}, for {count} items", len(rows), what=what))
    named, more = does[:_MANY], len(does) - _MANY
    if more > 0:
        named[-1:] = [_("{count} more", count=more + 1)]
    return _("{deed}", deed=capital(_joined(named)))


def _joined(parts: Sequence[str]) -> str:
    return _("{parts} and {last}", parts=_(", ").join(parts[:-1]), last=parts[-1]) if len(parts) > 1 else parts[-1]


def _no(if_no: str, sheets: Iterable[Sheet], undone: Sequence[object]) -> str:
    if all(sheet.mail is not None for sheet in sheets):
        does_not = _("Do not send")
    else:
        does_not = _("Do not do it")
    then = {
        "compensate": _("undo what was done") if undone else _("nothing was done yet"),
        "end": _("stop here"),
        "continue": _("go on without it"),
    }
    return _("{no}; {then}", no=does_not, then=then.get(if_no) or _("leave it as it is"))


def _on_no(if_no: str, undone: Sequence[object]) -> str:
    told = {
        "compensate": _("On a no, nothing of this is done, and what was done before is made good:")
        if undone
        else _("On a no, nothing of this is done, and the run ends."),
        "end": _("On a no, nothing of this is done, and the run ends. What was done before stays as it is."),
        "continue": _("On a no, nothing of this is done, and the run goes on without it."),
    }
    return told.get(if_no) or _("On a no, what was done stays as it is, and its owner is told.")


def _on_wish(if_no: str) -> str:
    told = _("What you write stands in the log, and the steps that follow can use it.")
    if if_no != "continue":
        told = _("What you write stands in the log and on the run's page, where whoever is told of its end reads it.")
    return " ".join((_("Asking for changes is a no too."), told, _("Nothing is changed or asked again by itself.")))


# --- edits, and what has changed -------------------------------------------------------------------------------------


def editable(story: Story, name: str) -> list[tuple[str, str, str]]:
    """What may be edited: (step's path, field, text as it is now)."""
    step, gate = None if name.endswith(UNDO) else story.bundle.step(name), story.state.gates[name]
    may_edit = step.approval.may_edit if step is not None and step.approval is not None else ()
    found = []
    for path, covered in gate.covers.items():
        for written in may_edit if path not in gate.used else ():
            of, _dot, field = written.partition(".")
            if path.rpartition("/")[2] == of:
                inner: Json = covered.input
                for key in field.split("."):
                    inner = inner[key]
                found.append((path, field, str(inner)))
    return found


def _changes(new: Preview, before: Mapping[str, Mapping[str, Json]]) -> Iterator[tuple[str, str, str]]:
    for path, was in before.items():
        now = new.inputs.get(path)
        if now is None:
            yield path, _("was to be done"), _("is not part of this any more")
            continue
        for name in dict.fromkeys([*was, *now]):
            if was.get(name) != now.get(name):
                yield f"{path}: {name}", value(was.get(name)), value(now.get(name))
    for path in new.inputs if before else ():
        if path not in before:
            yield path, _("was not part of this"), _("is new")
