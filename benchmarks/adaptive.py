"""``python -m benchmarks.adaptive``: state of sliding sums over groups of unequal size, kept in three ways.

All groups as partial aggregates (eager), all as rows (lazy), or each in the way that is smaller (adaptive). Groups are drawn
by Zipf's law; the more skew, the more groups have a row or none while a few have most.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.pictures import axes_of
from benchmarks.record import RESULTS, file_name, heading, measured, store
from slackwater.kernels import column_engine
from slackwater.kernels.windows import adaptive
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import END, AggregateSpec, ints
from slackwater.model.aggregate import Primitive
from slackwater.model.schema import Field, column
from slackwater.model.window import TimeWindow
from slackwater.semantics.window_ids import last_complete, wid_range

SKEWS = (0.0, 0.4, 0.8, 1.0, 1.2, 1.6, 2.0)
WINDOW = TimeWindow(300, 60, 0, "t")
BATCHES, WIDTH, LAG = 20, 30, 15


V = column("v", "bigint")
LARGE = tuple(
    Primitive(f"_a{i}", f, (V,), t)
    for i, (f, t) in enumerate((("sum", "bigint"), ("avg", "double"), ("stddev_pop", "double")))
)
"""Sum, mean and deviation of one column."""


def data(rows: int, keys: int, skew: float) -> list[pa.Table]:
    """Batches of rows in order of time but for `LAG` ticks."""
    rng = np.random.default_rng(3)
    weights = 1 / np.arange(1, keys + 1) ** skew
    made = []
    for i in range(BATCHES):
        key = rng.choice(keys, rows // BATCHES, p=weights / weights.sum())
        made.append(
            pa.table({"k": key, "t": i * WIDTH + rng.integers(0, WIDTH, len(key)), "v": key % 1000})
        )
    return made


def measure(rows: int, keys: int, skew: float) -> dict[str, Any]:
    """The three ways over groups by Zipf's law."""
    bounds = [(i + 1) * WIDTH - LAG for i in range(BATCHES)]
    return {"skew": skew, **peaks(data(rows, keys, skew), bounds, WINDOW, LARGE)}


def peaks(
    batches: Sequence[pa.Table],
    bounds: Sequence[int],
    window: TimeWindow,
    primitives: tuple[Primitive, ...] = LARGE,
) -> dict[str, Any]:
    """The most bytes of state of each way after any batch, the seconds it took, and the groups at the end.

    Batches have columns k, t and v; ``bounds`` hold after them.
    """
    keys = (Field("k", "bigint"),)
    spec = AggregateSpec(keys, window, primitives, "adaptive", True)
    wids = replace(spec, plan="wids")
    con = column_engine.connect()
    inner = adaptive.unit(spec)
    kept = adaptive.rows_schema(spec).empty_table()
    items = aggregate.partials_schema(inner).empty_table()
    listed = adaptive.eager_schema(spec).empty_table()
    lazy, eager = kept, aggregate.partials_schema(wids).empty_table()
    closed, groups = -END, {}
    most = {"eager": 0, "lazy": 0, "adaptive": 0}
    taken = {"eager": 0.0, "adaptive": 0.0}
    answers = [0, 0]
    for table, bound in zip(batches, bounds, strict=True):
        close_to = last_complete(bound, window)
        begin = time.process_time()
        sql = adaptive.rows_select(spec, ['"k"'], '"t"', "input")
        new = adaptive.rows(column_engine.sql_to_arrow(con, sql, {"input": table}), spec)
        done = adaptive.step(spec, new, kept, items, listed, closed, close_to, connection=con)
        after = max(closed, close_to)
        kept = done.rows if done.all_rows else pa.concat_tables([kept, done.rows])
        kept = alive(kept, after, window)
        items = aggregate.merge_partials(inner, [items, done.items])
        ends = inner.panes.end_window(ints(items, "_pane"))
        items, listed = items.filter(pa.array(ends > after + 1)), done.eager
        taken["adaptive"] += time.process_time() - begin
        begin = time.process_time()
        sql = aggregate.partial_select(wids, ['"k"'], '"t"', "input")
        fresh = aggregate.partials(column_engine.sql_to_arrow(con, sql, {"input": table}), wids)
        plain = aggregate.step(wids, fresh, eager, closed, close_to)
        eager = aggregate.merge_partials(wids, [eager, plain.keep])
        eager = eager.filter(pa.array(ints(eager, "_pane") > after))
        taken["eager"] += time.process_time() - begin
        lazy, closed = alive(pa.concat_tables([lazy, new]), after, window), after
        state = kept.nbytes + items.nbytes + listed.nbytes
        for name, size in (("eager", eager.nbytes), ("lazy", lazy.nbytes), ("adaptive", state)):
            most[name] = max(most[name], size)
        answers = [answers[0] + done.output.num_rows, answers[1] + plain.output.num_rows]
        groups = dict(done.groups)
    if answers[0] != answers[1]:
        raise AssertionError(f"the ways differ: {answers}")
    return {**most, "seconds": taken, "groups": groups}


def alive(rows: pa.Table, closed: int, window: TimeWindow) -> pa.Table:
    """Rows that some open window holds."""
    return rows.filter(pa.array(np.asarray(wid_range(ints(rows, "_time"), window)[1]) > closed + 1))


def plot(found: dict[str, Any], target: Path) -> None:
    """Peak bytes over skew."""
    points = found["points"]
    with axes_of(target, note=measured(found)) as axes:
        for name in ("eager", "lazy", "adaptive"):
            sizes = [p[name] / 1e6 for p in points]
            axes.plot([p["skew"] for p in points], sizes, "o-", label=name)
        axes.set(
            xlabel="skew (exponent of Zipf's law)", ylabel="MB of state, at most", ylim=(0, None)
        )
        axes.legend(frameon=False)


def main() -> None:
    """Measure, print, plot."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adaptive", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    options = parser.parse_args()
    rows, keys = (10_000, 1_000) if options.quick else (1_000_000, 100_000)
    points = [measure(rows, keys, skew) for skew in (SKEWS[::3] if options.quick else SKEWS)]
    print("skew   eager MB    lazy MB  adaptive MB  over the better  groups at the end")
    for p in points:
        best = min(p["eager"], p["lazy"])
        sizes = "".join(f"{p[n] / 1e6:11.2f}" for n in ("eager", "lazy", "adaptive"))
        print(f"{p['skew']:4.1f}{sizes}{p['adaptive'] / best:15.2f}  {p['groups']}")
    found = {**heading(quick=options.quick, rows=rows, keys=keys), "points": points}
    store("adaptive", found, quick=options.quick)
    plot(found, RESULTS / f"{file_name('adaptive', quick=options.quick)}.svg")


if __name__ == "__main__":
    main()
