"""`amends erase`: what is known about a record goes, and the log still verifies."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from runner.cli import page, place, watching
from runner.errors import NotPossible
from runner.people.erasing import Erasing, what_is_held
from runner.store.erase import find
from runner.telling import times

COMMANDS = place.verb()


@COMMANDS.command(help="Erase the personal data of every run on a record; the log still verifies.")
def erase(
    record: Annotated[str, typer.Option("--record", help="Whose data: customer/aya@example.test.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be erased.")] = False,
    also_open: Annotated[
        bool, typer.Option("--also-open", help="Of runs that have not ended too; a person must take these over then.")
    ] = False,
    with_records: Annotated[
        bool, typer.Option("--with-records", help="What the project's own tables hold about it too.")
    ] = False,
    reason: place.Reason = "",
    by: place.By = "",
    as_json: place.AsJson = False,
) -> None:
    if not record.strip():
        raise NotPossible("--record is empty; name the record whose data is to be erased: customer/aya@example.test")
    with watching.opened() as amends:
        who = watching.person(amends, by)
        if not amends.has_log:
            raise NotPossible("there are no runs yet, so there is nothing to erase")
        if dry_run:
            held: Any = what_is_held(find(amends.store, record))
        else:
            wish = Erasing(record=record, by=who, reason=reason, also_open=also_open, with_records=with_records)
            held = watching.drive(amends, lambda driver: driver.erase(wish))
    if as_json:
        page.say_json(held)
        return
    _tell(held, dry_run=dry_run, with_records=with_records)


def _tell(held: dict[str, Any], *, dry_run: bool, with_records: bool) -> None:
    count = sum(each["entries"] for each in held["runs"]) + held["site_entries"]
    runs = [each for each in held["runs"] if each["entries"]]
    would = "would be erased" if dry_run else "erased"
    if not count and not held["records"]:
        page.say(f"Nothing is held about {held['record']}.")
        return
    page.say(f"{_entries(count)} of {times.counted(len(runs), 'run')} {would}:")
    for each in runs:
        open_too = "; it has not ended" if each["open"] else ""
        page.say(f"  {each['run']}  {each['status']}  {_entries(each['entries'])}{open_too}")
    if held["records"]:
        left = would if with_records else "left as they are; --with-records erases them too"
        page.say(f"Our own tables: {', '.join(held['records'])} {left}.")
    if dry_run:
        return
    if not held["clean"]:
        page.say("Somebody reads the database, so the write-ahead file still holds old pages: say it once more later.")
    page.say("Copies of the database and evidence packs made before still hold it: nothing here reaches them.")


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"
