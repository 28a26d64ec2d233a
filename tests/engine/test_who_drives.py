"""Who drives a project of several engines, and with what: as commands on its hosts tell it."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Running, Said, amends
from tests.store.conftest import database, server
from tests.support.hosts import Hosts, until
from tests.support.ports import free_port
from tests.support.processes import HttpProcess
from tests.support.temporal import TemporalServer

__all__ = ["database", "server"]
pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def shop() -> Iterator[HttpProcess]:
    with HttpProcess(keep_requests=False) as running:
        yield running


def line(said: Said, about: str) -> str:
    """What the doctor says of this."""
    text = " ".join(said.out.split())
    found = re.search(rf"([✓✗!·] {about} .*?)(?= [✓✗!·] |$)", text)
    return found[1] if found else text


def embedded(hosts: Hosts, name: str) -> Path:
    """A host's folder whose engine is its own."""
    folder = hosts.host(name)
    settings = folder / "amends.yaml"
    settings.write_text(re.sub("engine: .*\n", "", settings.read_text()))
    return folder


async def test_whoever_drives_is_told_from_the_database_and_one_that_lasts_answers_in_its_folder(
    tmp_path: Path, database: str, shop: HttpProcess, temporal: TemporalServer
) -> None:
    hosts = Hosts(place=tmp_path, shop=shop, database=database, temporal=temporal)
    folder, other, port = embedded(hosts, "one"), embedded(hosts, "two"), free_port()
    named = r'It drives with the database "postgres" at 127\.0\.0\.1:\d+\.'
    with Running("worker", folder=folder) as worker, Running("serve", "--port", str(port), folder=folder) as serve:
        assert worker.process.stdout is not None
        assert re.fullmatch(named, worker.process.stdout.readline().decode().strip())
        here = socket.gethostname()
        names = [f"{here}:{each.process.pid}" for each in (worker, serve)]
        said = line(amends("doctor", folder=other), "engine")
        assert said == f"✓ engine 2 engines ({', '.join(names)}) drive the project"
        assert f"2 engines ({', '.join(names)}) drive the project, not from this folder" in _unwrapped(
            amends("connections", "list", folder=other)
        )
        link = amends("people", "invite", "me", folder=folder).out
        assert link.startswith(f"http://127.0.0.1:{port}/enter/"), "a worker has the lock, and serve has the pages"
        worker.process.kill()
        worker.process.wait()
        await until(lambda: f"process {serve.process.pid} drives" in amends("doctor", folder=folder).out, patience=60)
        assert "No engine runs here" not in _unwrapped(amends("connections", "list", folder=folder))
        assert serve.end().code == 0
    assert "nobody drives" in line(amends("doctor", folder=other), "engine")
    assert amends("people", "invite", "me", folder=folder).out.startswith("http://127.0.0.1:8484/enter/")


async def test_what_the_cluster_is_and_that_it_answers_is_told(
    tmp_path: Path, database: str, shop: HttpProcess, temporal: TemporalServer
) -> None:
    hosts = Hosts(place=tmp_path, shop=shop, database=database, temporal=temporal, settings=", apart: [shop]")
    folder = hosts.host("one")
    there = f"namespace default, queue {hosts.queue}"
    said = amends("doctor", folder=folder)
    assert line(said, "temporal") == f"✓ temporal the Temporal cluster at {temporal.address} answers; {there}"
    with hosts.runs("one", "worker", "--connections", "shop") as worker:
        assert worker.process.stdout is not None
        told = worker.process.stdout.readline().decode().strip()
        assert told.endswith(f" and the Temporal cluster at {temporal.address}, {there}.shop.")
        assert worker.end(signal.SIGTERM).code == 0
    settings = folder / "amends.yaml"
    settings.write_text(settings.read_text().replace("queue:", "namespace: gone, queue:"))
    said = amends("doctor", folder=folder)
    assert said.code == 1
    assert line(said, "temporal") == (
        f'✗ temporal the Temporal cluster at {temporal.address} (amends.yaml, engine) has no namespace "gone"; make it '
        "with `temporal operator namespace create gone`, or correct the name "
        f"(namespace gone, queue {hosts.queue})"
    )


async def test_without_its_cluster_a_project_says_so_and_lets_people_in(tmp_path: Path, database: str) -> None:
    folder = tmp_path / "shop"
    (folder / "flows").mkdir(parents=True)
    address = f"127.0.0.1:{free_port()}"
    (folder / "amends.yaml").write_text(
        f'project: shop\ndatabase: {{ secret: DATABASE_URL }}\nengine: {{ temporal: "{address}" }}\n'
    )
    (folder / ".env").write_text(f"DATABASE_URL={database}\n")
    for words in (("invite", "me"), ("token", "me"), ("password", "me")):
        said = amends("people", *words, folder=folder, given="a long word of several\n")
        assert said.code == 0, said.err
    said = amends("doctor", folder=folder)
    assert said.code == 1
    assert line(said, "temporal") == (
        f"✗ temporal the Temporal cluster at {address} (amends.yaml, engine) cannot be reached; start it, or correct the "
        "address (namespace default, queue amends)"
    )


def _unwrapped(said: Said) -> str:
    return " ".join(said.out.split())
