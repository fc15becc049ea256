"""One round of `benchmarks.bounded_step`, with the modules of the tree on the path: given to Python as text, since earlier commits do not have it."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import join_cases
from benchmarks.cases import SECOND
from slackwater.engine.store.kept import KeptFiles
from slackwater.engine.store.local import PRIVATE
from slackwater.engine.store.storage import Folder
from slackwater.kernels.buckets import BUCKETS, hash_of
from slackwater.kernels.joins.bounded.blocks import FileBlockStore
from slackwater.kernels.joins.bounded.ledger import Ledger
from slackwater.kernels.joins.bounded.step import BatchBounds, BoundedJoin, bounded_step
from slackwater.kernels.joins.step import JoinSpec
from slackwater.model.join import Band
from slackwater.semantics.join_memory import JoinPolicy, kept_room
from slackwater.semantics.limits import END, START

KEYS = [("__sw_time", pa.int64()), ("__sw_bucket", pa.int16()), ("__sw_k0", pa.int64())]
NAMES = list(join_cases.COLUMNS.values())


def arrivals(data: join_cases.JoinData, side: str) -> list[list[pa.Table]]:
    """The rows of one of two groups, by batch and by file, as the tasks that read them send them."""
    keys, values, times = join_cases.arrange(data, side)
    buckets = (hash_of([pa.array(keys)]) % np.uint64(BUCKETS)).astype(np.int16)
    schema = pa.schema([*KEYS, (join_cases.COLUMNS[side], pa.int64())])
    whole = pa.table([times, buckets, keys, values], schema=schema)
    own = np.flatnonzero(buckets < BUCKETS // 2)
    batches = np.split(own, np.searchsorted(own, data.side_rows * np.arange(1, data.batches)))
    files = [[b[b % data.files == f] for f in range(data.files)] for b in batches]
    return [[whole.take(pa.array(rows)) for rows in batch] for batch in files]


def main(name: str, memory: int, scratch: str) -> None:
    """Print the CPU seconds of each warm batch, and a sum over all results."""
    pa.set_cpu_count(1)
    case = next(c for c in join_cases.FULL if c.name == name)
    rows = [arrivals(case.data, side) for side in join_cases.SIDES]
    spec = JoinSpec(Band(case.band, case.band), 1, ((NAMES[0],), (NAMES[1],)))
    join = BoundedJoin(spec, [r[0][0].schema for r in rows], JoinPolicy(memory))
    ledger, old, seconds, total = Ledger(), (START, START), [], 0

    def emit(results: pa.Table, delayed: bool) -> None:
        nonlocal total
        mixed = sum((2 * i + 3) * c.to_numpy() for i, c in enumerate(results.columns))
        total = (total + int((mixed * mixed).sum())) % (1 << 64)

    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        state, kept = Path(folder, "state"), Path(folder, "kept")
        state.mkdir()
        kept.mkdir()
        for n in range(case.data.batches + 1):
            last = n == case.data.batches
            inputs = [[] if last else r[n] for r in rows]
            delay = join_cases.DELAY_SECONDS * SECOND
            newest = [max(t.column(0).to_numpy().max() for t in ts) - delay for ts in inputs if ts]
            new = (END, END) if last else (int(newest[0]), int(newest[1]))
            store = FileBlockStore(Folder(PRIVATE, state), kept=KeptFiles(kept, kept_room(memory)))
            began = time.process_time()
            ledger = Ledger.from_json(json.loads(json.dumps(ledger.to_json())))
            bounds = BatchBounds(old, new, n * 40 * SECOND, last)
            ledger = bounded_step(join, ledger, store, inputs, bounds, emit).ledger
            seconds.append(time.process_time() - began)
            old = new
            for file in state.iterdir():
                if file.name not in ledger.runs():
                    file.unlink()
    print(json.dumps({"seconds": seconds[case.skip : -1], "results": total}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
