"""One run in a process of its own, for measuring memory: ``python -m benchmarks.child JOB ANSWER``."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks import contenders, join_contenders, relation_costs
from benchmarks.cases import Window


def main() -> None:
    """Run the job, write the answer."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    job, answer = json.loads(sys.argv[1]), Path(sys.argv[2])
    spark = contenders.session(job["heap"])
    work = Path(job["work"])
    source, limit = Path(job["source"]), job.get("limit")
    if "band" in job:
        run = join_contenders.run(
            spark, job["contender"], job["band"], source, work, memory=job["memory"], limit=limit
        )
    elif "large" in job:
        run = relation_costs.child_run(spark, job)
    else:
        window = Window(job["range"], job["slide"])
        run = contenders.run(spark, job["contender"], window, source, work, limit=limit)
    found = {**asdict(run), "out": str(run.out)}
    spark.stop()
    if not job.get("keep"):
        shutil.rmtree(work, ignore_errors=True)
    answer.write_text(json.dumps(found))


def _end_with(parent: int) -> None:
    """End when the benchmark that started us is gone; the JVM ends with us."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main()
