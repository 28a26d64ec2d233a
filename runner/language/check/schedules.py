"""Schedules: a zone, a time that can be read, and a time that comes (FL402)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.contract import Json
from runner.errors import Problem
from runner.language.check.context import Context, rule
from runner.language.slots import NoSchedule, schedule_of
from runner.language.source import Path
from runner.language.zones import zone_fault


@rule("FL402")
def find_wrong_schedules(context: Context) -> Iterator[Problem]:
    """Schedules without a zone, with a zone that is none, that cannot be read or that never fire; and, as a warning,
    those that leave months out."""
    for path, trigger in context.triggers:
        if "schedule" in trigger or "cron" in trigger:
            yield from _of_one(context, path, trigger)


def _of_one(context: Context, path: Path, trigger: Mapping[str, Json]) -> Iterator[Problem]:
    word = "schedule" if "schedule" in trigger else "cron"
    try:
        schedule = schedule_of(trigger)
    except NoSchedule as fault:
        yield context.source.problem("FL402", (*path, word), str(fault), fault.hint)
    else:
        if schedule.left_out:
            what = f'"{schedule.said}" leaves out {", ".join(schedule.left_out)}: no such day'
            hint = "for the end of each month write schedule: every last day of the month at 18:00"
            yield context.source.problem("FL402", (*path, word), what, hint, level="warning")
    zone = trigger.get("zone")
    if isinstance(zone, str):
        sentence, _, more = zone_fault(zone).partition("; ")
        if sentence:
            yield context.source.problem("FL402", (*path, "zone"), sentence, more)
    elif not context.facts.has_zone and not str(trigger[word]).endswith((" min", " hour", " hours")):
        what = "the schedule has no zone, so nobody knows whose nine o'clock it is"
        yield context.source.problem(
            "FL402", (*path, word), what, "write zone: Asia/Tokyo here, or in amends.yaml", on="key"
        )
