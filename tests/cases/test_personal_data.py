"""Personal data: hidden in what people see, erased to the last byte on demand, and the chain still verifies."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from runner.cli import run_command
from runner.core.events import PersonalDataErased
from runner.errors import NotPossible
from runner.people.erasing import Erasing, what_is_held
from runner.store.erase import find
from runner.store.evidence import pack
from runner.store.personal import HIDDEN
from runner.store.sql import SqlStore
from tests.cases.ground import Engine, Ground, connector, first, flow, kept, opened, until
from tests.cases.processes import amends
from tests.support.says import HELD, Say, refused

EMAIL, NAME, PHONE = "aya.sato@customer.test", "佐藤 綾", "0312345678"
RECORD = f"customer/{EMAIL}"
WHO = """  who:
    reads: true
    input: { email: email }
    request: { get: "/plans/basic", query: { email: "${{ input.email }}" } }
    result: { phone: "${{ response.json.label }}", size: "${{ response.json.size }}" }
    output: { phone: { text: null, personal: true }, size: any or empty }
    timeout: 1000 ms
"""
SIGN = flow(
    "sign",
    """  - { id: who, read: shop.who, with: { email: "${{ inputs.email }}" } }
  - id: book
    do: shop.book
    lock: { record: person, id: "${{ inputs.email }}" }
    with: { note: "For ${{ inputs.name }}", of: "${{ steps.who.phone }}" }
    compensate: { cancel: shop.unbook, with: { note: x, of: "${{ output.id }}" } }
  - { id: nap, wait: { until: "${{ inputs.until }}" } }
  - id: letter
    do: mail.send
    with: { to: "${{ inputs.email }}", subject: "Hello", text: "Dear ${{ inputs.name }}, we call ${{ steps.who.phone }}." }
    unattended: It only says hello.
    compensate: { none: It only says hello. }
  - id: own
    do: records.create
    with: { collection: people, id: "${{ inputs.email }}", name: "${{ inputs.name }}" }
    compensate: cancel
  - id: charge
    do: shop.charge
    with: { note: "${{ inputs.name }} pays", amount: 4711 }
    compensate: { cancel: shop.refund, with: { note: "${{ inputs.name }}", of: "${{ output.id }}" } }
""",
    inputs="{ email: { email: null, personal: true }, name: { text: null, personal: true }, "
    'until: { datetime: null, default: "2020-01-01T00:00:00Z" } }',
    record="customer/${{ inputs.email }}",
    on_failure="review",
    outputs='{ said: "${{ inputs.name }} is a customer" }',
)
GIVEN = {"email": EMAIL, "name": NAME}
FORMS = {
    value: [
        value.encode(), quote(value).encode(), json.dumps(value)[1:-1].encode(), base64.b64encode(value.encode()),
    ]
    for value in (EMAIL, NAME, PHONE)
}  # fmt: skip


def spoken(ground: Ground) -> None:
    """The shop knows the customer's phone; what else it says of her is too large for the log. Others it hardly knows."""
    rows = [f"{NAME} {number} {EMAIL}" for number in range(3_000)]
    nobody = Say(status=200, json={"label": "0", "size": []})
    ground.shop.script("GET /plans/basic", Say(status=200, json={"label": PHONE, "size": rows}), always=nobody)


def traces(folder: Path) -> list[str]:
    """Every file of the project's state, and table of its database, that holds a personal value in some form."""
    return [
        f"{name}: {value}"
        for name, content in kept(folder).items()
        for value, forms in FORMS.items()
        if any(form in content for form in forms)
    ]


async def read(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """A command that only reads, in this process."""
    capsys.readouterr()
    code = await asyncio.to_thread(run_command, ["--project", str(folder), *words])
    return code, *capsys.readouterr()


def wish(**words: bool) -> Erasing:
    return Erasing(record=RECORD, by="person:tom", reason="She asked for it.", **words)


async def erased(engine: Engine, **words: bool) -> dict[str, object]:
    return dict(await engine.driver.erase(wish(**words)))


def shown(store: SqlStore, run: str) -> str:
    """All that the story of a run has to tell, personal data hidden."""
    personal = store.personal(run)
    assert personal is not None
    return repr([personal.event(row.event) for row in store.log(run) if row.event is not None])


# --- hidden ----------------------------------------------------------------------------------------------------------


async def test_lists_and_stories_hide_personal_data_until_it_is_revealed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    async with opened(tmp_path, SIGN, text=connector(more=WHO)) as ground:
        spoken(ground)
        ground.shop.script("POST /charge", refused(message=f"{NAME} ({EMAIL}) owes 3"))
        async with ground.engine() as engine:
            view = await engine.run("sign", "k1", **GIVEN)
            assert view.status == "needs_person"
            assert NAME in view.waiting_for
            run = view.run
        words = (("runs", "show", run), ("runs", "list"), ("handoffs", "list"), ("handoffs", "show", run))
        for typed in [*words, *((*each, "--json") for each in words)]:
            code, out, err = await read(ground.folder, capsys, *typed)
            assert code == 0, err
            assert not [value for value in (EMAIL, NAME, PHONE) if value in out or json.dumps(value)[1:-1] in out], (
                typed
            )
            assert HIDDEN in out or typed == ("runs", "list"), typed
            _, out, _ = await read(ground.folder, capsys, *typed, "--reveal")
            assert NAME in out or EMAIL in out or typed == ("runs", "list"), typed
        told = json.loads((await read(ground.folder, capsys, "runs", "show", run, "--json"))[1])
        assert told["inputs"]["email"] == told["inputs"]["name"] == HIDDEN
        assert told["record"] == f"customer/{HIDDEN}"
        letter = next(each for each in told["effects"] if each["path"] == "letter")
        assert letter["input"]["text"] == f"Dear {HIDDEN}, we call {HIDDEN}."


async def test_answers_work_although_what_is_asked_is_hidden(tmp_path: Path) -> None:
    async with opened(tmp_path, SIGN, text=connector(more=WHO)) as ground:
        spoken(ground)
        ground.shop.script("POST /charge", refused())
        async with ground.engine() as engine:
            run = (await engine.run("sign", "k1", **GIVEN)).run
        code, out, _ = await amends(ground.folder, "runs", "retry", run, "charge")
        assert code == 0
        assert "Succeeded." in out
        assert ground.shop.world.effects[-1].body["note"] == f"{NAME} pays"


# --- erased ----------------------------------------------------------------------------------------------------------


async def test_nothing_of_it_is_left_in_any_file_and_the_chain_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(tmp_path, SIGN, text=connector(more=WHO)) as ground:
        spoken(ground)
        async with ground.engine() as engine:
            run = (await engine.run("sign", "k1", **GIVEN)).run
            other = (await engine.run("sign", "k2", email="ben@customer.test", name="Ben Okafor")).run
            assert len(traces(ground.folder)) >= 4
            held = find(engine.store, RECORD)
            assert [each["run"] for each in what_is_held(held)["runs"]] == [run]
            assert what_is_held(held)["records"] == [f"people/{EMAIL}"]
            assert len(traces(ground.folder)) >= 4, "a look changes nothing"
            told = await erased(engine, with_records=True)
            assert told["clean"] is True
            assert traces(ground.folder) == []
            assert engine.store.verify() == []
            assert shown(engine.store, other).count("Ben") == 0
            assert "Ben Okafor" in repr(engine.store.log(other))
            event = first(engine.events(run), PersonalDataErased)
            assert (event.by, event.reason) == ("person:tom", "She asked for it.")
            rows = {row.seq: row for row in engine.store.log(run)}
            assert {seq for seq, row in rows.items() if row.erased} == set(event.seqs)
            assert not rows[len(rows) - 1].erased or rows[len(rows) - 1].type == "RunFinished"
            engine.holds(run)
            again = await erased(engine, with_records=True)
            assert again["runs"] == [], "the record has another name now"
            assert engine.store.run(run).record.startswith("customer/erased-")
        assert traces(ground.folder) == []
        code, out, _ = await read(ground.folder, capsys, "log", "verify")
        assert code == 0, out
        code, out, _ = await read(ground.folder, capsys, "runs", "show", run)
        assert code == 0
        assert "person:tom erased personal data of this run." in out
        assert "Succeeded." in out
        code, _, err = await read(ground.folder, capsys, "runs", "rerun", run)
        assert code == 2, err


async def test_the_command_says_what_it_would_do_and_what_it_cannot_reach(tmp_path: Path) -> None:
    async with opened(tmp_path, SIGN, text=connector(more=WHO)) as ground:
        spoken(ground)
        async with ground.engine() as engine:
            run = (await engine.run("sign", "k1", **GIVEN)).run
        code, out, _ = await amends(ground.folder, "erase", "--record", RECORD, "--dry-run")
        assert code == 0
        assert out.splitlines()[0].endswith("entries of 1 run would be erased:")
        assert f"Our own tables: people/{EMAIL} left as they are; --with-records erases them too." in out
        assert traces(ground.folder)
        code, out, _ = await amends(ground.folder, "erase", "--record", RECORD, "--with-records", "--reason", "asked")
        assert code == 0
        assert run in out
        assert out.endswith(
            "Copies of the database and evidence packs made before still hold it: nothing here reaches them.\n"
        )
        assert traces(ground.folder) == []
        code, out, _ = await amends(ground.folder, "erase", "--record", RECORD)
        assert (code, out) == (0, f"Nothing is held about {RECORD}.\n")
        code, _, err = await amends(ground.folder, "erase", "--record", " ")
        assert (code, err.startswith("amends: --record is empty")) == (2, True)


async def test_an_open_run_is_left_alone_unless_it_is_said(tmp_path: Path) -> None:
    async with opened(tmp_path, SIGN, text=connector(more=WHO)) as ground:
        spoken(ground)
        async with ground.engine() as engine:
            run = await engine.start("sign", "k1", until="2999-01-01T00:00:00Z", **GIVEN)
            await engine.until(run, "waiting")
            with pytest.raises(NotPossible) as told:
                await erased(engine)
            assert str(told.value) == (
                f"nothing was erased: {run} (waiting) on {RECORD} has not ended; stop it first (amends runs stop {run}), "
                "or say --also-open: then it cannot go on by itself, and its owner is handed what stands"
            )
            assert traces(ground.folder)
            await erased(engine, also_open=True)
            view = await engine.until(run, "needs_person")
            assert (view.needs, view.wake_at) == ("person:me", None)
            [question] = engine.store.handoffs(run=run)
            assert (question.kind, question.choices) == ("erased", ("take_over",))
            assert traces(ground.folder) == []
            for order in ("retry", "compensate", "go_on"):
                with pytest.raises(NotPossible):
                    await engine.act(run, order)
            sent = list(ground.effects())
            view = await engine.order(run, "take_over")
            assert view.status == "closed"
            assert ground.effects() == sent == ["/book"], "nothing was sent or undone by itself"
            assert engine.dispositions(run) == {"book": "by_hand"}
            engine.holds(run)


async def test_a_run_with_a_call_in_flight_is_handed_over_once_that_has_its_answer(tmp_path: Path) -> None:
    async with opened(tmp_path, SIGN, text=connector(more=WHO, limit=30_000)) as ground:
        spoken(ground)
        ground.shop.script("POST /book", HELD)
        async with ground.engine() as engine:
            run = await engine.start("sign", "k1", **GIVEN)
            await until(lambda: ground.asked("/book") == 1)
            await erased(engine, also_open=True)
            ground.shop.let_go()
            view = await engine.until(run, "needs_person")
            assert view.stands == 1
            assert ground.effects() == ["/book"]
            engine.holds(run)
        async with ground.engine() as engine:
            assert (await engine.rest(run)).status == "needs_person", "the next engine reads the same from the log"
            assert ground.effects() == ["/book"]


async def test_what_cleans_up_after_it_is_erased_too_and_handed_over(tmp_path: Path) -> None:
    async with opened(tmp_path, SIGN, text=connector(more=WHO)) as ground:
        spoken(ground)
        ground.shop.script("POST /charge", refused(message=f"{NAME} is unknown"))
        async with ground.engine() as engine:
            run = (await engine.run("sign", "k1", **GIVEN)).run
            assert (await engine.order(run, "stop", reason=f"{NAME} called")).status == "stopped"
            await erased(engine, with_records=True)
            assert traces(ground.folder) == []
            before = ground.effects()
            view = await engine.order(run, "compensate")
            assert (view.continues, view.status) == (run, "needs_person")
            assert [each.kind for each in engine.store.handoffs(run=view.run)] == ["erased"]
            assert ground.effects() == before
            engine.holds(run)


async def test_an_outside_id_that_is_personal_is_erased_and_the_place_still_proved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(tmp_path, SIGN, text=connector(more=WHO)) as ground:
        spoken(ground)
        async with ground.engine() as engine:
            run = (await engine.run("sign", "k1", **GIVEN)).run
            own = next(row for row in engine.store.log(run) if row.step == "own" and row.type == "CallApplied")
            assert own.external_id == EMAIL
            await erased(engine, with_records=True)
            row = engine.store.log(run)[own.seq - 1]
            assert (row.external_id, row.erased, row.hash) == ("", True, own.hash)
            assert engine.store.verify() == []
        file = tmp_path / "run.zip"
        assert (await read(ground.folder, capsys, "log", "export", run, "--to", str(file)))[0] == 0
        code, out, _ = await read(ground.folder, capsys, "log", "verify", "--pack", str(file))
        assert code == 0, out
        assert "was erased; their digests remain." in out
        with file.open("rb") as packed:
            assert EMAIL.encode() not in packed.read()


async def test_it_works_while_another_process_serves(tmp_path: Path) -> None:
    async with opened(tmp_path, SIGN, text=connector(more=WHO)) as ground:
        spoken(ground)
        async with ground.engine() as engine:
            run = (await engine.run("sign", "k1", **GIVEN)).run
            code, out, err = await amends(ground.folder, "erase", "--record", RECORD, "--with-records")
            assert code == 0, err
            assert run in out
            assert traces(ground.folder) == []
            assert await engine.start("sign", "k1", **GIVEN) == run, "the same delivery again starts nothing"


async def test_a_run_key_that_is_personal_is_forgotten(tmp_path: Path) -> None:
    keyed = SIGN.replace("${{ trigger.id }}", "${{ inputs.email }}")
    async with opened(tmp_path, keyed, text=connector(more=WHO)) as ground, ground.engine() as engine:
        spoken(ground)
        run = (await engine.rest(await engine.start("sign", "", **GIVEN))).run
        assert await engine.start("sign", "", **GIVEN) == run
        await erased(engine, with_records=True)
        assert traces(ground.folder) == []
        assert await engine.start("sign", "", **GIVEN) != run, "nobody can know any more that she was here before"


async def test_a_called_flow_and_an_event_that_nobody_took_are_erased_too(tmp_path: Path) -> None:
    inner = flow(
        "inner",
        """  - id: note
    do: shop.log
    with: { note: "${{ inputs.who }} signed" }
    compensate: { none: It only counts. }
""",
        inputs="{ who: { text: null, personal: true } }",
    )
    outer = flow(
        "outer",
        """  - { id: log, call: inner, with: { who: "${{ inputs.full }}" } }
  - { id: said, emit: signed, with: { who: "${{ inputs.full }}" } }
""",
        inputs="{ customer: text, full: text }", record="customer/${{ inputs.customer }}",
    )  # fmt: skip
    async with opened(tmp_path, inner, outer) as ground, ground.engine() as engine:
        run = (await engine.run("outer", "k1", customer="C-17", full=NAME)).run
        assert engine.store.run(run).status == "succeeded"
        with engine.store._read() as connection:
            kept = connection.exec_driver_sql("SELECT data FROM kept_events").scalars().all()
        assert [NAME in data for data in kept] == [True]
        personal = engine.store.personal(run)
        assert personal is not None
        assert NAME in personal.values, "the called flow's own marks count"
        assert NAME not in shown(engine.store, run)
        await engine.driver.erase(Erasing(record="customer/C-17", by="person:tom"))
        assert traces(ground.folder) == []
        assert engine.store.verify() == []


async def test_a_pack_holds_no_secret(tmp_path: Path) -> None:
    secret = "hunter2-and-much-more"
    text = connector(auth="auth: { bearer: token }\n", more=WHO)
    async with opened(tmp_path, SIGN, text=text) as ground:
        spoken(ground)
        ground.connect("token: { secret: SHOP_TOKEN }")
        (ground.folder / ".env").write_text(f"SHOP_TOKEN={secret}\n", encoding="utf-8")
        ground.shop.script("POST /charge", refused(message=f"the token {secret} may not"))
        async with ground.engine() as engine:
            run = (await engine.run("sign", "k1", **GIVEN)).run
            told = pack(engine.store, run)
        assert secret in repr(ground.shop.requests)
        assert b"SHOP_TOKEN" in told
        assert [form for form in (secret.encode(), base64.b64encode(secret.encode())) if form in told] == []
