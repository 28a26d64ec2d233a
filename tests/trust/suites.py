"""The suites by name: each module has `run(argv) -> int`, 0 when all holds."""

from __future__ import annotations

SUITES = {
    "secrets": "tests.trust.secrets",
    "network": "tests.trust.network",
    "guard": "tests.trust.guard",
    "kills": "tests.trust.kills",
    "power": "tests.trust.power",
    "simulation": "tests.trust.simulation",
    "soak": "tests.trust.soak",
}
"""One line each, in the order of the alphabet."""
