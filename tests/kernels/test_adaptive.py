"""Groups kept as rows or as partials: always exact, and never larger than the better of the two."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from benchmarks.simulations.adaptive_model import rows_held
from slackwater.kernels import column_engine
from slackwater.kernels.windows import adaptive
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import END, AggregateSpec, ints
from slackwater.model.schema import Field
from slackwater.semantics.adaptive import BUFFERED, ModeRules
from slackwater.semantics.window_ids import wid_range
from tests.examples import examples
from tests.kernels import brute
from tests.kernels.strategies import rows as row_lists
from tests.kernels.test_aggregate import PRIMITIVES, expected, spec_of

NOW = ModeRules(share=0)


def rows_of(spec: AggregateSpec, data: list[dict] | pa.Table) -> pa.Table:
    sql = adaptive.rows_select(spec, ['"k"'], '"t"', "input")
    table = data if isinstance(data, pa.Table) else brute.table(data, sql)
    return adaptive.rows(
        column_engine.sql_to_arrow(column_engine.connect(), sql, {"input": table}), spec
    )


@dataclass
class Machine:
    """State as the engine keeps it, in one piece per part."""

    spec: AggregateSpec
    rules: ModeRules = NOW
    closed: int = -END
    state: list[pa.Table] = field(default_factory=list)
    ups: int = 0
    downs: int = 0
    mixed: int = 0

    def __post_init__(self):
        self.inner = adaptive.unit(self.spec)
        self.state = [
            adaptive.rows_schema(self.spec).empty_table(),
            aggregate.partials_schema(self.inner).empty_table(),
            adaptive.eager_schema(self.spec).empty_table(),
        ]

    def step(self, data: list[dict], close_to: int) -> adaptive.AdaptiveStep:
        return self.arrive(rows_of(self.spec, data), close_to)

    def arrive(self, fresh: pa.Table, close_to: int) -> adaptive.AdaptiveStep:
        kept, items, eager = self.state
        done = adaptive.step(
            self.spec, fresh, kept, items, eager, self.closed, close_to,
            self.rules,
        )  # fmt: skip
        before, after = set(eager["_k0"].to_pylist()), set(done.eager["_k0"].to_pylist())
        assert done.eager.num_rows == len(after) == done.groups["eager"]
        assert done.all_eager == (before != after)
        self.ups += len(after - before)
        self.downs += len(before - after)
        if close_to <= self.closed:
            assert before <= after, "only a bound makes a group lazy"
        self.closed = max(self.closed, close_to)
        self.state = [
            self._alive(done.rows if done.all_rows else pa.concat_tables([kept, done.rows])),
            self._open(aggregate.merge_partials(self.inner, [items, done.items])),
            done.eager,
        ]
        held = set(self.state[0]["_k0"].to_pylist())
        assert not held & after, "rows of an eager group are reduced"
        assert done.groups["lazy"] == len(held)
        self.mixed += bool(held and after)
        return done

    def _alive(self, rows: pa.Table) -> pa.Table:
        last = wid_range(ints(rows, "_time"), self.spec.sliding)[1] - 1
        return rows.filter(pa.array(last > self.closed))

    def _open(self, items: pa.Table) -> pa.Table:
        ends = self.inner.panes.end_window(ints(items, "_pane"))
        return items.filter(pa.array(ends > min(self.closed + 1, END)))

    @property
    def volumes(self) -> dict:
        """Rows that are of use still, by group, as the state has them."""
        found: dict = {}
        for key in self.state[0]["_k0"].to_pylist():
            found[key] = found.get(key, 0) + 1
        names = [f"{adaptive.EXPIRING}_n"]
        for row in self.state[1].select(["_k0", *names]).to_pylist():
            found[row["_k0"]] = found.get(row["_k0"], 0) + row[names[0]]
        return found

    @property
    def bytes(self) -> int:
        return sum(t.nbytes for t in self.state)

    @property
    def slack(self) -> float:
        """What may come on top of the better way alone: rows that wait to be reduced, a mark per group, and partials
        left over of groups that have become lazy.
        """
        kept, items, eager = self.state
        left = items.filter(pc.invert(pc.is_in(items["_k0"], eager["_k0"].combine_chunks())))
        marks = adaptive.sizes_of(self.spec).mark * len(self.volumes)
        return self.rules.share * kept.nbytes + marks + left.nbytes

    @property
    def slack_by_group(self) -> float:
        """As `slack`; the marks are counted with each group."""
        return self.slack - adaptive.sizes_of(self.spec).mark * len(self.volumes)


@st.composite
def skewed(draw):
    """Rows in batches, most of them of one group, with the windows that each batch closes."""
    count = draw(st.integers(2, 7))
    stops = draw(st.lists(st.integers(-15, 15), min_size=count - 1, max_size=count - 1))
    hot = draw(st.sampled_from(["a", "b", None]))
    data = []
    for _ in range(count):
        rows = draw(
            row_lists(["i4", "i8", "f8", "s", "d18", "w38", "b"], st.integers(-40, 40), most=9)
        )
        times = draw(st.lists(st.integers(-40, 40), max_size=12))
        # The group's times lie together, so that its partials are few.
        more = [
            {**brute_row(), "k": hot, "t": times[0] + t % 7, "i8": i} for i, t in enumerate(times)
        ]
        data.append(rows + more)
    return list(zip(data, [*stops, END], strict=True))


def brute_row() -> dict:
    return {"i4": 3, "i8": 4, "f8": 0.5, "s": "x", "d18": None, "w38": None, "b": True}


@pytest.mark.spec("WQ-F49", "WQ-F52", "WQ-F54", "WQ-F55", "WQ-F56")
@examples(25, suppress_health_check=list(HealthCheck))
@given(
    st.integers(1, 14), st.integers(1, 14), st.integers(-9, 9), skewed(),
    st.permutations(range(13)), st.sampled_from([NOW, ModeRules(), ModeRules(down=1.0, share=0), BUFFERED]),
)  # fmt: skip
def test_results_are_those_of_the_extents(range_, slide, origin, batches, some, rules):
    chosen = tuple(PRIMITIVES[i] for i in sorted(some[:4]))
    spec = spec_of(range_, slide, origin, "adaptive", chosen)
    machine = Machine(spec, rules)
    seen: list[dict] = []
    for (data, close_to), windows in zip(batches, expected(spec, batches), strict=True):
        closed = machine.closed
        output = machine.step(data, close_to).output
        assert output.schema == aggregate.output_schema(spec)
        got = {(r["_k0"], r["_wid"]): r for r in output.to_pylist()}
        assert len(got) == output.num_rows and set(got) == set(windows)
        for where, inside in windows.items():
            for p in spec.primitives:
                value = brute.aggregate(p, inside, ansi=False)
                assert brute.same(p, got[where][p.name], value, inside), (where, p, value)
        # Each row counts until its last window closes, in whichever form it is kept.
        seen += [r for r in data if wid_range(r["t"], spec.window)[1] - 1 > closed]
        spans = [(r, wid_range(r["t"], spec.window)) for r in seen]
        alive = [r["k"] for r, (lo, hi) in spans if lo < hi and hi - 1 > machine.closed]
        assert machine.volumes == {k: alive.count(k) for k in set(alive)}
    assert machine.volumes == {} and not machine.state[2].num_rows


@pytest.mark.spec("WQ-F49", "WQ-F52")
def test_groups_change_sides_and_meanwhile_have_both_kinds_of_state():
    spec = spec_of(20, 10, 0, "adaptive", PRIMITIVES[:4])
    machine = Machine(spec)

    def batch(times, close_to):
        rows = [{**brute_row(), "k": k, "t": t} for k, t in times]
        done = machine.step(rows, close_to)
        return done, {(r["_k0"], r["_wid"]): r["_a0"] for r in done.output.to_pylist()}

    done, _ = batch([("a", 1), ("b", 2)], -END)
    assert dict(done.groups) == {"eager": 0, "lazy": 2, "transition": 0}
    done, _ = batch([("a", 3)] * 40, -END)
    assert dict(done.groups) == {"eager": 1, "lazy": 1, "transition": 0}
    assert done.all_rows and done.rows["_k0"].to_pylist() == ["b"]
    # A row in a pane of its own; the bound expires the many. Then the group is lazy with a partial left over.
    batch([("a", 11)], -END)
    done, found = batch([], 0)
    assert found == {("a", 0): 41, ("b", 0): 1}
    assert machine.state[2]["_k0"].to_pylist() == ["a"]
    done, found = batch([], 1)
    assert found == {("a", 1): 42, ("b", 1): 1}
    assert dict(done.groups) == {"eager": 0, "lazy": 0, "transition": 1}
    done, _ = batch([("a", 13), ("a", 25)], 1)
    assert dict(done.groups) == {"eager": 0, "lazy": 1, "transition": 1}
    done, found = batch([], 2)
    assert found == {("a", 2): 3} and dict(done.groups) == {"eager": 0, "lazy": 1, "transition": 0}
    _, found = batch([], END)
    assert found == {("a", 3): 1}
    assert (machine.ups, machine.downs) == (1, 1)


@pytest.mark.spec("WQ-F48")
def test_a_buffer_of_rows_is_reduced_pane_by_pane(monkeypatch):
    """Rows are kept until their windows close; then each is reduced once, however many windows it is in."""
    spec = spec_of(60, 10, 0, "buffered", PRIMITIVES[:4])
    machine = Machine(spec, BUFFERED)
    rows = [{**brute_row(), "k": k, "t": t, "i8": t} for k in "ab" for t in range(60)]
    done = machine.step(rows[::-1], -END)
    assert (
        dict(done.groups) == {"eager": 0, "lazy": 2, "transition": 0} and done.rows.num_rows == 120
    )
    given: list[int] = []
    plain = aggregate.step

    def counted(inner, fresh, *rest):
        given.append(fresh.num_rows)
        return plain(inner, fresh, *rest)

    monkeypatch.setattr(aggregate, "step", counted)
    output = machine.step([], END).output
    assert given == [2 * 6]  # groups and panes, not groups and windows (2 * 11)
    windows = brute.windows(rows, 60, 10, 0)
    got = {(r["_k0"], r["_wid"]): r for r in output.to_pylist()}
    assert set(got) == set(windows) and len(got) == 2 * 11
    for where, inside in windows.items():
        for p in spec.primitives:
            assert brute.same(p, got[where][p.name], brute.aggregate(p, inside, ansi=False), inside)


@pytest.mark.spec("WQ-F56")
def test_partials_are_of_panes_or_of_windows_whichever_are_fewer():
    assert adaptive.unit(spec_of(60, 10, 0, "adaptive")).plan == "panes"
    assert adaptive.unit(spec_of(60, 59, 0, "adaptive")).plan == "wids"
    machine = Machine(spec_of(60, 59, 0, "adaptive", PRIMITIVES[:2]))
    rows = [{**brute_row(), "k": "a", "t": t} for t in range(58)]
    assert machine.step(rows, -END).groups["eager"] == 1
    assert machine.state[1].num_rows == 1  # not 58 panes of a tick


def zipf(seed: int, rows: int, keys: int, skew: float, width: int) -> list[pa.Table]:
    """Ten batches of rows over `width` ticks each; key 1 has the most."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, keys + 1) ** skew
    key = rng.choice(keys, rows, p=weights / weights.sum())
    made = []
    for i, part in enumerate(np.array_split(key, 10)):
        times = np.int64(i * width) + rng.integers(0, width, len(part))
        made.append(pa.table({"k": part, "t": times, "i8": part, "f8": part.astype(float)}))
    return made


def ideal(machine: Machine, lazy: pa.Table, eager: pa.Table) -> float:
    """Bytes if every group were kept in the way that is best for it, all rows at hand."""
    sizes = adaptive.sizes_of(machine.spec)
    rows = np.bincount(ints(lazy, "_k0"), minlength=1_000)
    items = np.bincount(ints(eager, "_k0"), minlength=1_000)
    return float(np.minimum(sizes.row * rows, sizes.item * items + sizes.mark).sum())


@pytest.mark.spec("WQ-F55")
@pytest.mark.parametrize("window", [(60, 10), (60, 60), (60, 7), (50, 49)])
@pytest.mark.parametrize("skew", [0.0, 1.2, 2.0])
def test_state_is_no_larger_than_the_better_way_alone(window, skew):
    spec = spec_of(
        *window, 0, "adaptive",
        (PRIMITIVES[0], brute.primitive("_a1", "sum", "i8"), brute.primitive("_a2", "avg", "f8")),
        keys=(Field("k", "bigint"),),
    )  # fmt: skip
    machine = Machine(spec, ModeRules())
    wids = spec_of(*window, 0, "wids", spec.primitives, keys=spec.keys)
    live: list[pa.Table] = []
    ratios = []
    for i, batch in enumerate(zipf(7, 6_000, 1_000, skew, 20)):
        close_to = (20 * (i + 1) - 5) // window[1] - 1
        live.append(rows_of(spec, batch))
        machine.arrive(live[-1], close_to)
        lazy = machine._alive(pa.concat_tables(live))
        sql = aggregate.partial_select(wids, ['"_k0"'], '"_time"', "kept")
        plain = {"_x0": "i8", "_x1": "f8"}
        named = lazy.rename_columns([plain.get(c, c) for c in lazy.column_names])
        raw = column_engine.sql_to_arrow(column_engine.connect(), sql, {"kept": named})
        eager = aggregate.partials(raw, wids)
        eager = eager.filter(pa.array(ints(eager, "_pane") > machine.closed))
        counts = 9 * eager.num_rows  # each partial here has one
        best = min(lazy.nbytes, eager.nbytes + counts)
        ratios.append(machine.bytes / min(lazy.nbytes, eager.nbytes))
        assert machine.bytes <= 1.05 * ideal(machine, lazy, eager) + machine.slack_by_group
        assert machine.bytes <= best + machine.slack, (i, lazy.nbytes, eager.nbytes)
    if skew == 1.2:
        assert machine.mixed and np.mean(ratios) < 1, "with skew it is smaller than either"


def test_rows_that_are_kept_are_what_the_model_says_of_sources_that_lag():
    # Ten rows a tick of one source, two a tick of one that lags by 20: what is kept of the open windows.
    spec = spec_of(60, 60, 0, "adaptive", PRIMITIVES[:1])
    machine = Machine(spec, ModeRules(share=2))
    rates, behind = [10, 2], [0, 20]
    for end in (10, 20, 40, 60):
        start = {10: 0, 20: 10, 40: 20, 60: 40}[end]
        rows = []
        for rate, lag in zip(rates, behind, strict=True):
            ticks = range(max(0, start - lag), max(0, end - lag))
            rows += [{**brute_row(), "k": "a", "t": t} for t in ticks for _ in range(rate)]
        machine.step(rows, -END)
    assert machine.volumes == {"a": rows_held(rates, 60, behind)} == {"a": 10 * 60 + 2 * 40}
