"""What the demo's back office can be told to do wrong, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

FaultKind = Literal["refuse", "error", "late", "drop_after", "drop_before", "html", "rate_limit"]
"""refuse: 422 and nothing is done. error: 500 and nothing is done. late: done, answered `after_ms` later.
drop_after: done, the connection is cut without an answer. drop_before: cut, nothing is done.
html: done, answered with a page instead of JSON. rate_limit: 429 with Retry-After, nothing is done."""

KINDS: tuple[str, ...] = get_args(FaultKind)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One thing that goes wrong, for the next `times` requests that match.

    `path` may hold `*` (`/tasks/*/close`). `method` left empty means every method but GET. `say` is the message of a
    refusal. `after_ms` is how late a late answer is, and the Retry-After of a rate limit.
    """

    path: str
    fault: FaultKind
    times: int = 1
    method: str = ""
    after_ms: int = 0
    say: str = ""

    @classmethod
    def read(cls, wanted: object) -> Fault:
        """The fault out of a JSON body. Raises ValueError or TypeError with a sentence."""
        if not isinstance(wanted, Mapping):
            raise TypeError("a fault is a JSON object")
        unknown = sorted(set(wanted) - {"path", "fault", "times", "method", "after_ms", "say"})
        if unknown:
            raise ValueError(f'a fault has no field "{unknown[0]}"')
        if wanted.get("fault") not in KINDS:
            raise ValueError(f'"{wanted.get("fault")}" is no fault; there are {", ".join(KINDS)}')
        if not isinstance(wanted.get("path"), str) or not wanted["path"].startswith("/"):
            raise ValueError('a fault needs a "path" that begins with /')
        return cls(
            path=wanted["path"],
            fault=wanted["fault"],
            times=_whole(wanted, "times", 1),
            method=str(wanted.get("method", "")).upper(),
            after_ms=_whole(wanted, "after_ms", 0),
            say=str(wanted.get("say", "")),
        )

    def matches(self, method: str, path: str) -> bool:
        """Whether this fault is meant for such a request."""
        method_fits = method == self.method if self.method else method != "GET"
        return method_fits and fnmatchcase(path, self.path)


class FaultList:
    """The faults still to come, oldest first."""

    def __init__(self) -> None:
        self._left: list[tuple[Fault, int]] = []

    def add(self, fault: Fault) -> None:
        """Arms a fault; with `times` 0 or less it disarms all faults of that path."""
        if fault.times > 0:
            self._left.append((fault, fault.times))
        else:
            self._left = [entry for entry in self._left if entry[0].path != fault.path]

    def take(self, method: str, path: str) -> Fault | None:
        """The fault for this request, if one is armed; it is used up once."""
        for place, (fault, times) in enumerate(self._left):
            if fault.matches(method, path):
                if times == 1:
                    del self._left[place]
                else:
                    self._left[place] = (fault, times - 1)
                return fault
        return None

    @property
    def count(self) -> int:
        """How many faults are still armed."""
        return sum(times for _, times in self._left)


def _whole(wanted: Mapping[str, Any], name: str, default: int) -> int:
    value = wanted.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f'"{name}" is a whole number, not {value!r}')
    return value
