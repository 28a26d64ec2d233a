"""What the engine lends a connector, small and real: secrets from a map, the product's own redaction, files by digest."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runner.errors import NotFound, SecretMissing
from runner.secrets import Secrets, forms_of, redact_text
from runner.store.vault import Vault


class Lent:
    """An implementation of `runner.contract.Tools`. `vault` is for connections that are given tokens."""

    vault: Any = None

    def __init__(self, **secrets: str) -> None:
        self._secrets = secrets
        self._files: dict[str, bytes] = {}

    def keep(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        self._files[digest] = content
        return digest

    def secret(self, name: str) -> str:
        if name not in self._secrets:
            raise SecretMissing(f"the secret {name} is not set")
        return self._secrets[name]

    def redact(self, text: str) -> str:
        needles = tuple((form, "[secret]") for value in self._secrets.values() for form in forms_of(value))
        return redact_text(text, needles) if needles else text

    def file(self, sha256: str) -> bytes:
        if sha256 not in self._files:
            raise NotFound(f"there is no file {sha256[:8]}")
        return self._files[sha256]

    def place(self, path: str) -> Path:
        return Path(path)


def forms(value: str) -> list[str]:
    """A secret as it may show up."""
    return [
        value,
        quote(value, safe=""),
        quote(value),
        base64.b64encode(value.encode()).decode(),
        json.dumps(value)[1:-1],
    ]


class Hands:
    """What is lent to a connector that keeps tokens: secrets as a project has them, and a real vault. No files."""

    def __init__(self, folder: Path, secrets: Mapping[str, str], key_secret: str = "") -> None:
        self._secrets = Secrets(folder, secrets)
        self.vault = Vault(folder / ".amends", self._secrets, key_secret)

    def secret(self, name: str) -> str:
        return self._secrets.value(name)

    def redact(self, text: str) -> str:
        return self._secrets.redact(text)

    def file(self, sha256: str) -> bytes:
        raise AssertionError(sha256)

    def keep(self, content: bytes) -> str:
        raise AssertionError

    def place(self, path: str) -> Path:
        return Path(path)
