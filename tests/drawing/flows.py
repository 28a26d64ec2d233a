"""Flows to draw, of 3, 12 and 30 steps: lists, branches, calls, approvals that overlap, long names, three languages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runner.drawing.plan import Plan, plan_of
from runner.language.project import Project

HEAD = "title: {title}\nowner: person:me\nrun_key: ${{{{ inputs.id }}}}\ninputs: {{ id: text, lines: list, amount: number }}\n"
NOTE = "do: records.create, with: { collection: notes, number: '1' }"
SMALL = f"""steps:
  - {{ id: note, {NOTE}, compensate: cancel }}
  - {{ id: rest, wait: 2 business days }}
  - {{ id: unsaid, {NOTE} }}
"""
MIDDLE = f"""trigger: {{ form: signup }}
steps:
  - {{ id: look, read: records.get, with: {{ collection: notes, id: a }} }}
  - id: go
    approve: 金額 ${{{{ inputs.amount }}}} 円の入金を確認し、お客様に正式な契約書と請求書をお送りしてもよろしいですか。問題があれば差し戻してください。
    covers: [one, inner_two]
    by: [person:aya, team:finance]
    needs: 2
    escalate_to: person:tom
  - id: second
    approve: And the second?
    covers: [inner_two]
    by: person:tom
  - {{ id: one, {NOTE}, compensate: {{ mark: records.update, with: {{ id: x }}, approve_by: team:finance }} }}
  - id: size
    choose:
      - when: ${{{{ inputs.amount > 100000 }}}}
        steps:
          - {{ id: inner_one, {NOTE}, compensate: {{ quarantine: notes }} }}
          - {{ id: inner_two_with_a_name_that_is_much_longer_than_others, {NOTE}, compensate: {{ none: 這筆紀錄留著也不會造成任何影響，之後有空再整理就好，不需要另外通知任何人，也不必補做。 }} }}
      - steps:
          - {{ id: inner_two, {NOTE}, compensate: {{ hand_off: team:finance, say: Compare both amounts. }} }}
  - id: both
    parallel:
      stock: [{{ id: reserve, {NOTE}, compensate: cancel }}]
      mail: [{{ id: told, emit: order.ready, with: {{ id: a }} }}]
  - id: lines
    each: ${{{{ inputs.lines }}}}
    steps:
      - {{ id: line, {NOTE}, compensate: cancel, when: "${{{{ item.quantity_that_was_ordered > 0 and item.quantity_in_stock >= item.quantity_that_was_ordered }}}}" }}
on_failure: {{ do: compensate, tell: team:finance, then_run: small }}
"""
LARGE = MIDDLE.replace("on_failure", "ON").partition("ON")[0] + "".join(
    f"  - {{ id: closing_{number}, {NOTE}, compensate: cancel }}\n" for number in range(14)
)
LARGE += """  - { id: called, call: small, with: { id: a } }
  - { id: receipt, wait_for: receipt.received, within: 30 days, if_late: hand_off }
  - { id: over, hand_off: team:finance, say: Have a look. }
"""
TITLES: Mapping[str, str] = {
    "small": "三步驟：登記並通知採購",
    "middle": "新しいお客様の申込みから入金確認、発送、そして半年後のご案内までを最初から最後まで一つの流れで行う長い題名",
    "large": 'WWWWWWWWWWWWWWWWWWWW MMMMMMMMMMMMMMMMM and a title that goes on and on & on <until> it "ends"',
}


def project(folder: Path) -> Project:
    (folder / "flows").mkdir(parents=True, exist_ok=True)
    for name, steps in (("small", SMALL), ("middle", MIDDLE), ("large", LARGE)):
        text = f"flow: {name}\n{HEAD.format(title=TITLES[name])}{steps}"
        (folder / "flows" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return Project.open(folder)


def plan(folder: Path, name: str) -> Plan:
    found = project(folder)
    [checked] = found.check(name)
    assert checked.flow is not None, checked.problems
    return plan_of(checked.flow, found.connections.actions())
