"""The low-level table: exact totals above it, no burst, no entry longer than allowed, no promise broken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from slackwater.kernels.buckets import hash_of
from slackwater.kernels.windows import low_table
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.semantics.limits import END, START
from slackwater.semantics.low_table import LowTable, bound_of_pane, due, first_open, held_pane
from slackwater.semantics.window_ids import last_complete
from tests.examples import examples
from tests.kernels import brute
from tests.kernels.low_table_brute import OrderFree
from tests.kernels.test_aggregate import PRIMITIVES, partials, partials_of, spec_of

CHOSEN = (PRIMITIVES[0], PRIMITIVES[3])  # count(*), sum(f8); sums of small whole numbers are exact
QUICK = examples(25, suppress_health_check=list(HealthCheck))
KEYS = "abcdefgh"


def home_of(rule):
    hashes = {k: int(hash_of([pa.array([k])])[0]) for k in KEYS}
    return lambda group: hashes[group] % rule.size


def shown(spec, table):
    """(pane, group, count, sum) of partials, in their order."""
    names = ["_pane", "_k0", "_a0_n", "_a3_s"]
    return [tuple(row.values()) for row in table.select(names).to_pylist()]


def single(spec, size, row):
    """The partial of one row; the column engine would take a millisecond for it."""
    values = [0, row["k"], row["t"] // size, 1, 1, float(row["f8"])]
    schema = aggregate.partials_schema(spec)
    return pa.table(
        [pa.array([v], f.type) for v, f in zip(values, schema, strict=True)], schema=schema
    )


def as_shown(entries):
    return [(e.pane, e.group, len(e.values), sum(e.values)) for e in entries]


RULES = st.builds(
    LowTable, st.integers(1, 7), st.sampled_from([0, 1, 2, 5]), st.integers(0, 2), st.booleans()
)


@st.composite
def on_time(draw, rows=10):
    """Batches of (rows, bound), no row older than the bound before its batch."""
    bound, made = -20, []
    for _ in range(draw(st.integers(1, 7))):
        more = st.tuples(st.sampled_from(KEYS), st.integers(0, 25), st.integers(-9, 9))
        found = [
            {"k": k, "t": bound + t, "f8": v} for k, t, v in draw(st.lists(more, max_size=rows))
        ]
        bound += draw(st.integers(0, 15))
        made.append((found, bound))
    return made


@pytest.mark.spec("OO-F14", "OO-F15", "WQ-F86", "WQ-F87", "WQ-F89")
@QUICK
@given(RULES, on_time(rows=9), st.integers(1, 8))
def test_row_by_row_it_is_the_definition(rule, batches, size):
    """With one row per step: the same entries leave at the same moment, in the same order."""
    spec = spec_of(size, size, 0, "panes", CHOSEN)
    table, oracle = (
        low_table.empty(spec),
        OrderFree(rule.size, home_of(rule), rule.every, rule.probe),
    )
    bound = -20
    for rows, new_bound in batches:
        opened = first_open(bound, 0, size)
        for row in rows:
            done = low_table.step(spec, table, [single(spec, size, row)], rule, opened)
            table = done.state
            left = oracle.arrive(row["t"] // size, row["k"], row["f8"], opened)
            assert shown(spec, done.sent) == as_shown(left)
            assert len(left) <= 2  # one for the slot, one old one: never a burst
        bound = new_bound
        mark = due(first_open(bound, 0, size), 1, rule.windows)
        gone, entries = low_table.below(table.entries, mark)
        table = table._replace(entries=entries)
        assert sorted(shown(spec, gone)) == sorted(as_shown(oracle.drain(mark)))
        slots = dict(
            zip(table.entries["_slot"].to_pylist(), shown(spec, table.entries), strict=True)
        )
        assert slots == {i: as_shown([e])[0] for i, e in enumerate(oracle.slots) if e is not None}


@pytest.mark.spec("OO-F14", "WQ-F89")
@QUICK
@given(RULES, on_time(), st.integers(1, 8))
def test_a_batch_is_its_rows_in_the_order_that_the_kernel_declares(rule, batches, size):
    """First the rows that find their entry, then the others by pane and hash."""
    rule = replace(rule, every=0)
    spec = spec_of(size, size, 0, "panes", CHOSEN)
    table, oracle = low_table.empty(spec), OrderFree(rule.size, home_of(rule), 0, rule.probe)
    hashes = {k: int(hash_of([pa.array([k])]).view(np.int64)[0]) for k in KEYS}
    fresh = partials_of(spec, [rows for rows, _ in batches])
    for new, (rows, _) in zip(fresh, batches, strict=True):
        there = {e.key() for e in oracle.slots if e is not None}
        keyed = [(row["t"] // size, row["k"], row["f8"]) for row in rows]
        keyed.sort(key=lambda r: (r[:2] not in there, r[0], hashes[r[1]]))
        left = [e for row in keyed for e in oracle.arrive(*row, START)]
        done = low_table.step(spec, table, [new], rule, START)
        table = done.state
        assert sorted(shown(spec, done.sent)) == sorted(as_shown(left))
        slots = dict(zip(table.entries["_slot"].to_pylist(), shown(spec, table.entries)))
        assert slots == {i: as_shown([e])[0] for i, e in enumerate(oracle.slots) if e is not None}


@pytest.mark.spec("OO-F14", "OO-F15", "OO-F16", "WQ-F37", "WQ-F84", "WQ-F86", "WQ-F87")
@pytest.mark.parametrize("plan", ["panes", "wids"])
@examples(25, suppress_health_check=list(HealthCheck))
@given(RULES, on_time(), st.integers(1, 12), st.integers(1, 12), st.integers(1, 3))
def test_the_roll_up_gives_what_a_plain_aggregate_gives(plan, rule, batches, range_, slide, tasks):
    """Several tables below, one aggregate above that closes windows by the held bound."""
    spec = spec_of(range_, slide, 0, plan, CHOSEN)
    panes, w = spec.panes, spec.sliding
    tables = [low_table.empty(spec) for _ in range(tasks)]
    state = aggregate.partials_schema(spec).empty_table()
    bound, promised, closed, out = -20, START, START, {}
    batches = [*batches, ([], END)]
    fresh = iter(partials_of(spec, [rows[i::tasks] for rows, _ in batches for i in range(tasks)]))
    for n, (_, new_bound) in enumerate(batches):
        arrived = [state.slice(0, 0)]
        for i in range(tasks):
            new = next(fresh)
            opened = first_open(bound, 0, panes.width)
            before = tables[i].carry
            done = low_table.step(spec, tables[i], [new], rule, opened)
            entries = done.state.entries
            # Fixed size; as many leave as come, and one old one for every so many.
            assert entries.num_rows <= rule.size
            assert len(set(entries["_slot"].to_pylist())) == entries.num_rows
            assert done.sent.num_rows - done.flushed <= new.num_rows
            assert done.flushed <= ((before + new.num_rows) // rule.every if rule.every else 0)
            tables[i] = done.state
            arrived.append(done.sent)
        bound = new_bound
        opened = first_open(bound, 0, panes.width)
        mark = due(opened, panes.per_slide, rule.windows)
        for i in range(tasks):
            gone, entries = low_table.below(tables[i].entries, mark)
            arrived.append(gone.drop_columns(["_slot"]))
            tables[i] = tables[i]._replace(entries=entries)
        present = [p for t in tables for p in t.entries["_pane"].to_pylist()]
        if bound < END:
            # At most so many windows late.
            assert all(
                p * panes.width >= bound - (rule.windows * slide + panes.width) for p in present
            )
        held = bound_of_pane(held_pane(opened, present), bound, 0, panes.width)
        assert held <= bound
        close_to = END if held >= END else last_complete(held, w)
        assert close_to >= closed or promised <= START
        done = aggregate.step(spec, pa.concat_tables(arrived), state, closed, close_to)
        assert done.dropped_rows == 0, f"batch {n}: a partial came after its window was closed"
        for row in done.output.to_pylist():
            where = row["_k0"], row["_wid"]
            assert where not in out
            out[where] = row
        state = pa.concat_tables([state, done.keep])
        closed, promised = max(closed, close_to), max(promised, held)
    everything = brute.windows([r for rows, _ in batches for r in rows], range_, slide, 0)
    assert set(out) == set(everything)
    for where, inside in everything.items():
        for p in spec.primitives:
            value = brute.aggregate(p, inside, ansi=False)
            assert brute.same(p, out[where][p.name], value, inside)


@pytest.mark.spec("WQ-F87")
def test_the_search_for_old_entries_goes_round_the_table():
    """It begins after slot 0, and comes to slot 0 last."""
    rule = LowTable(8, every=1)
    spec = spec_of(10, 10, 0, "panes", CHOSEN)
    by_home = {home_of(rule)(k): k for k in KEYS}
    assert 0 in by_home and len(by_home) > 3
    homes = sorted(by_home)
    *old, busy = homes
    rows = [{"k": by_home[h], "t": 5, "f8": 1.0} for h in old]
    state = low_table.step(spec, low_table.empty(spec), [partials(spec, rows)], rule, 0).state
    found = []
    for _ in old:
        new = partials(spec, [{"k": by_home[busy], "t": 15, "f8": 1.0}])
        done = low_table.step(spec, state, [new], rule, 1)
        state = done.state
        found += [key for _, key, *_ in shown(spec, done.sent)]
    assert found == [by_home[h] for h in [*old[1:], 0]]


@pytest.mark.spec("WQ-F89")
def test_the_neighbouring_slot_keeps_more_entries():
    spec = spec_of(10, 10, 0, "panes", CHOSEN)
    new = partials(spec, [{"k": f"g{i}", "t": 5, "f8": 1} for i in range(1000)])
    kept = [
        low_table.step(spec, low_table.empty(spec), [new], LowTable(1500, probe=p), 0).state.entries
        for p in (False, True)
    ]
    assert kept[1].num_rows > 1.1 * kept[0].num_rows


@QUICK
@given(
    RULES, st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 30)), max_size=40), st.randoms()
)
def test_the_outcome_does_not_depend_on_the_order_of_rows(rule, rows, random):
    """A task that is run again may see its rows in another order, and must decide the same."""
    rule = replace(rule, every=0)  # or the number of arrivals counts, which depends on the cut
    spec = spec_of(10, 10, 0, "panes", CHOSEN)
    data = [{"k": k, "t": t, "f8": t} for k, t in rows]
    cut = random.randint(0, len(data))
    mixed = random.sample(data, len(data))
    half, whole, *parts = partials_of(
        spec, [data[: len(data) // 2], data, mixed[:cut], mixed[cut:]]
    )
    start = low_table.step(spec, low_table.empty(spec), [half], rule, 0).state
    once = low_table.step(spec, start, [whole], rule, 1)
    again = low_table.step(spec, start, parts, rule, 1)
    assert once.state.entries.sort_by("_slot").equals(again.state.entries.sort_by("_slot"))
    assert sorted(shown(spec, once.sent)) == sorted(shown(spec, again.sent))
