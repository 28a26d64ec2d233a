"""`amends flows`: the flows of the project, and every version of them that ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from runner.app import Amends
from runner.cli import holds, page, place, watching
from runner.cli.place import AsJson
from runner.clock import iso
from runner.contract import Json
from runner.errors import NotFound
from runner.language.bundle import Bundle
from runner.language.called import CheckedFlow
from runner.language.versions import changes, short, text_diff
from runner.people.versions import LATEST, find_version, present_or_none
from runner.store.facts import VersionView
from runner.telling import times

COMMANDS = place.noun("The flows of the project, and their versions.")
FlowId = Annotated[str, typer.Argument(metavar="FLOW", help="The flow's id.")]


@COMMANDS.command("list", help="List the flows: the version of each file, the runs on it and on older ones.")
def list_(as_json: AsJson = False) -> None:
    with watching.opened() as amends:
        zone = place.zone_of(amends)
        ran = amends.store.versions() if amends.has_log else ()
        found = [_flow_json(amends, each, ran, zone) for each in amends.project.check()]
    if as_json:
        page.say_json(found)
    elif found:
        heads = ("flow", "mode", "version", "since", "open", "check", "title")
        page.show(page.listed(heads, [_flow_line(each) for each in found], fixed=(0, 1, 2, 3, 4)))
    else:
        page.say(f"There is no flow in {amends.folder}; `amends init` makes a first one.")


def _flow_json(amends: Amends, each: CheckedFlow, ran: Sequence[VersionView], zone: str) -> dict[str, Json]:
    flow = each.flow
    errors, warnings = (sum(one.level == level for one in each.problems) for level in ("error", "warning"))
    fit = {"file": each.file, "is_fit_to_run": each.is_fit_to_run, "errors": errors, "warnings": warnings}
    if flow is None:
        return fit
    file = present_or_none(amends.project, each.file)
    mine = [version for version in ran if version.flow == flow.id]
    same = [version for version in mine if file is not None and version.bundle == file.digest]
    open_runs = sum(version.open_runs for version in same)
    return {
        "flow": flow.id, "title": flow.title, "mode": flow.mode, "owner": flow.owner, **fit,
        "version": file.digest if file is not None else None,
        "since": iso(same[0].first_at, zone) if same else None,
        "open_runs": open_runs, "open_on_older": sum(version.open_runs for version in mine) - open_runs,
    }  # fmt: skip


def _flow_line(found: dict[str, Any]) -> tuple[str, ...]:
    errors, warnings = found["errors"], found["warnings"]
    faults = times.counted(errors, "error") if errors else times.counted(warnings, "warning") if warnings else "ok"
    if "flow" not in found:
        return found["file"], "", "", "", "", faults, ""
    older = f" +{found['open_on_older']} older" if found["open_on_older"] else ""
    since = found["since"][:10] if found["since"] else "never ran"
    version = short(found["version"]) if found["version"] else ""
    return found["flow"], found["mode"], version, since, f"{found['open_runs']}{older}", faults, found["title"]


@COMMANDS.command(help="Every version of a flow that ran, the one used last first.")
def history(flow: FlowId, as_json: AsJson = False) -> None:
    with watching.opened() as amends:
        zone = place.zone_of(amends)
        file = present_or_none(amends.project, flow)
        name = file.flow.id if file is not None else flow
        ran = amends.store.versions(name) if amends.has_log else ()
        if file is None and not ran:
            amends.project.path_of(flow)  # raises with the nearest name
    is_new = file is not None and all(version.bundle != file.digest for version in ran)
    if as_json:
        unused = [{"flow": name, "version": file.digest, "is_file": True}] if file is not None and is_new else []
        page.say_json([*unused, *(_version_json(version, file, zone) for version in ran)])
        return
    rows: list[tuple[str, ...]] = []
    if file is not None and is_new:
        rows.append((short(file.digest), "never ran", "", "", "", "the file"))
    for version in ran:
        is_file = "the file" if file is not None and version.bundle == file.digest else ""
        at = (times.short(when, zone) for when in (version.first_at, version.last_at))
        rows.append((short(version.bundle), *at, str(version.runs), str(version.open_runs), is_file))
    offsets = times.offsets([at for version in ran for at in (version.first_at, version.last_at)], zone)
    heads = ("version", f"first used{f' ({offsets})' if offsets else ''}", "last used", "runs", "open", "")
    page.show(page.listed(heads, rows, fixed=(0, 1, 2)))


def _version_json(version: VersionView, file: Bundle | None, zone: str) -> dict[str, Json]:
    return {
        "flow": version.flow, "version": version.bundle, "is_file": file is not None and file.digest == version.bundle,
        "first_used": iso(version.first_at, zone), "last_used": iso(version.last_at, zone), "runs": version.runs,
        "open_runs": version.open_runs,
    }  # fmt: skip


@COMMANDS.command(help="What differs between two versions of a flow: by default the one that ran last, and the file.")
def diff(
    flow: FlowId,
    old: Annotated[str, typer.Argument(metavar="[A]", help="The beginning of a version's digest.")] = "",
    new: Annotated[str, typer.Argument(metavar="[B]", help="The same; or latest, which is the file.")] = LATEST,
    as_json: AsJson = False,
) -> None:
    with watching.opened() as amends:
        store = amends.store if amends.has_log else None
        file = present_or_none(amends.project, flow)
        name = file.flow.id if file is not None else flow
        if not old:
            ran = store.versions(name) if store is not None else ()
            if not ran:
                amends.project.path_of(flow)
                raise NotFound(f"flow {name} never ran, so there is nothing to compare its file with")
            old = ran[0].bundle
        a, b = (find_version(amends.project, store, name, wanted) for wanted in (old, new))
    found, text = changes(a, b), text_diff(a, b)
    if as_json:
        words = [asdict(change) for change in found]
        page.say_json({"flow": name, "old": a.digest, "new": b.digest, "changes": words, "diff": text})
    elif a.digest == b.digest:
        page.say(f"Nothing differs: both are version {short(a.digest)}.")
    else:
        page.show(Text(said(found)))
        page.say(*(("", text) if text else ()))


def said(found: Sequence[Any]) -> str:
    """What has changed as one paragraph."""
    return " ".join(change.text for change in found) or "Only comments, blanks or the order of keys differ."


def _names(amends: Amends) -> list[str]:
    return [each.flow.id for each in amends.project.check() if each.flow is not None]


holds.add_to(COMMANDS, "flow", _names)
