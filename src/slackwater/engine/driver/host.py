"""Where a query's batches come from and where their jobs run: the one seam between the batch loop and Spark.

The loop decides, writes and publishes. What a batch consists of, and who runs its tasks, it asks its host.
`SparkHost` is Spark. `slackwater.testing.local` has a host that plays Spark in one process, for tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from slackwater.engine.driver.job import run_forgetting, run_job
from slackwater.engine.lowlevel.inputs import Input
from slackwater.engine.lowlevel.splits import Split
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.reports import TaskReport
from slackwater.engine.store import log_checks, spark_log
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.manifest import Manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Host(Protocol):
    """What the loop needs of whoever drives it. ``location`` is the query's checkpoint directory."""

    def offsets(self, location: Path, batch: int) -> list[Any] | None:
        """How far each source had come at the end of a batch, the heartbeat last; None if that cannot be known."""
        ...

    def new_files(self, location: Path, source: int, batch: int) -> list[str]:
        """Paths of the files that a source has in a batch; tasks read them as splits."""
        ...

    def row_files(self, location: Path, source: int, batch: int) -> list[str]:
        """Paths of the files whose rows the host reads itself; none if the source is not one of files."""
        ...

    def check_logs(self, checkpoint: Checkpoint, last: Manifest | None) -> None:
        """Refuse a start if the host's own record of the batches is not that of the newest manifest."""
        ...

    def run_job(
        self,
        frame: Any,
        batch: Batch,
        inputs: Sequence[Input],
        splits: dict[int, dict[str, list[Split]]],
        has_rows: bool,
    ) -> list[TaskReport]:
        """Run the tasks of a batch; the reports of its group tasks, exactly one per group and level.

        ``frame`` is what the host called the loop with.
        """
        ...

    def forget(self, root: str) -> None:
        """Let the workers remove what they keep for a query that has ended; ``root`` is its part of the checkpoint."""
        ...


class SparkHost:
    """Spark's logs and Spark's jobs."""

    def __init__(self) -> None:
        self._spark: SparkSession | None = None
        """The session of the last job."""

    def offsets(self, location: Path, batch: int) -> list[Any] | None:
        return spark_log.offsets(location, batch)

    def new_files(self, location: Path, source: int, batch: int) -> list[str]:
        return spark_log.new_files(location, source, batch)

    def row_files(self, location: Path, source: int, batch: int) -> list[str]:
        return spark_log.row_files(location, source, batch)

    def check_logs(self, checkpoint: Checkpoint, last: Manifest | None) -> None:
        log_checks.check_logs(checkpoint, last)

    def run_job(
        self,
        frame: Any,
        batch: Batch,
        inputs: Sequence[Input],
        splits: dict[int, dict[str, list[Split]]],
        has_rows: bool,
    ) -> list[TaskReport]:
        self._spark = frame.sparkSession
        return run_job(frame, batch, inputs, splits, has_rows)

    def forget(self, root: str) -> None:
        """On executors that run one of the tasks, as a rule all; on others the files go when they were long not used."""
        if self._spark is not None:
            run_forgetting(self._spark, root)
