"""`amends serve` as a process of its own: its pages over a real port, live lines, and an end in good order."""

from __future__ import annotations

import re
import socket
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.cli.terminal import Running, amends
from tests.web.ground import make_project


def opened(serving: Running) -> tuple[str, str]:
    """The address and the sign-in link that were printed."""
    assert serving.process.stdout is not None
    lines = [serving.process.stdout.readline().decode() for _ in range(2)]
    address, link = (re.search(r"http://\S+", line) for line in lines)
    assert address is not None
    assert link is not None, lines
    return address[0], link[0]


SMUGGLED = (
    b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"Content-Length: 5\r\nTransfer-Encoding: gzip\r\n\r\nhello",
    b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\nhello",
    b"Content-Length: +5\r\n\r\nhello",
    b"Content-Length: 5, 6\r\n\r\nhello",
)
"""Requests of which two readers could think that they end at different places."""


def assert_one_answer_each(port: int) -> None:
    """Each is refused, and nothing behind it is read as a request of its own."""
    for odd in SMUGGLED:
        with socket.create_connection(("127.0.0.1", port), 10) as line:
            line.sendall(b"POST /sign-in HTTP/1.1\r\nHost: x\r\n" + odd + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            said = b""
            while piece := line.recv(65_536):
                said += piece
            assert said.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501")), (odd, said)
            assert said.count(b"HTTP/1.1 ") == 1, (odd, said)


def wait_for(told: list[str], line: str) -> None:
    end = time.monotonic() + 20
    while line not in told:
        assert time.monotonic() < end, told
        time.sleep(0.05)


def test_serve_shows_its_pages_and_stops(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop", people="")
    flow = folder / "flows" / "asking.yaml"
    flow.write_text(flow.read_text().replace("team:ops", "person:me"))
    with Running("serve", "--port", "0", folder=folder) as serving:
        address, link = opened(serving)
        with httpx.Client(base_url=address, timeout=20) as client:
            assert client.get("/health").json() == {"status": "ok"}
            page = client.get(link).text
            token = re.search(r'name="csrf" value="(\w+)"', page)
            assert token is not None
            assert_one_answer_each(int(address.rpartition(":")[2]))
            headers = {"origin": address}
            entered = client.post(link, data={"csrf": token[1]}, headers=headers)
            assert entered.status_code == 303
            said = amends("run", "asking", "-i", "number=1", folder=folder)
            assert said.code == 3
            assert "What waits for me" in client.get("/").text
            told: list[str] = []

            def look_on() -> None:
                with client.stream("GET", "/live") as lines:
                    told.extend(lines.iter_lines())

            looking = threading.Thread(target=look_on)
            looking.start()
            wait_for(told, "retry: 3000")
            run = re.search(r"/handoffs/([\w-]+)/h1", client.get("/").text)
            assert run is not None
            closed = amends("handoffs", "resolve", run[1], "close", folder=folder)
            assert closed.code == 0, closed.err
            wait_for(told, "event: changed")
            ended = serving.end()
            looking.join(20)
        assert ended.code == 0
        assert ended.out.endswith("Stopped. Runs that have not ended go on with the next start.\n")
        assert re.fullmatch(r"amends: [\dT:-]{19}\+00:00 person:me came in by a link, from 127\.0\.0\.1\n", ended.err)


def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = amends("serve", "--port", str(port), folder=folder)
    assert said.code == 2
    assert said.err.startswith(f"amends: port {port} of 127.0.0.1 cannot be used (Address already in use)")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("name", ["tom", "person:tom", "cfo"])
def test_people_are_let_in_from_the_terminal(name: str, tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    said = amends("people", "invite", name, folder=folder)
    assert re.fullmatch(r"http://127\.0\.0\.1:8484/enter/[\w-]{43}\n", said.out)
    assert said.err.endswith("give it to person:tom alone.\n")


def test_a_password_is_set_and_a_token_made_while_serve_has_the_engine(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    with Running("serve", "--port", "0", folder=folder) as serving:
        address, _link = opened(serving)
        assert amends("people", "password", "olga", folder=folder, given="four words in a row\n").code == 0
        short = amends("people", "password", "olga", folder=folder, given="short\n")
        assert (short.code, short.err.startswith("amends: a password has 12 characters or more")) == (2, True)
        wrong = amends("people", "token", "olgaa", folder=folder)
        assert (wrong.code, 'did you mean "olga"?' in wrong.err) == (2, True)
        token = amends("people", "token", "olga", "--for", "ci", folder=folder).out.strip()
        answer = httpx.get(f"{address}/api/v1/runs", headers={"authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.json()) == (200, [])
        assert serving.end().code == 0


def test_an_address_that_does_not_lead_here_is_told(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = folder / "amends.yaml"
    settings.write_text(settings.read_text() + f"public_url: http://127.0.0.1:{port}\n")
    for own, expected in ((0, "Connection refused"), (port, "")):
        with Running("serve", "--port", str(own), folder=folder) as serving:
            opened(serving)
            serving.process.terminate()
            assert serving.process.stdout is not None
            said = serving.process.stdout.read().decode()
            assert ("Links do not lead here yet" in said) is bool(expected), said
            assert expected in said
