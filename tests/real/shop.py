"""A shop on real services: the signup's project, a proxy before each server, and what each server has in the end, asked by
clients that are not ours."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from runner.app import Amends
from runner.cli import timeline, watching
from runner.core.state import State
from runner.driver import Driver
from runner.engine.starting import Wish
from runner.people.approvals import Decision
from runner.people.operations import Order
from runner.store.facts import RunView
from tests.flows.stage import project_of
from tests.support.fault_proxy import FaultProxy
from tests.support.localstripe import KEY, LocalStripe
from tests.support.redmine import PROJECT, Redmine
from tests.support.smtp_service import SmtpService
from tests.support.tryton import DATABASE, PASSWORD, USER, Tryton

Truth = Literal["absent", "there", "undone", "answered"]
STEPS = ("contact", "task", "customer", "card", "welcome", "paid", "noted")
PATIENCE = 15_000
LIMIT = 100
CONNECTIONS = """
crm: {{ connector: tryton, origin: "{crm}", allow_private: true, database: {database}, user: {user}, password: {{ secret: CRM_PASSWORD }} }}
tasks: {{ connector: redmine, origin: "{tasks}", allow_private: true, key: {{ secret: TASKS_KEY }}, reference_field: {field} }}
pay: {{ connector: stripe, origin: "{pay}", allow_private: true, token: {{ secret: PAY_KEY }} }}
mail: {{ connector: email, host: 127.0.0.1, port: {port}, from: "Shop <hello@shop.test>", allow_private: true, security: none, allow_insecure: true }}
notices: {{ connector: email, host: 127.0.0.1, port: {notices}, from: "Shop <hello@shop.test>", allow_private: true, security: none, allow_insecure: true }}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What the run's page says: its status, what became of each effect by its step, and its outside ids."""

    run: str
    status: str
    became: Mapping[str, str]
    ids: Mapping[str, str]
    words: Mapping[str, str]
    unknown: Any
    asked: Sequence[Any]
    state: State

    def says(self, step: str, truth: Truth) -> bool:
        """Whether what it says of a step is so."""
        word = self.became.get(step, "")
        if self.words.get(step, "").startswith("in doubt"):
            return True
        if not word:
            return truth == "absent"
        if word == "undone":
            return truth in ("undone", "absent")
        return truth == ("answered" if word == "answered" else "there")


@dataclass(kw_only=True)
class Shop:
    """The servers with a proxy before each. `inputs` are those of one signup."""

    folder: Path
    tryton: Tryton
    redmine: Redmine
    stripe: LocalStripe
    mail: SmtpService
    crm: FaultProxy
    tasks: FaultProxy
    pay: FaultProxy
    inputs: dict[str, Any] = field(default_factory=dict)
    says: dict[str, Literal["yes", "no"]] = field(default_factory=dict)
    """What Aya answers to an approval, if not yes."""

    def signup(self, name: str, *, number: str = "4242424242424242", project: str = PROJECT) -> None:
        """The form that is sent in."""
        card = self.stripe.card(number=number)
        mail = f"{name.lower()}@customer.test"
        self.inputs = {"name": name, "email": mail, "project": project, "card": card, "amount": 12_000}

    async def run(self) -> Told:
        """Runs it until it rests; Aya answers every approval."""
        async with self._driven() as (amends, driver):
            started = await driver.start("signup", Wish(given=self.inputs, starter="tester"))
            return await self._rest(amends, driver, started.run)

    async def order(self, run: str, order: Order) -> Told:
        """Gives an order about a run, and follows it until it rests."""
        async with self._driven() as (amends, driver):
            await driver.act(run, order)
            return await self._rest(amends, driver, run)

    @asynccontextmanager
    async def _driven(self) -> AsyncIterator[tuple[Amends, Driver]]:
        amends = Amends(project_of(self.folder))
        try:
            async with asyncio.timeout(LIMIT), amends.driver() as driver:
                yield amends, driver
        finally:
            amends.close()

    async def _rest(self, amends: Amends, driver: Driver, run: str) -> Told:
        view: RunView = await driver.follow(run, lambda: None, PATIENCE)
        for _ in range(4):
            gates = [(name, gate) for name, gate in amends.state(run)[1].gates.items() if gate.status == "open"]
            if not gates:
                break
            for name, gate in gates:
                answer = self.says.get(name, "yes")
                said = Decision(approval=name, round=gate.round, hash=gate.hash, answer=answer, by="person:aya")
                await driver.decide(run, said)
            view = await driver.follow(run, lambda: None, PATIENCE)
        told = timeline.as_json(watching.story_of(amends, run, reveal=True))
        return Told(
            run=run,
            status=view.status,
            became={each["path"]: each["disposition"] for each in told["effects"]},
            ids={each["path"]: each["external_id"] for each in told["effects"]},
            words={each["path"]: each["became"] for each in told["effects"]},
            unknown=told["unknown"],
            asked=told["questions"],
            state=amends.state(run)[1],
        )

    def subjects(self) -> list[str]:
        """Of the mails that this customer was sent."""
        return [mail.subject for mail in self.mail.mails if mail.to[0] == self.inputs["email"]]

    def stands(self, told: Told) -> dict[str, Truth]:
        """What the servers have of this signup; nothing is there twice."""
        found = dict.fromkeys(STEPS, "absent")
        parties = self.tryton.parties(self.inputs["email"])
        issues = self.redmine.issues(f"Onboard {self.inputs['name']}")
        customers = self.stripe.customers(self.inputs["email"])
        mails = Counter(subject.split()[0] for subject in self.subjects())
        for each in (parties, issues, customers, [1] * mails["Welcome,"], [1] * mails["A"]):
            assert len(each) <= 1, each
        if parties:
            resource = ["resource", "=", f"party.party,{parties[0]['id']}"]
            notes = self.tryton.call("model.ir.note.search_read", [resource], 0, None, None, ["message"], {})
            assert len(notes) <= 1
            found["contact"] = "answered" if notes else "there"
        if issues:
            found["task"] = "undone" if issues[0]["status"]["name"] == "Closed" else "there"
            issue = self.redmine.call("GET", f"/issues/{issues[0]['id']}.json?include=journals")[1]["issue"]
            notes = [journal["notes"] for journal in issue["journals"] if journal["notes"]]
            assert len(notes) <= 1
            found["noted"] = "there" if notes else "absent"
        found["customer"] = "there" if customers else "absent"
        saved = self.stripe.client.v1.payment_methods.retrieve(self.inputs["card"]).customer
        found["card"] = "there" if saved else "absent"
        if mails["Welcome,"]:
            found["welcome"] = "answered" if mails["A"] else "there"
        found["paid"] = self._paid(told)
        return {step: _truth(word) for step, word in found.items()}

    def _paid(self, told: Told) -> str:
        """Of every payment with this amount that was made for this signup's customer, gone or not."""
        customer = told.ids.get("customer", "")
        paid = [each for each in self.stripe.payments(customer) if each.status == "succeeded"] if customer else []
        assert len(paid) <= 1, paid
        if not paid:
            return "absent"
        back = [refund.amount for refund in self.stripe.refunds(paid[0].id)]
        assert back in ([], [self.inputs["amount"]])
        return "undone" if back else "there"


def _truth(word: str) -> Truth:
    assert word in ("absent", "there", "undone", "answered")
    return word  # type: ignore[return-value]


@asynccontextmanager
async def shop_of(
    folder: Path, tryton: Tryton, redmine: Redmine, stripe: LocalStripe, mail: SmtpService, notices: SmtpService
) -> AsyncIterator[Shop]:
    """The project in a folder of its own, each server behind a proxy; the one before localstripe EMULATES keys."""
    shutil.copytree(Path(__file__).parent / "signup", folder, dirs_exist_ok=True)
    async with (
        FaultProxy(tryton.port) as crm,
        FaultProxy(redmine.port) as tasks,
        FaultProxy(stripe.port, keeps_keys=True) as pay,
    ):
        said = CONNECTIONS.format(
            crm=crm.origin, tasks=tasks.origin, pay=pay.origin, database=DATABASE, user=USER, port=mail.port, notices=notices.port,
            field=redmine.reference_field,
        )  # fmt: skip
        (folder / "connections.yaml").write_text(said)
        (folder / ".env").write_text(f"CRM_PASSWORD={PASSWORD}\nTASKS_KEY={redmine.key}\nPAY_KEY={KEY}\n")
        yield Shop(
            folder=folder, tryton=tryton, redmine=redmine, stripe=stripe, mail=mail, crm=crm, tasks=tasks, pay=pay
        )
