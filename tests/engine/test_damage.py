"""A checkpoint that lost something says so: one file below ``slackwater/`` is damaged at random, and the query is started
again. Its output is right, or it ends with an error that names the file before it publishes anything more.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.driver import recovery
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Plan
from slackwater.errors import CheckpointError
from slackwater.model.policy import Quality
from slackwater.model.window import TimeWindow
from tests.engine import test_join_engine as joins
from tests.engine import test_low_table as low_tables
from tests.engine import test_quality as quality
from tests.engine.on_disk import Place, no_spark, write_inputs

__all__ = ["no_spark"]

CASES = 150
BATCHES, STOPPED = 8, 7
POINTS = (
    "intent.after", "job.after", "manifest.after", "publish.begun", "publish.rename",
    "publish.after", "published.after",
)  # fmt: skip


def windows(folder: Path) -> Place:
    """Windows, windows over them, rows without repeats, rows in order, late rows."""
    stream = {"columns": {"k": "bigint", "ts": "bigint", "v": "bigint"}, "time": "ts",
              "progress": {"bounded_delay": 6}}  # fmt: skip
    query = {
        "small": [{"from": "s"}, {"window": {"range": 10, "slide": 5}, "by": ["k"],
                                  "agg": {"n": "count(*)", "t": "sum(v)"}}],
        "large": [{"from": "small"}, {"window": {"range": 20}, "agg": {"n": "sum(n)"}}],
        "once": [{"from": "s"}, {"dedup": {"subset": ["k", "v", "ts"]}}],
        "sorted": [{"from": "s"}, {"where": "v > 3"}, {"sort": "ts"}],
        "late": [{"late": "s"}],
    }  # fmt: skip
    script = joins.parse({"name": "w", "streams": {"s": stream}, "query": query,
                          "script": [{"end": True}]})  # fmt: skip
    rows = low_tables.batches(3, BATCHES, late=True)
    tables = [low_tables.table(r) if i != 5 else None for i, r in enumerate(rows)]
    return Place(folder / "state", joins.plan_of(script), write_inputs(folder / "in", tables))


def joined(folder: Path, seed: int, **join: Any) -> Place:
    rows = joins.batches(seed, BATCHES)
    files = write_inputs(folder / "in", [joins.table(r) for r in rows])
    return Place(folder / "state", joins.plan_of(joins.transcript(rows, **join)), files)


def with_tables(folder: Path) -> Place:
    """Results that are spread over batches, and tables at the low level."""
    tables = [low_tables.table(r) for r in low_tables.batches(5, BATCHES)]
    settings = Settings(smooth=20, low_table=8, compact_runs=2)
    files = write_inputs(folder / "in", tables)
    return Place(folder / "state", low_tables.plan_of(10, 10), files, settings)


def with_quality(folder: Path) -> Place:
    rows = quality.stream(4, 40 * BATCHES)
    tables = [quality.table(rows[i * 40 : i * 40 + 40]) for i in range(BATCHES)]
    # Without a limit nothing is out in so few batches.
    plan = quality.summed(Quality(error=0.1, limit=20), TimeWindow(20, 10, 0, "ts"), keys=("k",))
    return Place(folder / "state", plan, write_inputs(folder / "in", tables))


PLANS: dict[str, Callable[[Path], Place]] = {
    "windows": windows,
    "join": lambda folder: joined(folder, 1, how="full"),
    "join in little memory": lambda folder: joined(folder, 2, how="left", memory=1500),
    "semi join": lambda folder: joined(folder, 5, how="left_semi", where="a_v <= b_v"),
    "low tables": with_tables,
    "quality": with_quality,
}


def without_last(plan: Plan) -> Plan:
    return build(plan.outputs[:-1], ansi=True, zone="UTC")


@dataclass(frozen=True)
class Base:
    """A checkpoint that was left at some point, an older copy of it, and what must come out in the end."""

    name: str
    place: Place
    older: Place
    expected: dict[str, Any]


def bases(name: str, folder: Path) -> list[Base]:
    """The query of a plan, left at each point of a batch. Its last output was added after two batches."""
    start = PLANS[name](folder)
    start.run(2, plan=without_last(start.plan))
    older = start.copy(folder / "older")
    start.run(STOPPED, flush=True)
    whole = start.copy(folder / "whole")
    whole.run()
    expected = whole.rows()
    made = [Base(f"{name} at rest", start, older, expected)]
    for point in POINTS:
        place = start.copy(folder / point)
        place.crash(point, STOPPED + 1)
        made.append(Base(f"{name} at {point}", place, older, expected))
    return made


def damage(kind: str, path: Path, older: Path, rng: random.Random) -> set[str] | None:
    """Do it; the names of the files that are damaged, or None if there is nothing to damage."""
    data = path.read_bytes()
    others = kind in ("swap", "older")
    siblings = [
        p for p in path.parent.iterdir() if others and p.is_file() and p.read_bytes() != data
    ]
    if kind == "delete":
        path.unlink()
        return {path.name}
    if kind == "truncate" and data:
        return rewrite(path, data[: rng.randrange(len(data))])
    if kind == "flip" and data:
        at = rng.randrange(len(data))
        flipped = bytes([data[at] ^ (1 << rng.randrange(8))])
        return rewrite(path, data[:at] + flipped + data[at + 1 :])
    if kind == "swap" and siblings:
        other = rng.choice(sorted(siblings))
        return rewrite(path, other.read_bytes()) | rewrite(other, data)
    if kind == "older":
        before = [p for p in siblings if p.name < path.name]
        if older.exists() and older.read_bytes() != data:
            return rewrite(path, older.read_bytes())
        if before:
            return rewrite(path, max(before).read_bytes())
    return None


def rewrite(path: Path, data: bytes) -> set[str]:
    """Not in place, since copies may share the file; its name."""
    path.unlink()
    path.write_bytes(data)
    return {path.name}


KINDS = ("delete", "truncate", "flip", "swap", "older")


def cases(of: list[Base], count: int, rng: random.Random) -> Iterator[tuple[Base, Path, str]]:
    """Kinds of files by turns, so that the many state files do not hide the few others."""
    folders: dict[str, list[tuple[Base, Path]]] = {}
    for base in of:
        for path in base.place.durable():
            folders.setdefault(path.parts[2] if len(path.parts) > 3 else path.name, []).append(
                (base, path)
            )
    names = sorted(folders)
    for number in range(count):
        base, path = rng.choice(folders[names[number % len(names)]])
        yield base, path, KINDS[rng.randrange(len(KINDS))]


def outcome(base: Base, path: Path, kind: str, folder: Path, rng: random.Random) -> str:
    """Damage a copy and start it: what came of it; fails if that is neither a right output nor the right error."""
    place = base.place.copy(folder, linked=True)
    names = damage(kind, place.root / path, base.older.root / path, rng)
    if names is None:
        return "nothing to damage"
    shown = f"{base.name}: {kind} {path}"
    before = place.published()
    error = refusal(place)
    if error is not None:
        assert any(name in str(error) for name in names), f"{shown}: {error}"
        assert error.hint, shown
        # Results in the checkpoint are durable files themselves, and may be what was deleted.
        assert set(place.published()) <= set(before), shown
        return "refused"
    assert place.rows() == base.expected, shown
    return "right"


def refusal(place: Place) -> CheckpointError | None:
    """Run to the end; the error that says why not."""
    try:
        place.run()
    except CheckpointError as error:
        return error
    return None


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Base]]:
    with pytest.MonkeyPatch.context() as patch:
        no_spark.__wrapped__(patch)  # type: ignore[attr-defined]
        root = tmp_path_factory.mktemp("damage")
        yield [b for name in PLANS for b in bases(name, root / name.replace(" ", "-"))]


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("count", [CASES, pytest.param(10 * CASES, marks=pytest.mark.faults)])
def test_any_damaged_file_is_named_or_does_no_harm(
    made: list[Base], count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(11)
    counts: dict[str, int] = {}
    number = 0
    for base, path, kind in cases(made, 10 * count, rng):
        # By turns the state is read as if it were large, by several threads.
        monkeypatch.setattr(recovery, "FEW_BYTES", -1 if number % 2 else 1 << 20)
        result = outcome(base, path, kind, tmp_path / "case", rng)
        shutil.rmtree(tmp_path / "case")
        counts[result] = counts.get(result, 0) + 1
        number += result != "nothing to damage"
        if number == count:
            break
    assert number == count
    assert counts["refused"] > count // 4 and counts["right"] > count // 4, counts
