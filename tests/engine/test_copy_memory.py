"""A copy is made in memory that does not depend on how large the table is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine import copy_memory_child as child

TABLE = child.ROWS * (child.WIDTH + 20)
MOST = 220 << 20
"""What the column engine needs at least to sort, what a file is read with, and two segments."""


def run(kind: str, folder: Path) -> dict[str, Any]:
    arguments = [sys.executable, "-m", "tests.engine.copy_memory_child", kind, str(folder)]
    done = subprocess.run(
        arguments, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.spec("XJ-F47")
def test_a_table_larger_than_memory_is_copied_in_bounded_memory(tmp_path: Path) -> None:
    child.write(tmp_path / "table", child.ROWS)
    made = run("copy", tmp_path)
    assert (made["rows"], made["in_order"]) == (child.ROWS, True)
    assert made["largest"] <= 2 * (child.MEMORY // 4)
    assert TABLE > MOST > made["grown"]
    # What reads it whole is seen to.
    assert run("whole", tmp_path)["grown"] > TABLE
