"""An archive of the classes that Spark loads, from which the JVMs of tests start: ``python -m tests.class_archive FILE``.

A JVM spends half of its first seconds on finding, reading and checking classes. With an archive it maps them
(class data sharing). `make test` and `make faults` write the archive once per environment; without one, tests are
slower and nothing else.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

FILE = Path(sys.prefix) / ".classes.jsa"

SCENARIO = "union, rows and splits"

# Batches of a few rows: what a second compiler or a second collector saves is less than it costs. Hadoop starts
# a process for each file that Spark logs; by default Java starts a helper first, which starts the process.
# With one compiler Java keeps only 48 MB of compiled code; hundreds of queries fill that, and Java then spends an eighth
# of its time on throwing code away.
# With room for young objects most have died when the collector looks; by default it looks every half second.
QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn600m -XX:ReservedCodeCacheSize=240m -XX:-UseCodeCacheFlushing "
    "-Djdk.lang.Process.launchMechanism=VFORK"
)


def java_options() -> str:
    """How JVMs of tests start. An archive of another Java or Spark is refused by the JVM, which then goes on without."""
    return f"{QUICK} -XX:SharedArchiveFile={FILE} -Xlog:disable" if FILE.exists() else QUICK


def write(path: Path) -> None:
    """Run a query, and have the JVM write what it loaded when it ends."""
    unfinished = path.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{QUICK} -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from tests.faults.scenarios import scenarios

    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory() as folder:
        scenario, inputs, state = scenarios()[SCENARIO], Path(folder, "in"), Path(folder, "state")
        scenario.write_inputs(spark, inputs)
        scenario.start(spark, inputs, state, groups=2).awaitTermination()
        spark.stop()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends with its standard input
    gateway.proc.wait()
    unfinished.rename(path)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
