"""Our own tables as a connection: `records`."""

from __future__ import annotations

from typing import Any

from connectors.own import OwnKind, own
from runner.contract import Undo

_RECORD = {"collection": "text", "id": "text"}
_DRAFT = {"collection": "draft", "id": "draft"}

KIND: Any = OwnKind(
    "records",
    "Our own tables, exactly once",
    own(
        "create",
        "Adds a record to one of our own tables; further fields are the record's own.",
        input={"collection": "text"},
        output={"id": "text", "collection": "text"},
        open_input=True,
        open_output=True,
        undo=Undo(action="delete", with_={"collection": "${{ input.collection }}", "id": "${{ output.id }}"}),
        sample=_DRAFT,
    ),
    own(
        "update",
        "Changes fields of a record of ours; fields that are not named stay.",
        input=_RECORD,
        output=_RECORD,
        open_input=True,
        open_output=True,
        cannot_undo="What the fields held before is not kept; set them again by hand.",
        sample=_DRAFT,
    ),
    own(
        "delete",
        "Takes a record out of one of our own tables.",
        input=_RECORD,
        output=_RECORD,
        cannot_undo="A deleted record is gone; create it again by hand.",
        sample=_DRAFT,
    ),
    own(
        "get",
        "Reads one record of ours; `found` says whether there is one.",
        effect="read",
        input=_RECORD,
        output={"found": "yes_no", "id": "text or empty", "collection": "text or empty"},
        open_output=True,
    ),
    own(
        "find",
        "Reads the records of ours whose fields are those given in `where`.",
        effect="read",
        input={"collection": "text", "where": "record or empty"},
        output={"found": "yes_no", "rows": "list", "count": "integer"},
    ),
)
