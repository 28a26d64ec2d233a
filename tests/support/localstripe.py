"""localstripe, a fake of Stripe that keeps its state, on a free port of 127.0.0.1; the real Stripe library judges it.

It ignores Idempotency-Key, knows only some failing cards, and refunds more than was paid: it shows what we send, not
what Stripe would refuse.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import stripe

from tests.support.ports import free_port
from tests.support.processes import until_it_listens

KEY = "sk_test_right-key"
LAUNCH = """
import logging, sys
from aiohttp import web
from localstripe.server import app
logging.basicConfig(level=logging.INFO)  # what became of each delivery
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None)  # its own command listens everywhere
"""


@dataclass(kw_only=True)
class LocalStripe:
    """A running server; `client` is Stripe's own library, pointed at it."""

    port: int
    log: Path

    @cached_property
    def client(self) -> Any:
        return stripe.StripeClient(KEY, base_addresses={"api": f"http://127.0.0.1:{self.port}"}, max_network_retries=0)

    def customers(self, email: str) -> list[Any]:
        return [one for one in self.client.v1.customers.list({"limit": 100}).data if one.email == email]

    def payments(self, customer: str) -> list[Any]:
        found = self.client.v1.payment_intents.list({"limit": 100}).data
        return [one for one in found if one.customer == customer]

    def refunds(self, payment: str) -> list[Any]:
        return [one for one in self.client.v1.refunds.list({"limit": 100}).data if one.payment_intent == payment]

    def card(self, customer: str = "", number: str = "4242424242424242") -> str:
        """A card, as it is given on a page of theirs, and saved with the customer if there is one; its id."""
        card = {"number": number, "exp_month": 12, "exp_year": 2040, "cvc": "123"}
        made = self.client.v1.payment_methods.create({"type": "card", "card": card})
        if customer:
            self.client.v1.payment_methods.attach(made.id, {"customer": customer})
        return str(made.id)

    def deliver_to(self, url: str, secret: str, *events: str) -> None:
        """From now on these events (none named: all) are posted there, signed, a second after each."""
        body = json.dumps({"url": url, "secret": secret, **({"events": events} if events else {})}).encode()
        to = f"http://127.0.0.1:{self.port}/_config/webhooks/ours"
        asked = urllib.request.Request(to, data=body, headers={"content-type": "application/json"})
        with urllib.request.urlopen(asked, timeout=5):
            pass


@contextlib.contextmanager
def running_localstripe(place: Path) -> Iterator[LocalStripe]:
    """Starts one that keeps its files in the folder."""
    if importlib.util.find_spec("localstripe") is None:
        pytest.skip("there is no localstripe: pip install localstripe")
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-c", LAUNCH, str(port)]
    with (place / "log").open("wb") as log:
        env = os.environ | {"TMPDIR": str(place)}
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        try:
            until_it_listens(port, server, place / "log")
            yield LocalStripe(port=port, log=place / "log")
        finally:
            server.terminate()
            server.wait(10)
