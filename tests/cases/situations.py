"""How a real run comes into each situation of the operators' table, and what follows from each button there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runner.contract import Json
from tests.cases.ground import connector, flow
from tests.support.says import AS_USUAL, DROP_AFTER, HELD, Say, refused

RESERVE = """  - id: reserve
    do: shop.reserve
    with: { note: x }
    compensate: { cancel: shop.release, with: { note: x, of: "${{ output.id }}" } }
"""
BY_HAND = RESERVE.replace(
    '{ cancel: shop.release, with: { note: x, of: "${{ output.id }}" } }', "{ hand_off: person:me }"
)
ONCE = RESERVE.replace("shop.release", "shop.post")
CHARGE = """  - id: charge
    do: shop.charge
    with: { note: x, amount: 1 }
    compensate: { cancel: shop.refund, with: { note: x, of: "${{ output.id }}" } }
"""
BOOK = CHARGE.replace("charge", "book").replace("refund", "unbook")
FOUND = BOOK.replace("shop.book", "shop.lend").replace("    with:", '    find: { note: "x" }\n    with:', 1)
LEND = """  lend:
    writes: keyed
    key: { header: Idempotency-Key, life: 1 hour }
    input: { note: any, amount: number or empty }
    request: { post: /lend, json: { note: "${{ input.note }}" } }
    output: { id: text, note: any }
    external_id: ${{ response.json.id }}
    find:
      by: [note]
      request: { get: /book, query: { note: "${{ input.note }}" } }
      count: ${{ response.json.items | length }}
      output: { id: "${{ response.json.items[0].id }}", note: "${{ response.json.items[0].note }}" }
      external_id: ${{ response.json.items[0].id }}
"""
SKETCH = """  pencil:
    writes: once
    cannot_undo: It is with them.
    draft: { action: sketch }
    input: { note: any }
    request: { post: /pencil, json: { note: "${{ input.note }}" } }
    output: { id: text }
  sketch:
    writes: keyed
    key: { header: Idempotency-Key, life: 1 hour }
    undo: { action: release, with: { of: "${{ output.id }}", note: gone } }
    input: { note: any }
    request: { post: /sketch, json: { note: "${{ input.note }}" } }
    output: { id: text }
    external_id: ${{ response.json.id }}
"""
PENCIL = """  - id: pencil
    do: shop.pencil
    with: { note: x }
    unattended: It is only a test.
    compensate: { none: It is only a test. }
"""
POST = """  - id: charge
    do: shop.post
    with: { note: x }
    unattended: It only counts.
    accept_order: It may go first.
    compensate: { hand_off: person:me }
"""
NAP = '  - { id: nap, wait: { until: "${{ inputs.until }}" } }\n'
LOOK = "  - { id: look, hand_off: person:me }\n"
PLAN = "  - { id: plan, read: shop.plan, with: { code: pro } }\n"
LAST = "  - id: last\n    do: shop.log\n    with: { note: x }\n    compensate: { none: It only counts. }\n"
LEADS = """people:
  aya: { name: Aya, mail: aya@acme.example }
  tom: { name: Tom, mail: tom@acme.example }
teams:
  leads: { members: [aya, tom] }
"""
GO = """  - id: go
    approve: Log it?
    covers: [last]
    by: team:leads
"""
PAID = '  - { id: paid, wait_for: paid, match: { run: "${{ run.id }}" } }\n'
BY_LEADS = RESERVE.replace('of: "${{ output.id }}" }', 'of: "${{ output.id }}" }, approve_by: team:leads')
LOCKED = RESERVE.replace("    compensate:", "    lock: { record: invoice, id: x }\n    compensate:")
INNER = "  - { id: inner, call: inner, with: {} }\n"


def indented(steps: str, by: int) -> str:
    return "".join(" " * by + line + "\n" for line in steps.splitlines())


def rows(steps: str, more: str = "", names: str = "ab") -> str:
    """A list of items."""
    items = ", ".join(f"{{ n: {name} }}" for name in names)
    return (
        f"  - id: rows\n    each: [{items}]\n    named: ${{{{ item.n }}}}\n"
        f"{more}    steps:\n{indented(steps, 4)}"
    )  # fmt: skip


def beside(one: str, other: str) -> str:
    """Two branches at once."""
    return f"  - id: both\n    parallel:\n      one:\n{indented(one, 6)}      other:\n{indented(other, 6)}"


def only(name: str, one: str, other: str) -> str:
    """In an item: the first for the item of this name, the second for the others."""
    return (
        f"  - id: which\n    choose:\n      - when: ${{{{ item.n == '{name}' }}}}\n        steps:\n{indented(one, 8)}"
        f"      - steps:\n{indented(other, 8)}"
    )


ALONE = "    if_one_fails: continue\n"
AT_ONCE = "    at_once: 3\n"
FAILS = RESERVE + CHARGE
"""What an item does that fails alone: it reserves, and is refused the charge."""
INPUTS = '{ until: { datetime: null, default: "2099-01-01T00:00:00Z" } }'
NO = (refused(),)
LATER = (Say(status=503, json={}, headers={"Retry-After": "60"}, done=False),)
LOST = (DROP_AFTER,) * 4
TWO = Say(status=200, json={"items": [{"id": "book-1", "note": "x"}, {"id": "book-2", "note": "x"}]})
OUTPUT: Mapping[str, Json] = {"id": "seen-1", "note": "x"}
WORDS: Mapping[str, Mapping[str, Json]] = {
    "happened": {"output": OUTPUT}, "skip": {"reason": "Done by phone.", "reference": "T-1"},
    "done": {"reason": "Put right."}, "stands": {"reason": "It may stay."},
}  # fmt: skip
"""What some buttons need."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """A flow, what the shop says, where the run rests then, and what is pressed to come into the situation.

    `status`: what the run's status is when it has come there; `out`: a request that is held there; `follows`: the
    status that each button (or a button and an item: `retry rows/2`) leads to, with `&` where a second press is refused
    because it comes too late or where the first one ended the run, with `~` where the run goes on so that it may be
    (else it is told as being so already). `others`: the steps of another flow that it names.
    """

    steps: str
    follows: Mapping[str, str]
    says: Mapping[str, Sequence[Say]] = field(default_factory=dict)
    status: str = "needs_person"
    out: str = ""
    before: Sequence[str] = ()
    on_failure: str = "compensate"
    record: str = ""
    outputs: str = ""
    mode: str = "live"
    limit: int = 2_000
    others: Mapping[str, str] = field(default_factory=dict)

    def flows(self, name: str) -> list[str]:
        """The flow, and those that it names."""
        others = [flow(other, steps, inputs="{ why: text or empty }") for other, steps in self.others.items()]
        return [self.flow(name), *others]

    def flow(self, name: str) -> str:
        text = flow(
            name, self.steps, inputs=INPUTS, on_failure=self.on_failure, record=self.record, outputs=self.outputs
        )
        return text.replace("mode: live", f"mode: {self.mode}")

    def shop(self) -> str:
        """The connector: a call that is held may take long, one that is looked up must not."""
        return connector(limit=20_000 if self.out else self.limit, more=LEND + SKETCH)


HELD_BACK = {"stop": "stopped", "stop_compensate": "compensated", "compensate": "compensated"}
BACK = {"pause": "paused", **HELD_BACK}
ASKED = {**BACK, "acknowledge": "needs_person", "take_over": "closed"}
DOUBT = {
    "happened": "succeeded", "did_not": "succeeded", "compensate": "needs_person", "take_over": "closed",
    "stop": "needs_person", "stop_compensate": "needs_person",
}  # fmt: skip
ITEM_ASKED = {
    **dict.fromkeys(("stop", "stop_compensate", "compensate", "acknowledge"), "needs_person"),
    "pause": "paused", "take_over": "closed",
}  # fmt: skip
"""What follows while an item's compensation is asked about: that question stays where the rest is made good."""
ITEM_SAID = dict.fromkeys(("retry", "done", "stands"), "needs_person ~")
UNDO = {"pause": "paused", "acknowledge": "needs_person", "take_over": "closed", "stop": "stopped"}
WAYS: Mapping[str, Way] = {
    "queued": Way(
        steps=RESERVE, status="queued",
        follows={"pause": "paused", "stop": "stopped", "stop_compensate": "failed &", "compensate": "failed &"},
    ),
    "calling": Way(
        steps=RESERVE + CHARGE, says={"POST /charge": (HELD,)}, out="/charge", status="running",
        follows={"pause": "paused", **HELD_BACK},
    ),
    "between": Way(
        steps=RESERVE + CHARGE, says={"POST /reserve": (HELD,)}, out="/reserve", status="running",
        follows={"pause": "paused", **HELD_BACK},
    ),
    "waiting": Way(steps=RESERVE + NAP + LAST, status="waiting", follows={"pause": "paused", **HELD_BACK}),
    "retrying": Way(
        steps=RESERVE + CHARGE, says={"POST /charge": LATER}, status="waiting",
        follows={"pause": "paused", **HELD_BACK},
    ),
    "held": Way(
        steps=RESERVE + CHARGE, says={"POST /charge": NO}, on_failure="review", record="customer/aya",
        status="waiting",
        follows={"pause": "paused", "stop": "stopped", "stop_compensate": "failed &", "compensate": "failed &"},
    ),
    "calling in a called flow": Way(
        steps=RESERVE + INNER, others={"inner": CHARGE}, says={"POST /charge": (HELD,)}, out="/charge",
        status="running", follows=BACK,
    ),
    "event": Way(steps=RESERVE + PAID + LAST, status="waiting", follows=BACK),
    "approval": Way(steps=RESERVE + GO + LAST, status="waiting", follows=BACK),
    "paused at an approval": Way(
        steps=RESERVE + GO + LAST, status="paused", before=("pause",), follows={"resume": "waiting", **HELD_BACK}
    ),
    "locked": Way(
        steps=LOCKED + CHARGE, says={"POST /charge": NO}, on_failure="review", status="waiting",
        follows={"pause": "paused", "stop": "stopped", "stop_compensate": "failed &", "compensate": "failed &"},
    ),
    "item_undoing": Way(
        steps=rows(FAILS, ALONE) + LAST, says={"POST /charge": NO, "POST /release": (HELD,)}, out="/release",
        status="running", follows=BACK,
    ),
    "paused": Way(
        steps=RESERVE + NAP + LAST, status="paused", before=("pause",), follows={"resume": "waiting", **HELD_BACK}
    ),
    "paused_undoing": Way(
        steps=RESERVE + CHARGE, says={"POST /charge": NO, "POST /release": LATER}, status="paused", before=("pause",),
        follows={"resume": "compensating", "stop": "stopped"},
    ),
    "failure": Way(
        steps=RESERVE + CHARGE + LAST, says={"POST /charge": NO}, on_failure="review",
        follows={
            "pause": "paused", "retry": "succeeded", "skip": "succeeded", "take_over": "closed",
            "acknowledge": "needs_person", **HELD_BACK,
        },
    ),
    "failure in a called flow": Way(
        steps=RESERVE + INNER + LAST, others={"inner": CHARGE}, says={"POST /charge": NO}, on_failure="review",
        follows={**ASKED, "retry": "succeeded", "skip": "succeeded"},
    ),
    "failure in an item": Way(
        steps=rows(FAILS) + LAST, says={"POST /charge": NO}, on_failure="review",
        follows={**ASKED, "retry rows/1/charge": "succeeded ~", "skip rows/1/charge": "succeeded ~"},
    ),
    "unknown": Way(
        steps=RESERVE + POST + LAST, says={"POST /post": LOST},
        follows={
            "pause": "paused", "happened": "succeeded", "did_not": "succeeded", "compensate": "needs_person",
            "take_over": "closed", "stop": "needs_person", "stop_compensate": "needs_person",
            "acknowledge": "needs_person",
        },
    ),
    "unknown in an item": Way(
        steps=rows(POST, ALONE) + LAST, says={"POST /post": (DROP_AFTER,)},
        follows={**ASKED, **DOUBT, "happened": "succeeded ~", "did_not": "succeeded ~"},
    ),
    "unknown again": Way(
        steps=RESERVE + CHARGE + LAST, says={"POST /charge": LOST},
        follows={
            "pause": "paused", "again": "succeeded", "retry": "succeeded", "happened": "succeeded",
            "did_not": "succeeded", "compensate": "needs_person", "take_over": "closed", "stop": "needs_person",
            "stop_compensate": "needs_person", "acknowledge": "needs_person",
        },
    ),
    "several again": Way(
        steps=RESERVE + BOOK + LAST, says={"POST /book": LOST, "GET /book": (TWO,)}, limit=150,
        follows={
            "pause": "paused", "again": "succeeded", "retry": "succeeded", "happened": "succeeded", "did_not": "succeeded", "compensate": "needs_person",
            "take_over": "closed", "stop": "needs_person", "stop_compensate": "needs_person",
            "acknowledge": "needs_person",
        },
    ),
    "several": Way(
        steps=RESERVE + FOUND + LAST, says={"GET /book": (TWO,)},
        follows={
            "pause": "paused", "happened": "succeeded", "did_not": "succeeded", "compensate": "compensated",
            "take_over": "closed", "stop": "stopped", "stop_compensate": "compensated", "acknowledge": "needs_person",
        },
    ),
    "step": Way(
        steps=RESERVE + LOOK + LAST,
        follows={
            "pause": "paused", "go_on": "succeeded", "close": "closed", "acknowledge": "needs_person", **HELD_BACK,
        },
    ),
    "late": Way(
        steps=RESERVE + PAID.replace(" }\n", ", within: 20 ms, if_late: hand_off }\n") + LAST,
        follows={**BACK, "go_on": "succeeded", "close": "closed", "acknowledge": "needs_person"},
    ),
    "set_aside": Way(
        steps=rows(FAILS, ALONE, "abc") + LAST, says={"POST /charge": (AS_USUAL, *NO, *NO)},
        follows={
            **ASKED, "retry": "succeeded", "skip": "closed", "retry rows/2": "needs_person ~",
            "skip rows/3": "needs_person",
        },
    ),
    "item_undo": Way(
        steps=rows(FAILS, ALONE) + LAST, says={"POST /charge": NO, "POST /release": NO},
        follows={**ITEM_ASKED, **ITEM_SAID, "stop": "stopped"},
    ),
    "item_undo in doubt": Way(
        steps=rows(ONCE + CHARGE, ALONE) + LAST, says={"POST /charge": NO, "POST /post": LOST},
        follows={
            **ITEM_ASKED, "happened": "needs_person ~", "did_not": "needs_person ~", "done": "needs_person ~",
            "stands": "needs_person ~",
        },
    ),
    "item_undo of a call in doubt": Way(
        steps=rows(beside(POST, RESERVE), ALONE) + LAST, says={"POST /reserve": NO, "POST /post": (DROP_AFTER,)},
        follows={**ITEM_ASKED, "happened": "needs_person ~", "did_not": "needs_person ~", "go_on": "needs_person ~"},
    ),
    "beside": Way(
        steps=rows(only("a", POST, RESERVE), AT_ONCE) + LAST, says={"POST /post": LOST, "POST /reserve": (HELD,) * 2},
        out="/reserve", status="running",
        follows={**ASKED, **DOUBT, "happened": "succeeded ~", "did_not": "succeeded ~"},
    ),
    "beside again": Way(
        steps=beside(CHARGE, RESERVE) + LAST, says={"POST /charge": LOST, "POST /reserve": (HELD,)}, out="/reserve",
        status="running", follows={**ASKED, **DOUBT, "again": "succeeded", "retry": "succeeded"},
    ),
    "beside a hand-over": Way(
        steps=beside(LOOK, RESERVE) + LAST, says={"POST /reserve": (HELD,)}, out="/reserve", status="running",
        follows={**BACK, "go_on": "succeeded", "close": "closed", "acknowledge": "needs_person"},
    ),
    "beside an item's compensation": Way(
        steps=beside(rows(FAILS, ALONE), BOOK) + LAST, out="/book", status="running",
        says={"POST /charge": NO, "POST /release": NO, "POST /book": (HELD,)},
        follows={**ITEM_ASKED, **ITEM_SAID, "stop": "stopped"},
    ),
    "outputs": Way(
        steps=RESERVE, outputs='{ n: "${{ steps.reserve.note + 1 }}" }',
        follows={
            "pause": "paused", "go_on": "succeeded", "take_over": "closed", "acknowledge": "needs_person",
            **HELD_BACK,
        },
    ),
    "erased": Way(
        steps=RESERVE + NAP + LAST, before=("erase",),
        follows={"take_over": "closed", "acknowledge": "needs_person"},
    ),
    "undoing": Way(
        steps=RESERVE + CHARGE, says={"POST /charge": NO, "POST /release": (HELD,)}, out="/release",
        status="compensating", follows={"pause": "paused", "stop": "stopped"},
    ),
    "undo_retrying": Way(
        steps=RESERVE + CHARGE, says={"POST /charge": NO, "POST /release": LATER}, status="compensating",
        follows={"pause": "paused", "stop": "stopped"},
    ),
    "undo_approval": Way(
        steps=BY_LEADS + CHARGE, says={"POST /charge": NO}, status="compensating",
        follows={"pause": "paused", "stop": "stopped"},
    ),
    "undoing_items": Way(
        steps=rows(RESERVE) + CHARGE, says={"POST /charge": NO, "POST /release": (HELD,)}, out="/release",
        status="compensating", follows={"pause": "paused", "stop": "stopped"},
    ),
    "beside_undoing": Way(
        steps=RESERVE + BY_HAND.replace("id: reserve", "id: again") + CHARGE, out="/release", status="compensating",
        says={"POST /charge": NO, "POST /release": (HELD,)}, follows={**UNDO, "done": "closed", "stands": "closed"},
    ),
    "beside_undoing in doubt": Way(
        steps=RESERVE + ONCE.replace("id: reserve", "id: again") + CHARGE, out="/release", status="compensating",
        says={"POST /charge": NO, "POST /post": LOST, "POST /release": (HELD,)},
        follows={
            **UNDO, "stop": "needs_person", "happened": "compensated", "did_not": "compensated", "done": "closed",
            "stands": "closed",
        },
    ),
    "then_run": Way(
        steps=RESERVE + CHARGE, others={"after": PLAN}, says={"POST /charge": NO},
        on_failure='{ do: compensate, then_run: after, with: { why: "No. ${{ failure.summary | number }}" } }',
        follows={**UNDO, "go_on": "compensated"},
    ),
    "cleaning": Way(
        steps=RESERVE + NAP + LAST, says={"POST /release": LATER}, status="compensating",
        before=("stop", "compensate"), follows={"pause": "paused", "stop": "stopped"},
    ),
    "doubt_undoing": Way(
        steps=RESERVE + POST + LAST, says={"POST /post": LOST}, before=("stop_compensate",),
        follows={
            "pause": "paused", "stop": "needs_person", "happened": "needs_person &", "did_not": "compensated",
            "go_on": "needs_person &", "take_over": "closed", "acknowledge": "needs_person",
        },
    ),
    "undo_unknown": Way(
        steps=ONCE + CHARGE, says={"POST /charge": NO, "POST /post": LOST},
        follows={
            "pause": "paused", "stop": "needs_person", "happened": "compensated", "did_not": "compensated",
            "done": "closed", "stands": "closed", "take_over": "closed", "acknowledge": "needs_person",
        },
    ),
    "undo_unknown again": Way(
        steps=RESERVE + CHARGE, says={"POST /charge": NO, "POST /release": LOST},
        follows={
            "pause": "paused", "again": "compensated", "retry": "compensated", "stop": "needs_person", "happened": "compensated", "did_not": "compensated",
            "done": "closed", "stands": "closed", "take_over": "closed", "acknowledge": "needs_person",
        },
    ),
    "doubt_undoing again": Way(
        steps=RESERVE + BOOK + LAST, says={"POST /book": LOST, "GET /book": (TWO,)}, limit=150,
        before=("stop_compensate",),
        follows={
            "pause": "paused", "stop": "needs_person", "again": "compensated", "retry": "compensated",
            "happened": "compensated", "did_not": "compensated", "go_on": "needs_person &", "take_over": "closed",
            "acknowledge": "needs_person",
        },
    ),
    "undo_failed": Way(
        steps=RESERVE + CHARGE, says={"POST /charge": NO, "POST /release": NO},
        follows={
            "pause": "paused", "stop": "stopped", "retry": "compensated", "done": "closed", "stands": "closed",
            "take_over": "closed", "acknowledge": "needs_person",
        },
    ),
    "undo_failed of an item that had ended": Way(
        steps=rows(RESERVE) + CHARGE, says={"POST /charge": NO, "POST /release": NO},
        follows={**UNDO, "retry": "compensated ~", "done": "closed ~", "stands": "closed ~"},
    ),
    "undo_by_hand": Way(
        steps=BY_HAND + CHARGE, says={"POST /charge": NO},
        follows={
            "pause": "paused", "stop": "stopped", "done": "closed", "stands": "closed", "take_over": "closed",
            "acknowledge": "needs_person",
        },
    ),
    "stopping": Way(
        steps=RESERVE + CHARGE, says={"POST /charge": (HELD,)}, out="/charge", status="running", before=("stop",),
        follows={},
    ),
    "doubt_stopping": Way(
        steps=RESERVE + POST + LAST, says={"POST /post": LOST}, before=("stop",),
        follows={
            "happened": "stopped", "did_not": "stopped", "take_over": "closed",
            "acknowledge": "needs_person",
        },
    ),
    "doubt_stopping of a compensation": Way(
        steps=ONCE + CHARGE, says={"POST /charge": NO, "POST /post": LOST}, before=("stop",),
        follows={
            "happened": "stopped", "did_not": "stopped", "done": "stopped", "stands": "stopped",
            "take_over": "closed", "acknowledge": "needs_person",
        },
    ),
    "doubt_stopping again": Way(
        steps=RESERVE + BOOK + LAST, says={"POST /book": LOST, "GET /book": (TWO,)}, limit=150, before=("stop",),
        follows={
            "again": "stopped", "retry": "stopped", "happened": "stopped", "did_not": "stopped",
            "take_over": "closed", "acknowledge": "needs_person",
        },
    ),
    "succeeded": Way(steps=RESERVE, status="succeeded", follows={}),
    "succeeded_bare": Way(steps=PLAN, status="succeeded", follows={"rerun": "succeeded"}),
    "drafted": Way(steps=PENCIL, mode="draft", status="drafted", follows={"compensate": "compensated"}),
    "drafted_bare": Way(steps=RESERVE, mode="draft", status="drafted", follows={"rerun": "drafted"}),
    "failed": Way(steps=RESERVE, says={"POST /reserve": NO}, status="failed", follows={"rerun": "succeeded"}),
    "compensated": Way(
        steps=RESERVE + CHARGE, says={"POST /charge": NO}, status="compensated", follows={"rerun": "succeeded"}
    ),
    "stopped": Way(
        steps=RESERVE + NAP, status="stopped", before=("stop",),
        follows={"compensate": "compensated", "take_over": "closed"},
    ),
    "stopped_bare": Way(steps=NAP + RESERVE, status="stopped", before=("stop",), follows={"rerun": "waiting"}),
    "closed": Way(steps=RESERVE + LOOK + LAST, status="closed", before=("close",), follows={}),
    "closed_bare": Way(steps=LOOK + LAST, status="closed", before=("close",), follows={"rerun": "needs_person"}),
    "taken_over": Way(steps=RESERVE + CHARGE, says={"POST /charge": NO}, on_failure="review", status="closed", before=("take_over",), follows={}),
}  # fmt: skip
