"""The suites by name: each module has `run(argv) -> int`, 0 when all holds."""

from __future__ import annotations

SUITES = {
    "copies": "tests.trust.copies",
    "engines": "tests.trust.engines",
    "disk": "tests.trust.disk",
    "fuzz": "tests.trust.fuzz",
    "guard": "tests.trust.guard",
    "kills": "tests.trust.kills",
    "log": "tests.trust.log",
    "mail": "tests.trust.mail",
    "netns": "tests.trust.netns",
    "network": "tests.trust.network",
    "power": "tests.trust.power",
    "scenes": "tests.trust.scenes",
    "secrets": "tests.trust.secrets",
    "simulation": "tests.trust.simulation",
    "soak": "tests.trust.soak",
    "temporal_kills": "tests.trust.temporal_kills",
    "upgrades": "tests.trust.upgrades",
    "workers": "tests.trust.workers",
    "zombies": "tests.trust.zombies",
}
"""One line each, in the order of the alphabet."""
