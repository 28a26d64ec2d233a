"""Deliveries are proved as their senders say: their published examples, and their own libraries as judges."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime

import pytest
import standardwebhooks
from hypothesis import given, settings
from hypothesis import strategies as st
from stripe import SignatureVerificationError, WebhookSignature

from connectors.webhook import KIND
from connectors.webhook import SCHEMES as DECLARED
from runner.clock import MINUTE, SECOND, MachineClock
from runner.errors import SettingsError
from runner.triggers.signatures import SCHEMES, Delivery, Seal, refusal, seal_of
from tests.connectors.tools import Lent

KEY, OLD = "a-secret-of-ours", "the-secret-before"
NOW = 1_900_000_000_000
WRONG = "its signature is not one that our secret makes"

BODIES = [b"", b"{}", b'{ "a" : 1.0,\n "b":"\\u00e9" }', "書類".encode(), b"a=1&b=%20", b"\xff\x00.\r\n", b"x" * 70_000]


def mac(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()


def headers(scheme: str, body: bytes, *, key: str = KEY, at: int = NOW) -> dict[str, str]:
    """What a sender of this scheme adds to a body."""
    time, secret = str(at // SECOND), key.encode()
    if scheme == "standard":
        text = base64.b64encode(mac(secret, b"msg_1." + time.encode() + b"." + body)).decode()
        return {"webhook-id": "msg_1", "webhook-timestamp": time, "webhook-signature": f"v1,{text}"}
    if scheme == "stripe":
        return {"stripe-signature": f"t={time},v0=00,v1={mac(secret, time.encode() + b'.' + body).hex()}"}
    if scheme == "slack":
        text = "v0=" + mac(secret, b"v0:" + time.encode() + b":" + body).hex()
        return {"x-slack-request-timestamp": time, "x-slack-signature": text}
    made = mac(secret, body)
    return {
        "github": {"x-hub-signature-256": f"sha256={made.hex()}"},
        "hmac": {"x-sum": f"sum={base64.b64encode(made).decode()}"},
        "basic": {"authorization": "Basic " + base64.b64encode(f"shop:{key}".encode()).decode()},
        "token": {"x-token": f"Token {key}"},
    }[scheme]


def seal(scheme: str) -> Seal:
    made = {
        "hmac": Seal(scheme="hmac", header="X-Sum", encoding="base64", prefix="sum="),
        "basic": Seal(scheme="basic", user="shop"),
        "token": Seal(scheme="token", header="X-Token", prefix="Token "),
    }
    return made.get(scheme, Seal(scheme=scheme))


def keys(scheme: str, *values: str) -> tuple[str, ...]:
    """Secrets as a person keeps them: Standard Webhooks in base64 behind its word."""
    if scheme != "standard":
        return values
    return tuple(f"whsec_{base64.b64encode(value.encode()).decode()}" for value in values)


def why(scheme: str, given: dict[str, str], body: bytes, *known: str, now: int = NOW) -> str:
    return refusal(seal(scheme), keys(scheme, *(known or (KEY,))), Delivery(headers=given, body=body, now=now))


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_the_sender_signed_is_let_in_and_nothing_else(scheme: str, body: bytes) -> None:
    came = headers(scheme, body)
    assert why(scheme, came, body) == ""
    assert why(scheme, came, body, "another-secret")
    assert why(scheme, {}, body).startswith("it has no ")
    assert why(scheme, headers(scheme, body, key=OLD), body, KEY, OLD) == "" == why(scheme, came, body, KEY, OLD)
    assert why(scheme, headers(scheme, body, key=OLD), body, KEY)
    if scheme not in ("basic", "token"):
        assert why(scheme, came, body + b" ") == WRONG
    for name, value in came.items():
        assert why(scheme, {**came, name: value[:-1]}, body)
        assert why(scheme, {**came, name: ""}, body)
        assert why(scheme, {**came, name: value + "é"}, body)


@pytest.mark.parametrize("scheme", ["standard", "stripe", "slack"])
def test_a_time_that_is_too_far_from_ours_is_refused(scheme: str) -> None:
    came = headers(scheme, b"{}")
    for apart in (0, 5 * MINUTE, -5 * MINUTE):
        assert why(scheme, came, b"{}", now=NOW + apart) == ""
    old, ahead = NOW + 20 * MINUTE, NOW - 5 * MINUTE - SECOND
    assert why(scheme, came, b"{}", now=old) == "it is signed, but 1200 s old, and 300 s are allowed"
    said = "it is signed, but 301 s ahead of our clock, and 300 s are allowed"
    assert why(scheme, came, b"{}", now=ahead) == said == why(scheme, came, b"{}", OLD, KEY, now=ahead)
    assert why(scheme, headers(scheme, b"{}", at=NOW - 20 * MINUTE), b"{}", OLD) == WRONG
    unread = {"standard": "1e9", "stripe": "t=soon", "slack": "-5"}
    name = {"standard": "webhook-timestamp", "stripe": "stripe-signature", "slack": "x-slack-request-timestamp"}
    assert why(scheme, {**came, name[scheme]: unread[scheme]}, b"{}") == WRONG


def test_one_of_several_signatures_is_enough_and_other_versions_do_not_count() -> None:
    came, body = headers("standard", b"{}"), b"{}"
    right = came["webhook-signature"]
    for text in (f"v1,AAAA {right}", f"{right} v1a,AAAA", f"v2,x v1, {right}"):
        assert why("standard", {**came, "webhook-signature": text}, body) == ""
    for text in (right.replace("v1,", "v2,"), right.replace("v1,", "v1a,"), "v1", "v1,", ","):
        assert why("standard", {**came, "webhook-signature": text}, body) == WRONG
    time, _, mine = headers("stripe", body)["stripe-signature"].split(",")
    assert why("stripe", {"stripe-signature": f"{time},v1=00,{mine}"}, body) == ""
    assert why("stripe", {"stripe-signature": f"{time},{mine.replace('v1', 'v0')}"}, body) == WRONG
    assert why("stripe", {"stripe-signature": f"t=1,{time},{mine}"}, body) == "it has no Stripe-Signature with one time"


def test_published_examples() -> None:
    """GitHub's and Slack's documentation, and the specification of Standard Webhooks' libraries."""
    github = {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
    assert why("github", github, b"Hello, World!", "It's a Secret to Everybody") == ""
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    slack = {
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    assert why("slack", slack, body, "8f742231b10e8888abcd99yyyzzz85a5", now=1_531_420_618_000) == ""
    standard = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    came = Delivery(headers=standard, body=b'{"test": 2432232314}', now=1_614_265_330_000)
    for key in ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"):
        assert refusal(seal("standard"), (key,), came) == ""


@settings(max_examples=60, deadline=None)
@given(body=st.text(max_size=60), key=st.binary(min_size=1, max_size=64), spoilt=st.booleans(), old=st.booleans())
def test_standard_webhooks_own_library_agrees(body: str, key: bytes, spoilt: bool, old: bool) -> None:
    judge, now = standardwebhooks.Webhook(key), MachineClock().now()
    at = datetime.fromtimestamp(now // SECOND - 400 * old, tz=UTC)
    given = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": judge.sign("msg_1", at, body + "." * spoilt),
    }
    try:
        judge.verify(body, given, json_parse=False)
        accepts = True
    except standardwebhooks.WebhookVerificationError:
        accepts = False
    secret = base64.b64encode(key).decode().rstrip("=")
    found = refusal(Seal(scheme="standard"), (secret,), Delivery(headers=given, body=body.encode(), now=now))
    assert (found == "") is accepts is (not spoilt and not old)


@settings(max_examples=60, deadline=None)
@given(body=st.text(max_size=60), key=st.text(min_size=6, max_size=40), spoilt=st.booleans(), old=st.booleans())
def test_stripes_own_library_agrees(body: str, key: str, spoilt: bool, old: bool) -> None:
    now = MachineClock().now()
    time = now // SECOND - 400 * old
    text = hmac.new(key.encode(), f"{time}.{body}{'.' * spoilt}".encode(), hashlib.sha256).hexdigest()
    header = f"t={time},v1={text}"
    try:
        accepts = WebhookSignature.verify_header(body, header, key, tolerance=300)
    except SignatureVerificationError:
        accepts = False
    came = Delivery(headers={"stripe-signature": header}, body=body.encode(), now=now)
    assert (refusal(Seal(scheme="stripe"), (key,), came) == "") is accepts is (not spoilt and not old)


def test_a_secret_that_the_scheme_cannot_use_is_our_own_mistake() -> None:
    came = Delivery(headers=headers("standard", b""), body=b"", now=NOW)
    for secret in ("whsec_not base64!", "whsec_ü"):
        with pytest.raises(SettingsError, match="its secret is not base64") as caught:
            refusal(Seal(scheme="standard"), (secret,), came)
        assert secret not in str(caught.value)


def test_hex_may_be_written_in_either_case_and_a_prefix_must_be_there() -> None:
    body, mine = b"{}", Seal(scheme="hmac", header="X-Sum", prefix="sha256=")
    text = mac(KEY.encode(), body).hex()
    for value, expected in (
        (f"sha256={text}", ""), (f"sha256={text.upper()}", ""), (text, "its X-Sum does not begin with sha256="),
    ):  # fmt: skip
        assert refusal(mine, (KEY,), Delivery(headers={"x-sum": value}, body=body, now=NOW)) == expected


# --- the lines of connections.yaml ----------------------------------------------------------------------------------

SECRET = {"secret": "SHOP_HOOK"}


def test_a_line_says_how_its_deliveries_are_proved() -> None:
    assert set(DECLARED) == set(SCHEMES)
    line = {"scheme": "hmac", "secret": SECRET, "header": "X-Sum", "encoding": "base64", "prefix": "v="}
    KIND.connect("shop", line, Lent())
    assert seal_of(line) == Seal(scheme="hmac", header="X-Sum", encoding="base64", prefix="v=")
    assert seal_of({"scheme": "slack", "secret": SECRET, "window": "2 min"}).window == 2 * MINUTE


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"scheme": "hmac"}, "shop: scheme hmac needs header"),
        ({"scheme": "basic"}, "shop: scheme basic needs user"),
        ({"scheme": "github", "window": "1 min"}, "window means nothing to scheme github; it is for standard, stripe"),
        ({"scheme": "token", "header": "X Token"}, 'shop: header "X Token" cannot be the name of a header'),
        ({"scheme": "slack", "window": "1 business day"}, "shop: window must be from 1 s to 1 hour, like 5 min"),
        ({"scheme": "slack", "window": "soon"}, "shop: window must be"),
        ({"scheme": "slack", "window": "2 hours"}, "shop: window must be"),
        ({"scheme": "basic", "user": "a:b"}, "shop: user must not hold a colon"),
        ({"scheme": "standard", "secret": "plain-text"}, "shop: secret holds the value itself"),
        ({"scheme": "sha1"}, 'shop: scheme "sha1" must be one of standard, github'),
        ({"scheme": "github", "sekret": "x"}, 'has no "sekret"; did you mean "secret"?'),
    ],
)
def test_a_line_that_proves_nothing_is_refused(more: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        KIND.connect("shop", {"secret": SECRET, **more}, Lent())
    assert said in str(caught.value)
    assert "plain-text" not in str(caught.value)
