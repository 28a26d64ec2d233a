"""Effects: how a step is made good (FL202), what cannot be taken back (FL203, FL204, FL207), tries (FL205)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.contract import Action, Retry
from runner.errors import Problem
from runner.language.check.context import Context, Placed, rule
from runner.language.expressions import names
from runner.language.flow import RetryWords
from runner.language.source import Path

ONCE_TRIES = 4
_CAN_FAIL = frozenset({"read", "do", "approve", "wait_for", "call", "choose", "each", "parallel"})
_DEFAULT = Retry(tries=ONCE_TRIES, pause=10_000)
_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "min"), (1_000, "s"))


@rule("FL202")
def find_no_compensation(context: Context) -> Iterator[Problem]:
    """A step that changes the world and does not say how it is made good."""
    for placed in context.placed:
        step, action = placed.step, context.action(placed.step.action)
        if step.verb == "do" and step.compensate is None and not context.is_broken(placed.path):
            hint = "cancel, mark, correct, quarantine or hand_off; or none with a reason"
            if action is not None and action.undo is not None:
                hint = f"{step.action} has an undo of its own: compensate: cancel"
            what = f'"{step.id}" changes the world and does not say how it is made good'
            yield context.source.problem("FL202", (*placed.path, "do"), what, hint, level="live")


@rule("FL203", "FL204")
def find_undoable(context: Context) -> Iterator[Problem]:
    """A step that cannot be undone: nobody is asked and no reason why not; or one after it can still fail."""
    # Approvals do not run yet; FL008 says so at the word.
    gates = {(*placed.path, "covers") for placed in context.placed if placed.step.verb == "approve"}
    covered = {scalar.text for path, scalar in context.source.scalars.items() if path[:-1] in gates}
    for placed in context.placed:
        step, path = placed.step, (*placed.path, "do")
        why = context.cannot_be_undone(step)
        if not why or context.is_broken(placed.path):
            continue
        if not step.unattended and step.id not in covered:
            what = f'"{step.id}" cannot be undone, and nobody is asked before it'
            hint = f"{why} Say why nobody need be asked: unattended: …"
            yield context.source.problem("FL203", path, what, hint, level="live")
        later = (one.step for one in context.placed if step.id in one.earlier and one.step.verb in _CAN_FAIL)
        after = None if step.accept_order else next(later, None)
        if after is not None:
            what = f'"{step.id}" cannot be undone and stands before "{after.id}", which can still fail'
            hint = "move it to the end, or say why not: accept_order: …"
            yield context.source.problem("FL204", path, what, hint, level="warning")


# --- FL207 ---------------------------------------------------------------------------------------------------------


@rule("FL207")
def find_unread_answers(context: Context) -> Iterator[Problem]:
    """An answer that nobody has read is about to leave for good."""
    answers = _answers(context)
    told: set[Path] = set()
    for text in context.texts if answers else ():
        placed = text.placed
        if placed is None or text.reach != "step" or placed.step.unattended:
            continue
        for use in names(text.text) if context.cannot_be_undone(placed.step) else ():
            origin = answers.get(use.path[1]) if use.path[0] in ("steps", "outcome") and len(use.path) > 1 else None
            if origin is not None and text.path not in told:
                told.add(text.path)
                what = f'"{placed.step.id}" cannot be undone, and nobody has read what "{origin}" answered'
                hint = "put an approval before it, or say why not: unattended: …"
                yield context.source.problem("FL207", text.path, what, hint, part=(use.offset, use.length))


def _answers(context: Context) -> dict[str, str]:
    """Every step whose answer comes, directly or through other steps, from an AI action: id -> the AI step's id."""
    found: dict[str, str] = {}
    for placed in context.placed if any(action.from_ai for action in context.facts.actions.values()) else ():
        action = context.action(placed.step.action)
        if action is not None and action.from_ai:
            found[placed.step.id] = placed.step.id
        else:
            origins = [found[name] for name in _steps_used(context, placed) if name in found]
            found.update({placed.step.id: origins[0]} if origins else {})
    return found


def _steps_used(context: Context, placed: Placed) -> Iterator[str]:
    for text in context.texts:
        for use in names(text.text) if text.placed is placed and text.reach == "step" else ():
            if use.path[0] == "steps" and len(use.path) > 1:
                yield use.path[1]


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
