"""The API as it describes itself: a program that reads the description tries whatever it allows, and what it does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.cli.terminal import Running, amends
from tests.web.ground import make_project
from tests.web.test_serving import opened

SETTINGS = """\
# Which inputs a flow takes is in the flow, not in the description of the API.
[[operations]]
include-name = "POST /api/v1/runs"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422"]
"""
LIMIT = 120


def token_of(person: str, folder: Path) -> dict[str, str]:
    """The header of a request with a new token."""
    return {"Authorization": f"Bearer {amends('people', 'token', person, folder=folder).out.strip()}"}


@pytest.mark.timeout(150)
def test_what_is_described_is_what_is_done(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    with Running("serve", "--port", "0", folder=folder) as serving:
        address, _ = opened(serving)
        header = token_of("tom", folder)
        for number in (1, 2):
            amends("run", "asking", "-i", f"number={number}", "--detach", folder=folder)
        tried = subprocess.run(
            [
                sys.executable, "-P", "-m", "schemathesis.cli", "--config-file", "schemathesis.toml", "run",
                f"{address}/api/v1/openapi.json", "-H", f"Authorization: {header['Authorization']}", "--checks", "all",
                "--max-examples", "5", "--seed", "7", "--no-color", "--generation-database", "none",
            ],
            cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
        assert tried.returncode == 0, tried.stdout[-6000:] + tried.stderr[-1000:]
        assert "Tested: 10" in tried.stdout
        assert httpx.get(f"{address}/health").json() == {"status": "ok"}


def test_a_request_and_an_event_are_taken_once(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    with Running("serve", "--port", "0", folder=folder) as serving:
        address, _ = opened(serving)
        with httpx.Client(base_url=f"{address}/api/v1", headers=token_of("olga", folder)) as client:
            key = {"Idempotency-Key": "k-1"}
            body = {"flow": "asking", "inputs": {"number": "7"}}
            first, again = (client.post("/runs", json=body, headers=key).json() for _ in range(2))
            assert (first["joined"], again["joined"], again["run"]) == (False, True, first["run"])
            other = client.post("/runs", json={"flow": "asking", "inputs": {"number": "8"}}, headers=key)
            assert (other.status_code, "came before with other content" in other.json()["error"]) == (409, True)
            both = client.post("/runs", json={**body, "key": "mine"}, headers=key)
            assert (both.status_code, list(both.json()["fields"])) == (422, ["key"])
            sent = [client.post("/events/payment.received", json={"no": "1"}, headers=key) for _ in range(2)]
            assert [(one.status_code, one.json()) for one in sent] == [
                (202, {"id": "k-1", "is_new": True}), (202, {"id": "k-1", "is_new": False}),
            ]  # fmt: skip
            assert client.post("/events/payment.received", json={"no": "2"}, headers=key).status_code == 409
            assert client.post("/events/Payment received", json={}).status_code == 422
            assert client.get("/runs").json()[0]["run"] == first["run"]
        with httpx.Client(base_url=f"{address}/api/v1", headers=token_of("vera", folder)) as viewer:
            assert viewer.post("/events/payment.received", json={}).status_code == 403
