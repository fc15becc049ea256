"""Every type of window over random streams: programs with their state in runs, against the oracle.

A program is made anew for every batch, runs are dropped and merged as early as can be: each batch is a
restart.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.testing.executors.kernels import kernels
from slackwater.testing.strategies import cut, disordered
from slackwater.testing.transcripts.script import oracle, parse
from tests.examples import examples
from tests.oracle.test_kernels_against_oracle import canonical

COLUMNS = {"ts": "bigint", "k": "string", "v": "bigint", "i": "bigint"}
AGGREGATES = {"n": "count(*)", "total": "sum(v)", "high": "max(v)", "mean": "avg(v)"}
SIZES = st.integers(1, 15)
PLACES = st.lists(st.integers(1, 22), min_size=2, max_size=5)


def sized(**fixed: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {k: v if isinstance(v, st.SearchStrategy) else st.just(v) for k, v in fixed.items()}
    )


TYPES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "rows": sized(rows=SIZES, slide=st.integers(1, 6), at=st.sampled_from(["source", "operator"])),
    "rows_per": sized(rows=st.integers(1, 5), slide=st.integers(1, 4), per="k"),
    "landmark": sized(landmark=SIZES, origin=st.integers(-20, 20)),
    "by_tuple": sized(by_tuple=SIZES),
    "by_nth_arrival": sized(by_tuple=SIZES, every=st.integers(2, 4)),
    "by_nth_rank": sized(by_tuple=SIZES, every=st.integers(2, 4), over="rank"),
    "session": sized(session=st.integers(1, 9)),
    "closed_session": sized(session=st.integers(1, 9), closed=True),
    "custom": sized(custom="shifts"),
}


@st.composite
def scripts(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    rows = draw(disordered(min_rows=8, max_rows=24, max_delay=20, low=-30, high=60))
    steps: list[dict[str, Any]] = [{"from": "s"}]
    if draw(st.booleans()):
        steps.append({"where": "v > 0 OR v IS NULL"})
    if draw(st.booleans()):
        moved = draw(st.sampled_from(["ts", "ts + 3", "ts - 4"]))
        steps.append({"select": {"k": "k", "ts": moved, "v": "v * 2"}})
    by = draw(st.sampled_from([[], ["k"]]))
    steps.append({"window": draw(TYPES[kind]), "by": by, "agg": AGGREGATES})
    if not kind.startswith("rows") and draw(st.booleans()):
        steps.append({"window": {"range": 7}, "agg": {"m": "count(*)", "all": "sum(n)"}})
    batches = cut(rows, draw(PLACES))
    script: list[dict[str, Any]] = [{"rows": {"s": draw(st.permutations(b))}} for b in batches]
    return {
        "name": "random",
        "streams": {
            "s": {
                "columns": COLUMNS,
                "time": "ts",
                "order": "i",
                # Often tighter than the delays are, so that rows come late.
                "progress": {"bounded_delay": draw(st.sampled_from([0, 3, 20]))},
                "late": draw(st.sampled_from(["admit", "admit", "drop"])),
            }
        },
        "query": {"out": steps, "late": [{"late": "s"}]},
        "script": [*script, {"end": True}],
    }


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("rows", marks=pytest.mark.spec("WQ-F16", "WQ-F17", "QD-A7")),
        pytest.param("rows_per", marks=pytest.mark.spec("WQ-F19")),
        pytest.param("landmark", marks=pytest.mark.spec("WQ-F22", "QD-A7")),
        pytest.param("by_tuple", marks=pytest.mark.spec("WQ-F23", "WQ-F38")),
        pytest.param("by_nth_arrival", marks=pytest.mark.spec("WQ-F24", "WQ-F39")),
        pytest.param("by_nth_rank", marks=pytest.mark.spec("WQ-F25", "WQ-F39")),
        "session",
        "closed_session",
        pytest.param("custom", marks=pytest.mark.spec("WQ-F11")),
    ],
)
def test_random_streams(kind: str) -> None:
    @examples(10)
    @given(text=scripts(kind))
    def check(text: dict[str, Any]) -> None:
        transcript = parse(text)
        assert canonical(kernels("panes")(transcript)) == canonical(oracle(transcript))

    check()


@pytest.mark.spec("WQ-F16", "WQ-F19")
@examples(8)
@given(
    rows=disordered(min_rows=8, max_rows=24, max_delay=15),
    first=PLACES,
    second=PLACES,
    window=TYPES["rows"] | TYPES["rows_per"],
    data=st.data(),
)
def test_row_numbers_do_not_depend_on_batches(
    rows: Any, first: Any, second: Any, window: Any, data: st.DataObject
) -> None:
    found = []
    for places in (first, second):
        batches = [data.draw(st.permutations(b)) for b in cut(rows, places)]
        transcript = parse(
            {
                "name": "cuts",
                "streams": {"s": {"columns": COLUMNS, "time": "ts", "order": "i"}},
                "query": [
                    {"from": "s"},
                    {"where": "v > 0 OR v IS NULL"},
                    {"window": window, "by": ["k"], "agg": AGGREGATES},
                ],
                "script": [*({"rows": {"s": b}} for b in batches), {"end": True}],
            }
        )
        steps = canonical(kernels("panes")(transcript))
        found.append(sorted((r for outputs, _, _ in steps for r in outputs["out"]), key=repr))
    assert found[0] == found[1]
