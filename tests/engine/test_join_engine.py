"""Joins in the engine without Spark: several groups, restarts with other numbers of them, little memory, owed pairs.

Both sides come from one stream with two times, each of which may run ahead of the other or fall silent: a row has one
of them, and joins on that side.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.operators.bounded_join import policy_of
from slackwater.engine.paths.join import InputRows
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store import manifest as manifests
from slackwater.kernels.buckets import bucket_range
from slackwater.kernels.joins.bounded.ledger import Ledger
from slackwater.model.join import How, is_existence
from slackwater.model.node import Join
from slackwater.model.schema import Expr, Named
from slackwater.semantics.limits import END, START
from slackwater.testing.clock import ManualClock
from slackwater.testing.transcripts.script import Transcript, oracle, parse
from tests.engine.in_process import Engine

DELAY = 5
COLUMNS = {"k": "bigint", "ta": "bigint", "tb": "bigint", "v": "bigint"}
Rows = list[dict[str, Any]]


def transcript(data: list[Rows], **join: Any) -> Transcript:
    """A join, and windows over it: on its time, on the left one, on both."""
    how = join.get("how", "inner")
    sides = [{"as": "a", "from": "s"}, {"as": "b", "from": "s"}]
    step: dict[str, Any] = {"join": sides, "times": ["ta", "tb"], "keys": ["k"]}
    if "tumbling" not in join:
        step["band"] = {"before": 9, "after": 7}
    left = {"k": "k", "x": "ta", "v": "v"}  # all that a semi or anti join has
    shown = {"k": "k", "x": "a_ta", "y": "b_tb", "v": "a_v"}
    alone = is_existence(how)
    window = {"range": 6, "slide": 3, "time": "x" if alone else "max"}
    query: dict[str, Any] = {
        "pairs": [{**step, **join}, {"select": left if alone else shown}],
        "sums": [{"from": "pairs"}, {"window": window, "by": ["k"],
                                     "agg": {"n": "count(*)", "t": "sum(v)"}}],
    }  # fmt: skip
    if how == "inner":
        pair = [{"range": 6, "slide": 3, "time": "x"}, {"range": 4, "time": "y"}]
        ends = {"p": "x_window.end", "q": "y_window.end", "n": "n"}
        query["left"] = [
            {"from": "pairs"}, {"window": {"range": 5, "time": "x"}, "agg": {"n": "count(*)"}}
        ]  # fmt: skip
        query["both"] = [
            {"from": "pairs"}, {"windows": pair, "agg": {"n": "count(*)"}}, {"select": ends}
        ]  # fmt: skip
    stream = {"columns": COLUMNS, "time": ["ta", "tb"], "progress": {"bounded_delay": DELAY}}
    script = [{"rows": {"s": rows}} for rows in data]
    return parse({"name": "join", "streams": {"s": stream}, "query": query,
                  "script": [*script, {"end": True}]})  # fmt: skip


def plan_of(script: Transcript) -> Plan:
    outputs = [Output(name, o.node) for name, o in script.outputs.items()]
    return build(outputs, ansi=True, zone="UTC")


def batches(seed: int, count: int, rows: int = 24) -> list[Rows]:
    """Rows out of order by less than the delay; now and then a side is silent for longer than the window."""
    rng = random.Random(seed)
    made, clock, silent = [], [0, 0], [0, 0]
    for _ in range(count):
        batch: Rows = []
        for side in (0, 1):
            silent[side] = silent[side] - 1 if silent[side] else 3 * (rng.random() < 0.15)
            for _ in range(0 if silent[side] else rng.randrange(rows)):
                clock[side] += rng.random() < 0.6
                time = max(0, clock[side] - rng.randrange(DELAY))
                key = rng.choice([1, 1, 2, 3, 4, 5, None])
                at = {"ta": time, "tb": None} if side == 0 else {"ta": None, "tb": time}
                batch.append({"k": key, **at, "v": rng.randrange(50)})
            if silent[side]:
                clock[side] += 8
        rng.shuffle(batch)
        made.append(batch)
    return made


def table(rows: Rows) -> pa.Table:
    return pa.table({c: pa.array([r[c] for r in rows], pa.int64()) for c in COLUMNS})


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr("slackwater.kernels.joins.bounded.blocks.os.fsync", lambda fd: None)
    return Engine(tmp_path, monkeypatch)


def run(engine: Engine, script: Transcript, data: list[Rows], groups: dict[int, int]) -> None:
    """All batches, two files each; before those in ``groups`` the query is started with so many groups."""
    plan = plan_of(script)
    for i, rows in enumerate(data):
        if i in groups:
            if i:
                engine.stop()
            engine.start(plan, groups=groups[i])
        half = len(rows) // 2
        engine.batch(*[table(part) for part in (rows[:half], rows[half:]) if part])
    engine.batch(final=True)
    engine.stop()


def counted(rows: Any) -> Counter[Any]:
    return Counter(
        tuple(v for v in r.values() if not isinstance(v, dict) and not hasattr(v, "start"))
        for r in rows
    )


@pytest.mark.spec("XJ-F03", "XJ-F63", "XJ-F87", "WQ-F63")
@pytest.mark.parametrize(
    ("seed", "join"),
    [
        (1, {}),
        (2, {"how": "full"}),
        (3, {"memory": 1}),
        (4, {"memory": 2500, "how": "left"}),
        (5, {"tumbling": 8, "memory": 900}),
        (3, {"how": "left_semi", "where": "a_v <= b_v"}),
        (11, {"how": "left_anti", "where": "a_v <= b_v"}),
        (24, {"how": "left_semi", "tumbling": 8}),
    ],
)
def test_all_comes_once_through_restarts_with_other_numbers_of_groups(
    engine: Engine, seed: int, join: dict[str, Any]
) -> None:
    data = batches(seed, 8, 18)
    script = transcript(data, **join)
    run(engine, script, data, {0: 2, 2: 3, 4: 1, 6: 4})
    seen = oracle(script)
    for name in script.outputs:
        want = counted([r for o in seen for r in o.outputs[name]])
        assert counted(engine.rows(name)) == want, name
        if "memory" not in join:
            found = engine.results[name]
            assert [counted(found.get(i, [])) for i in range(len(seen))] == [
                counted(o.outputs[name]) for o in seen
            ], name
    assert len(engine.rows("pairs")) > (15 if is_existence(join.get("how", "inner")) else 50)


@pytest.mark.parametrize("how", ["inner", "full"])
def test_a_join_in_little_memory_keeps_a_small_ledger_while_its_groups_change(
    engine: Engine, how: str
) -> None:
    data = batches(11, 12, 24)
    script = transcript(data, how=how, memory=6_000)
    rng = random.Random(3)
    run(engine, script, data, {i: rng.choice([1, 2, 3, 4]) for i in range(12)})
    seen = oracle(script)
    for name in script.outputs:
        want = counted([r for o in seen for r in o.outputs[name]])
        assert counted(engine.rows(name)) == want, name
    for batch in manifests.committed(engine.checkpoint):
        kept = manifests.read(engine.checkpoint, batch)
        assert kept is not None
        for ledgers in kept.ledgers.values():
            for group, ledger in enumerate(map(Ledger.from_json, ledgers)):
                own = bucket_range(group, kept.groups)
                for blocks in ledger.blocks:
                    assert all(
                        b.has_rows_in(own) and b.has_rows_in(b.buckets or own) for b in blocks
                    )
                    assert len({(b.run, b.offset, b.buckets) for b in blocks}) == len(blocks)


def owing(count: int = 5) -> list[Rows]:
    """Rows of one key, so that little memory leaves pairs owed."""
    made = []
    for b in range(count):
        left = [{"k": 1, "ta": 2 * b + i % 2, "tb": None, "v": i} for i in range(8)]
        right = [{"k": 1, "ta": None, "tb": 2 * b + i % 2, "v": i} for i in range(8)]
        made.append([*left, *right])
    return made


def test_with_no_deadline_to_spare_pairs_come_at_once(engine: Engine) -> None:
    data = owing()
    at_once = transcript(data, memory=600, deadline="0 seconds")
    join = plan_of(at_once).operators[0].node
    assert isinstance(join, Join) and policy_of(join).backlog == 0
    run(engine, at_once, data, {0: 1})
    seen = oracle(at_once)
    for i, o in enumerate(seen):
        assert counted(engine.results["pairs"].get(i, [])) == counted(o.outputs["pairs"]), i


def test_owed_pairs_come_without_new_input(engine: Engine) -> None:
    data = owing()
    script = transcript(data, memory=600, deadline="10 seconds")
    engine.start(plan_of(script), groups=2)
    clock = ManualClock(1_000_000)
    object.__setattr__(engine.loop.query, "clock", clock)
    for rows in data:
        engine.batch(table(rows))
    first = counted(engine.rows("pairs"))
    want = counted([r for o in oracle(script) for r in o.outputs["pairs"]])
    assert first < want, "some pairs must be owed for this test to tell anything"
    clock.advance(20_000_000)
    engine.batch()
    assert counted(engine.rows("pairs")) == want
    # Not for want of other work, which would do it in time, too.
    (done,) = [o["join"] for o in engine.records[-1]["operators"].values() if "join" in o]
    assert set(done["passes"]) == {"deadline"}
    engine.stop()


def test_a_key_is_kept_apart_from_a_column_of_another_type() -> None:
    join = plan_of(transcript([[]])).operators[0].node
    assert isinstance(join, Join)
    shape = InputRows(join, 0)
    assert "__sw_k0" not in shape.lean.names  # the key is the column k
    wider = Named("k", Expr("`k`", "decimal(20,0)", '"k"'))
    other = Join(**{**vars(join), "keys": ((wider,), (wider,))})
    assert "__sw_k0" in InputRows(other, 0).lean.names


@pytest.mark.spec("XJ-F24")
@pytest.mark.parametrize("how", ["inner", "full"])
def test_marked_pairs_are_those_that_passes_made(engine: Engine, how: How) -> None:
    """In memory between nothing and all: the other columns are the definition's, the marks are as many as were counted."""
    data = batches(9, 8, 20)
    step = {"join": [{"as": "a", "from": "s"}, {"as": "b", "from": "s"}], "times": ["ta", "tb"],
            "keys": ["k"], "band": {"before": 9, "after": 7}, "how": how}  # fmt: skip
    stream = {"columns": COLUMNS, "time": ["ta", "tb"], "progress": {"bounded_delay": DELAY}}
    script = [*({"rows": {"s": rows}} for rows in data), {"end": True}]

    def query(**more: Any) -> Transcript:
        return parse({"name": "join", "streams": {"s": stream}, "query": {"pairs": [{**step, **more}]},
                      "script": script})  # fmt: skip

    run(engine, query(memory=900, mark_delayed=True), data, {0: 2, 4: 3})
    want = counted([r for o in oracle(query()) for r in o.outputs["pairs"]])
    rows = engine.rows("pairs")
    marks = [r.pop("_delayed") for r in rows]
    assert counted(rows) == want
    told = [o["join"] for r in engine.records for o in r["operators"].values() if "join" in o]
    assert 0 < sum(marks) == sum(f["delayedResults"] for f in told) < len(rows)
    assert any("delayMs" in f for f in told)


@pytest.mark.spec("OO-F21")
@pytest.mark.parametrize(
    ("how", "memory"), [("inner", None), ("inner", 900), ("left", None), ("full", 900)]
)
def test_no_result_is_older_than_promised_and_promises_are_as_high_as_can_be(
    engine: Engine, how: str, memory: int | None
) -> None:
    """A promise is as high as can be if some pair could still come just there; rows in debt may hold one back further."""
    data = batches(7, 10, 10)
    script = transcript(data, how=how, **({} if memory is None else {"memory": memory}))
    plan = plan_of(replace(script, outputs={"pairs": script.outputs["pairs"]}))
    (operator,) = plan.operators
    names = ("a_ta", "b_tb", "greatest(a_ta, b_tb)", "least(a_ta, b_tb)")
    assert {t.name for t in operator.node.times} <= {*names}
    engine.start(plan, groups=2)
    promised, told = [START] * 4, 0
    for number, rows in enumerate([*data, []]):
        engine.batch(*([table(rows)] if rows else []), final=number == len(data))
        for r in engine.results["pairs"].get(number, []):
            x, y = r["x"], r["y"]
            there = [t for t in (x, y) if t is not None]
            times = [x, y, max(there), min(there)]
            assert all(t is None or t >= p for t, p in zip(times, promised, strict=True))
        assert engine.loop.last is not None
        known = engine.loop.last.bounds[operator.id]
        before, promised = promised, [known.get(t, START) for t in names]
        assert all(a <= b for a, b in zip(before, promised, strict=True))
        columns = engine.loop.last.sources["s"].columns
        a, b = columns["ta"].bound, columns["tb"].bound
        if how == "inner" and min(a, b) > START and max(a, b) < END:
            later = [
                (x, y) for x in range(min(a, b) - 30, max(a, b) + 30) for y in range(x - 9, x + 8) if x >= a or y >= b
            ]  # fmt: skip
            best = [min(x for x, _ in later), min(y for _, y in later), min(map(max, later)), min(map(min, later))]  # fmt: skip
            assert all(p <= q for p, q in zip(promised, best, strict=True))
            if memory is None:
                assert promised == best
            told += 1
    assert told > 5 or how != "inner"
    engine.stop()
