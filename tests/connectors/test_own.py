"""Kinds that the store carries out."""

from __future__ import annotations

import pytest

from connectors import quarantine, records
from runner.errors import NotPossible, RequestError, SettingsError
from tests.connectors.tools import Lent


def test_they_are_declared_as_our_own() -> None:
    for kind in (records.KIND, quarantine.KIND):
        for action in kind.actions().values():
            assert action.own
            assert action.effect in ("keyed", "read")
            assert action.effect == "read" or action.undo is not None or action.cannot_undo
            if action.undo is not None:
                assert action.undo.action in kind.actions()
    assert records.KIND.actions()["create"].undo.action == "delete"
    assert quarantine.KIND.actions()["add"].undo.action == "release"


async def test_they_are_prepared_and_never_sent() -> None:
    mine = records.KIND.connect("records", {}, Lent())
    request = mine.prepare("create", {"collection": "leads", "name": "Aya"}, key="k", purpose="do")
    assert request.body == {"own": "records.create", "input": {"collection": "leads", "name": "Aya"}}
    cleared = mine.prepare("update", {"collection": "leads", "id": "1", "note": None}, key="k", purpose="do")
    assert cleared.body["input"] == {"collection": "leads", "id": "1", "note": None}
    assert mine.prepare("find", {"collection": "leads"}, key="k", purpose="read").body["input"] == {
        "collection": "leads"
    }
    with pytest.raises(NotPossible, match=r"records\.create is carried out by the store"):
        await mine.send("create", request, key="k", purpose="do", limit=1)
    with pytest.raises(RequestError, match='create needs the field "collection"'):
        mine.prepare("create", {"name": "Aya"}, key="k", purpose="do")
    with pytest.raises(RequestError, match='records has no action "drop"'):
        mine.prepare("drop", {}, key="k", purpose="do")
    with pytest.raises(SettingsError, match="records: records takes no settings, and origin is one"):
        records.KIND.connect("records", {"origin": "x"}, Lent())
    await mine.close()
