"""A run's log without what stands inside items of long lists that came to their end: what people read of it.

Which entries these are is found from their types and places alone, so that a log of a million is read in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from runner.store.facts import Disposition, EffectView, LogRow

FEW = 5
"""Items up to which a list is short: nothing of it is left out."""
SEEN = 20
"""Items of one list that were set aside, or could not be made good, of which all is read."""
_GOOD = ("undone", "answered", "accepted")


@dataclass(frozen=True, kw_only=True, slots=True)
class FoldedEffects:
    """Effects of ended items of the list `each` that are alike: of one step (`path` is without numbers)."""

    each: str
    path: str
    action: str
    disposition: Disposition
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Abridged:
    """The rows, and what they leave out, by list: how many items are `done`, how many were `made_good` later.

    `begun` is the number of the last item that began, `undone_at` when the first was made good; `kept` are the items
    that are read as a whole. `end` is the last entry there is.
    """

    rows: Sequence[LogRow]
    end: int = 0
    done: Mapping[str, int] = field(default_factory=dict)
    made_good: Mapping[str, int] = field(default_factory=dict)
    begun: Mapping[str, int] = field(default_factory=dict)
    undone_at: Mapping[str, int] = field(default_factory=dict)
    kept: AbstractSet[str] | None = None
    """None: all."""
    whole: AbstractSet[str] = frozenset()
    """The items that were asked for."""

    def left_out_of(self, path: str) -> str:
        """The list of whose ended items this path is one, or stands in one; empty where it is in the rows."""
        found = ""
        while self.kept is not None and (path := item_of(path)):
            found = found if path in self.kept else path.rpartition("/")[0]
            path = path.rpartition("/")[0]
        return found

    def _made_good_in(self, effect: EffectView) -> str:
        """The long list in whose item an effect was, of which nothing is to be said but that it was made good."""
        item = item_of(effect.path) if self.kept is not None and effect.disposition in _GOOD else ""
        each = item.rpartition("/")[0]
        return each if self.begun.get(each, 0) > FEW and item not in self.whole else ""

    def told_of(self, effects: Iterable[EffectView]) -> tuple[list[EffectView], list[FoldedEffects]]:
        """The effects that stand in the rows, and counts of the others."""
        found: list[EffectView] = []
        counts: dict[tuple[str, str, str, Disposition], int] = {}
        for effect in effects:
            each = self.left_out_of(effect.path) or self._made_good_in(effect)
            if each:
                inside = effect.path[len(each) + 1 :].split("/")
                path = "/".join([each, *(part for part in inside if not part.isdigit())])
                key = (each, path, effect.action, effect.disposition)
                counts[key] = counts.get(key, 0) + 1
            else:
                found.append(effect)
        return found, [
            FoldedEffects(each=each, path=path, action=action, disposition=disposition, count=count)
            for (each, path, action, disposition), count in counts.items()
        ]


WHOLE = Abridged(rows=())
"""Nothing is left out."""


def item_of(path: str) -> str:
    """The item of a list that this path is, or the innermost it stands in; empty for none."""
    while path:
        rest, _, last = path.rpartition("/")
        if rest and last.isdigit():
            return path
        path = rest
    return ""


class Choosing:
    """Takes the entries in order, and finds those to be read. All that stands in `whole` is."""

    def __init__(self, whole: str) -> None:
        self.items: dict[str, list[int]] = {}
        self.done: dict[str, int] = {}
        self.made_good: dict[str, int] = {}
        self.begun: dict[str, int] = {}
        self.undone_at: dict[str, int] = {}
        self.ended: dict[str, tuple[int, int]] = {}
        """Where each ended item stood in the log."""
        self.outside: list[int] = []
        self.end = 0
        self._whole = whole
        self._early: dict[str, list[int]] = {}
        self._noted: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._is_nested = False

    def read(self, seq: int, kind: str, step: str, at: int) -> None:
        """One more entry."""
        self.end = seq
        item = item_of(step) if "/" in step else ""
        if not item:
            self.outside.append(seq)
            return
        if item in self.ended and item not in self.items:
            self.undone_at.setdefault(item.rpartition("/")[0], at)
        self.items.setdefault(item, []).append(seq)
        if kind == "ScopeEnded" and step == item:
            self._end(item, seq)
        elif kind == "ScopeStarted" and step == item:
            each, _, number = item.rpartition("/")
            self.begun[each] = max(self.begun.get(each, 0), int(number))
            self._is_nested = self._is_nested or item_of(each) != ""
        elif kind in ("ItemSetAside", "CompensationFailed") and item not in self._noted:
            each = item.rpartition("/")[0]
            self._seen[each] = self._noted[item] = self._seen.get(each, 0) + 1
            if kind == "ItemSetAside" and self._noted[item] > SEEN and not self._is_whole(item):
                self.items[item] = [self.items[item][0], seq]

    def _end(self, item: str, seq: int) -> None:
        if self._is_whole(item) or self._noted.get(item, SEEN + 1) <= SEEN:
            return
        each, _, number = item.rpartition("/")
        seqs = self.items.pop(item)
        if self._is_nested:
            seqs = self._with_inner(item, seqs)
        if int(number) <= FEW:
            self._early[item] = [*self._early.get(item, ()), *seqs]
        if item not in self.ended:
            self.done[each] = self.done.get(each, 0) + 1
        elif each in self.made_good or int(number) <= FEW:
            self.made_good[each] = self.made_good.get(each, 0) + 1
        else:  # one of them says when it was
            self.made_good[each] = 0
            self.outside.append(seq)
        self.ended[item] = (min(seqs[0], self.ended.get(item, (seq, 0))[0]), seq)

    def _with_inner(self, item: str, seqs: list[int]) -> list[int]:
        """With the entries of the items of its own lists, which are forgotten."""
        begins = f"{item}/"
        for path in [path for path in self.items if path.startswith(begins)]:
            seqs += self.items.pop(path)
        for known in (self.done, self.made_good, self.begun, self.ended, self._early, self._noted, self._seen):
            for path in [path for path in known if path.startswith(begins)]:
                del known[path]
        return sorted(seqs)

    def _is_whole(self, item: str) -> bool:
        whole = self._whole
        return bool(whole) and f"{item}/".startswith(f"{whole}/") | f"{whole}/".startswith(f"{item}/")

    def finish(self) -> None:
        """There are no more entries: short lists are read as a whole after all."""
        for item, seqs in self._early.items():
            each = item.rpartition("/")[0]
            if self.begun.get(each, 0) <= FEW:
                self.items[item] = [*seqs, *self.items.get(item, ())]
                self.ended.pop(item, None)
                self.done.pop(each, None)
                self.made_good.pop(each, None)
        for item in self.opened_again():
            self.done[item.rpartition("/")[0]] -= 1

    def opened_again(self) -> dict[str, tuple[int, int]]:
        """Ended items that are being made good, and where they stood in the log."""
        return {item: self.ended[item] for item in self.items if item in self.ended}

    def whole(self) -> frozenset[str]:
        """The items that were asked for."""
        return frozenset(filter(self._is_whole, self.items))

    def kept(self) -> frozenset[str]:
        """The items that are read as a whole."""
        return frozenset(item for item in self.items if self._noted.get(item, 0) <= SEEN or self._is_whole(item))
