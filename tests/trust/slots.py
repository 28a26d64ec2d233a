"""Every place of a project that holds a secret, each with a canary of its own, and a call that uses it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from connectors import ai, calendar, chat, email, files, http, imap, webhook
from connectors.sql import kind as sql
from runner.contract import Json, Outcome
from runner.people.post import Post
from runner.secrets import Secrets
from runner.store.vault import Vault
from tests.trust.echoes import Echo

NAMES = (
    "bearer", "basic_user", "basic_password", "header_auth", "query_auth", "secret_header", "oauth_client",
    "oauth_refresh", "login_user", "login_password", "mail_user", "mail_password", "imap_user", "imap_password",
    "postgres_user", "postgres_password", "mysql_user", "mysql_password", "dav_user", "dav_password", "hook",
    "hook_old", "chat_password", "chat_path", "chat_query", "bucket_access", "bucket_secret", "sftp_password",
    "sftp_key", "openai", "anthropic", "certificate", "person_chat", "given_access", "given_refresh", "given_login",
    "token_key", "sign_in", "database_password", "incoming_hook",
)  # fmt: skip
"""40. Those that begin with `given_` are what services gave us; the last four are used by the installation itself."""


PIECES = ("chat_password", "chat_path", "chat_query", "person_chat", "database_password")
"""Those that stand in an address, which is the secret: they have no name of their own."""


def canaries() -> dict[str, str]:
    """New ones: half of them with signs that every coding changes."""
    made = {}
    for number, name in enumerate(NAMES):
        odd = "/+&=" if number % 2 and not name.startswith(("chat", "person", "database", "hook")) else ""
        made[name] = f"cnry{odd}{number:02d}{secrets.token_hex(10)}"
    return made


class Lender:
    """The tools of a project: its secrets as they are redacted there, a real vault, files in memory."""

    def __init__(self, folder: Path, known: Mapping[str, str]) -> None:
        self.secrets = Secrets(folder, known)
        self.secrets.declare(known)
        self.vault = Vault(folder / ".amends", self.secrets, "TOKEN_KEY")
        self.files: dict[str, bytes] = {}

    def secret(self, name: str) -> str:
        return self.secrets.value(name)

    def redact(self, text: str) -> str:
        return self.secrets.redact(text)

    def file(self, sha256: str) -> bytes:
        return self.files[sha256]

    def keep(self, content: bytes) -> str:
        raise AssertionError(content)

    def place(self, path: str) -> Path:
        return Path(path)


def environment(canary: Mapping[str, str], echo: Echo) -> dict[str, str]:
    """The secrets of the project by name."""
    made = {
        name.upper(): value for name, value in canary.items() if name not in PIECES and not name.startswith("given_")
    }
    made |= {name: f"whsec_{made[name][: len(made[name]) // 4 * 4]}" for name in ("HOOK", "HOOK_OLD")}
    at = f"127.0.0.1:{echo.http}"
    made["CHAT"] = f"json://ops:{canary['chat_password']}@{at}/{canary['chat_path']}?+X-Token={canary['chat_query']}"
    made["PERSON"] = f"json://{at}/{canary['person_chat']}"
    made["DATABASE"] = f"postgresql://u:{canary['database_password']}@127.0.0.1:{echo.postgres}/shop"
    return made


def _named(**settings: str) -> dict[str, Json]:
    return {word: {"secret": name} for word, name in settings.items()}


def calls(echo: Echo) -> list[tuple[Any, dict[str, Any], str, dict[str, Any], str]]:
    """(kind, settings, action, input, purpose) of every call that uses a slot."""
    place = {"origin": f"http://127.0.0.1:{echo.http}", "allow_private": True}
    at = {"host": "127.0.0.1", "allow_private": True, "allow_insecure": True, "security": "none"}
    post = ("post", {"url": "/do", "json": {"a": 1}}, "do")
    get = ("get", {"url": "/read"}, "read")
    oauth = {"token_url": "/token", "client": "amends", "secret": {"secret": "OAUTH_CLIENT"}}
    auths: list[dict[str, Any]] = [
        {"bearer": {"secret": "BEARER"}},
        {"basic": _named(user="BASIC_USER", password="BASIC_PASSWORD")},
        {"header": {"name": "X-Key", "value": {"secret": "HEADER_AUTH"}}},
        {"query": {"name": "api_key", "value": {"secret": "QUERY_AUTH"}}},
        {"oauth2": {"grant": "client_credentials", **oauth}},
        {"oauth2": {"grant": "refresh_token", **oauth, "refresh_token": {"secret": "OAUTH_REFRESH"}}},
        {"login": {"post": "/token", "json": {"u": "${{ user }}", "p": "${{ password }}"}, "header": "X-Session", "token": "${{ response.json.session }}", **_named(user="LOGIN_USER", password="LOGIN_PASSWORD")}},
    ]  # fmt: skip
    made: list[Any] = [(http.KIND, {**place, "auth": auth}, *way) for auth in auths for way in (post, get)]
    made += [(http.KIND, {**place, "headers": {"X-Api": {"secret": "SECRET_HEADER"}}}, *way) for way in (post, get)]
    letter = {"to": "a@acme.test", "subject": "S", "text": "T"}
    mail = {**at, "port": echo.smtp, "from": "o@acme.test", **_named(user="MAIL_USER", password="MAIL_PASSWORD")}
    box = {**at, "port": echo.imap, **_named(user="IMAP_USER", password="IMAP_PASSWORD")}
    base = {**at, "name": "shop", "statements": {"one": {"reads": "select 1"}}}
    made += [
        (email.KIND, mail, "send", letter, "do"),
        (imap.KIND, box, "open", {}, ""),
        (sql.KIND, {**base, "database": "postgresql", "port": echo.postgres, **_named(user="POSTGRES_USER", password="POSTGRES_PASSWORD")}, "one", {}, "read"),
        (sql.KIND, {**base, "database": "mysql", "port": echo.smtp, **_named(user="MYSQL_USER", password="MYSQL_PASSWORD")}, "one", {}, "read"),
        (calendar.KIND, {**place, "calendar": "/ops/", **_named(user="DAV_USER", password="DAV_PASSWORD")}, "create", {"summary": "S", "start": "2026-12-01"}, "do"),
        (webhook.KIND, {"scheme": "standard", "send_to": f"{place['origin']}/in", "allow_private": True, **_named(secret="HOOK", old_secret="HOOK_OLD")}, "send", {"type": "a.b", "data": {}}, "do"),
        (chat.KIND, {"allow_private": True, **_named(address="CHAT")}, "send", {"text": "hello"}, "do"),
        (files.KIND, {**place, "folder": "s3://papers/in", **_named(access_key="BUCKET_ACCESS", secret_key="BUCKET_SECRET")}, "write", {"path": "a.txt", "text": "x"}, "do"),
        (files.KIND, {"folder": f"sftp://127.0.0.1:{echo.ssh}/in", "user": "ops", "allow_private": True, "host_key": echo.host_key, **_named(password="SFTP_PASSWORD")}, "write", {"path": "a.txt", "text": "x"}, "do"),
        (files.KIND, {"folder": f"sftp://127.0.0.1:{echo.ssh}/in", "user": "ops", "allow_private": True, "host_key": echo.host_key, **_named(private_key="SFTP_KEY")}, "write", {"path": "a.txt", "text": "x"}, "do"),
        *((ai.KIND, {**place, "kind": kind, "model": "m", **_named(api_key=kind.upper())}, "ask", {"prompt": "p"}, "read") for kind in ("openai", "anthropic")),
    ]  # fmt: skip
    return made


async def use(tools: Lender, call: tuple[Any, dict[str, Any], str, dict[str, Any], str]) -> Outcome | None:
    """One call; what it raises is raised."""
    kind, settings, action, input, purpose = call
    made = kind.connect(f"x{crc32(repr(settings).encode())}", settings, tools)
    try:
        if not purpose:
            box = await made.open()
            await box.close()
            return None
        request = made.prepare(action, input, key="am_k1", purpose=purpose)
        found: Outcome = await made.send(action, request, key="am_k1", purpose=purpose, limit=5_000)
        return found
    finally:
        await asyncio.wait_for(made.close(), 10)


async def tell_person(tools: Lender) -> Outcome:
    """A chat message to somebody of ours."""
    person: Any = type("Person", (), {"chat": "PERSON"})()
    return await Post(lambda: None, lambda name: None, tools.secret).chat(person, "S", "T")  # type: ignore[arg-type,return-value]
