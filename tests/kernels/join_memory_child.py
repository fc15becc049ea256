"""A join in a process whose address space is limited to a budget plus a constant. Prints what came out.

Run as ``python join_memory_child.py KERNEL BUDGET CONSTANT FOLDER``, with KERNEL ``blocks`` or ``whole``: the latter
is the naive way, which reads all the runs of its group and joins them in memory.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from slackwater.engine.store.local import PRIVATE
from slackwater.engine.store.storage import Folder
from slackwater.kernels.joins.bounded.blocks import FileBlockStore
from slackwater.kernels.joins.bounded.ledger import Ledger
from slackwater.kernels.joins.bounded.step import BatchBounds, BoundedJoin, bounded_step
from slackwater.kernels.joins.step import JoinSpec, step
from slackwater.model.join import Band
from slackwater.semantics.join import needed_from
from slackwater.semantics.join_memory import JoinPolicy
from slackwater.semantics.limits import END, START

PAYLOAD = 400
BATCHES, ROWS, KEYS, SPAN = 12, 12_000, 60_000, 9  # a window holds the rows of SPAN batches
TICK = 10
SCHEMA = pa.schema(
    [
        ("__sw_time", pa.int64()),
        ("__sw_bucket", pa.int16()),
        ("__sw_k0", pa.int64()),
        ("p", pa.binary(PAYLOAD)),
    ]
)
BAND = Band(SPAN * ROWS * TICK, 0)
SPEC = JoinSpec(BAND, 1, (("p",), ("p",)))


def keys_and_times(batch: int, side: int, rows: int = ROWS):
    rng = np.random.default_rng([batch, side])
    return rng.integers(0, KEYS, rows), (batch * rows + rng.permutation(rows)) * TICK


def pieces(batch: int, side: int, rows: int = ROWS):
    """The rows of a batch, a thousand at a time, as they would come off the wire."""
    keys, times = keys_and_times(batch, side, rows)
    for at in range(0, rows, 1_000):
        k, t = keys[at : at + 1_000], times[at : at + 1_000]
        body = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(PAYLOAD), len(k), [None, pa.py_buffer(bytes(len(k) * PAYLOAD))]
        )
        bucket = pa.array((k % 256).astype(np.int16))
        yield pa.table([pa.array(t), bucket, pa.array(k), body], schema=SCHEMA)


def bounds(batch: int, rows: int = ROWS, last: int = BATCHES):
    at = START if batch < 0 else END if batch == last - 1 else (batch + 1) * rows * TICK
    return (at, at)


def by_blocks(folder: Path, budget: int, rows: int, batches: int) -> dict:
    ledger, join = Ledger(), BoundedJoin(SPEC, [SCHEMA] * 2, JoinPolicy(budget))
    found = {"results": 0, "delayed": 0, "state": 0, "read": 0}

    def emit(chunk, delayed):
        found["results"] += chunk.num_rows
        found["delayed"] += chunk.num_rows * delayed

    for b in range(batches):
        batch = BatchBounds(
            bounds(b - 1, rows, batches), bounds(b, rows, batches), now=b * 1_000_000
        )
        inputs = [pieces(b, side, rows) for side in (0, 1)]
        done = bounded_step(
            join, ledger, FileBlockStore(Folder(PRIVATE, folder)), inputs, batch, emit
        )
        ledger = Ledger.from_json(json.loads(json.dumps(done.ledger.to_json())))
        found["state"] = max(found["state"], done.stats.state_bytes)
        found["read"] += done.stats.read_bytes
        for path in folder.iterdir():
            if path.name not in ledger.runs():
                path.unlink()
    final = BatchBounds(
        bounds(batches - 1, rows, batches), (END, END), now=batches * 1_000_000, final=True
    )
    bounded_step(join, ledger, FileBlockStore(Folder(PRIVATE, folder)), [[], []], final, emit)
    return found


def as_a_whole(folder: Path, rows: int, batches: int) -> dict:
    runs: list[list[tuple[int, Path]]] = [[], []]
    found = {"results": 0, "delayed": 0, "state": 0, "read": 0}
    for b in range(batches):
        new = [pa.concat_tables(pieces(b, side, rows)) for side in (0, 1)]

        def stored(side):
            def read(low, high):
                tables = [pa.ipc.open_file(p.read_bytes()).read_all() for _, p in runs[side]]
                return pa.concat_tables([SCHEMA.empty_table(), *tables])

            return read

        old, now = bounds(b - 1, rows, batches), bounds(b, rows, batches)
        joined = step(SPEC, new, [stored(0), stored(1)], old, now)
        for chunk in joined.output:
            found["results"] += chunk.num_rows
        for side, table in enumerate(joined.finish().keep):
            path = folder / f"{side}-{b}.arrow"
            with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, SCHEMA) as writer:
                writer.write_table(table)
            high = int(table["__sw_time"].to_numpy().max()) if table.num_rows else START
            runs[side].append((high, path))
            least = needed_from(BAND, side, now)
            runs[side] = [(h, p) for h, p in runs[side] if h >= least]
    return found


def expected() -> int:
    """How many pairs there are, counted key by key."""
    sides = [
        [
            np.concatenate(c)
            for c in zip(*(keys_and_times(b, s) for b in range(BATCHES)), strict=True)
        ]
        for s in (0, 1)
    ]
    width = 1 << 40
    right = np.sort(sides[1][0] * width + sides[1][1])
    left = sides[0][0] * width + sides[0][1]
    low = np.maximum(sides[0][1] - BAND.before, 0) + sides[0][0] * width
    return int((np.searchsorted(right, left, side="right") - np.searchsorted(right, low)).sum())


def address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def main() -> None:
    kernel, budget, constant, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    pa.set_cpu_count(1)
    warm, work = Path(folder) / "warm", Path(folder) / "work"
    warm.mkdir()
    work.mkdir()
    # Load all code and start all threads before the limit is set: they are the baseline.
    by_blocks(warm, 20_000, 30, 2)
    as_a_whole(warm, 30, 2)
    limit = address_space() + budget + constant
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        if kernel == "blocks":
            found = by_blocks(work, budget, ROWS, BATCHES)
        else:
            found = as_a_whole(work, ROWS, BATCHES)
    except (MemoryError, pa.ArrowMemoryError) as error:
        print(json.dumps({"out_of_memory": type(error).__name__}))
        return
    print(json.dumps(found))


if __name__ == "__main__":
    main()
