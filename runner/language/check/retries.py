"""More tries than the action's class allows (FL205)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.contract import Action
from runner.errors import Problem
from runner.language.check.context import Context
from runner.language.check.rules import rule
from runner.language.flow import RetryWords
from runner.language.source import Path

ONCE_TRIES = 4
_PAUSE, _LONGEST = 10_000, 300_000
_UNITS = ((86_400_000, "days"), (3_600_000, "hours"), (60_000, "min"), (1_000, "s"))


@rule("FL205")
def find_too_many_tries(context: Context) -> Iterator[Problem]:
    """Tries that the service could not tell from new orders."""
    for placed in context.placed:
        step = placed.step
        if step.verb == "do":
            action = context.action(step.action)
            yield from _too_many(context, (*placed.path, "retry"), step.action, action, step.retry, step.timeout)
        words = step.compensate
        if words is not None and words.word not in ("hand_off", "none"):
            name = words.action or step.action
            action = context.action(words.action) if words.action else _undo_of(context, step.action)
            path = (*placed.path, "compensate", "retry")
            yield from _too_many(context, path, name, action, words.retry, words.timeout)


def _undo_of(context: Context, name: str) -> Action | None:
    action = context.action(name)
    if action is None or action.undo is None:
        return None
    return context.action(f"{name.partition('.')[0]}.{action.undo.action}")


def _too_many(
    context: Context, path: Path, name: str, action: Action | None, retry: RetryWords, timeout: int | None
) -> Iterator[Problem]:
    if action is None or retry.tries is None:
        return
    where = (*path, "tries")
    if action.effect == "once":
        most = max(ONCE_TRIES, action.retry.tries if action.retry is not None else 0)
        if retry.tries > most:
            what = f"{name} can be tried {most} times at most, and not {retry.tries}"
            hint = "the service neither knows our key nor can be asked, so every further try may be a second effect"
            yield context.source.problem("FL205", where, what, hint)
    elif action.effect == "keyed" and action.key_life:
        needed = _longest_wait(action, retry) + (timeout or action.timeout)
        if needed > action.key_life * 0.95:
            life = _length(action.key_life)
            what = f"{retry.tries} tries of {name} take up to {_length(needed)}, and its key lives {life}"
            yield context.source.problem("FL205", where, what, "fewer tries, or a shorter pause")


def _longest_wait(action: Action, retry: RetryWords) -> int:
    """The time from the first try to the last, in ms."""
    declared = action.retry
    pause = retry.pause if retry.pause is not None else declared.pause if declared is not None else _PAUSE
    longest = retry.longest if retry.longest is not None else declared.longest if declared is not None else _LONGEST
    growth = retry.growth or (declared.growth if declared is not None else "double")
    longest = max(longest, pause)
    total = 0
    for number in range(1, retry.tries or 1):
        grown = {"none": pause, "linear": pause * number, "double": pause * 2 ** min(number - 1, 40)}[growth]
        total += min(grown, longest)
    return total


def _length(ms: int) -> str:
    for size, word in _UNITS:
        if ms >= size:
            shown = f"{ms / size:.1f}".removesuffix(".0")
            return f"{shown} {word.removesuffix('s') if shown == '1' and word != 's' else word}"
    return f"{ms} ms"
