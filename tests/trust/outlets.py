"""Every way out of the product as one function: one attempt to reach a host and a port, and what came of it."""

from __future__ import annotations

import contextlib
import importlib
import json
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import asyncssh

from connectors import ai, calendar, chat, email, files, http, imap, webhook
from connectors.declarative import kind_from_text
from connectors.sql import kind as sql_kind
from runner.contract import Outcome, Purpose
from runner.errors import AmendsError
from runner.guard import Guard
from runner.language.settings import SignIn
from runner.people import provider
from runner.people.post import OURS
from tests.connectors.tools import Hands, Lent

LIMIT = 1_500
"""ms for one attempt."""
SECRETS = {
    "PASSWORD": "a long password", "TOKEN": "a-long-token", "HOOK": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "ACCESS": "AKIDEXAMPLE", "SECRET": "wJalr/secret+key",
}  # fmt: skip
Outlet = Callable[[str, int, bool], Awaitable[Any]]
"""(host as somebody wrote it, port, whether private addresses are allowed)"""

OUTLETS: dict[str, Outlet] = {}
DECLARED = """
connector: crm
title: A service
auth: {auth}
actions:
  get: {{ reads: true, request: {{ get: /me }}, output: {{ id: text }} }}
"""


def outlet(made: Outlet) -> Outlet:
    """Registers one."""
    OUTLETS[getattr(made, "__name__", "")] = made
    return made


async def attempt(name: str, host: str, port: int, allow: bool) -> str:
    """What one attempt came to, in words; nothing is raised that the product means to raise."""
    try:
        found = await OUTLETS[name](host, port, allow)
    except (AmendsError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return f"{found.result} {found.reason}: {found.summary}" if isinstance(found, Outcome) else str(found)


async def _done(made: Any, action: str, input: Mapping[str, Any], purpose: Purpose = "do") -> Outcome:
    try:
        request = made.prepare(action, input, key="am_k1", purpose=purpose)
        found: Outcome = await made.send(action, request, key="am_k1", purpose=purpose, limit=LIMIT)
        return found
    finally:
        await made.close()


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host and "[" not in host and "/" not in host and "@" not in host else host


# --- connections -------------------------------------------------------------------------------------------------------


@outlet
async def http_origin(host: str, port: int, allow: bool) -> Any:
    line = {"origin": f"http://{_shown(host)}:{port}", "allow_private": allow}
    made = http.KIND.connect("x", line, Lent())
    return await _done(made, "post", {"url": "/a", "json": {}})


@outlet
async def http_anywhere(host: str, port: int, allow: bool) -> Any:
    made = http.KIND.connect("x", {"allow_private": allow}, Lent())
    return await _done(made, "get", {"url": f"http://{_shown(host)}:{port}/a"})


@outlet
async def declared(host: str, port: int, allow: bool) -> Any:
    kind, _ = kind_from_text(DECLARED.format(auth="{ bearer: token }"), "crm.yaml")
    assert kind is not None
    line = {"origin": f"http://{_shown(host)}:{port}", "allow_private": allow, "token": {"secret": "TOKEN"}}
    return await _done(kind.connect("crm", line, Lent(**SECRETS)), "get", {}, "read")


@outlet
async def token_of_oauth(host: str, port: int, allow: bool) -> Any:
    where = json.dumps(f"https://{_shown(host)}:{port}/token")
    auth = f"{{ oauth2: {{ grant: client_credentials, token_url: {where}, client: client, secret: password }} }}"
    kind, problems = kind_from_text(DECLARED.format(auth=auth), "crm.yaml")
    if kind is None:
        return f"not loaded: {problems}"
    line = {"origin": "https://public.test", "allow_private": allow, "client": "c", "password": {"secret": "PASSWORD"}}
    with tempfile.TemporaryDirectory() as folder:
        made = kind.connect("crm", line, Hands(Path(folder), SECRETS))
        return await _done(made, "get", {}, "read")


@outlet
async def mail(host: str, port: int, allow: bool) -> Any:
    line = {"host": host, "port": port, "from": "ops@acme.test", "allow_private": allow}
    return await _done(
        email.KIND.connect("mail", line, Lent()), "send", {"to": "a@acme.test", "subject": "S", "text": "T"}
    )


@outlet
async def mailbox(host: str, port: int, allow: bool) -> Any:
    line = {"host": host, "port": port, "user": "u", "password": {"secret": "PASSWORD"}, "allow_private": allow}
    box = await imap.KIND.connect("box", line, Lent(**SECRETS)).open()
    await box.close()


async def _database(which: str, host: str, port: int, allow: bool) -> Any:
    line = {
        "database": which, "host": host, "port": port, "name": "shop", "user": "u", "password": {"secret": "PASSWORD"},
        "security": "tls", "allow_private": allow, "statements": {"one": {"reads": "select 1"}},
    }  # fmt: skip
    return await _done(sql_kind.KIND.connect("shop", line, Lent(**SECRETS)), "one", {}, "read")


@outlet
async def postgresql(host: str, port: int, allow: bool) -> Any:
    return await _database("postgresql", host, port, allow)


@outlet
async def mysql(host: str, port: int, allow: bool) -> Any:
    return await _database("mysql", host, port, allow)


@outlet
async def caldav(host: str, port: int, allow: bool) -> Any:
    line = {"origin": f"http://{_shown(host)}:{port}", "calendar": "/ops/", "allow_private": allow}
    return await _done(calendar.KIND.connect("bookings", line, Lent()), "get", {"uid": "am_1"}, "read")


@outlet
async def hook(host: str, port: int, allow: bool) -> Any:
    line = {"scheme": "standard", "secret": {"secret": "HOOK"}, "send_to": f"http://{_shown(host)}:{port}/in"}
    made = webhook.KIND.connect("shop", {**line, "allow_private": allow}, Lent(**SECRETS))
    return await _done(made, "send", {"type": "order.made", "data": {}})


@outlet
async def model(host: str, port: int, allow: bool) -> Any:
    line = {"kind": "openai", "model": "m", "origin": f"http://{_shown(host)}:{port}", "allow_private": allow}
    made = ai.KIND.connect("ai", {**line, "api_key": {"secret": "TOKEN"}}, Lent(**SECRETS))
    return await _done(made, "ask", {"prompt": "p"}, "read")


@outlet
async def bucket(host: str, port: int, allow: bool) -> Any:
    keys = {"access_key": {"secret": "ACCESS"}, "secret_key": {"secret": "SECRET"}}
    line = {"folder": "s3://papers/in", "origin": f"http://{_shown(host)}:{port}", "allow_private": allow, **keys}
    return await _done(files.KIND.connect("papers", line, Lent(**SECRETS)), "write", {"path": "a.txt", "text": "x"})


@cache
def _host_key() -> str:
    return str(asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip())


@outlet
async def sftp(host: str, port: int, allow: bool) -> Any:
    line = {"folder": f"sftp://{_shown(host)}:{port}/in", "user": "ops", "password": {"secret": "PASSWORD"}}
    made = files.KIND.connect("drop", {**line, "host_key": _host_key(), "allow_private": allow}, Lent(**SECRETS))
    return await _done(made, "write", {"path": "a.txt", "text": "x"})


async def _chat(address: str, allow: bool) -> Any:
    made = chat.KIND.connect("room", {"address": {"secret": "ROOM"}, "allow_private": allow}, Lent(ROOM=address))
    return await _done(made, "send", {"text": "hello"})


@outlet
async def chat_json(host: str, port: int, allow: bool) -> Any:
    return await _chat(f"json://{_shown(host)}:{port}/room?redirect=yes", allow)


@outlet
async def chat_mail(host: str, port: int, allow: bool) -> Any:
    return await _chat(f"mailto://u:p@public.test:{port}?smtp={host}&to=a@acme.test&from=b@acme.test", allow)


@outlet
async def chat_rsyslog(host: str, port: int, allow: bool) -> Any:
    return await _chat(f"rsyslog://{_shown(host)}:{port}/local7", allow)


# --- what is no connection ---------------------------------------------------------------------------------------------


@outlet
async def chat_of_a_person(host: str, port: int, allow: bool) -> Any:
    """The team's own chat may stand in its own network; without the word the rule for strangers is tried."""
    sending: Any = importlib.import_module("runner.chat")
    return await sending.send(f"json://{_shown(host)}:{port}/room", "S", "T", guard=OURS if allow else Guard())


@outlet
async def sign_in(host: str, port: int, allow: bool) -> Any:
    """The provider leads us there."""
    words = SignIn(oidc="http://127.0.0.1" if allow else "https://public.test", client="amends", secret="", claim="")
    with contextlib.suppress(provider.ProviderSilent):
        async with provider._asking(words) as client:
            await client.get(f"{'http' if allow else 'https'}://{_shown(host)}:{port}/keys", timeout=LIMIT / 1000)
