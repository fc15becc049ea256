"""The in-order baselines of the benchmarks against the definitions, and what it costs them to be in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.baselines.buffering import Buffering, Mover, Negative, NotInOrderError, Running
from benchmarks.baselines.merge import Merge
from benchmarks.baselines.slack import ByCount, ByTime, SlackAggregate, SlackSort
from slackwater.kernels.windows.partials_step import AggregateSpec
from slackwater.model.aggregate import Primitive
from slackwater.model.schema import Field, column
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.windows import end_of, windows_holding
from slackwater.testing.strategies import cut, cuts, disordered, windows
from tests.examples import examples

Row = dict[str, Any]
FEW = examples(20)
ROWS = disordered(max_rows=25, max_delay=12)
CUTS = cuts(25)
SCHEMA = pa.schema([("__sw_time", pa.int64()), ("_k0", pa.string()), ("v", pa.int64()), ("i", pa.int64())])  # fmt: skip


def table(rows: list[Row]) -> pa.Table:
    named = [{"__sw_time": r["ts"], "_k0": r["k"], "v": r["v"], "i": r["i"]} for r in rows]
    return pa.Table.from_pylist(named, SCHEMA)


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda r: r["ts"])


def by_definition(rows: list[Row], w: TimeWindow) -> dict[tuple[int, Any], tuple[int, int | None]]:
    """Count and sum of each extent's groups, window by window."""
    held: dict[tuple[int, Any], list[int | None]] = {}
    for r in rows:
        for wid in windows_holding(r["ts"], w):
            held.setdefault((wid, r["k"]), []).append(r["v"])
    return {at: summed(values) for at, values in held.items()}


def summed(values: list[int | None]) -> tuple[int, int | None]:
    some = [v for v in values if v is not None]
    return len(values), sum(some) if some else None


# ---- buffering aggregates ----
def reduce(rows: pa.Table) -> pa.Table:
    """Plain Python, so that `Buffering` is tested and not the reduction."""
    groups: dict[Any, list[int | None]] = {}
    for r in rows.to_pylist():
        groups.setdefault(r["_k0"], []).append(r["v"])
    made = [(k, *summed(v)) for k, v in groups.items()]
    return pa.table({n: [m[i] for m in made] for i, n in enumerate(("_k0", "_n", "_sum_v"))})


def buffering(kind: str, w: TimeWindow) -> Any:
    if kind == "plain":
        return Buffering(w, reduce)
    return {"running": Running, "negative": Negative}[kind](w, ["_k0"], ["v"])


KINDS = pytest.mark.parametrize("kind", ["plain", "running", "negative"])


@pytest.mark.spec("WQ-F90")
@KINDS
@given(rows=ROWS, w=windows(), places=CUTS)
@FEW
def test_buffering_over_rows_in_order_is_exact(kind, rows, w, places):
    operator = buffering(kind, w)
    batches = cut(in_order(rows), places)
    got: dict[Any, Any] = {}
    frontier = START
    for i, batch in enumerate(batches):
        frontier = max([frontier, *(r["ts"] for r in batch)])
        told = END if i == len(batches) - 1 else START
        found = operator.step(table(batch), told)
        assert [wid for wid, _ in found] == sorted(wid for wid, _ in found)
        for wid, results in found:
            # The first row at or beyond its end closes a window, not a later one.
            assert end_of(wid, w) <= max(frontier, told)
            for r in results.to_pylist():
                assert (wid, r["_k0"]) not in got
                got[wid, r["_k0"]] = (r["_n"], r["_sum_v"])
        if told == START:
            seen = [r for b in batches[: i + 1] for r in b]
            over = {at for at in by_definition(seen, w) if end_of(at[0], w) <= frontier}
            assert set(got) == over
    assert got == by_definition(rows, w)
    assert operator.held_rows == 0


@pytest.mark.spec("WQ-F90")
@KINDS
def test_a_lull_is_ended_by_what_is_told_and_disorder_is_refused(kind):
    operator = buffering(kind, TimeWindow(10, 10, 0, "ts"))
    row = {"k": "a", "v": 1, "i": 0}
    assert operator.step(table([{**row, "ts": 3}])) == []
    assert operator.step(table([]), 9) == []
    ((wid, _),) = operator.step(table([]), 10)
    assert wid == 0
    with pytest.raises(NotInOrderError):
        operator.step(table([{**row, "ts": 9}]))


@pytest.mark.spec("WQ-F90")
def test_what_the_buffering_kinds_hold_and_send():
    """All keep the rows of an extent; with negative rows each row travels twice. Windows that do not overlap
    leave nothing to take out, so running totals need no rows then."""
    w = TimeWindow(20, 5, 0, "ts")
    rows = [{"ts": t, "k": "a", "v": t, "i": t} for t in range(100)]
    operators = {kind: buffering(kind, w) for kind in ("plain", "running", "negative")}
    for kind, operator in operators.items():
        held = []
        for batch in cut(rows, list(range(1, 100))):
            operator.step(table(batch))
            held.append(operator.held_rows)
        assert max(held) == 20, kind
        operator.step(table([]), END)
        assert operator.held_rows == 0
    assert operators["negative"].sent_rows == 2 * len(rows)
    tumbling = buffering("running", TimeWindow(20, 20, 0, "ts"))
    for batch in cut(rows, list(range(1, 100))):
        tumbling.step(table(batch))
        assert tumbling.held_rows == 0 and tumbling.totals.groups is not None


class LeavesEarly(Mover):
    """Takes rows out one window too early."""

    def moves(self, new, told=START):
        for move in super().moves(new, told):
            yield move._replace(leaving=move.leaving.slice(1))


def test_a_wrong_move_is_noticed():
    w = TimeWindow(20, 5, 0, "ts")
    rows = [{"ts": t, "k": "a", "v": t, "i": t} for t in range(60)]
    right = dict(buffering("running", w).step(table(rows), END))
    wrong = buffering("running", w)
    wrong.mover = LeavesEarly(w)
    found = dict(wrong.step(table(rows), END))
    assert any(found[wid].to_pylist() != right[wid].to_pylist() for wid in right)


# ---- slack ----
def limits_by_definition(times: list[int], slack: ByTime | ByCount) -> list[int]:
    """After each row: what is older is late."""
    found = []
    held: list[int] = []
    left = START
    for i, time in enumerate(times):
        if isinstance(slack, ByTime):
            found.append(max(times[: i + 1]) - slack.ticks)
            continue
        held = sorted([*held, time])
        if len(held) > slack.rows:
            left = max(left, held.pop(0))
        found.append(left)
    return found


SLACKS = st.builds(ByTime, st.integers(0, 8)) | st.builds(ByCount, st.integers(0, 4))
MANY = disordered(min_rows=10, max_rows=25, max_delay=12, low=0, high=40)
SPEC_KEYS = (Field("k", "string"),)


def aggregate_spec(w: TimeWindow) -> AggregateSpec:
    v = column("v", "bigint")
    made = (Primitive("_a0", "count", (), "bigint"), Primitive("_a1", "sum", (v,), "bigint"))
    return AggregateSpec(SPEC_KEYS, w, made, "wids", True)


@pytest.mark.spec("WQ-F91")
@pytest.mark.parametrize("reading", ["consistent", "generous"])
@given(rows=MANY, w=windows(max_slide=6), places=CUTS, slack=SLACKS)
@FEW
def test_slack_is_what_its_reading_says(reading, rows, w, places, slack):
    limits = limits_by_definition([r["ts"] for r in rows], slack)
    held: dict[Any, list[int | None]] = {}
    lost = 0
    for r, limit in zip(rows, limits, strict=True):
        wids = windows_holding(r["ts"], w)
        on_time = [wid for wid in wids if end_of(wid, w) > limit]
        if reading == "consistent" and len(on_time) < len(wids):
            on_time = []
        lost += len(wids) - len(on_time)
        for wid in on_time:
            held.setdefault((wid, r["k"]), []).append(r["v"])
    operator = SlackAggregate(aggregate_spec(w), slack, reading)
    got: dict[Any, Any] = {}
    batches = cut(rows, places)
    done = 0
    for batch in batches:
        done += len(batch)
        for r in operator.step(table(batch)).to_pylist():
            assert end_of(r["_wid"], w) <= limits[done - 1]
            assert (r["_wid"], r["_k0"]) not in got
            got[r["_wid"], r["_k0"]] = (r["_a0"], r["_a1"])
        if done:
            assert all(end_of(wid, w) <= limits[done - 1] for wid, _ in got)
            assert len(got) == sum(end_of(wid, w) <= limits[done - 1] for wid, _ in held)
    for r in operator.step(table([]), end=True).to_pylist():
        got[r["_wid"], r["_k0"]] = (r["_a0"], r["_a1"])
    assert got == {at: summed(values) for at, values in held.items()}
    assert operator.lost == lost and operator.held_rows == 0
    for wid, row in operator.closed_at.items():
        assert end_of(wid, w) <= limits[row]
        assert row == 0 or end_of(wid, w) > limits[row - 1]


@pytest.mark.spec("WQ-F91")
@pytest.mark.parametrize("reading", ["consistent", "generous"])
@given(rows=ROWS, w=windows(), places=CUTS, count=st.booleans())
@FEW
def test_slack_as_large_as_the_disorder_is_exact(reading, rows, w, places, count):
    times = [r["ts"] for r in rows]
    overtaken = [sum(e > t for e in times[:i]) for i, t in enumerate(times)]
    slack = ByCount(max(overtaken, default=0)) if count else ByTime(12)
    operator = SlackAggregate(aggregate_spec(w), slack, reading)
    outputs = [operator.step(table(b)) for b in cut(rows, places)]
    outputs.append(operator.step(table([]), end=True))
    got = {(r["_wid"], r["_k0"]): (r["_a0"], r["_a1"]) for t in outputs for r in t.to_pylist()}
    assert got == by_definition(rows, w) and operator.lost == 0


@pytest.mark.spec("WQ-F91", "WQ-F92")
@given(rows=ROWS, places=CUTS, slack=SLACKS)
@FEW
def test_sorting_by_slack_gives_order_and_loses_what_is_late(rows, places, slack):
    limits = limits_by_definition([r["ts"] for r in rows], slack)
    late = [r["i"] for r, limit in zip(rows, limits, strict=True) if r["ts"] < limit]
    operator = SlackSort(slack)
    found = [operator.step(table(b)) for b in cut(rows, places)]
    found.append(operator.step(table([]), end=True))
    times = [t for f in found for t in f.rows["__sw_time"].to_pylist()]
    ids = [i for f in found for i in f.rows["i"].to_pylist()]
    assert times == sorted(times)
    assert sorted(ids) == sorted(r["i"] for r in rows if r["i"] not in late)
    assert sum(f.late for f in found) == len(late) and operator.held_rows == 0


@pytest.mark.spec("WQ-F91")
def test_more_slack_fewer_errors_and_generous_beats_consistent():
    """Means over windows of 640 ticks every 64, disorder of up to 32: the error falls to nothing at slack 32."""
    rng = np.random.default_rng(5)
    n = 20_000
    event = np.arange(n)
    order = np.argsort(event + rng.integers(0, 33, n), kind="stable")
    times = event[order]
    values = rng.normal(100, 30, n).astype(np.int64)[order]
    rows = pa.table({"__sw_time": times, "v": values})
    w = TimeWindow(640, 64, 0, "ts")
    spec = AggregateSpec((), w, (Primitive("_a0", "avg", (column("v", "bigint"),), "double"),), "wids", True)  # fmt: skip

    def means(slack: int, reading: Any) -> dict[int, float]:
        operator = SlackAggregate(spec, ByTime(slack), reading)
        out = pa.concat_tables([operator.step(rows), operator.step(rows.slice(0, 0), end=True)])
        return dict(zip(out["_wid"].to_pylist(), out["_a0"].to_pylist(), strict=True))

    truth = {}
    for wid in range(n // 64 + 10):
        inside = values[(times >= end_of(wid, w) - 640) & (times < end_of(wid, w))]
        if len(inside):
            truth[wid] = inside.mean()
    errors = {}
    for reading in ("consistent", "generous"):
        for slack in (0, 6, 26, 32):
            found = means(slack, reading)
            errors[reading, slack] = np.mean([abs(t - found[i]) / t for i, t in truth.items()])
        falling = [errors[reading, s] for s in (0, 6, 26, 32)]
        assert falling == sorted(falling, reverse=True) and falling[-1] < 1e-12 < falling[-2]
    assert all(errors["generous", s] < errors["consistent", s] for s in (0, 6, 26))


# ---- merge ----
@pytest.mark.spec("WQ-F92")
@given(rows=ROWS, split=st.lists(st.integers(0, 2), min_size=25, max_size=25), places=CUTS)
@FEW
def test_a_merge_of_inputs_in_order_is_in_order_and_complete(rows, split, places):
    sides: list[list[Row]] = [[], [], []]
    for r in rows:
        sides[split[r["i"]]].append(r)
    cutted = [cut(in_order(side), places) for side in sides]
    merge = Merge(3)
    times: list[int] = []
    ids: list[int] = []
    given_so_far: list[Row] = []
    for batch in zip(*cutted, strict=True):
        out = merge.step([table(b) for b in batch])
        times += out["__sw_time"].to_pylist()
        ids += out["i"].to_pylist()
        given_so_far += [r for b in batch for r in b]
        newest = [max([START, *(r["ts"] for r in given_so_far if split[r["i"]] == i)]) for i in range(3)]  # fmt: skip
        # What waits is just what the slowest input may still precede.
        assert merge.held_rows == sum(r["ts"] > min(newest) for r in given_so_far)
    out = merge.step([table([])] * 3, [END] * 3)
    assert [*times, *out["__sw_time"].to_pylist()] == sorted(r["ts"] for r in rows)
    assert sorted([*ids, *out["i"].to_pylist()]) == sorted(r["i"] for r in rows)
    assert merge.held_rows == 0


@pytest.mark.spec("WQ-F94")
def test_punctuation_helps_a_merge_in_a_lull_but_not_against_skew():
    busy = [{"ts": t, "k": "a", "v": 1, "i": t} for t in range(100)]

    def most(told: Any, quiet: list[list[Row]]) -> tuple[int, list[int]]:
        merge, held, out = Merge(2), [], []
        for now, (row, other) in enumerate(zip(busy, quiet, strict=True)):
            done = merge.step([table([row]), table(other)], [START, told(now)])
            out += done["__sw_time"].to_pylist()
            held.append(merge.held_rows)
        return max(held), out

    silent: list[list[Row]] = [[] for _ in busy]
    assert most(lambda now: START, silent) == (100, []), "nothing leaves while an input is silent"
    held, out = most(lambda now: now - 5, silent)
    assert held == 5 and out == list(range(95)), (
        "with its progress told, all but the last moments do"
    )
    # An input that is 40 late has rows, and no more than these can be told of it.
    late: list[list[Row]] = [
        [{"ts": t - 40, "k": "b", "v": 1, "i": t}] if t >= 40 else [] for t in range(100)
    ]
    held, _ = most(lambda now: now - 40, late)
    assert held == 40
