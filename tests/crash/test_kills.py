"""kill -9 at every named point of every kind of step, forward and compensating; then the ledgers are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.crash.bench import VARIANTS, Bench


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Bench]]:
    place = tmp_path_factory.mktemp("crash")
    made = [Bench(place / f"bench{number}") for number in range(2)]
    yield made
    for bench in made:
        bench.close()


def _chosen(name: str, points: list[tuple[int, str]]) -> list[tuple[int, str, tuple[int, str]]]:
    new = VARIANTS[name].new
    return [
        (number, name, point) for number, point in enumerate(points) if not new or any(word in point[1] for word in new)
    ]


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_kill_loses_or_repeats_anything(benches: list[Bench], capsys: pytest.CaptureFixture[str]) -> None:
    cases = [case for name in VARIANTS for case in _chosen(name, benches[0].points(name))]
    with ThreadPoolExecutor(len(benches)) as lanes:
        shares = [cases[lane :: len(benches)] for lane in range(len(benches))]
        told = list(lanes.map(lambda bench, share: [bench.kill(*each) for each in share], benches, shares))
    verdicts = [verdict for lane in told for verdict in lane if verdict.was_killed]
    wrong = [verdict for verdict in verdicts if verdict.wrong]
    by_variant = Counter(verdict.variant for verdict in verdicts)
    with capsys.disabled():
        effects = sum(verdict.effects for verdict in verdicts)
        both = sum(verdict.lost >= 2 for verdict in verdicts)
        print(
            f"\nkilled at {len(verdicts)} points, {both} with two calls out or more, {effects} effects at the receiver, "
            f"{len(wrong)} cases went wrong\n" + ", ".join(f"{name} {count}" for name, count in by_variant.items())
        )
    assert not wrong, "\n".join(f"{v.variant} {v.nth} {v.point}: {'; '.join(v.wrong)}" for v in wrong)
    assert len(verdicts) >= 200
    assert by_variant.keys() == VARIANTS.keys()
    assert sum(verdict.lost >= 2 for verdict in verdicts if verdict.variant == "beside") >= 4
    assert sum(verdict.lost >= 2 for verdict in verdicts if verdict.variant == "undone_beside") >= 4
    assert sum(verdict.effects for verdict in verdicts) >= 5 * len(verdicts)


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "variant", "point", "said"),
    [
        ("send_again", "forward", "after call once do", "effects of once do"),
        ("forget_events", "undone_pair", "before commit feed event", "the second process ended 1"),
        ("forget_items", "undone_list", "after commit CompensationBegun", "the second process ended 1"),
    ],
)
def test_a_planted_mistake_is_seen(benches: list[Bench], fault: str, variant: str, point: str, said: str) -> None:
    """How far the other run is when the process dies is a matter of luck, so it may need a few tries."""
    verdicts = [benches[0].kill(0, variant, (1, point), fault=fault, patience=3)]
    while len(verdicts) < 8 and not any(said in sentence for sentence in verdicts[-1].wrong):
        verdicts.append(benches[0].kill(len(verdicts), variant, (1, point), fault=fault, patience=3))
    assert verdicts[-1].was_killed
    assert any(said in sentence for sentence in verdicts[-1].wrong), verdicts
    assert not benches[0].kill(len(verdicts), variant, (1, point)).wrong
