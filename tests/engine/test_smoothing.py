"""Spread results in the engine: merging state files must not bring the burst back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.paths.batch import Settings
from tests.engine.in_process import Engine
from tests.engine.test_low_table import plan_of, shown, table


def closing(engine: Engine, settings: Settings) -> list[dict[str, Any]]:
    """A window of 200 groups in five batches, its end, and five more batches."""
    engine.start(plan_of(10, 10), groups=1, settings=settings)
    for n in range(5):
        engine.batch(table([(k, n, k) for k in range(200)]))
    for n in range(6):
        engine.batch(table([(0, 16 + n, 1)]))
    engine.batch(final=True)
    engine.stop()
    return [next(iter(r["operators"].values())) for r in engine.records]


@pytest.mark.spec("OO-F15")
def test_state_files_are_not_merged_while_their_results_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("plain", "smooth")]
    for folder in folders:
        folder.mkdir()
    plain = Engine(folders[0], monkeypatch)
    closing(plain, Settings(compact_runs=2))
    smooth = Engine(folders[1], monkeypatch)
    found = closing(smooth, Settings(compact_runs=2, smooth=250))
    waits = [o for o in found if o["held"]]
    assert len(waits) >= 3 and all(o["compacted"] == 0 for o in waits)
    assert max(o["rowsOut"] for o in found) <= 50  # of 250 partials in five batches
    # Before, merges took no more than a batch puts together: pairs of files of 200 rows are too large.
    assert not any(o["compacted"] for o in found[:5])
    for name in ("small", "large"):
        assert shown(smooth.rows(name)) == shown(plain.rows(name))
