"""``python -m benchmarks.low_level``: the highest rate that a low level of fixed size sustains without loss.

Counts by group in tumbling windows, in three variants of the low-level table: output in order (each row sends one old entry
on, a collision sends all of them), order-free with lazy flush, and order-free with slow flush. Rows come at a fixed rate
into a ring of fixed size, and what the ring has no room for is lost. Each variant is run once and the time of each chunk
taken; the ring is then played through for any rate, so that the answer does not depend on how long one waits.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.record import heading, store
from benchmarks.simulations import low_ordered
from slackwater.kernels.windows import low_table
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import AggregateSpec
from slackwater.model.aggregate import Primitive
from slackwater.model.schema import Field
from slackwater.model.window import TimeWindow
from slackwater.semantics.low_table import LowTable, due, first_open

VARIANTS = ("ordered", "lazy", "slow")
EVERY, WINDOWS = 160, 2
SOURCE = "source, 260,000 groups and 540,000 slots: 400,000 rows/s ordered, 760,000 lazy, 800,000 slow (1.9 and 2.0 times)"


def lost(service: Sequence[float], chunk: int, ring: int, rate: float) -> int:
    """Rows lost when chunks of ``chunk`` rows, each served in ``service[i]`` seconds, come at ``rate`` rows a second
    through a ring of ``ring`` rows; a row that finds the ring full is lost, and its place in a chunk is empty.

    >>> lost([1.0, 1.0, 3.0, 1.0], 10, 30, 10), lost([1.0, 1.0, 3.0, 1.0], 10, 20, 10)
    (0, 10)
    """
    waiting, gone = 0.0, 0.0
    for seconds in service:
        # While a chunk is served the rows of the next ones come; what has been waiting is one chunk less.
        waiting = max(0.0, waiting - chunk)
        waiting += seconds * rate
        if waiting > ring:
            gone += waiting - ring
            waiting = float(ring)
    return round(gone)


def sustained(service: Sequence[float], chunk: int, ring: int) -> float:
    """The highest rate, in rows a second, at which nothing is lost and nothing piles up."""
    low, high = 0.0, chunk * len(service) / sum(service)
    if not lost(service, chunk, ring, high):
        return high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if lost(service, chunk, ring, middle) else (middle, high)
    return low


def spec() -> AggregateSpec:
    """A count by two columns, as of packets between two addresses."""
    keys = (Field("src", "bigint"), Field("dst", "bigint"))
    counts = Primitive("_a0", "count", (), "bigint")
    return AggregateSpec(keys, TimeWindow(1, 1, 0, "w"), (counts,), "panes", True)


def chunks(groups: int, chunk: int, per_window: int, windows: int) -> list[pa.Table]:
    """Partials of chunks of rows, in order of window; groups are drawn evenly."""
    rng = np.random.default_rng(5)
    schema = aggregate.partials_schema(spec())
    made = []
    for i in range(per_window * windows):
        group, count = np.unique(rng.integers(0, groups, chunk), return_counts=True)
        pane = np.full(len(group), i // per_window)
        columns = [np.zeros(len(group), np.int16), group % 1024, group // 1024, pane, count]
        made.append(pa.table([pa.array(c) for c in columns], schema=schema))
    return made


def serve(data: Sequence[pa.Table], variant: str, slots: int, probe: bool) -> dict[str, Any]:
    """CPU seconds of each chunk and entries that left with it. The counts above must add up."""
    s = spec()
    rule = LowTable(slots, EVERY if variant == "slow" else 0, WINDOWS, probe)
    table, ordered = low_table.empty(s), low_ordered.empty(s)
    seconds, sizes, total = [], [], 0
    for new in data:
        opened = first_open(int(new["_pane"][0].as_py()), 0, 1)
        begin = time.process_time()
        if variant == "ordered":
            ordered, sent, _ = low_ordered.ordered_step(s, ordered, [new], rule)
        else:
            done = low_table.step(s, table, [new], rule, opened)
            gone, entries = low_table.below(done.state.entries, due(opened, 1, WINDOWS))
            table = done.state._replace(entries=entries)
            sent = pa.concat_tables([done.sent, gone.drop_columns([low_table.SLOT])])
        _handed_on(sent)
        seconds.append(time.process_time() - begin)
        sizes.append(sent.num_rows)
        total += int(sent["_a0_n"].to_numpy().sum())
    left = ordered.entries if variant == "ordered" else table.entries
    total += int(left["_a0_n"].to_numpy().sum())
    return {"seconds": seconds, "sent": sizes, "total": total}


def _handed_on(sent: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, sent.schema) as writer:
        writer.write_table(sent)


def measure(
    groups: int, slots: int, chunk: int, rows: int, ring: int, probe: bool
) -> dict[str, Any]:
    """The three variants on the same rows; the first window only fills the table."""
    per_window = max(1, rows // chunk)
    data = chunks(groups, chunk, per_window, 4)
    found: dict[str, Any] = {"groups": groups, "slots": slots}
    totals = set()
    for variant in VARIANTS:
        done = serve(data, variant, slots, probe)
        seconds = done["seconds"][per_window:]
        totals.add(done["total"])
        found[variant] = {
            "rate": round(sustained(seconds, chunk, ring)),
            "mean": round(chunk * len(seconds) / sum(seconds)),
            "longest": round(max(seconds), 4),
            "mostSent": max(done["sent"][per_window:]),
        }
    assert len(totals) == 1, "rows got lost in a table"
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.low_level", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    parser.add_argument("--groups", type=int, nargs="+", default=[66_000, 130_000, 260_000])
    parser.add_argument(
        "--shares", type=float, nargs="+", default=[0.5, 1, 2], help="slots per group"
    )
    parser.add_argument("--chunk", type=int, default=65_536, help="rows that are taken at a time")
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows per window")
    parser.add_argument("--ring", type=int, default=131_072, help="rows that the ring holds")
    parser.add_argument(
        "--probe", action="store_true", help="a collision tries the next slot first"
    )
    given = parser.parse_args()
    if given.quick:
        given.groups, given.chunk, given.rows, given.ring = [2_000], 512, 8_192, 1_024
    print(
        f"{'groups':>8} {'slots':>8}  rows/s without loss: ordered, lazy, slow; times ordered; most sent at once"
    )
    points = []
    for groups in given.groups:
        for share in given.shares:
            slots = int(groups * share)
            found = measure(groups, slots, given.chunk, given.rows, given.ring, given.probe)
            rates = [found[v]["rate"] for v in VARIANTS]
            times = ", ".join(f"{r / rates[0]:.2f}" for r in rates[1:])
            most = ", ".join(f"{found[v]['mostSent']:,}" for v in VARIANTS)
            shown = ", ".join(f"{r:,}" for r in rates)
            print(f"{groups:8} {slots:8}  {shown}; {times}; {most}")
            points.append(found)
    settings = {n: v for n, v in vars(given).items() if n != "quick"}
    found = {**heading(quick=given.quick, **settings), "points": points}
    store("low-level", found, quick=given.quick)
    print(SOURCE)


if __name__ == "__main__":
    main()
