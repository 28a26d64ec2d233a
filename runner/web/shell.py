"""What holds for every request before any route is asked: the host, the prefix, the size, the headers of the answer."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runner.tongue import _, chosen, speaking
from runner.web.console import Console

LARGEST = 1_000_000
"""Bytes of a request's body."""
FORMS, FILES = "/forms/", 3
"""Where files are sent, and how many of the largest at once."""

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}


class Shell:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, console: Console) -> None:
        self._app = app
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._console.look_anew()
        dressed = self._dressed(send)
        headers = {name: value.decode("latin-1") for name, value in scope["headers"] if name in _LOOKED_AT}
        if headers.get(b"host", "").lower() not in self._console.hosts:
            said = "This address is not the one that amends.yaml names as public_url.\n"
            await PlainTextResponse(said, 421)(scope, receive, dressed)
            return
        inside = self._without_prefix(scope)
        has_files = inside["path"].startswith(FORMS) and scope["method"] == "POST"
        largest = LARGEST + (self._console.project.settings.file_limit * FILES if has_files else 0)
        length = headers.get(_LENGTH, "0")
        if not length.isdigit() or int(length) > largest:
            with speaking(chosen("", headers.get(b"accept-language", ""), self._console.project.settings.language)):
                said = _("That is more than this page takes.")
            await PlainTextResponse(f"{said}\n", 413)(scope, receive, dressed)
            return
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._app({**scope, "method": method, **inside}, _bounded(receive, largest), dressed)

    def _without_prefix(self, scope: Scope) -> dict[str, str]:
        """The path as our routes know it, whether the proxy before us has taken the prefix away or not."""
        prefix, path = self._console.prefix, scope["path"]
        if prefix and (path == prefix or path.startswith(prefix + "/")):
            path = path.removeprefix(prefix) or "/"
        return {"path": path, "root_path": ""}

    def _dressed(self, send: Send) -> Send:
        wanted = [*_HEADERS, _STRICT] if self._console.is_secure else _HEADERS

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                has = {name.lower(): value for name, value in message["headers"]}
                if NOWHERE not in has.get(b"content-security-policy", NOWHERE):
                    has[b"x-frame-options"] = b""  # a page that may stand in others: the policy says in which
                message = {**message, "headers": [*message["headers"], *(one for one in wanted if one[0] not in has)]}
            await send(message)

        return dressed


_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_STRICT = (b"strict-transport-security", b"max-age=31536000")
_LENGTH = b"content-length"
_LOOKED_AT = (b"host", b"accept-language", _LENGTH)
NOWHERE = b"frame-ancestors 'none'"


def _bounded(receive: Receive, largest: int) -> Receive:
    """A body that tells no length beforehand ends where it is too large."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return message if seen <= largest else {"type": "http.disconnect"}

    return bounded
