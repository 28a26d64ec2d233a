"""What each setting of a line of connections.yaml is for, with an example: the manual that an editor shows.

A setting that stands nowhere here is described by its type alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.contract import Json
from runner.language.fields import WORDS, FieldType, shape_of

_SAID: Mapping[str, tuple[str, Json]] = {
    "connector": ("Which connector talks to the service.", "email"),
    "rate": ("How fast calls may be.", "100 per 10 s"),
    "at_once": ("How many calls may be open at once.", 4),
    "sandbox": ("What is done there is for trying things out.", True),
    "origin": ("Where the service is: scheme and host.", "https://api.example.com"),
    "allow_private": ("It may stand in your own network, at a private address.", True),
    "ca": ("The file of your own certificate authority, from the project folder.", "certificates/own-ca.pem"),
    "certificate": ("The file of our own certificate, where the service asks for one.", "certificates/amends.pem"),
    "certificate_password": ("The password of that certificate's key.", {"secret": "CERTIFICATE_PASSWORD"}),
    "token": ("The token that calls carry.", {"secret": "CRM_TOKEN"}),
    "key": ("The key that calls carry.", {"secret": "SHOP_KEY"}),
    "api_key": ("The key that calls carry.", {"secret": "AI_KEY"}),
    "secret": ("The secret that both sides know.", {"secret": "SHOP_HOOK"}),
    "old_secret": ("The secret of before, while both are in use.", {"secret": "SHOP_HOOK_OLD"}),
    "user": ("Who signs in.", "ops"),
    "email": ("Who signs in: the account's mail address.", "ops@example.test"),
    "password": ("The password.", {"secret": "MAIL_PASSWORD"}),
    "word": ("The word that both sides know.", {"secret": "SLACK_WORD"}),
    "authorization": ("The whole header Authorization.", {"secret": "TOOL_AUTHORIZATION"}),
    "client_id": ("The id of our app at the service (OAuth2).", "amends"),
    "client_secret": ("The secret of our app at the service (OAuth2).", {"secret": "CRM_CLIENT_SECRET"}),
    "token_url": ("Where its tokens come from (OAuth2).", "https://login.example.com/token"),
    "authorize_url": ("The page where a person agrees (OAuth2).", "https://login.example.com/authorize"),
    "scope": ("What is asked for there (OAuth2).", "contacts.read contacts.write"),
    "host": ("The server.", "smtp.example.test"),
    "port": ("Its port.", 587),
    "security": ("How the line is made safe.", "starttls"),
    "allow_insecure": ("It may go without, on this very machine alone.", True),
    "from": ("Who mails are from.", "Ops <ops@example.test>"),
    "reply_to": ("Where answers go.", "desk@example.test"),
    "folder": ("The folder that is used.", "inbox"),
    "trash": ("The folder for what is taken away.", "Trash"),
    "mark_seen": ("What was read is marked so.", True),
    "from_programs": ("Mails that programs wrote start runs too.", True),
    "file": ("The file, from the project folder.", "data/prices.xlsx"),
    "sheet": ("The sheet in it.", "Prices"),
    "head": ("The row with the column's names.", 1),
    "separator": ("The sign between two columns.", ";"),
    "encoding": ("How it is written.", "utf-8"),
    "key_field": ("The column that tells rows apart.", "order_no"),
    "reference_field": ("The field that carries our reference.", "amends_ref"),
    "database": ("Which database it is.", "postgresql"),
    "address": ("Its address, with what signs in.", {"secret": "STOCK_DATABASE"}),
    "statements": ("The statements by name: each becomes an action.", {"stock": {"read": "select …"}}),
    "keys": ("The table that remembers our keys.", "amends_keys"),
    "kind": ("Which way of speaking.", "openai"),
    "model": ("The model's name.", "name-of-the-model"),
    "limits": ("How much it may take.", {"answer": 1000, "call": 30000, "day": 500000}),
    "price": ("What a million tokens cost.", {"in": 1, "out": 4, "currency": "USD"}),
    "limit_field": ("How the service calls the bound of an answer.", "max_tokens"),
    "calendar": ("The calendar.", "https://cal.example.test/ops/team/"),
    "company": ("The company's number at the service.", 123456),
    "account": ("The account.", "AC0123"),
    "headers": ("Further headers.", {"X-Team": "ops"}),
    "auth": ("How calls prove who we are.", {"bearer": "token"}),
    "version": ("The version of the service's API.", "2024-10"),
    "name": ("The name.", "amends"),
    "scheme": ("How deliveries are signed.", "standard"),
    "window": ("How old a delivery may be.", "5 min"),
    "header": ("The header that carries the signature.", "X-Signature"),
    "prefix": ("What stands before the signature.", "sha256="),
    "send_to": ("Where deliveries are sent.", "https://hooks.example.test/orders"),
    "remembers": ("The file that remembers what came.", "data/seen.db"),
}
_LIKE: Mapping[str, Json] = {
    "secret": {"secret": "NAME"}, "integer": 1, "number": 1.5, "yes_no": True, "list": [], "record": {},
}  # fmt: skip


def described(name: str, written: Json) -> dict[str, Json]:
    """Title, description and example of a setting of this type; `{ secret: NAME }` stands in .env."""
    word = written.removesuffix(" or empty") if isinstance(written, str) else ""
    shape = FieldType(kind="secret") if word == "secret" else shape_of(written) or FieldType(kind="any")
    kind = "a secret, by name" if word == "secret" else WORDS.get(shape.kind, "any value")
    about, example = _SAID.get(name, ("", _LIKE.get(shape.kind, "text")))
    if shape.choices:
        kind = f"one of {', '.join(map(str, shape.choices))}"
        example = example if example in shape.choices else next(iter(shape.choices))
    more = f"It is {kind}{', and may be left out' if word != written or shape.optional else ''}."
    said = shape.help or about
    return {
        "title": shape.label or name.replace("_", " ").capitalize(),
        "description": f"{said} {more}" if said else more,
        "examples": [example],
        **({"enum": list(shape.choices)} if shape.choices else {}),
    }
