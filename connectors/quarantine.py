"""The list of what was set aside as a connection: `quarantine`."""

from __future__ import annotations

from typing import Any

from connectors.own import OwnKind, own
from runner.contract import Undo

KIND: Any = OwnKind(
    "quarantine",
    "What was set aside",
    own(
        "add",
        "Sets a record aside, with the reason, until a person lets it go.",
        input={"record": "text", "reason": "text or empty", "content": "record or empty"},
        output={"record": "text"},
        undo=Undo(action="release", with_={"record": "${{ input.record }}"}),
        sample={"record": "draft/1"},
    ),
    own(
        "release",
        "Lets a record go that was set aside.",
        input={"record": "text", "reason": "text or empty"},
        output={"record": "text"},
        undo=Undo(action="add", with_={"record": "${{ input.record }}"}),
        sample={"record": "draft/1"},
    ),
    own(
        "get",
        "Says whether a record is set aside; `why` is the reason.",
        effect="read",
        input={"record": "text"},
        output={"found": "yes_no", "why": "text or empty"},
    ),
)
