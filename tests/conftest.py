"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

import tests.examples  # noqa: F401 (how many random examples there are)
from slackwater.surface.session import DAEMON, JAVA_OPTIONS
from tests.class_archive import java_options
from tests.marked import pytest_configure  # noqa: F401 (a hook)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY, ROOM = "/dev/shm", 4 << 30


def _folders_in_memory() -> None:
    """Have scratch folders of tests in memory if there is room, where no write waits for a disk.

    A crash that a test plays is one of the process, and what a process wrote outlives it. A ``TMPDIR`` that is set
    is kept.
    """
    roomy = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM
    if "TMPDIR" not in os.environ and roomy:
        os.environ["TMPDIR"] = MEMORY
        tempfile.tempdir = None  # whoever asked before had another answer


_folders_in_memory()
# What Spark's scripts give to the JVM, also to those of children.
os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())

# Java's classes and packages that are asked for again in every call. The JVM searches all its archives for a short name,
# and for a package.
JAVA_CLASSES = (
    "functions", "PythonUtils", "SimplePythonFunction", "PythonSQLUtils", "PythonRDD", "SerDeUtil",
)  # fmt: skip
JAVA_PACKAGES = (
    "java.util",
    "org.apache.hadoop.fs",
    "org.apache.spark.sql.streaming",
    "org.apache.spark.api.python",
)


SESSIONS = 2

LONGEST = (
    "tests/surface/sql/test_against_spark.py", "tests/test_transcripts_rows.py", "tests/faults/test_kills.py",
    "tests/surface/test_cli_spark.py", "tests/surface/test_relations.py", "tests/checkpoints/test_resume.py",
    "tests/surface/test_operators.py", "tests/surface/test_joins.py", "tests/surface/test_local_job.py",
    "tests/surface/test_feedback_spark.py", "tests/kernels/test_translate_spark.py", "tests/surface/test_join_types.py",
    "tests/engine/test_names_spark.py", "tests/test_transcripts_splits.py", "tests/test_transcripts_crash.py",
    "tests/surface/test_holistic_aggregates.py", "tests/surface/sql/test_same_tree.py",
    "tests/surface/test_expression_texts.py", "tests/faults/test_damage.py", "tests/engine/test_running.py",
    "tests/surface/test_join_bands.py", "tests/surface/test_against_spark.py", "tests/faults/test_relation_kills.py",
    "tests/faults/test_damaged_logs.py", "tests/surface/test_frame_methods.py", "tests/engine/test_plan_shape.py",
    "tests/engine/test_piles.py", "tests/surface/sql/test_catalogue.py", "tests/surface/sql/test_commands.py",
    "tests/engine/test_rows_plan.py", "tests/engine/test_feedback_agrees.py", "tests/engine/test_kept_plan.py",
    "tests/toy/test_toy.py", "tests/faults/test_kills_local.py", "tests/test_transcripts_local.py",
    "tests/engine/test_quality_joins.py", "tests/records/test_records_equal.py",
    "tests/engine/feedback/test_viewport.py", "tests/engine/feedback/test_range.py", "tests/engine/test_names.py",
    "tests/engine/test_quality.py", "tests/oracle/test_kernels_against_oracle.py", "tests/engine/test_every_kind.py",
    "tests/engine/test_damage.py", "tests/oracle/test_waiting_against_oracle.py",
    "tests/oracle/test_relations_against_oracle.py", "tests/engine/feedback/test_bare.py", "tests/engine/test_copies_beside.py",
    "tests/engine/feedback/test_progress.py", "tests/engine/feedback/test_typed.py",
    "tests/engine/pace/test_random.py", "tests/engine/test_copy_memory.py", "tests/oracle/test_reordering.py", "tests/engine/test_join_engine.py",
    "tests/semantics/quality/test_changes.py", "tests/oracle/test_joint_windows.py", "tests/test_conformance.py",
)  # fmt: skip
"""Files that take the longest, the longest first. One of them at the end would leave the other processes without work."""
NEEDS_SPARK = re.compile(r"\bspark: (SparkSession|Any)\b|^def .*\bspark\b", re.M)


def pytest_collection_finish() -> None:
    """Spare the garbage collector seven thousand tests and all modules, which it would look through again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a file in one process, and those that need Spark in two, each with a session of its own.

    A third session would take half a minute of two cores until it is warm. The two get the next file that needs Spark when
    they are done with one, so that both end at about the same time; then they help with the other files.
    """
    from xdist.scheduler import LoadScopeScheduling

    @cache
    def needs_spark(file: str) -> bool:
        return bool(NEEDS_SPARK.search((config.rootpath / file).read_text(encoding="utf-8")))

    def length(file: str) -> int:
        return len(LONGEST) - LONGEST.index(file) if file in LONGEST else 0

    class Grouped(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("::")[0]

        def _assign_work_unit(self, node: Any) -> None:
            has_session = node in self.nodes[:SESSIONS]
            files = [f for f in self.workqueue if has_session or not needs_spark(f)]
            if not files:
                node.shutdown()
                return
            first = max(files, key=lambda f: (needs_spark(f), length(f)))
            self.workqueue.move_to_end(first, last=False)
            super()._assign_work_unit(node)

    return Grouped(config, log)


def _rows_go_straight_to_the_jvm() -> None:
    """Have PySpark hand over lists of rows as it has pickled them.

    It would have a Python worker unpickle and pickle them once more, in each query over them.
    """
    from pyspark.core.rdd import RDD
    from pyspark.serializers import BatchedSerializer, CPickleSerializer

    usual = RDD._to_java_object_rdd

    def straight(rdd: Any) -> Any:
        how = rdd._jrdd_deserializer
        if (
            type(rdd) is RDD
            and type(how) is BatchedSerializer
            and type(how.serializer) is CPickleSerializer
        ):
            return rdd.ctx._jvm.SerDeUtil.pythonToJava(rdd._jrdd, True)
        return usual(rdd)

    RDD._to_java_object_rdd = straight  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small Spark session for the whole run, in UTC."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    sql = pytest.importorskip("pyspark.sql")
    session = (
        sql.SparkSession.builder.master("local[2]")
        .appName("slackwater-tests")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        # A batch of a few rows is not worth compiling. Children of tests, `sw.session` and `compiled_code` do compile.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        # Nor is it worth planning anew on the way. Jobs of Slackwater have it off by themselves, see `test_plan_shape`.
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.ui.explainMode", "simple")  # nobody looks at the plans
        # Else each call on a column asks the JVM five times, to note the line of the caller for Spark's own errors.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        # As `sw.session` has them.
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.python.daemon.module", DAEMON)
        .config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    _rows_go_straight_to_the_jvm()
    java = session.sparkContext._jvm
    for name in JAVA_CLASSES:
        setattr(java, name, getattr(java, name))
    for package in JAVA_PACKAGES:
        room = java
        for name in package.split("."):
            inside = getattr(room, name)
            setattr(room, name, inside)
            room = inside
    yield session
    session.stop()


@pytest.fixture
def compiled_code(spark: SparkSession) -> Iterator[None]:
    """Spark compiles expressions and stages in this test, as it does for users."""
    settings = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    before = {key: str(spark.conf.get(key)) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key, value in before.items():
        spark.conf.set(key, value)
