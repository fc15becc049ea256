"""Random traces for joins in little memory, a runner that keeps nothing but files and JSON, and the definition."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from slackwater.engine.store.local import PRIVATE
from slackwater.engine.store.storage import Folder
from slackwater.kernels.joins.bounded.blocks import FileBlockStore
from slackwater.kernels.joins.bounded.ledger import Ledger
from slackwater.kernels.joins.bounded.step import BatchBounds, BoundedJoin, bounded_step
from slackwater.kernels.joins.step import JoinSpec
from slackwater.model.join import Band
from slackwater.semantics.join import max_bound, time_bounds
from slackwater.semantics.join_memory import BlockRules, JoinPolicy
from slackwater.semantics.limits import END, START

SCHEMA = pa.schema(
    [
        ("__sw_time", pa.int64()),
        ("__sw_bucket", pa.int16()),
        ("__sw_k0", pa.int64()),
        ("id", pa.int64()),
    ]
)
COLUMNS = (("id",), ("id",))


@dataclass
class Trace:
    """Rows are (time, key, id) per side and batch; bounds hold after each batch, the last ones are END."""

    rows: list[list[list[tuple[int, int | None, int]]]]
    bounds: list[tuple[int, int]]

    def before(self, batch: int) -> tuple[int, int]:
        return self.bounds[batch - 1] if batch else (START, START)


@st.composite
def traces(draw, late: bool = False, most: int = 60):
    """Two streams with bursts, ties, duplicates, lulls longer than the window, disorder and skew between them."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    batches = draw(st.integers(1, 8))
    keys = draw(st.sampled_from([1, 3, 12]))
    disorder = draw(st.sampled_from([0, 3, 30]))
    lag = draw(st.sampled_from([0, 40]))  # the right stream comes that much later
    rates = [draw(st.sampled_from([0.0, 0.2, 1.0])) for _ in range(2)]
    lull = draw(st.sampled_from([0.0, 0.02]))
    return make_trace(rng, batches, most, keys, disorder, lag, rates, lull, late)


def make_trace(rng, batches, most, keys, disorder, lag, rates, lull, late=False) -> Trace:
    sides: list[list[tuple[int, int | None, int]]] = []
    for side in (0, 1):
        count = int(rng.integers(0, most + 1) * rates[side] + rng.integers(0, 3))
        gaps = rng.choice([0, 0, 0, 1, 1, 2, 5], size=count)
        gaps = np.where(rng.random(count) < lull, rng.integers(30, 90, size=count), gaps)
        times = np.cumsum(gaps) + side * rng.integers(0, 10)
        arrival = np.argsort(times + rng.integers(0, disorder + 1, size=count), kind="stable")
        key = np.minimum(rng.geometric(0.3, size=count) - 1, keys - 1)
        sides.append(
            [
                (
                    int(times[i]),
                    None if rng.random() < 0.03 else int(key[i]),
                    side * 10_000 + int(i),
                )
                for i in arrival
            ]
        )
    # Rows of both sides in order of arrival, the right ones later by the lag; then cut at random.
    order = sorted(
        ((s, n) for s in (0, 1) for n in range(len(sides[s]))),
        key=lambda e: (max(t for t, _, _ in sides[e[0]][: e[1] + 1]) + lag * e[0], e),
    )
    cuts = np.sort(rng.integers(0, len(order) + 1, size=batches - 1)).tolist()
    rows: list[list[list[tuple[int, int | None, int]]]] = []
    for low, high in zip([0, *cuts], [*cuts, len(order)], strict=True):
        rows.append([[sides[s][n] for s2, n in order[low:high] if s2 == s] for s in (0, 1)])
    bounds, last = [], (START, START)
    for i in range(len(rows)):
        found = []
        for s in (0, 1):
            rest = [t for batch in rows[i + 1 :] for t, _, _ in batch[s]]
            truth = min(rest, default=END)
            claim = truth + int(rng.integers(0, 25)) if late and rest else truth
            found.append(max(last[s], min(claim - int(rng.integers(0, 4)), END)))
        last = (END, END) if i == len(rows) - 1 else (found[0], found[1])
        bounds.append(last)
    return Trace(rows, bounds)


def slow_join(trace: Trace, band: Band, how: str = "inner", where=None) -> Counter:
    """Each pair by the definition; a late row does not meet what was not kept when its batch began, and is never unmatched."""
    flat = [
        [(t, k, i, b) for b, batch in enumerate(trace.rows) for t, k, i in batch[side]]
        for side in (0, 1)
    ]
    out: Counter = Counter()
    seen = {i for s in (0, 1) for t, k, i, b in flat[s] if k is not None and t < trace.before(b)[s]}
    for t, k, i, b in flat[0]:
        for u, m, j, c in flat[1]:
            if k is None or k != m or not (t - band.before <= u <= t + band.after):
                continue
            if b < c and t + band.after < trace.before(c)[1]:
                continue
            if c < b and u + band.before < trace.before(b)[0]:
                continue
            if b == c and (
                t + band.after < trace.before(b)[1] and u + band.before < trace.before(b)[0]
            ):
                continue
            if where is not None and not where(i, j):
                continue
            out[(i, j)] += 1
            seen |= {i, j}
    if how in ("left", "full"):
        out.update((i, None) for _, _, i, _ in flat[0] if i not in seen)
    if how in ("right", "full"):
        out.update((None, j) for _, _, j, _ in flat[1] if j not in seen)
    return out


def table(rows) -> pa.Table:
    return pa.table(
        [
            [t for t, _, _ in rows],
            [0 if k is None else k % 256 for _, k, _ in rows],
            [k for _, k, _ in rows],
            [i for _, _, i in rows],
        ],
        schema=SCHEMA,
    )


@dataclass
class Run:
    """What came out, and what each batch said of itself."""

    out: Counter = field(default_factory=Counter)
    stats: list = field(default_factory=list)
    held: list = field(default_factory=list)
    broken: list = field(default_factory=list)
    """Results below a bound that was promised after an earlier batch."""
    unheld: list = field(default_factory=list)
    """Results below what would have been promised without the hold."""
    ledger: Ledger = field(default_factory=Ledger)


def replay(
    trace: Trace,
    band: Band,
    policy: JoinPolicy,
    *,
    how="inner",
    where=None,
    rules=None,
    clock=1_000_000,
    cut=None,
    max_pairs=7,
    ledgers=None,
    hook=None,
    kept=None,
    each=None,
) -> Run:
    """Run a trace batch by batch. Between batches nothing is kept but the files that the ledger names, and its JSON.

    ``kept`` gives what the executor keeps besides, for each batch. ``each`` takes what came out in each.
    """
    spec = JoinSpec(band, 1, COLUMNS, how=how, max_pairs=max_pairs)
    run = Run()
    text = json.dumps(Ledger().to_json())
    promised = unheld = ((START, START), START)
    predicate = None
    if where is not None:

        def predicate(chunk):
            pairs = zip(chunk["_0.id"].to_pylist(), chunk["_1.id"].to_pylist(), strict=True)
            return pa.array([where(i, j) for i, j in pairs])

    with tempfile.TemporaryDirectory() as folder:
        for n, rows in enumerate(trace.rows):
            store = FileBlockStore(Folder(PRIVATE, Path(folder)), kept=kept and kept(n))
            found: list[pa.Table] = []

            def emit(chunk, delayed, found=found):
                assert 0 < chunk.num_rows <= max(max_pairs, 10_000)
                found.append(chunk)

            inputs = [pieces(table(side), cut) for side in rows]
            final = n == len(trace.rows) - 1
            batch = BatchBounds(trace.before(n), trace.bounds[n], now=(n + 1) * clock, final=final)
            ledger = Ledger.from_json(json.loads(text))
            join = BoundedJoin(spec, [SCHEMA] * 2, policy, predicate, rules or BlockRules())
            done = bounded_step(join, ledger, store, inputs, batch, emit)
            text = json.dumps(done.ledger.to_json())
            for path in Path(folder).iterdir():
                if path.name not in done.ledger.runs():
                    path.unlink()
            run.stats.append(done.stats)
            came: Counter = Counter()
            for row in (r for chunk in found for r in chunk.to_pylist()):
                came[(row["_0.id"], row["_1.id"])] += 1
                if below(row, promised):
                    run.broken.append(row)
                if below(row, unheld):
                    run.unheld.append(row)
            run.out += came
            if each is not None:
                each(came)
            run.held.append(done.held)
            promised = (time_bounds(band, done.held), max_bound(band, done.held, how))
            unheld = (time_bounds(band, trace.bounds[n]), max_bound(band, trace.bounds[n], how))
            run.ledger = done.ledger
            if hook is not None:
                hook(n, done)
    return run


def below(row: dict, promised) -> bool:
    """Whether a result has a time below what was promised of the left, the right and the result's own time."""
    each, largest = promised
    times = (row["_0.__sw_time"], row["_1.__sw_time"])
    return row["__sw_time"] < largest or any(
        t is not None and t < p for t, p in zip(times, each, strict=True)
    )


def pieces(whole: pa.Table, cut: int | None):
    """The table in pieces of so many rows, one at a time."""
    if cut is None:
        yield whole
        return
    for at in range(0, whole.num_rows, cut):
        yield whole.slice(at, cut)


def steady(batches=10, rows=40, keys=5, gap=1, quiet=0):
    """Both sides in order at an even rate; then some batches without rows."""
    out, bounds = [], []
    for b in range(batches + quiet):
        sides = []
        for side in (0, 1):
            start = b * rows
            sides.append(
                [
                    ((start + n) * gap, (start + n) % keys, side * 100_000 + start + n)
                    for n in range(rows if b < batches else 0)
                ]
            )
        out.append(sides)
        now = min(b + 1, batches) * rows * gap
        bounds.append((now, now))
    bounds[-1] = (END, END)
    return Trace(out, bounds)


@pytest.fixture(autouse=True, scope="module")
def quick_files():
    """Blocks are not forced to the disk in the module that imports this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slackwater.kernels.joins.bounded.blocks.os.fsync", lambda fd: None)
        yield
