"""Secrets: 40 canaries, one in each slot of a project; servers say them back in every shape; everything that is kept or
shown is searched in seven codings.

Two parts: each connector by itself with its own slots, and one whole project (database, pages, mails, exports, command
line, log) whose services say back all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import email
import html
import io
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from connectors import service
from connectors.wire import Answer
from runner import secrets as known_as
from runner.app import Amends
from runner.cli import run_command
from runner.errors import AmendsError
from runner.people.access import new_access
from runner.secrets import LogFilter, Secrets
from runner.web.console import Console
from tests.cases import test_engine_l as whole
from tests.cases.ground import flow, opened, until
from tests.support.says import Say
from tests.support.smtp_service import SmtpScript
from tests.trust.echoes import echoing
from tests.trust.figures import Figures
from tests.trust.guard import instead
from tests.trust.slots import NAMES, Lender, calls, canaries, environment, tell_person, use
from tests.web.ground import ADDRESS, PORT, Browser

TURNS = 10
"""Each call meets each shape of answer about once."""
UNHEARD = frozenset({
    "bucket_secret", "certificate", "token_key", "sign_in", "database_password", "incoming_hook", "hook", "hook_old",
    "sftp_key", "mysql_user", "mysql_password", "given_refresh",
})  # fmt: skip
"""They sign, open or unlock something and never leave as they are; they are searched for like all others."""


def codings(value: str) -> dict[str, bytes]:
    """The value as it may stand somewhere; each form is long enough to be nothing else."""
    raw = value.encode()
    middles = {
        f"base64 at {shift}": base64.b64encode(b"\0" * shift + raw)[(0, 2, 3)[shift] : (shift + len(raw)) * 8 // 6]
        for shift in range(3)
    }
    return {
        "plain": raw, "a beginning of it": raw[:14], "hex": raw.hex().encode(), "URL": quote(value, safe="").encode(),
        "JSON": json.dumps(value)[1:-1].encode(), "HTML": html.escape(value).encode(),
        "UTF-16": value.encode("utf-16-le"), "reversed": raw[::-1], **middles,
    }  # fmt: skip


def hits(place: str, content: bytes, canary: Mapping[str, str]) -> list[str]:
    """What stands in this content: slot, coding and place."""
    if b"cnry" not in content and not any(
        form in content for value in canary.values() for form in codings(value).values()
    ):
        return []
    return [
        f"{name} as {how} in {place}"
        for name, value in canary.items()
        for how, form in codings(value).items()
        if form in content
    ]


@dataclass(kw_only=True)
class Kept:
    """What was said and kept, by the class of its place."""

    places: dict[str, bytes] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def add(self, place: str, content: object) -> None:
        self.places[place] = self.places.get(place, b"") + (
            content if isinstance(content, bytes) else str(content).encode("utf-8", "surrogateescape")
        )

    def hits(self, canary: Mapping[str, str]) -> list[str]:
        """All of them."""
        return self.wrong + [hit for place, content in self.places.items() for hit in hits(place, content, canary)]


@contextlib.contextmanager
def logging_to(kept: Kept, known: Secrets) -> Iterator[None]:
    """Everything that is logged, libraries' own words too, as the product lets it be written."""
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    LogFilter(known).install(handler)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        kept.add("log", lines.getvalue())


# --- each connector by itself ------------------------------------------------------------------------------------------


async def connectors(turns: int, *, redacts: bool = True) -> tuple[Kept, dict[str, str], list[str], int]:
    """(what was kept, the canaries, slots that never left, calls). Without `redacts` nothing is taken out: a plant."""
    canary, kept, count = canaries(), Kept(), 0
    tokens: dict[str, object] = {
        "access_token": canary["given_access"], "refresh_token": canary["given_refresh"], "token_type": "bearer",
        "expires_in": 3600, "session": canary["given_login"],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        async with echoing(tokens) as echo:
            known = environment(canary, echo)
            for _ in range(turns):
                tools = Lender(Path(folder), known)
                if not redacts:
                    tools.redact = lambda text: text  # type: ignore[method-assign]
                with logging_to(kept, tools.secrets):
                    for call in [*calls(echo), None]:
                        count += 1
                        try:
                            found = await (tell_person(tools) if call is None else use(tools, call))
                            kept.add("outcomes", repr(found))
                        except (AmendsError, OSError) as error:
                            kept.add("errors", f"{error!r}")
                            logging.getLogger("suite").exception("a call failed")
                # what is kept on the disk beside .env: the sealed tokens
                for file in (Path(folder) / ".amends").rglob("*"):
                    if file.is_file():
                        kept.add("state folder", file.read_bytes())
            heard = bytes(echo.heard)
        kept.add("process title", Path("/proc/self/cmdline").read_bytes() if Path("/proc/self").exists() else b"")
    unheard = [
        name for name, value in canary.items()
        if name not in UNHEARD and not any(form in heard for form in codings(value).values())
    ]  # fmt: skip
    return kept, canary, unheard, count


# --- a whole project ---------------------------------------------------------------------------------------------------


def _says(canary: Mapping[str, str]) -> list[Say]:
    said = " ".join(form.decode("latin-1") for value in canary.values() for form in list(codings(value).values())[2:6])
    plain = " ".join(canary.values())
    return [
        Say(status=422, json={"message": f"{plain} {said}"}, done=False),
        Say(status=500, raw=f"<p>{html.escape(plain)}</p>".encode(), headers={"Content-Type": "text/html"}, done=False),
        Say(status=201, json={"id": plain[:2_000], "note": {"said": [plain, said]}}),
        Say(status=201, raw=json.dumps({"id": "1", "note": plain}).encode("utf-16"),
            headers={"Content-Type": "text/plain; charset=utf-16"}),
    ]  # fmt: skip


async def project(turns: int, *, redacts: bool = True) -> tuple[Kept, dict[str, str], int]:
    """(what was kept, the canaries, runs) of a project whose services say all of them."""
    canary, kept = canaries(), Kept()
    known = {f"SLOT_{name.upper()}": value for name, value in canary.items()}
    saved = {name: os.environ.get(name) for name in (*known, *whole.SECRETS, "COLUMNS")}
    os.environ.update({**known, **whole.SECRETS, "COLUMNS": "4000"})
    real = Secrets.redact
    try:
        if not redacts:
            Secrets.redact = lambda self, text: text  # type: ignore[method-assign]
        with tempfile.TemporaryDirectory() as folder:
            users = {"ops": "another", "tell": canary["mail_password"]}
            async with opened(Path(folder), script=SmtpScript(users=users)) as ground:
                whole.write_parts(ground)
                _tell_by_mail(ground)
                line = ", ".join(f"X-{number}: {{ secret: {name} }}" for number, name in enumerate(known))
                more = f'all: {{ connector: http, origin: "{ground.shop.origin}", allow_private: true, headers: {{ {line} }} }}\n'
                file = ground.folder / "connections.yaml"
                file.write_text(file.read_text() + more)
                async with ground.engine() as engine:
                    with logging_to(kept, engine.driver.outside._secrets):
                        runs: list[str] = []
                        for number in range(turns):
                            ground.shop.reset()
                            ground.shop.script("*", always=_says(canary)[number % 4])
                            runs += [
                                (await engine.run(name, f"{name}{number}")).run for name in ("deal", "plain", "told")
                            ]
                        asked = [run for run in runs if engine.store.run(run).status == "needs_person"]
                        await until(lambda: len(ground.post.mails) >= len(asked) > 0)
                        await _shown(ground, engine, runs, kept)
                _files(ground, kept)
                for mail in ground.post.mails:
                    kept.add("mails", mail.text)
                    for part in email.message_from_string(mail.text).walk():
                        kept.add("mails", part.get_payload(decode=True) or b"")
            return kept, canary, len(runs)
    finally:
        Secrets.redact = real  # type: ignore[method-assign]
        for name, value in saved.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _tell_by_mail(ground: Any) -> None:
    """Somebody is told of each run that cannot go on, by the mail server that lets this connection in."""
    (ground.folder / "amends.yaml").write_text("tell_by: post\nadmin: person:tom\n")
    (ground.folder / "people.yaml").write_text("people: { tom: { name: Tom, mail: tom@acme.example, role: admin } }\n")
    with (ground.folder / "connections.yaml").open("a") as lines:
        lines.write(
            f'post: {{ connector: email, host: 127.0.0.1, port: {ground.post.port}, from: "amends@acme.example", user: tell,'
            " password: { secret: SLOT_MAIL_PASSWORD }, allow_private: true, security: none, allow_insecure: true }\n"
        )
    step = whole.STEP.format(name="told", action="shop.deal", with_="note: x").replace("    if_refused: continue\n", "")
    ground.write(flow("told", step, inputs="{ note: any or empty }", on_failure="review"))
    for file in (ground.folder / "flows").glob("*.yaml"):
        file.write_text(file.read_text().replace("owner: person:me", "owner: person:tom"))


def _files(ground: Any, kept: Kept) -> None:
    for path in (ground.folder / ".amends").rglob("*"):
        if path.is_file():
            kept.add("database" if path.name.startswith("amends.db") else "state folder", path.read_bytes())


def is_kept_open(ground: Any, secret: str) -> bool:
    """Whether what lets somebody in stands in the database as it is."""
    return any(secret.encode() in path.read_bytes() for path in (ground.folder / ".amends").rglob("amends.db*"))


async def _shown(ground: Any, engine: Any, runs: Sequence[str], kept: Kept) -> None:
    """Everything that can be read about these runs: pages, figures, the command line, exports."""
    _files(ground, kept)
    amends = Amends.open(ground.folder)
    browser = Browser(Console(amends, engine.driver, public_url=ADDRESS, port=PORT))
    secret, row = new_access("session", "person:tom", now=amends.clock.now())
    await engine.driver.admit(row)
    browser.client.cookies.set("amends_session", secret)
    try:
        for path in ("/", "/runs", "/handoffs", *(f"/runs/{run}" for run in runs)):
            page = await browser.get(path)
            if page.status_code != 200:
                raise AssertionError(f"{path} answered {page.status_code}")
            kept.add("pages", page.text)
        token, row = new_access("token", "person:tom", now=amends.clock.now())
        await engine.driver.admit(row)
        for path in ("/metrics", "/metrics/grafana.json"):
            figures = await browser.get(path, authorization=f"Bearer {token}")
            if figures.status_code != 200:
                raise AssertionError(f"{path} answered {figures.status_code}")
            kept.add("figures", figures.text)
    finally:
        amends.close()
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        for words in (["runs", "list"], ["handoffs", "list"], ["secrets", "list"], ["doctor"], ["log", "verify"],
                      *(["runs", "show", run] for run in runs[:4])):  # fmt: skip
            await asyncio.to_thread(run_command, ["--project", str(ground.folder), *words])
    kept.add("command line", said.getvalue())
    if is_kept_open(ground, secret):
        kept.wrong.append("a session's secret stands in the database as it is")
    for run in runs:
        kept.add("exports", json.dumps(engine.store.export(run), default=str, ensure_ascii=False))
        kept.add("facts", "\n".join(map(repr, engine.events(run))))


# --- mistakes ----------------------------------------------------------------------------------------------------------


def _bytes_only(self: Any, answer: Any) -> Any:
    text = answer.body.decode("utf-8", errors="surrogateescape")
    headers = {name: self.tools.redact(value) for name, value in answer.headers.items()}
    body = self.tools.redact(text).encode("utf-8", errors="surrogateescape")
    return Answer(status=answer.status, headers=headers, body=body)


async def see_mistakes() -> dict[str, str]:
    """A leak in each class of place, and what saw it."""
    caught: dict[str, str] = {}
    kept, canary, _, _ = await connectors(3, redacts=False)
    for place in ("outcomes", "errors"):
        found = hits(place, kept.places.get(place, b""), canary)
        caught[f"nothing is taken out of {place}"] = f"{len(found)} hits" if found else ""
    with instead(LogFilter, "filter", lambda self, record: True):
        loud, canary_of_log = Kept(), canaries()
        with logging_to(loud, Secrets(Path("nowhere"), {})):
            logging.getLogger("library").warning("GET %s", canary_of_log["bearer"])
        caught["nothing is taken out of the log"] = ", ".join(loud.hits(canary_of_log)[:1])
    with instead(service.Service, "_redacted", _bytes_only):
        kept, canary, _, _ = await connectors(TURNS)
        caught["answers are looked at as bytes alone"] = ", ".join(kept.hits(canary)[:1])
    with instead(known_as, "pieces_of", lambda value: ()):
        kept, canary, _, _ = await connectors(TURNS)
        caught["an address is known as a whole only"] = ", ".join(kept.hits(canary)[:1])
    kept, canary, _ = await project(4, redacts=False)
    for place in ("database", "exports", "facts", "mails", "pages", "command line"):
        found = hits(place, kept.places.get(place, b""), canary)
        caught[f"nothing is taken out of {place}"] = f"{len(found)} hits" if found else ""
    value = canary["bearer"]
    forms = {name: hits("x", b"before " + form + b" after", canary) for name, form in codings(value).items()}
    caught["each coding is found"] = f"{len(forms)} codings" if all(forms.values()) else ""
    return caught


# --- the suite ---------------------------------------------------------------------------------------------------------


async def play(figures: Figures, *, turns: int) -> None:
    """Both parts."""
    kept, canary, unheard, count = await connectors(turns)
    figures.broken(kept.hits(canary))
    figures.broken([f"{name} never left, so this shows nothing about it" for name in unheard])
    figures.say("canaries", f"{len(NAMES)}, {count} calls to servers that say them back")
    figures.say("looked at", ", ".join(f"{place} {len(text):,} bytes" for place, text in sorted(kept.places.items())))
    kept, canary, runs = await project(min(turns, 8))
    figures.broken(kept.hits(canary))
    figures.say("runs of a whole project", runs)
    figures.say("looked at", ", ".join(f"{place} {len(text):,} bytes" for place, text in sorted(kept.places.items())))
    figures.say("hits", len(figures.wrong))
    figures.planted(await see_mistakes())
    figures.floor("bytes looked at", sum(map(len, kept.places.values())), 200_000)


def run(argv: Sequence[str]) -> int:
    """The long form."""
    words = argparse.ArgumentParser(prog="python -m tests.trust secrets")
    words.add_argument("--turns", type=int, default=40)
    figures = Figures()
    asyncio.run(play(figures, turns=words.parse_args(argv).turns))
    return figures.code
