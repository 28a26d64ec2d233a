"""Where the engine finds what it needs: bundles in the store, connectors with the settings as they are today."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from runner.contract import Connector, Json
from runner.engine.bounds import Bound
from runner.errors import NotFound, SettingsError
from runner.language.bundle import Bundle, restore
from runner.language.connections import Connection
from runner.language.project import Project
from runner.secrets import LogFilter, Secrets
from runner.store.sql import SqlStore
from runner.store.vault import Vault

MOST_BUNDLES = 200


class ProjectOutside:
    """Where the engine finds bundles and connectors: bundles in the store, settings in the project as it is today.

    Without a store there are connectors, and neither bundles nor files.
    """

    def __init__(self, project: Project, store: SqlStore | None = None) -> None:
        self._project = project
        self._store = store
        self._secrets = Secrets(project.folder)
        self.vault = Vault(project.folder / ".amends", self._secrets, project.settings.token_key)
        self._secrets.declare(secret_names(project))
        self._connectors: dict[tuple[str, str], Connector] = {}
        self._pinned: dict[tuple[str, str, str], Connector] = {}
        self._bundles: dict[str, Bundle] = {}

    def renew(self, project: Project) -> None:
        """The project as it is by now: connections and secrets that are new or changed hold from here on."""
        self._project = project
        self._secrets.reload()
        self._secrets.declare(secret_names(project))
        self._connectors.clear()

    def require_secrets(self, bundle: Bundle, *, at_once: bool = False) -> None:
        """Raises SecretMissing for a secret that the flow's connections name and nobody has set; with `at_once` also
        for one that was set until a moment ago."""
        lines = self._project.connections.by_name
        require = self._secrets.require if at_once else self._secrets.value
        for name in bundle.connections():
            for secret in _secrets_in(lines[name].settings) if name in lines else ():
                require(secret)

    @property
    def _past(self) -> SqlStore:
        if self._store is None:
            raise NotFound("this project has no log yet")
        return self._store

    def bundle(self, digest: str) -> Bundle:
        """The pinned bundle."""
        kept = self._bundles.get(digest)
        if kept is None:
            if len(self._bundles) >= MOST_BUNDLES:
                self._bundles.clear()
            kept = self._bundles[digest] = restore(digest, self._past.bundle(digest))
        return kept

    def connector(self, bundle: Bundle, connection: str) -> Connector:
        """The connector as the bundle pins it, with the settings of today's connections.yaml. Raises SettingsError."""
        known = self._connectors.get((bundle.digest, connection))
        if known is None:
            known = self._connectors[bundle.digest, connection] = self._connect(bundle, connection)
        return known

    def present(self, connection: str) -> Connector:
        """The connector of a connection as the project has it now, for what no bundle pins. Raises SettingsError."""
        line = self._project.connections.by_name.get(connection)
        if line is None:
            raise SettingsError(f'connections.yaml has no usable line "{connection}"')
        return self._made(connection, line, line.connector, line.found.text)

    def _connect(self, bundle: Bundle, connection: str) -> Connector:
        name, text = bundle.connector(connection)
        line = self._project.connections.by_name.get(connection)
        if line is None:
            raise SettingsError(f'connections.yaml has no usable line "{connection}", and this run needs it')
        return self._made(connection, line, name, text)

    def _made(self, connection: str, line: Connection, name: str, text: str) -> Connector:
        place = (connection, text, repr(sorted(line.settings.items())))
        known = self._pinned.get(place)
        if known is None:
            kinds = self._project.kinds
            if text and kinds.declarative is not None:
                kind, _ = kinds.declarative.kind_from_text(text, f"connectors/{name}.yaml")
            else:
                found = kinds.find(name)
                kind = found.kind if found is not None else None
            if kind is None:
                raise SettingsError(
                    f'the connector "{name}" of connection "{connection}" is not installed here any more'
                )
            known = kind.connect(connection, line.settings, self)
            self._pinned[place] = known
        return known

    def keep_out_of_logs(self, until: contextlib.AsyncExitStack) -> None:
        """Takes every secret out of what this process logs, its libraries' records and tracebacks too."""
        secrets = LogFilter(self._secrets)
        for handler in logging.getLogger().handlers:
            handler.addFilter(secrets)
            until.callback(handler.removeFilter, secrets)

    def secret(self, name: str) -> str:
        """The secret's value, for a connector that is about to send."""
        return self._secrets.value(name)

    def redact(self, text: str) -> str:
        """The text without any known secret."""
        return self._secrets.redact(text)

    def file(self, sha256: str) -> bytes:
        """The bytes of a stored file."""
        return self._past.artifacts.get(sha256)

    def keep(self, content: bytes) -> str:
        """Stores a file and gives its SHA-256."""
        return self._past.artifacts.put(content)

    def place(self, path: str) -> Path:
        """A path of connections.yaml, from the project's folder on."""
        return Path(self._project.folder) / path

    async def close(self) -> None:
        """Closes every connection."""
        for connector in self._pinned.values():
            await connector.close()


def bounds_of(project: Project) -> dict[str, Bound]:
    """The limits of the connections that have any. What our own tables do needs none."""
    return {
        name: Bound(at_once=line.at_once, rate=line.rate)
        for name, line in project.connections.by_name.items()
        if (line.at_once or line.rate) and not all(action.own for action in line.actions.values())
    }


def secret_names(project: Project) -> list[str]:
    """Every secret that the files of the project name, at any depth, so that none slips into a text before its first
    use."""
    lines = [line.settings for line in project.connections.by_name.values()]
    signing, key = project.settings.sign_in, project.settings.token_key
    chats = (person.chat for person in project.people.people.values() if person.chat)
    return [*_secrets_in(lines), *chats, *([signing.secret] if signing is not None else ()), *([key] if key else ())]


def _secrets_in(value: Json) -> Iterator[str]:
    if isinstance(value, Mapping):
        if list(value) == ["secret"] and isinstance(value["secret"], str):
            yield value["secret"]
        else:
            for part in value.values():
                yield from _secrets_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _secrets_in(part)
