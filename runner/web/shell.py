"""What holds for every request before any route is asked: the host, the prefix, the size, the headers of the answer."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runner.web.console import Console

LARGEST = 1_000_000
"""Bytes of a request's body."""

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
        dressed = self._dressed(send)
        headers = {name: value.decode("latin-1") for name, value in scope["headers"] if name in (b"host", _LENGTH)}
        if headers.get(b"host", "").lower() not in self._console.hosts:
            said = "This address is not the one that amends.yaml names as public_url.\n"
            await PlainTextResponse(said, 421)(scope, receive, dressed)
            return
        length = headers.get(_LENGTH, "0")
        if not length.isdigit() or int(length) > LARGEST:
            await PlainTextResponse("That is more than this page takes.\n", 413)(scope, receive, dressed)
            return
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._app({**scope, "method": method, **self._without_prefix(scope)}, _bounded(receive), dressed)

    def _without_prefix(self, scope: Scope) -> dict[str, str]:
        """The path as our routes know it, whether the proxy before us has taken the prefix away or not."""
        prefix, path = self._console.prefix, scope["path"]
        if prefix and (path == prefix or path.startswith(prefix + "/")):
            path = path.removeprefix(prefix) or "/"
        return {"path": path, "root_path": ""}

    def _dressed(self, send: Send) -> Send:
        wanted = {**HEADERS}
        if self._console.is_secure:
            wanted["Strict-Transport-Security"] = "max-age=31536000"

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                has = {name.lower() for name, _ in message["headers"]}
                more = [(name.lower().encode(), value.encode()) for name, value in wanted.items()]
                message = {**message, "headers": [*message["headers"], *(one for one in more if one[0] not in has)]}
            await send(message)

        return dressed


_LENGTH = b"content-length"


def _bounded(receive: Receive) -> Receive:
    """A body that tells no length beforehand ends where it is too large."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return message if seen <= LARGEST else {"type": "http.disconnect"}

    return bounded
