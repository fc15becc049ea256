"""``python -m benchmarks.sharing``: memory of concurrent aggregates, unshared, in optimal buffers, in shared panes.

Several aggregates over one disordered stream, each with a filter (or none), a window and a slack of its own. With slack
buffers rows wait until they are old enough: one buffer per query, or placed by the greedy or the optimal algorithm.
With panes nothing waits: partial aggregates are kept until the bound has passed their windows, per query or in one
store for queries over the same rows. Each number is a mean over the run, modelled and measured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks import record
from benchmarks.simulations.placements import count_candidates, greedy, naive
from benchmarks.simulations.slack_buffer import delays, release
from benchmarks.tables import plain
from slackwater.kernels import column_engine
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows import shared_panes
from slackwater.kernels.windows.partials_step import AggregateSpec, ints
from slackwater.kernels.windows.shared_panes import Store
from slackwater.model.aggregate import Primitive
from slackwater.model.schema import Field, column
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.pane_sharing import grouped
from slackwater.semantics.slack.placement import Placement, applied, memory, optimal, unshared
from slackwater.semantics.slack.tree import Query, Stage, global_plan, stages
from slackwater.semantics.window_ids import closed_by

Ints = NDArray[np.int64]
GROUPS = 20
ROW_BYTES = 32
"""Of a buffered row: key, time, value, place in the order of arrival."""


@dataclass(frozen=True)
class Asked:
    """A query: conditions with the share of rows that pass each, window and slack in ms."""

    name: str
    slack: int
    window: tuple[int, int]
    conditions: dict[str, float]

    @property
    def spec(self) -> AggregateSpec:
        """Its aggregates: a sum and a count."""
        parts = (
            Primitive("_a0", "sum", (column("v", "bigint"),), "bigint"),
            Primitive("_a1", "count", (), "bigint"),
        )
        w = TimeWindow(*self.window, 0, "ts")
        return AggregateSpec((Field("k", "bigint"),), w, parts, "panes", True)


CASES: dict[str, list[Asked]] = {
    "same rows": [
        Asked("Q1", 200, (1000, 100), {}),
        Asked("Q2", 400, (5000, 500), {}),
        Asked("Q3", 100, (500, 100), {}),
    ],
    "rare rows": [
        Asked("Q1", 200, (1000, 100), {"a": 0.3}),
        Asked("Q2", 400, (5000, 500), {"b": 0.25}),
        Asked("Q3", 100, (500, 100), {"c": 0.2}),
    ],
    "two levels": [
        Asked("Q1", 200, (1000, 100), {"a": 0.9}),
        Asked("Q2", 400, (1000, 200), {"b": 0.9, "c": 0.9}),
        Asked("Q3", 100, (500, 100), {"b": 0.9, "c": 0.9}),
        Asked("Q4", 800, (2000, 200), {"b": 0.9, "d": 0.5}),
    ],
    "where greed errs": [
        Asked("Q1", 200, (1000, 100), {"a": 0.5}),
        Asked("Q2", 400, (1000, 100), {"b": 0.8, "c": 0.3}),
        Asked("Q3", 100, (1000, 100), {"b": 0.8, "d": 0.3}),
    ],
    "three slacks": [
        Asked("soon", 0, (1000, 100), {}),
        Asked("good", 300, (1000, 100), {}),
        Asked("exact", 1500, (1000, 100), {}),
    ],
}


class Stream:
    """One row a ms, three in ten late; which rows pass which condition."""

    def __init__(self, rows: int, conditions: Sequence[tuple[str, float]], seed: int):
        rng = np.random.default_rng(seed)
        late = np.where(rng.random(rows) < 0.3, rng.exponential(150, rows), 0)
        arrival = np.argsort(np.arange(rows) + late, kind="stable")
        self.times: Ints = arrival.astype(np.int64)
        self.passes = {c: rng.random(rows) < share for c, share in conditions}
        self.table = pa.table(
            {"k": rng.integers(0, GROUPS, rows), "ts": self.times, "v": rng.integers(0, 1000, rows)}
        )

    def passing(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """The rows that meet all of the conditions."""
        found = np.ones(len(self.times), bool)
        for name in names:
            found &= self.passes[name]
        return found


def tree_of(queries: Sequence[Asked], stream: Stream) -> Stage:
    """The shared filters, with the selectivities that the stream has."""
    asked = [Query(q.name, q.slack, frozenset(q.conditions)) for q in queries]
    known: dict[str, float] = {}

    def visit(stage: Stage, above: int) -> None:
        here = above if stage.selectivity is None else int(stream.passing(_met(stage)).sum())
        if stage.selectivity is not None:
            known[stage.name] = here / above
        for c in stage.children:
            if isinstance(c, Stage):
                visit(c, here)

    visit(global_plan("s", asked), len(stream.times))
    return global_plan("s", asked, known)


def _met(stage: Stage) -> list[str]:
    return stage.name.split(" and ") if stage.selectivity is not None else []


def buffered(tree: Stage, placement: Placement, stream: Stream) -> float:
    """Rows held in all buffers, as a mean over arrivals: how long each row waits in each chain."""
    n = len(stream.times)
    reached = applied(tree, placement)
    none = np.empty(0, np.int64)
    waits = 0.0
    for stage, _ in stages(tree):
        mine = stream.passing(_met(stage))
        chains = [(reached[stage.name], placement.size(stage.name))]
        chains += [
            (reached[c.name] - placement.size(c.name), placement.size(c.name))
            for c in stage.children
            if not isinstance(c, Stage)
        ]
        for above, size in chains:
            if not size:
                continue
            come = release(none, stream.times, above).at if above else np.arange(n)
            gone = release(none, stream.times, above + size).at
            come, gone = np.where(come < 0, n, come), np.where(gone < 0, n, gone)
            waits += float((gone - come)[mine].sum())
    return waits / n


@dataclass
class Panes:
    """Mean number and bytes of partials held, and the seconds that reducing and assembling took."""

    rows: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0
    results: int = 0


def in_panes(stores: Sequence[tuple[Sequence[Asked], Store]], stream: Stream, batch: int) -> Panes:
    """Run the kernels of some stores over the stream in batches."""
    found, count = Panes(), 0
    con = column_engine.connect()
    for queries, store in stores:
        mask = stream.passing(list(queries[0].conditions))
        sql = aggregate.partial_select(store.spec, ['"k"'], '"ts"', "input")
        held = aggregate.partials_schema(store.spec).empty_table()
        closed = [closed_by(START, r.sliding) for r in store.readers]
        for low in range(0, len(stream.times), batch):
            rows = stream.table.slice(low, batch).filter(pa.array(mask[low : low + batch]))
            newest = int(stream.times[: low + batch].max())
            begin = time.process_time()
            new = aggregate.partials(
                column_engine.sql_to_arrow(con, sql, {"input": rows}), store.spec
            )
            close_to = [
                closed_by(newest - q.slack, r.sliding)
                for q, r in zip(queries, store.readers, strict=True)
            ]
            done = shared_panes.step(store, new, _reader(held), closed, close_to)
            closed = close_to
            first = shared_panes.needed(store, closed)
            held = held.filter(pa.array(ints(held, "_pane") >= first))
            held = aggregate.merge_partials(store.spec, [held, done.keep])
            found.seconds += time.process_time() - begin
            found.results += sum(t.num_rows for t in done.outputs)
            if low >= len(stream.times) // 2:
                found.rows += held.num_rows
                found.bytes += held.nbytes
                count += 1
    per = max(1, count // len(stores))
    found.rows, found.bytes = found.rows / per, found.bytes / per
    return found


def _reader(held: pa.Table) -> Callable[[int, int], pa.Table]:
    def state(low: int, high: int) -> pa.Table:
        pane = ints(held, "_pane")
        return held.filter(pa.array((pane >= low) & (pane <= high)))

    return state


def modelled(queries: Sequence[Asked], store: Store, share: float) -> float:
    """Partials that a store holds: the panes between the first open window and the newest row.

    A window stays open until it is over by the slack; on the average half a slide of it has passed then.
    """
    width = store.panes.width
    span = max(q.slack + q.window[0] - q.window[1] / 2 for q in queries)
    per_pane = GROUPS * (1 - np.exp(-width * share / GROUPS))
    return float((span / width + 0.5) * per_pane)


def measure(name: str, rows: int, batch: int, seed: int = 5) -> dict[str, Any]:
    """One case: rows held by buffers and partials held by panes."""
    queries = CASES[name]
    conditions = sorted({(c, s) for q in queries for c, s in q.conditions.items()})
    stream = Stream(rows, conditions, seed)
    tree = tree_of(queries, stream)
    found: dict[str, Any] = {"candidates": count_candidates(tree)}
    ways: dict[str, Callable[[Stage], Placement]] = {
        "unshared": unshared, "greedy": greedy, "optimal": optimal, "naive": naive,
    }  # fmt: skip
    for label, way in ways.items():
        begin = time.perf_counter()
        placement = way(tree)
        found[label] = {
            "seconds": time.perf_counter() - begin,
            "model": memory(tree, placement, 1.0, delays(stream.times)[::7].tolist()),
            "in order": memory(tree, placement),
            "rows": buffered(tree, placement, stream),
        }
    alone = [([q], shared_panes.store_of([q.spec])) for q in queries]
    alike: dict[frozenset[str], list[Asked]] = {}
    for q in queries:
        alike.setdefault(frozenset(q.conditions), []).append(q)
    together: list[tuple[Sequence[Asked], Store]] = []
    for members in alike.values():
        for places in grouped([q.spec.sliding for q in members]):
            chosen = [members[i] for i in places]
            together.append((chosen, shared_panes.store_of([q.spec for q in chosen])))
    for label, stores in (("panes", alone), ("shared panes", together)):
        got = in_panes(stores, stream, batch)
        shares = [float(stream.passing(list(qs[0].conditions)).mean()) for qs, _ in stores]
        model = sum(modelled(qs, s, share) for (qs, s), share in zip(stores, shares, strict=True))
        found[label] = {"model": model, **vars(got)}
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sharing", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--batch", type=int, default=250, help="rows (ms) per batch, for panes")
    given = parser.parse_args()
    rows = 12_000 if given.quick else given.rows
    lines, details = [], {}
    for name in CASES:
        found = details[name] = measure(name, rows, given.batch)
        for label in ("unshared", "greedy", "optimal"):
            one = found[label]
            kept = f"{one['rows'] * ROW_BYTES / 1e3:.1f}"
            lines.append(
                [f"{name}: {label} buffers", f"{one['model']:.0f}", f"{one['rows']:.0f}", kept, "-"]
            )
        for label in ("panes", "shared panes"):
            one = found[label]
            lines.append(
                [
                    f"{name}: {label}", f"{one['model']:.0f}", f"{one['rows']:.0f}",
                    f"{one['bytes'] / 1e3:.1f}", f"{one['seconds']:.2f}",
                ]
            )  # fmt: skip
    settings = {"rows": rows, "batch": given.batch}
    found = {**record.heading(quick=given.quick, **settings), "cases": details}
    record.store("sharing", found, quick=given.quick)
    print(plain(("case, way", "model", "held", "kB", "s"), lines))
    print(
        "held: rows in buffers (which precede the windows' own state), partial aggregates in panes"
    )


if __name__ == "__main__":
    main()
