"""The join's memory, measured the hard way: the process gets no more than its budget and a constant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels import join_memory_child as child

BUDGET = 8 << 20
CONSTANT = 24 << 20
"""For what does not grow with the window: one chunk of results, the allocator's slack, a file or two."""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="limits of address space are Linux's"
)


def run(kernel: str, folder: Path) -> dict:
    # One arena and the system's allocator: freed memory goes back, so the limit is on what is in use.
    env = {
        **os.environ,
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_ARENA_MAX": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    args = [sys.executable, child.__file__, kernel, str(BUDGET), str(CONSTANT), str(folder)]
    done = subprocess.run(args, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict = json.loads(done.stdout)
    return found


@pytest.mark.spec("XJ-F02", "XJ-F06")
def test_a_window_of_many_times_the_memory_is_joined_within_it(tmp_path):
    found = run("blocks", tmp_path)
    assert found.get("results") == child.expected()
    assert found["state"] > 5 * BUDGET
    # More than limit and baseline could hold, so it cannot have been in memory at once.
    assert found["state"] > BUDGET + CONSTANT
    assert found["delayed"] > 0


def test_a_kernel_that_loads_its_runs_whole_does_not_pass_this_test(tmp_path):
    assert "out_of_memory" in run("whole", tmp_path)
