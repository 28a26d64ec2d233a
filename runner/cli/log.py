"""`amends log`: verify the chains of the action log, export the evidence of a run. Loads no flow and no engine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import FAILED, OK, page, place
from runner.errors import NotPossible
from runner.store import proof
from runner.store.evidence import pack
from runner.telling import times

COMMANDS = place.noun("Verify the action log, export the evidence of a run.")


@COMMANDS.command(help="Check that no entry of the log was changed, lost or added: of one run, or of all of them.")
def verify(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="One run; all of them without it.")] = "",
    packed: Annotated[str, typer.Option("--pack", metavar="FILE", help="An archive of `log export` instead.")] = "",
    as_json: place.AsJson = False,
) -> None:
    if packed:
        raise typer.Exit(proof.main([packed]))
    with place.reading() as project:
        runs = [project.store.run(run)] if run else project.every_run()
        faults = project.store.verify(runs[0].run if run else "") if project.has_log else ()
        is_new = not project.has_log
        gaps = project.store.gaps() if project.has_log and not run else {}
    entries = sum(view.seq for view in runs)
    if as_json:
        counts = {} if is_new else {"runs": len(runs), "entries": entries, **gaps}
        page.say_json({"holds": not faults, **counts, "faults": [asdict(each) for each in faults]})
    elif faults:
        for fault in faults:
            page.say(f"run {fault.run}, {f'entry {fault.seq}' if fault.seq else 'the whole run'}: {fault.what}")
        page.say(f"{times.counted(len(faults), 'fault')}: this log was changed after it was written.")
    else:
        all_hold = f"{times.counted(len(runs), 'run')}, {entries} entries: every chain holds."
        all_hold += f" The content of {gaps['erased']} entries was erased." if gaps.get("erased") else ""
        pruned = gaps.get("pruned")
        all_hold += f" {times.counted(pruned, 'run')} ended and went after their time." if pruned else ""
        page.say("There are no runs yet." if is_new else all_hold)
    raise typer.Exit(FAILED if faults else OK)


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
