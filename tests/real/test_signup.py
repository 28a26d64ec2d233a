"""The signup on Tryton, Redmine, localstripe and mail: what the run's page says stands is what the servers have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from runner.people.operations import Order
from tests.flows.stage import project_of
from tests.real.bench import FAULTS
from tests.real.shop import STEPS, Shop, Told, shop_of
from tests.support.fault_proxy import Fault
from tests.support.localstripe import LocalStripe, running_localstripe
from tests.support.redmine import Redmine, running_redmine
from tests.support.smtp_service import SmtpScript, SmtpService, running_smtp
from tests.support.tryton import Tryton, running_tryton

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]
Servers = tuple[Tryton, Redmine, LocalStripe, SmtpService, SmtpService]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with (
        running_tryton(tmp_path_factory.mktemp("tryton")) as tryton,
        running_redmine(tmp_path_factory.mktemp("redmine")) as redmine,
        running_localstripe(tmp_path_factory.mktemp("stripe")) as stripe,
        running_smtp() as mail,
        running_smtp() as notices,
    ):
        yield tryton, redmine, stripe, mail, notices


@pytest.fixture
async def shop(servers: Servers, tmp_path: Path) -> AsyncIterator[Shop]:
    servers[3].tell(SmtpScript())
    async with shop_of(tmp_path / "p", *servers) as made:
        yield made


def hold(shop: Shop, told: Told) -> dict[str, str]:
    """What the servers have, which is what the page says."""
    there = shop.stands(told)
    assert {step: word for step, word in there.items() if not told.says(step, word)} == {}, (there, told.became)
    return dict(there)


def test_the_check_has_nothing_to_say(shop: Shop) -> None:
    assert project_of(shop.folder).problems() == ()
    assert project_of(shop.folder).check("signup")[0].problems == ()


async def test_it_succeeds_and_every_server_has_its_part_once(shop: Shop) -> None:
    shop.signup("Kato")
    told = await shop.run()
    assert told.status == "succeeded"
    assert hold(shop, told) == dict.fromkeys(STEPS, "there")
    (paid,) = shop.stripe.payments(told.ids["customer"])
    assert (paid.id, paid.amount) == (told.state.outputs["payment"], 12_000)
    assert shop.subjects() == ["Welcome, Kato"]
    again = await shop.run()
    assert again.run == told.run, "the same signup is the same run"
    assert shop.crm.count("party.create") == 1


UNDONE = {"contact": "answered", "task": "undone", "welcome": "answered", "paid": "undone"}
"""What is left of a step that was made good; nothing of the others."""


def let_fail(shop: Shop, step: str) -> None:
    """The step is refused: by the service itself where a form can bring it to that, else before it."""
    name = f"Fails{step.capitalize()}"
    if step == "task":
        shop.signup(name, project="nowhere")
    elif step == "paid":
        shop.signup(name, number="4000000000000341")
    else:
        shop.signup(name)
    if step == "welcome":
        shop.mail.tell(SmtpScript(replies={shop.inputs["email"]: "550 5.1.1 there is nobody of that name"}))
    at, match = {
        "contact": (shop.crm, "party.create"), "customer": (shop.pay, "POST /v1/customers"), "card": (shop.pay, "/attach"),
        "noted": (shop.tasks, "Paid, "),
    }.get(step, (shop.crm, "nothing"))  # fmt: skip
    at.plan(match, "denied")


@pytest.mark.parametrize("step", STEPS)
async def test_each_step_refused_in_turn_leaves_what_the_page_says(shop: Shop, step: str) -> None:
    let_fail(shop, step)
    told = await shop.run()
    before = STEPS[: STEPS.index(step)]
    assert told.status == ("compensated" if before else "failed"), told
    assert hold(shop, told) == {each: UNDONE.get(each, "absent") if each in before else "absent" for each in STEPS}
    assert told.unknown == []
    assert told.asked == []


WRITES = {
    "crm": ("party.create",),
    "tasks": ("POST /issues.json",),
    "pay": ("POST /v1/customers", "/attach", "POST /v1/payment_intents"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_each_service_fails_once_in_one_way_and_all_is_there_once(shop: Shop, fault: Fault) -> None:
    """The same error stands for done and for not done. Where a service can be asked or knows a key, nobody is needed."""
    shop.signup(f"Once{fault.capitalize()}")
    for name, matches in WRITES.items():
        for match in matches:
            getattr(shop, name).plan(match, fault)
    told = await shop.run()
    met = [did for proxy in (shop.crm, shop.tasks, shop.pay) for _, did in proxy.seen if did]
    assert met == [fault] * 5
    assert told.status == "succeeded", told
    assert hold(shop, told) == dict.fromkeys(STEPS, "there")


@pytest.mark.parametrize(("step", "happened"), [("noted", True), ("noted", False), ("welcome", True)])
async def test_what_nobody_can_be_asked_about_goes_to_a_person_who_is_told_the_truth(
    shop: Shop, step: str, happened: bool
) -> None:
    """A note and a mail have no key and no look-up: nothing more is sent until a person has looked."""
    shop.signup(f"Doubt{step.capitalize()}{happened}")
    if step == "welcome":
        shop.mail.tell(SmtpScript(after_dot=["drop"]))
    else:
        shop.tasks.plan("Paid, ", "lost" if happened else "refused")
    told = await shop.run()
    assert told.status == "needs_person"
    assert len(told.unknown) == len(told.asked) == 1
    sent = len(shop.subjects()) if step == "welcome" else shop.tasks.count("Paid, ")
    assert sent == 1
    assert (shop.stands(told)[step] == "there") is happened, "so it is, and nothing that the run says excludes it"
    answer = Order(action="happened" if happened else "did_not", by="person:tom", step=step)
    told = await shop.order(told.run, answer)
    assert told.status == "succeeded", told
    assert hold(shop, told) == dict.fromkeys(STEPS, "there")
    assert shop.tasks.count("Paid, ") == (1 if happened else 2)
