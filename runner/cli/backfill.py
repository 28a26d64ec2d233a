"""`amends run FLOW --each FILE`: a flow once for each row of a file, how far it is, and the report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.text import Text

from runner.app import Amends
from runner.backfill.columns import Columns
from runner.backfill.files import Told, open_table
from runner.backfill.going import Going, Kind, Tally
from runner.backfill.items import Choice, Item, Items, Standing
from runner.backfill.report import Report
from runner.cli import FAILED, OK, WRONG, page, place, run, watching
from runner.cli.place import AsJson, By
from runner.driver import Driver
from runner.errors import NotPossible
from runner.language.bundle import Bundle
from runner.telling import sent, times, words

COMMANDS = place.verb()
EVERY = 5.0
"""Seconds between two lines of progress where lines stay."""
FILLED_IN = 3
"""Rows that --dry-run shows filled in."""
LONGEST = 40
SAID: Mapping[Kind, str] = {
    "succeeded": "succeeded", "compensated": "compensated", "needs_person": "need a person", "failed": "failed",
    "ended": "ended by a person", "waits": "wait", "refused": "not started",
}  # fmt: skip
ALWAYS: tuple[Kind, ...] = ("succeeded", "compensated", "needs_person", "failed")
CODES: Mapping[Kind, int] = {
    "needs_person": 3,
    "failed": FAILED,
    "compensated": FAILED,
    "ended": FAILED,
    "refused": WRONG,
    "waits": 4,
}
"""The exit code, by the first of these that there is."""


def _option(name: str, metavar: str, summary: str) -> Any:
    return typer.Option(name, metavar=metavar, help=summary)


Each = Annotated[Path, _option("--each", "FILE", "The file; its head names the inputs.")]
Keys = Annotated[list[str] | None, _option("--key", "COLUMN", "What names a row, where run_key is trigger.id.")]
Renamed = Annotated[list[str] | None, _option("--column", "COLUMN=INPUT", "This column gives that input.")]
Ignored = Annotated[list[str] | None, _option("--ignore", "COLUMN", "Leave this column out.")]
Codes = Annotated[list[str] | None, _option("--as-text", "COLUMN", "Its numbers are codes, right as they are shown.")]
Given = Annotated[list[str] | None, typer.Option("--input", "-i", metavar="NAME=VALUE", help="The same for all rows.")]
Encoding = Annotated[str, _option("--encoding", "NAME", "utf-8, cp932 (Shift_JIS), big5, cp1252 …")]
Separator = Annotated[str, _option("--separator", "SIGN", 'What parts the cells: "," ";" or tab.')]
Sheet = Annotated[str, _option("--sheet", "NAME", "The sheet of an Excel file that has several.")]
First = Annotated[int, typer.Option("--from-row", min=0, help="Begin at this row; the head is row 1.")]
Limit = Annotated[int, typer.Option("--limit", min=0, help="No more rows than this; 0: all of them.")]
AtOnce = Annotated[int, typer.Option("--at-once", min=1, max=1000, help="How many runs are in motion together.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave rows out that are wrong, and run the rest.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check all rows, show the first three, start nothing.")]
Place = Annotated[Path | None, _option("--report", "FILE", "A .csv or .xlsx file; default: beside FILE.")]
ReportOnly = Annotated[bool, typer.Option("--report-only", help="Write the report anew; start nothing.")]
Draft = Annotated[bool, typer.Option("--draft", help="Write everything down, send nothing.")]


@COMMANDS.command(
    help="Run a flow once for each row of a file: CSV, Excel (.xlsx) or JSON lines. All rows are checked before "
    "anything starts; the same command again goes on where it stopped."
)
def run_each(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow's id, or the path of its file.")],
    each: Each,
    key: Keys = None,
    column: Renamed = None,
    ignore: Ignored = None,
    as_text: Codes = None,
    given: Given = None,
    encoding: Encoding = "",
    separator: Separator = "",
    sheet: Sheet = "",
    first: First = 0,
    limit: Limit = 0,
    at_once: AtOnce = 5,
    skip_bad: SkipBad = False,
    dry_run: DryRun = False,
    report: Place = None,
    report_only: ReportOnly = False,
    draft: Draft = False,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    with run.opened(flow) as (amends, wanted), closing(Items()) as items:
        run.warn(amends.project.checked(wanted))
        bundle = amends.project.bundle(wanted)
        fixed = run.read_given(given or [], "", bundle.flow.inputs)
        columns = Columns(bundle, renamed=column or (), ignored=ignore or (), codes=as_text or (), fixed=fixed)
        table = open_table(each, Told(encoding=encoding, separator=separator, sheet=sheet), columns.is_known)
        if table.how:
            page.complain(f"{each.name} is read {table.how}.")
        is_draft = draft or "draft" in (bundle.flow.mode, amends.settings.mode)
        standing = _standing(amends, bundle.flow.id, "draft" if is_draft else "live")
        choice = Choice(key=key or (), first=first, limit=limit)
        written = _place(report, each)
        made = Report(written, items, bundle, standing=standing, store=lambda: amends.store)
        items.check(
            table, columns, bundle, choice, standing=standing if amends.has_log else _no_runs, now=amends.clock.now(),
            on_wrong=_nothing if report_only else _complain, is_report=report_only,
        )  # fmt: skip
        if dry_run:
            raise typer.Exit(_dry(items, as_json=as_json))
        if items.bad and not (skip_bad or report_only):
            raise NotPossible(
                f"{_refused(items)}, so nothing was started; put them right, or leave them out with --skip-bad"
            )
        tally = Tally(items.total)
        if not report_only:
            starter, mode = watching.person(amends, by), "draft" if draft else ""
            going = Going(items=items, tally=tally, standing=standing, starter=starter, mode=mode, at_once=at_once)
            _go(amends, wanted, bundle, going, made, quiet=as_json)
        made.write(tally.begun)
        raise typer.Exit(_told(tally, made, report_only=report_only, as_json=as_json))


def _standing(amends: Amends, flow: str, mode: str) -> Standing:
    return lambda run_key: amends.store.run_of_key(flow, mode, run_key) if amends.has_log else None


def _no_runs(run_key: str) -> None:
    """While there is no database, no row has a run; it is not looked for once for each row."""


def _place(report: Path | None, each: Path) -> Path:
    file = report or each.with_name(f"{each.stem}.report.csv")
    if file.resolve() == each.resolve():
        raise NotPossible(f"the report would take the place of {each}; name another file with --report")
    return file


# --- what is wrong ---------------------------------------------------------------------------------------------------


def _complain(item: Item) -> None:
    """A line for each thing that is wrong in a row: where it stands, what stands there, what is wrong."""
    for column, what in item.wrong.items():
        text = words.plain(item.cells.get(column, ""))
        shown = f" ({text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'})" if text else ""
        at = f"row {item.number}, {column}{shown}" if column else f"row {item.number}"
        page.complain(f"  {words.plain(at)}: {words.bare(what)}.".replace("?.", "?"))


def _nothing(item: Item) -> None:
    """What is wrong stands in the report."""


def _refused(items: Items) -> str:
    return f"{items.bad} of {times.counted(items.total, 'row')} cannot be started"


def _dry(items: Items, *, as_json: bool) -> int:
    """Shows the first rows filled in, and how many there are."""
    right = (item for item in items if not item.wrong)
    first = [item for item, _ in zip(right, range(FILLED_IN), strict=False)]
    new = items.total - items.bad - items.joins
    if as_json:
        told = [{"row": item.number, "run_key": item.run_key, "inputs": item.given} for item in first]
        page.say_json({"rows": items.total, "bad": items.bad, "joined": items.joins, "new": new, "first": told})
        return WRONG if items.bad else OK
    for item in first:
        page.say(
            f"Row {item.number} (run key {words.plain(item.run_key)})",
            *(f"  {line}" for line in sent.fields(item.given)),
        )
    page.say(f"{_refused(items)}; {items.joins} have a run already, {new} would be started. Nothing was started.")
    return WRONG if items.bad else OK


# --- how far it is ---------------------------------------------------------------------------------------------------


def _go(amends: Amends, wanted: str, bundle: Bundle, going: Going, made: Report, *, quiet: bool) -> None:
    """Drives the rows and tells how far they are. What stops it still leaves a report, and says what follows."""
    made.begin()

    async def doing(driver: Driver) -> None:
        pinned = await driver.pin(wanted)
        if pinned != bundle.digest:
            raise NotPossible(f"{bundle.flow.id} was changed while the rows were checked; run the command again")
        telling = asyncio.create_task(_tell(going.tally, quiet=quiet))
        try:
            await going.go(driver, pinned)
        finally:
            telling.cancel()

    try:
        watching.drive(amends, doing)
    except BaseException as error:
        made.write(going.tally.begun)
        if isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
            left = len(going.tally.begun) - going.tally.done
            raise place.Interrupted(
                f"Stopped with {times.counted(left, 'row')} to go; the same command goes on with them.\n"
                f"How far the rows are stands in {made.file}, which is not complete."
            ) from None
        raise


async def _tell(tally: Tally, *, quiet: bool) -> None:
    """One line that changes on a terminal, a line now and then elsewhere."""
    out, began = page.console(to_errors=True), time.monotonic()

    def line() -> str:
        counts = ", ".join(f"{tally.kinds[kind]} {SAID[kind]}" for kind in SAID if kind in ALWAYS or tally.kinds[kind])
        speed = tally.done / max(time.monotonic() - began, 0.001)
        return f"{tally.done}/{len(tally.begun)} rows, {speed:.0f} per second: {counts}"

    if out.is_terminal and not quiet:
        with Live(get_renderable=lambda: Text(line()), console=out, refresh_per_second=4, transient=True):
            await asyncio.Event().wait()
    while not quiet:
        await asyncio.sleep(EVERY)
        page.complain(line())


def _told(tally: Tally, made: Report, *, report_only: bool, as_json: bool) -> int:
    """How the rows stand in the end, as the report counted them. The exit code."""
    kinds, total = made.kinds, len(tally.begun)
    if as_json:
        counts = {kind: kinds[kind] for kind in SAID}
        page.say_json(
            {"rows": total, "started": tally.started, "joined": tally.joined, **counts, "report": str(made.file)}
        )
    else:
        begun = "" if report_only else f"{tally.joined} joined, {tally.started} started; "
        counted = ", ".join(f"{kinds[kind]} {SAID[kind]}" for kind in SAID if kind in ALWAYS or kinds[kind])
        page.say(f"{times.counted(total, 'row')}: {begun}{counted}.", f"Each row's end stands in {made.file}.")
    return next((code for kind, code in CODES.items() if kinds[kind]), OK)
