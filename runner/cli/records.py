"""`amends records`: what stands in the project's own tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from runner.cli import page, place
from runner.cli.place import AsJson, Reveal
from runner.clock import iso
from runner.contract import Json
from runner.errors import NotFound
from runner.language.nearest import did_you_mean
from runner.reading import Reading
from runner.store import own
from runner.telling import approval, sent, times, words

COMMANDS = place.noun("The project's own tables: what `records` actions have written.")

Of = Annotated[str, typer.Argument(metavar="[COLLECTION]", help="Its records, newest first; else which there are.")]


@COMMANDS.command("list", help="List the tables, or the records of one.")
def list_all(
    collection: Of = "",
    skip: Annotated[int, typer.Option("--skip", min=0, help="So many of the newest are left out: to page on.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many at most.")] = 50,
    reveal: Reveal = False,
    as_json: AsJson = False,
) -> None:
    with place.reading() as project:
        zone = place.zone_of(project)
        tables = project.store.ask(own.collections) if project.has_log else []
        _require(collection, [each.name for each in tables])
        wanted = own.entries(collection, skip=skip, limit=limit)
        found = _seen(project, project.store.ask(wanted), reveal) if collection else []
    if as_json:
        page.say_json(
            [_told(each, zone) for each in found]
            if collection
            else [{**asdict(each), "at": iso(each.at, zone)} for each in tables]
        )
    elif not (found if collection else tables):
        page.say("There are no more." if skip else "The project's own tables are empty.")
    elif not collection:
        since = f"last written ({times.offsets([each.at for each in tables], zone)})"
        rows = [(words.plain(each.name), f"{each.count:,}", times.short(each.at, zone)) for each in tables]
        page.show(page.listed(("collection", "records", since), rows, fixed=(0, 1)))
    else:
        since = f"made ({times.offsets([each.created_at for each in found], zone)})"
        lines = [(words.plain(one.id), times.short(one.created_at, zone), sent.pairs(one.data)) for one in found]
        page.show(page.listed(("id", since, "fields"), lines, fixed=(0, 1)))
        if len(found) == limit:
            page.say(f"There may be more: {words.PROGRAM} records list {collection} --skip {skip + limit}")


@COMMANDS.command(help="Show one record as a whole, and the runs that wrote it.")
def show(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help="The table.")],
    id: Annotated[str, typer.Argument(metavar="ID", help="The record's id.")],
    reveal: Reveal = False,
    as_json: AsJson = False,
) -> None:
    with place.reading() as project:
        zone = place.zone_of(project)
        found = _seen(project, project.store.ask(own.entries(collection, id=id)), reveal) if project.has_log else []
    if not found:
        raise NotFound(f'there is no record "{id}" in {collection}; `{words.PROGRAM} records list` says what there is')
    each = found[0]
    if as_json:
        page.say_json(_told(each, zone))
        return
    when = [("made", times.short(each.created_at, zone)), ("last written", times.short(each.updated_at, zone))]
    fields = [(words.plain(name), approval.value(value)) for name, value in each.data.items()]
    page.show(page.grid_of([*fields, *when, ("by run", ", ".join(each.runs))]))


def _require(collection: str, known: Sequence[str]) -> None:
    if collection and collection not in known:
        raise NotFound(f'there is no table "{collection}"; {did_you_mean(collection, known, "there are")}')


def _seen(project: Reading, found: Sequence[own.Entry], reveal: bool) -> Sequence[own.Entry]:
    return found if reveal else own.veiled(project.store, found)


def _told(each: own.Entry, zone: str) -> dict[str, Json]:
    times_of = {"created_at": iso(each.created_at, zone), "updated_at": iso(each.updated_at, zone)}
    return {**asdict(each), **times_of}
