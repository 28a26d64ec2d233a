"""Public holidays by country. The home of holidays, which is loaded only where a calendar names a country."""

from __future__ import annotations

import holidays

FIRST_YEAR, LAST_YEAR = 2024, 2050


def is_known(country: str) -> bool:
    """Whether there are holidays for `JP`, or for a part of a country: `DE-BY`."""
    name, _, part = country.partition("-")
    known = holidays.list_supported_countries()
    return name in known and (not part or part in known[name])


def days(country: str) -> frozenset[str]:
    """The holidays of all years that are reckoned with, as ISO dates."""
    name, _, part = country.partition("-")
    years = range(FIRST_YEAR, LAST_YEAR + 1)
    return frozenset(day.isoformat() for day in holidays.country_holidays(name, subdiv=part or None, years=years))
