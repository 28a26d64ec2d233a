"""An evidence pack: everything that is known of one run as an archive that anybody can verify without Amends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runner.store import proof
from runner.store.audit import Audit

README = """\
Evidence of run {run} of the flow {flow}

This archive holds everything that Amends knows of one run of a business automation, and the means to check that nothing
of it was changed afterwards. Nothing has to be installed but Python: python verify.py

log.jsonl       what happened, one entry a line, in order. Each entry has a hash that covers the one before it, so that
                none can be changed, removed or added unseen. "data" is what was written down; where personal data was
                erased it is empty, and its digest remains. Times ("at") are milliseconds since 1970-01-01 UTC.
people.jsonl    what people decided, out of the log.
effects.jsonl   what was done outside, with the ids that the services gave, and what has become of it.
handoffs.jsonl  what people were asked.
bundles.json    the flow, its templates and its connectors, as they were when the run began, by their digest.
artifacts/      values that are too large for the log, named by their digest.
site.jsonl      the part of the database's own chain that remembers this run: it ties the run to all others.
run.json        the run in short, and the hashes that the chains begin and end with.
SHA256SUMS      a digest of each file (sha256sum -c SHA256SUMS).

A pack proves that it hangs together. That it is the one that was made then is shown by its last hash: compare it with
one that somebody else noted. The archive may hold personal data; passwords and keys are never in it.
"""


def pack(audit: Audit, run: str) -> bytes:
    """The archive of one run. Raises NotFound."""
    told = audit.export(run)
    rows, site = told["log"], audit.site_rows(run)
    about = {"format": "amends-evidence-2", "database": told["database"], "run": told["run"], "site": site["about"]}
    files = {
        "README.txt": README.format(run=run, flow=told["run"]["flow"]).encode(),
        "verify.py": Path(proof.__file__).read_bytes(),
        "run.json": _page(about),
        "log.jsonl": proof.lines_of(rows),
        "people.jsonl": proof.lines_of(proof.decisions(rows)),
        "effects.jsonl": proof.lines_of(told["effects"]),
        "handoffs.jsonl": proof.lines_of(told["handoffs"]),
        "site.jsonl": proof.lines_of(site["rows"]),
        "bundles.json": _page({told["run"]["bundle"]: told["bundle"], **told["versions"]}),
        **{f"artifacts/{digest}": content.encode() for digest, content in told["artifacts"].items()},
    }
    return proof.packed({**files, proof.SUMS: proof.sums(files)})


def _page(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"
