"""One order to many runs, or one answer to many questions of a run: which ones, what each of them will do or why not,
then the doing with a line for each.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from runner.app import Amends
from runner.cli import FAILED, OK, page, place, watching
from runner.contract import Json
from runner.driver import Driver
from runner.engine.past import read_state
from runner.errors import AlreadySo, AmendsError, EngineBusy, NotFound, NotPossible
from runner.language.bundle import Bundle, restore
from runner.language.clauses import duration
from runner.people.operations import ALIKE, Foreseen, Order, alike, each_question, foreseen
from runner.reading import PAGE
from runner.store.facts import RunFilter, RunView
from runner.telling import times, words

AT_ONCE = 16
"""How many orders are under way at the same time."""
OF_ITEM = {"retry": "do the item anew", "skip": "leave the item set aside"}

Flow = Annotated[str, typer.Option("--flow", help="Many runs: those of this flow.")]
FailedAt = Annotated[
    str,
    typer.Option(
        "--failed-at", help="Many runs: those that rest or wait at this step, or where it set aside items of a list."
    ),
]
Since = Annotated[str, typer.Option("--since", help="Many runs: those in which something happened since: 2h, 3 days.")]
Status = Annotated[
    list[str] | None,
    typer.Option("--status", help="Many runs: those with this status, ended ones too; may be repeated."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Many runs: say what each of them would do, and do nothing.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """One order to one run, and what becomes of it. `kind` is that of the question it answers, `status` the run's
    status afterwards."""

    view: RunView
    order: Order
    told: Foreseen
    step: str = ""
    kind: str = ""
    status: str = ""

    def line(self, *, is_ahead: bool) -> str:
        """What it will do (or did), or why not."""
        if self.told.answer != "done":
            return f"{self.view.run}  {self.told.answer}: {words.plain(self.told.says)}"
        what = OF_ITEM[self.told.choice] if self.order.step else words.offered(self.told.choice, self.kind)
        what += f" ({self.step})" if self.step else ""
        return f"{self.view.run}  {what if is_ahead else f'{self.status} after: {what}'}"

    def as_json(self) -> dict[str, Json]:
        told = self.told
        return {
            "run": self.view.run, "flow": self.view.flow, "step": self.step, "handoff": self.order.handoff,
            "status": self.status or self.view.status, "result": told.answer, "does": told.choice, "says": told.says,
        }  # fmt: skip


def order_many(
    order: Order, *, flow: str, failed_at: str, since: str, status: Sequence[str], dry_run: bool, as_json: bool
) -> int:
    """Shows which runs are meant and what each will do, does it unless `dry_run`, and tells of each. The exit code.

    0 when all of it is done or was so already, 1 when some were refused; what is refused is not touched.
    """
    place.refuse_status(status)
    with watching.opened() as amends:
        wanted = RunFilter(
            flow=_flow(amends, flow), status=tuple(status), at_step=failed_at, open_only=not status,
            changed_since=_since(since, amends.clock.now()) if since else None, limit=PAGE,
        )  # fmt: skip
        order = replace(order, by=watching.person(amends, order.by))
        chosen = list(_choose(amends, wanted, order))
        if not as_json:
            _show(chosen, order)
        if not dry_run and chosen:
            chosen = _go(amends, chosen, quiet=as_json)
        return _count(chosen, order, dry_run=dry_run, as_json=as_json)


def answer_alike(run: str, order: Order, *, dry_run: bool, as_json: bool) -> int:
    """Gives the answer to a question (`order.handoff`) to all of the run that are alike too, each for itself and one
    after the other; as `order_many` otherwise. Raises NotPossible where the answer is not one for several.
    """
    if order.action not in ALIKE:
        raise NotPossible(f'"{order.action}" is said of one question at a time; --and-alike takes {", ".join(ALIKE)}')
    with watching.opened() as amends:
        story = watching.story_of(amends, run)
        order = watching.completed(amends, run, replace(order, by=watching.person(amends, order.by)))
        asked = story.state.handoffs.get(order.handoff)
        if asked is None or asked not in story.state.open_handoffs:
            raise NotPossible(f'--and-alike needs an open question of run {run} by its id (h2), not "{order.handoff}"')
        each = [replace(order, handoff=one.id) for one in (asked, *alike(story.state, asked, order.action))]
        chosen = [
            Chosen(
                view=story.view, order=one, told=foreseen(story.bundle, story.state, one), kind=asked.kind,
                step=story.place(story.state.handoffs[one.handoff].step),
            )
            for one in each
        ]  # fmt: skip
        before = amends.store.log_end(story.view.run).seq
        if not as_json:
            _show(chosen, order)
        if not dry_run:
            chosen = _go(amends, chosen, quiet=as_json, alone=story.view.run)
        code = _count(chosen, order, dry_run=dry_run, as_json=as_json)
        if not dry_run and not as_json:
            watching.tell_rest(amends, amends.store.run(story.view.run), as_json=False, since=before)
    return code


def _count(chosen: Sequence[Chosen], order: Order, *, dry_run: bool, as_json: bool) -> int:
    """Says what became of all of them. The exit code."""
    counts = Counter(one.told.answer for one in chosen)
    if as_json:
        told = {word: counts[word] for word in ("done", "already", "refused")}
        page.say_json({"action": order.action, "dry_run": dry_run, **told, "runs": [one.as_json() for one in chosen]})
    elif chosen:
        done = "Nothing was done" if dry_run else f"{counts['done']} done"
        page.say(f"{done}; {counts['already']} were so already, {counts['refused']} refused.")
    return FAILED if counts["refused"] else OK


def _flow(amends: Amends, flow: str) -> str:
    if flow and not amends.runs(RunFilter(flow=flow, limit=1)):
        raise NotFound(f'there is no run of a flow "{flow}" (--flow); `amends runs list` shows what there is')
    return flow


def _since(text: str, now: int) -> int:
    try:
        return now - duration(text).ms
    except (ValueError, KeyError):
        raise NotPossible(f'"{text}" is no length of time (--since); write 30 min, 2h or 3 days') from None


# --- which ones ------------------------------------------------------------------------------------------------------


def _choose(amends: Amends, wanted: RunFilter, order: Order) -> Iterator[Chosen]:
    bundles: dict[str, Bundle] = {}
    found = amends.runs(wanted)
    while found:
        for view in found:
            yield from _of_run(amends, view, order, wanted.at_step, bundles)
        found = amends.runs(replace(wanted, before=found[-1].run)) if len(found) == PAGE else []


def _of_run(amends: Amends, view: RunView, order: Order, at_step: str, bundles: dict[str, Bundle]) -> Iterator[Chosen]:
    try:
        state, _ = read_state(amends.store, view.run)
        if state.bundle not in bundles:
            bundles[state.bundle] = restore(state.bundle, amends.store.bundle(state.bundle))
    except AmendsError as error:
        yield Chosen(view=view, order=order, told=Foreseen(answer="refused", says=str(error)))
        return
    for each in each_question(state, order, at_step):
        asked = state.handoffs.get(each.handoff)
        told = foreseen(bundles[state.bundle], state, each)
        step, kind = (each.step or asked.step, asked.kind) if asked else ("", "")
        yield Chosen(view=view, order=each, told=told, step=step, kind=kind)


def _show(chosen: Sequence[Chosen], order: Order) -> None:
    if not chosen:
        page.say("No run fits, so there is nothing to do.")
        return
    runs = times.counted(len({one.view.run for one in chosen}), "run")
    ready = sum(one.told.answer == "done" for one in chosen)
    page.say(f"{runs}. To {words.offered(order.action)} fits {ready} of {len(chosen)}:")
    page.say(*(f"  {one.line(is_ahead=True)}" for one in chosen), "")


# --- the doing -------------------------------------------------------------------------------------------------------


def _go(amends: Amends, chosen: Sequence[Chosen], *, quiet: bool, alone: str = "") -> list[Chosen]:
    """Gives every order that can be given; what each came to. Raises Interrupted on Ctrl-C.

    `alone` is the run that all are for: one follows the other, and it is waited for until it rests.
    """
    became = {number: one for number, one in enumerate(chosen) if one.told.answer != "done"}
    ready = [number for number in range(len(chosen)) if number not in became]

    async def doing(driver: Driver) -> None:
        room = asyncio.Semaphore(1 if alone else AT_ONCE)
        with _progress(len(ready), quiet=quiet) as tell:

            async def one(number: int) -> None:
                async with room:
                    became[number] = await _give(driver, chosen[number])
                    tell(became[number])

            await asyncio.gather(*(one(number) for number in ready))
        if alone and ready:
            await driver.follow(alone, lambda: None)

    try:
        watching.drive(amends, doing)
    except (KeyboardInterrupt, asyncio.CancelledError):
        left = len(chosen) - len(became)
        raise place.Interrupted(f"Stopped with {left} to go; the same command again does the rest.") from None
    return [became[number] for number in range(len(chosen))]


async def _give(driver: Driver, chosen: Chosen) -> Chosen:
    try:
        view = await driver.act(chosen.view.run, chosen.order)
    except EngineBusy:
        raise
    except AlreadySo as so:
        return replace(chosen, told=Foreseen(answer="already", says=str(so)))
    except AmendsError as error:
        return replace(chosen, told=Foreseen(answer="refused", says=str(error)))
    return replace(chosen, status=view.status)


@contextmanager
def _progress(total: int, *, quiet: bool) -> Iterator[Callable[[Chosen], None]]:
    """A line for each run that is through; on a terminal a bar below them."""
    out = page.console()
    if quiet or not out.is_terminal:
        yield lambda one: None if quiet else page.say(one.line(is_ahead=False))
        return
    with Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=out, transient=True) as bar:
        going = bar.add_task("", total=total)

        def tell(one: Chosen) -> None:
            bar.console.print(one.line(is_ahead=False), markup=False, highlight=False)
            bar.advance(going)

        yield tell
