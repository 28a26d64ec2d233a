"""Whether a delivery is from whom it says: pure, over the raw bytes that came.

Each scheme is one function from what came and one key to what is wrong, empty for nothing. It says so for our own log:
the sender is told nothing that a forger could use. Compares take the same time whatever they are given.

The senders' own words on their schemes: Standard Webhooks 1.0.0 (symmetric, v1), GitHub "Validating webhook
deliveries", Stripe "Verify webhook signatures manually", Slack "Verifying requests from Slack".
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runner.clock import MINUTE, SECOND
from runner.contract import Json
from runner.errors import SettingsError
from runner.language.clauses import duration

WINDOW = 5 * MINUTE
"""How far a delivery's own time may be from ours, where its scheme has one and the connection says nothing else."""

_TIME = re.compile(r"[0-9]{1,12}")
_WRONG = "its signature is not one that our secret makes"


@dataclass(frozen=True, kw_only=True, slots=True)
class Seal:
    """How the deliveries of one connection are proved. `header`, `encoding`, `prefix` and `user` are for the schemes
    that have no fixed ones; `window` is ms."""

    scheme: str
    header: str = ""
    encoding: str = "hex"
    prefix: str = ""
    user: str = ""
    window: int = WINDOW


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """What came: the header fields by their names in small letters, and the body byte for byte. `now` is ms."""

    headers: Mapping[str, str]
    body: bytes
    now: int

    def header(self, name: str) -> str:
        """The value of a header, empty where it is not there."""
        return self.headers.get(name.lower(), "").strip()


def seal_of(settings: Mapping[str, Json]) -> Seal:
    """The seal of a connection of the kind `webhook`, out of its line in connections.yaml."""
    words = {word: str(settings[word]) for word in ("header", "encoding", "prefix", "user") if word in settings}
    window = duration(str(settings["window"])).ms if "window" in settings else WINDOW
    return Seal(scheme=str(settings["scheme"]), window=window, **words)


def refusal(seal: Seal, keys: tuple[str, ...], came: Delivery) -> str:
    """Why the delivery is not authentic; empty if it is. `keys` are the secret and, while it is being changed, the old
    one: either will do. Raises SettingsError for a secret that the scheme cannot use.
    """
    prove = SCHEMES[seal.scheme]
    found = [prove(seal, key, came) for key in keys]  # each of them, so that nothing shows which one it was
    return "" if "" in found else next((why for why in found if why != _WRONG), _WRONG)


# --- the schemes ---------------------------------------------------------------------------------------------------


def _standard(seal: Seal, key: str, came: Delivery) -> str:
    """`webhook-signature: v1,<base64> v1,<base64>` over id.time.body; other versions are passed over."""
    name, time = came.header("webhook-id"), came.header("webhook-timestamp")
    if not name or not time or not came.header("webhook-signature"):
        return _lacking("webhook-id, webhook-timestamp and webhook-signature")
    try:
        text = key.removeprefix("whsec_")
        secret = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:  # base64's own error, or a key that is not ASCII
        raise SettingsError("its secret is not base64, which Standard Webhooks asks for: whsec_…") from None
    made = base64.b64encode(_hmac(secret, b"%s.%s.%s" % (name.encode(), time.encode(), came.body))).decode()
    given = [one.partition(",") for one in came.header("webhook-signature").split()]
    return _signed([value for version, _, value in given if version == "v1"], made) or _late(seal, time, came.now)


def _github(seal: Seal, key: str, came: Delivery) -> str:
    """`X-Hub-Signature-256: sha256=<hex>` over the body. It has no time."""
    given = came.header("x-hub-signature-256")
    if not given:
        return _lacking("X-Hub-Signature-256")
    return _signed([given], "sha256=" + _hmac(key.encode(), came.body).hex())


def _stripe(seal: Seal, key: str, came: Delivery) -> str:
    """`Stripe-Signature: t=<time>,v1=<hex>,v1=<hex>` over time.body; other versions are passed over."""
    parts = [one.strip().partition("=") for one in came.header("stripe-signature").split(",")]
    times = [value for word, _, value in parts if word == "t"]
    if len(times) != 1:
        return _lacking("Stripe-Signature with one time")
    made = _hmac(key.encode(), b"%s.%s" % (times[0].encode(), came.body)).hex()
    return _signed([value for word, _, value in parts if word == "v1"], made) or _late(seal, times[0], came.now)


def _slack(seal: Seal, key: str, came: Delivery) -> str:
    """`X-Slack-Signature: v0=<hex>` over v0:time:body."""
    time, given = came.header("x-slack-request-timestamp"), came.header("x-slack-signature")
    if not time or not given:
        return _lacking("X-Slack-Request-Timestamp and X-Slack-Signature")
    made = "v0=" + _hmac(key.encode(), b"v0:%s:%s" % (time.encode(), came.body)).hex()
    return _signed([given], made) or _late(seal, time, came.now)


def _plain(seal: Seal, key: str, came: Delivery) -> str:
    """A header that holds the HMAC-SHA256 of the body, in hex or base64, behind a fixed word if there is one."""
    given, digest = came.header(seal.header), _hmac(key.encode(), came.body)
    if not given:
        return _lacking(seal.header)
    if not given.startswith(seal.prefix):
        return f"its {seal.header} does not begin with {seal.prefix}"
    given = given.removeprefix(seal.prefix).strip()
    if seal.encoding == "base64":
        return _signed([given], base64.b64encode(digest).decode())
    return _signed([given.lower()], digest.hex())


def _basic(seal: Seal, key: str, came: Delivery) -> str:
    """`Authorization: Basic …` with our user and the secret as its password."""
    kind, _, given = came.header("authorization").partition(" ")
    if kind.lower() != "basic":
        return _lacking("Authorization: Basic")
    made = base64.b64encode(f"{seal.user}:{key}".encode()).decode()
    return _same(given.strip(), made, "its user or password is not the one we know")


def _token(seal: Seal, key: str, came: Delivery) -> str:
    """A header that holds the secret itself: whoever reads one delivery can make others."""
    given = came.header(seal.header)
    return _same(given, seal.prefix + key, "its token is not the one we know") if given else _lacking(seal.header)


SCHEMES: Mapping[str, Callable[[Seal, str, Delivery], str]] = {
    "standard": _standard, "github": _github, "stripe": _stripe, "slack": _slack, "hmac": _plain, "basic": _basic,
    "token": _token,
}  # fmt: skip
"""What proves a delivery, by the word that `scheme` has for it."""


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


def _same(given: str, made: str, otherwise: str) -> str:
    return "" if hmac.compare_digest(given.encode(), made.encode()) else otherwise


def _signed(given: list[str], made: str) -> str:
    return "" if "" in [_same(one, made, _WRONG) for one in given] else _WRONG


def _lacking(what: str) -> str:
    return f"it has no {what}"


def _late(seal: Seal, time: str, now: int) -> str:
    """What is wrong with the time that was signed, in s since 1970."""
    if not _TIME.fullmatch(time):
        return "it is signed, but its time cannot be read"
    apart = now - int(time) * SECOND
    if abs(apart) <= seal.window:
        return ""
    where = "old" if apart > 0 else "ahead of our clock"
    return f"it is signed, but {abs(apart) // SECOND} s {where}, and {seal.window // SECOND} s are allowed"
