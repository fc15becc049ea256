"""The process from which Spark forks its Python workers, with all imported that our tasks need.

A worker is a copy of it. Spark's own daemon has imported little, so that each worker spends its first second on imports.
Nothing here may begin a thread or open a connection: a fork does not have them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import traceback
from typing import Any

import pyspark.daemon
import pyspark.sql.pandas.serializers

import slackwater.engine.lowlevel.tasks
import slackwater.engine.operators.group_task  # noqa: F401
from slackwater.kernels import column_engine

with contextlib.suppress(ImportError):
    importlib.import_module("pandas")  # as PySpark does in a worker, where it is installed

column_engine.load()


def _is_alone() -> bool:
    """Whether the error at hand says only that nobody listens any more.

    A worker that waits when the JVM ends, or the task that it worked for, has nothing to say to it, and yet PySpark prints a
    traceback that looks like a failure of the query. Who reads results says by itself if some are missing.
    """
    return isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError)


def _print(*text: Any, **options: Any) -> None:
    if not _is_alone():
        print(*text, **options)


class _Tracebacks:
    """The functions of ``traceback`` that PySpark's daemon calls."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        if not _is_alone():
            traceback.print_exc()


def main() -> None:
    """Fork workers until Spark ends."""
    vars(pyspark.daemon).update(print=_print, traceback=_Tracebacks)
    try:
        pyspark.daemon.manager()
    except SystemExit:
        # Nothing is left to do, and the column engine would complain of what the interpreter has not taken down.
        os._exit(0)


if __name__ == "__main__":
    # A worker collects garbage after each task. What is here already is none, and to look through it took 60 ms, and a copy
    # of every page that it is on.
    gc.collect()
    gc.freeze()
    main()
