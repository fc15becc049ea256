"""Joins in order and out of order: rows that are held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from benchmarks.baselines.merge import Merge
from benchmarks.baselines.ordered import InputBuffered, OutputBuffered
from benchmarks.experiments.common import Finding, yes
from slackwater.kernels.joins.spec import JoinSpec
from slackwater.kernels.windows.partials_step import ints
from slackwater.model.join import Band, Tumbling, Within
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END, START

MILLI = 1000
SCHEMA = pa.schema([("__sw_time", pa.int64()), ("__sw_bucket", pa.int16()), ("__sw_k0", pa.int64()), ("id", pa.int64())])  # fmt: skip
BANDS = (1, 3, 5, 7, 9)


def packets(seed: int, rate: float, length: int, keys: int) -> pa.Table:
    """Rows of one link in order, times in ms."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, length * MILLI, int(rate * length)))
    return rows_at(times, rng.integers(0, keys, len(times)))


def rows_at(times: Any, keys: Any) -> pa.Table:
    """Rows for the join kernel."""
    bucket = np.zeros(len(times), np.int16)
    return pa.table([times, bucket, keys, np.arange(len(times))], schema=SCHEMA)


def second_of(table: pa.Table, second: int, delay: int = 0) -> pa.Table:
    """What a link that is late brings in a second."""
    ends = [(second - delay) * MILLI, (second + 1 - delay) * MILLI]
    low, high = np.searchsorted(ints(table, "__sw_time"), ends)
    return table.slice(low, high - low)


def spec_of(within: Within) -> JoinSpec:
    """Equal keys, the rows' numbers come out."""
    return JoinSpec(within, 1, (("id",), ("id",)))


def bands(*, quick: bool = False) -> Finding:
    """X7 and X8: a band join whose inputs are in order, three ways."""
    rate, length, keys = (20, 25, 8) if quick else (200, 40, 40)
    links = [packets(1, rate, length, keys), packets(2, rate, length, keys)]
    lines: list[list[str]] = []
    points: list[dict[str, Any]] = []
    for n in BANDS[::2] if quick else BANDS:
        spec = spec_of(Band(n * MILLI, n * MILLI))
        operators: dict[str, OutputBuffered | InputBuffered] = {"output": OutputBuffered(spec, [SCHEMA] * 2), "input": InputBuffered(spec, [SCHEMA] * 2)}  # fmt: skip
        most = {"ours": 0, "output": 0, "input": 0}
        results = {"output": 0, "input": 0}
        waited = {"output": 0.0, "input": 0.0}
        for second in range(length + 1):
            new = [second_of(t, second) for t in links]
            bound = END if second == length else (second + 1) * MILLI
            for name, operator in operators.items():
                out = operator.step(new, (bound, bound))
                results[name] += out.num_rows
                # A result could be had when its later row came, which was in the second of its time.
                came = ints(out, "__sw_time") // MILLI
                waited[name] += float(np.sum(second - came))
                most[name] = max(most[name], operator.held_rows)
            stored = sum(t.num_rows for t in operators["output"].stored)
            most["ours"] = max(most["ours"], stored)
        assert results["output"] == results["input"]
        pause = {k: waited[k] / max(1, results[k]) for k in waited}
        points.append({"band": n, **most, "results": results["input"], "pause": pause})
        lines.append(
            [
                f"{n} s", *(f"{most[k]:,}" for k in ("ours", "output", "input")), f"{most['ours'] / most['output']:.2f}",
                f"{most['ours'] / most['input']:.2f}", f"0, {pause['output']:.1f}, {pause['input']:.1f} s",
            ]
        )  # fmt: skip
    return Finding(
        "X7, X8",
        "A band join, out of order and in order",
        f"Two links of {rate} rows a second, in order and in step, {keys} keys; partners at most n seconds apart to either side; bounds every second. The most rows and results "
        "held after any second, and how long results wait on average after both rows are there.",
        ("n", "ours", "results buffered", "inputs buffered", "ours / results", "ours / inputs", "waits"),
        lines,
        "ours much less than with results buffered, the more the larger n, also in latency; a little less than with inputs buffered at every n (no figures in the text)",
        f"{points[-1]['ours'] / points[-1]['output']:.2f} of results buffered and {points[-1]['ours'] / points[-1]['input']:.2f} of inputs buffered at n = 9 s; ours makes a result at once",
        yes(all(p["ours"] < p["output"] and p["ours"] <= p["input"] for p in points)),
        points=points,
    )  # fmt: skip


def held(
    sides: Sequence[Sequence[tuple[pa.Table, int]]],
    within: Within,
    length: int,
    mode: Literal["in order", "ours"],
) -> tuple[int, int]:
    """The most rows in merges and in the join; ``sides`` have links with their delays. And the results."""
    join = OutputBuffered(spec_of(within), [SCHEMA] * 2)
    merges = [Merge(len(side)) for side in sides]
    frontiers = [[START] * len(side) for side in sides]
    most = results = 0
    last = length + max(d for side in sides for _, d in side)
    for second in range(last + 1):
        new, bounds = [], []
        for i, side in enumerate(sides):
            come = [second_of(t, second, d) for t, d in side]
            if mode == "in order":
                told = [END if second == last else START] * len(side)
                new.append(merges[i].step(come, told))
                bounds.append(merges[i].frontier)
            else:
                for j, t in enumerate(come):
                    if t.num_rows:
                        frontiers[i][j] = int(ints(t, "__sw_time")[-1])
                new.append(pa.concat_tables(come))
                bounds.append(END if second == last else min(frontiers[i]))
        results += join.step(new, (bounds[0], bounds[1])).num_rows
        waiting = sum(m.held_rows for m in merges) + sum(t.num_rows for t in join.stored)
        most = max(most, waiting)
    return most, results


def control(*, quick: bool = False) -> Finding:
    """X12 and N2: a join on equal seconds of one link with the union of another and a late one."""
    rate, length = (20, 25) if quick else (200, 60)
    first, second = packets(1, rate, length, 400), packets(2, rate, length, 400)
    times = np.arange(0, length * MILLI, MILLI)
    third = rows_at(times, np.zeros(len(times), np.int64))
    within = Tumbling(TimeWindow(MILLI, MILLI, 0, "ts"))
    lines, points = [], []
    for delay in (0, 5, 10) if quick else (0, 2, 4, 6, 8, 10):
        sides = [[(first, 0)], [(second, 0), (third, delay)]]
        a, b = (held(sides, within, length, m) for m in ("in order", "ours"))
        assert a[1] == b[1]
        points.append({"delay": delay, "in_order": a[0], "ours": b[0]})
        lines.append([f"{delay} s", f"{a[0]:,}", f"{b[0]:,}", f"{b[0] / a[0]:.2f}"])
    slopes = [(points[-1][k] - points[0][k]) / 10 / rate for k in ("in_order", "ours")]
    return Finding(
        "X12",
        "A join with a union that has a late input",
        f"M1 joined on equal seconds and keys with M2 and C together; M1 and M2 have {rate} rows a second, C one, and is late. Rows held at most, in merge and join.",
        ("delay of C", "in order", "ours", "ours / in order"),
        lines,
        "ours grows more slowly; expected: 2 rows per row of rate and second of delay in order, 1 in ours",
        f"{slopes[0]:.2f} and {slopes[1]:.2f} rows per row of rate and second of delay",
        yes(slopes[1] < 0.6 * slopes[0]),
        points=points,
    )  # fmt: skip


def unions(*, quick: bool = False) -> Finding:
    """X11 and G3: both inputs of a tumbling join are unions with skew."""
    rate, length = (10, 40) if quick else (50, 150)
    links = [packets(i, rate, length, 500) for i in range(4)]
    within = Tumbling(TimeWindow(10 * MILLI, 10 * MILLI, 0, "ts"))
    lines, points = [], []
    for skew in (0, 20) if quick else (0, 10, 20, 50, 100):
        sides = [[(links[0], 0), (links[1], skew)], [(links[2], 0), (links[3], skew)]]
        a, b = (held(sides, within, length, m) for m in ("in order", "ours"))
        assert a[1] == b[1]
        points.append({"skew": skew, "in_order": a[0], "ours": b[0]})
        lines.append([f"{skew} s", f"{a[0]:,}", f"{b[0]:,}", f"{b[0] / a[0]:.2f}"])
    ratio = points[-1]["ours"] / points[-1]["in_order"]
    return Finding(
        "X11",
        "A tumbling join of two unions with skew",
        f"Windows of 10 s, (A and B) with (C and D), {rate} rows a second each; B and D are late by the skew. Rows held at most, in merges and join.",
        ("skew", "in order", "ours", "ours / in order"),
        lines,
        "the same number of rows; up to 20% more bytes in theirs, for its hash table",
        f"{ratio:.2f} times the rows at the largest skew; a row takes the same bytes in both",
        yes(0.8 <= ratio <= 1.2),
        points=points,
    )  # fmt: skip
