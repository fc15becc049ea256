"""``python -m benchmarks.adaptive``: state of sliding sums over groups of unequal size, kept in three ways.

All groups as partial aggregates (eager), all as rows (lazy), or each in the way that is smaller (adaptive). Groups are drawn
by Zipf's law; the more skew, the more groups have a row or none while a few have most.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.kernels import adaptive, aggregate, column_engine
from slackwater.kernels.aggregate import END, AggregateSpec, ints
from slackwater.model.aggregate import Primitive
from slackwater.model.schema import Field, column
from slackwater.model.window import TimeWindow
from slackwater.semantics.window_ids import wid_range

SKEWS = (0.0, 0.4, 0.8, 1.0, 1.2, 1.6, 2.0)
WINDOW = TimeWindow(300, 60, 0, "t")
BATCHES, WIDTH, LAG = 20, 30, 15
RESULTS = Path(__file__).parent / "results"


def spec_of(plan: Any) -> AggregateSpec:
    """Sum, mean and deviation of one column."""
    v = column("v", "bigint")
    made = (("sum", "bigint"), ("avg", "double"), ("stddev_pop", "double"))
    parts = tuple(Primitive(f"_a{i}", f, (v,), t) for i, (f, t) in enumerate(made))
    return AggregateSpec((Field("k", "bigint"),), WINDOW, parts, plan, True)


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
    """The most bytes of state of each way, after any batch."""
    spec, wids = spec_of("adaptive"), spec_of("wids")
    con = column_engine.connect()
    inner = adaptive.unit(spec)
    kept = adaptive.rows_schema(spec).empty_table()
    items = aggregate.partials_schema(inner).empty_table()
    listed = adaptive.eager_schema(spec).empty_table()
    lazy, eager = kept, aggregate.partials_schema(wids).empty_table()
    closed, peaks, groups = -END, {"eager": 0, "lazy": 0, "adaptive": 0}, {}
    for i, table in enumerate(data(rows, keys, skew)):
        sql = adaptive.rows_select(spec, ['"k"'], '"t"', "input")
        new = adaptive.rows(column_engine.sql_to_arrow(con, sql, {"input": table}), spec)
        close_to = ((i + 1) * WIDTH - LAG) // WINDOW.slide - 1
        done = adaptive.step(spec, new, kept, items, listed, closed, close_to, connection=con)
        sql = aggregate.partial_select(wids, ['"k"'], '"t"', "input")
        fresh = aggregate.partials(column_engine.sql_to_arrow(con, sql, {"input": table}), wids)
        closed = max(closed, close_to)
        kept = done.rows if done.all_rows else pa.concat_tables([kept, done.rows])
        kept, lazy = alive(kept, closed), alive(pa.concat_tables([lazy, new]), closed)
        items = aggregate.merge_partials(inner, [items, done.items])
        ends = inner.panes.end_window(ints(items, "_pane"))
        items, listed = items.filter(pa.array(ends > closed + 1)), done.eager
        eager = aggregate.merge_partials(wids, [eager, fresh])
        eager = eager.filter(pa.array(ints(eager, "_pane") > closed))
        state = kept.nbytes + items.nbytes + listed.nbytes
        for name, size in (("eager", eager.nbytes), ("lazy", lazy.nbytes), ("adaptive", state)):
            peaks[name] = max(peaks[name], size)
        groups = dict(done.groups)
    return {"skew": skew, **peaks, "groups": groups}


def alive(rows: pa.Table, closed: int) -> pa.Table:
    """Rows that some open window holds."""
    return rows.filter(pa.array(np.asarray(wid_range(ints(rows, "_time"), WINDOW)[1]) > closed + 1))


def plot(points: list[dict[str, Any]], target: Path) -> None:
    """Peak bytes over skew."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "slackwater"  # the same numbers give the same file
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name in ("eager", "lazy", "adaptive"):
        axes.plot([p["skew"] for p in points], [p[name] / 1e6 for p in points], "o-", label=name)
    axes.set(xlabel="skew (exponent of Zipf's law)", ylabel="MB of state, at most", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)


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
    name = "adaptive-quick" if options.quick else "adaptive"
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({"points": points}, indent=1) + "\n")
    plot(points, RESULTS / f"{name}.svg")


if __name__ == "__main__":
    main()
