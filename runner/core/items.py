"""The items of a list, packed: a run over 100,000 of them keeps their JSON and unpacks a page at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence

from runner.contract import Json, canonical

PAGE = 256


class Items:
    """An unchangeable list of JSON values, numbered from 1. Each item asked for is unpacked with its page."""

    __slots__ = ("_at", "_page", "_pages", "count")

    def __init__(self, values: Sequence[Json]) -> None:
        self.count = len(values)
        self._pages = tuple(canonical(list(values[at : at + PAGE])) for at in range(0, len(values), PAGE))
        self._at = -1
        self._page: list[Json] = []

    def __getitem__(self, number: int) -> Json:
        page, place = divmod(number - 1, PAGE)
        if page != self._at:
            self._page, self._at = json.loads(self._pages[page]), page
        return self._page[place]

    def all(self) -> list[Json]:
        """Every item, in order."""
        return [item for page in self._pages for item in json.loads(page)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items) and self._pages == other._pages

    def __hash__(self) -> int:
        return hash(self._pages)
