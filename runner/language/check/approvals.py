"""Approvals: what is asked can be shown when it is asked (FL302), by people of whom one is not the starter (FL303)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.errors import Problem
from runner.language.check.context import Context, Placed, only_expression, parsed, rule
from runner.language.check.guards import needs_an_answer, one_runs, runs_too
from runner.language.check.letters import letters_of
from runner.language.check.steps import STARTED_BY_PEOPLE, STARTERS_CHIEF
from runner.language.expressions import NameUse, path_of
from runner.language.fields import WORDS, kind_of_field
from runner.language.fitting import value_at
from runner.language.flow import Approval
from runner.language.nearest import did_you_mean

_SENT = ("with", "find", "key")
_TEXTS = ("", "text", "email", "phone", "url")


def _gates(context: Context) -> Iterator[tuple[Placed, Approval]]:
    for placed in context.placed:
        if placed.step.approval is not None:
            yield placed, placed.step.approval


@rule("FL302")
def find_wrong_covers(context: Context) -> Iterator[Problem]:
    """A step that cannot be covered: not there, not a `do`, earlier, or not known when the people are asked."""
    for gate, approval in _gates(context):
        for number, name in enumerate(approval.covers):
            wanted = context.by_id.get(name)
            what, hint = ("", "") if name in context.source.lost else _why_not_covered(context, gate, name, wanted)
            if what:
                yield context.source.problem("FL302", (*gate.path, "covers", number), what, hint)


def _why_not_covered(context: Context, gate: Placed, name: str, wanted: Placed | None) -> tuple[str, str]:
    asks = gate.step.id
    if wanted is None:
        known = [placed.step.id for placed in context.placed if placed.step.verb == "do"]
        return f'there is no step "{name}"', did_you_mean(name, known, "do steps")
    verb = wanted.step.verb
    if wanted.step.tool_of and gate.step.tool_of != wanted.step.tool_of:
        hint = "say at the tool who is asked before each of its calls: approve: …"
        return f'"{name}" is a tool of "{wanted.step.tool_of}", and nobody knows yet what it will be given', hint
    if verb != "do":
        inside = {"call": f"put the approve step into flow {wanted.step.flow}"}
        hint = inside.get(verb, "name the do steps inside it" if wanted.step.branches else "")
        return f'"{name}" is {"an" if verb[0] in "aeiou" else "a"} {verb} step, and an approval covers do steps', hint
    if asks not in wanted.earlier:
        where = "stands above" if name in gate.earlier else "does not come after"
        return f'"{name}" {where} "{asks}", and an approval covers later steps', f'put "{asks}" above it'
    for use in _read_by(context, gate, wanted):
        other = use.path[1] if use.path[0] in ("steps", "outcome") and len(use.path) > 1 else ""
        if other == asks:
            return f'"{name}" reads what "{asks}" answers, and is itself what "{asks}" asks about', ""
        if other in context.by_id and other not in gate.earlier:
            hint = f'put "{asks}" below "{other}"'
            return f'"{name}" reads what "{other}" answers, which is not known yet when "{asks}" asks', hint
    return "", ""


def _read_by(context: Context, gate: Placed, wanted: Placed) -> Iterator[NameUse]:
    """What the content of a covered step is made of, and the lists whose items it is for."""
    mine = [outer.step.id for outer in gate.around]
    lists = {(*outer.path, "each") for outer in wanted.around if outer.step.id not in mine}
    for text in context.texts:
        is_own = text.placed is wanted and text.path[len(wanted.path) : len(wanted.path) + 1] in {
            (key,) for key in _SENT
        }
        if is_own or any(text.path[: len(path)] == path for path in lists):
            yield from text.uses
    for _, _, uses in letters_of(context, wanted):
        yield from uses


@rule("FL302")
def find_unsure_approvals(context: Context) -> Iterator[Problem]:
    """A step that runs where every approval of it may have been skipped, and no reason why nobody need be asked."""
    for name, gates in context.gates.items():
        wanted, first = context.by_id.get(name), gates[0]
        if wanted is None or wanted.step.unattended or _is_asked(context, gates, wanted) or first.step.approval is None:
            continue
        path = (*first.path, "covers", first.step.approval.covers.index(name))
        what = f'"{first.step.id}" may be skipped where "{name}" is not, and then nobody is asked'
        hint = f'give both the same when, or say at "{name}" why nobody need be asked then: unattended: …'
        yield context.source.problem("FL302", path, what, hint)


def _is_asked(context: Context, gates: list[Placed], wanted: Placed) -> bool:
    guards, branches = wanted.guards, wanted.branches
    names = [gate.step.id for gate in gates]
    if one_runs(gates, guards, branches) or any(needs_an_answer(guard, names) for guard in guards):
        return True
    if any(runs_too(gate, guards, branches) for gate in gates):
        return True
    for choose in context.placed:
        arms = {number for gate in gates for at, number in gate.branches if at == choose.step.id and not gate.step.when}
        has_otherwise = any(branch.when is None for branch in choose.step.branches)
        is_choose = choose.step.verb == "choose" and has_otherwise
        if is_choose and len(arms) == len(choose.step.branches) and runs_too(choose, guards, branches):
            return True
    return False


@rule("FL302", "FL006")
def find_wrong_edits(context: Context) -> Iterator[Problem]:
    """What may be edited is a text that a covered step sends; what may be left out is an item of its list."""
    for gate, approval in _gates(context):
        for number, written in enumerate(approval.may_edit):
            path = (*gate.path, "may_edit", number)
            yield from (
                context.source.problem(code, path, *told) for code, *told in _wrong_edit(context, approval, written)
            )
        if approval.may_leave_out:
            lists = dict(_lists_of(context, gate, approval))
            if approval.may_leave_out.strip() not in lists:
                what = f'"{approval.may_leave_out}" is no list whose items "{gate.step.id}" asks about'
                hint = did_you_mean(approval.may_leave_out, lists, "it asks about") or "cover a step inside an each"
                yield context.source.problem("FL302", (*gate.path, "may_leave_out"), what, hint)


def _wrong_edit(context: Context, approval: Approval, written: str) -> Iterator[tuple[str, str, str]]:
    name, _, field = written.partition(".")
    wanted = context.by_id.get(name)
    if name not in approval.covers:
        yield (
            "FL302",
            f'"{name}" is not covered here, so nothing of it can be edited',
            did_you_mean(name, approval.covers, "covered are"),
        )
        return
    if wanted is None:
        return
    given = value_at(context.source.data, (*wanted.path, "with"))
    value = value_at(context.source.data, (*wanted.path, "with", *field.split("."))) if field else None
    action = context.action(wanted.step.action)
    kind = kind_of_field(action.input.get(field, "any")) if action is not None else ""
    if value is None:
        known = [f"{name}.{key}" for key in given] if isinstance(given, dict) else []
        yield (
            "FL302",
            f'"{name}" sends no "{field}"' if field else f'"{name}" is a whole step',
            did_you_mean(written, known, "it sends"),
        )
    elif not isinstance(value, str) or kind not in _TEXTS:
        yield "FL006", f'"{field}" of "{name}" is {WORDS.get(kind, "no text")}, and only a text can be edited', ""


def _lists_of(context: Context, gate: Placed, approval: Approval) -> Iterator[tuple[str, str]]:
    """The lists whose items the covered steps are for: (name of the list, id of the each)."""
    mine = [outer.step.id for outer in gate.around]
    for name in approval.covers:
        for outer in context.by_id[name].around if name in context.by_id else ():
            written = outer.step.each
            source = only_expression(written) if isinstance(written, str) and outer.step.id not in mine else None
            if source is not None:
                yield source.strip(), outer.step.id


@rule("FL007")
def find_no_names(context: Context) -> Iterator[Problem]:
    """Where names stand without a marker, there is nothing else."""
    for text in context.texts:
        if text.is_name and path_of(parsed(text.text) or _NOTHING) is None:
            what, hint = f'"{text.text}" is no name', "write the name alone, without a marker: inputs.amount"
            yield context.source.problem("FL007", text.path, what, hint)


_NOTHING = parsed("1")


_ONE_MORE = (
    "name one person more or a team, or write escalate_to: person:…, who is asked where the starter is the only one"
)


@rule("FL303", "FL301")
def find_starters_alone(context: Context) -> Iterator[Problem]:
    """An approval that the starter would have to give: nobody approves what they started themselves."""
    people = context.facts.people
    has_starter = any(kind in trigger for trigger in context.flow.trigger for kind in STARTED_BY_PEOPLE)
    for gate, approval in _gates(context):
        names = [name for name in (*approval.by, approval.escalate_to) if name and name != STARTERS_CHIEF]
        if any(people.reachable(name) for name in names):
            continue
        asked = {person.id for name in names for person in people.resolve(name)}
        beside = int(STARTERS_CHIEF in approval.by)
        path = (*gate.path, "by")
        if len(asked) + beside < approval.needs:
            what = f"{approval.needs} people have to say yes, and only {len(asked) + beside} can be asked"
            yield context.source.problem("FL301", path, what, "name more people, or a team")
        elif max(len(asked) - has_starter, 0) + beside < approval.needs:
            what = "whoever starts the run cannot approve it, and then too few are left to ask"
            yield context.source.problem("FL303", path, what, _ONE_MORE)
