"""Chat messages by any service that apprise knows. The home of apprise.

It is loaded by name where it is needed: what knows every chat there is takes a second, and most projects have none.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable

import apprise

from runner.contract import Outcome

Allowed = Callable[[str], Awaitable[None]]
"""Raises OSError with a sentence for a host that no message may go to."""


async def send(address: str, subject: str, text: str, *, allowed: Allowed | None = None) -> Outcome:
    """Hands a message to the service that the address names (`slack://…`, `mailto://…`, `json://…`).

    A failure is `unknown`: apprise does not say how far it came. `allowed` is asked about every host that the address
    itself names.
    """
    teller = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Amends", http_redirects=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it looks for a module that a later Python has no more
        is_known = teller.add(address)
    if not is_known:
        return Outcome(result="refused", reason="invalid", summary="the chat address is none that is known here")
    for server in teller:
        for host in (getattr(server, "host", None), getattr(server, "smtp_host", None)):
            if allowed is not None and host:
                try:
                    await allowed(str(host))
                except OSError as error:
                    return Outcome(result="not_sent", reason="forbidden", summary=str(error))
    if not await teller.async_notify(title=subject, body=text, body_format=apprise.NotifyFormat.TEXT):
        return Outcome(result="unknown", reason="unavailable", summary="the chat service did not take the message")
    return Outcome(result="applied", output={"accepted": True})
