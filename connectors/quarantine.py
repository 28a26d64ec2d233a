"""The list of what was set aside as a connection: `quarantine`.

Declared here, carried out by the store in the outcome's own transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connectors.own import OwnKind
from runner.contract import Action, Undo

_FOREVER = 100 * 365 * 24 * 3_600_000

ACTIONS: Mapping[str, Action] = {
    action.name: action
    for action in (
        Action(
            name="add",
            title="Sets a record aside, with the reason, until a person lets it go.",
            effect="keyed",
            key_life=_FOREVER,
            input={"record": "text", "reason": "text or empty", "content": "record or empty"},
            output={"record": "text"},
            own=True,
            undo=Undo(action="release", with_={"record": "${{ input.record }}"}),
            sample={"record": "draft/1"},
        ),
        Action(
            name="release",
            title="Lets a record go that was set aside.",
            effect="keyed",
            key_life=_FOREVER,
            input={"record": "text", "reason": "text or empty"},
            output={"record": "text"},
            own=True,
            undo=Undo(action="add", with_={"record": "${{ input.record }}"}),
            sample={"record": "draft/1"},
        ),
    )
}

KIND: Any = OwnKind(name="quarantine", title="What was set aside", actions=ACTIONS)
