"""Whether the address that people are given leads here: one request to it, from outside in, watched by the guard."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request

from runner.guard import Guard, watched

SIGN = "Amends-Instance"
"""The header by which `/health` tells one running process from another."""
LIMIT = 4.0
"""Seconds."""


def why_not_reached(address: str, sign: str) -> str:
    """Why links to this address do not lead to the process that has this sign; empty where they do. Blocks."""
    asked = urllib.request.Request(f"{address.rstrip('/')}/health", headers={"User-Agent": "amends"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with watched(Guard(allow_private=True)), opener.open(asked, timeout=LIMIT) as answer:
            found = answer.headers.get(SIGN, "")
    except urllib.error.HTTPError as error:
        return f"it answers {error.code}"
    except urllib.error.URLError as error:
        reason = error.reason
        if isinstance(reason, ssl.SSLError):
            return f"its certificate is not trusted ({reason.reason})"
        return str(getattr(reason, "strerror", "") or reason)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    return "" if found == sign else "something else answers there"
