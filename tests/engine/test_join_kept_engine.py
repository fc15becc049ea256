"""What an executor keeps of a bounded join's blocks, in whole queries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.store.failpoints import InjectedFailure
from slackwater.engine.store.kept import FOLDER
from slackwater.kernels.joins.bounded.ledger import resident_places
from slackwater.testing.local.run import failing
from tests.engine.in_process import Engine
from tests.engine.test_join_engine import (
    batches,
    counted,
    engine,  # noqa: F401
    oracle,
    plan_of,
    run,
    table,
    transcript,
)

MEMORY = 4_000_000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of an executor."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "blockmgr-1"))
    return tmp_path / "blockmgr-1" / FOLDER


def figures(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [o["join"] for r in records for o in r["operators"].values() if "join" in o]


def blocks(home: Path) -> dict[str, int]:
    return {n: os.stat(Path(at, n)).st_size for at, _, names in os.walk(home) for n in names if "@" in n}  # fmt: skip


@pytest.mark.spec("XJ-F09")
@pytest.mark.parametrize("how", ["inner", "full"])
def test_warm_batches_read_nothing_though_groups_change(
    engine: Engine,  # noqa: F811
    home: Path,
    how: str,
) -> None:
    data = batches(5, 10, 24)
    script = transcript(data, how=how, memory=MEMORY, band={"before": 60, "after": 60})
    script = replace(script, outputs={"pairs": script.outputs["pairs"]})
    run(engine, script, data, {0: 2, 3: 3, 5: 1, 7: 4})
    want = counted([r for o in oracle(script) for r in o.outputs["pairs"]])
    assert counted(engine.rows("pairs")) == want
    told = figures(engine.records)
    assert all(f["readBytes"] == f["reads"] == f["passReadBytes"] == 0 for f in told)
    assert sum(f["keptBytes"] > 0 for f in told) >= 7
    engine.loop.end()
    assert blocks(home) == {} and home.exists(), "a query that ends takes its blocks along"


def test_blocks_of_a_task_that_failed_go_with_the_next_batch(
    engine: Engine,  # noqa: F811
    home: Path,
) -> None:
    data = batches(6, 4, 24)
    script = transcript(data, memory=MEMORY)
    engine.start(plan_of(script), groups=2)
    engine.batch(table(data[0]))
    with pytest.raises(InjectedFailure), failing("manifest.before"):
        engine.batch(table(data[1]))
    orphans = set(blocks(home))
    engine.stop()
    engine.start(plan_of(script), groups=2)
    engine.loop.run(None, 1)  # type: ignore[arg-type]
    engine.batch(table(data[2]))
    assert engine.loop.last is not None
    wanted = {
        f"{run}@{offset}"
        for ledgers in engine.loop.last.ledgers.values()
        for ledger in ledgers
        for run, offset in resident_places(ledger)
    }
    assert set(blocks(home)) == wanted
    assert orphans - wanted, "the batch that failed had written some"
    engine.stop()
