"""What services give us to keep (tokens): one encrypted file for each connection, `.amends/tokens/NAME`.

The key is `.amends/tokens/.key`, or is made out of the secret that amends.yaml names as `token_key`. This protects
copies of these files without their key. Whoever can read the folder as we do can read the tokens too, unless the key is
such a secret and stands elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping
from functools import lru_cache
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from runner.contract import Json, canonical
from runner.errors import StoreUnwritable
from runner.secrets import Secrets
from runner.store.anchor import write_once, write_synced

LOOKS_AGAIN = 0.05


class Vault:
    """The tokens of one project. `folder` is its state folder; `key_secret` names the secret that is the key."""

    def __init__(self, folder: Path, secrets: Secrets, key_secret: str = "") -> None:
        self._place = folder / "tokens"
        self._secrets = secrets
        self._key_secret = key_secret

    def read(self, name: str) -> Mapping[str, Json]:
        """What was kept under this name; empty where there is nothing that today's key opens. Raises SecretMissing,
        StoreUnwritable."""
        try:
            sealed = (self._place / name).read_bytes()
            found = json.loads(self._fernet().decrypt(sealed))
        except (FileNotFoundError, InvalidToken):
            return {}
        except (OSError, ValueError):
            raise StoreUnwritable(f"the tokens of {name} under {self._place} cannot be read") from None
        if found["name"] != name:
            return {}
        self._secrets.lend(name, [text for text in found["what"].values() if isinstance(text, str)])
        return dict(found["what"])

    def write(self, name: str, what: Mapping[str, Json]) -> None:
        """Keeps it; it is on the disk when this returns. Raises StoreUnwritable, SecretMissing."""
        try:
            self._open_place()
            sealed = self._fernet().encrypt(canonical({"name": name, "what": what}))
            write_synced(self._place / name, sealed)
        except (OSError, ValueError):
            raise StoreUnwritable(f"the tokens of {name} under {self._place} cannot be written") from None
        self._secrets.lend(name, [text for text in what.values() if isinstance(text, str)])

    @contextlib.asynccontextmanager
    async def alone(self, name: str) -> AsyncIterator[None]:
        """Nobody else is inside under this name, in no process. Raises StoreUnwritable."""
        try:
            self._open_place()
            file = os.open(self._place / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            raise StoreUnwritable(f"nothing can be kept under {self._place}") from None
        try:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(LOOKS_AGAIN)
            yield
        finally:
            os.close(file)

    def _fernet(self) -> Fernet:
        if self._key_secret:
            return Fernet(_stretched(self._secrets.value(self._key_secret)))
        path = self._place / ".key"  # no connection has such a name
        if not path.exists():
            self._open_place()
            write_once(path, Fernet.generate_key())
        return Fernet(path.read_bytes())

    def _open_place(self) -> None:
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)


@lru_cache(maxsize=4)
def _stretched(secret: str) -> bytes:
    """A key out of a secret of any length; the same secret is the same key wherever it is used."""
    return urlsafe_b64encode(hashlib.scrypt(secret.encode(), salt=b"amends tokens", n=2**14, r=8, p=1, dklen=32))
