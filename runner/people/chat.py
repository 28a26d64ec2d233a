"""Chat messages by any service that apprise knows. The home of apprise."""

from __future__ import annotations

import warnings

import apprise

from runner.contract import Outcome


async def send(address: str, subject: str, text: str) -> Outcome:
    """Hands a message to the service that the address names (`slack://…`, `mailto://…`, `json://…`)."""
    teller = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Amends"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it looks for a module that a later Python has no more
        is_known = teller.add(address)
    if not is_known:
        return Outcome(result="refused", reason="invalid", summary="the chat address is none that is known here")
    if not await teller.async_notify(title=subject, body=text, body_format=apprise.NotifyFormat.TEXT):
        return Outcome(result="not_sent", reason="unavailable", summary="the chat service did not take the message")
    return Outcome(result="applied")
