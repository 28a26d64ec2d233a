"""The four stories of the demo as data, and the count of what truly happened at the servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from runner.contract import Json
from runner.demo.faults import Fault
from runner.demo.mails import MailFault
from runner.demo.servers import Servers

FLOW = "signup_to_paid"


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """One run of the demo's flow.

    `faults` are armed just before the run starts. `end` is the status it must reach (`needs_person` rests, it is no
    end). `before` says in a sentence what is broken, `after` what is to be seen. `effects` counts the changes that
    this story alone makes at the back office, `mails` the subjects of the mails that are accepted.
    """

    name: str
    title: str
    inputs: Mapping[str, Json]
    faults: tuple[Fault | MailFault, ...] = ()
    end: str
    before: str
    after: tuple[str, ...]
    effects: Mapping[str, int]
    mails: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """What truly happened at the servers, over all stories. `duplicates` has one sentence for each double effect."""

    effects: Mapping[str, int]
    mails: int
    message_ids: int
    unanswered_mails: int
    requests: int
    duplicates: tuple[str, ...]


def _signup(name: str, email: str, plan: str, amount: int) -> Mapping[str, Json]:
    return {"name": name, "email": email, "plan": plan, "amount": amount}


STORIES: tuple[Story, ...] = (
    Story(
        name="succeeds",
        title="It simply works",
        inputs=_signup("Aya Sato", "aya@customer.test", "pro", 12000),
        end="succeeded",
        before="Nothing is broken.",
        after=("A contact, a follow-up, a welcome mail and a payment were made, each once.",),
        effects={"contact.created": 1, "task.created": 1, "payment.taken": 1},
        mails=("Welcome to the Pro plan",),
    ),
    Story(
        name="payment_refused",
        title="The payment is refused, so the run makes amends",
        inputs=_signup("Ben Okafor", "ben@customer.test", "basic", 4000),
        faults=(Fault(path="/payments", fault="refuse", say="The card was declined."),),
        end="compensated",
        before="Billing will decline the card.",
        after=(
            "Newest first: a correction mail followed the welcome, the follow-up was closed, the contact was marked.",
            "Nothing was paid and nothing stands.",
        ),
        effects={"contact.created": 1, "task.created": 1, "task.closed": 1, "contact.changed": 1},
        mails=("Welcome to the Basic plan", "A correction to our welcome"),
    ),
    Story(
        name="payment_answer_lost",
        title="The payment's answer is lost, so it is looked up",
        inputs=_signup("Chen Li", "chen@customer.test", "pro", 12000),
        faults=(Fault(path="/payments", fault="drop_after"),),
        end="succeeded",
        before="Billing will take the money and cut the line before it answers.",
        after=("The run asked billing by its own reference, found the payment and went on: paid once, not twice.",),
        effects={"contact.created": 1, "task.created": 1, "payment.taken": 1},
        mails=("Welcome to the Pro plan",),
    ),
    Story(
        name="mail_answer_lost",
        title="A mail's answer is lost, so a person is asked",
        inputs=_signup("Dana Weiss", "dana@customer.test", "basic", 4000),
        faults=(MailFault(fault="drop_after", to="dana@customer.test"),),
        end="needs_person",
        before="The mail server will cut the line after it has the message.",
        after=(
            "A mail cannot be asked for afterwards, so it is not sent again: the run rests and its owner is asked.",
        ),
        effects={"contact.created": 1, "task.created": 1},
        mails=("Welcome to the Basic plan",),
    ),
)


def count(servers: Servers, since: int = 0) -> Counts:
    """Counts the true effects from `since` (ms since the epoch) on. The back office must still be running."""
    ledger = servers.ledger()
    effects = [effect for effect in ledger["effects"] if effect["at"] >= since]
    mails = [mail for mail in servers.mails() if mail.at >= since]
    duplicates = [
        f'"{what}" happened {times} times for the reference {reference}'
        for (what, reference), times in Counter(
            (effect["what"], effect["reference"]) for effect in effects if effect["reference"]
        ).items()
        if times > 1
    ]
    per_message = Counter(mail.message_id for mail in mails)
    duplicates += [f"the mail {name} was accepted {times} times" for name, times in per_message.items() if times > 1]
    for (to, subject), times in Counter((mail.to, mail.subject) for mail in mails).items():
        if times > 1:
            duplicates.append(f'"{subject}" went to {", ".join(to)} {times} times')
    return Counts(
        effects=Counter(effect["what"] for effect in effects),
        mails=len(mails),
        message_ids=len(per_message),
        unanswered_mails=sum(not mail.answered for mail in mails),
        requests=ledger["requests"],
        duplicates=tuple(duplicates),
    )


WORDS: Mapping[str, tuple[str, str]] = {
    "contact.created": ("contact made", "contacts made"),
    "contact.changed": ("contact marked", "contacts marked"),
    "task.created": ("follow-up made", "follow-ups made"),
    "task.closed": ("follow-up closed", "follow-ups closed"),
    "payment.taken": ("payment taken", "payments taken"),
    "payment.refunded": ("payment given back", "payments given back"),
}


def prove(servers: Servers, since: int = 0) -> list[str]:
    """What truly happened at the servers, as lines to print; duplicates, if any, are named one by one."""
    counts = count(servers, since)
    parts = [f"{times} {WORDS[what][times != 1]}" for what, times in counts.effects.items() if what in WORDS]
    kept = f"{counts.mails} mail{'s' * (counts.mails != 1)} accepted, {counts.message_ids} different Message-ID"
    kept += "s" * (counts.message_ids != 1)
    lines = [
        f"Back office: {', '.join(parts) or 'nothing was changed'}.",
        f"Mail server: {kept}, {counts.unanswered_mails} left without an answer.",
    ]
    if counts.duplicates:
        return [*lines, *(f"DUPLICATE: {sentence}." for sentence in counts.duplicates)]
    return [*lines, "Duplicates: 0."]
