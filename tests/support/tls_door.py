"""A door with TLS in front of a server that has none: what a cluster behind a proxy looks like."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest


def chain(folder: Path) -> ssl.SSLContext:
    """ca.pem, and cert.pem with key.pem that it signed, for 127.0.0.1: for the door, that asks for one of its signing."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed to make a certificate")
    (folder / "said").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for words in (
        ("req", "-x509", *new, "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"),
        ("req", *new, "-subj", "/CN=127.0.0.1", "-keyout", "key.pem", "-out", "wish.pem"),
        ("x509", "-req", "-in", "wish.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial", "7", "-days", "2", "-extfile", "said", "-out", "cert.pem"),
    ):  # fmt: skip
        subprocess.run(("openssl", *words), cwd=folder, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    context.load_verify_locations(folder / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextlib.asynccontextmanager
async def tls_door(
    to: int, context: ssl.SSLContext | None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[int]:
    """Passes what comes to a port (0: a free one) on to the port `to` of 127.0.0.1; answers its number. Without a
    `context` it has no TLS."""
    if context is not None:
        context.set_alpn_protocols(["h2"])
    going: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passing = asyncio.create_task(_between(reader, writer, to))
        going.add(passing)
        passing.add_done_callback(going.discard)

    server = await asyncio.start_server(accept, host, port, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for passing in [*going]:
            passing.cancel()
        await asyncio.gather(*going, return_exceptions=True)


async def _between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to: int) -> None:
    """Until both ways have ended, or the door is shut; both sides are closed whole, whenever that is."""
    sides = [writer]
    try:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", to)
        sides.append(far_writer)
        await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))
    except OSError:
        pass
    finally:
        for side in sides:
            side.transport.abort()
        for side in sides:
            with contextlib.suppress(OSError):
                await side.wait_closed()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
