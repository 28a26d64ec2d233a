"""A project of a few people behind a real mail server: what the tests of notices share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from connectors import email, quarantine, records
from runner.contract import Connector
from runner.language.connections import Kinds
from runner.language.project import Project
from runner.people.post import Post
from tests.support.smtp_service import SmtpService

PEOPLE = """\
people:
  aya: { name: 佐藤 綾, mail: aya@acme.test, language: ja }
  tom: { name: Tom Ito, mail: tom@acme.test }
  lin: { name: 林 美玲, mail: lin@acme.test, language: zh-TW }
  bob: { name: Bob Chat, mail: bob@acme.test, chat: { secret: BOB_CHAT } }
  root: { name: Root, mail: root@acme.test, role: admin }
posts: { cfo: root }
teams:
  ops: { members: [tom], answer_within: 4 business hours, escalate_to: [person:lin, person:cfo] }
  leads: { members: [aya, lin] }
"""
KINDS = Kinds(python={"email": email.KIND, "records": records.KIND, "quarantine": quarantine.KIND})


class Lines:
    """The secrets of a test."""

    vault: Any = None

    def __init__(self, **known: str) -> None:
        self.known = known

    def secret(self, name: str) -> str:
        return self.known[name]

    def redact(self, text: str) -> str:
        return text

    def file(self, sha256: str) -> bytes:
        raise AssertionError

    def keep(self, content: bytes) -> str:
        raise AssertionError

    def place(self, path: str) -> Path:
        raise AssertionError


def make_office(folder: Path, port: int, flows: dict[str, str] | None = None, people: str = PEOPLE) -> Project:
    """The project's folder; mails go to that port of this machine."""
    (folder / "flows").mkdir(parents=True)
    settings = "project: office\nzone: Asia/Tokyo\ntell_by: mail\nadmin: person:root\npublic_url: https://amends.test\n"
    (folder / "amends.yaml").write_text(settings, encoding="utf-8")
    (folder / "people.yaml").write_text(people, encoding="utf-8")
    safe = "security: none, allow_private: true, allow_insecure: true"
    line = f'mail: {{ connector: email, host: 127.0.0.1, port: {port}, from: "Amends <amends@acme.test>", {safe} }}\n'
    (folder / "connections.yaml").write_text(line, encoding="utf-8")
    (folder / ".env").write_text("BOB_CHAT=json://127.0.0.1:9/\n", encoding="utf-8")
    for name, text in (flows or {}).items():
        (folder / "flows" / f"{name}.yaml").write_text(f"flow: {name}\n{text}", encoding="utf-8")
    return Project.open(folder, kinds=KINDS)


def post_of(project: Project, **secrets: str) -> Post:
    """A post whose mails go where the project's connections lead."""
    lines = Lines(**secrets)

    def connect(name: str) -> Connector:
        line = project.connections.by_name[name]
        return line.found.kind.connect(name, line.settings, lines)

    return Post(lambda: project, connect, lines.secret)


def parts(mail: SmtpService, number: int = -1) -> tuple[str, str]:
    """(text, html) of a mail that was kept."""
    return mail.mails[number].body("plain"), mail.mails[number].body("html")
