"""Signatures under what the action log says of itself: Ed25519, with one key of each state folder, `.amends/log.key`.

The key signs checkpoints (see `writer`) and anchors (see `anchors`). Whoever can write the database but cannot read the
key cannot make a checkpoint; whoever can do both can be told from us only by an anchor that is kept elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from runner.contract import Json, canonical
from runner.errors import StoreUnwritable
from runner.store.anchor import write_once

FILE = "log.key"


@dataclass(frozen=True, kw_only=True, slots=True)
class Signer:
    """Signs for one installation. `public` is its key for others, 64 hexadecimal digits."""

    key: Ed25519PrivateKey
    public: str

    def sign(self, statement: Mapping[str, Json]) -> str:
        """The signature under a statement's canonical JSON, 128 hexadecimal digits."""
        return self.key.sign(canonical(dict(statement))).hex()


def open_signer(place: Path) -> Signer:
    """The key of a state folder, made when there is none yet. Raises StoreUnwritable."""
    path = place / FILE
    try:
        write_once(path, Ed25519PrivateKey.generate().private_bytes_raw().hex().encode())
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text()))
    except (OSError, ValueError):
        raise StoreUnwritable(
            f"{path} holds no key and cannot be made; put it back from a backup, or remove it: then a new key is made, "
            "and the old one's public part must be named in amends.yaml under `anchors: keys`"
        ) from None
    return Signer(key=key, public=key.public_key().public_bytes_raw().hex())


def public_key(place: Path) -> str:
    """The public key of a state folder; empty where it has none (or none that can be read)."""
    try:
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex((place / FILE).read_text()))
    except (OSError, ValueError):
        return ""
    return key.public_key().public_bytes_raw().hex()


def is_signed(statement: Mapping[str, Json], key: str, signature: str) -> bool:
    """Whether the holder of this public key signed this statement."""
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(bytes.fromhex(signature), canonical(dict(statement)))
    except (ValueError, InvalidSignature):
        return False
    return True


def checkpoint_statement(seq: int, previous: str, commit: int, heads: Mapping[str, Json]) -> dict[str, Json]:
    """What the signature of a checkpoint says: its place in the site's chain, and where the runs' chains stood."""
    return {"checkpoint": seq, "previous": previous, "commit": commit, "heads": dict(heads)}
