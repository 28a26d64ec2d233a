"""Secrets that are written in a flow (FL401)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from runner.errors import Problem
from runner.language.check.context import Context, rule

_KNOWN = re.compile(
    r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,}|\bsk-[A-Za-z0-9_-]{16,}|\bxox[abprs]-[A-Za-z0-9-]{8,}"
    r"|\bAKIA[0-9A-Z]{12,}|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_[A-Za-z0-9_]{16,}|\bglpat-[A-Za-z0-9_-]{12,}"
    r"|\bAIza[0-9A-Za-z_-]{20,}|\bSG\.[A-Za-z0-9_-]{12,}|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(?:Bearer|Basic) +[A-Za-z0-9._~+/=-]{8,}|://[^\s/:@]+:[^\s/:@]+@"
)
_LONG = re.compile(r"[A-Za-z0-9+/_=-]{32,}")
_NAMES = re.compile(
    r"^(?:.*_)?(?:password|passwd|secret|token|api_?key|apikey|private_?key|authorization)$", re.IGNORECASE
)
_MARKER = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)
_LEAST_BITS = 4.2
HINT = "put it into .env, and name it in connections.yaml: { secret: NAME }"


@rule("FL401")
def find_secrets(context: Context) -> Iterator[Problem]:
    """Texts that look like a key, and literal values under names such as password."""
    for path, scalar in context.source.scalars.items():
        bare = _MARKER.sub(lambda found: " " * len(found[0]), scalar.text)
        match = _KNOWN.search(bare) or _random_looking(bare)
        if match is not None:
            what, part = "this looks like a secret, and a flow is no place for one", (match.start(), len(match[0]))
            yield context.source.problem("FL401", path, what, HINT, part=part)
        elif path[0] == "steps" and _NAMES.match(str(path[-1])) and bare.strip() == scalar.text.strip() != "":
            yield context.source.problem("FL401", path, f'the secret "{path[-1]}" is written in the flow', HINT)


def _random_looking(text: str) -> re.Match[str] | None:
    """A long run of signs that nobody would write by hand."""
    for match in _LONG.finditer(text):
        found = match.group()
        has_all = all(any(map(test, found)) for test in (str.isdigit, str.isupper, str.islower))
        counts = Counter(found)
        bits = -sum(count / len(found) * math.log2(count / len(found)) for count in counts.values())
        if has_all and bits >= _LEAST_BITS:
            return match
    return None
