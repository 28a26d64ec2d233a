"""Languages other than English: what their catalogues say, how they write days and lengths of time. The home of Babel.

Loaded when the first of them is spoken: that takes a moment, and the command line speaks English.
"""

from __future__ import annotations

import gettext
from datetime import datetime
from io import BytesIO
from pathlib import Path

from babel.dates import format_skeleton
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.units import format_unit


def catalogue(folder: Path, language: str) -> gettext.NullTranslations:
    """The sentences of `folder`/ja/LC_MESSAGES/amends.po."""
    with (folder / _locale(language) / "LC_MESSAGES" / "amends.po").open("rb") as text:
        read = read_po(text)
    compiled = BytesIO()
    write_mo(compiled, read)
    compiled.seek(0)
    return gettext.GNUTranslations(compiled)


def day(moment: datetime, language: str) -> str:
    """2026年9月1日."""
    return format_skeleton("yMMMd", moment, locale=_locale(language))


def length(amount: int, unit: str, language: str) -> str:
    """3 分; `unit` is CLDR's: millisecond, second, minute, hour, day."""
    return str(format_unit(amount, f"duration-{unit}", "short", locale=_locale(language)))


def _locale(language: str) -> str:
    return language.replace("-", "_")
