"""Names of time zones: a region (`Asia/Tokyo`) or UTC, because an abbreviation says nothing about summer time."""

from __future__ import annotations

from functools import lru_cache
from zoneinfo import available_timezones

from runner.language.nearest import nearest


@lru_cache(maxsize=1)
def regions() -> frozenset[str]:
    """Every region name."""
    return frozenset(
        name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "SystemV/"))
    )


@lru_cache(maxsize=256)
def zone_fault(name: str) -> str:
    """Empty if this is a region or UTC, else a sentence; a hint stands behind `; `."""
    if name == "UTC" or name in regions():
        return ""
    close = nearest(name, regions())
    hint = f'did you mean "{close}"?' if close else "it is written as a region: Asia/Tokyo, Europe/Berlin, or UTC"
    return f'"{name}" is not the zone of a region; {hint}'
