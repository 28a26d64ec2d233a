"""The same schedules on every engine, a few of them; the long form is `python -m tests.trust engines`."""

from __future__ import annotations

import pytest

from tests.trust.engines import PLANTED, SEEN_IN, compared, differences, places

SEEDS = (3, 20)


@pytest.mark.timeout(150)
def test_every_engine_tells_the_same() -> None:
    with places() as (urls, cluster):
        told = compared(SEEDS, urls, cluster)
        planted = compared(SEEN_IN, urls, cluster, next(iter(PLANTED)))
    assert differences(SEEDS, told) == []
    assert sum(len(one.effects) for one in next(iter(told.values()))) >= 4
    assert differences(SEEN_IN, planted) != []
