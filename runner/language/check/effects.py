"""Effects: how a step is made good (FL202), what cannot be taken back (FL203, FL204), how often it is tried (FL205)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.contract import Action, Retry
from runner.errors import Problem
from runner.language.check.context import Context, Placed, rule
from runner.language.check.guards import exclude, values_of
from runner.language.flow import RetryWords
from runner.language.load import steps_in
from runner.language.source import Path

ONCE_TRIES = 4
REASON = "say why nobody need be asked: unattended: …"
_CAN_FAIL = frozenset({"read", "do", "approve", "wait_for", "call", "choose", "each", "parallel"})
_DEFAULT = Retry(tries=ONCE_TRIES, pause=10_000)
_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "min"), (1_000, "s"))


@rule("FL202")
def find_no_compensation(context: Context) -> Iterator[Problem]:
    """A step that changes the world and does not say how it is made good."""
    for placed in context.placed:
        step, action = placed.step, context.action(placed.step.action)
        is_read = action is not None and action.effect == "read"
        if step.verb == "do" and step.compensate is None and not is_read and not context.is_broken(placed.path):
            hint = "cancel, mark, correct, quarantine or hand_off; or none with a reason"
            if action is not None and action.undo is not None:
                hint = f"{step.action} has an undo of its own: compensate: cancel"
            what = f'"{step.id}" changes the world and does not say how it is made good'
            yield context.source.problem("FL202", (*placed.path, "do"), what, hint, level="live")


@rule("FL203")
def find_unasked(context: Context) -> Iterator[Problem]:
    """A step or compensation that cannot be undone: nobody is asked, and no reason why not."""
    lost = [said for _, said in steps_in(context.source.data) if said.get("id") in context.source.lost]
    unread = {name for said in lost if isinstance(said.get("covers"), list) for name in said["covers"]}
    for placed in context.placed:
        step, why = placed.step, context.cannot_be_undone(placed.step)
        is_asked = step.id in context.gates or step.id in unread
        if why and not step.unattended and not is_asked and not context.is_broken(placed.path):
            what = f'"{step.id}" cannot be undone, and nobody is asked before it'
            hint = f"{why} Put an approve step before it that covers it, or {REASON}"
            if step.tool_of:
                hint = f"{why} Say who is asked before each of its calls: approve: team:…"
            yield context.source.problem("FL203", (*placed.path, "do"), what, hint, level="live")
        words, path = step.compensate, (*placed.path, "compensate")
        named = context.action(words.action) if words is not None and words.word != "cancel" else None
        if words is None or named is None or words.unattended or words.approve_by or context.is_broken(path):
            continue
        if named.cannot_undo:
            what = f'the compensation of "{step.id}" cannot be undone, and nobody is asked before it'
            hint = f"{named.cannot_undo} Name who is asked: approve_by: …, or {REASON}"
            yield context.source.problem("FL203", (*path, words.word), what, hint, level="live")


@rule("FL203")
def find_unsaid(context: Context) -> Iterator[Problem]:
    """A step that only a person makes good, of an action whose connector does not say whether it can be undone."""
    for placed in context.placed:
        step, action = placed.step, context.action(placed.step.action)
        is_left = step.verb == "do" and step.compensate is not None and step.compensate.word == "hand_off"
        if not is_left or action is None or action.own or action.open_input or action.undo or action.cannot_undo:
            continue
        what = f'only a person makes "{step.id}" good, and nothing says whether {step.action} can be undone'
        hint = f'say it in its connector at "{action.name}": cannot_undo: why not, or undo: how'
        yield context.source.problem("FL203", (*placed.path, "do"), what, hint, level="warning")


@rule("FL204")
def find_too_early_for_good(context: Context) -> Iterator[Problem]:
    """A step that cannot be undone, and one after it can still fail."""
    for placed in context.placed:
        step = placed.step
        inner = _lasting(context, step.flow) if step.verb == "call" else ""
        is_lasting = bool(inner) if step.verb == "call" else bool(context.cannot_be_undone(step))
        if not is_lasting or step.accept_order or context.is_broken(placed.path):
            continue
        after, hint = _may_fail_after(context, placed)
        if after:
            what = f'"{step.id}"' if not inner else f'"{step.id}" calls {inner}, which'
            what = f"{what} cannot be undone and stands before {after}, which can still fail"
            hint = f"{hint}, or say why not{' at that step' if inner else ''}: accept_order: …"
            yield context.source.problem("FL204", (*placed.path, step.verb), what, hint, level="warning")


def _lasting(context: Context, flow: str) -> str:
    """The first step of a called flow that cannot be undone and does not say that it may stand early."""
    called = context.called(flow)
    for step in called.flow.every_step() if called is not None else ():
        if called is not None and called.cannot_be_undone(step) and not step.accept_order:
            return f'"{step.id}" of flow {flow}'
        inner = _lasting(called, step.flow) if called is not None and step.verb == "call" else ""
        if inner:
            return inner
    return ""


def _may_fail_after(context: Context, placed: Placed) -> tuple[str, str]:
    """(what stands behind the step and can fail, what to do about it): a later step, or the next item."""
    lists = [outer.step for outer in placed.around if outer.step.verb == "each"]
    own = {placed.step.id, placed.step.tool_of, *(each.id for each in lists)} - {""}
    for one in context.placed:
        if own & one.earlier and one.step.verb in _CAN_FAIL and not _exclude(context, placed, one):
            return f'"{one.step.id}"', "move it to the end"
    for each in lists:
        if each.if_one_fails == "stop":
            return f'the next item of "{each.id}"', f'write if_one_fails: continue at "{each.id}"'
    return "", ""


def _exclude(context: Context, one: Placed, other: Placed) -> bool:
    """Whether never both run; what was done was not said no to."""
    said = values_of(one.guards), values_of(other.guards)
    return exclude(one.guards, other.guards) or any(
        value == "done" and theirs.get(("outcome", gate.step.id)) == "no"
        for mine, theirs in (said, said[::-1])
        for path, value in mine.items()
        for gate in (context.gates.get(path[1], ()) if path[0] == "outcome" else ())
    )


# --- FL205 ---------------------------------------------------------------------------------------------------------


@rule("FL205")
def find_too_many_tries(context: Context) -> Iterator[Problem]:
    """Tries that the service could not tell from new orders."""
    for placed in context.placed:
        step, words = placed.step, placed.step.compensate
        action = context.action(step.action)
        if step.verb == "do":
            yield from _too_many(context, (*placed.path, "retry"), step.action, action, step.retry, step.timeout)
        if words is not None and words.word not in ("hand_off", "none"):
            undo = action.undo.action if action is not None and action.undo is not None else ""
            named = context.action(words.action or f"{step.action.partition('.')[0]}.{undo}")
            path = (*placed.path, "compensate", "retry")
            yield from _too_many(context, path, words.action or step.action, named, words.retry, words.timeout)


def _too_many(
    context: Context, path: Path, name: str, action: Action | None, retry: RetryWords, timeout: int | None
) -> Iterator[Problem]:
    if action is None or retry.tries is None:
        return
    declared = action.retry or _DEFAULT
    most = max(ONCE_TRIES, declared.tries)
    if action.effect == "once" and retry.tries > most:
        what = f"{name} can be tried {most} times at most, and not {retry.tries}"
        hint = "the service neither knows our key nor can be asked, so every further try may be a second effect"
        yield context.source.problem("FL205", (*path, "tries"), what, hint)
    needed = _longest_wait(declared, retry) + (timeout or action.timeout)
    if action.effect == "keyed" and action.key_life and needed > action.key_life * 0.95:
        life = _length(action.key_life)
        what = f"{retry.tries} tries of {name} take up to {_length(needed)}, and its key lives {life}"
        yield context.source.problem("FL205", (*path, "tries"), what, "fewer tries, or a shorter pause")


def _longest_wait(declared: Retry, retry: RetryWords) -> int:
    """The time from the first try to the last, in ms."""
    pause = declared.pause if retry.pause is None else retry.pause
    longest = max(declared.longest if retry.longest is None else retry.longest, pause)
    growth = retry.growth or declared.growth
    total = 0
    for number in range(1, retry.tries or 1):
        grown = {"none": pause, "linear": pause * number, "double": pause * 2 ** min(number - 1, 40)}[growth]
        total += min(grown, longest)
    return total


def _length(ms: int) -> str:
    size, word = next((unit for unit in _UNITS if ms >= unit[0]), (1, "ms"))
    shown = f"{ms / size:.1f}".removesuffix(".0")
    return f"{shown} {word}{'s' if word in ('day', 'hour') and shown != '1' else ''}"
