"""Who may approve in a run, and where a connection leads, as the project's files say today."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from runner.contract import Action, Json, canonical
from runner.core import events as e
from runner.core.consents import UNDO
from runner.core.state import State
from runner.errors import SettingsError
from runner.language.bundle import Bundle
from runner.language.duty import calendar_of
from runner.language.people import ME, People, Person
from runner.language.project import Project
from runner.language.values import is_money
from runner.people.post import Channel
from runner.people.told import Staff, is_telling, messages_of, needs_people
from runner.store.messages import Message

MANAGER = "manager_of:starter"
WEIGHTY = frozenset(
    "access admin delete destroy erase grant permission privilege purge remove revoke role wipe".split()
)
"""Words of an action's name or of a field's that speak of permissions or deletion."""


class ProjectDesk:
    """Asks the project as it is at that moment."""

    def __init__(
        self, project: Callable[[], Project], channels: Callable[[Person], tuple[Channel, ...]] = lambda person: ()
    ) -> None:
        self._project = project
        self._channels = channels

    def entitled(self, bundle: Bundle, state: State, by: tuple[str, ...], now: int) -> tuple[str, ...]:
        """See `engine.driven.Desk`. Whoever stands in for somebody who is away may approve too."""
        if state.mode == "draft":
            return (state.starter,)
        people = self._project().people
        found = dict.fromkeys(person for name in by for person in _behind(people, state, name, now, bundle.zone))
        addresses = _typed_addresses(bundle, state)
        return tuple(
            f"person:{person.id}"
            for person in found
            if f"person:{person.id}" != state.starter and person.mail.casefold() not in addresses
        )

    def demands_sign_in(self, bundle: Bundle, state: State, approval: str) -> bool:
        """See `engine.driven.Desk`. Without a word of the flow: where there is a provider, for money, permissions and
        deletion."""
        step = None if approval.endswith(UNDO) else bundle.step(approval)
        if state.mode == "draft" and state.starter == ME:
            return False
        word = step.approval.proof if step is not None and step.approval is not None else ""
        if word or self._project().settings.sign_in is None:
            return word == "sign_in"
        covers = state.gates[approval].covers.values()
        return any(is_weighty(bundle.actions[each.action], each.input) for each in covers)

    def left_for(self, bundle: Bundle, state: State, name: str, now: int) -> int | None:
        """How many people may say yes to an open approval, where they are too few for it; None where they are not."""
        gate = state.gates.get(name)
        if gate is None or gate.status != "open" or now >= gate.due:
            return None
        count = len(self.entitled(bundle, state, gate.by, now))
        return count if count < gate.needs else None

    def leads_to(self, bundle: Bundle, connection: str) -> str:
        """See `engine.driven.Desk`."""
        line = self._project().connections.by_name.get(connection)
        if line is None:
            raise SettingsError(f'connections.yaml has no usable line "{connection}", and this run needs it')
        return canonical(line.settings).decode()

    def messages(self, bundle: Bundle, state: State, events: Sequence[e.Event]) -> tuple[Message, ...]:
        """See `engine.driven.Desk`."""
        if not any(needs_people(bundle, state, one) for one in filter(is_telling, events)):
            return ()
        return messages_of(
            self.staff(), bundle, state, events, lambda by: self.entitled(bundle, state, by, events[-1].at)
        )  # fmt: skip

    def staff(self) -> Staff:
        """The project's people as they are now."""
        project = self._project()
        calendar = calendar_of(project.people, project.settings.zone)
        return Staff(
            people=project.people, channels=self._channels, calendar=calendar, admin=project.settings.admin
        )  # fmt: skip


def _behind(people: People, state: State, name: str, now: int, zone: str) -> Iterator[Person]:
    if name == MANAGER:
        starter = people.people.get(state.starter.partition(":")[2])
        name = f"person:{starter.manager}" if starter is not None and starter.manager else ""
    today = datetime.fromtimestamp(now / 1000, tz=UTC).astimezone(ZoneInfo(zone)).date().isoformat()
    for person in people.resolve(name):
        yield person
        for away in people.away:
            if away.who == person.id and away.first <= today <= away.last:
                yield from people.resolve(f"person:{away.instead}")


def is_weighty(action: Action, given: Mapping[str, Json]) -> bool:
    """Whether it is about money, permissions or deletion, as far as names and values tell."""
    if _has_money(given) or any("money" in str(kind) for kind in action.input.values()):
        return True
    said = " ".join((action.name, *_names(given), str(given.get("method", ""))))
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", said)}
    return not WEIGHTY.isdisjoint(words | {word.removesuffix("s") for word in words})


def _names(value: Json) -> Iterator[str]:
    """The names of all fields, at any depth."""
    if isinstance(value, Mapping):
        yield from value
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _names(inner)


def _has_money(value: Json) -> bool:
    if is_money(value):
        return True
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(map(_has_money, inner))


def _typed_addresses(bundle: Bundle, state: State) -> frozenset[str]:
    """Addresses that were typed into a form that nobody signed in to: any of them may be the starter's."""
    if not state.trigger.get("form") or state.trigger.get("by"):
        return frozenset()
    kinds = bundle.flow.inputs.items()
    typed = (state.inputs.get(name) for name, kind in kinds if "email" in str(kind))
    return frozenset(str(address).casefold() for address in typed if address)
