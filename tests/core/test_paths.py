"""Where things stand: paths of steps and scopes, and which scope surrounds which."""

from __future__ import annotations

from runner.core import paths
from runner.core.items import PAGE, Items
from runner.core.state import Failure, Listing, Scope, State


def test_what_a_path_says() -> None:
    assert paths.join("", "send") == "send"
    assert paths.join("rows/3", "send") == "rows/3/send"
    assert paths.scope_of("rows/3/send") == "rows/3"
    assert paths.list_of("rows/3") == "rows"
    assert paths.list_of("log") == ""
    assert paths.number_of("rows/3") == 3
    assert paths.around("log/rows/3") == "log"
    assert list(paths.outwards("rows/3/log/lines/2")) == ["rows/3/log/lines/2", "rows/3/log", "rows/3", ""]
    assert paths.is_in("rows/3/send", "rows/3")
    assert not paths.is_in("rows/31/send", "rows/3")
    assert not paths.is_in("rows/3", "rows/3")
    assert paths.is_in("anything", "")


def nested() -> State:
    """An inner item that fails alone, in one that does too; its own steps are in a called flow."""
    why = Failure(kind="refused", step="rows/3/log/send", summary="no", at=1)
    scopes = {
        "": Scope(), "rows/3": Scope(kind="item", catches=True, generation=2), "rows/3/log": Scope(kind="call"),
        "rows/3/lines/1": Scope(kind="item", catches=True, closed=True, failure=why),
    }  # fmt: skip
    lists = {"rows": Listing(items=Items([1, 2, 3])), "rows/3/lines": Listing(items=Items([1]))}
    return State(scopes=scopes, lists=lists)


def test_what_surrounds_a_path() -> None:
    state = nested()
    assert paths.catcher_of(state, "rows/3/log/send") == "rows/3"
    assert paths.catcher_of(state, "rows/3/lines/1/a") == "rows/3/lines/1"
    assert paths.catcher_of(state, "after") == ""
    assert paths.is_closed_at(state, "rows/3/lines/1/a")
    assert not paths.is_closed_at(state, "rows/3/log/send")
    assert paths.failure_at(state, "rows/3/lines/1/a") is state.scopes["rows/3/lines/1"].failure
    assert paths.failure_at(state, "rows/3/log/send") is None
    assert paths.generation_at(state, "rows/3/b") == 2
    assert paths.generation_at(state, "rows/1/b") == 0
    assert paths.forgotten_item(state, "rows/3/b") == ""
    assert paths.forgotten_item(state, "rows/1/lines/2/a") == "rows/1"
    assert paths.forgotten_item(state, "rows/3/lines/2/a") == "rows/3/lines/2"


def test_items_are_unpacked_by_page() -> None:
    values = [{"no": number} for number in range(2 * PAGE + 3)]
    items = Items(values)
    assert items.count == len(values)
    assert [items[number] for number in (1, PAGE, PAGE + 1, 2 * PAGE + 3, 2)] == [
        values[number - 1] for number in (1, PAGE, PAGE + 1, 2 * PAGE + 3, 2)
    ]
    assert items == Items(values)
    assert items != Items(values[1:])
