"""Whoever sends the events that runs wait for."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runner.contract import Json
from runner.core import events as e
from runner.core.state import State, StepState
from runner.engine.simulated import MemoryLog


@dataclass(kw_only=True)
class Sent:
    """One event of somebody else's. `fed_to` is the path that got it."""

    id: str
    name: str
    data: Mapping[str, Json]
    fed_to: str = ""


class Senders:
    """Whoever sends events: too early, in time, late, twice, never. Kept until somebody waits, and fed to one waiter.

    What a run emits itself comes here too. That a wait which is over is not fed is the store's promise, kept here.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.is_calm = False
        self.sent: list[Sent] = []
        self._due: dict[str, int] = {}
        self._read = 0

    def times(self, state: State, now: int) -> Iterator[int]:
        """When an event comes for each step that waits; never for some."""
        for path, step in state.steps.items():
            if step.event:
                yield from self._comes(path, step, now)

    def _comes(self, path: str, step: StepState, now: int) -> Iterator[int]:
        name = f"{path} {step.due}"
        if name not in self._due:
            delay = self.rng.choice([0, 0, 5_000, 1_000_000, 10**8, 0, -1])
            self._due[name] = now + delay if delay >= 0 else 0
            if delay == 0:
                self._send(step)
            if self.rng.random() < 0.2:
                self._send(step)
        if self.is_calm and self._due[name] == 0:
            self._due[name] = now + 1_000
        if self._due[name]:
            yield self._due[name]

    def _send(self, step: StepState) -> None:
        data = {**step.match, "more": len(self.sent)}
        self.sent.append(Sent(id=f"e{len(self.sent)}", name=step.event, data=data))

    def feed(self, log: MemoryLog, state: State, now: int) -> list[e.Event]:
        """What reaches the run now."""
        for event in log.events[self._read :]:
            if isinstance(event, e.Emitted):
                self.sent.append(Sent(id=event.id_in("r1"), name=event.event, data=event.data))
        self._read = log.seq
        for path, step in state.steps.items():
            if not step.event:
                continue
            if any(0 < due <= now for due in self._comes(path, step, now)):
                self._send(step)
                self._due[f"{path} {step.due}"] = 0
            for sent in self.sent:
                fits = sent.name == step.event and all(sent.data.get(name) == step.match[name] for name in step.match)
                if fits and not sent.fed_to:
                    sent.fed_to = path
                    return [e.EventReceived(at=now, step=path, event=sent.name, event_id=sent.id, data=sent.data)]
        return []
