"""`amends connections connect`: a person agrees at a real provider, and the connection works from then on."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.cli.terminal import PROGRAM, amends, environment
from tests.support.processes import OidcProcess

CONNECTOR = """
connector: crm
title: Who somebody is
auth:
  oauth2:
    grant: authorization_code
    authorize_url: /oauth2/authorize
    token_url: /oauth2/token
    client: client
    secret: client_secret
    scope: openid email
    ask: { prompt: consent }
actions:
  me:
    reads: true
    request: { get: /userinfo }
    success: ${{ response.json.sub == "aya" }}
    output: { sub: text }
"""
FLOW = """
flow: who
title: Says who we are there
owner: person:me
steps:
  - { id: me, read: crm.me, retry: { tries: 1 } }
outputs: { who: "${{ steps.me.sub }}" }
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProcess]:
    with OidcProcess("--oauth2") as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, provider: OidcProcess) -> Path:
    line = f"origin: '{provider.origin}', allow_private: true, client: amends, client_secret: {{ secret: CRM_SECRET }}"
    files = {
        "connectors/crm.yaml": CONNECTOR,
        "flows/who.yaml": FLOW,
        "connections.yaml": f"crm: {{ connector: crm, {line} }}\n",
        ".env": "CRM_SECRET=client-s3cret\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@contextmanager
def connecting(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command as it waits for the browser, and the address that it prints."""
    words = [*PROGRAM, "connections", "connect", "crm", "--port", "0"]
    process = subprocess.Popen(
        words, cwd=folder, env=environment(PYTHONUNBUFFERED="1"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = next((line for line in process.stdout if line.startswith("http")), "")
        yield process, line.strip()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def browse(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_somebody_agrees_and_the_connection_works_from_then_on(folder: Path, provider: OidcProcess) -> None:
    before = amends("run", "who", folder=folder)
    assert before.code == 1
    assert "amends connections connect crm" in before.out
    with connecting(folder) as (process, address):
        assert address.startswith(f"{provider.origin}/oauth2/authorize?")
        assert "code_challenge_method=S256" in address
        assert "prompt=consent" in address
        assert "client-s3cret" not in address
        back = provider.sign_in(address, "aya")
        own, _, query = back.partition("?")
        assert browse(f"{own}?code=planted&state=another")[0] == 404
        assert browse(own.replace("/connected", "/other") + "?" + query)[0] == 404
        assert browse(back) == (200, "This window can be closed; the terminal says how it went.")
        out, _ = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "crm is connected." in out
    done = amends("run", "who", folder=folder)
    assert done.code == 0, done.out
    kept = b"".join(path.read_bytes() for path in (folder / ".amends").rglob("*") if path.is_file())
    assert b"client-s3cret" not in kept
    assert b"Bearer" not in kept


def test_a_token_that_is_over_is_renewed_with_what_was_agreed(folder: Path, provider: OidcProcess) -> None:
    provider.plant(tokens={"expires_in": 1})
    try:
        with connecting(folder) as (process, address):
            browse(provider.sign_in(address, "aya"))
            process.communicate(timeout=20)
        asked = provider.asked().count("/oauth2/token")
        assert amends("run", "who", folder=folder).code == 0
        assert provider.asked().count("/oauth2/token") == asked + 1
    finally:
        provider.plant()


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("error=access_denied", "crm is not connected: the service says access_denied"),
        ("code=planted", "gives no token (400 invalid_grant); run: amends connections connect crm"),
    ],
)
def test_what_comes_back_in_vain_is_said(folder: Path, query: str, says: str) -> None:
    with connecting(folder) as (process, address):
        words = dict(parse_qsl(urlsplit(address).query))
        browse(f"{words['redirect_uri']}?{query}&state={words['state']}")
        out, _ = process.communicate(timeout=20)
        assert process.returncode == 2
        assert says in out
        assert "Traceback" not in out


def test_what_cannot_be_connected_is_said(folder: Path) -> None:
    said = amends("connections", "connect", "crn", folder=folder)
    assert 'there is no connection "crn" in connections.yaml; did you mean "crm"?' in said.err
    said = amends("connections", "connect", "http", folder=folder)
    assert "http needs nobody's consent: it has no oauth2" in said.err + said.out
    said = amends("connections", "connect", "crm", "--host", "example.test", folder=folder)
    assert '--host "example.test" must be 127.0.0.1 or localhost' in said.err
