"""A real Dovecot with IMAP on loopback, in a folder of its own; no system service. Any user logs in with PASSWORD."""

from __future__ import annotations

import contextlib
import imaplib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ports import free_port

PASSWORD = "right-horse"
PROGRAM = shutil.which("dovecot", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

CONF = """base_dir = {place}/run
state_dir = {place}/state
log_path = {place}/log
protocols = imap
listen = 127.0.0.1
ssl = {ssl}
{keys}
disable_plaintext_auth = no
mail_location = maildir:{place}/mail/%n
first_valid_uid = 1
mail_max_userip_connections = 50
service imap-login {{
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
  }}
  chroot =
}}
service anvil {{
  chroot =
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid=dovecot gid=dovecot home={place}/mail/%n
}}
"""


def needs_dovecot() -> None:
    """Skips the test where there is no Dovecot, or it cannot be started."""
    if PROGRAM is None:
        pytest.skip("there is no Dovecot on this computer (apt-get install dovecot-imapd)")
    if os.geteuid() != 0:
        pytest.skip("Dovecot is started by root only")


class Dovecot:
    """The server. `stop` and `start` may follow each other: mails stay."""

    def __init__(self, place: Path, certificate: tuple[Path, Path] | None = None) -> None:
        self.place = place
        self.port, self.tls_port = free_port(), free_port() if certificate else 0
        for folder in (place, place / "mail"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
            shutil.chown(folder, "dovecot", "dovecot")
        keys = f"ssl_cert = <{certificate[0]}\nssl_key = <{certificate[1]}" if certificate else ""
        said = {"ssl": "yes" if certificate else "no", "keys": keys, "password": PASSWORD}
        text = CONF.format(place=place, port=self.port, tls_port=self.tls_port, **said)
        (place / "dovecot.conf").write_text(text)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert PROGRAM is not None
        self._process = subprocess.Popen(
            [PROGRAM, "-F", "-c", str(self.place / "dovecot.conf")], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        for _ in range(400):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as sock:
                if sock.recv(4) == b"* OK":
                    return
            assert self._process.poll() is None, (self.place / "log").read_text()
            time.sleep(0.02)
        raise AssertionError("Dovecot did not start: " + (self.place / "log").read_text())

    def stop(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(10)
            self._process = None

    @contextlib.contextmanager
    def log_in(self, user: str) -> Iterator[imaplib.IMAP4]:
        """A conversation of the test's own."""
        with imaplib.IMAP4("127.0.0.1", self.port, timeout=10) as found:
            found.login(user, PASSWORD)
            yield found

    def deliver(self, user: str, *mails: bytes, at: float | None = None) -> None:
        """Puts mails into the inbox; `at` is when they are said to have come, s since the epoch."""
        with self.log_in(user) as client:
            for mail in mails:
                when = imaplib.Time2Internaldate(time.time() if at is None else at)
                assert client.append("INBOX", "", when, mail)[0] == "OK"

    def flags(self, user: str) -> list[bytes]:
        """The flags of every mail of the inbox."""
        with self.log_in(user) as client:
            client.select("INBOX", readonly=True)
            told = client.fetch("1:*", "(FLAGS)")[1]
            return [one for one in told if isinstance(one, bytes)]

    def number_anew(self, user: str) -> None:
        """The mails stay, and get other uids under another UIDVALIDITY, in another order."""
        home = self.place / "mail" / user
        files = sorted([*(home / "new").iterdir(), *(home / "cur").iterdir()], reverse=True)
        for number, file in enumerate(files):
            target = home / "new" / f"{1_700_000_000 + number}.M{number:06}P1.other"
            file.rename(target)
        for name in home.glob("dovecot*"):
            name.unlink()
        time.sleep(1.1)  # UIDVALIDITY is the second in which the mailbox was made


@contextlib.contextmanager
def dovecot(certificate: tuple[Path, Path] | None = None) -> Iterator[Dovecot]:
    """A running server; its users may not look into a test's own folder, so it has one beside."""
    needs_dovecot()
    with tempfile.TemporaryDirectory(prefix="dovecot-") as place:
        server = Dovecot(Path(place), certificate)
        server.start()
        try:
            yield server
        finally:
            server.stop()
