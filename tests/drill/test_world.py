"""The world answers as its script says, keeps what is true outside, and lets nothing leave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from runner.contract import Action, Json
from runner.core import events as e
from runner.drill.persons import Button, Persons, Plan, has_begun
from runner.drill.world import Answer, CallName, Preparing, Script, World
from runner.engine.simulated import Result, Simulation
from runner.engine.starting import Wish, new_run
from runner.language.bundle import Bundle
from runner.language.project import Project
from runner.language.samples import sample_output
from runner.outside import ProjectOutside
from runner.people.operations import Order
from tests.flows.stage import kinds

DEMO = Path(__file__).parents[2] / "runner" / "demo" / "project"
INPUTS = {"name": "Aya Sato", "email": "aya@customer.test", "plan": "pro", "amount": 12000}
LOST = Answer(result="unknown")


@pytest.fixture(scope="module")
def stage() -> tuple[Bundle, Preparing]:
    project = Project.open(DEMO, kinds=kinds())
    return project.bundle("signup_to_paid"), Preparing(ProjectOutside(project).present)


def simulate(
    stage: tuple[Bundle, Preparing], script: Script | None = None, plan: Plan | None = None
) -> tuple[World, Result]:
    bundle, preparing = stage
    _, started = new_run(bundle, Wish(given=INPUTS, starter="person:me"), now=1_788_220_800_000)
    world = World(bundle, preparing, script)
    run = Simulation(bundle, world, started, people=Persons(plan), observe=world.watch)
    return world, run.run()


def calls(world: World) -> list[tuple[str, str]]:
    return [(sent.intent.step, sent.intent.purpose) for sent in world.sent]


FORWARD = [
    ("plan", "read"), ("contact", "find"), ("contact", "do"), ("task", "do"), ("welcome", "do"), ("paid", "do"),
]  # fmt: skip


def test_a_silent_script_lets_the_flow_come_to_its_end(stage: tuple[Bundle, Preparing]) -> None:
    world, result = simulate(stage)
    assert result.state.status == "succeeded"
    assert calls(world) == FORWARD
    assert [each.step for each in world.landed] == ["contact", "task", "welcome", "paid"]
    assert world.sent[2].input["email"] == "aya@customer.test"
    assert "aya@customer.test" in str(world.sent[2].request.body)
    assert result.state.steps["contact"].output["email"] == "aya@customer.test"


def test_a_refusal_is_made_good_newest_first(stage: tuple[Bundle, Preparing]) -> None:
    world, result = simulate(stage, {CallName(step="paid"): [Answer(result="refused", summary="Declined.")]})
    assert result.state.status == "compensated"
    assert calls(world)[6:] == [("welcome", "undo"), ("task", "undo"), ("contact", "undo")]


@pytest.mark.parametrize(("happened", "times"), [(True, 1), (False, 2)])
def test_what_was_lost_is_looked_up(stage: tuple[Bundle, Preparing], happened: bool, times: int) -> None:
    world, result = simulate(stage, {CallName(step="paid"): [Answer(result="unknown", happened=happened)]})
    assert result.state.status == "succeeded"
    assert calls(world).count(("paid", "do")) == times
    assert [each.step for each in world.landed].count("paid") == 1


def test_a_key_that_the_service_knows_makes_no_second_effect(stage: tuple[Bundle, Preparing]) -> None:
    world, _ = simulate(stage, {CallName(step="task"): [Answer(result="unknown", happened=True)] * 2})
    assert calls(world).count(("task", "do")) == 3
    assert [each.step for each in world.landed].count("task") == 1


def test_an_answer_that_stays_is_given_for_ever(stage: tuple[Bundle, Preparing]) -> None:
    world, result = simulate(stage, {CallName(step="plan", purpose="read"): [Answer(result="not_sent", stays=True)]})
    assert result.state.status == "failed"
    assert calls(world) == [("plan", "read")] * 5


def test_what_the_script_says_and_nobody_asks_is_told(stage: tuple[Bundle, Preparing]) -> None:
    world, _ = simulate(stage, {CallName(step="paid", item="INV-7"): [LOST], CallName(step="paid"): [Answer()]})
    assert world.unasked == {CallName(step="paid", item="INV-7")}


def test_a_button_is_pressed_when_its_step_has_begun(stage: tuple[Bundle, Preparing]) -> None:
    stop = Button(order=Order(action="stop_compensate", by="person:me"), when=has_begun("task"))
    world, result = simulate(stage, plan=Plan(buttons=[stop]))
    assert result.state.status == "compensated"
    assert calls(world)[3:] == [("task", "do"), ("task", "undo"), ("contact", "undo")]


def test_the_owner_answers_as_planned(stage: tuple[Bundle, Preparing]) -> None:
    plan = Plan(answers={"welcome": [Order(action="did_not", by="person:me")]})
    world, result = simulate(stage, {CallName(step="welcome"): [LOST]}, plan)
    assert result.state.status == "succeeded"
    assert calls(world).count(("welcome", "do")) == 2
    assert any(isinstance(event, e.HandOffResolved) for event in result.events)


ACTION = Action(
    name="change", input={"id": "text", "status": "text", "to": {"list": "email"}, "amount": "number"},
    output={"id": "text", "status": "yes_no", "to": "email", "amount": "number or empty"}, fan_out="to",
)  # fmt: skip


@pytest.mark.parametrize(
    ("action", "given", "answer"),
    [
        (
            ACTION,
            {"id": "C-7", "status": "new", "to": ["a@b.test"], "amount": 5},
            {"id": "C-7", "status": True, "to": "draft@example.test", "amount": 5},
        ),
        (Action(name="make", output={"id": "text"}, sample={"id": "s-1", "more": 1}), {"id": "x"}, {"id": "s-1", "more": 1}),
        (
            Action(name="keep", input={"table": "text"}, output={"id": "text"}, open_input=True, open_output=True),
            {"table": "t", "colour": "red", "empty": None},
            {"id": "draft id", "colour": "red"},
        ),
    ],
)  # fmt: skip
def test_a_sample_says_what_was_given(action: Action, given: Mapping[str, Json], answer: Mapping[str, Json]) -> None:
    assert sample_output(action, given) == answer
