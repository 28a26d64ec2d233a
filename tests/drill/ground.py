"""What the drill's tests stand on: projects with the connectors of this checkout, and flows written on the spot."""

from __future__ import annotations

from pathlib import Path

from runner.drill.table import Driller
from runner.drilling import driller_of
from runner.language.project import Project
from tests.flows.stage import kinds
from tests.house import ROOT

DEMO = ROOT / "runner" / "demo" / "project"
EXAMPLES = ROOT / "flows"

ACTION = """  {name}:
    {effect}
    input: {{ note: text or empty }}
    request: {{ post: "/{name}", json: {{ note: "${{{{ input.note | default('') }}}}", reference: "${{{{ key }}}}" }} }}
    output: {{ id: text }}
    external_id: ${{{{ response.json.id }}}}
"""
CONNECTOR = (
    "connector: svc\ntitle: A service\nactions:\n"
    "  get:\n    reads: true\n    input: { code: text or empty }\n    request: { get: /things }\n"
    "    output: { id: text, size: number, rows: { list: { n: text, size: number } } }\n"
    + "".join(
        ACTION.format(name=name, effect="writes: keyed\n    key: { header: Idempotency-Key, life: 1 hour }")
        for name in ("make", "more", "unmake")
    )
    + ACTION.format(name="once", effect="writes: once\n    cannot_undo: It is gone.")
)
HEAD = (
    "flow: {name}\ntitle: A flow of the drill's tests\nowner: person:me\nmode: live\nrun_key: ${{{{ trigger.id }}}}\n"
)
UNDO = 'compensate: { cancel: svc.unmake, with: { note: "${{ output.id }}" } }'
CONNECTIONS = """svc: { connector: svc, origin: "https://svc.example.test" }
mail: { connector: email, host: mail.example.test, from: "a@x.example" }
"""


def driller(
    folder: Path, text: str, name: str = "tried", people: str = "", connector: str = CONNECTOR, **others: str
) -> Driller:
    """Who drills a flow whose steps (and more) are this text; `others` are further flows."""
    (folder / "flows").mkdir(parents=True)
    (folder / "connectors").mkdir()
    (folder / "connectors" / "svc.yaml").write_text(connector)
    (folder / "connections.yaml").write_text(CONNECTIONS)
    (folder / "amends.yaml").write_text("zone: UTC\n")
    if people:
        (folder / "people.yaml").write_text(people)
    for flow, written in {name: text, **others}.items():
        (folder / "flows" / f"{flow}.yaml").write_text(HEAD.format(name=flow) + written)
    return driller_of(Project.open(folder, kinds=kinds()), name)


def demo() -> Driller:
    """Who drills the demo's flow."""
    return driller_of(Project.open(DEMO, kinds=kinds()), "signup_to_paid")
