"""Columns of all types and odd names: with feedback, results are those without, less what was given up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.driver.feedback import Reach
from slackwater.engine.store import failpoints
from slackwater.engine.store.feedback_log import state_of
from slackwater.kernels.types import arrow_schema
from slackwater.semantics.feedback.standing import Request
from slackwater.testing.feedback import frozen
from slackwater.testing.local.run import LocalInput, LocalRun, failing, scratch_folder
from tests.engine.feedback.typed import Query
from tests.examples import examples

CRASHES = (None, None, "intent.after", "job.after", "manifest.before", "manifest.after")
SEEN: Counter[str] = Counter()
"""How many rows were dropped at streams, and in how many runs panes were sealed."""


def play(
    query: Query, rng: random.Random, folder: Path, reach: Reach, splits: bool, *,
    crash: str | None = None, end: int | None = None,
) -> list[tuple[int, dict[str, Any]]]:  # fmt: skip
    """The results, each with its batch; feedback stands from the beginning, and is taken back before batch ``end``."""
    inputs = [LocalInput(s.schema, splits) for s in query.sources]
    run = LocalRun(folder, query.plan, inputs, reach=reach)
    schema = arrow_schema(query.sources[0].schema)
    for rows in query.batches:
        run.give({i: pa.Table.from_pylist(each, schema) for i, each in enumerate(rows)})
    for one in run.inputs:
        for path in sorted(Path(one.path).glob("*.parquet")):
            pq.write_table(pq.read_table(path), path, row_group_size=rng.choice([2, 50]))
    run.start(rng.choice([1, 2, 3]))
    sent = [run.send(Request("send", "map", f"view {f}", f)) for f in query.feedback]
    with failing(*([crash] if crash else [])):
        while run.done < len(query.batches):
            if run.done == end:
                for number in sent:
                    run.send(Request("retract", target=number))
                end = None
            try:
                run.step(final=run.done == len(query.batches) - 1)
            except failpoints.InjectedFailure:
                run.stop()
                run.start(rng.choice([1, 2, 3]))
    run.stop()
    assert run.loop.last is not None
    dropped = state_of(run.loop.last).dropped
    SEEN["rows"] += sum(dropped.get(s.name, 0) for s in query.sources)
    SEEN["runs"] += any("sealed" in r.get("feedback", {}) for r in run.loop.records)
    return [(b, r) for b, table in run.published["map"].items() for r in table.to_pylist()]


def bag(rows: Iterable[Any]) -> Counter[Any]:
    return Counter(frozen(r) for r in rows)


def check(seed: int) -> None:
    rng = random.Random(seed)
    query = Query(rng)
    splits, crash = rng.random() < 0.6, rng.choice(CRASHES)
    end = rng.choice([None, None, 1, 2, 3])
    with scratch_folder() as folder:
        whole = [r for _, r in play(query, rng, folder, "off", not splits)]
    with scratch_folder() as folder:
        point = None if crash is None else f"{crash}@{rng.randint(1, 4)}"
        got = play(query, rng, folder, "source", splits, crash=point, end=end)
    mine = bag(r for _, r in got)
    assert not mine - bag(whole), "rows that were not there before"
    assert not bag(r for r in whole if not query.ignores(r)) - mine, "nobody gave these up"
    stood = [r for b, r in got if end is None or b < end]
    assert not any(query.ignores(r) for r in stood)


def test_results_are_those_without_feedback() -> None:
    @examples(30)
    @given(st.integers(0, 2**32 - 1))
    def same(seed: int) -> None:
        check(seed)

    same()
    assert SEEN["rows"] > 20 and SEEN["runs"] > 3, "hardly anything was dropped"
