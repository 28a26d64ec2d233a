"""What the tests of lists have in common: flows over rows, a shop that says no to some of them, and the last look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from runner.store.facts import RunView
from tests.cases.ground import Engine, Ground
from tests.support.http_service import HttpService
from tests.support.says import Say, refused
from tests.support.world import Seen

BOOK = """      - id: book
        do: shop.reserve
        with: { note: "${{ item.n }}" }
        compensate: { cancel: shop.release, with: { note: "${{ item.n }}", of: "${{ output.id }}" } }
"""
PAY = """      - id: pay
        do: shop.charge
        with: { note: "${{ item.n }}", of: "${{ steps.book.id }}" }
        compensate: { cancel: shop.refund, with: { note: "${{ item.n }}", of: "${{ output.id }}" } }
"""
LAST = """  - id: last
    do: shop.log
    with: { note: done }
    compensate: { none: It only counts. }
"""


def rows(count: int) -> list[dict[str, str]]:
    return [{"n": f"n{number:03}"} for number in range(1, count + 1)]


def listed(each: str, *, more: str = "", steps: str = BOOK + PAY) -> str:
    """A step `rows` over a list."""
    return f"  - id: rows\n    each: {each}\n    named: ${{{{ item.n }}}}\n{more}    steps:\n{steps}"


def written(count: int) -> str:
    """The rows as a flow writes them."""
    return "[" + ", ".join(f"{{ n: {row['n']} }}" for row in rows(count)) + "]"


def refuse(shop: HttpService, path: str, notes: Collection[str], say: Say | None = None, *, times: int = 1) -> None:
    """The shop says no to requests at a path about these rows, so many times each."""
    usual, left = shop.say_to, Counter(dict.fromkeys(notes, times))

    def say_to(seen: Seen) -> Say:
        note = seen.json["note"] if seen.path == path else ""
        if left[note] <= 0:
            return usual(seen)
        left[note] -= 1
        return say or refused(422, f"no to {note}")

    setattr(shop, "say_to", say_to)  # noqa: B010 - a test's own ears


def notes(ground: Ground, path: str) -> list[str]:
    """Which rows had an effect at a path, in order."""
    return [effect.body["note"] for effect in ground.shop.world.effects if effect.path == path]


def undone(ground: Ground, path: str) -> list[str]:
    """What was taken back at a path, in order: ids of effects."""
    return [effect.body["of"] for effect in ground.shop.world.effects if effect.path == path]


def holds(engine: Engine, view: RunView) -> None:
    """What must be true of every run, and that the table of effects says what the log does."""
    engine.holds(view.run)
    state = engine.state(view.run)
    folded: Counter[str] = Counter(effect.disposition for effect in state.effects.values())
    for listing in state.lists.values():
        folded.update(listing.left)
    folded["stands"] += folded.pop("kept", 0)
    assert Counter(engine.dispositions_of(view.run)) == +folded


def each_once(ground: Ground, path: str, count: int) -> None:
    assert sorted(notes(ground, path)) == [row["n"] for row in rows(count)]
