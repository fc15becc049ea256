"""A union with an aggregate behind it, while one input is late: bytes of state, in order and out of order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.baselines.buffering import Buffering, Running
from benchmarks.baselines.merge import Merge
from benchmarks.experiments.common import Finding, mb, yes
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import AggregateSpec, ints
from slackwater.model.aggregate import Primitive
from slackwater.model.duck_sql import quote
from slackwater.model.names import ours
from slackwater.model.schema import Field
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.semantics.window_ids import last_complete

SKEWS = (0, 1, 2, 5, 10, 20, 40)
DELAYS = (0, 2, 4, 6, 8, 10)
MILLI = 1000


class Peaks(NamedTuple):
    """The most bytes of state after any second, and the results: how many, and the sum of their counts."""

    bytes: int
    merge: int
    results: int
    total: int


def link(seed: int, rate: float, length: int, groups: int) -> pa.Table:
    """Packets of one link in order: times in ms, source and destination."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, length * MILLI, int(rate * length)))
    group = rng.integers(0, groups, len(times))
    return pa.table({"__sw_time": times, "src": group // 256, "dst": group % 256})


def steady(every: int, length: int) -> pa.Table:
    """A link with a packet every so many seconds."""
    times = np.arange(0, length * MILLI, every * MILLI)
    zero = np.zeros(len(times), np.int64)
    return pa.table({"__sw_time": times, "src": zero, "dst": zero})


def arriving(links: Sequence[pa.Table], delays: Sequence[int], second: int) -> list[pa.Table]:
    """What each link brings in one second, if all it sends is that late (in seconds)."""
    found = []
    for table, delay in zip(links, delays, strict=True):
        low, high = np.searchsorted(
            ints(table, "__sw_time"), [(second - delay) * MILLI, (second + 1 - delay) * MILLI]
        )
        found.append(table.slice(low, high - low))
    return found


def in_order(
    links: Sequence[pa.Table], delays: Sequence[int], window: TimeWindow, keys: Sequence[str]
) -> Peaks:
    """Merge, then one open window (tumbling) or the rows of the extent (sliding)."""
    merge = Merge(len(links))
    operator: Running | Buffering
    if window.is_tumbling:
        operator = Running(window, keys, ())
    else:
        operator = Buffering(window, lambda rows: pa.table({"_n": [rows.num_rows]}))
    most = held = results = total = 0
    last = seconds_of(links, delays)
    for second in range(last + 1):
        new = arriving(links, delays, second)
        told = [END if second == last else START] * len(links)
        rows = merge.step(new, told)
        done = operator.step(rows, END if second == last else START)
        if second < last:
            most = max(most, merge.held_bytes + operator.held_bytes)
            held = max(held, merge.held_bytes)
        results += sum(t.num_rows for _, t in done)
        total += sum(pc.sum(t["_n"]).as_py() for _, t in done)
    return Peaks(most, held, results, total)


def out_of_order(
    links: Sequence[pa.Table], delays: Sequence[int], window: TimeWindow, keys: Sequence[str]
) -> Peaks:
    """Our kernels: partials of open windows, stored ones merged after each second."""
    count = (Primitive("_a0", "count", (), "bigint"),)
    spec = AggregateSpec(tuple(Field(k, "bigint") for k in keys), window, count, "panes", True)
    state = aggregate.partials_schema(spec).empty_table()
    newest = [START] * len(links)
    closed, most, results, total = -aggregate.END, 0, 0, 0
    last = seconds_of(links, delays)
    fresh = reduced_by_second(links, delays, spec)
    for second in range(last + 1):
        for i, table in enumerate(arriving(links, delays, second)):
            if table.num_rows:
                newest[i] = int(ints(table, "__sw_time")[-1])
        bound = END if second == last else min(newest)
        to = aggregate.END if bound == END else last_complete(bound, window)
        done = aggregate.step(spec, fresh[second], state, closed, to)
        closed = max(closed, to)
        state = aggregate.merge_partials(spec, [state, done.keep])
        state = state.filter(pa.array(ints(state, "_pane") >= aggregate.needed(spec, closed)))
        most = max(most, state.nbytes)
        results += done.output.num_rows
        total += pc.sum(done.output["_a0"]).as_py() or 0
    return Peaks(most, 0, results, total)


def reduced_by_second(
    links: Sequence[pa.Table], delays: Sequence[int], spec: AggregateSpec
) -> list[pa.Table]:
    """The partials of what comes in each second, by one statement: only the bytes of state are measured here."""
    rows = pa.concat_tables(
        table.append_column("second", pa.array(ints(table, "__sw_time") // MILLI + delay))
        for table, delay in zip(links, delays, strict=True)
    )
    by = [("_second", '"second"')]
    sql = aggregate.partial_select(
        spec, [quote(k.name) for k in spec.keys], '"__sw_time"', "input", by
    )
    raw = sql_to_arrow(connect(), sql, {"input": rows}).sort_by(ours("_second"))
    ends = np.searchsorted(
        ints(raw, ours("_second")), np.arange(seconds_of(links, delays) + 2)
    ).tolist()
    return [aggregate.partials(raw.slice(a, b - a), spec) for a, b in pairwise(ends)]


def seconds_of(links: Sequence[pa.Table], delays: Sequence[int]) -> int:
    """The second in which all has come."""
    ends = [int(ints(t, "__sw_time")[-1]) // MILLI + 1 for t in links if t.num_rows]
    return max(ends) + max(delays)


def union(*, quick: bool = False) -> Finding:
    """X10 and G2: two links, one of them late, tumbling windows."""
    scale = 200 if quick else 40
    rate, groups = 110_000 / scale, 65_536 // scale
    points: list[dict[str, Any]] = []
    for span in (10,) if quick else (10, 60):
        window = TimeWindow(span * MILLI, span * MILLI, 0, "ts")
        length = 40 + 2 * span if span == 10 else 100
        links = [link(1, rate, length, groups), link(2, rate, length, groups)]
        for skew in SKEWS[::6] if quick else SKEWS:
            a, b = (f(links, (0, skew), window, ("src", "dst")) for f in (in_order, out_of_order))
            assert a[2:] == b[2:], "the results differ"
            points.append({"window": span, "skew": skew, "in_order": a.bytes, "merge": a.merge, "ours": b.bytes})  # fmt: skip
    lines = [
        [
            f"{p['skew']} s", f"{p['window']} s", mb(p["in_order"]), mb(p["merge"]), mb(p["ours"]),
            f"{p['ours'] / p['in_order']:.0%}",
        ]
        for p in points
    ]  # fmt: skip
    still = points[0]["ours"] / points[0]["in_order"]
    shares = {p["window"]: p["ours"] / p["in_order"] for p in points if p["skew"] == 40}
    return Finding(
        "X10",
        "State of a union and an aggregate while one input is late",
        f"Count by source and destination, tumbling windows, over two links of {rate:,.0f} rows a second and {groups:,} groups: the source's "
        "110,000 rows and 65,536 groups, both divided by the same number. The second link is late by the skew. In order: merge, then the one open window. "
        "Ours: partials of all open windows, merged after every second. The most MB after any second; results are equal. The source says both 10 s and 1 minute of its windows.",
        ("skew", "window", "in order, MB", "of it in merge", "ours, MB", "ours / in order"),
        lines,
        "at a skew of 40 s ours is 30% of in order, and below it at every skew, nearly flat",
        "at 40 s " + ", ".join(f"{s:.0%} with windows of {w} s" for w, s in shares.items()),
        yes(all(s <= 0.3 for s in shares.values())),
        f"Less than there, and below in order from a skew of a second on, as there. Without any skew ours is {still:.0%}, for a merge of links in step holds nothing, and a partial of ours has the number of its "
        "window and of its bucket besides. Counted are the bytes of columns, not of a "
        "program's heap as there. The engine stores partials in runs that it merges now and then, so its state is up to a few times larger "
        "between two merges.",
        "experiments-skew.svg",
        points,
    )  # fmt: skip


def sliding(*, quick: bool = False) -> Finding:
    """X13 and N3: three links, the slow one late, windows of five minutes every minute."""
    rate = 40 if quick else 100
    minute = 6 if quick else 60
    window = TimeWindow(5 * minute * MILLI, minute * MILLI, 0, "ts")
    length = 8 * minute
    links = [link(1, rate, length, 1), link(2, rate, length, 1), steady(2, length)]
    points: list[dict[str, Any]] = []
    for delay in DELAYS[::5] if quick else DELAYS:
        a, b = (f(links, (0, 0, delay), window, ()) for f in (in_order, out_of_order))
        assert a[2:] == b[2:], "the results differ"
        points.append({"delay": delay, "in_order": a.bytes, "merge": a.merge, "ours": b.bytes})
    lines = [
        [f"{p['delay']} s", mb(p["in_order"]), f"{p['merge'] / 1e3:,.1f}", f"{p['ours']}"]
        for p in points
    ]
    growth = points[-1]["merge"] / max(1, points[0]["merge"])
    flat = points[-1]["ours"] / points[0]["ours"]
    return Finding(
        "X13",
        "State of a sliding count over a union with a late control link",
        f"Count over 5 minutes every minute, two links of {rate} rows a second (a fortieth of the source's) and one of a row every two seconds, which is late. "
        "In order: merge, then the rows of the extent.",
        ("delay", "in order, MB", "of it in merge, KB", "ours, bytes"),
        lines,
        "in order grows strongly with the delay, out of order stays about the same (no figures in the text)",
        f"the merge grows {growth:.1f}-fold from no delay to 10 s, ours {flat:.1f}-fold",
        "in part" if growth > 2 and flat <= 1.5 else "no",
        "The merge grows as it should, ours does not; but the rows of the extent, which our aggregate in order keeps, do not depend on the delay and are most of its memory, so that in all it grows by a few percent only. "
        "Even without a delay the merge waits for the slow link's next row.",
        points=points,
    )  # fmt: skip


def plot(found: Finding, target: Path) -> None:
    """MB of state over skew."""
    from benchmarks.pictures import axes_of

    with axes_of(target) as axes:
        for span, style in ((10, "o-"), (60, "s--")):
            points = [p for p in found.points if p["window"] == span]
            x = [p["skew"] for p in points]
            axes.plot(x, [p["in_order"] / 1e6 for p in points], style, color="C1", label=f"in order, {span} s windows")  # fmt: skip
            axes.plot(x, [p["ours"] / 1e6 for p in points], style, color="C0", label=f"ours, {span} s windows")  # fmt: skip
        axes.set(xlabel="skew of one input, seconds", ylabel="MB of state, at most", ylim=(0, None))
        axes.legend(frameon=False)
