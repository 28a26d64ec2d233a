"""`amends log`: verify the chains of the action log, export the evidence of a run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import FAILED, OK, page, place
from runner.errors import NotPossible

COMMANDS = place.noun("Verify the action log, export the evidence of a run.")


@COMMANDS.command(help="Check that no entry of the log was changed, lost or added: of one run, or of all of them.")
def verify(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="One run; all of them without it.")] = "",
    as_json: place.AsJson = False,
) -> None:
    with place.opened() as amends:
        if not place.has_log(amends):
            page.say_json({"holds": True, "faults": []}) if as_json else page.say("There are no runs yet.")
            return
        runs = [amends.store.run(run)] if run else place.every_run(amends)
        faults = amends.store.verify(runs[0].run if run else "")
        entries = sum(view.seq for view in runs)
        if as_json:
            page.say_json(
                {
                    "holds": not faults,
                    "runs": len(runs),
                    "entries": entries,
                    "faults": [asdict(each) for each in faults],
                }
            )
        elif faults:
            for fault in faults:
                where = f"entry {fault.seq}" if fault.seq else "the whole run"
                page.say(f"run {fault.run}, {where}: {fault.what}")
            page.say(
                f"{len(faults)} fault{'' if len(faults) == 1 else 's'}: this log was changed after it was written."
            )
        else:
            counted = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
            page.say(f"{counted}, {entries} entries: every chain holds.")
        raise typer.Exit(FAILED if faults else OK)


@COMMANDS.command(help="Write everything that is known of a run as one JSON file: log, effects, hand-offs, flow.")
def export(
    run: place.RunId,
    to: Annotated[str, typer.Option("--to", metavar="FILE", help="Where to; standard output without it.")] = "",
) -> None:
    with place.opened() as amends:
        evidence = amends.store.export(amends.store.run(run).run)
    text = json.dumps(evidence, ensure_ascii=False, indent=2, default=str)
    if not to:
        page.say(text)
        return
    file = Path(to)
    if file.exists():
        raise NotPossible(f"{to} is there already; name another file")
    try:
        file.write_text(text + "\n", encoding="utf-8")
        file.chmod(0o600)
    except OSError as error:
        raise NotPossible(f"{to} cannot be written: {error.strerror or error}") from None
    page.say(f"The evidence of run {evidence['run']['run_id']} stands in {to}: {len(evidence['log'])} entries.")
