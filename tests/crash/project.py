"""The project of the crash cases: a flow with a step of every kind and compensations of every word, one with branches,
lists with all that can stand in them, runs that wait for each other, and one that is followed by another."""

from __future__ import annotations

from pathlib import Path

WRITE = """  {name}:
    {effect}
    input: {{ note: text or empty, of: text or empty }}
    request:
      post: /{name}
      json: {{ note: "${{{{ input.note | default('none') }}}}", reference: "${{{{ key }}}}" }}
    output: {{ id: text }}
    external_id: ${{{{ response.json.id }}}}
    timeout: 300 ms
    retry: {{ tries: 4, pause: 20 ms, growth: none }}
"""
KEYED = "writes: keyed\n    key: { header: Idempotency-Key, life: 1 hour }"
LOOKUP = "writes: lookup"
ONCE = "writes: once\n    cannot_undo: A person takes it back."
ASKED = """    lookup:
      request: {{ get: /{name}, query: {{ reference: "${{{{ key }}}}" }} }}
      count: ${{{{ response.json.items | length }}}}
      output: {{ id: "${{{{ response.json.items[0].id }}}}" }}
      external_id: ${{{{ response.json.items[0].id }}}}
      delay: 20 ms
"""
FOUND = """    find:
      by: [note]
      request: {{ get: /{name}, query: {{ note: "${{{{ input.note }}}}" }} }}
      count: ${{{{ response.json.items | length }}}}
      output: {{ id: "${{{{ response.json.items[0].id }}}}" }}
      external_id: ${{{{ response.json.items[0].id }}}}
"""

CONNECTOR = (
    """connector: service
title: The receiver
actions:
  get:
    reads: true
    input: { code: text }
    request: { get: "/plans/${{ input.code }}" }
    output: { id: text, label: text }
    timeout: 300 ms
"""
    + "".join(WRITE.format(name=name, effect=KEYED) for name in ("keyed", "handed", "last", "undo_keyed"))
    + "".join(WRITE.format(name=name, effect=LOOKUP) + ASKED.format(name=name) for name in ("asked", "undo_asked"))
    + WRITE.format(name="found", effect=KEYED)
    + FOUND.format(name="found")
    + "".join(WRITE.format(name=name, effect=ONCE) for name in ("once", "undo_once"))
)

FLOW = """flow: every
title: A step of every kind
owner: person:me
mode: live
run_key: ${{ trigger.id }}
record: case/${{ inputs.name }}
inputs: { name: text }
steps:
  - { id: plan, read: service.get, with: { code: basic } }
  - id: keyed
    do: service.keyed
    compensate: { cancel: service.undo_keyed, with: { of: "${{ output.id }}" } }
  - id: asked
    do: service.asked
    compensate: { mark: service.undo_asked, with: { of: "${{ output.id }}" } }
  - id: found
    do: service.found
    find: { note: "${{ inputs.name }}" }
    with: { note: "${{ inputs.name }}" }
    compensate: { correct: service.undo_once, with: { of: "${{ output.id }}" }, unattended: The case says so. }
  - id: mail
    do: mail.send
    with: { to: ["one-${{ inputs.name }}@x.example", "two-${{ inputs.name }}@x.example"], subject: Hello, text: Hello }
    unattended: It only counts.
    accept_order: A correction is ready.
    compensate:
      correct: mail.send
      with: { to: "one-${{ inputs.name }}@x.example", subject: Sorry, text: Sorry }
      unattended: It only counts.
  - id: own
    do: records.create
    with: { collection: cases, name: "${{ inputs.name }}" }
    compensate: cancel
  - { id: nap, wait: { until: "${{ now() }}" } }
  - id: once
    do: service.once
    unattended: It only counts.
    accept_order: It is set aside.
    compensate: { quarantine: "thing" }
  - id: handed
    do: service.handed
    compensate: { hand_off: person:me, say: Look at it. }
  - id: harmless
    do: service.keyed
    compensate: { none: It only counts. }
  - id: last
    do: service.last
    compensate: { cancel: service.undo_keyed, with: { of: "${{ output.id }}" } }
outputs: { id: "${{ steps.last.id }}" }
"""

BESIDE = """flow: beside
title: Two branches at once, made good at once
owner: person:me
mode: live
run_key: ${{ trigger.id }}
record: case/${{ inputs.name }}
inputs: { name: text }
steps:
  - id: both
    compensate_at_once: true
    parallel:
      one:
        - id: keyed
          do: service.keyed
          compensate: { cancel: service.undo_keyed, with: { of: "${{ output.id }}" } }
        - id: once
          do: service.once
          unattended: It only counts.
          accept_order: It is put right.
          compensate: { correct: service.undo_once, with: { of: "${{ output.id }}" }, unattended: The case says so. }
      two:
        - id: asked
          do: service.asked
          compensate: { mark: service.undo_asked, with: { of: "${{ output.id }}" } }
        - id: way
          choose:
            - when: ${{ inputs.name == "nobody" }}
              steps:
                - { id: never, do: service.handed, compensate: { none: It only counts. } }
            - steps:
                - id: own
                  do: records.create
                  with: { collection: cases, name: "${{ inputs.name }}" }
                  compensate: cancel
  - id: last
    do: service.last
    compensate: { cancel: service.undo_keyed, with: { of: "${{ output.id }}" } }
outputs: { id: "${{ steps.last.id }}", never: "${{ outcome.never }}" }
"""
BRANCH_OF = {"keyed": "one", "once": "one", "asked": "two", "own": "two"}
"""The branch of each step of `beside` that has one."""

KEYED_STEP = """do: service.keyed
    compensate: { cancel: service.undo_keyed, with: { of: "${{ output.id }}" } }
"""
LAST = """  - id: last
    do: service.last
    compensate: { cancel: service.undo_keyed, with: { of: "${{ output.id }}" } }
"""


def _flow(name: str, steps: str, top: str = "") -> str:
    return (
        f"flow: {name}\ntitle: A flow of the crash cases\nowner: person:me\nmode: live\nrun_key: ${{{{ trigger.id }}}}\n"
        f"inputs: {{ name: text }}\n{top}steps:\n{steps}"
    )


LISTED = """  - id: rows
    each: [{ n: a }, { n: b }, { n: c }]
    named: ${{ item.n }}
    at_once: 2
    if_one_fails: %s
    steps:
      - id: both
        parallel:
          one:
            - id: inner
              each: [x, y]
              steps:
                - id: keyed
                  do: service.keyed
                  with: { note: "${{ item }}" }
                  compensate: { cancel: service.undo_keyed, with: { of: "${{ output.id }}" } }
          two:
            - { id: sub, call: letter, with: { name: "${{ item.n }}" } }
      - id: own
        do: records.create
        with: { collection: cases, name: "${{ item.n }}" }
        compensate: cancel
      - id: handed
        when: ${{ item.n == "b" }}
        do: service.handed
        compensate: { none: It only counts. }
"""
LETTER = """  - id: asked
    do: service.asked
    compensate: { mark: service.undo_asked, with: { of: "${{ output.id }}" } }
"""
WAITS = f"""  - id: keyed
    {KEYED_STEP}
  - {{ id: paid, wait_for: payment.received, match: {{ claim: "${{{{ inputs.name }}}}" }} }}
"""
SENDS = """  - { id: told, emit: payment.received, with: { claim: "${{ inputs.name }}" } }
  - id: asked
    do: service.asked
    compensate: { mark: service.undo_asked, with: { of: "${{ output.id }}" } }
"""
LOCKS = f"""  - id: keyed
    lock: {{ record: case, id: "${{{{ inputs.name }}}}" }}
    {KEYED_STEP}"""
AGENT = """  - id: handle
    agent: ai.agent
    with: { goal: "Help ${{ inputs.name }}" }
    retry: { tries: 5, pause: 20 ms, growth: none }
    tools:
      - { id: plan, read: service.get }
      - id: keyed
        do: service.keyed
        with: { note: "${{ inputs.name }}" }
        compensate: { cancel: service.undo_keyed, with: { of: "${{ output.id }}" } }
      - id: asked
        do: service.asked
        compensate: { mark: service.undo_asked, with: { of: "${{ output.id }}" } }
    limits: { calls: 9, within: 10 min }
"""
FOLLOWED = 'on_failure: { do: compensate, then_run: letter, with: { name: "${{ inputs.name }}" } }\n'
FLOWS = {
    "every": FLOW,
    "beside": BESIDE,
    "letter": _flow("letter", LETTER),
    "listed": _flow("listed", LISTED % "stop" + LAST),
    "aside": _flow("aside", LISTED % "continue" + LAST),
    "waits": _flow("waits", WAITS + LAST),
    "sends": _flow("sends", SENDS),
    "locks": _flow("locks", LOCKS + LAST),
    "agent": _flow("agent", AGENT + LAST),
    "followed": _flow("followed", f"  - id: keyed\n    {KEYED_STEP}" + LAST, FOLLOWED),
}


def write_project(folder: Path, *, origin: str, smtp_port: int) -> None:
    """The project in an empty folder."""
    for name in ("flows", "connectors"):
        (folder / name).mkdir(parents=True)
    (folder / "connectors" / "service.yaml").write_text(CONNECTOR)
    (folder / "connections.yaml").write_text(
        f'service: {{ connector: service, origin: "{origin}", allow_private: true }}\n'
        f'ai: {{ connector: ai, kind: openai, origin: "{origin}/v1", model: small, allow_private: true }}\n'
        f'mail: {{ connector: email, host: 127.0.0.1, port: {smtp_port}, from: "a@x.example", allow_private: true,'
        " security: none, allow_insecure: true }\n"
    )
    for name, text in FLOWS.items():
        (folder / "flows" / f"{name}.yaml").write_text(text)
