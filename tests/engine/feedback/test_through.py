"""What of feedback reaches the streams through each operator of a query that runs, and that the rest is dropped on the way.

Expected are the rows of each stream that can be in no wanted result, written down by hand, and the results without those that were
given up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.semantics.feedback.columns import Columns
from slackwater.semantics.feedback.standing import Request
from slackwater.semantics.feedback.text import parsed
from slackwater.testing.feedback import frozen
from slackwater.testing.local.run import LocalInput, LocalRun, scratch_folder
from slackwater.testing.transcripts.script import parse
from tests.engine.feedback.running import columns_of

ROWS = [{"ts": n, "k": n * 7 % 10, "v": n * 3 % 11} for n in range(40)]
STREAM = {"columns": {"ts": "bigint", "k": "bigint", "v": "bigint"}, "time": "ts", "progress": {"bounded_delay": 50}}  # fmt: skip

Drops = Callable[[Mapping[str, int]], bool]


def nothing(row: Mapping[str, int]) -> bool:
    return False


@dataclass(frozen=True)
class Case:
    """Outputs, the text that is sent for each, and which rows of the streams are dropped there."""

    query: Any
    said: Mapping[str, str]
    drops: Mapping[str, Drops] = field(default_factory=dict)


def one(*steps: Any, said: str, **drops: Drops) -> Case:
    return Case({"out": [{"from": "a"}, *steps]}, {"out": said}, drops)


def counts(**window: Any) -> Any:
    return {
        "window": {"range": 10, **window},
        "by": ["k"],
        "agg": {"n": "count(*)", "top": "max(v)"},
    }


JOIN = {"join": ["a", "b"], "keys": ["k"], "band": {"before": 5, "after": 5}}


def joined(said: str, **drops: Drops) -> Case:
    return Case({"out": [JOIN]}, {"out": said}, drops)


CASES = [
    pytest.param(
        one({"where": "v > 2"}, said="~{k < 3}", a=lambda r: r["k"] < 3),
        id="filter",
        marks=pytest.mark.spec("FC-F22"),
    ),
    pytest.param(
        one(
            {"select": {"ts": "ts", "key": "k", "more": "v + 1"}},
            said="~{key < 3}",
            a=lambda r: r["k"] < 3,
        ),
        id="renamed",
        marks=pytest.mark.spec("FC-F23"),
    ),
    pytest.param(
        one({"select": {"ts": "ts", "k": "v", "v": "k"}}, said="~{k < 3}", a=lambda r: r["v"] < 3),
        id="swapped",
        marks=pytest.mark.spec("FC-F23"),
    ),
    pytest.param(
        one({"select": {"ts": "ts", "key": "k", "more": "v + 1"}}, said="~{more < 3, key < 8}"),
        id="computed",
        marks=pytest.mark.spec("FC-F23"),
    ),
    pytest.param(
        Case(
            {"out": [{"union": ["a", "b"]}]},
            {"out": "~{k < 3}"},
            dict.fromkeys("ab", lambda r: r["k"] < 3),
        ),
        id="union",
        marks=pytest.mark.spec("FC-F24"),
    ),
    pytest.param(
        joined("~{k < 3}", **dict.fromkeys("ab", lambda r: r["k"] < 3)),
        id="key",
        marks=pytest.mark.spec("FC-F26"),
    ),
    pytest.param(
        joined("~{b_v < 3}", b=lambda r: r["v"] < 3),
        id="one side",
        marks=pytest.mark.spec("FC-F26"),
    ),
    pytest.param(joined("~{a_v < 3, b_v < 8}"), id="both sides", marks=pytest.mark.spec("FC-F27")),
    pytest.param(
        one(counts(), said="~{wid < 2}", a=lambda r: r["ts"] < 20),
        id="tumbling",
        marks=pytest.mark.spec("FC-F29"),
    ),
    pytest.param(
        one(counts(slide=5), said="~{wid < 2}", a=lambda r: r["ts"] < 5),
        id="sliding",
        marks=pytest.mark.spec("FC-F29"),
    ),
    pytest.param(
        one({**counts(), "by": {"l": "k + 1"}}, said="~{l < 3}"),
        id="computed group",
        marks=pytest.mark.spec("FC-F15"),
    ),
    pytest.param(
        Case(
            {"out": [{"from": "a"}, counts()], "other": [{"from": "a"}, counts(range=20)]},
            {"out": "~{k < 5}", "other": "~{k >= 3}"},
            {"a": lambda r: 3 <= r["k"] < 5},
        ),
        id="two readers",
        marks=pytest.mark.spec("FC-F36"),
    ),
]


def ran(case: Case, said: Mapping[str, str]) -> tuple[dict[str, list[Any]], dict[str, int]]:
    """The results of each output, and how many rows were dropped at each stream."""
    streams = {n: STREAM for n in "ab" if f"'{n}'" in str(case.query)}
    script = parse({"name": "f", "streams": streams, "query": case.query, "script": []})
    outputs = [Output(name, o.node) for name, o in script.outputs.items()]
    plan = passed(build(outputs, ansi=True, zone="UTC"), Written())
    with scratch_folder() as folder:
        run = LocalRun(folder, plan, [LocalInput(s.schema) for s in plan.sources])
        for part in (ROWS[:25], ROWS[25:]):
            run.give({s.input: pa.Table.from_pylist(part) for s in plan.sources})
        run.start()
        for name, text in said.items():
            node = script.outputs[name].node
            run.send(Request("send", name, "view", parsed(text, Columns.of(node))))
        for final in (False, False, True):
            done = run.step(final=final)
        run.stop()
        assert done is not None
        places = done.progress.get("feedback", {}).get("places", {})
        results = {
            n: [r for t in by_batch.values() for r in t.to_pylist()]
            for n, by_batch in run.published.items()
        }
    return results, {n: places.get(n, {}).get("totalRowsDropped", 0) for n in streams}


@pytest.mark.parametrize("case", CASES)
def test_streams_drop_what_no_result_needs_and_results_lack_what_was_given_up(case: Case) -> None:
    got, dropped = ran(case, case.said)
    whole, _ = ran(case, {})
    for output, text in case.said.items():
        script = parse({"name": "f", "streams": {"a": STREAM, "b": STREAM}, "query": case.query, "script": []})  # fmt: skip
        node = script.outputs[output].node
        feedback, columns = parsed(text, Columns.of(node)), columns_of(node)
        (record,) = feedback.records
        left = [
            r for r in whole[output]
            if not record.matches({c: columns[c].value(r) for c in record.columns})
        ]  # fmt: skip
        assert 0 < len(left) < len(whole[output])
        assert Counter(map(frozen, got[output])) == Counter(map(frozen, left))
    assert dropped == {
        stream: sum(case.drops.get(stream, nothing)(r) for r in ROWS) for stream in dropped
    }
