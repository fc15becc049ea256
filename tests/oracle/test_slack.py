"""Slack is how far the bound stays behind the newest time: what it holds back, what it puts in order, what it misses."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slackwater.testing.executors.kernels import kernels
from slackwater.testing.strategies import disordered
from slackwater.testing.transcripts.script import parse
from tests.examples import examples

Rows = list[dict[str, Any]]
MOST = 8
"""The largest delay."""
STREAM = disordered(min_rows=1, max_rows=12, max_delay=MOST, low=0, high=20, keys=("a",))


def sorted_by_slack(rows: Rows, slack: int) -> tuple[list[list[int]], dict[int, int]]:
    """The numbers of rows that a sort gives out with each row that comes, and by how much each late row is late."""
    text = {
        "name": "slack",
        "streams": {
            "s": {
                "columns": {"ts": "bigint", "i": "bigint"},
                "time": "ts",
                "progress": {"bounded_delay": slack},
                "late": "drop",
                "order": "i",
            }
        },
        "query": {"out": [{"from": "s"}, {"sort": "ts"}], "late": [{"late": "s"}]},
        "script": [*({"rows": {"s": [r]}} for r in rows), {"end": True}],
    }
    seen = kernels("panes")(parse(text))
    late = {r["i"]: r["_late_by"] for o in seen for r in o.outputs["late"]}
    return [[r["i"] for r in o.outputs["out"]] for o in seen], late


def plain(rows: Rows) -> Rows:
    return [{"ts": r["ts"], "i": r["i"]} for r in rows]


@examples(25)
@given(rows=STREAM.map(plain), slack=st.integers(0, MOST))
def test_slack_lets_go_of_what_is_old_enough_in_order_when_time_advances(
    rows: Rows, slack: int
) -> None:
    """Row by row against the definition; a row that is as old as the slack waits, since one like it may still come."""
    given_out, late = sorted_by_slack(rows, slack)
    newest = -(10**6)
    waiting: Rows = []
    for row, found in zip(rows, given_out, strict=False):
        if row["ts"] >= newest - slack:
            waiting.append(row)
        newest = max(newest, row["ts"])
        due = sorted((r["ts"], r["i"]) for r in waiting if r["ts"] < newest - slack)
        waiting = [r for r in waiting if r["ts"] >= newest - slack]
        assert found == [i for _, i in due]
    assert given_out[-1] == [i for _, i in sorted((r["ts"], r["i"]) for r in waiting)]
    assert sorted([*late, *(i for batch in given_out for i in batch)]) == [r["i"] for r in rows]


@examples(25)
@given(rows=STREAM.map(plain), slack=st.integers(0, MOST))
def test_what_slack_leaves_of_a_delay_is_the_rest(rows: Rows, slack: int) -> None:
    """Without slack every row that is behind is late, with the largest delay none, and in between by what is left."""
    clocks = list(accumulate((r["ts"] for r in rows), max))
    delays = {r["i"]: clock - r["ts"] for r, clock in zip(rows, clocks, strict=True)}
    given_out, late = sorted_by_slack(rows, slack)
    assert late == {i: d - slack for i, d in delays.items() if d > slack}
    if slack >= max(delays.values()):
        order = [i for batch in given_out for i in batch]
        assert order == [r["i"] for r in sorted(rows, key=lambda r: r["ts"])]
