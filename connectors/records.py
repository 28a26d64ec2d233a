"""Our own tables as a connection: `records`. Declared here, carried out by the store in the outcome's own transaction,
so that each happens exactly once. Nothing of it ever leaves the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connectors.own import OwnKind
from runner.contract import Action, Json, Undo

_RECORD: Mapping[str, Json] = {"collection": "text", "id": "text"}
_FOREVER = 100 * 365 * 24 * 3_600_000
"""Life of a key, ms: the store never forgets one."""

ACTIONS: Mapping[str, Action] = {
    action.name: action
    for action in (
        Action(
            name="create",
            title="Adds a record to one of our own tables; further fields are the record's own.",
            effect="keyed",
            key_life=_FOREVER,
            input={"collection": "text"},
            output={"id": "text", "collection": "text"},
            open_input=True,
            open_output=True,
            own=True,
            undo=Undo(action="delete", with_={"collection": "${{ input.collection }}", "id": "${{ output.id }}"}),
            sample={"id": "draft", "collection": "draft"},
        ),
        Action(
            name="update",
            title="Changes fields of a record of ours; fields that are not named stay.",
            effect="keyed",
            key_life=_FOREVER,
            input=_RECORD,
            output=_RECORD,
            open_input=True,
            open_output=True,
            own=True,
            cannot_undo="What the fields held before is not kept; set them again by hand.",
            sample={"id": "draft", "collection": "draft"},
        ),
        Action(
            name="delete",
            title="Takes a record out of one of our own tables.",
            effect="keyed",
            key_life=_FOREVER,
            input=_RECORD,
            output=_RECORD,
            own=True,
            cannot_undo="A deleted record is gone; create it again by hand.",
            sample={"id": "draft", "collection": "draft"},
        ),
        Action(
            name="get",
            title="Reads one record of ours; `found` says whether there is one.",
            effect="read",
            input=_RECORD,
            output={"found": "yes_no", "id": "text or empty", "collection": "text or empty"},
            open_output=True,
            own=True,
        ),
        Action(
            name="find",
            title="Reads the records of ours whose fields are those given in `where`.",
            effect="read",
            input={"collection": "text", "where": "record or empty"},
            output={"found": "yes_no", "rows": "list", "count": "integer"},
            own=True,
        ),
    )
}

KIND: Any = OwnKind(name="records", title="Our own tables, exactly once", actions=ACTIONS)
