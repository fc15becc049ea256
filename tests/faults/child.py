"""A driver to be killed: runs one scenario to its end, unless a failpoint or the test stops it.

``python -m tests.faults.child SCENARIO INPUTS STATE GROUPS [worker]``. It leads a process group of its own, which
stands for the machine: a failpoint in a worker kills the whole group, or with ``worker`` only that worker,
whose task is then tried again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from slackwater.engine import failpoints


def main(name: str, inputs: str, state: str, groups: str, scope: str = "machine") -> None:
    # Before the JVM starts: workers inherit its environment, not ours.
    if scope == "machine":
        os.environ[failpoints.KILL_GROUP] = str(os.getpgrp())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from tests.faults.scenarios import scenarios

    spark = (
        SparkSession.builder.master("local[2]" if scope == "machine" else "local[2,4]")
        .appName("slackwater-fault")
        .config("spark.driver.memory", "1g")
        # It lives for seconds: compiling for speed would cost more than it saves.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    print("ready", flush=True)
    query = scenarios()[name].start(spark, Path(inputs), Path(state), groups=int(groups))
    query.awaitTermination()
    print("finished", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
