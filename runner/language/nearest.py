"""The nearest name: what the author may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_NAMES = 16
"""A hint names no more of what there is."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like this one, or empty where none is near."""
    names = sorted(set(known))
    folded = {known_name.lower().replace("-", "_"): known_name for known_name in reversed(names)}
    asked = name.lower().replace("-", "_")
    if asked in folded:
        return folded[asked]
    close = difflib.get_close_matches(asked, folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else ""


def did_you_mean(name: str, known: Iterable[str], what: str = "known names") -> str:
    """A hint: the nearest name, or what there is, in at most one line."""
    names = sorted(set(known))
    close = nearest(name, names)
    if close:
        return f'did you mean "{close}"?'
    if not names:
        return ""
    more = f" … ({len(names)} in all)" if len(names) > MOST_NAMES else ""
    return f"{what}: {', '.join(names[:MOST_NAMES])}{more}"
