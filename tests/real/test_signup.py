"""The signup on Tryton, Redmine, localstripe and mail: what the servers have in the end is what the run's page says, and
what the drill said before it ran."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest

from runner.drill.rows import Row
from runner.drilling import drill_of
from runner.people.operations import Order
from tests.cli.terminal import PROGRAM, environment
from tests.flows.stage import project_of
from tests.real.bench import FAULTS, HAPPENS
from tests.real.shop import STEPS, Shop, Told, shop_of
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.localstripe import LocalStripe, running_localstripe
from tests.support.redmine import Redmine, running_redmine
from tests.support.smtp_service import SmtpScript, SmtpService, running_smtp
from tests.support.tryton import Tryton, running_tryton

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]
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


@pytest.fixture
def drilled(shop: Shop) -> Mapping[tuple[str, str], Row]:
    """The drill's rows by step and way, made once."""
    if not _DRILLED:
        _DRILLED.update({(row.step, row.way): row for row in drill_of(project_of(shop.folder), "signup").rows})
    return _DRILLED


_DRILLED: dict[tuple[str, str], Row] = {}
_FITS: Mapping[str, tuple[str, ...]] = {
    "": ("absent", "undone"), "stands": ("there",), "left": ("there",), "marked": ("answered",), "corrected": ("answered",),
    "in_doubt": ("absent", "undone", "there", "answered"),
}  # fmt: skip
"""What the servers may have, by the drill's word."""


def hold_drilled(row: Row, told: Told, there: Mapping[str, str]) -> None:
    """What came is what the drill said."""
    assert told.status == row.end
    said = {one.step: one.how for one in row.standing}
    if row.end != "succeeded":
        assert {step: word for step, word in there.items() if word not in _FITS[said.get(step, "")]} == {}, row


def hold(shop: Shop, told: Told) -> dict[str, str]:
    """What the servers have, which is what the page says."""
    there = shop.stands(told)
    assert {step: word for step, word in there.items() if not told.says(step, word)} == {}, (there, told.became)
    return dict(there)


def test_the_check_has_nothing_to_say(shop: Shop) -> None:
    assert project_of(shop.folder).problems() == ()
    said = [problem.code for problem in project_of(shop.folder).check("signup")[0].problems]
    assert said == ["FL210"], "its drill is made here, and not kept"


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
async def test_each_step_refused_in_turn_leaves_what_page_and_drill_say(
    shop: Shop, drilled: Mapping[tuple[str, str], Row], step: str
) -> None:
    let_fail(shop, step)
    told = await shop.run()
    before = STEPS[: STEPS.index(step)]
    assert told.status == ("compensated" if before else "failed"), told
    there = hold(shop, told)
    assert there == {each: UNDONE.get(each, "absent") if each in before else "absent" for each in STEPS}
    hold_drilled(drilled[step, "refused"], told, there)
    assert told.unknown == []
    assert told.asked == []


WRITES = {
    "crm": ("party.create",),
    "tasks": ("POST /issues.json",),
    "pay": ("POST /v1/customers", "/attach", "POST /v1/payment_intents"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_each_service_fails_once_in_one_way_and_all_is_there_once(
    shop: Shop, drilled: Mapping[tuple[str, str], Row], fault: Fault
) -> None:
    """The same error stands for done and for not done. Where a service can be asked or knows a key, nobody is needed."""
    shop.signup(f"Once{fault.capitalize()}")
    for name, matches in WRITES.items():
        for match in matches:
            getattr(shop, name).plan(match, fault)
    told = await shop.run()
    met = [did for proxy in (shop.crm, shop.tasks, shop.pay) for _, did in proxy.seen if did]
    assert met == [fault] * 5
    assert told.status == "succeeded", told
    there = hold(shop, told)
    assert there == dict.fromkeys(STEPS, "there")
    for step in ("contact", "task", "customer", "card", "paid"):
        hold_drilled(drilled[step, "lost_happened" if fault in HAPPENS else "lost_did_not"], told, there)


@pytest.mark.parametrize(("step", "happened"), [("noted", True), ("noted", False), ("welcome", True)])
async def test_what_nobody_can_be_asked_about_goes_to_a_person_who_is_told_the_truth(
    shop: Shop, drilled: Mapping[tuple[str, str], Row], step: str, happened: bool
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
    there = shop.stands(told)
    assert (there[step] == "there") is happened, "so it is, and nothing that the run says excludes it"
    hold_drilled(drilled[step, "lost_happened" if happened else "lost_did_not"], told, there)
    answer = Order(action="happened" if happened else "did_not", by="person:tom", step=step)
    told = await shop.order(told.run, answer)
    assert told.status == "succeeded", told
    assert hold(shop, told) == dict.fromkeys(STEPS, "there")
    assert shop.tasks.count("Paid, ") == (1 if happened else 2)


UNDOS = {
    "contact": ("crm", "ir.note.create"), "task": ("tasks", "status_id"), "customer": ("pay", "DELETE /v1/customers"),
    "card": ("pay", "/detach"), "welcome": ("", ""), "paid": ("pay", "POST /v1/refunds"),
}  # fmt: skip


@pytest.mark.parametrize("way", ["undo_refused", "undo_lost_happened"])
@pytest.mark.parametrize("step", UNDOS)
async def test_each_undo_that_goes_wrong_leaves_what_page_and_drill_say(
    shop: Shop, drilled: Mapping[tuple[str, str], Row], step: str, way: str
) -> None:
    """The last step is refused, and then an undo of one before it, or its answer is lost."""
    shop.signup(f"{step.capitalize()}{way[5:].capitalize()}")
    shop.tasks.plan("Paid, ", "denied")
    proxy, match = UNDOS[step]
    if step == "welcome":
        gone = SmtpScript(replies={shop.inputs["email"]: ["250 OK", "550 5.1.1 gone"]})
        shop.mail.tell(gone if way == "undo_refused" else SmtpScript(after_dot=["ok", "drop"]))
    else:
        getattr(shop, proxy).plan(match, "denied" if way == "undo_refused" else "lost")
    told = await shop.run()
    hold_drilled(drilled[step, way], told, hold(shop, told))
    doubted = [each for each, words in told.words.items() if words.startswith("in doubt")]
    asked = {each["step"]: each["kind"] for each in told.asked}
    if asked.get(step) == "compensation_unknown":
        assert doubted == [step], "nobody knows, and so it is said"
    else:
        assert doubted == []


async def test_a_no_leaves_what_page_and_drill_say(shop: Shop, drilled: Mapping[tuple[str, str], Row]) -> None:
    shop.signup("Refused")
    shop.says["go"] = "no"
    told = await shop.run()
    there = hold(shop, told)
    assert there == dict.fromkeys(STEPS, "absent") | {"contact": "answered", "task": "undone"}
    hold_drilled(drilled["go", "no"], told, there)


async def test_who_was_there_before_is_found_and_left_alone(shop: Shop, drilled: Mapping[tuple[str, str], Row]) -> None:
    shop.signup("Known")
    shop.tryton.party("Known since 1999", shop.inputs["email"])
    shop.tasks.plan("Paid, ", "denied")
    told = await shop.run()
    there = shop.stands(told)
    assert shop.crm.count("party.create") == 0
    assert "contact" not in told.became, "it is no effect of this run"
    assert there["contact"] == "there", "and has no note of ours"
    hold_drilled(drilled["contact", "found"], told, {**there, "contact": "absent"})


async def test_two_of_the_same_are_a_question_and_nothing_is_sent(
    shop: Shop, drilled: Mapping[tuple[str, str], Row]
) -> None:
    shop.signup("Twins")
    for name in ("First", "Second"):
        shop.tryton.party(name, shop.inputs["email"])
    told = await shop.run()
    assert told.status == drilled["contact", "several"].end == "needs_person"
    assert [each["kind"] for each in told.asked] == ["several"]
    assert len(shop.tryton.parties(shop.inputs["email"])) == 2
    assert shop.redmine.issues("Onboard Twins") == []


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize(
    ("step", "proxy", "match"), [("contact", "crm", "party.create"), ("customer", "pay", "POST /v1/customers")]
)
async def test_an_engine_that_dies_in_a_call_leaves_what_page_and_drill_say(
    shop: Shop, drilled: Mapping[tuple[str, str], Row], step: str, proxy: str, match: str, happened: bool
) -> None:
    """The process is killed while the answer is awaited; the next one takes the run up."""
    shop.signup(f"Killed{step.capitalize()}{happened}")
    way: FaultProxy = getattr(shop, proxy)
    way.plan(match, "late" if happened else "slow")
    words = [word for name, value in shop.inputs.items() for word in ("-i", f"{name}={value}")]
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "run", "signup", *words, cwd=shop.folder, env=environment(), stdout=DEVNULL, stderr=DEVNULL
    )
    there_now = shop.stripe.customers if proxy == "pay" else shop.tryton.parties
    await until(lambda: any(did for _, did in way.seen) and (not happened or bool(there_now(shop.inputs["email"]))))
    process.kill()
    await process.wait()
    told = await shop.run()
    there = shop.stands(told)
    hold_drilled(drilled[step, f"killed_{'happened' if happened else 'did_not'}"], told, there)
    if told.status == "succeeded":
        assert hold(shop, told) == dict.fromkeys(STEPS, "there")
    else:
        assert [each["kind"] for each in told.asked] == ["unknown"]
        assert there[step] == "absent", "it says that it does not know"
        told = await shop.order(told.run, Order(action="did_not", by="person:tom", step=step))
        assert hold(shop, told) == dict.fromkeys(STEPS, "there")


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(3_000):
        if holds():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come in time")
