"""A flow of 30 steps, lists and called flows in it, read by a stranger: the pages of four moments, word for word.

The pages are held in golden/*.txt; WRITE_GOLDEN=1 writes them anew. The same flow runs against real servers too.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Group

from runner.app import Amends
from runner.cli import page
from runner.cli.timeline import as_json, ending, full
from runner.cli.watching import under_way
from runner.contract import Json, Outcome, canonical
from runner.core import events as e
from runner.engine.starting import Wish
from runner.language.bundle import Bundle
from runner.people.operations import Order
from runner.telling.lines import _TOLD
from runner.telling.sentences import FOR_MACHINES, SAID
from runner.telling.story import story_of
from tests.cli.scripted import START, Play, refused, unknown
from tests.cli.test_timeline import console, printed
from tests.flows.stage import Stage, copy_flows, project_of, staged
from tests.support.says import AS_USUAL, DROP_AFTER, Say
from tests.support.says import refused as says_no
from tests.support.smtp_service import SmtpScript

HERE = Path(__file__).parent
NAMES = "Ito Kato Mori Sato Abe Endo Goto Hara Imai Kubo Maki Noda".split()
INPUTS: dict[str, Json] = {
    "month": "2026-08",
    "sku": "tea",
    "customers": [
        {"name": name, "email": f"{name.lower()}@customer.test", "amount": 90_000 if number % 4 == 1 else 4_000}
        for number, name in enumerate(NAMES)
    ],
}
BANK = e.EventReceived(
    at=0, step="statement", event="bank.statement", event_id="b-1", data={"month": "2026-08", "sum": 97000}
)
SCRIPT = {
    ("item", "read"): [Outcome(result="applied", output={"id": "tea", "label": "Tea", "left": 40})],
    ("customers/3/paper/letter", "do"): [refused("550 5.1.1 no such mailbox")],
    ("customers/7/parcel", "do"): [unknown()],
    ("customers/9/account", "do"): [refused("The service answered 503.", "unavailable")],
    ("paid", "do"): [refused("The yearly sum is used up.")],
    ("customers/5/paper/letter", "undo"): [refused("550 5.7.1 go away")],
}


def me(action: str, step: str = "", reason: str = "") -> Order:
    return Order(action=action, by="person:tom", step=step, reason=reason)


ALL_BY_HAND = [replace(me("done", reason="The carrier has it back."), handoff=f"h{number}") for number in range(2, 14)]
ASIDE = [
    me("retry", "customers/3", reason="She has a new mailbox."), me("skip", "customers", reason="He writes himself.")
]  # fmt: skip
MOMENTS: dict[str, tuple[Sequence[Order | e.Event], dict[str, object]]] = {
    "month_waits": ((), {}),
    "month_in_doubt": ((BANK,), {}),
    "month_set_aside": (
        (BANK,),
        {"customers/7/parcel": [], "paid": [], "customers/11/paper/letter": [refused("He is on holiday.")]},
    ),
    "month_taken_up": (
        (BANK, *ASIDE),
        {"customers/7/parcel": [], "paid": [], "customers/11/paper/letter": [refused("He is on holiday.")]},
    ),
    "month_compensating": ((BANK, me("happened", "customers/7/parcel")), {}),
    "month_closed": ((BANK, me("happened", "customers/7/parcel"), *ALL_BY_HAND), {}),
}
"""What people and others do until then, and what the services say instead, by step."""


def copied(folder: Path, **origins: object) -> Path:
    """The examples, and the flows of the month among them."""
    copy_flows(folder, **origins)  # type: ignore[arg-type]
    for file in (HERE / "flows").iterdir():
        shutil.copy(file, folder / file.name)
    return folder


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    origin = "http://127.0.0.1:1"
    folder = copied(tmp_path_factory.mktemp("month") / "flows", backoffice=origin, shop=origin, smtp_port=1)
    project = project_of(folder)
    checked = project.check("month_end")[0]
    said = [one for one in checked.problems if one.code != "FL210"]  # of drills, which nobody has kept here
    assert not said, "the check has nothing to say"
    assert len(project.bundle("month_end").steps) + 1 >= 30, "with the one of month_failed"
    return project.bundle("month_end")


def play(bundle: Bundle, moment: str) -> Play:
    acts, script = MOMENTS[moment]
    said = {**SCRIPT, **{(step, "do"): outcomes for step, outcomes in script.items()}}
    return Play(bundle=bundle, inputs=INPUTS, script=said, orders=acts, until=START + 60_000).run()  # type: ignore[arg-type]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_month_reads_as_it_should(bundle: Bundle, moment: str) -> None:
    story = play(bundle, moment).story()
    text, file = printed(story, full), HERE / "golden" / f"{moment}.txt"
    if os.environ.get("WRITE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
    told = as_json(story)
    assert canonical(told)
    if "customers" in story.state.lists:
        assert told["lists"]["customers"]["items"] == len(NAMES)


def brief(lines: Sequence[object]) -> list[tuple[object, ...]]:
    return [(line.at, line.sign, line.step, line.text, line.depth) for line in lines]  # type: ignore[attr-defined]


def test_an_abridged_log_tells_the_same_at_every_entry(bundle: Bundle) -> None:
    """Whatever has happened: what is left out is what is not told."""
    whole, shorter = play(bundle, "month_closed"), 0
    for length in range(1, len(whole.rows) + 1, 3):
        part = Play(bundle=bundle)
        part.rows = whole.rows[:length]
        read = part.abridged()
        shorter += len(read.rows) < length
        assert brief(part.told(read.rows, read)) == brief(part.told(part.rows)), length
    assert shorter > 50


def test_every_fact_of_a_run_is_told_or_left_out_for_a_reason() -> None:
    of_runs = {kind for kind in e.VOCABULARY.values() if not issubclass(kind, e.SiteEvent)}
    told = set(_TOLD) | set(SAID)
    assert told | set(FOR_MACHINES) == of_runs
    assert not told & set(FOR_MACHINES)


def test_a_question_that_is_listed_only_is_shown_by_its_id(bundle: Bundle) -> None:
    story = play(bundle, "month_compensating").story()
    assert "Please make step customers › Imai › parcel" not in printed(story, full)
    text = printed(story, lambda told, out: Group(*ending(told, "h5")))
    assert "h5  Please make step customers › Imai › parcel good by hand.\n" in text
    assert "In    item customers › Imai (customers/9)\n" in text
    assert "Noda › parcel good" not in text


def test_while_it_goes_a_list_is_one_line(bundle: Bundle) -> None:
    whole = play(bundle, "month_in_doubt")
    place = next(row.seq for row in whole.rows if (row.step, row.type) == ("customers/5/account", "CallIntended"))
    part = Play(bundle=bundle, inputs=INPUTS, script=SCRIPT, orders=(BANK,), until=START + 60_000)
    part.rows = whole.rows[:place]
    from_rows = replace(whole.story(), told=part.told(part.rows))
    out = console()
    out.height, out.width = 100, 120
    page.show(under_way(from_rows, out), out=out)
    out.file.flush()
    text = out.file.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert "customers  12 items: 3 done, 1 set aside, 1 under way, 7 to come." in text
    assert "Abe" not in text, "an item that needs nobody is not shown"
    assert "Mori     Set aside: 550 5.1.1 no such mailbox." in text
    assert "counted" not in text


# --- against real servers ---------------------------------------------------------------------------------------------


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path / "flows") as ready:
        for file in (HERE / "flows").iterdir():
            shutil.copy(file, ready.folder / file.name)
        ready.shop.world.put("/items/tea", {"label": "Tea", "left": 40})
        ready.shop.world.put("/plans/basic", {"code": "basic", "label": "Basic", "price": 4000})
        ready.mail.tell(SmtpScript(replies={"mori@customer.test": "550 5.1.1 no such mailbox"}))
        made = {"title": "It", "name": "It", "email": "it@books.test", "status": "open"}
        for path in ("tasks", "contacts"):
            ready.shop.script(f"POST /{path}", always=Say(status=201, json={**made, "id": f"{path}-1"}))
        ready.shop.script("POST /shipments", *[AS_USUAL] * 5, DROP_AFTER)
        ready.shop.script("POST /payments", says_no(422, "The yearly sum is used up."))
        yield ready


def page_of(amends: Amends, run: str) -> str:
    return " ".join(printed(story_of(amends, run, "UTC"), full).split())


async def drive(stage: Stage) -> list[str]:
    """The pages of the run: as it waits, as somebody is asked, as it is made good."""
    amends, pages = Amends(project_of(stage.folder)), []
    try:
        async with asyncio.timeout(60), amends.driver() as driver:
            run = (await driver.start("month_end", Wish(given=INPUTS, key="", starter="tester"))).run
            await driver.follow(run, lambda: None, 10_000)
            pages.append(page_of(amends, run))
            await driver.send_event("b-1", "bank.statement", {"month": "2026-08"}, "test")
            await driver.follow(run, lambda: None, 10_000)
            pages.append(page_of(amends, run))
            await driver.act(run, me("happened", "customers/7/parcel"))
            await driver.follow(run, lambda: None, 10_000)
            pages.append(page_of(amends, run))
            item = printed(story_of(amends, run, "UTC", whole="customers/1"), full)
            pages.append(" ".join(item.split()))
    finally:
        amends.close()
    return pages


def test_the_month_against_real_servers(stage: Stage) -> None:
    waits, asked, undone, item = asyncio.run(drive(stage))
    assert "waiting: step statement waits for the event bank.statement until" in waits
    assert "customers 12 items: 10 done, 1 set aside, 1 waits for a person." in asked
    assert "Mori Set aside: 127.0.0.1:" in asked
    assert "Did step customers › Goto › parcel happen?" in asked
    assert "customers › parcel shop.ship 10 in all stands" in asked
    assert "Ito" not in asked.partition("What happened")[2], "it is done, so it is folded"
    assert "Step paid failed. What was done is now made good." in undone
    assert "Made good: 11 items but for what waits for a person." in undone
    assert "h5 customers › Imai › parcel shipments-8 order: 2026-08/Imai" in undone
    assert "no id, its answer was lost; person:tom said at " in undone
    assert "All 11 of these together (done, stands;" in undone
    assert "customers › letter" not in undone
    assert "customers › paper › letter mail.send 11 in all stays; a correction was sent" in undone
    assert "Ito" in item
    assert "Kato" not in item.partition("What happened")[2].partition("What was done")[0]
    made = {each.path for each in stage.shop.world.effects}
    assert sum(path.startswith("/shipments") for path in made), "it was really done"


async def leave_one(stage: Stage) -> tuple[str, str]:
    """An item that could not be made good is left as it is; later the run fails."""
    amends = Amends(project_of(stage.folder))
    try:
        async with asyncio.timeout(60), amends.driver() as driver:
            run = (await driver.start("month_end", Wish(given=INPUTS, key="", starter="tester"))).run
            await driver.follow(run, lambda: None, 10_000)
            await driver.send_event("b-1", "bank.statement", {"month": "2026-08"}, "test")
            await driver.follow(run, lambda: None, 10_000)
            await driver.act(run, me("happened", "customers/7/parcel"))
            await driver.act(run, me("stands", "customers/3/account", "She is told by phone."))
            status = (await driver.follow(run, lambda: None, 10_000)).status
            return status, page_of(amends, run)
    finally:
        amends.close()


def test_what_a_person_left_in_an_item_stays_when_the_run_fails_later(stage: Stage) -> None:
    stage.shop.script("PATCH /accounts/*", says_no(404, "The account is locked."))
    status, text = asyncio.run(leave_one(stage))
    assert status == "needs_person"
    assert "customers Made good: 11 items but for what waits for a person." in text
    assert "customers › Mori › account shop.open_account accounts-3 STANDS: She is told by phone" in text
