"""The reader's language: every sentence for a person goes through `_`, and stands in English in the code.

What it is called in the others stands in `catalogues/<language>/LC_MESSAGES/amends.po`, which is read as it is. After
a sentence was added or changed, bring them up to date and fill in what is empty there (`msgstr ""`):

    pybabel extract -F runner/catalogues/babel.cfg -k marked -k several:1,2 --no-location --sort-output -o a.pot runner
    pybabel update -i a.pot -d runner/catalogues -D amends -w 1000 --no-fuzzy-matching --ignore-pot-creation-date

tests/web/test_tongue.py names every sentence that a catalogue leaves out.
"""

from __future__ import annotations

import gettext
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from runner.clock import iso

LANGUAGES = ("en", "ja", "zh-TW")
CATALOGUES = Path(__file__).parent / "catalogues"

_spoken: ContextVar[str] = ContextVar("language", default="en")


def _(text: str, /, **values: object) -> str:
    """A sentence in the reader's language, with these values in its places: `_("step {name}", name=step)`."""
    told = _catalogue(_spoken.get()).gettext(text) if text else ""  # an empty one is the catalogue's own head
    return told.format_map(values) if values else told


def several(one: str, many: str, count: int, /, **values: object) -> str:
    """A sentence about a number of things; `{count}` is that number."""
    return _catalogue(_spoken.get()).ngettext(one, many, count).format_map({"count": count, **values})


def marked(text: str) -> str:
    """A sentence that is translated where it is used: `_(TABLE[word])`."""
    return text


def day(moment: datetime) -> str:
    """A day as it is written: 2026-09-01."""
    return f"{moment:%Y-%m-%d}" if spoken() == "en" else str(_locales().day(moment, spoken()))


def point(at: int, zone: str, *, exact: bool = False) -> str:
    """A time (ms since the epoch) as people read it, in their zone with its offset: 2026-09-01 09:00 +09:00.

    To the minute, or `exact` to the second.
    """
    written = iso(at, zone)
    return f"{day(datetime.fromisoformat(written))} {written[11 : 19 if exact else 16]} {written[-6:]}"


def length(amount: int, unit: str, english: str) -> str:
    """A length of time: 3 min. `unit` is minute, `english` what it is called here: min."""
    return f"{amount} {english}" if spoken() == "en" else str(_locales().length(amount, unit, spoken()))


@cache
def _catalogue(language: str) -> gettext.NullTranslations:
    if language == "en":
        return gettext.NullTranslations()
    found: gettext.NullTranslations = _locales().catalogue(CATALOGUES, language)
    return found


def _locales() -> Any:
    """Loaded by name when it is needed: the command line speaks English, and has no time for it."""
    return importlib.import_module("runner.locales")


def spoken() -> str:
    """The language that is spoken here and now."""
    return _spoken.get()


def speak(language: str) -> None:
    """From here on, in this context."""
    _spoken.set(language if language in LANGUAGES else "en")


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """As long as it is held: for a mail to one person."""
    before = _spoken.set(language if language in LANGUAGES else "en")
    try:
        yield
    finally:
        _spoken.reset(before)


def chosen(own: str, accepted: str, otherwise: str) -> str:
    """The language to speak: the person's own, else what the browser accepts, else the project's."""
    if own in LANGUAGES:
        return own
    wanted: list[tuple[float, str]] = []
    for part in accepted.split(",")[:20]:
        name, _sign, quality = part.strip().partition(";q=")
        try:
            wanted.append((-float(quality or 1), _nearest(name)))
        except ValueError:
            continue
    return next((name for _quality, name in sorted(wanted, key=lambda each: each[0]) if name), otherwise or "en")


def _nearest(name: str) -> str:
    """The language of ours that this name stands for; empty where there is none."""
    low = name.lower()
    if low in ("zh-tw", "zh-hk", "zh-mo") or low.startswith("zh-hant"):
        return "zh-TW"
    return low[:2] if low[:2] in ("en", "ja") and low[2:3] in ("", "-") else ""
