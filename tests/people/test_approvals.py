"""Approvals on the real engine with real receivers: one content, one deadline, people who are entitled, one use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest

from runner.app import Amends
from runner.clock import DAY, HOUR, MachineClock
from runner.contract import Action, Json
from runner.core import events as e
from runner.core.state import Gate
from runner.engine.past import read_state
from runner.errors import AlreadySo, NotPossible
from runner.people.approvals import Decision, decide
from runner.people.desk import is_weighty
from runner.reading import database_url
from runner.store.facts import RunView
from runner.store.lock import EngineLock
from runner.store.sql import open_store
from tests.cases.ground import Engine, Ground, connector, flow, intents, opened
from tests.support.says import Say

PEOPLE = """\
people:
  aya: { name: Aya, mail: aya@acme.test, manager: tom }
  lin: { name: Lin, mail: lin@acme.test }
  tom: { name: Tom, mail: tom@acme.test }
  kim: { name: Kim, mail: kim@acme.test }
teams:
  leads: { members: [aya, lin] }
"""
AWAY = "away: [{ who: lin, from: 2020-01-01, to: 2099-01-01, instead: kim }]\n"
PEOPLE += AWAY
T = TypeVar("T", bound=e.Event)
AYA, LIN, TOM, KIM = "person:aya", "person:lin", "person:tom", "person:kim"
FIRST = """  - id: first
    do: shop.reserve
    with: { note: "${{ inputs.name }}" }
    compensate: { cancel: shop.release, with: { note: x, of: "${{ output.id }}" } }
"""
PAUSE = "  - { id: pause, wait: 2500 ms }\n"
SEND = """  - id: send
    do: shop.charge
    with: { note: "${{ inputs.name }}", amount: 5 }
    compensate: { cancel: shop.refund, with: { note: x, of: "${{ output.id }}" } }
"""
LETTER = """  - id: send
    do: mail.send
    with: { to: "a@customer.test", subject: Hello, text: "Dear ${{ inputs.name }}" }
    compensate: { none: A letter stays sent. }
"""


def gate(more: str = "", by: str = "team:leads") -> str:
    return f"  - id: go\n    approve: Send it to ${{{{ inputs.name }}}}?\n    covers: [send]\n    by: {by}\n{more}"


class Later(MachineClock):
    """The machine's clock, some time on."""

    ahead = 0

    def now(self) -> int:
        return super().now() + self.ahead


@asynccontextmanager
async def asking(
    folder: Path, steps: str = FIRST + gate() + SEND, *, starter: str = TOM
) -> AsyncIterator[tuple[Ground, Engine, str, Later]]:
    """A run that has come to its approval."""
    async with opened(folder, flow("it", steps), text=connector(auth="auth: { bearer: token }\n")) as ground:
        ground.connect("token: { secret: ONE }")
        (ground.folder / "people.yaml").write_text(PEOPLE, encoding="utf-8")
        (ground.folder / ".env").write_text("ONE=a-long-secret\nTWO=another-secret\n", encoding="utf-8")
        clock = Later()
        async with ground.engine(clock) as engine:
            run = await engine.start("it", "k1", starter, name="Kato")
            await engine.rest(run, 0)
            yield ground, engine, run, clock


def gate_at(engine: Engine, run: str, name: str = "go") -> Gate:
    return engine.state(run).gates[name]


def said(asked: Gate, answer: Literal["yes", "no"] = "yes", by: str = AYA, name: str = "go", **words: Any) -> Decision:
    fields = {"round": asked.round, "hash": asked.hash, **words}
    return Decision(approval=name, answer=answer, by=by, proof="token", **fields)


async def says(
    engine: Engine, run: str, answer: Literal["yes", "no"] = "yes", by: str = AYA, name: str = "go", **words: Any
) -> RunView:
    """Decides about what is asked now, and follows the run until it rests."""
    await engine.driver.decide(run, said(gate_at(engine, run, name), answer, by, name, **words))
    return await engine.rest(run)


def kinds(engine: Engine, run: str, wanted: type[T]) -> list[T]:
    return [event for event in engine.events(run) if isinstance(event, wanted)]


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")


# --- what voids a yes (D3) -----------------------------------------------------------------------------------------


def in_people(before: str, after: str) -> Callable[[Ground], None]:
    return lambda ground: edit(ground.folder / "people.yaml", before, after)


def in_flow(before: str, after: str) -> Callable[[Ground], None]:
    return lambda ground: edit(ground.folder / "flows" / "it.yaml", before, after)


def in_connections(before: str, after: str) -> Callable[[Ground], None]:
    return lambda ground: edit(ground.folder / "connections.yaml", before, after)


def in_connector(before: str, after: str) -> Callable[[Ground], None]:
    return lambda ground: edit(ground.folder / "connectors" / "shop.yaml", before, after)


def leave(ground: Ground) -> None:
    """Aya is nobody here any more."""
    in_people("  aya: { name: Aya, mail: aya@acme.test, manager: tom }\n", "")(ground)
    in_people("[aya, lin]", "[lin]")(ground)


CHANGED = "what would be sent, or where it goes, has changed since"
GONE = "person:aya may not approve this any more"
VOIDS: dict[str, tuple[str, Callable[[Ground], None], str, str]] = {
    "the input": (SEND, in_flow('note: "${{ inputs.name }}", amount', "note: other, amount"), CHANGED, AYA),
    "the flow's text": (SEND, in_flow("title: A flow of the cases", "title: Another title"), CHANGED, AYA),
    "the recipient": (LETTER, in_flow("a@customer.test", "b@customer.test"), CHANGED, AYA),
    "the amount": (SEND, in_flow("amount: 5", "amount: 5000"), CHANGED, AYA),
    "the connector": (SEND, in_connector("note: any, of:", "note: any, extra: text or empty, of:"), CHANGED, AYA),
    "the destination": (SEND, in_connections("//127.0.0.1", "//localhost"), CHANGED, AYA),
    "the secret's name": (SEND, in_connections("secret: ONE", "secret: TWO"), CHANGED, AYA),
    "the sender": (LETTER, in_connections("ops@acme.example", "boss@acme.example"), CHANGED, AYA),
    "a person has left the team": (SEND, in_people("[aya, lin]", "[lin]"), GONE, AYA),
    "a person has gone": (SEND, leave, GONE, AYA),
    "the one who was away is back": (SEND, in_people(AWAY, ""), "person:kim may not approve this any more", KIM),
}  # fmt: skip
MOVED = ("the input", "the flow's text", "the recipient", "the amount", "the connector")
"""What a run is bound to: it sees these only when a person moves it to them."""


@pytest.mark.parametrize("what", VOIDS)
async def test_a_yes_is_void_when_this_has_changed(what: str, tmp_path: Path) -> None:
    """D3: nothing is sent, it is asked again in a second round, and that yes lets the new content through, once."""
    step, change, why, by = VOIDS[what]
    async with asking(tmp_path, FIRST + gate() + PAUSE + step) as (ground, engine, run, _):
        before = gate_at(engine, run)
        await engine.driver.decide(run, said(before, by=by))
        change(ground)
        if what in MOVED:
            await engine.act(run, "move", reference="latest")
        await engine.rest(run)
        lapsed = kinds(engine, run, e.ApprovalLapsed)
        assert [event.why for event in lapsed] == [why]
        assert (ground.made("/charge"), ground.post.mails) == ([], [])
        assert (gate_at(engine, run).round, gate_at(engine, run).status) == (2, "open")
        with pytest.raises(NotPossible, match="changed since you looked"):
            await engine.driver.decide(run, said(before, by=LIN))
        assert (await says(engine, run, by=LIN)).status == "succeeded"
        assert len(ground.made("/charge")) + len(ground.post.mails) == 1
        engine.holds(run)


async def test_a_yes_holds_where_nothing_has_changed_but_a_setting_of_pace(tmp_path: Path) -> None:
    async with asking(tmp_path, FIRST + gate() + PAUSE + SEND) as (ground, engine, run, _):
        await engine.driver.decide(run, said(gate_at(engine, run)))
        edit(ground.folder / "people.yaml", "name: Lin", "name: Lin Kato")
        assert (await engine.rest(run)).status == "succeeded"


# --- one decision (D4) -----------------------------------------------------------------------------------------------


async def test_of_two_hundred_answers_at_once_one_decides(tmp_path: Path) -> None:
    async with asking(tmp_path) as (ground, engine, run, _):
        asked = gate_at(engine, run)
        far = Amends(ground.project())
        async with far.driver() as other:  # another process would speak to the engine in the same way
            clicks = [
                (engine.driver if number % 2 else other).decide(
                    run, said(asked, "yes" if number % 4 < 2 else "no", (AYA, LIN)[number // 4 % 2])
                )
                for number in range(200)
            ]
            answers = await asyncio.gather(*clicks, return_exceptions=True)
        far.close()
        refused = [answer for answer in answers if isinstance(answer, Exception)]
        assert len(refused) == 199
        assert all(isinstance(answer, NotPossible | AlreadySo) for answer in refused), refused
        decided = kinds(engine, run, e.ApprovalDecided)
        assert len(decided) == 1
        view = await engine.rest(run)
        assert view.status == ("succeeded" if decided[0].answer == "yes" else "compensated")
        assert len(ground.made("/charge")) == (decided[0].answer == "yes")


async def test_the_last_millisecond_counts_and_the_deadline_does_not(tmp_path: Path) -> None:
    for late in (0, 1):
        async with asking(tmp_path / str(late), FIRST + gate("    within: 2 hours\n") + SEND) as (
            ground,
            engine,
            run,
            clock,
        ):
            asked, words = gate_at(engine, run), said(gate_at(engine, run))
            moment = partial(int, asked.due - 1 + late)
            deciding = decide(engine.store, engine.driver.outside, engine.driver.desk, run, words, moment)
            (answer,) = await asyncio.gather(deciding, return_exceptions=True)
            assert isinstance(answer, NotPossible) == bool(late), answer
            clock.ahead = 3 * HOUR
            engine.driver.engine.wake(run)
            view = await engine.rest(run)
            assert (view.status, len(ground.made("/charge"))) == (("compensated", 0) if late else ("succeeded", 1))
            with pytest.raises(NotPossible, match="said yes to this already|time to decide is over"):
                await engine.driver.decide(run, words)


async def test_yes_and_the_deadline_at_the_same_moment_have_one_winner(tmp_path: Path) -> None:
    for number in range(6):
        async with asking(tmp_path / str(number), gate("    within: 2 hours\n") + SEND) as (ground, engine, run, clock):
            words = said(gate_at(engine, run))
            clock.ahead = gate_at(engine, run).due - MachineClock().now() - 4 * number
            engine.driver.engine.wake(run)
            (answer,) = await asyncio.gather(engine.driver.decide(run, words), return_exceptions=True)
            clock.ahead += 5_000
            engine.driver.engine.wake(run)
            view = await engine.rest(run)
            won = not isinstance(answer, Exception)
            assert (view.status, len(ground.made("/charge"))) == (("succeeded", 1) if won else ("failed", 0))


async def test_a_decision_that_the_engine_did_not_live_to_read_is_read_by_the_next(tmp_path: Path) -> None:
    """The process dies between the decision and the intent: the next one sends, once."""
    async with opened(tmp_path, flow("it", FIRST + gate() + SEND)) as ground:
        (ground.folder / "people.yaml").write_text(PEOPLE, encoding="utf-8")
        async with ground.engine() as engine:
            run = await engine.start("it", "k1", TOM, name="Kato")
            await engine.rest(run, 0)
            asked, outside, desk = gate_at(engine, run), engine.driver.outside, engine.driver.desk
        lock = EngineLock(ground.folder)
        assert lock.acquire()
        url = database_url(ground.folder, ground.project().settings)
        store = open_store(ground.folder, clock=MachineClock(), writable=True, lock=lock, url=url)
        outside._store = store
        await decide(store, outside, desk, run, said(asked), MachineClock().now)
        assert read_state(store, run)[0].gates["go"].status == "yes"
        store.close()
        lock.release()
        assert ground.made("/charge") == []
        async with ground.engine() as engine:
            assert (await engine.rest(run)).status == "succeeded"
            assert (len(ground.made("/charge")), len(intents(engine.events(run), "send"))) == (1, 1)


async def test_what_was_read_to_decide_is_not_read_again_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(tmp_path, FIRST + gate() + SEND) as (_, engine, run, _):
        words, read, reads = said(gate_at(engine, run)), engine.store.log, []

        def counted(*asked: Any, **more: Any) -> Any:
            reads.append(asked)
            return read(*asked, **more)

        monkeypatch.setattr(engine.store, "log", counted)
        await engine.driver.record(run, words)
        await engine.driver.engine.rest(run)
        assert reads == [(run,)]
        assert engine.store.run(run).status == "succeeded"


async def test_an_open_approval_is_there_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path, flow("it", FIRST + gate("    within: 2 hours\n") + SEND)) as ground:
        (ground.folder / "people.yaml").write_text(PEOPLE, encoding="utf-8")
        async with ground.engine() as engine:
            runs = [await engine.start("it", f"k{number}", TOM, name="Kato") for number in (1, 2)]
            for run in runs:
                await engine.rest(run, 0)
            asked = gate_at(engine, runs[0])
        clock = Later()
        async with ground.engine(clock) as engine:
            await engine.driver.decide(runs[0], said(asked))
            assert (await engine.rest(runs[0])).status == "succeeded"
            clock.ahead = DAY
        async with ground.engine(clock) as engine:
            assert (await engine.rest(runs[1])).status == "compensated"
            assert (len(ground.made("/charge")), len(ground.made("/release"))) == (1, 1)


# --- who may (R6) ----------------------------------------------------------------------------------------------------


async def test_nobody_approves_their_own_run_and_nobody_else_does_for_others(tmp_path: Path) -> None:
    async with asking(tmp_path, starter=AYA) as (ground, engine, run, _):
        asked = gate_at(engine, run)
        assert asked.asked == (LIN, KIM)
        for by, why in (
            (AYA, "you have started this run"),
            (TOM, "it is asked of team:leads"),
            ("person:me", "asked of"),
        ):
            with pytest.raises(NotPossible, match=why):
                await engine.driver.decide(run, said(asked, by=by))
        assert ground.made("/charge") == []
        assert (await says(engine, run, by=LIN)).status == "succeeded"


async def test_two_yeses_are_two_people_and_one_no_is_enough(tmp_path: Path) -> None:
    two = FIRST + gate("    needs: 2\n", by="[team:leads, person:kim]") + SEND
    async with asking(tmp_path / "yes", two) as (ground, engine, run, _):
        await says(engine, run)
        with pytest.raises(AlreadySo):
            await engine.driver.decide(run, said(gate_at(engine, run)))
        assert ground.made("/charge") == []
        assert (await says(engine, run, by=LIN)).status == "succeeded"
    async with asking(tmp_path / "no", two) as (ground, engine, run, _):
        await says(engine, run)
        assert (await says(engine, run, "no", LIN)).status == "compensated"
        assert ground.made("/charge") == []


async def test_the_starters_chief_is_whom_people_yaml_names_then(tmp_path: Path) -> None:
    steps = FIRST + gate(by="manager_of:starter") + SEND
    async with asking(tmp_path / "one", steps, starter=AYA) as (ground, engine, run, _):
        assert gate_at(engine, run).asked == (TOM,)
        in_people("manager: tom", "manager: lin")(ground)
        with pytest.raises(NotPossible, match="it is asked of manager_of:starter"):
            await engine.driver.decide(run, said(gate_at(engine, run), by=TOM))
        assert (await says(engine, run, by=LIN)).status == "succeeded"
    async with asking(tmp_path / "none", steps, starter=LIN) as (ground, engine, run, _):
        view = await engine.rest(run)
        assert (view.status, view.summary) == (
            "compensated", "Nobody who must approve this can be asked (manager_of:starter)."
        )  # fmt: skip


# --- where it stands -------------------------------------------------------------------------------------------------


async def test_what_stops_the_run_withdraws_the_question(tmp_path: Path) -> None:
    for action, status in (("stop", "stopped"), ("stop_compensate", "compensated")):
        async with asking(tmp_path / action) as (ground, engine, run, _):
            words = said(gate_at(engine, run))
            assert (await engine.order(run, action)).status == status
            assert gate_at(engine, run).status == "withdrawn"
            with pytest.raises(NotPossible, match="this was withdrawn"):
                await engine.driver.decide(run, words)
            assert ground.made("/charge") == []


async def test_a_paused_run_can_be_decided_about_and_its_deadlines_go_on(tmp_path: Path) -> None:
    async with asking(tmp_path / "yes") as (ground, engine, run, _):
        await engine.act(run, "pause")
        await says(engine, run)
        assert ground.made("/charge") == []
        assert (await engine.order(run, "resume")).status == "succeeded"
    async with asking(tmp_path / "late", FIRST + gate("    within: 2 hours\n") + SEND) as (ground, engine, run, clock):
        await engine.act(run, "pause")
        clock.ahead = 3 * HOUR
        with pytest.raises(NotPossible, match="the time to decide is over"):
            await engine.driver.decide(run, said(gate_at(engine, run)))
        assert (await engine.order(run, "resume")).status == "compensated"
        assert ground.made("/charge") == []


async def test_a_yes_that_was_not_used_in_time_is_asked_again(tmp_path: Path) -> None:
    async with asking(tmp_path) as (ground, engine, run, clock):
        await engine.act(run, "pause")
        await says(engine, run)
        clock.ahead = 25 * HOUR
        await engine.order(run, "resume")
        assert (gate_at(engine, run).round, ground.made("/charge")) == (2, [])
        assert (await says(engine, run, by=LIN)).status == "succeeded"


async def test_an_approval_in_a_called_flow_is_one_of_the_run(tmp_path: Path) -> None:
    inner = flow("inner", gate() + SEND)
    outer = flow("outer", FIRST + '  - { id: sub, call: inner, with: { name: "${{ inputs.name }}" } }\n')
    async with opened(tmp_path, inner, outer) as ground:
        (ground.folder / "people.yaml").write_text(PEOPLE, encoding="utf-8")
        async with ground.engine() as engine:
            run = await engine.start("outer", "k1", TOM, name="Kato")
            await engine.rest(run, 0)
            assert (await says(engine, run, name="sub/go")).status == "succeeded"
            again = await engine.start("outer", "k2", TOM, name="Kato")
            await engine.rest(again, 0)
            assert (await says(engine, again, "no", name="sub/go")).status == "compensated"
            assert (len(ground.made("/charge")), len(ground.made("/release"))) == (1, 1)


EACH = """  - id: rows
    each: [{ n: a }, { n: b }]
    named: ${{ item.n }}
    at_once: 2
    if_one_fails: continue
    steps:
"""


async def test_an_approval_in_an_item_decides_about_that_item_alone(tmp_path: Path) -> None:
    inside = "".join(f"    {line}\n" for line in (gate() + SEND).splitlines())
    async with asking(tmp_path, EACH + inside) as (ground, engine, run, _):
        await says(engine, run, "no", name="rows/1/go")
        await says(engine, run, by=LIN, name="rows/2/go")
        assert engine.state(run).lists["rows"].aside.keys() == {1}
        assert len(ground.made("/charge")) == 1


async def test_what_a_list_does_is_asked_once_and_items_may_be_left_out(tmp_path: Path) -> None:
    rows = EACH.replace("[{ n: a }, { n: b }]", "${{ steps.all.items }}") + "".join(
        f"    {line}\n" for line in SEND.splitlines()
    )
    ask = gate("    may_leave_out: steps.all.items\n")
    read = "  - { id: all, read: shop.list }\n"
    listing = connector(more="  list:\n    reads: true\n    request: { get: /list }\n    output: { items: list }\n")
    async with opened(tmp_path, flow("it", read + ask + rows), text=listing) as ground:
        (ground.folder / "people.yaml").write_text(PEOPLE, encoding="utf-8")
        ground.shop.script("GET /list", Say(json={"items": [{"n": "a"}, {"n": "b"}]}))
        async with ground.engine() as engine:
            run = await engine.start("it", "k1", TOM, name="Kato")
            await engine.rest(run, 0)
            assert tuple(gate_at(engine, run).covers) == ("rows/1/send", "rows/2/send")
            with pytest.raises(NotPossible):
                await says(engine, run, left_out=("rows/7/send",))
            assert (await says(engine, run, left_out=("rows/1/send",))).status == "succeeded"
            assert len(ground.made("/charge")) == 1


async def test_only_what_may_be_edited_is(tmp_path: Path) -> None:
    steps = gate("    may_edit: [send.text]\n") + LETTER
    async with asking(tmp_path, steps) as (ground, engine, run, _):
        with pytest.raises(NotPossible, match="may not be edited"):
            await says(engine, run, edits={"send": {"to": "c@customer.test"}})
        assert (gate_at(engine, run).status, ground.post.mails) == ("open", [])


async def test_a_draft_asks_the_starter_alone_and_sends_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, flow("it", FIRST + gate() + SEND).replace("mode: live", "mode: draft")) as ground:
        (ground.folder / "people.yaml").write_text(PEOPLE, encoding="utf-8")
        async with ground.engine() as engine:
            run = await engine.start("it", "k1", TOM, name="Kato")
            await engine.rest(run, 0)
            assert gate_at(engine, run).asked == (TOM,)
            assert (await says(engine, run, by=TOM)).status == "drafted"
            assert ground.effects() == []


@pytest.mark.parametrize(
    ("action", "given", "is_so"),
    [
        ("update_contact", {"id": "7", "name": "Ben"}, False),
        ("send", {"to": "ben@client.test", "text": "delete the role of admin"}, False),
        ("pay", {"amount": {"value": 12000, "currency": "JPY"}}, True),
        ("pay", {"lines": [{"sum": {"value": 12000, "currency": "JPY"}}]}, True),
        ("delete_contact", {"id": "7"}, True),
        ("removeMember", {"id": "7"}, True),
        ("request", {"method": "DELETE", "url": "https://crm.test/7"}, True),
        ("update_user", {"id": "7", "roles": ["editor"]}, True),
        ("update_user", {"user": {"accessLevel": 3}}, True),
        ("grant", {"to": "ben"}, True),
    ],
)
def test_money_permissions_and_deletion_weigh_more(action: str, given: dict[str, Json], is_so: bool) -> None:
    assert is_weighty(Action(name=action), given) is is_so


def test_an_action_that_takes_money_weighs_more() -> None:
    assert is_weighty(Action(name="pay", input={"sum": {"money": "JPY"}}), {"sum": None})
