"""A few cases of ``make faults-night``, those that need no Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from slackwater.testing.local.run import scratch_folder
from tests.faults.night import VICTIMS, drawn, in_process, killed_process, lived, steps_of
from tests.faults.night_table import PROCESS, Case
from tests.faults.scenarios import scenarios


def test_a_seed_says_the_case_and_all_scenarios_and_victims_are_drawn() -> None:
    cases = [drawn(seed) for seed in range(1000)]
    assert cases == [drawn(seed) for seed in range(1000)]
    victims = Counter(c.victim for c in cases)
    assert all(abs(victims[v] - 10 * share) < 40 for v, share in VICTIMS.items())
    assert {c.scenario for c in cases} == set(scenarios())
    assert all(len(c.groups) == len(c.shares) + 1 for c in cases)


@pytest.mark.parametrize("shares", [(0.31,), (0.77, 0.2), (0.9999,)])
def test_a_process_killed_at_any_step_loses_and_repeats_nothing(shares: tuple[float, ...]) -> None:
    """The last step of all comes after the last batch was committed."""
    case = Case(0, "tumbling", PROCESS, shares, (2, 3, 1))
    result = killed_process(case)
    assert (result.kills, result.lost, result.twice, result.trouble) == (len(shares), 0, 0, "")


def test_the_same_step_leaves_the_same_files() -> None:
    """Names are drawn anew in each process, so what is compared is how many files of which size there are."""
    scenario = in_process("tumbling")
    moment = steps_of("tumbling", 2).total() // 2

    def left() -> Counter[tuple[str, int]]:
        with scratch_folder() as state:
            assert lived(scenario, state, 2, moment) is None
            return Counter(_shape(p, state) for p in state.rglob("*") if p.is_file())

    first = left()
    assert sum(first.values()) > 10
    assert left() == first


def _shape(path: Path, root: Path) -> tuple[str, int]:
    size = path.stat().st_size if path.suffix in (".arrow", ".parquet") else 0
    folders = [f for f in path.relative_to(root).parts[:-1] if not f.endswith("out_tumbling")]
    return f"{'/'.join(folders)}/*{path.suffix}", size
