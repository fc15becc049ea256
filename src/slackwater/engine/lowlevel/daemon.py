"""The process from which Spark forks its Python workers, with all imported that our tasks need.

A worker is a copy of it. Spark's own daemon has imported little, so that each worker spends its first second on imports.
Nothing here may begin a thread or open a connection: a fork does not have them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib

import pyspark.sql.pandas.serializers  # noqa: F401
from pyspark.daemon import manager

import slackwater.engine.lowlevel.tasks
import slackwater.engine.operators.group_task  # noqa: F401
from slackwater.kernels import column_engine

with contextlib.suppress(ImportError):
    importlib.import_module("pandas")  # as PySpark does in a worker, where it is installed

column_engine.load()

if __name__ == "__main__":
    # A worker collects garbage after each task. What is here already is none, and to look through it took 60 ms, and a copy
    # of every page that it is on.
    gc.collect()
    gc.freeze()
    manager()
