"""Case L1 with the whole engine: no secret value gets out of the send, in no coding, whatever fails."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from runner.cli import run_command
from runner.cli.failures import defect
from runner.engine import carrier
from runner.errors import SecretMissing
from runner.secrets import Secrets
from tests.cases.ground import Engine, Ground, connector, flow, kept, opened
from tests.support.says import Say, failing, late, redirect, refused
from tests.support.says import html as page
from tests.support.smtp_service import SmtpScript
from tests.support.world import Seen

USER = "ops-user-name"
SECRETS = {
    "BASIC_USER": USER,
    "SHOP_TOKEN": 'cana"ry-%41\\token=7f3a',
    "QUERY_KEY": "canary%2Fquery+key&9b2c",
    "BASIC_PASSWORD": '{"canary": "json-document", "n": 51}',
    "SMTP_PASSWORD": "canary smtp <password> 'd4e5'",
    "HTTP_HEADER": "canary-header-0c1d",
}
STEP = """  - id: {name}
    do: {action}
    with: {{ {with_} }}
    if_refused: continue
    retry: {{ tries: 2, pause: 10 ms, growth: none }}
    unattended: It only counts.
    accept_order: It may go first.
    compensate: {{ none: It only counts. }}
"""
ACTIONS = {
    "deal": ("shop.deal", "note: x"),
    "query": ("query.deal", "note: x"),
    "basic": ("basic.deal", "note: x"),
    "letter": ("mail.send", "to: aya@acme.example, subject: Hello, text: Hello"),
    "plain": ("plain.post", 'url: "ORIGIN/plain", json: { a: 1 }'),
}
AUTH = {
    "shop": "auth: { bearer: token }\n",
    "query": "auth: { query: { name: api_key, value: key } }\n",
    "basic": "auth: { basic: { user: user, password: password } }\n",
}


def codings(value: str) -> Iterator[tuple[str, str]]:
    """The value as it may show up: (how, the text to look for)."""
    raw = value.encode()
    yield "as it is", value
    yield "JSON", json.dumps(value)[1:-1]
    yield "JSON in JSON", json.dumps(json.dumps(value)[1:-1])[1:-1]
    yield "a URL", quote(value, safe="")
    yield "a form", quote(value, safe="/").replace("%20", "+")
    yield "base64", base64.b64encode(raw).decode().rstrip("=")
    yield "base64 for URLs", base64.urlsafe_b64encode(raw).decode().rstrip("=")
    yield "hexadecimal", raw.hex()
    yield "HTML", html.escape(value)
    yield "cut in lines", value[:9] + "\n" + value[9:]


def pair(value: str) -> str:
    """How basic auth codes it."""
    return base64.b64encode(f"{USER}:{value}".encode()).decode()


def hits(place: str, text: bytes) -> list[str]:
    """Every secret in this text, and how it is coded."""
    return [
        f"{name} as {how} in {place}"
        for name, value in SECRETS.items()
        for how, form in (*codings(value), ("base64 of a pair", pair(value)[20:-4]))
        if form.encode() in text
    ]


def echoes() -> list[Say]:
    """Answers that repeat every secret in every coding, as a clear no, as a page, as a success and in headers."""
    said = " ".join(form for value in SECRETS.values() for _, form in (*codings(value), ("", pair(value))))
    in_header = "; ".join(quote(value) for value in SECRETS.values())
    return [
        refused(422, said),
        refused(401, said),
        Say(
            status=500,
            raw=f"<title>Error</title><p>{html.escape(said)}</p>".encode(),
            headers={"Content-Type": "text/html"},
            done=False,
        ),
        redirect(f"http://127.0.0.1:1/?api_key={quote(SECRETS['QUERY_KEY'])}&t={quote(SECRETS['SHOP_TOKEN'])}"),
        Say(status=201, json={"id": said, "note": {"said": [said], said: 1}}, headers={"X-Echo": in_header}),
        Say(status=429, json={"message": said}, headers={"Retry-After": "0", "X-Echo": in_header}, done=False),
        Say(cut="reset"),
        late(1_500),
        page(),
        failing(503),
    ]


def write_parts(ground: Ground) -> None:
    """Connections of every kind of login, and a flow that uses them all."""
    text = connector(limit=400)
    for name, auth in AUTH.items():
        written = text.replace("connector: shop", f"connector: {name}").replace("actions:\n", f"{auth}actions:\n", 1)
        (ground.folder / "connectors" / f"{name}.yaml").write_text(written)
    origin = f'origin: "{ground.shop.origin}", allow_private: true'
    (ground.folder / "connections.yaml").write_text(
        f"shop: {{ connector: shop, {origin}, token: {{ secret: SHOP_TOKEN }} }}\n"
        f"query: {{ connector: query, {origin}, key: {{ secret: QUERY_KEY }} }}\n"
        f"basic: {{ connector: basic, {origin}, user: {{ secret: BASIC_USER }}, password: {{ secret: BASIC_PASSWORD }} }}\n"
        f"plain: {{ connector: http, {origin}, headers: {{ X-Api-Key: {{ secret: HTTP_HEADER }} }} }}\n"
        f'mail: {{ connector: email, host: 127.0.0.1, port: {ground.post.port}, from: "ops@acme.example", user: ops,'
        " password: { secret: SMTP_PASSWORD }, allow_private: true, security: none, allow_insecure: true }\n"
    )
    for name, (action, with_) in ACTIONS.items():
        given = with_.replace("ORIGIN", ground.shop.origin)
        ground.write(flow(name, STEP.format(name=name, action=action, with_=given), inputs="{ note: any or empty }"))


async def _everything_fails(ground: Ground, engine: Engine) -> list[str]:
    """Each action meets each answer; then everything is broken in other ways too."""
    runs: list[str] = []
    for number, said in enumerate(echoes()):
        ground.shop.reset()
        ground.shop.script("*", always=said)
        runs += [(await engine.run(name, f"{name}{number}")).run for name in ("deal", "query", "basic", "plain")]
    runs.append((await engine.run("letter", "letter")).run)
    await ground.shop.stop()
    runs += [(await engine.run(name, f"{name} unreachable")).run for name in ("deal", "query", "basic", "plain")]
    for run in runs:
        if engine.store.run(run).status == "needs_person":
            await engine.act(run, "take_over", reason="Seen.")
    return runs


async def _seen_everywhere(ground: Ground, runs: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, bytes]:
    """Every place where something of a run can be read."""
    places = kept(ground.folder)
    words: list[list[str]] = [
        ["runs", "list"], ["handoffs", "list"], ["log", "verify"], ["secrets", "list"], ["doctor"],
    ]  # fmt: skip
    for run in runs[::3]:
        words += [["runs", "show", run], ["log", "export", run]]
    words += [["runs", "show", run, "--json"] for run in runs[::9]]
    for each in words:
        await asyncio.to_thread(run_command, ["--project", str(ground.folder), *each])
    said = capsys.readouterr()
    return {**places, "stdout": said.out.encode(), "stderr": said.err.encode()}


@pytest.fixture
def secrets_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "4000")


@pytest.mark.slow
@pytest.mark.usefixtures("secrets_set")
async def test_l1_no_secret_stands_anywhere_whatever_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    async with opened(tmp_path, script=SmtpScript(users={"ops": "another password"})) as ground:
        write_parts(ground)
        async with ground.engine() as engine:
            sent: list[str] = []
            note = ground.shop.note

            def noting(seen: Seen) -> None:
                sent.append(repr((seen.headers, seen.query)))
                note(seen)

            monkeypatch.setattr(ground.shop, "note", noting)
            runs = await _everything_fails(ground, engine)
            assert len(runs) == 45
            places = await _seen_everywhere(ground, runs, capsys)
    assert len([name for name in places if "amends.db" in name]) >= 2, (
        "the database, and what is not folded into it yet"
    )
    assert len(places["stdout"]) > 100_000
    seen = "".join(sent)
    for name in ("SHOP_TOKEN", "HTTP_HEADER", "QUERY_KEY"):
        assert repr(SECRETS[name])[1:-1] in seen, f"{name} never left, so this shows nothing"
    assert pair(SECRETS["BASIC_PASSWORD"]) in seen
    places["the log of the process"] = caplog.text.encode()
    found = [hit for place, text in places.items() for hit in hits(place, text)]
    assert found == [], found


@pytest.mark.usefixtures("secrets_set")
@pytest.mark.parametrize("answer", [0, 2, 4])
async def test_l1_the_search_would_find_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: int
) -> None:
    monkeypatch.setattr(Secrets, "redact", lambda self, text: text)
    async with opened(tmp_path) as ground:
        write_parts(ground)
        async with ground.engine() as engine:
            ground.shop.script("*", always=echoes()[answer])
            run = (await engine.run("deal", "k1")).run
            places = await _seen_everywhere(ground, [run], capsys)
    found = {hit for place, text in places.items() for hit in hits(place, text)}
    assert any("in stdout" in hit for hit in found), found
    assert any("amends.db" in hit for hit in found), "what stands in the database is looked at as it stands there"


async def test_l1_a_secret_of_two_letters_is_refused_and_not_starred_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as ground:
        write_parts(ground)
        monkeypatch.setenv("SHOP_TOKEN", "ab")
        async with ground.engine() as engine:
            with pytest.raises(SecretMissing, match='the secret "SHOP_TOKEN" has only 2 characters'):
                await engine.run("deal", "k1")
            with pytest.raises(SecretMissing, match='the secret "HTTP_HEADER" is not set'):
                await engine.run("plain", "k1")
            monkeypatch.setenv("BASIC_USER", "abcdef")
            monkeypatch.setenv("BASIC_PASSWORD", "a password")
            ground.shop.script("POST /deal", refused(422, "about abbreviations"))
            view = await engine.run("basic", "k2")
            assert "about abbreviations" in repr(engine.events(view.run))
        assert len(ground.shop.requests) == 1


@pytest.mark.parametrize("value", ["line one\nline two of it", "ümlaut-secret-value"])
async def test_l1_a_secret_that_no_header_can_carry_is_told_without_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    async with opened(tmp_path) as ground:
        write_parts(ground)
        monkeypatch.setenv("SHOP_TOKEN", value)
        async with ground.engine() as engine:
            events = repr(engine.events((await engine.run("deal", "k1")).run))
            assert "the bearer token holds a character that no header can carry" in events
            for part in value.split("\n"):
                assert part not in events
        assert ground.shop.requests == []


async def test_l1_an_error_that_holds_a_secret_is_not_repeated(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    caplog.set_level(logging.DEBUG)
    async with opened(tmp_path) as ground:
        write_parts(ground)
        async with ground.engine() as engine:

            async def exchange(*args: Any, **words: Any) -> Any:
                raise ValueError(f"https://shop.example/?api_key={SECRETS['SHOP_TOKEN']}")

            monkeypatch.setattr("connectors.client.Client.exchange", exchange)
            run = (await engine.run("deal", "k1")).run
            await engine.act(run, "take_over", reason="Seen.")
            places = await _seen_everywhere(ground, [run], capsys)
    places["the log of the process"] = caplog.text.encode()
    assert [hit for place, text in places.items() for hit in hits(place, text)] == []


@pytest.mark.usefixtures("secrets_set")
async def test_l1_a_traceback_holds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    error = ValueError(" ".join(form for value in SECRETS.values() for _, form in codings(value)))
    async with opened(tmp_path) as ground:
        write_parts(ground)
        async with ground.engine() as engine:
            advance, met = vars(carrier)["advance"], [1]

            def advancing(*args: Any, **words: Any) -> Any:
                if met and words["reported"]:
                    met.clear()
                    raise error
                return advance(*args, **words)

            monkeypatch.setattr(carrier, "advance", advancing)
            await engine.run("deal", "k1")
        assert (met, "cannot be driven on" in caplog.text, "Traceback" in caplog.text) == ([], True, True)
        assert hits("the log of the process", caplog.text.encode()) == []
        told = defect(error, "run", ground.folder)
        kept = (ground.folder / ".amends" / "defects.log").read_text()
        assert ("ValueError" in told, "ValueError" in kept) == (True, True)
        assert hits("defects.log", kept.encode()) + hits("the sentence", told.encode()) == []
