"""stripe.yaml against localstripe, judged by Stripe's own library. localstripe has no finished invoices and forgets keys:
where a key matters, a front of ours EMULATES a service that keeps them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runner.app import Amends
from runner.store.facts import RunFilter
from tests.cli.terminal import Running
from tests.real.bench import FAULTS, HAPPENS, Bench, bench, honest, shipped_kind
from tests.real.proved import prove
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.localstripe import KEY, LocalStripe, running_localstripe
from tests.web.test_serving import opened

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]
SECRETS = {"STRIPE_KEY": KEY}
DECLINED = "4000000000000341"


@pytest.fixture(scope="module")
def stripe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStripe]:
    with running_localstripe(tmp_path_factory.mktemp("stripe")) as server:
        yield server


def line(stripe: LocalStripe, origin: str = "") -> dict[str, Any]:
    return {"origin": origin or f"http://127.0.0.1:{stripe.port}", "token": {"secret": "STRIPE_KEY"}}


@pytest.fixture
async def proxy(stripe: LocalStripe) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(stripe.port) as made:
        yield made


@pytest.fixture
async def one(stripe: LocalStripe, proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[Bench]:
    async with bench(shipped_kind("stripe"), tmp_path, line(stripe, proxy.origin), SECRETS) as made:
        yield made


def payment(stripe: LocalStripe, customer: str, amount: int, number: str = "4242424242424242") -> dict[str, Any]:
    card = stripe.card(customer, number)
    return {"customer": customer, "payment_method": card, "amount": amount, "currency": "jpy"}


async def test_what_it_can_do_is_done_as_stripes_library_sees_it(stripe: LocalStripe, one: Bench) -> None:
    given = {"email": "kato@customer.test", "name": "Kato & Co", "phone": "+81 3", "description": "From the form"}
    made = await one.done("create_customer", given, "am_customer")
    (there,) = stripe.customers("kato@customer.test")
    assert (there.id, there.name, there.phone) == (made.external_id, "Kato & Co", "+81 3")
    assert there.metadata.to_dict() == {"amends_reference": "am_customer"}
    read = await one.done("get_customer", {"id": made.external_id}, purpose="read")
    assert (read.output["email"], read.output["name"]) == ("kato@customer.test", "Kato & Co")
    found = await one.done("find_customers", {"email": "kato@customer.test"}, purpose="read")
    assert [row["id"] for row in found.output["customers"]] == [made.external_id]
    await one.done("update_customer", {"id": made.external_id, "name": "Kato Ltd"}, "am_update")
    (there,) = stripe.customers("kato@customer.test")
    assert (there.name, there.phone) == ("Kato Ltd", "+81 3")

    asked = payment(stripe, made.external_id, 12_000)
    paid = await one.done("take_payment", asked, "am_pay")
    (charged,) = stripe.payments(made.external_id)
    assert (charged.id, charged.amount, charged.currency, charged.status) == (
        paid.external_id,
        12_000,
        "jpy",
        "succeeded",
    )
    read = await one.done("get_payment", {"id": paid.external_id}, purpose="read")
    assert (read.output["amount"], read.output["customer"]) == (12_000, made.external_id)
    await one.done("refund", {"payment": paid.external_id, "amount": 2_000}, "am_part")
    assert [back.amount for back in stripe.refunds(paid.external_id)] == [2_000]
    second = await one.done("take_payment", payment(stripe, made.external_id, 500), "am_second")
    await one.undone("take_payment", asked, second)
    assert [back.amount for back in stripe.refunds(second.external_id)] == [500]
    saving = {"id": stripe.card(), "customer": made.external_id}
    saved = await one.done("attach_payment_method", saving, "am_card")
    assert stripe.client.v1.payment_methods.retrieve(saving["id"]).customer == made.external_id
    await one.undone("attach_payment_method", saving, saved)
    assert stripe.client.v1.payment_methods.retrieve(saving["id"]).customer is None
    await one.undone("create_customer", given, made)
    assert stripe.customers("kato@customer.test") == []
    assert (await one.done("get_customer", {"id": made.external_id}, purpose="read")).output["found"] is False
    assert set(one.connector.actions) - one.applied == {name for name in one.connector.actions if "invoice" in name}


async def test_what_it_refuses_is_said_in_its_words(stripe: LocalStripe, one: Bench, tmp_path: Path) -> None:
    customer = (await one.done("create_customer", {"email": "ito@customer.test"})).external_id
    declined = await one.call("take_payment", payment(stripe, customer, 700, DECLINED))
    assert (declined.result, declined.reason, declined.summary) == ("refused", "invalid", "Your card was declined.")
    assert [each.status for each in stripe.payments(customer)] in ([], ["requires_payment_method"])
    for action, given in (("refund", {"payment": "pi_none"}), ("delete_customer", {"id": "cus_none"})):
        found = await one.call(action, given)
        assert (found.result, found.reason) == ("refused", "not_found"), (action, found)
    nothing = await one.call("take_payment", {**payment(stripe, customer, 700), "amount": 0})
    assert (nothing.result, nothing.reason) == ("refused", "invalid")
    async with bench(shipped_kind("stripe"), tmp_path, line(stripe), {"STRIPE_KEY": "no-key-of-any-kind"}) as stranger:
        found = await stranger.call("create_customer", {"email": "nobody@customer.test"})
    assert (found.result, found.reason) == ("refused", "forbidden")
    assert stripe.customers("nobody@customer.test") == []


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_is_said_of_a_call_that_went_wrong_is_so(
    stripe: LocalStripe, one: Bench, proxy: FaultProxy, fault: Fault
) -> None:
    email, effects = f"{fault}@customer.test", int(fault in HAPPENS)
    await honest(proxy, one, "create_customer", {"email": email}, fault=fault, match="POST /v1/customers")
    assert len(stripe.customers(email)) == effects
    customer = (await one.done("create_customer", {"email": email})).external_id
    asked = payment(stripe, customer, 900)
    await honest(proxy, one, "take_payment", asked, fault=fault, match="POST /v1/payment_intents")
    assert len(stripe.payments(customer)) == effects
    await honest(proxy, one, "get_customer", {"id": customer}, fault=fault, match="GET /v1/customers")
    await honest(proxy, one, "delete_customer", {"id": customer}, fault=fault, match="DELETE /v1/customers")
    assert (customer in [each.id for each in stripe.customers(email)]) is not bool(effects)


async def test_the_key_is_the_same_each_time_and_localstripe_forgets_it(
    stripe: LocalStripe, one: Bench, proxy: FaultProxy
) -> None:
    """So a test that counts at localstripe shows what we sent, and not what Stripe's keys would have made of it."""
    for _ in range(2):
        await one.done("create_customer", {"email": "twice@customer.test"}, "am_twice")
    assert len(stripe.customers("twice@customer.test")) == 2
    assert [b"idempotency-key: am_twice" in request.lower() for request, _ in proxy.seen] == [True, True]
    assert len({request for request, _ in proxy.seen}) == 1, "the same request, byte for byte"


async def test_before_an_emulation_of_keys_a_repeat_is_one_effect(stripe: LocalStripe, tmp_path: Path) -> None:
    async with (
        FaultProxy(stripe.port, keeps_keys=True) as front,
        bench(shipped_kind("stripe"), tmp_path, line(stripe, front.origin), SECRETS) as one,
    ):
        front.plan("POST /v1/customers", "lost")
        lost = await one.call("create_customer", {"email": "keyed@customer.test"}, "am_keyed")
        assert lost.result == "unknown"
        again = await one.done("create_customer", {"email": "keyed@customer.test"}, "am_keyed")
        (there,) = stripe.customers("keyed@customer.test")
        assert there.id == again.external_id
        other = await one.call("create_customer", {"email": "other@customer.test"}, "am_keyed")
        assert (other.result, other.reason) == ("unknown", "unknown"), "what the first body did is not said by this"
        assert stripe.customers("other@customer.test") == []


def test_the_check_of_a_user_sees_that_localstripe_forgets_keys(stripe: LocalStripe, tmp_path: Path) -> None:
    told = prove(tmp_path, "stripe", line(stripe), SECRETS, only=("create_customer", "get_customer", "find_customers"))
    forgets = "create_customer: the same key again: it answered with another outside id: two effects"
    assert told.fails == [forgets]
    assert told.holds >= {
        "create_customer: is done",
        "create_customer: undone by delete_customer",
        "get_customer: is read",
    }
    assert told.left == []


PAID = """
flow: paid
title: A payment that arrived is kept
owner: person:me
mode: live
run_key: ${{ trigger.id }}
trigger:
  - webhook: stripe
    signed_by: stripe
    id: ${{ body.id }}
    only_if: ${{ body.type == "payment_intent.succeeded" }}
    fill: { payment: "${{ body.data.object.id }}", amount: "${{ body.data.object.amount }}" }
inputs: { payment: text, amount: integer }
steps:
  - id: kept
    do: records.create
    with: { collection: payments, payment: "${{ inputs.payment }}", amount: "${{ inputs.amount }}" }
    compensate: cancel
"""


def test_its_signed_webhooks_start_runs_and_others_do_not(stripe: LocalStripe, tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "paid.yaml").write_text(PAID)
    (tmp_path / "people.yaml").write_text("people:\n  me: { name: Me, mail: me@example.com }\n")
    (tmp_path / "connections.yaml").write_text(
        "stripe: { connector: webhook, scheme: stripe, secret: { secret: HOOK } }\n"
    )
    (tmp_path / ".env").write_text("HOOK=whsec_of-this-test-only\n")
    with Running("serve", "--port", "0", folder=tmp_path) as serving:
        address, _ = opened(serving)
        customer = stripe.client.v1.customers.create({"email": "hook@customer.test"}).id
        asked = {
            "customer": customer,
            "payment_method": stripe.card(customer),
            "amount": 4_200,
            "currency": "jpy",
            "confirm": True,
        }
        stripe.deliver_to(f"{address}/hooks/stripe", "whsec_somebody-elses", "payment_intent.succeeded")
        stripe.client.v1.payment_intents.create(asked)
        _until(lambda: 'webhook "payment_intent.succeeded" failed with response code 401' in stripe.log.read_text())
        stripe.deliver_to(f"{address}/hooks/stripe", "whsec_of-this-test-only")
        stripe.client.v1.customers.update(customer, {"name": "of no interest"})
        payment = stripe.client.v1.payment_intents.create(asked)
        _until(lambda: sorted(_column(tmp_path, "select status from arrivals")) == ["ignored", "started"])
        _until(lambda: _column(tmp_path, "select status from runs") == ["succeeded"])
        ended = serving.end()
    stripe.deliver_to("http://127.0.0.1:9/", "nobody", "nothing")
    assert ended.code == 0
    amends = Amends.open(tmp_path)
    told = [dict(amends.state(view.run)[1].inputs) for view in amends.store.runs(RunFilter())]
    amends.close()
    assert told == [{"payment": payment.id, "amount": 4_200}]


def _column(folder: Path, question: str) -> list[str]:
    with closing(sqlite3.connect(f"file:{folder}/.amends/amends.db?mode=ro", uri=True)) as reader:
        return [value for (value,) in reader.execute(question)]


def _until(holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come in time")
