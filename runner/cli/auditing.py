"""`amends log verify`, `export` and `key`: they only read, and so load neither the flows nor the engine."""

from __future__ import annotations

import importlib
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import FAILED, OK, page, place
from runner.clock import iso
from runner.contract import canonical
from runner.errors import NotPossible
from runner.language.settings import AnchorPlaces
from runner.store import proof
from runner.store.evidence import pack
from runner.store.facts import ChainFault
from runner.store.log import SITE
from runner.store.notary import Noted, only_unknown_keys, read_anchors
from runner.store.signing import FILE, public_key
from runner.telling import times

CHANGED = ": this log was changed after it was written."
UNKNOWN = (
    ", only of keys that nobody has named: this log is not proved whole until they are. `amends log key` prints a "
    "machine's own; a key of none of your machines means that somebody else wrote here."
)
COMMANDS = place.noun("Verify the action log, export the evidence of a run.")


@COMMANDS.command(help="Check that no entry of the log was changed, lost or added: of one run, or of all of them.")
def verify(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="One run; all of them without it.")] = "",
    packed: Annotated[str, typer.Option("--pack", metavar="FILE", help="An archive of `log export` instead.")] = "",
    anchors: Annotated[
        str, typer.Option("--anchors", metavar="FILE", help="Anchors that somebody kept: compare the log with them.")
    ] = "",
    stamped_by: Annotated[
        str, typer.Option("--stamped-by", metavar="FILE.pem", help="Root certificates of who time-stamped the anchors.")
    ] = "",
    as_json: place.AsJson = False,
) -> None:
    if packed:
        raise typer.Exit(proof.main([packed]))
    with place.reading() as project:
        places = project.settings.anchors or AnchorPlaces()
        runs = [project.store.run(run)] if run else project.every_run()
        faults = [*project.store.verify(runs[0].run if run else "", places.keys)] if project.has_log else []
        is_new = not project.has_log
        gaps = project.store.gaps() if project.has_log and not run else {}
        kept = Path(anchors) if anchors else project.folder / places.file if places.file else None
        is_compared = not is_new and not run and kept is not None and (bool(anchors) or kept.is_file())
        noted = place.readable(kept) if is_compared and kept is not None else ""
        if is_compared and kept is not None:
            faults += project.store.anchor_faults(noted, kept.name, places.keys)
        if stamped_by and is_compared:
            faults += _stamps(noted, place.readable(Path(stamped_by)))
    entries = sum(view.seq for view in runs)
    if as_json:
        counts = {} if is_new else {"runs": len(runs), "entries": entries, **gaps}
        page.say_json(
            {
                "holds": not faults,
                **counts,
                "anchors": len(_anchors(noted)),
                "faults": [asdict(each) for each in faults],
            }
        )
    elif faults:
        for fault in faults:
            page.say(f"run {fault.run}, {f'entry {fault.seq}' if fault.seq else 'the whole run'}: {fault.what}")
        page.say(f"{times.counted(len(faults), 'fault')}{UNKNOWN if only_unknown_keys(faults) else CHANGED}")
    else:
        all_hold = f"{times.counted(len(runs), 'run')}, {entries} entries: every chain holds."
        all_hold += f" The content of {gaps['erased']} entries was erased." if gaps.get("erased") else ""
        pruned = gaps.get("pruned")
        all_hold += f" {times.counted(pruned, 'run')} ended and went after their time." if pruned else ""
        page.say("There are no runs yet." if is_new else all_hold)
        if not run and not is_new:
            page.say(*_words_on_anchors(noted))
    raise typer.Exit(FAILED if faults else OK)


def _anchors(noted: str) -> list[Noted]:
    return [each for _, each in read_anchors(noted) if each is not None]


def _words_on_anchors(noted: str) -> Iterator[str]:
    """What the check cannot see, and with anchors until when it can."""
    found = _anchors(noted)
    if not found:
        yield (
            "Not seen without an anchor kept elsewhere: a log made anew by somebody who has the database and "
            f".amends/{FILE}, and an end cut off since the last checkpoint. Make one: amends log anchor"
        )
        return
    last = max(found, key=lambda each: each.seq)
    yield (
        f"{times.counted(len(found), 'anchor')} compared: the log holds them. Not seen: what was done after the last "
        f"one, of {iso(last.at)[:19]}, by somebody who has the database and .amends/{FILE}."
    )


def _stamps(noted: str, roots: str) -> Iterator[ChainFault]:
    """Anchors that bear no time-stamp of these authorities."""
    stamping = importlib.import_module("runner.stamping")
    for number, each in read_anchors(noted):
        if each is not None:
            why = stamping.why_unstamped(b64decode(each.timestamp), canonical(each.statement), roots.encode())
            if why:
                yield ChainFault(run=SITE, seq=each.seq, what=f"the time-stamp of the anchor in line {number}: {why}")


@COMMANDS.command(help="Print the public key that this folder signs checkpoints and anchors with.")
def key(as_json: place.AsJson = False) -> None:
    with place.reading() as project:
        found = public_key(project.folder / ".amends")
    if not found:
        raise NotPossible("there is no key yet; it is made when the first run begins")
    if as_json:
        page.say_json({"key": found})
    else:
        page.say(found)


@COMMANDS.command(help="Write everything that is known of a run: as JSON, or as an archive that anybody can verify.")
def export(
    run: place.RunId,
    to: Annotated[
        str,
        typer.Option("--to", metavar="FILE.zip", help="An archive with its own verify.py; JSON is printed without it."),
    ] = "",
) -> None:
    with place.reading() as project:
        name = project.store.run(run).run
        if not to:
            page.say_json(project.store.export(name))
            return
        if not to.endswith(".zip"):
            raise NotPossible(f'"{to}" is no archive: name a file that ends with .zip')
        place.write(Path(to), pack(project.store, name))
    page.say(
        f"The evidence of run {name} stands in {to}. It holds what the run worked with, personal data too.",
        f"Whoever has it can check it without Amends: python verify.py {to} (verify.py is inside).",
    )
