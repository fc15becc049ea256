"""One run in a process of its own, for measuring memory: ``python -m benchmarks.child JOB ANSWER``."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks import contenders
from benchmarks.cases import Window


def main() -> None:
    """Run the job, write the answer."""
    job, answer = json.loads(sys.argv[1]), Path(sys.argv[2])
    spark = contenders.session(job["heap"])
    work = Path(job["work"])
    run = contenders.run(
        spark,
        job["contender"],
        Window(job["range"], job["slide"]),
        Path(job["source"]),
        work,
        limit=job.get("limit"),
    )
    found = {**asdict(run), "out": str(run.out)}
    spark.stop()
    shutil.rmtree(work, ignore_errors=True)
    answer.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
