"""Which modules of the product can open a connection, and what each of them does about the guard.

A module that uses a library of `LIBRARIES` and stands neither in `GUARDED` nor in `EXEMPT` is a new way out that nobody
has thought about.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from tests.house import Module

LIBRARIES = frozenset(
    "aiohttp aioimaplib aiosmtplib apprise asyncssh boto3 ftplib grpc http.client httpx imapclient imaplib "
    "opentelemetry.exporter paho poplib psycopg pymysql redis requests rfc3161_client smtplib socket socketserver "
    "telnetlib temporalio urllib.request urllib3 websockets xmlrpc.client".split()
)
CALLS = frozenset({"open_connection", "create_connection", "open_unix_connection", "create_datagram_endpoint"})

GUARDED: Mapping[str, str] = {
    "connectors.client": "self._guard.check_address",
    "connectors.email": "server.connect()",
    "connectors.imap": "self.server.connect()",
    "connectors.servers": "guard.resolve",
    "connectors.sftp": "server.connect()",
    "connectors.sql.databases": "server.addresses()",
    "connectors.transport": "_guard.resolve",
    "runner.chat": "watched(guard)",
    "runner.guard": "class Guard",
    "runner.people.provider": "_guard.resolve",
    "runner.stamping": "watched(Guard",
    "runner.web.reach": "watched(Guard",
}
"""Those that connect, each with the words by which it goes through the guard."""

EXEMPT: Mapping[str, str] = {
    "connectors.paging": "httpx reads a Link header",
    "connectors.stored": "httpx writes a multipart body",
    "connectors.chat": "names the error of a name without an address",
    "runner.cli.doctor": "the engine's own socket in the project's folder",
    "runner.demo.backoffice": "a server of the demo, on this computer",
    "runner.demo.mailserver": "a server of the demo, on this computer",
    "runner.demo.servers": "asks the demo's own servers, on this computer",
    "runner.engine.handover": "the engine's own socket in the project's folder",
    "runner.engine.temporal.cluster": "connects to the cluster that amends.yaml names, which carries the runs",
    "runner.engine.temporal.contact": "asks that cluster, by the client of `cluster`",
    "runner.engine.temporal.engine": "asks that cluster, by the client of `cluster`",
    "runner.engine.temporal.moving": "asks that cluster, by the client of `cluster`",
    "runner.engine.temporal.workflow": "is carried out by that cluster's workers and opens nothing",
    "runner.store.postgres": "the installation's own database",
    "runner.store.shared": "asks the name of this machine",
    "runner.tracing": "sends to the collector that amends.yaml names, ids and words of the protocol only",
    "runner.web.server": "listens",
}
"""Those that open nothing that leads elsewhere."""


def openers(modules: Iterable[Module]) -> dict[str, set[str]]:
    """name -> the libraries and calls by which a module could connect."""
    found: dict[str, set[str]] = {}
    for module in modules:
        for each in ast.walk(module.tree):
            names: list[str] = []
            if isinstance(each, ast.Import):
                names = [one.name for one in each.names]
            elif isinstance(each, ast.ImportFrom) and each.module:
                names = [each.module, *(f"{each.module}.{one.name}" for one in each.names)]
            elif isinstance(each, ast.Attribute) and each.attr in CALLS:
                found.setdefault(module.name, set()).add(each.attr)
            for name in names:
                steps = name.split(".")
                for end in range(1, len(steps) + 1):
                    if ".".join(steps[:end]) in LIBRARIES:
                        found.setdefault(module.name, set()).add(".".join(steps[:end]))
    return found


def unguarded(modules: list[Module]) -> list[str]:
    """What is wrong: a way out without the guard, a word of the list that is not true any more."""
    found = openers(modules)
    texts = {module.name: ast.unparse(module.tree) for module in modules if module.name in GUARDED}
    wrong = [
        f"{name} uses {', '.join(sorted(by))} and says nowhere how it passes the guard"
        for name, by in found.items()
        if name not in GUARDED and name not in EXEMPT
    ]
    wrong += [f"{name} does not say {words} any more" for name, words in GUARDED.items() if words not in texts[name]]
    return wrong
