"""A join run batch by batch as the engine does it: runs that are written once, dropped as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from slackwater.kernels.buckets import bucket_of
from slackwater.kernels.joins import step as join
from slackwater.model.join import Band, Reach, Tumbling, Within, is_existence
from slackwater.model.window import TimeWindow
from slackwater.semantics.join import needed_from
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.join import JoinOracle, JoinRow

KEY = pa.float64()
SCHEMA = pa.schema(
    [("__sw_time", pa.int64()), ("__sw_bucket", pa.int16()), ("__sw_k0", KEY), ("id", pa.int64()), ("v", pa.int64())]
)  # fmt: skip
NAN = float("nan")


def table(rows: Sequence[JoinRow]) -> pa.Table:
    """Rows of the oracle as the kernel takes them; a row's value is (id, v)."""
    keys = pa.array([r.key[0] for r in rows], KEY)
    return pa.table(
        [
            pa.array([r.time for r in rows], pa.int64()),
            pa.array(bucket_of([keys])),
            keys,
            pa.array([r.value[0] for r in rows], pa.int64()),
            pa.array([r.value[1] for r in rows], pa.int64()),
        ],
        schema=SCHEMA,
    )


class Runs:
    """State of a join as runs. ``leftovers`` keeps what could be dropped, which must change nothing."""

    def __init__(self, spec: join.JoinSpec, leftovers: bool = False) -> None:
        self.spec = spec
        self.leftovers = leftovers
        self.rows: list[list[pa.Table]] = [[] for _ in range(spec.inputs)]
        self.marks: list[list[pa.Table]] = [[] for _ in range(spec.inputs)]
        self.bounds = (START,) * spec.inputs
        self.base = 0
        self.asked: list[tuple[int, int, int]] = []

    def _reader(self, runs: list[list[pa.Table]], i: int, schema: pa.Schema) -> join.Stored:
        def read(low: int, high: int) -> pa.Table:
            assert low <= high, "an empty span needs no reading"
            self.asked.append((i, low, high))
            chosen = [
                t for t in runs[i] if min(t["__sw_time"].to_pylist()) <= high and max(t["__sw_time"].to_pylist()) >= low
            ]  # fmt: skip
            return pa.concat_tables([schema.empty_table(), *chosen])

        return read

    def step(
        self,
        rows: Sequence[Sequence[JoinRow]],
        bounds: Sequence[int],
        predicate: join.Predicate | None = None,
    ) -> list[tuple[Any, ...]]:
        """Ids of the results of one batch; None for a missing row."""
        new = [table(side) for side in rows]
        schemas = [join.state_schema(self.spec, i, SCHEMA) for i in range(self.spec.inputs)]
        done = join.step(
            self.spec,
            new,
            [self._reader(self.rows, i, s) for i, s in enumerate(schemas)],
            self.bounds,
            bounds,
            predicate,
            [self._reader(self.marks, i, join.MATCHED_SCHEMA) for i in range(self.spec.inputs)],
            self.base,
        )
        out: list[tuple[Any, ...]] = []
        for chunk in done.output:
            assert 0 < chunk.num_rows <= self.spec.max_pairs
            assert chunk.schema == done.schema
            shown = range(1 if is_existence(self.spec.how) else self.spec.inputs)
            out += zip(*(chunk[f"_{i}.id"].to_pylist() for i in shown), strict=True)
            times = [chunk[f"_{i}.__sw_time"].to_pylist() for i in shown]
            for at, time in enumerate(chunk["__sw_time"].to_pylist()):
                assert time == max(t[at] for t in times if t[at] is not None)
        keep, marks = done.finish()
        self.bounds = tuple(bounds)
        for i in range(self.spec.inputs):
            assert keep[i].schema == schemas[i] and marks[i].schema == join.MATCHED_SCHEMA
            self.base += keep[i].num_rows
            if keep[i].num_rows:
                self.rows[i].append(keep[i])
            if marks[i].num_rows:
                self.marks[i].append(marks[i])
            if not self.leftovers:
                first = needed_from(self.spec.within, i, bounds)
                for runs in (self.rows, self.marks):
                    runs[i] = [t for t in runs[i] if max(t["__sw_time"].to_pylist()) >= first]
        return sorted(out, key=repr)

    def stored(self, i: int) -> list[int]:
        """Ids of stored rows that are needed; where existence is asked for, not of those that are marked."""
        first = needed_from(self.spec.within, i, self.bounds)
        done = set(self.marked(i)) if is_existence(self.spec.how) else set()
        return sorted(
            r["id"]
            for t in self.rows[i]
            for r in t.to_pylist()
            if r["__sw_time"] >= first and r.get("__sw_row") not in done
        )

    def marked(self, i: int) -> list[int]:
        """Row numbers that were marked as matched after they were stored."""
        return [r for t in self.marks[i] for r in t["__sw_row"].to_pylist()]


def ids(results: Sequence[tuple[JoinRow | None, ...]]) -> list[tuple[Any, ...]]:
    """Results of the oracle as those of the kernel."""
    return sorted((tuple(r and r.value[0] for r in result) for result in results), key=repr)


def spec_of(
    within: Within, how: str = "inner", inputs: int = 2, max_pairs: int = 5
) -> join.JoinSpec:
    """A join on one key of ``inputs`` streams."""
    return join.JoinSpec(within, 1, (("id", "v"),) * inputs, how, max_pairs)  # type: ignore[arg-type]


def condition(rows: Sequence[JoinRow]) -> bool:
    """A condition over both sides; null (a missing v) is no."""
    return rows[0].value[1] is not None and rows[1].value[1] is not None and (
        rows[0].value[1] + rows[1].value[1]
    ) % 3 != 0  # fmt: skip


def predicate(chunk: pa.Table) -> pa.ChunkedArray:
    """The same condition on columns."""
    import pyarrow.compute as pc

    total = pc.add(chunk["_0.v"], chunk["_1.v"])
    whole = pc.multiply(pc.divide(total, 3), 3)
    return pc.not_equal(total, whole)


def bands() -> st.SearchStrategy[Band]:
    """Bands of any kind: wide, one-sided, at a point, beside the row, with open ends, empty ones too."""
    span = st.one_of(st.integers(0, 4), st.sampled_from([-2, -1, 0, 9]))
    return st.builds(Band, span, span, st.sampled_from(["both", "left", "neither"]))


def tumblings() -> st.SearchStrategy[Tumbling]:
    """Tumbling windows with any origin."""
    return st.builds(
        lambda size, origin: Tumbling(TimeWindow(size, size, origin, "t")),
        st.integers(1, 7),
        st.integers(-5, 5),
    )


def reaches(inputs: int) -> st.SearchStrategy[Reach]:
    """A reach per input, most of them not negative."""
    one = st.one_of(st.integers(0, 5), st.integers(-1, 0))
    return st.lists(one, min_size=inputs, max_size=inputs).map(lambda x: Reach(tuple(x)))


@st.composite
def histories(
    draw: Callable[..., Any], inputs: int = 2, late: bool = False, rows: int = 4, batches: int = 5
) -> list[tuple[list[list[JoinRow]], tuple[int, ...]]]:
    """Batches of rows and the bounds after them; the last one ends the streams.

    Sides have rates and lags of their own: a side may be silent for many windows while the other
    runs ahead. Without ``late`` every row is on time.
    """
    number = iter(range(100_000))
    bounds = [draw(st.sampled_from([START, -3, 0, 20])) for _ in range(inputs)]
    one = st.tuples(
        st.integers(-6 if late else 0, 10),
        st.sampled_from([1.0, 1.0, 1.0, 0.0, -0.0, NAN, None]),
        st.sampled_from([None, 0, 1, 2]),
    )
    out = []
    for _ in range(draw(st.integers(1, batches))):
        sides = []
        for i in range(inputs):
            floor = max(bounds[i], -5)
            drawn = draw(st.lists(one, max_size=rows))
            side = [JoinRow(floor + t, (k,), (next(number), v)) for t, k, v in drawn]
            sides.append(side)
        rises = [draw(st.sampled_from([None, 0, 1, 3, 8, 25])) for _ in range(inputs)]
        bounds = [
            b if rise is None else max(b, -5) + rise for b, rise in zip(bounds, rises, strict=True)
        ]
        out.append((sides, tuple(bounds)))
    return [*out, ([[] for _ in range(inputs)], (END,) * inputs)]


def random_history(random: Random, late: bool = False, inputs: int = 2) -> Any:
    """As `histories` draws them, from a seed, with one key."""
    number = iter(range(100_000))
    bounds, out = [0] * inputs, []
    for _ in range(6):
        sides = [
            [
                JoinRow(b + random.randint(-6 if late else 0, 10), (1.0,), (next(number), 0))
                for _ in range(random.randint(0, 3))
            ]
            for b in bounds
        ]
        bounds = [b + random.choice([0, 1, 3, 8]) for b in bounds]
        out.append((sides, tuple(bounds)))
    return [*out, ([[] for _ in range(inputs)], (END,) * inputs)]


def oracle_of(spec: join.JoinSpec, with_condition: bool = False) -> JoinOracle:
    """The oracle of a join."""
    return JoinOracle(spec.within, spec.how, condition if with_condition else None, spec.inputs)


def run_both(
    spec: join.JoinSpec, history: Any, *, where: bool = False, leftovers: bool = False
) -> list[Any]:
    """Run kernel and oracle side by side; every batch must agree, and what is stored too."""
    runs, oracle = Runs(spec, leftovers), oracle_of(spec, where)
    everything = []
    for sides, bounds in history:
        expected = ids(oracle.step(sides, bounds))
        got = runs.step(sides, bounds, predicate if where else None)
        assert got == expected
        everything += got
        for i in range(spec.inputs):
            assert runs.stored(i) == sorted(r.value[0] for r in oracle.stored(i))
            assert len(set(runs.marked(i))) == len(runs.marked(i)), "a row is marked once"
    for i, low, _ in runs.asked:
        assert low >= needed_from(spec.within, i, (START,) * spec.inputs)
    return everything
