"""A project whose flow makes one call for each row, and what the receiver has seen of it."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CONNECTOR = """connector: service
title: The receiver
actions:
  make:
    writes: keyed
    key: { header: Idempotency-Key, life: 24 hours }
    cannot_undo: It only counts.
    input: { number: text, amount: money or empty }
    request:
      post: /effects
      json: { number: "${{ input.number }}" }
    output: { id: text or empty }
    external_id: ${{ response.json.id }}
"""
FLOW = """flow: {name}
title: One call for each row
owner: person:me
mode: live
run_key: {run_key}
inputs:
  number: text
  amount: {{ money: {{}}, empty: true }}
steps:
{before}  - id: made
    do: service.make
    with: {{ number: "${{{{ inputs.number }}}}" }}
    unattended: It only counts.
    accept_order: It only counts.
    compensate: {{ none: It only counts. }}
{after}outputs: {{ id: "${{{{ steps.made.id }}}}" }}
"""
INPUT_KEY, GIVEN_KEY = "${{ inputs.number }}", "${{ trigger.id }}"


def write_project(folder: Path, origin: str, *, run_key: str = INPUT_KEY, before: str = "", after: str = "") -> Path:
    """The project; steps may stand before and after the call."""
    for name in ("flows", "connectors"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "amends.yaml").write_text("zone: Asia/Tokyo\n")
    (folder / "connectors" / "service.yaml").write_text(CONNECTOR)
    (folder / "connections.yaml").write_text(
        f'service: {{ connector: service, origin: "{origin}", allow_private: true }}\n'
    )
    text = FLOW.format(name="charge", run_key=run_key, before=before, after=after)
    (folder / "flows" / "charge.yaml").write_text(text.replace("{ money: {}, empty: true }", "money or empty"))
    return folder


def write_csv(file: Path, numbers: Sequence[object]) -> Path:
    """A file with one column."""
    file.write_text("number\n" + "".join(f"{number}\n" for number in numbers))
    return file


def report_of(file: Path) -> list[dict[str, str]]:
    """The rows of a report as a spreadsheet reads them."""
    with file.open(encoding="utf-8-sig", newline="") as source:
        return list(csv.DictReader(source))


def unlike_once(ledger: Mapping[str, Any], numbers: Sequence[object]) -> dict[str, int]:
    """How often each row came to the receiver, where that is not once."""
    seen = Counter(str(effect["body"]["number"]) for effect in ledger["effects"])
    return {key: seen[key] for key in {*seen, *map(str, numbers)} if seen[key] != 1}


def most_at_once(requests: Sequence[Mapping[str, Any]], answered_after: int) -> int:
    """The most requests that were open together at a receiver that answers each after so many ms."""
    times = sorted(int(request["at"]) for request in requests)
    return max(sum(at <= other < at + answered_after for other in times) for at in times)
