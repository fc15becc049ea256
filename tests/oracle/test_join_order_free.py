"""Results of a join promise no order: who reads them goes by the join's bounds."""

from __future__ import annotations

import random
from collections import Counter
from itertools import compress
from typing import Any

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from slackwater.semantics.bounds import END, START
from slackwater.testing.executors.kernels import KernelMachine, kernels
from slackwater.testing.executors.local import local_executor
from slackwater.testing.strategies import cut, disordered
from slackwater.testing.transcripts.script import Executor, Transcript, oracle, parse
from tests.examples import examples
from tests.oracle.test_joins_against_oracle import spans

Rows = list[dict[str, Any]]
QUICK = (Phase.explicit, Phase.generate)  # a script of many parts shrinks for minutes
DELAY = 6
COLUMNS = {"ts": "bigint", "k": "string", "v": "bigint"}
EXECUTORS = {"kernels": kernels("panes"), "local": local_executor(groups=(2,))}


@st.composite
def joins(draw: st.DrawFn) -> dict[str, Any]:
    """A script whose one output is a join."""
    how = draw(st.sampled_from(["inner", "inner", "left"]))
    step = {"join": ["a", "b"], "how": how, "keys": ["k"], **spans(draw)}
    streams, batches = {}, {}
    for name in ("a", "b"):
        given_ = draw(
            disordered(min_rows=8, max_rows=16, max_delay=DELAY, low=0, high=40, keys="a")
        )
        batches[name] = cut(given_, draw(st.lists(st.integers(1, 15), min_size=2, max_size=3)))
        streams[name] = {"columns": COLUMNS, "time": "ts", "progress": {"bounded_delay": DELAY}}
    steps = [
        {"rows": {n: b[i] for n, b in batches.items() if i < len(b)}}
        for i in range(max(map(len, batches.values())))
    ]
    return {"name": "join", "streams": streams, "query": {"out": [step]}, "script": [*steps, {"end": True}]}  # fmt: skip


FOLLOW = {"by": ["k"], "agg": {"n": "count(*)", "x": "sum(a_v)", "y": "max(b_v)"}}


def windows(found: list[Any]) -> Counter[Any]:
    """All rows of the consumer, over all batches."""
    rows = (r for seen in found for r in seen.outputs["out"])
    return Counter(tuple((n, r[n]) for n in ("wid", "k", "n", "x", "y")) for r in rows)


def reordered(transcript: Transcript, time: str, seed: int) -> list[Rows]:
    """The join's results as another stream: shuffled, held back, told with bounds that the join gave."""
    rng = random.Random(seed)
    machine = KernelMachine({"out": transcript.outputs["out"].node}, "panes")
    waiting: Rows = []
    batches: list[Rows] = []
    for step in transcript.batches:
        seen = machine.step(step.rows, None, step.end)
        bound = machine.before[-1][time]
        for row in seen.outputs["out"]:
            values = {name: row[name] for name in ("k", "a_v", "b_v")}
            waiting.append({"ts": row[time], **values})
        rng.shuffle(waiting)
        if bound < END:
            # What lies at the bound or above may wait for a later one; the bound may be told later, too.
            goes = [r["ts"] < bound or rng.random() < 0.5 for r in waiting]
            tell = [{"done": bound}] if bound > START and rng.random() < 0.7 else []
            batches.append([*compress(waiting, goes), *tell])
            waiting = [r for r, now in zip(waiting, goes, strict=True) if not now]
    return [*batches, waiting]


@pytest.mark.spec("WQ-F106")
@pytest.mark.parametrize("time", ["a_ts", "b_ts"])
@pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
@examples(6, phases=QUICK)
@given(
    text=joins(), window=st.tuples(st.integers(1, 9), st.integers(1, 6)), seed=st.integers(0, 999)
)
def test_consumers_of_a_join_rely_on_its_bounds_not_on_the_order_of_its_results(
    executor: Executor, time: str, text: dict[str, Any], window: tuple[int, int], seed: int
) -> None:
    """Windows over a join, and windows over its results in any order that its bounds allow, against the oracle."""
    if text["query"]["out"][0]["how"] == "left":
        time = "a_ts"  # the right one may be missing
    shape = {"range": window[0], "slide": window[1]}
    chained = {"window": {**shape, "time": time}, **FOLLOW}
    direct = parse({**text, "query": {"out": [*text["query"]["out"], chained]}})
    wanted = windows(oracle(direct))
    assert windows(executor(direct)) == wanted

    columns = {"ts": "bigint", "k": "string", "a_v": "bigint", "b_v": "bigint", "done": "bigint"}
    stream = {"columns": columns, "time": "ts", "progress": {"punctuated": "done"}}
    batches = reordered(parse(text), time, seed)
    again = parse(
        {"name": "again", "streams": {"s": stream},
         "query": {"out": [{"from": "s"}, {"window": shape, **FOLLOW}]},
         "script": [*({"rows": {"s": b}} for b in batches), {"end": True}]}
    )  # fmt: skip
    assert windows(executor(again)) == wanted
