"""Cases G1 and G2 with the whole engine: values that are not there, and form text that looks like a template."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.cli import run_command
from runner.contract import Json
from runner.core import events as e
from runner.errors import InputsInvalid
from runner.store.facts import RunFilter
from tests.cases.ground import Engine, flow, intents, opened
from tests.support.says import DROP_AFTER, refused
from tests.support.smtp_service import SmtpScript

GREET = flow(
    "greet",
    """  - { id: plan, read: shop.plan, with: { code: pro } }
  - id: first
    do: shop.deal
    with: { note: first }
    compensate: { cancel: shop.undo_deal, with: { note: x, of: "${{ output.id }}" } }
  - id: letter
    do: mail.send
    with: { to: WHO, subject: SUBJECT, text: Hello }
    unattended: It only says hello.
    compensate: { hand_off: person:me }
""",
    inputs="{ name: text, email: email or empty, tags: list or empty }",
)


def greeting(to: str = "aya@acme.example", subject: str = "Hello") -> str:
    return GREET.replace("WHO", to).replace("SUBJECT", subject)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (greeting(to='"${{ steps.plan.mail }}"'), "mail"),
        (greeting(to='"${{ inputs.email }}"'), "email"),
        (greeting(subject='"For ${{ steps.plan.label }}"'), "label"),
        (greeting(subject='"For ${{ steps.plan.tags }}"'), "join"),
        (greeting(subject='"For ${{ steps.plan.owner }}"'), "json"),
    ],
    ids=["absent", "none as a recipient", "none in a sentence", "a list in a sentence", "a record in a sentence"],
)
async def test_g1_a_value_that_is_not_there_fails_its_step_before_anything_is_sent(
    tmp_path: Path, text: str, words: str
) -> None:
    more = "output: { id: text, label: any or empty, mail: any or empty, tags: any, owner: any }"
    async with opened(tmp_path, text) as ground:
        declared = ground.folder / "connectors" / "shop.yaml"
        declared.write_text(declared.read_text().replace("output: { id: text, label: any or empty }", more))
        ground.shop.world.put("/plans/pro", {"label": None, "tags": ["a", "b"], "owner": {"name": "Tom"}})
        async with ground.engine() as engine:
            view = await engine.run("greet", "k1", name="Aya")
            assert view.status == "compensated"
            failed = [one for one in engine.events(view.run) if isinstance(one, e.StepFailed)]
            assert [(one.step, one.kind) for one in failed] == [("letter", "evaluation")]
            assert words in failed[0].summary
            assert intents(engine.events(view.run), "letter") == []
            engine.holds(view.run)
        assert (ground.post.connections, ground.effects()) == (0, ["/deal", "/undo_deal"])


@pytest.mark.parametrize("said", ["false", "no", False])
async def test_g1_a_ticked_box_that_posts_the_word_false_is_not_ticked(tmp_path: Path, said: Json) -> None:
    text = flow(
        "pay",
        """  - id: pay
    when: ${{ inputs.agree }}
    do: shop.charge
    with: { note: x, amount: 1 }
    compensate: { none: It only counts. }
""",
        inputs="{ agree: yes_no }",
    )
    async with opened(tmp_path, text) as ground, ground.engine() as engine:
        assert (await engine.run("pay", "k1", agree=said)).status == "succeeded"
        assert ground.effects() == []
        for key, wrong in (("k2", ""), ("k3", "perhaps"), ("k4", None), ("k5", "0x1")):
            with pytest.raises(InputsInvalid):
                await engine.run("pay", key, agree=wrong)
        assert len(engine.store.runs(RunFilter())) == 1, "a start that is refused leaves no run"


async def test_g1_a_condition_that_is_no_yes_or_no_at_run_time_fails_its_step(tmp_path: Path) -> None:
    text = flow(
        "pay",
        """  - { id: plan, read: shop.plan, with: { code: pro } }
  - id: pay
    when: ${{ steps.plan.label }}
    do: shop.charge
    with: { note: x, amount: 1 }
    compensate: { none: It only counts. }
""",
    )
    labels: tuple[Json, ...] = ("true", "false", 1, 0, None, [])
    async with opened(tmp_path, text) as ground, ground.engine() as engine:
        for label in labels:
            ground.shop.world.put("/plans/pro", {"label": label})
            view = await engine.run("pay", f"k{label}", name="Aya")
            assert (view.status, ground.effects()) == ("failed", []), label
            assert ("has no value" if label is None else "yes or no") in view.summary


async def test_g1_an_error_in_a_compensations_words_is_a_persons_matter(tmp_path: Path) -> None:
    text = flow(
        "trip",
        """  - { id: plan, read: shop.plan, with: { code: pro } }
  - id: old
    do: shop.reserve
    with: { note: x }
    compensate: { cancel: shop.release, with: { note: x, of: "${{ output.id }}" } }
  - id: new
    do: shop.charge
    with: { note: x, amount: 1 }
    compensate: { cancel: shop.refund, with: { note: "For ${{ steps.plan.label }}", of: "${{ output.id }}" } }
  - id: last
    do: shop.ticket
    with: { note: x }
    compensate: { none: It only counts. }
""",
    )
    async with opened(tmp_path, text) as ground, ground.engine() as engine:
        ground.shop.world.put("/plans/pro", {"label": None})
        ground.shop.script("POST /ticket", refused())
        view = await engine.run("trip", "k1", name="Aya")
        assert (view.status, view.at_step) == ("needs_person", "new")
        assert ground.effects()[2:] == ["/release"], "the other compensation goes on"
        assert (await engine.order(view.run, "done", reference="Slip 4")).status == "closed"
        engine.holds(view.run)


# --- G2 ------------------------------------------------------------------------------------------------------------

TYPED = [
    "${{ secrets.SMTP_PASSWORD }}",
    "{{ 7*7 }} and ${{ 7*7 }}",
    "{% raw %}{{ x }}{% if",
    "A long text {with braces}, {{ two }}, {# and #} more }} of {{{ them ${{",
]
LITERAL = flow(
    "literal",
    """  - id: deal
    do: shop.deal
    with: { note: "${{ inputs.name }}" }
    compensate:
      cancel: shop.undo_deal
      with: { of: "${{ output.id }}", note: "Undone, ${{ steps.deal.note }}, ${{ inputs.name }}" }
  - id: store
    do: records.create
    with: { collection: people, name: "${{ steps.deal.note }}" }
    compensate: { none: It only counts. }
  - id: letter
    do: mail.send
    with: { to: aya@acme.example, template: hello, values: { said: "${{ steps.deal.note }}" } }
    unattended: It only says hello.
    accept_order: It may go first.
    compensate: { none: It only says hello. }
  - id: last
    do: shop.ticket
    with: { note: "${{ steps.deal.note }} | ${{ inputs.name }}" }
    compensate: { none: It only counts. }
""",
    record="person/${{ inputs.name }}",
)


@pytest.mark.parametrize("typed", TYPED)
async def test_g2_what_a_person_typed_is_never_evaluated(
    tmp_path: Path, typed: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    async with opened(tmp_path, LITERAL) as ground:
        (ground.folder / "templates").mkdir()
        (ground.folder / "templates" / "hello.txt").write_text("subject: Hello\n\nYou said: ${{ values.said }}\n")
        (ground.folder / ".env").write_text("SMTP_PASSWORD=do-not-show-this\n")
        ground.shop.script("POST /deal", DROP_AFTER)
        ground.shop.script("POST /ticket", refused(422, f"I do not like {typed}"))
        async with ground.engine() as engine:
            view = await engine.run("literal", "k1", name=typed)
            assert view.status == "compensated"
            assert view.summary == f"I do not like {typed}"
            assert view.record == f"person/{typed}"
            engine.holds(view.run)
            sent = intents(engine.events(view.run), "last")[0].input
            assert sent["note"] == f"{typed} | {typed}"
            stored = [one for one in engine.events(view.run) if isinstance(one, e.CallApplied) and one.step == "store"]
            assert stored[0].output["name"] == typed
        deal, undone = ground.shop.world.effects
        assert (deal.body["note"], undone.body["note"]) == (typed, f"Undone, {typed}, {typed}")
        assert ground.asked("/deal") == 2, "the retry sent the same text again"
        assert f"You said: {typed}" in ground.post.mails[0].text.replace("=\r\n", "").replace("=3D", "=")
        assert run_command(["--project", str(ground.folder), "runs", "show", view.run]) == 0
        shown = capsys.readouterr().out
        assert typed in shown
        assert "49" not in shown.replace(view.run, "").split("do not like")[1][:40]
        assert "do-not-show-this" not in shown


@pytest.mark.parametrize("typed", TYPED)
async def test_g2_it_stays_what_it_was_after_a_restart(tmp_path: Path, typed: str) -> None:
    async with opened(tmp_path, LITERAL, script=SmtpScript(after_dot=["451 later"])) as ground:
        (ground.folder / "templates").mkdir()
        (ground.folder / "templates" / "hello.txt").write_text("subject: Hello\n\nYou said: ${{ values.said }}\n")
        async with ground.engine() as engine:
            run = (await engine.run("literal", "k1", name=typed)).run
            assert engine.store.run(run).status == "waiting"
        async with ground.engine() as engine:
            assert engine.state(run).inputs["name"] == typed
            await _stop(engine, run)
            engine.holds(run)
        assert [effect.body["note"] for effect in ground.shop.world.effects] == [typed, f"Undone, {typed}, {typed}"]


async def _stop(engine: Engine, run: str) -> None:
    assert (await engine.order(run, "stop_compensate")).status == "compensated"
