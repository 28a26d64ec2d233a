"""Files in a bucket and on an SFTP server: written once, like those of a folder.

The SFTP server is asyncssh's own, on a folder of this machine; the bucket is moto's, an emulation of S3.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncssh
import boto3  # type: ignore[import-untyped]
import pytest
from botocore.auth import S3SigV4Auth  # type: ignore[import-untyped]
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]
from botocore.credentials import Credentials  # type: ignore[import-untyped]
from moto.server import ThreadedMotoServer

from connectors import sftp
from connectors.bucket import signed
from connectors.files import KIND
from connectors.wire import Wire
from runner.contract import Connector, Outcome, Purpose
from runner.errors import SettingsError
from tests.connectors.httpserver import HttpServer, answer, drop, http_server, late
from tests.connectors.test_files import did
from tests.connectors.tools import Lent

PDF = b"%PDF-1.7 a page"
KEYS = {"access_key": {"secret": "ACCESS"}, "secret_key": {"secret": "SECRET"}}
SECRETS = {"ACCESS": "AKIDEXAMPLE", "SECRET": "wJalr/secret+key", "PASSWORD": "p4ss-w0rd"}


# --- an SFTP server ------------------------------------------------------------------------------------------------


@dataclass
class Ssh:
    """A running server; `faults` are the names of what breaks off after it was done."""

    port: int = 0
    host_key: str = ""
    folder: Path = Path()
    faults: list[str] = field(default_factory=list)
    without: set[str] = field(default_factory=set)


class Password(asyncssh.SSHServer):
    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == ("ops", SECRETS["PASSWORD"])


@asynccontextmanager
async def ssh_server(folder: Path) -> AsyncIterator[Ssh]:
    made, key = Ssh(folder=folder), asyncssh.generate_private_key("ssh-ed25519")
    made.host_key = key.export_public_key().decode().strip()

    class Files(asyncssh.SFTPServer):
        def __init__(self, channel: Any) -> None:
            super().__init__(channel, chroot=os.fsencode(folder))

        def _after(self, what: str) -> None:
            if what in made.faults:
                made.faults.remove(what)
                self.connection.abort()

        def link(self, oldpath: bytes, newpath: bytes) -> None:
            if "link" in made.without:
                raise asyncssh.SFTPOpUnsupported("no links here")
            super().link(oldpath, newpath)
            self._after("link")

        def remove(self, path: bytes) -> None:
            if "remove" in made.without and b".part" not in path:
                raise asyncssh.SFTPPermissionDenied("not yours")
            super().remove(path)
            if b".part" not in path:
                self._after("remove")

    server = await asyncssh.listen(
        "127.0.0.1", 0, server_factory=Password, server_host_keys=[key], sftp_factory=Files, allow_scp=False
    )
    made.port = server.get_port()
    try:
        yield made
    finally:
        server.close()
        await server.wait_closed()


def at_ssh(server: Ssh, below: str = "/in", **settings: Any) -> Connector:
    line: dict[str, Any] = {
        "folder": f"sftp://127.0.0.1:{server.port}{below}",
        "user": "ops",
        "password": {"secret": "PASSWORD"},
    }
    line |= {"host_key": server.host_key, "allow_private": True, **settings}
    made: Connector = KIND.connect("drop", line, Lent(**SECRETS))
    return made


@pytest.fixture
async def ssh(tmp_path: Path) -> AsyncIterator[Ssh]:
    (tmp_path / "root/in").mkdir(parents=True)
    async with ssh_server(tmp_path / "root") as server:
        yield server


# --- a bucket ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(moto: str) -> Iterator[str]:
    """The origin of a store with an empty bucket `papers`."""
    client = boto3.client(
        "s3", endpoint_url=moto, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y"
    )
    client.create_bucket(Bucket="papers")
    yield moto
    for item in client.list_objects_v2(Bucket="papers").get("Contents", []):
        client.delete_object(Bucket="papers", Key=item["Key"])
    client.delete_bucket(Bucket="papers")


def at_bucket(origin: str, below: str = "/in", **settings: Any) -> Connector:
    line = {"folder": f"s3://papers{below}", "origin": origin, "allow_private": True, **KEYS, **settings}
    made: Connector = KIND.connect("papers", line, Lent(**SECRETS))
    return made


@pytest.fixture(params=["s3", "sftp"])
def place(request: pytest.FixtureRequest) -> Any:
    """Makes connections to an empty place."""
    found = request.getfixturevalue("bucket" if request.param == "s3" else "ssh")
    return lambda **settings: (at_bucket if request.param == "s3" else at_ssh)(found, **settings)


# --- what both do --------------------------------------------------------------------------------------------------


async def test_what_is_written_is_found_and_read(place: Any) -> None:
    mine, digest = place(), hashlib.sha256(PDF).hexdigest()
    tools = mine.place.tools
    file = {"name": "見積.pdf", "kind": "pdf", "sha256": tools.keep(PDF), "size": len(PDF)}
    wrote = await did(mine, "write", {"path": "2026/09/見積 +.pdf", "file": file})
    assert wrote.output == {"path": "2026/09/見積 +.pdf", "sha256": digest, "size": len(PDF)}
    assert wrote.external_id == "2026/09/見積 +.pdf"
    assert await did(mine, "write", {"path": "2026/09/見積 +.pdf", "file": file}) == wrote
    await did(mine, "write", {"path": "2026/09/deeper/b.pdf", "text": "x"})
    listed = await did(mine, "list", {"folder": "2026/09", "pattern": "*.pdf"}, purpose="read")
    assert [(one["path"], one["size"]) for one in listed.output["files"]] == [("2026/09/見積 +.pdf", len(PDF))]
    assert listed.output["files"][0]["changed"][:4] >= "2026"
    read = await did(mine, "read", {"path": "2026/09/見積 +.pdf"}, purpose="read")
    assert read.output["file"] == {"name": "見積 +.pdf", "kind": "pdf", "sha256": digest, "size": len(PDF)}
    for action, input in (("read", {"path": "2027/x.pdf"}), ("list", {"folder": "2027"})):
        assert (await did(mine, action, input, purpose="read")).output["found"] is False
    await mine.close()


async def test_a_name_is_given_once(place: Any) -> None:
    mine = place()
    assert (await did(mine, "write", {"path": "a.txt", "text": "one"})).result == "applied"
    found = await did(mine, "write", {"path": "a.txt", "text": "two"}, key="am_2")
    assert (found.result, found.reason) == ("refused", "conflict")
    assert found.summary == "a.txt is there already and holds something else; nothing was changed"
    results = await asyncio.gather(
        *(did(mine, "write", {"path": "b.txt", "text": str(at)}, key=f"k{at}") for at in range(4))
    )
    assert sorted(each.result for each in results) == ["applied", *["refused"] * 3]
    listed = await did(mine, "list", {}, purpose="read")
    assert [one["name"] for one in listed.output["files"]] == ["a.txt", "b.txt"]
    await mine.close()


async def test_an_undo_takes_away_what_is_still_the_same(place: Any) -> None:
    mine = place()
    undo = mine.actions["write"].undo
    wrote = await did(mine, "write", {"path": "a.txt", "text": "one"})
    input = {"path": "a.txt", "sha256": "0" * 64}
    assert (await did(mine, undo.action, input, key="am_undo", purpose="undo")).reason == "conflict"
    input = {"path": "a.txt", "sha256": wrote.output["sha256"]}
    for is_removed in (True, False):
        gone = await did(mine, undo.action, input, key="am_undo", purpose="undo")
        assert (gone.result, gone.output["removed"]) == ("applied", is_removed)
    await mine.close()


async def test_what_is_removed_into_the_trash_comes_back(place: Any) -> None:
    mine = place(trash="removed")
    undo = mine.actions["remove"].undo
    await did(mine, "write", {"path": "a.txt", "text": "one"})
    gone = await did(mine, "remove", {"path": "a.txt"})
    assert gone.output["removed"] is True
    assert (await did(mine, "remove", {"path": "a.txt"})).output == {**gone.output, "removed": False}
    back = {"path": gone.output["kept_at"], "to": "a.txt"}
    for _ in range(2):
        assert (await did(mine, undo.action, back, key="am_undo", purpose="undo")).result == "applied"
    assert (await did(mine, "read", {"path": "a.txt"}, purpose="read")).output["found"] is True
    absent = await did(mine, "move", {"path": "no.txt", "to": "x/no.txt"})
    assert (absent.result, absent.reason) == ("refused", "not_found")
    await mine.close()


# --- what SFTP does ------------------------------------------------------------------------------------------------


async def test_a_file_is_whole_or_not_there_and_nothing_is_left_beside_it(ssh: Ssh) -> None:
    for without in (set[str](), {"link"}):
        ssh.without = without
        name = f"a{len(without)}.txt"
        assert (await did(at_ssh(ssh), "write", {"path": name, "text": "one"})).result == "applied"
        assert (await did(at_ssh(ssh), "write", {"path": name, "text": "two"})).reason == "conflict"
    assert sorted(each.name for each in (ssh.folder / "in").iterdir()) == ["a0.txt", "a1.txt"]


async def test_a_lost_answer_is_unknown_and_the_same_call_again_finds_what_was_done(ssh: Ssh) -> None:
    mine, input = at_ssh(ssh), {"path": "a.txt", "text": "one"}
    ssh.faults = ["link"]
    lost = await did(mine, "write", input)
    assert (lost.result, lost.reason) == ("unknown", "connection")
    assert (await did(mine, "write", input)).result == "applied"
    ssh.faults = ["remove"]
    assert (await did(mine, "remove", {"path": "a.txt"})).result == "unknown"
    assert (await did(mine, "remove", {"path": "a.txt"})).output["removed"] is False


async def test_a_move_that_cannot_take_the_old_name_away_gives_no_new_one(ssh: Ssh) -> None:
    mine = at_ssh(ssh)
    await did(mine, "write", {"path": "a.txt", "text": "one"})
    ssh.without = {"remove"}
    found = await did(mine, "move", {"path": "a.txt", "to": "b.txt"})
    assert (found.result, found.reason) == ("unknown", "forbidden")  # here the new name could not be taken back either
    ssh.without = set()
    assert (await did(mine, "move", {"path": "a.txt", "to": "b.txt"})).result == "applied"
    assert [each.name for each in (ssh.folder / "in").iterdir()] == ["b.txt"]


async def test_no_link_leads_out(ssh: Ssh) -> None:
    outside = ssh.folder / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("keep out")
    (ssh.folder / "in/way").symlink_to("../outside")
    (ssh.folder / "in/file.txt").symlink_to("../outside/secret.txt")
    mine = at_ssh(ssh)
    for action, input in (
        ("read", {"path": "way/secret.txt"}),
        ("read", {"path": "file.txt"}),
        ("write", {"path": "way/new.txt", "text": "x"}),
        ("write", {"path": "way/deeper/new.txt", "text": "x"}),
        ("remove", {"path": "way/secret.txt"}),
        ("list", {"folder": "way"}),
    ):
        found = await did(mine, action, input)
        assert found.result == "refused", (action, input, found)
    assert [each.name for each in outside.iterdir()] == ["secret.txt"]
    assert (await did(mine, "list", {}, purpose="read")).output["files"] == []


async def test_who_is_let_in_and_whom_we_believe(ssh: Ssh) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    fake = await did(at_ssh(ssh, host_key=other), "read", {"path": "a"}, purpose="read")
    assert (fake.result, fake.reason) == ("refused", "forbidden")
    assert "does not prove itself by the key that host_key names" in fake.summary
    stranger = await did(at_ssh(ssh, user="eve"), "write", {"path": "a", "text": "x"})
    assert (stranger.result, stranger.summary) == ("refused", f"127.0.0.1:{ssh.port} does not let us in")
    private = await did(_public(ssh), "read", {"path": "a"}, purpose="read")
    assert "is not a public address" in private.summary
    nowhere = await did(at_ssh(ssh, below="/no"), "read", {"path": "a"}, purpose="read")
    assert (nowhere.result, nowhere.summary) == ("refused", "the folder /no is not there")


def _public(server: Ssh) -> Connector:
    """A name that leads to this machine, without allow_private."""
    line: dict[str, Any] = {
        "folder": f"sftp://localhost:{server.port}/in",
        "user": "ops",
        "password": {"secret": "PASSWORD"},
    }
    made: Connector = KIND.connect("drop", line | {"host_key": server.host_key}, Lent(**SECRETS))
    return made


async def test_a_server_that_is_not_there_was_sent_nothing(tmp_path: Path) -> None:
    async with ssh_server(tmp_path) as server:
        mine = at_ssh(server)
    found = await did(mine, "write", {"path": "a", "text": "x"})
    assert (found.result, found.reason) == ("not_sent", "connection")


# --- what a bucket does --------------------------------------------------------------------------------------------


async def put(server: HttpServer, *scripts: Any, limit: int = 3_000, **input: Any) -> Outcome:
    server.on("/papers/in/a.txt", *scripts)
    mine = at_bucket(server.origin)
    request = mine.prepare("write", {"path": "a.txt", "text": "one", **input}, key="k", purpose="do")
    found = await mine.send("write", request, key="k", purpose="do", limit=limit)
    await mine.close()
    return found


@pytest.mark.parametrize(
    ("scripts", "expected"),
    [
        ((answer(404), answer(200)), ("applied", "")),
        ((answer(404), drop()), ("unknown", "connection")),
        ((drop(),), ("unknown", "connection")),
        ((answer(404), answer(503)), ("unknown", "unknown")),
        ((answer(404), answer(403)), ("refused", "forbidden")),
        ((answer(404), answer(501)), ("refused", "forbidden")),
        ((answer(404), answer(409)), ("refused", "unavailable")),
        ((answer(404), late(2, answer(200))), ("unknown", "timeout")),
        ((answer(404), answer(412), answer(200, "other")), ("refused", "conflict")),
    ],
)
async def test_what_an_answer_means(scripts: Any, expected: Any) -> None:
    async with http_server() as server:
        found = await put(server, *scripts, limit=1_000)
    assert (found.result, found.reason) == expected, found
    assert SECRETS["SECRET"] not in f"{found}"


async def test_a_file_is_put_only_where_there_is_none() -> None:
    async with http_server() as server:
        await put(server, answer(404), answer(200))
        asked, made = server.got
    assert (asked.method, made.method, made.headers["if-none-match"], made.body) == ("HEAD", "PUT", "*", b"one")


async def test_a_bucket_that_is_not_there_is_no_empty_one(moto: str) -> None:
    mine = at_bucket(moto)
    found = await did(mine, "read", {"path": "a.txt"}, purpose="read")
    await mine.close()
    assert (found.result, found.reason) == ("refused", "invalid")
    assert "NoSuchBucket" in found.summary


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    [
        ("GET", "/papers/in/%E8%A6%8B%20%2B.pdf", b"", {}),
        ("PUT", "/papers/a.txt", b"one", {"if-none-match": "*", "content-type": "application/octet-stream"}),
        ("GET", "/papers?delimiter=%2F&list-type=2&max-keys=1000&prefix=in%2F", b"", {}),
    ],
)
def test_the_signature_is_the_one_that_amazon_s_library_makes(
    method: str, path: str, body: bytes, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = datetime(2026, 9, 1, 1, 2, 3, tzinfo=UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda remove_tzinfo=True: moment.replace(tzinfo=None))
    url = f"https://s3.eu-central-1.amazonaws.com{path}"
    wire = Wire(method=method, url=url, headers=headers, body=body)
    mine = signed(wire, region="eu-central-1", access=SECRETS["ACCESS"], secret=SECRETS["SECRET"], at=moment)
    theirs = AWSRequest(method=method, url=url, headers=headers, data=body)
    theirs.context["payload_signing_enabled"] = True
    S3SigV4Auth(Credentials(SECRETS["ACCESS"], SECRETS["SECRET"]), "s3", "eu-central-1").add_auth(theirs)
    assert mine["authorization"] == theirs.headers["Authorization"]
    assert urlsplit(url).netloc not in mine


# --- what cannot be ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"folder": "ftp://x.test/y"}, "must be a folder, s3://bucket/… or sftp://host/…"),
        ({"folder": "s3://papers", "access_key": {"secret": "A"}}, "need secret_key"),
        ({"folder": "s3://Papers_1", **KEYS}, "cannot be the name of a bucket"),
        ({"folder": "s3://papers/../x", **KEYS}, "is no path"),
        ({"folder": "s3://papers", **KEYS, "access_key": "AKID"}, "holds the value itself"),
        ({"folder": "s3://papers", **KEYS, "user": "x"}, 'user is not for a folder like "s3://papers"'),
        ({"folder": "/srv/x", "region": "eu"}, 'region is not for a folder like "/srv/x"'),
        ({"folder": "sftp://h.test/x", "user": "ops", "password": {"secret": "P"}}, "need host_key"),
        ({"folder": "sftp://h.test/x", "user": "ops", "host_key": "k"}, "need a password or a private_key"),
        (
            {"folder": "sftp://h.test/x", "user": "ops", "host_key": "k", "password": {"secret": "P"}},
            "host_key must be the public key of the server",
        ),
        ({"folder": "sftp://ops:pw@h.test/x", "user": "ops"}, "holds a user, a query or a fragment"),
        (
            {"folder": "sftp://169.254.169.254/x", "user": "o", "host_key": "k", "password": {"secret": "P"}},
            "never connected to",
        ),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        KIND.connect("box", settings, Lent())
    assert said in str(caught.value)


def test_without_its_package_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sftp, "asyncssh", None)
    line = {"folder": "sftp://h.test/x", "user": "ops", "host_key": "k", "password": {"secret": "P"}}
    with pytest.raises(SettingsError, match=r'need a package more: pip install "amends\[sftp\]"'):
        KIND.connect("box", line, Lent())


async def test_a_login_by_a_key(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    mine = asyncssh.generate_private_key("ssh-ed25519")

    class Known(asyncssh.SSHServer):
        def public_key_auth_supported(self) -> bool:
            return True

        def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
            return bool(key.public_data == mine.public_data)

    host = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.listen("127.0.0.1", 0, server_factory=Known, server_host_keys=[host], sftp_factory=True)
    secrets = {"KEY": mine.export_private_key().decode(), "BAD": "no key"}
    try:
        for name, expected in (("KEY", "applied"), ("BAD", "refused")):
            line = {
                "folder": f"sftp://127.0.0.1:{server.get_port()}{tmp_path}/in",
                "user": "ops",
                "private_key": {"secret": name},
                "host_key": host.export_public_key().decode().strip(),
                "allow_private": True,
            }
            made = KIND.connect("drop", line, Lent(**secrets))
            assert (await did(made, "write", {"path": "a.txt", "text": "one"})).result == expected
    finally:
        server.close()
        await server.wait_closed()
    assert (tmp_path / "in/a.txt").read_text() == "one"


def test_purposes_are_those_of_a_folder() -> None:
    purpose: Purpose = "lookup"
    line = {"folder": "s3://papers", **KEYS}
    with pytest.raises(Exception, match="cannot be asked by a key"):
        KIND.connect("papers", line, Lent()).prepare("write", {"path": "a", "text": "x"}, key="k", purpose=purpose)
