"""Laws of agents: what its model wants is done in order, one thing at a time, as the flow allows, and stops for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.contract import Json
from runner.core import events as e
from runner.language.flow import Step
from tests.laws.register import law, named
from tests.laws.story import FORWARD, Story


def _agent_of(story: Story, path: str) -> str:
    """The agent that did what stands at this path, or in this scope; empty for none."""
    parts = path.split("/")
    for place, part in enumerate(parts):
        scope = "/".join(parts[:place])
        if part.isdigit() and story.bundle.step(scope).verb == "agent":
            return scope
    return ""


def is_of_agent(story: Story, path: str) -> bool:
    """A step that is an agent, or does something for one."""
    return bool(_agent_of(story, path)) or (path != "" and story.bundle.step(path).verb == "agent")


def _tools(story: Story, agent: str) -> Mapping[str, Step]:
    return {branch.name: branch.steps[-1] for branch in story.bundle.step(agent).branches}


@law("wanted")
def nothing_is_done_that_the_model_did_not_ask_for(story: Story) -> Iterator[str]:
    """Turns and calls follow each other as the model's last answer says; a call is of a tool that the flow gives, with
    what the flow fixes.
    """
    wanted: dict[str, list[Mapping[str, Json]]] = {}
    given: dict[str, Mapping[str, Json]] = {}
    for event in story.events:
        agent = _agent_of(story, event.step) if event.step else ""
        if isinstance(event, e.CallApplied) and event.step.endswith("/model"):
            wanted[agent] = list(event.output["calls"])
        elif isinstance(event, e.ScopeStarted) and event.kind == "turn" and wanted.get(agent):
            yield f"{event.step} asks the model again before all was done that it wanted"
        elif isinstance(event, e.ScopeStarted) and event.kind == "tool":
            first = wanted[agent].pop(0) if wanted.get(agent) else {"tool": ""}
            if first["tool"] != event.name:
                yield f"{event.step} is {event.name}, and the model wanted {first['tool'] or 'nothing'}"
            given[event.step] = event.value
        elif isinstance(event, e.CallIntended) and event.purpose in FORWARD and agent and event.input:
            yield from _as_given(story, agent, event, given)


def _as_given(
    story: Story, agent: str, event: e.CallIntended, given: Mapping[str, Mapping[str, Json]]
) -> Iterator[str]:
    scope, _, name = event.step.rpartition("/")
    tool = _tools(story, agent).get(name)
    if tool is None or scope not in given or given[scope]["wrong"]:
        yield f"{named(event)} was intended, and it is no call that may be made"
        return
    if dict(event.input) != dict(given[scope]["input"]):
        yield f"{named(event)} is given something else than the log says"
    for field in tool.with_:
        if event.input[field] == "mine":
            yield f"{named(event)} has {field} as the model says, and the flow fixes it"


@law("one at a time")
def an_agent_does_one_thing_at_a_time(story: Story) -> Iterator[str]:
    """While a call of an agent is out or in doubt, or an approval of it is open, it begins nothing else."""
    out: dict[str, set[tuple[str, str, int]]] = {}
    asked: dict[str, set[str]] = {}
    for seq, event in story.numbered():
        agent = _agent_of(story, event.step) if event.step else ""
        if not agent:
            continue
        if isinstance(event, e.ScopeStarted) and event.kind in ("turn", "tool"):
            in_doubt = [d for d in story.doubts if _agent_of(story, d.call[0]) == agent and d.covers(seq)]
            if out.get(agent) or asked.get(agent) or in_doubt:
                yield f"{event.step} began while something of {agent} was not settled"
        elif isinstance(event, e.CallIntended) and event.purpose in FORWARD:
            out.setdefault(agent, set()).add(event.call)
        elif isinstance(event, e.OutcomeEvent) and event.purpose in FORWARD:
            out.setdefault(agent, set()).discard(event.call)
        elif isinstance(event, e.ApprovalRequested):
            asked.setdefault(agent, set()).add(event.step)
        elif isinstance(event, e.ApprovalDecided | e.ApprovalLapsed) or (
            isinstance(event, e.TimerFired) and event.timer == "approval"
        ):
            asked.setdefault(agent, set()).discard(event.step)


@law("review")
def an_agent_that_failed_waits_for_a_person(story: Story) -> Iterator[str]:
    """After a failure in an agent nothing of it goes forward, and nothing is made good, before a person has answered."""
    failed: dict[str, tuple[int, str]] = {}
    for seq, event in story.numbered():
        if isinstance(event, e.StepFailed) and not event.goes_on and is_of_agent(story, event.step):
            failed.setdefault(_agent_of(story, event.step) or event.step, (seq, event.step))
        elif isinstance(event, e.StepFailed) and is_of_agent(story, event.step):
            yield f"{event.step} failed, and its agent goes on"
        elif isinstance(event, e.HandOffResolved | e.StopRequested | e.ItemResumed):
            failed.clear()
        elif isinstance(event, e.ScopeStarted) and event.kind in ("turn", "tool", "agent"):
            agent = _agent_of(story, event.step) or event.step
            if agent in failed and failed[agent][0] < seq:
                yield f"{event.step} began although {failed[agent][1]} had failed"
    for closing in story.closings.values():
        event = closing.event
        if not closing.scope and event.cause == "failure" and is_of_agent(story, event.failed_step):
            yield f"the failure of {event.failed_step} closed the run, and nobody was asked"


@law("limits")
def an_agent_keeps_its_limits(story: Story) -> Iterator[str]:
    """No more calls of tools than the flow allows, each time that it begins."""
    called: dict[str, int] = {}
    for event in story.events:
        if isinstance(event, e.ScopeStarted) and event.kind == "agent":
            called[event.step] = 0
        elif isinstance(event, e.ScopeStarted) and event.kind == "tool":
            agent = _agent_of(story, event.step)
            limits = story.bundle.step(agent).limits
            called[agent] = called.get(agent, 0) + 1
            if limits is None or called[agent] > limits.calls:
                yield f"{event.step} is one call too many"
