"""What a task does for the Python worker in which Spark runs it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from slackwater.engine.paths.wire import Task

_modules = 0


def in_worker(task: Task) -> Task:
    """``task`` as Spark gets it: it begins by hiding what the worker imported from the garbage collector.

    After every task, a worker of PySpark looks at each object that it holds. Nearly all of them belong to modules,
    never die, and take longer to look at than most tasks of small batches take.
    """
    return partial(_run, task)


def _run(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    global _modules
    if len(sys.modules) != _modules:  # the first task, or one before it imported more
        _modules = len(sys.modules)
        gc.freeze()
    yield from task(batches)
