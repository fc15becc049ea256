"""Blocks of a join that stay in the executor between batches: they save reading, and change nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.store.kept import KeptFiles, wanted_places
from slackwater.kernels.joins.bounded.ledger import Ledger, resident_places
from slackwater.model.join import Band
from slackwater.semantics.join_memory import JoinPolicy, areas, kept_room
from tests.examples import examples
from tests.kernels.join_traces import (
    quick_files,  # noqa: F401
    replay,
    slow_join,
    steady,
    traces,
)


class Keeping:
    """What an executor keeps for a join of one group, batch by batch; ``between`` may spoil its files."""

    def __init__(self, folder: Path, memory: int, between=lambda paths: None):
        self.folder = folder / "query" / "join"
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.memory, self.between = memory, between
        self.ledger = Ledger().to_json()
        self.sizes: list[int] = []
        self.unwanted: list[set[str]] = []

    def __call__(self, batch: int) -> KeptFiles:
        kept = KeptFiles(self.folder, kept_room(self.memory))
        kept.begin(str(batch), lambda: wanted_places(set(resident_places(self.ledger)), "new"))
        self.between(self._paths())
        return kept

    def after(self, batch: int, done) -> None:
        """To be called with what a batch did."""
        self.ledger = done.ledger.to_json()
        paths = self._paths()
        self.sizes.append(sum(p.stat().st_size for p in paths))
        wanted = {f"{run}@{offset}" for run, offset in resident_places(self.ledger)}
        self.unwanted.append({p.name for p in paths if not p.name.startswith("marks")} - wanted)

    def _paths(self) -> list[Path]:
        return sorted(p for p in self.folder.iterdir() if "@" in p.name)


def spoiled(rng: random.Random, share: float):
    """Removes some of the files, empties, cuts, or flips a byte of others."""

    def between(paths: list[Path]) -> None:
        for path in paths:
            if rng.random() >= share:
                continue
            how, data = rng.randrange(4), bytearray(path.read_bytes())
            if how == 0 or not data:
                path.unlink()
                continue
            if how == 1:
                data = bytearray()
            elif how == 2:
                del data[rng.randrange(len(data)) :]
            else:
                data[rng.randrange(len(data))] ^= 1 + rng.randrange(255)
            path.write_bytes(data)

    return between


@pytest.mark.spec("XJ-F09")
@pytest.mark.parametrize("how", ["inner", "left", "full"])
def test_a_warm_batch_reads_nothing_if_both_windows_fit(tmp_path: Path, how: str) -> None:
    trace, band = steady(batches=12, rows=40), Band(100, 100)
    policy = JoinPolicy(4_000_000)
    keeping = Keeping(tmp_path, policy.memory)
    run = replay(trace, band, policy, how=how, max_pairs=1_000, kept=keeping, hook=keeping.after)
    assert run.out == slow_join(trace, band, how)
    assert all(s.reads == s.read_bytes == 0 for s in run.stats)
    assert all(s.kept_bytes > 0 for s in run.stats[1:-1])
    # Most of what is in memory is in reach of new rows.
    assert run.stats[6].kept_bytes > 0.5 * sum(run.stats[5].resident_bytes)
    without = replay(trace, band, policy, how=how, max_pairs=1_000)
    assert all(s.read_bytes > 0 and s.kept_bytes == 0 for s in without.stats[1:-1])


def test_what_passes_read_is_counted_apart(tmp_path: Path) -> None:
    trace, band = steady(batches=12, rows=60), Band(400, 400)
    policy = JoinPolicy(40_000, backlog=0.2)
    keeping = Keeping(tmp_path, policy.memory)
    run = replay(trace, band, policy, max_pairs=1_000, kept=keeping, hook=keeping.after)
    assert run.out == slow_join(trace, band)
    assert sum(s.pass_read_bytes for s in run.stats) > 0
    with_passes = [s for s in run.stats[2:-1] if s.passes]
    assert with_passes and all(s.pass_read_bytes > 0 for s in with_passes)
    assert all(s.pass_read_bytes == 0 for s in run.stats if not s.passes)
    # A block that became a productive one in a pass is read once more; else only passes read.
    others = sum(s.read_bytes - s.pass_read_bytes for s in run.stats)
    assert others < 0.1 * sum(s.kept_bytes for s in run.stats)


@pytest.mark.spec("XJ-F09")
def test_the_executor_never_keeps_more_than_the_resident_part(tmp_path: Path) -> None:
    trace, band = steady(batches=14, rows=120), Band(300, 300)
    policy = JoinPolicy(60_000)
    resident = []
    keeping = Keeping(tmp_path, policy.memory)

    def look(n, done) -> None:
        keeping.after(n, done)
        resident.append(sum(done.stats.resident_bytes))

    run = replay(trace, band, policy, how="full", max_pairs=1_000, kept=keeping, hook=look)
    assert run.out == slow_join(trace, band, "full")
    room = areas(policy.memory)
    assert sum(s.evicted for s in run.stats) > 20, "the window is larger than the memory"
    assert max(keeping.sizes) <= kept_room(policy.memory) <= policy.memory
    assert max(resident) <= room.recent + room.productive
    assert min(keeping.sizes[2:-1]) > 0.8 * room.recent, "and it uses its room"
    assert not any(keeping.unwanted), "what lost its place is not kept"


@pytest.mark.spec("XJ-F09")
@examples(100)
@given(
    trace=traces(),
    band=st.sampled_from([Band(0, 0), Band(5, 20), Band(60, 60)]),
    memory=st.sampled_from([1_500, 20_000, 200_000]),
    how=st.sampled_from(["inner", "left", "right", "full"]),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 2**32 - 1),
    backlog=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_nothing_depends_on_what_is_kept(
    tmp_path_factory: pytest.TempPathFactory, trace, band, memory, how, share, seed, backlog
) -> None:
    """Lost and damaged files cost reading, and change neither rows nor what is owed."""
    rng = random.Random(seed)
    keeping = Keeping(tmp_path_factory.mktemp("kept"), memory, spoiled(rng, share))
    policy = JoinPolicy(memory, backlog=backlog, merge_runs=3)
    kept = replay(trace, band, policy, how=how, kept=keeping, hook=keeping.after)
    assert kept.out == slow_join(trace, band, how)
    without = replay(trace, band, policy, how=how)
    figures = [(s.results, s.delayed_results, s.owed_rows, s.resident_bytes) for s in kept.stats]
    assert figures == [
        (s.results, s.delayed_results, s.owed_rows, s.resident_bytes) for s in without.stats
    ]
    for mine, other in zip(kept.stats, without.stats, strict=True):
        assert mine.read_bytes + mine.kept_bytes == other.read_bytes
    assert max(keeping.sizes) <= kept_room(memory)
