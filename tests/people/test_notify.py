"""Who is told of what: mails through a real server, written with the fact and sent after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar, cast

import pytest

from runner.app import Amends, OwnDriver
from runner.clock import DAY, HOUR, MINUTE
from runner.contract import Json
from runner.core import events as e
from runner.core.state import State
from runner.engine.past import read_state
from runner.engine.starting import Wish
from runner.errors import AlreadySo
from runner.language.project import Project
from runner.people.desk import ProjectDesk
from runner.people.letters import Matter, letter_about
from runner.people.notify import Notifier
from runner.people.operations import Order
from runner.people.strays import Strays
from runner.store import notices, outbox
from runner.store.facts import RunFilter
from runner.store.lock import EngineLock
from runner.store.messages import Outgoing
from runner.telling.story import status_line, story_of
from runner.triggers.intake import Coming
from runner.triggers.schedule import Schedules
from runner.web.console import Console
from tests.people.office import PEOPLE, make_office
from tests.support.smtp_service import SmtpScript, SmtpService
from tests.web.ground import ADDRESS, PORT, Browser, words_of

TOP = "title: Letters go out\nowner: team:ops\nmode: live\nrun_key: ${{ trigger.id }}\n"
SEND = """\
  - id: send
    do: records.create
    with: { collection: letters, text: "${{ inputs.text }}" }
    compensate: cancel
"""
ASKING = f"""\
{TOP}inputs: {{ text: text }}
steps:
  - id: go
    approve: Send “${{{{ inputs.text }}}}”?
    covers: [send]
    by: team:leads
    within: 4 hours
    remind: 1 hour
    escalate_to: person:tom
{SEND}"""
HANDING = f"{TOP}steps:\n  - id: look\n    hand_off: team:ops\n    say: Is it right?\n"
FAILING = f"""\
{TOP}on_failure: {{ do: compensate, tell: team:leads, within: 30 min, escalate_to: person:bob }}
steps:
  - id: one
    do: records.create
    with: {{ collection: letters, text: one }}
    compensate: COMPENSATE
  - id: two
    do: records.update
    with: {{ collection: letters, id: nobody, text: two }}
    compensate: {{ none: Nothing is there. }}
    unattended: It is our own table.
"""
FLOWS = {
    "asking": ASKING, "both": ASKING.replace("    within:", "    needs: 2\n    within:"), "handing": HANDING, "failing": FAILING.replace("COMPENSATE", "cancel"),
    "stuck": FAILING.replace("COMPENSATE", "{ hand_off: team:ops, say: Take it away. }"),
    "unheard": FAILING.replace("COMPENSATE", "cancel").replace("tell: team:leads, within: 30 min, escalate_to: person:bob", "tell: nobody"),
}  # fmt: skip
E = TypeVar("E", bound=e.Event)
AT = 1_788_220_800_000  # a Tuesday, 09:00 in Tokyo


class Turned:
    """A clock that stands until it is turned; the engine's own pauses are real."""

    def __init__(self, at: int = AT) -> None:
        self.at = at

    def now(self) -> int:
        return self.at

    def monotonic(self) -> int:
        return self.at


class Office:
    """A project at work."""

    def __init__(self, driver: OwnDriver, clock: Turned, mail: SmtpService) -> None:
        self.driver, self.clock, self.mail = driver, clock, mail

    async def start(self, flow: str, mode: str = "", starter: str = "person:root", **inputs: Json) -> str:
        begun = await self.driver.start(
            flow, Wish(given=inputs, key=f"{flow} {mode} {starter}", starter=starter, mode=mode)
        )
        await self.rest(begun.run)
        return begun.run

    async def rest(self, run: str) -> None:
        await self.driver.engine.rest(run)
        await self.driver.notifier.send_due()
        await self.driver.engine.rest(run)

    async def turn(self, run: str, ms: int) -> None:
        """Time goes on, and what is due then happens."""
        self.clock.at += ms
        self.driver.engine.wake(run)
        await self.rest(run)
        await self.rest(run)

    def told(self) -> list[tuple[str, str]]:
        """(to whom, the subject) of every mail, in order of address; then they are forgotten."""
        found = sorted((mail.to[0].partition("@")[0], mail.subject) for mail in self.mail.mails)
        self.mail.mails.clear()
        return found

    def rows(self, run: str) -> list[Outgoing]:
        return list(self.driver.store.ask(outbox.of_run(run)))

    def said(self, run: str, kind: type[E]) -> list[E]:
        return [row.event for row in self.driver.store.log(run) if isinstance(row.event, kind)]


@asynccontextmanager
async def at_work(
    folder: Path, mail: SmtpService, clock: Turned | None = None, people: str = PEOPLE
) -> AsyncIterator[Office]:
    project = make_office(folder, mail.port, FLOWS, people)
    async with resumed(project, mail, clock or Turned()) as office:
        yield office


@asynccontextmanager
async def resumed(project: Project, mail: SmtpService, clock: Turned) -> AsyncIterator[Office]:
    lock = EngineLock(project.folder)
    assert lock.acquire()
    driver = OwnDriver(project, clock, lock)
    async with driver.running(settles=False):
        yield Office(driver, clock, mail)


async def test_whoever_is_asked_gets_a_link_in_their_language(tmp_path: Path) -> None:
    async with SmtpService() as mail, at_work(tmp_path / "it", mail) as office:
        run = await office.start("asking", text="Hello")
        assert [mail.to for mail in mail.mails] == [("aya@acme.test",), ("lin@acme.test",)]
        found = {one.person: one.locator for one in office.driver.store.ask(notices.of_run(run, "go", 1))}
        for each in mail.mails:
            locator = found[f"person:{each.to[0].partition('@')[0]}"]
            assert f"https://amends.test/review/{locator}\n" in each.body().replace("\r\n", "\n")
        sent = office.said(run, e.NoticeSent)
        assert [(one.to, one.about, one.round, one.kind, one.by) for one in sent] == [
            ("person:aya", "go", 1, "asked", "mail"), ("person:lin", "go", 1, "asked", "mail"),
        ]  # fmt: skip
        await office.turn(run, 0)
        assert len(mail.mails) == 2


async def test_an_end_that_nobody_hears_of_costs_no_look_at_the_people(tmp_path: Path) -> None:
    async with SmtpService() as mail, at_work(tmp_path / "it", mail) as office:
        driver, looks = office.driver, 0

        def project() -> Project:
            nonlocal looks
            looks += 1
            return driver._project

        desk = ProjectDesk(project, driver.post.channels)
        notifier = Notifier(
            driver.store, driver.post, desk, office.clock, project=project, bundle=driver.outside.bundle,
            wake=driver.engine.wake,
        )  # fmt: skip
        for flow, is_heard in (("unheard", False), ("failing", True)):
            run = await office.start(flow)
            state, _ = read_state(driver.store, run)
            bundle, (end,) = driver.outside.bundle(state.bundle), office.said(run, e.RunFinished)
            assert end.status == "compensated"
            looks = 0
            assert bool(desk.messages(bundle, state, (end,))) is is_heard
            assert (looks > 0) is is_heard
            notifier.observe(run, (end,), state)
            assert notifier._rings.is_set() is is_heard


async def test_a_reminder_goes_to_all_and_silence_brings_in_another(tmp_path: Path) -> None:
    async with SmtpService() as mail, at_work(tmp_path / "it", mail) as office:
        run = await office.start("asking", text="Hello")
        before = {one.person: one.locator for one in office.driver.store.ask(notices.of_run(run, "go", 1))}
        office.told()
        await office.turn(run, HOUR)
        assert [name for name, _ in office.told()] == ["aya", "lin"]
        await office.turn(run, HOUR)
        [(name, subject)] = office.told()
        assert (name, subject) == ("tom", "Please decide: Send “Hello”?")
        after = {one.person: one.locator for one in office.driver.store.ask(notices.of_run(run, "go", 1))}
        assert after == before | {"person:tom": after["person:tom"]}
        await office.turn(run, 2 * HOUR)
        assert office.driver.store.run(run).status == "failed"
        assert office.told() == []


async def test_what_is_decided_before_its_mail_left_is_not_sent(tmp_path: Path) -> None:
    async with SmtpService(SmtpScript(at_connect=["drop"] * 50)) as mail, at_work(tmp_path / "it", mail) as office:
        run = await office.start("asking", text="Hello")
        assert {row.status for row in office.rows(run)} == {"due"}
        [asked] = office.said(run, e.ApprovalRequested)
        decided = e.ApprovalDecided(
            at=AT + 1, step="go", approval="go", round=1, answer="yes", by="person:lin", hash=asked.hash
        )  # fmt: skip
        await office.driver.store.report(run, decided)
        mail.tell(SmtpScript())
        await office.turn(run, HOUR)
        assert office.told() == []
        assert {row.status for row in office.rows(run)} == {"dropped"}
        assert office.driver.store.run(run).status == "succeeded"


async def test_a_draft_asks_nobody_but_who_started_it(tmp_path: Path) -> None:
    async with SmtpService() as mail, at_work(tmp_path / "it", mail) as office:
        await office.start("asking", mode="draft", starter="person:tom", text="Hello")
        asked = await office.start("handing", mode="draft", starter="person:tom")
        assert office.told() == [
            ("tom", f"DRAFT Is it right? (run {asked})"), ("tom", "DRAFT Please decide: Send “Hello”?"),
        ]  # fmt: skip
        run = await office.start("asking", mode="draft", starter="person:me", text="Mine")
        await office.turn(run, 12 * HOUR)
        assert office.told() == []


async def test_silence_about_a_hand_off_goes_down_the_line_to_the_admin(tmp_path: Path) -> None:
    people = PEOPLE.replace("person:cfo]", "person:aya]")
    async with SmtpService() as mail, at_work(tmp_path / "it", mail, people=people) as office:
        run = await office.start("handing")
        assert "https://amends.test/handoff/" in mail.mails[0].body()
        assert office.told() == [("tom", f"Is it right? (run {run})")]
        await office.turn(run, 4 * HOUR - 1)
        assert office.told() == []
        for name in ("lin", "aya", "root"):
            await office.turn(run, 24 * HOUR)
            assert [who for who, _ in office.told()] == [name]
        await office.turn(run, 200 * HOUR)
        assert office.told() == []
        passed_on = office.said(run, e.Escalated)
        assert [(one.about, one.to) for one in passed_on] == [
            ("h1", "person:lin"), ("h1", "person:aya"), ("h1", "person:root"),
        ]  # fmt: skip


async def test_whoever_looks_at_it_stops_the_clock(tmp_path: Path) -> None:
    async with SmtpService() as mail, at_work(tmp_path / "it", mail) as office:
        run = await office.start("handing")
        await office.driver.act(run, Order(action="acknowledge", by="person:tom", handoff="h1"))
        office.told()
        await office.turn(run, 100 * HOUR)
        assert office.told() == []
        assert [row.status for row in office.rows(run) if row.kind == "escalate"] == ["dropped"]


async def test_what_failed_is_told_to_people_of_ours(tmp_path: Path) -> None:
    async with SmtpService() as mail, at_work(tmp_path / "it", mail) as office:
        run = await office.start("failing")
        assert office.driver.store.run(run).status == "compensated"
        assert office.told() == [
            ("aya", "実行が失敗しました：Letters go out"),
            ("lin", "執行失敗：Letters go out"),
        ]
        run = await office.start("stuck")
        bodies = "".join(one.body() for one in mail.mails).replace("\r\n", "\n")
        assert office.told() == [
            ("aya", f"ステップ oneを手作業で是正してください。（実行 {run}）"),
            ("lin", f"請以人工補救步驟 one。（執行 {run}）"),
            ("tom", f"Please make step one good by hand. (run {run})"),
        ]
        why = "step two had failed before:\n\n> letters has no record nobody"
        for words in ("> Take it away.", why, "Stands outside now: one ", "“Letters go out”"):
            assert words in bodies
        amends = Amends(office.driver._project)
        console = Console(amends, office.driver, public_url=ADDRESS, port=PORT)
        page = words_of(await (await Browser(console).sign_in("person:tom")).get(f"/handoffs/{run}/h1"))
        assert "Step two failed: letters has no record nobody. While that was made good: " in page
        amends.close()
        await office.turn(run, 30 * MINUTE)
        assert office.told() == [
            ("bob", "A run has failed: Letters go out"),
            ("bob", f"Please make step one good by hand. (run {run})"),
        ], "of each of the two"


async def test_the_end_of_a_run_that_nobody_has_seen_is_passed_on(tmp_path: Path) -> None:
    async with SmtpService() as mail, at_work(tmp_path / "it", mail) as office:
        silent = await office.start("failing")
        seen = await office.start("failing", starter="person:bob")
        office.told()
        amends = Amends(office.driver._project)
        console = Console(amends, office.driver, public_url=ADDRESS, port=PORT)
        aya = await Browser(console).sign_in("person:aya")
        page = f"/runs/{seen}"
        assert {f'href="/runs/{run}"' in (await aya.get("/")).text for run in (silent, seen)} == {True}
        assert f"{page}/seen" in (await aya.get(page)).text
        assert (await aya.press(page, f"{page}/seen")).headers["location"] == f"{page}?said=acknowledge"
        assert "佐藤 綾" in (await aya.get(page)).text
        assert f"{page}/seen" not in (await aya.get(page)).text
        assert f'href="{page}"' not in (await aya.get("/")).text
        assert (await aya.press(f"/runs/{silent}", f"{page}/seen")).status_code == 409, "it was said already"
        stranger = await Browser(console).sign_in("person:bob")
        assert (await stranger.get(page)).status_code == 403
        with pytest.raises(AlreadySo, match="person:aya has seen how run"):
            await office.driver.act(seen, Order(action="acknowledge", by="person:tom"))

        for run in (silent, seen):
            await office.turn(run, 15 * MINUTE)
        assert office.told() == [("bob", "A run has failed: Letters go out")]
        assert (await stranger.get(f"/runs/{silent}")).status_code == 200, "now it is asked of him"
        texts = [line.text for run in (silent, seen) for line in story_of(amends, run, "UTC").lines]
        assert "Nobody has said that they saw it: person:bob is told." in texts
        assert "person:aya has seen how it ended." in texts
        await office.turn(silent, 60 * MINUTE)
        assert office.told() == []
        assert not office.driver.store.verify()
        amends.close()


async def test_a_mail_server_that_is_down_for_an_hour_holds_nobody_up(tmp_path: Path) -> None:
    async with SmtpService() as mail, at_work(tmp_path / "it", mail) as office:
        mail.tell(SmtpScript(at_connect=["drop"] * 10_000))
        first = await office.start("handing")
        second = await office.start("failing")
        assert office.driver.store.run(second).status == "compensated"
        for _ in range(12):
            await office.turn(first, 5 * MINUTE)
        [tries] = [row.tries for row in office.rows(first) if row.kind == "handed_off"]
        assert (office.told(), tries in range(1, 10)) == ([], True)
        mail.tell(SmtpScript())
        await office.turn(first, 15 * MINUTE)
        await office.turn(second, MINUTE)
        assert [name for name, _ in office.told()] == ["aya", "bob", "lin", "tom"], (
            "half an hour of silence is over too"
        )


async def test_an_address_that_is_refused_is_told_to_the_admin_once(tmp_path: Path) -> None:
    script = SmtpScript(replies={"aya@acme.test": "550 5.1.1 nobody here"})
    async with SmtpService(script) as mail, at_work(tmp_path / "it", mail) as office:
        run = await office.start("asking", text="Hello")
        assert [mail.subject for mail in mail.mails if mail.to == ("root@acme.test",)] == ["佐藤 綾 could not be told"]
        assert "550 5.1.1 nobody here" in next(each.body() for each in mail.mails if each.to == ("root@acme.test",))
        status = {(row.person, row.kind): row.status for row in office.rows(run)}
        assert status == {
            ("person:aya", "asked"): "failed", ("person:lin", "asked"): "sent", ("person:root", "unreached"): "sent",
        }  # fmt: skip
        assert len(mail.refused) == 1


async def test_whoever_was_told_by_chat_is_no_trouble_for_the_admin(tmp_path: Path) -> None:
    """And the chat that cannot be reached is tried again beside a mail that went out."""
    people = PEOPLE.replace("members: [tom]", "members: [bob]")
    script = SmtpScript(replies={"bob@acme.test": "550 5.1.1 nobody here"})
    async with SmtpService(script) as mail, at_work(tmp_path / "it", mail, people=people) as office:
        run = await office.start("handing")
        rows = {(row.person, row.channel): row for row in office.rows(run) if row.kind != "escalate"}
        assert {place: row.status for place, row in rows.items()} == {
            ("person:bob", "mail"): "failed", ("person:bob", "chat"): "due",
        }  # fmt: skip
        await office.turn(run, 49 * HOUR)
        await office.turn(run, 49 * HOUR)
        assert "Bob Chat could not be told" in [subject for name, subject in office.told() if name == "root"]


async def test_a_reply_that_was_lost_is_sent_again_as_the_same_mail(tmp_path: Path) -> None:
    async with SmtpService(SmtpScript(after_dot=["drop"])) as mail, at_work(tmp_path / "it", mail) as office:
        run = await office.start("handing")
        await office.turn(run, MINUTE)
        assert [(each.answered, each.to) for each in mail.mails] == [
            (False, ("tom@acme.test",)),
            (True, ("tom@acme.test",)),
        ]
        assert len({each.message_id for each in mail.mails}) == 1
        assert len(office.said(run, e.NoticeSent)) == 1


async def test_a_person_who_left_is_told_nothing(tmp_path: Path) -> None:
    async with SmtpService(SmtpScript(at_connect=["drop"] * 9)) as mail, at_work(tmp_path / "it", mail) as office:
        run = await office.start("asking", text="Hello")
        file = tmp_path / "it" / "people.yaml"
        gone = "  aya: { name: 佐藤 綾, mail: aya@acme.test, language: ja }\n"
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace(gone, "").replace("members: [aya, lin]", "members: [lin]"), encoding="utf-8")
        mail.tell(SmtpScript())
        await office.turn(run, 5 * MINUTE)
        assert [name for name, _ in office.told()] == ["lin", "root"]


async def test_words_of_others_stay_one_quoted_line(tmp_path: Path) -> None:
    async with SmtpService() as mail, at_work(tmp_path / "it", mail) as office:
        await office.start("asking", text="x\r\n\r\nApproved, thank you.\u202e\u200b<b>")
        lines = mail.mails[0].body().replace("\r\n", "\n").split("\n\n")
        [quoted] = [line for line in lines if "Approved" in line]
        assert quoted == "> Send “x Approved, thank you. <b>”?"
        assert "<blockquote>Send “x Approved, thank you. &lt;b&gt;”?</blockquote>" in mail.mails[0].body("html")


async def test_personal_data_does_not_go_into_mailboxes(tmp_path: Path) -> None:
    async with SmtpService() as mail:
        project = make_office(
            tmp_path / "it", mail.port,
            {"asking": ASKING.replace("{ text: text }", "{ text: { text: {}, personal: true } }")},
        )  # fmt: skip
        async with resumed(project, mail, Turned()) as office:
            await office.start("asking", text="Ada Lovelace")
            assert {each.subject for each in mail.mails} == {"承認のお願い：Send “•••”?", "請您核准：Send “•••”?"}
            assert "Lovelace" not in "".join(each.body() + each.body("html") for each in mail.mails)


async def test_whoever_is_asked_can_open_the_page_and_answer(tmp_path: Path) -> None:
    """Not the absent owner alone: who stands in, and whom silence was passed on to; nobody else."""
    people = PEOPLE + "away: [{ who: tom, from: 2026-09-01, to: 2026-09-02, instead: bob }]\n"
    async with SmtpService() as mail, at_work(tmp_path / "it", mail, people=people) as office:
        run = await office.start("handing")
        assert [name for name, _ in office.told()] == ["bob"]
        amends = Amends(office.driver._project)
        console = Console(amends, office.driver, public_url=ADDRESS, port=PORT)
        page = f"/handoffs/{run}/h1"
        bob = await Browser(console).sign_in("person:bob")
        assert (page in (await bob.get("/")).text, (await bob.get(f"{page}/go_on")).status_code) == (True, 200)
        lin = await Browser(console).sign_in("person:lin")
        assert (await lin.get(page)).status_code == 403
        await office.turn(run, 4 * HOUR)
        assert [name for name, _ in office.told()] == ["lin"]
        assert (page in (await lin.get("/")).text, (await lin.get(f"{page}/go_on")).status_code) == (True, 200)
        aya = await Browser(console).sign_in("person:aya")
        assert (await aya.get(page)).status_code == 403
        assert (await lin.press(f"{page}/go_on", reason="I looked")).status_code == 303
        amends.close()


async def test_who_is_told_may_look_and_not_answer(tmp_path: Path) -> None:
    async with SmtpService() as mail, at_work(tmp_path / "it", mail) as office:
        run = await office.start("stuck")
        amends = Amends(office.driver._project)
        aya = await Browser(Console(amends, office.driver, public_url=ADDRESS, port=PORT)).sign_in("person:aya")
        page = f"/handoffs/{run}/h1"
        assert (await aya.get(page)).status_code == 200
        assert (await aya.get(f"{page}/done")).status_code == 403
        assert page not in (await aya.get("/")).text
        amends.close()


async def test_what_is_stuck_is_told_by_the_doctor(tmp_path: Path) -> None:
    script = SmtpScript(replies={"tom@acme.test": "550 5.1.1 nobody here"})
    async with SmtpService(script) as mail, at_work(tmp_path / "it", mail) as office:
        run = await office.start("handing")
        mail.tell(SmtpScript(at_connect=["drop"] * 9))
        other = await office.start("asking", text="Hello")
        stuck = office.driver.store.ask(outbox.late(AT - 1))
        assert [(one.run, one.person, one.status) for one in stuck] == [(run, "person:tom", "failed")]
        late = office.driver.store.ask(outbox.late(AT + 1))
        assert {one.run for one in late} == {run, other}


# --- too few who may approve -------------------------------------------------------------------------------------------


async def test_where_too_few_may_the_others_are_asked_at_once(tmp_path: Path) -> None:
    """Nothing could happen before half of the time is over."""
    async with SmtpService() as mail, at_work(tmp_path / "it", mail) as office:
        run = await office.start("both", starter="person:aya", text="A letter")
        [asked] = office.said(run, e.ApprovalRequested)
        assert (asked.asked, asked.by) == (("person:lin", "person:tom"), ("team:leads", "person:tom"))
        assert [name for name, _ in office.told()] == ["lin", "tom"]
        await office.turn(run, 2 * HOUR)
        assert office.said(run, e.Escalated) == []


async def test_where_too_few_are_left_it_is_said_at_once(tmp_path: Path) -> None:
    async with SmtpService() as mail, at_work(tmp_path / "it", mail) as office:
        run = await office.start("both", text="A letter")
        assert [name for name, _ in office.told()] == ["aya", "lin"]
        await office.driver.notifier.look_over()
        await office.rest(run)
        assert (office.told(), office.said(run, e.Escalated)) == ([], [])
        await changed(office, tmp_path, PEOPLE.replace("leads: { members: [aya, lin] }", "leads: { members: [aya] }"))
        [escalated] = office.said(run, e.Escalated)
        assert (escalated.about, escalated.to) == ("go", "person:tom")
        assert [name for name, _ in office.told()] == ["tom"], "and two may say yes again, so nothing else is said"
        nobody = PEOPLE.replace("leads: { members: [aya, lin] }", "leads: { members: [tom] }")
        for _ in range(2):
            await changed(office, tmp_path, nobody)
            nobody += "\n"
        assert office.told() == [
            ("root", "Too few people can approve: Send “A letter”?"),
            ("tom", "Too few people can approve: Send “A letter”?"),
        ]
        assert office.driver.store.run(run).status == "waiting"
        amends = Amends.open(tmp_path / "it")
        amends.clock = office.clock
        console = Console(amends, office.driver, public_url=ADDRESS, port=PORT)
        root = await Browser(console).sign_in("person:root")
        said = "It cannot be approved as things stand: 2 must say yes, and 1 may."
        assert said in words_of(await root.get(f"/runs/{run}"))
        told = {one.person: one.locator for one in office.driver.store.ask(notices.of_run(run, "go", 1))}
        tom = await Browser(console).sign_in("person:tom")
        assert said in words_of(await tom.get(f"/review/{told['person:tom']}"))
        (tmp_path / "it" / "people.yaml").write_text(PEOPLE, encoding="utf-8")
        assert said not in words_of(await root.get(f"/runs/{run}"))
        amends.close()


async def changed(office: Office, folder: Path, people: str) -> None:
    """people.yaml is another one, and whoever watches has seen it."""
    (folder / "it" / "people.yaml").write_text(people, encoding="utf-8")
    await asyncio.sleep(0)  # files are looked at once in each round of the event loop
    await office.driver.notifier.look_over()
    await office.driver.notifier.send_due()


BY_ITSELF = FAILING.replace("COMPENSATE", "cancel").replace("tell: team:leads, within: 30 min, ", "")


@pytest.mark.parametrize(
    ("told", "word", "expected"),
    [
        ({"webhook": "orders"}, "", [("tom", "A run has failed: Letters go out")]),
        ({"schedule": "every day"}, "tell: nobody, ", []),
        ({}, "", []),
    ],
)
async def test_the_owner_hears_of_a_failure_of_what_starts_by_itself(
    tmp_path: Path, told: dict[str, Json], word: str, expected: list[tuple[str, str]]
) -> None:
    text = BY_ITSELF.replace("escalate_to: person:bob", f"{word}if_one_fails: go_on")
    async with SmtpService() as mail:
        project = make_office(tmp_path / "it", mail.port, {"alone": text})
        async with resumed(project, mail, Turned()) as office:
            begun = await office.driver.start("alone", Wish(given={}, key="k", told=told))
            await office.rest(begun.run)
            assert office.told() == expected


async def test_the_owner_hears_once_an_hour_of_what_led_to_no_run(tmp_path: Path) -> None:
    async with SmtpService() as mail:
        trigger = '{ event: parcel, fill: { text: "${{ event.text }}" } }'
        text = f"{TOP}trigger: {trigger}\ninputs: {{ text: text }}\nsteps:\n{SEND}"
        project = make_office(tmp_path / "it", mail.port, {"hooked": text, "tried": text.replace("live", "draft")})
        async with resumed(project, mail, Turned()) as office:
            driver = office.driver
            await driver.triggers.active.look()
            strays = Strays(
                driver.notifier, driver.post, driver.desk, driver.store, office.clock, driver.triggers.active.all
            )  # fmt: skip

            async def come(*names: str) -> list[tuple[str, str]]:
                for name in names:
                    coming = Coming(id=name[:4], digest=name, names={"event": {"text": name} if "fits" in name else {}})
                    await driver.triggers.intake.take(driver.triggers.active.on("event", "parcel"), coming)
                office.clock.at += 1
                await strays.look()
                return office.told()

            assert await come("fits", "one") == [("tom", "1 arrival led to no run: Letters go out")]
            assert await come("two", "three") == []
            office.clock.at += HOUR
            assert await come("four") == [("tom", "3 arrivals led to no run: Letters go out")]
            office.clock.at += HOUR
            assert await come() == []
            mail.tell(SmtpScript(at_connect=["drop"]))
            assert await come("five") == []
            assert await come() == [("tom", "1 arrival led to no run: Letters go out")]
            office.clock.at += HOUR
            assert await come("fits otherwise") == [("tom", "1 arrival led to no run: Letters go out")], "a conflict"


async def test_the_owner_hears_of_what_came_about_a_run_that_did_not_go_through(tmp_path: Path) -> None:
    async with SmtpService() as mail:
        trigger = '{ event: parcel, fill: { text: "${{ event.text }}" } }'
        text = f"{TOP.replace('trigger.id', 'inputs.text')}trigger: {trigger}\ninputs: {{ text: text }}\nsteps:\n"
        text += "  - { id: look, hand_off: team:ops, say: Is it right? }\n"
        async with resumed(make_office(tmp_path / "it", mail.port, {"keyed": text}), mail, Turned()) as office:
            driver = office.driver
            await driver.triggers.active.look()
            strays = Strays(
                driver.notifier, driver.post, driver.desk, driver.store, office.clock, driver.triggers.active.all
            )  # fmt: skip

            async def come(name: str) -> str:
                coming = Coming(id=name, digest=name, names={"event": {"text": "a"}})
                (took,) = await driver.triggers.intake.take(driver.triggers.active.on("event", "parcel"), coming)
                await office.rest(took.run)
                office.clock.at += 1
                await strays.look()
                return took.status

            assert [await come("one"), await come("two")] == ["started", "started"]
            (run,) = driver.store.runs(RunFilter())
            await driver.act(run.run, Order(action="close", by="person:tom", reason="by hand"))
            office.told()
            assert await come("three") == "joined"
            body = mail.mails[-1].body()
            assert office.told() == [("tom", "1 arrival about a run that did not go through: Letters go out")]
            assert f"/runs/{run.run}" in body
            assert "Nothing was started" in body
            assert [await come("three"), office.told()] == ["joined", []], "once"


async def test_the_owner_hears_once_of_slots_that_are_skipped_one_after_the_other(tmp_path: Path) -> None:
    async with SmtpService() as mail:
        text = (
            f"{TOP}trigger: {{ schedule: every 15 min }}\nsteps:\n"
            "  - { id: answer, wait_for: answered, within: 30 days }\n"
        )
        project = make_office(tmp_path / "it", mail.port, {"slow": text})
        async with resumed(project, mail, Turned()) as office:
            driver = office.driver
            await driver.triggers.active.look()
            strays = Strays(
                driver.notifier, driver.post, driver.desk, driver.store, office.clock, driver.triggers.active.all
            )  # fmt: skip
            room = Schedules(driver.triggers)
            await room.take()

            async def slots(count: int) -> list[str]:
                for _ in range(count):
                    office.clock.at += 15 * MINUTE
                    await room.take()
                    for view in driver.store.runs(RunFilter()):
                        await office.rest(view.run)
                    await strays.look()
                bodies.extend(one.body() for one in mail.mails)
                return [subject for _, subject in office.told()]

            async def answer(event: str) -> None:
                await driver.send_event(event, "answered", {}, "person:root")
                for view in driver.store.runs(RunFilter()):
                    await office.rest(view.run)

            bodies: list[str] = []
            told = ["Slots are skipped: Letters go out"]
            assert await slots(3) == []  # one that started and two that were skipped
            assert await slots(1) == told
            assert await slots(2) == []
            (run,) = driver.store.runs(RunFilter())
            why = (
                f"3 slots of schedule every 15 min were skipped one after the other, since run {run.run} has not ended."
            )
            assert why in bodies[0]
            assert f"/runs/{run.run}" in bodies[0]
            office.clock.at += DAY
            assert await slots(1) == [], "the same run"
            await answer("e1")
            assert await slots(4) == told
            await answer("e2")
            assert await slots(6) == [], "another run, on the same day"
            office.clock.at += DAY
            assert await slots(1) == told


async def test_a_run_waits_until_silence_is_a_no_and_says_who_is_asked_before(tmp_path: Path) -> None:
    async with SmtpService() as mail, at_work(tmp_path / "it", mail) as office:
        run = await office.start("asking", text="Hello")
        amends = Amends.open(tmp_path / "it")
        waits = "step go waits for an approval by team:leads until 2026-09-01 13:00:00 +09:00"
        said = status_line(story_of(amends, run, zone="Asia/Tokyo"))
        assert said.endswith(f"{waits}; person:tom is asked too at 2026-09-01 11:00:00 +09:00")
        await office.turn(run, 2 * HOUR)
        assert status_line(story_of(amends, run, zone="Asia/Tokyo")).endswith(
            f"{waits.replace('leads', 'leads or person:tom')}"
        )
        amends.close()


def test_a_sentence_about_who_has_started_it_begins_with_a_capital_letter() -> None:
    state = cast(
        State, SimpleNamespace(starter="person:me", gates={"go": SimpleNamespace(due=0)}, handoffs={}, mode="live")
    )
    matter = Matter(
        title="An offer", state=state, address="", zone="UTC", name=lambda _person: "whoever has the terminal",
        veil=str, question="Send it?", locator="L", is_to_be_seen=False,
    )  # fmt: skip
    letter = letter_about(matter, cast(Outgoing, SimpleNamespace(kind="asked", about="go", round=1)))
    assert "Whoever has the terminal has started it." in letter.text
