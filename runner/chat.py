"""Chat messages by any service that apprise knows. The home of apprise.

It is loaded by name where it is needed: what knows every chat there is takes a second, and most projects have none.
Its requests are its own, so the guard looks at every socket that it opens, and nothing of the machine is used: no
proxy, no netrc.
"""

from __future__ import annotations

import asyncio
import socket
import warnings

import apprise
import requests

from runner.contract import Outcome
from runner.guard import Guard, is_watched, watched


class _Alone(requests.Session):
    """A session that asks the machine nothing while it is watched."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = not is_watched()


requests.Session = requests.sessions.Session = _Alone  # type: ignore[misc]


async def send(address: str, subject: str, text: str, *, guard: Guard) -> Outcome:
    """Hands a message to the service that the address names (`slack://…`, `mailto://…`, `json://…`).

    A failure is `unknown`, for apprise does not say how far it came, unless no connection was let through.
    """
    asset = apprise.AppriseAsset(app_id="Amends", http_redirects=False, async_mode=False)
    teller = apprise.Apprise(asset=asset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it looks for a module that a later Python has no more
        is_known = teller.add(address)
    if not is_known:
        return Outcome(result="refused", reason="invalid", summary="the chat address is none that is known here")
    for server in teller:
        server.redirects = False  # an address may ask for them, and they would carry what it holds elsewhere
        for host in (getattr(server, "host", None), getattr(server, "smtp_host", None)):
            why = await _refused(guard, str(host)) if host else ""
            if why:
                return Outcome(result="not_sent", reason="forbidden", summary=why)
    with watched(guard) as watch:
        is_told = await asyncio.to_thread(teller.notify, text, subject, body_format=apprise.NotifyFormat.TEXT)
    if not is_told and watch.refused and not watch.opened:
        return Outcome(result="not_sent", reason="forbidden", summary=watch.refused)
    if not is_told:
        return Outcome(result="unknown", reason="unavailable", summary="the chat service did not take the message")
    return Outcome(result="applied", output={"accepted": True})


async def _refused(guard: Guard, host: str) -> str:
    """Why no message may go to a host, else empty; one without an address is the service's matter."""
    try:
        await guard.resolve(host, 0)
    except socket.gaierror:
        return ""
    except OSError as error:
        return str(error)
    return ""
