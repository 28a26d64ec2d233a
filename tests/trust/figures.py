"""What a suite prints: one line a figure, then what was planted and caught, then the floors."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SHOWN = 20
"""Wrong things that are printed; the others are counted, by their kind."""
NAMES = re.compile(r"(?!I\d+:)\S*\d\S*")
"""Whatever tells one wrong thing from another of its kind: a word with a digit in it."""


@dataclass(kw_only=True)
class Figures:
    """Collects and prints. `code` is what the suite's `run` returns."""

    wrong: list[str] = field(default_factory=list)

    @property
    def code(self) -> int:
        return 1 if self.wrong else 0

    def say(self, name: str, value: object) -> None:
        """One figure."""
        print(f"{name}: {value}", flush=True)

    def broken(self, sentences: Sequence[str]) -> None:
        """What must not be. Where some are not shown, each kind is, so that none hides another."""
        room = max(SHOWN - len(self.wrong), 0)
        for sentence in sentences[:room]:
            print(f"wrong: {sentence}", flush=True)
        kinds: defaultdict[str, list[str]] = defaultdict(list)
        for sentence in sentences if len(sentences) > room else ():
            kinds[NAMES.sub("…", sentence)].append(sentence)
        for of in kinds.values():
            print(f"wrong, {len(of)} of this kind: {of[0]}", flush=True)
        self.wrong += sentences

    def planted(self, caught: Mapping[str, str]) -> None:
        """Each mistake that was planted, and who saw it (empty: nobody)."""
        for name, by in caught.items():
            self.say(f"planted, {name}", by or "NOT SEEN")
        self.say("planted", f"{sum(map(bool, caught.values()))} of {len(caught)} caught")
        self.wrong += [f"nobody saw: {name}" for name, by in caught.items() if not by]

    def floor(self, name: str, count: int, least: int) -> None:
        """How much really happened, and how much must."""
        self.say(name, f"{count} (floor {least})")
        if count < least:
            self.wrong.append(f"{name}: {count}, and {least} is the least")
