"""Comparisons that can be told by thought, done: a lull, a split plan, a late input, an ordered output."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.baselines.ordered import OutputBuffered
from benchmarks.baselines.slack import ByTime
from benchmarks.experiments.common import Finding, yes
from benchmarks.experiments.joins import SCHEMA, rows_at, spec_of
from benchmarks.experiments.skew import MILLI, in_order, link, out_of_order, steady
from benchmarks.experiments.slack import by_bounds, by_slack, waits
from benchmarks.experiments.slack import spec_of as one_aggregate
from slackwater.kernels.rows import sort
from slackwater.kernels.windows.partials_step import Ints, ints
from slackwater.model.join import Band
from slackwater.model.window import TimeWindow
from slackwater.semantics.join import time_bounds
from slackwater.semantics.limits import END, START
from slackwater.testing.disorder import low_water_marks

ROW_BYTES, PARTIAL_BYTES = 24, 18


def lull(*, quick: bool = False) -> Finding:
    """W5 and section 1.1: a count over three links, one of them silent for a while."""
    rate = 20 if quick else 100
    length = 100 if quick else 420
    window = TimeWindow(60 * MILLI, 60 * MILLI, 0, "ts")
    mains = [link(1, rate, length, 1), link(2, rate, length, 1)]
    lines, points = [], []
    for silence in (0, 60) if quick else (0, 10, 60, 120, 300):
        whole = steady(1, length)
        times = ints(whole, "__sw_time")
        quiet = (times >= 30 * MILLI) & (times < (30 + silence) * MILLI)
        links = [whole.filter(pa.array(~quiet)), *mains]
        a, b = (f(links, (0, 0, 0), window, ()) for f in (in_order, out_of_order))
        assert a[2:] == b[2:]
        rows, partials = a.merge // ROW_BYTES, b.bytes // PARTIAL_BYTES
        points.append({"lull": silence, "in_order": rows, "ours": partials})
        lines.append([f"{silence} s", f"{rows:,}", f"{partials}", f"{2 * rate * silence:,}"])
    return Finding(
        "1.1",
        "A count over a union while one input is silent",
        f"Count per minute over two links of {rate} rows a second and a control link of one, which is silent for a while, without any punctuation. In order: rows "
        "that wait in the merge. Ours: partial counts.",
        ("lull", "in order, rows", "ours, counts", "rate x lull"),
        lines,
        "in order holds all rows of the lull, without limit; ours one count per open window",
        f"{points[-1]['in_order']:,} rows against {points[-1]['ours']} counts in a lull of {points[-1]['lull']} s",
        yes(
            points[-1]["ours"] <= 2 + points[-1]["lull"] // 60
            and points[-1]["in_order"] >= 0.95 * 2 * rate * points[-1]["lull"]
        ),
        points=points,
    )  # fmt: skip


def split(*, quick: bool = False) -> Finding:
    """W4 and section 8.3.1: rows that fail a cheap test go through a costly one; the branches meet again."""
    count = 20_000 if quick else 200_000
    rng = np.random.default_rng(12)
    times = np.arange(count)
    costly = rng.random(count) < 0.3
    leaving = times.astype(np.float64)
    leaving[costly] = queued(times[costly], rng.exponential(2.7, int(costly.sum())))
    order = np.argsort(leaving, kind="stable")
    arrived = times[order]
    window = TimeWindow(1000, 1000, 0, "ts")
    spec = one_aggregate("count", window)
    rows = pa.table({"__sw_time": arrived})
    # Punctuation is copied to both branches and stays behind the rows before it: the true low-water mark.
    marks = np.append(low_water_marks(arrived)[1:], 1 << 61)
    truth, bounds = by_bounds(rows, marks, spec)
    wids = sorted(truth)[:-1]
    wait = float(np.mean(waits(arrived, bounds // 1000 - 1, window, wids)))
    lines = [["ours, punctuation on both branches", "0%", f"{wait:.0f} ms"]]
    points = [{"slack": -1.0, "wrong": 0.0, "wait": wait}]
    most = int((np.maximum.accumulate(arrived) - arrived).max())
    for slack in (0, most // 16, most // 8, most // 4, most // 2, most):
        found, shut, _ = by_slack(rows, ByTime(slack), "generous", spec)
        wrong = sum(found.get(w) != truth[w] for w in wids) / len(wids)
        pause = float(np.mean(waits(arrived, shut, window, wids)))
        points.append({"slack": slack, "wrong": wrong, "wait": pause})
        lines.append([f"slack of {slack} ms", f"{wrong:.0%}", f"{pause:.0f} ms"])
    return Finding(
        "8.3.1",
        "A plan that splits a stream and unites it again",
        f"{count:,} rows in order, one a millisecond; 30% fail a cheap test and queue for a costly one (2.7 ms on average). Count per second after the union. Slack has to guess the "
        "longest queue, which nobody knows beforehand. Waiting is from a window's last row to its answer.",
        ("progress by", "wrong answers", "waiting"),
        lines,
        "in order must sort again or guess a slack; out of order is exact",
        f"a slack that is never wrong ({most} ms) waits {points[-1]['wait']:.0f} ms, ours {wait:.0f} ms and is never wrong either",
        yes(all(p["wrong"] > 0 for p in points[1:-1]) and points[-1]["wrong"] == 0),
        points=points,
    )  # fmt: skip


def queued(times: Ints, service: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:  # fmt: skip
    """When rows that wait for each other are done."""
    total = np.cumsum(service)
    return np.asarray(np.maximum.accumulate(times - (total - service)) + total)


def late_input(*, quick: bool = False) -> Finding:
    """W3 and section 8.3.2: a band of two minutes, and an input with rows up to five minutes late."""
    rate = 20 if quick else 120
    minutes = 20
    ticks = minutes * rate
    first = rows_at(np.arange(ticks), np.arange(ticks) % 7)
    second = rows_at(np.arange(ticks), np.arange(ticks) % 7)
    band, late = 2 * rate, 5 * rate
    spec = spec_of(Band(band, band))
    held: dict[str, list[float]] = {}
    # In order: the first input is sorted, so that every row of it comes five minutes later.
    ordered, ours = OutputBuffered(spec, [SCHEMA] * 2), OutputBuffered(spec, [SCHEMA] * 2)
    waiting = SCHEMA.empty_table()
    old = START
    count = {"in order": 0, "ours": 0}
    for now in range(minutes):
        a, b = (t.slice(now * rate, rate) for t in (first, second))
        ahead = (now + 1) * rate
        bound = END if now == minutes - 1 else ahead - late
        other = END if now == minutes - 1 else ahead
        done = sort.step(a, waiting, old, bound)
        waiting = pa.concat_tables([waiting, done.keep])
        waiting = waiting.filter(pa.array(ints(waiting, "__sw_time") >= bound))
        old = bound
        count["in order"] += ordered.step([done.ordered, b], (bound, other)).num_rows
        count["ours"] += ours.step([a, b], (bound, other)).num_rows
        if now == minutes - 2:
            held["in order"] = [waiting.num_rows, *(t.num_rows for t in ordered.stored)]
            held["ours"] = [0, *(t.num_rows for t in ours.stored)]
    assert count["in order"] == count["ours"]
    lines = [[k, *(f"{n / rate:.1f}" for n in v), f"{sum(v) / rate:.1f}"] for k, v in held.items()]
    total = {k: sum(v) / rate for k, v in held.items()}
    return Finding(
        "8.3.2",
        "A join with one input late",
        "Partners at most 2 minutes apart; rows of S0 may be up to 5 minutes late, S1 is in order. What is held in the steady state, as minutes of a stream.",
        ("", "sort of S0", "join, S0", "join, S1", "in all"),
        lines,
        "12 in order (5 of S0 in the sort, 7 of S1 in the join), 9 ours (2 of S0, 7 of S1; the source prints 5 for the 7)",
        f"{total['in order']:.1f} in order, {total['ours']:.1f} ours",
        yes(round(total["in order"]) == 12 and round(total["ours"]) == 9),
    )


def ordered_output(*, quick: bool = False) -> Finding:
    """W1 and figure 8-5: results that an ordered output has to hold."""
    within = Band(before=2, after=3)
    spec = spec_of(within)
    join = OutputBuffered(spec, [SCHEMA] * 2)
    rows = rows_at(np.arange(1, 7), np.zeros(6, np.int64))
    join.step([rows, rows], (6, 6))
    times = sorted(set(ints(join.waiting, "_0.__sw_time").tolist()))
    bound = time_bounds(within, (6, 6))[0]
    return Finding(
        "8-5",
        "Results that an ordered output holds back",
        "S0 stays joinable for 3, S1 for 2; both inputs have come to 6; results are to come in order of S0's time.",
        ("", "bound of S0's time", "times of S0 in results held"),
        [["in order", f"{bound}", ", ".join(map(str, times))], ["ours", f"{bound}", "none"]],
        "in order holds results with S0's time in (4, 6], in the source's way to name the ranges; (3, 6] in ours",
        f"holds those from {times[0]} to {times[-1]}, for a later one may have {bound}",
        yes(times == [3, 4, 5, 6] and bound == 3),
        "Our bound is exclusive: a result at 3 itself may still come, so those at 3 wait too.",
    )
