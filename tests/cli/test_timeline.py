"""A run as a stranger reads it: the whole page of many kinds of runs, held word for word in golden/*.txt.

To change a page, run with WRITE_GOLDEN=1, read what has changed as somebody who knows nothing of Amends, and
commit it.
"""

from __future__ import annotations

import importlib
import io
import os
import shlex
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console

from runner.cli import page
from runner.cli.timeline import as_json, brief, full, timeline
from runner.cli.watching import Watcher, under_way
from runner.contract import canonical
from runner.core import events as e
from runner.core.fold import fold_all
from runner.people.operations import Order
from runner.telling import words
from runner.telling.story import Story
from tests.cli.scripted import INPUTS, START, Play, bundle_of, found, not_sent, refused, unknown

GOLDEN = Path(__file__).parent / "golden"
MINUTE = 60_000

SMALL = """\
flow: small
title: A parcel is asked for and picked up
owner: team:depot
mode: live
run_key: ${{ trigger.id }}
inputs: { name: text }
steps:
  - id: order
    do: tasks.create
    with: { title: "Parcel for ${{ inputs.name }}" }
    compensate: cancel
  - id: label
    do: tasks.create
    when: ${{ inputs.name == "Nobody" }}
    with: { title: Label }
    compensate: { none: A label harms nobody. }
  - id: night
    wait: 14 hours
  - id: look
    hand_off: person:me
    say: Is the address of ${{ inputs.name }} right?
    show: { name: "${{ inputs.name }}" }
  - id: pick_up
    do: tasks.create
    with: { title: "Pick up for ${{ inputs.name }}" }
    rule: Never pick up twice.
    compensate: { none: The driver is told by phone. }
"""
REVIEW = SMALL.replace("steps:", "on_failure: review\nsteps:", 1)
WHO = {"name": "Ben"}
TOLD = """\
flow: small
title: Everybody on the list is told
owner: team:depot
mode: live
run_key: ${{ trigger.id }}
inputs: { name: text }
steps:
  - id: told
    do: mail.send
    with: { to: [aya@customer.test, ben@customer.test], subject: Closed today, text: "Dear ${{ inputs.name }}" }
    unattended: They asked for it.
    compensate: { none: A mail stays. }
"""
BRANCHES = """\
flow: small
title: An order is looked at, written down and told
owner: team:depot
mode: live
run_key: ${{ trigger.id }}
inputs: { amount: integer }
steps:
  - id: size
    choose:
      - when: ${{ inputs.amount > 100000 }}
        steps:
          - id: big
            hand_off: person:me
      - when: ${{ inputs.amount > 1000 }}
        steps:
          - id: check
            read: billing.get_plan
            with: { code: basic }
      - steps:
          - { id: nap, wait: 1 min }
          - { id: look, hand_off: person:me }
          - { id: again, hand_off: person:me }
          - { id: once_more, hand_off: person:me }
  - id: both
    parallel:
      stock:
        - id: hold
          do: tasks.create
          with: { title: Hold it }
          compensate: cancel
        - id: rest
          choose:
            - when: ${{ inputs.amount < 0 }}
              steps: [{ id: never, wait: 1 min }]
      score:
        - id: ask
          do: tasks.create
          with: { title: Ask about it }
          compensate: cancel
        - id: tell
          do: mail.send
          with: { to: ben@customer.test, subject: Hello, text: Hello }
          unattended: He asked for it.
          accept_order: It harms nobody.
          compensate: { none: A mail stays. }
  - id: last
    do: tasks.create
    with: { title: Pack it }
    compensate: { none: It harms nobody. }
"""


def me(action: str, **words: str) -> Order:
    return Order(action=action, by="person:me", **words)  # type: ignore[arg-type]


def small(text: str = SMALL, **words: object) -> Play:
    return Play(bundle=bundle_of(text), inputs=WHO, **words).run()  # type: ignore[arg-type]


def demo(**words: object) -> Play:
    return Play(bundle=bundle_of(), **words).run()  # type: ignore[arg-type]


def branches(amount: int = 5_000, **words: object) -> Play:
    bundle = bundle_of(BRANCHES)
    return Play(bundle=bundle, inputs={"amount": amount}, **words).run()  # type: ignore[arg-type]


DECLINED = {("paid", "do"): [refused("The card was declined.")]}
BUSY = refused("The service answered 503.", "unavailable")

PLAYS: dict[str, Callable[[], Play]] = {
    "succeeded": lambda: demo(key="S-17"),
    "compensated": lambda: demo(script=DECLINED),
    "looked_up": lambda: demo(
        script={("paid", "do"): [unknown()], ("paid", "lookup"): [not_sent(), found("P-9")]}
    ),
    "found": lambda: demo(script={("contact", "find"): [found("C-7")]}),
    "retried": lambda: demo(script={("task", "do"): [BUSY, unknown()]}),
    "retrying": lambda: demo(script={("task", "do"): [BUSY, unknown()]}, until=START + 500),
    "gave_up": lambda: demo(script={("plan", "read"): [not_sent()] * 5}),
    "did_it_happen": lambda: demo(script={("welcome", "do"): [unknown()]}),
    "it_happened": lambda: demo(
        script={("welcome", "do"): [unknown()]},
        orders=[me("acknowledge"), me("happened", reason="The customer has it.", reference="mail 4711")],
    ),
    "it_did_not": lambda: demo(script={("welcome", "do"): [unknown()]}, orders=[me("did_not")]),
    "compensation_failed": lambda: demo(
        script={**DECLINED, ("task", "undo"): [refused("The to-do is locked.")]}
    ),
    "settled_by_hand": lambda: demo(
        script={**DECLINED, ("task", "undo"): [refused("The to-do is locked.")]},
        orders=[me("done", reference="Ticket 17", reason="Tom closed it")],
    ),
    "finance_decides": lambda: demo(
        script={("paid", "do"): [unknown()], ("paid", "lookup"): [found("P-9")]}, until=START + 1_000,
        orders=[me("stop_compensate", reason="The customer called.")],
    ),
    "taken_over": lambda: demo(
        script={**DECLINED, ("task", "undo"): [refused("The to-do is locked.")]},
        orders=[me("take_over", reason="I ask Tom to close it.")],
    ),
    "taken_over_in_doubt": lambda: demo(
        script={("welcome", "do"): [unknown()]}, orders=[me("take_over", reason="I write to her myself.")]
    ),
    "drafted": lambda: demo(mode="draft"),
    "waiting": lambda: small(until=START + MINUTE),
    "asked_by_flow": small,
    "stopped": lambda: small(orders=[me("stop", reason="Ordered by mistake.")]),
    "stopped_compensating": lambda: small(orders=[me("compensate", reason="Ordered by mistake.")]),
    "paused": lambda: small(until=START + MINUTE, orders=[me("pause", reason="Stocktaking.")]),
    "reviewed": lambda: small(
        REVIEW, orders=[me("go_on")], script={("pick_up", "do"): [refused("No driver is free.")]}
    ),
    "skipped": lambda: small(
        REVIEW, script={("pick_up", "do"): [refused("No driver is free.")]},
        orders=[me("go_on"), me("skip", reason="The customer comes by.")],
    ),
    "branches": branches,
    "branches_fail": lambda: branches(script={("hold", "do"): [refused("There is none left.")]}),
    "branches_in_doubt": lambda: branches(script={("tell", "do"): [unknown()], ("ask", "do"): [BUSY]}),
    "not_looked_up": lambda: demo(
        script={("contact", "do"): [unknown()], ("contact", "lookup"): [not_sent()] * 9}
    ),
    "looked_up_again": lambda: demo(
        script={("contact", "do"): [unknown()], ("contact", "lookup"): [*[not_sent()] * 5, found("C-9")]},
        orders=[me("again")],
    ),
    "told_to_several": lambda: small(TOLD, script={("told", "do"): [unknown()]}),
    "doubt_while_making_good": lambda: demo(
        script={("welcome", "do"): [unknown()]}, orders=[me("compensate", reason="She called.")]
    ),
    "doubt_after_a_stop": lambda: demo(
        script={("welcome", "do"): [unknown()]}, orders=[me("stop", reason="She called.")]
    ),
    "japanese": lambda: demo(
        inputs={**INPUTS, "name": "佐藤 綾", "email": "aya@customer.test"},
        script={("paid", "do"): [refused("カードが拒否されました。別のカードでもう一度お試しください。")]},
    ),
    "hostile": lambda: demo(
        script={("paid", "do"): [refused("\x1b[31mred\x1b[0m\r\nno \u202esdrawkcab [bold]x[/bold]")]}
    ),
}  # fmt: skip

ZONES = {"japanese": "Asia/Tokyo", "asked_by_flow": "America/New_York"}


def console(encoding: str = "utf-8") -> Console:
    kept = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    return Console(file=kept, width=80, color_system=None, highlight=False, markup=False, emoji=False)


def printed(story: Story, how: Callable[[Story, Console], object] = full, encoding: str = "utf-8") -> str:
    out = console(encoding)
    page.show(how(story, out), out=out)  # type: ignore[arg-type]
    out.file.flush()
    return out.file.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("name", PLAYS)
def test_a_page_reads_as_it_should(name: str) -> None:
    story = PLAYS[name]().story(ZONES.get(name, "UTC"))
    text = printed(story)
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("WRITE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
    assert "exactly once" not in text
    assert canonical(as_json(story)), "the same is there for machines"


def test_no_page_is_held_that_no_play_makes() -> None:
    assert {file.stem for file in GOLDEN.glob("*.txt")} == set(PLAYS)


# --- while it goes ----------------------------------------------------------------------------------------------------


def until(play: Play, rows: int) -> Story:
    """The story after that many rows of the log."""
    state = fold_all(row.event for row in play.rows[:rows] if row.event is not None)
    part = Play(bundle=play.bundle, state=state, now=play.rows[rows - 1].at)
    part.rows = play.rows[:rows]
    return part.story()


LIVE = {
    "asking": """\
Run 260829-k3x9m2qa running
10:40:00  ✓  plan     Reads a plan with its price: read.
10:40:00  …  contact  Makes a contact …
          ·  task     Makes a to-do for one of us
          ·  welcome  Sends a mail
          ·  paid     Takes a payment
""",
    "retrying": """\
Run 260829-k3x9m2qa waiting
10:40:00  ✓  plan     Reads a plan with its price: read.
10:40:00  ✓  contact  Makes a contact: done, C-1.
10:40:00  …  task     Makes a to-do for one of us: not available. The service answered 503. It is t…
          ·  welcome  Sends a mail
          ·  paid     Takes a payment
""",
    "waiting": """\
Run 260829-k3x9m2qa waiting
08-29 10:40:00  ✓  order    Makes a to-do for one of us: done, C-1.
08-29 10:40:00  ·  label    Left out: its condition said no.
08-29 10:40:00  …  night    Waits. It goes on at 08-30 00:40:00.
                ·  look     Hands over to a person
                ·  pick_up  Makes a to-do for one of us
(Ctrl-C leaves; it goes on with `amends serve`)
""",
}


AHEAD = [
    ("hold", "do", """\
Run 260829-k3x9m2qa running
10:40:00  ·  size   Chosen: inputs.amount > 1000. Left out: big, nap, look, again and 1 more.
10:40:00  ✓  check  Reads a plan with its price: read.
10:40:00  ·  both   At once: stock, score.
10:40:00  …  hold   [stock] Makes a to-do for one of us …
          ·  rest   [stock] Chooses how to go on
          ·  ask    [score] Makes a to-do for one of us
          ·  tell   [score] Sends a mail
          ·  last   Makes a to-do for one of us
"""),
    ("check", "read", """\
Run 260829-k3x9m2qa running
10:40:00  ·  size   Chosen: inputs.amount > 1000. Left out: big, nap, look, again and 1 more.
10:40:00  …  check  Reads a plan with its price …
          ·  both   At once: stock, score
          ·  hold   [stock] Makes a to-do for one of us
          ·  rest   [stock] Chooses how to go on
          ·  ask    [score] Makes a to-do for one of us
          ·  tell   [score] Sends a mail
          ·  last   Makes a to-do for one of us
"""),
]  # fmt: skip


@pytest.mark.parametrize(("step", "purpose", "page_"), AHEAD)
def test_branches_while_they_go(step: str, purpose: str, page_: str) -> None:
    play = PLAYS["branches"]()
    place = next(
        row.seq for row in play.rows if isinstance(row.event, e.CallIntended) and row.event.call == (step, purpose, 0)
    )
    story, out = until(play, place), console()
    out.width = 100
    page.show(under_way(story, out), out=out)
    out.file.flush()
    assert out.file.buffer.getvalue().decode() == page_  # type: ignore[attr-defined]


def asking() -> Story:
    play = PLAYS["succeeded"]()
    call = ("contact", "do", 0)
    return until(
        play, next(row.seq for row in play.rows if isinstance(row.event, e.CallIntended) and row.event.call == call)
    )


@pytest.mark.parametrize("name", LIVE)
def test_a_run_while_it_goes(name: str) -> None:
    story = asking() if name == "asking" else PLAYS[name]().story()
    out = console()
    out.width = 100
    page.show(under_way(story, out), out=out)
    out.file.flush()
    assert out.file.buffer.getvalue().decode() == LIVE[name]  # type: ignore[attr-defined]


def test_a_long_run_is_shown_from_its_end_where_the_terminal_is_low() -> None:
    out = console()
    out.height = 8
    page.show(under_way(PLAYS["compensation_failed"]().story(), out), out=out)
    out.file.flush()
    told = out.file.buffer.getvalue().decode().splitlines()  # type: ignore[attr-defined]
    assert len(told) <= 8
    assert "Handed to person:me (h1)" in "".join(told)


def test_plain_lines_are_appended_and_not_said_twice(capsys: pytest.CaptureFixture[str]) -> None:
    play = PLAYS["retried"]()
    seen = [until(play, end) for end in range(1, len(play.rows) + 1)]
    told = iter(seen)
    watcher = Watcher(lambda: next(told), console())
    with watcher.showing():
        for _ in seen:
            watcher.turn()
    assert (
        capsys.readouterr().out
        == """\
10:40:00 ✓ plan: Reads a plan with its price: read.
10:40:00 ✓ contact: Makes a contact: done, C-1.
10:40:00 … task: Makes a to-do for one of us: not available. The service answered 503. It is tried again at 10:40:00.
10:40:00 ? task: Makes a to-do for one of us: 2 tries, the last: no clear answer. The connection broke before an answer came. It is tried again at 10:40:01.
10:40:01 ✓ task: Makes a to-do for one of us: done, at try 3, C-2.
10:40:01 ✓ welcome: Sends a mail: done, S-1.
10:40:01 ✓ paid: Takes a payment: done, M-1.
10:40:01 ✓ Succeeded.
"""
    )


def test_a_refusal_that_ends_a_step_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    play = PLAYS["compensated"]()
    seen = [until(play, end) for end in range(1, len(play.rows) + 1)]
    told = iter(seen)
    watcher = Watcher(lambda: next(told), console())
    for number in range(len(seen)):
        watcher.turn(is_last=number == len(seen) - 1)
    said = [line for line in capsys.readouterr().out.splitlines() if "The card was declined." in line]
    assert said == ["10:40:00 ✗ paid: Takes a payment: refused. The card was declined."]


def test_a_call_that_is_out_is_told() -> None:
    assert "Status    running: step contact was called, and no answer has come yet\n" in printed(asking())


def test_a_paused_run_that_asks_says_that_the_rest_is_paused() -> None:
    story = PLAYS["did_it_happen"]().story()
    view = replace(story.view, status="paused")
    paused = replace(story, view=view, state=replace(story.state, is_paused=True))
    assert "The rest of the run is paused; 1 question to answer:" in printed(paused)
    goes_on = replace(story, view=replace(story.view, status="running"))
    assert "The rest of the run goes on; 1 question to answer:" in printed(goes_on)


# --- details ------------------------------------------------------------------------------------------------------------


def test_a_terminal_without_unicode_gets_signs_it_can_show() -> None:
    text = printed(PLAYS["compensated"]().story(), brief, "ascii")
    assert "x  paid" in text
    assert "<  task" in text


def test_what_a_service_says_cannot_steer_the_terminal() -> None:
    story = PLAYS["hostile"]().story()
    text = printed(story)
    assert not {sign for sign in text if sign != "\n" and unicodedata.category(sign) in ("Cc", "Cf")}


def test_an_erased_entry_is_told() -> None:
    play = PLAYS["succeeded"]()
    play.rows = [
        replace(row, event=None) if row.type == "CallApplied" and row.step == "task" else row for row in play.rows
    ]
    assert "The content of this entry (CallApplied) was erased." in printed(play.story())


def test_a_draft_says_so_in_its_last_line() -> None:
    story = PLAYS["drafted"]().story()
    for how in (full, brief):
        assert printed(story, how).rstrip("\n").split("\n")[-1] == "DRAFT: nothing was sent"


def test_a_timeline_of_five_steps_fits_fifteen_lines() -> None:
    for name, play in PLAYS.items():
        out = console()
        story = play().story()
        page.show(timeline(story, out), out=out)
        out.file.flush()
        lines = out.file.buffer.getvalue().decode().splitlines()  # type: ignore[attr-defined]
        assert len(lines) <= (15 if name != "drafted" else 20), (name, lines)


def test_every_command_that_is_offered_can_be_typed() -> None:
    """Each command of a page is taken apart by the real command line, up to where it would act."""
    offered: set[str] = set()
    for play in PLAYS.values():
        told = as_json(play().story())
        offered.update(told["can_do"].values())
        for question in told["questions"]:
            offered.update(question["choices"].values())
    assert len(offered) >= 12
    for command in offered:
        _, noun, *rest = shlex.split(command)
        commands = typer.main.get_command(importlib.import_module(f"runner.cli.{noun}").COMMANDS)
        sub = commands.commands[rest[0]]  # type: ignore[attr-defined]
        sub.make_context(rest[0], rest[1:])


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_command_to_type_is_whole_on_a_line_of_its_own(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the program has a long place no command fits 80 columns; cut, opposite answers were the same line."""
    monkeypatch.setattr(words, "PROGRAM", f"/home/{'a-rather-long-name/' * 4}.venv/bin/amends")
    told = set()
    for play in PLAYS.values():
        story = play().story()
        kept = io.StringIO()
        out = Console(file=kept, width=80, force_terminal=is_terminal, color_system=None, highlight=False, markup=False)
        page.show(full(story, out), out=out)
        lines = [line.strip() for line in kept.getvalue().splitlines()]
        told_now = as_json(story)
        shown = [command for question in told_now["questions"] for command in question["choices"].values()]
        for command in (*told_now["can_do"].values(), *shown):
            assert command in lines, command
            told.add(command)
    assert len(told) >= 12


def test_on_a_terminal_the_list_is_shown_and_taken_away_again() -> None:
    story = PLAYS["compensation_failed"]().story()
    shown = io.StringIO()
    out = Console(file=shown, width=100, force_terminal=True, color_system=None, highlight=False, markup=False)
    watcher = Watcher(lambda: story, out)
    with watcher.showing():
        watcher.turn()
    assert "Handed to person:me (h1)" in shown.getvalue()
    assert shown.getvalue().endswith("\x1b[1A\x1b[2K"), "the lines are erased"
