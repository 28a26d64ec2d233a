"""Secrets in the short form: each slot once against each shape of answer, one whole project, and leaks that are seen."""

from __future__ import annotations

import pytest

from runner import secrets as known_as
from tests.trust import secrets
from tests.trust.guard import instead
from tests.trust.slots import NAMES, PIECES, canaries


async def test_no_canary_of_any_slot_is_kept_or_logged() -> None:
    kept, canary, unheard, count = await secrets.connectors(5)
    assert kept.hits(canary) == []
    assert unheard == []
    assert (len(canary), len(set(NAMES)), count >= 140) == (40, 40, True)


async def test_no_canary_stands_in_a_whole_project() -> None:
    kept, canary, runs = await secrets.project(4)
    assert kept.hits(canary) == []
    assert runs == 12
    assert kept.places["mails"].count(b"The run cannot go on by itself") >= 4
    assert len(kept.places["pages"]) > 20_000


async def test_leaks_are_seen() -> None:
    kept, canary, _, _ = await secrets.connectors(1, redacts=False)
    assert secrets.hits("outcomes", kept.places["outcomes"], canary)
    kept, canary, _ = await secrets.project(2, redacts=False)
    assert secrets.hits("mails", kept.places["mails"], canary)


async def test_an_address_that_is_known_as_a_whole_only_is_seen() -> None:
    with instead(known_as, "pieces_of", lambda value: ()):
        kept, canary, _, _ = await secrets.connectors(2)
    assert {hit.split()[0] for hit in kept.hits(canary)} & {*PIECES}


@pytest.mark.parametrize("how", list(secrets.codings("x" * 30)))
def test_each_coding_is_found(how: str) -> None:
    canary = canaries()
    content = b"before " + secrets.codings(canary["bearer"])[how] + b" after"
    assert any("bearer" in hit for hit in secrets.hits("a page", content, canary))
