"""Records that punctuation covers are forgotten: no later row can match them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.engine.store.feedback_log import state_of
from slackwater.kernels.types import arrow_type
from slackwater.model.policy import Punctuated
from slackwater.model.schema import Field
from slackwater.semantics.feedback.standing import Request
from tests.engine.feedback.viewport import FIELDS, Viewed, plan_of, said, source

MAP = "map<string,struct<op:string,value:string>>"
SEGMENT = {"segment": {"op": "=", "value": "4"}}
"""No later row is of segment 4."""


def batch(rows: Sequence[tuple[int, int]], pattern: Mapping[str, Mapping[str, str]] | None = None) -> pa.Table:  # fmt: skip
    """Segments and times, and what punctuation says behind them."""
    data = [(s, t, 1, None) for s, t in rows]
    if pattern is not None:
        data.append((None, None, None, [(c, dict(test)) for c, test in pattern.items()]))  # type: ignore[arg-type]
    types = {**{f.name: pa.int64() for f in FIELDS}, "done": arrow_type(MAP)}
    return pa.table(
        {n: pa.array([r[i] for r in data], type) for i, (n, type) in enumerate(types.items())}
    )


def batches(pattern: Mapping[str, Mapping[str, str]] | None) -> list[pa.Table]:
    made = [batch([(4, 4 * n), (5, 4 * n + 1)]) for n in range(2)]
    return [*made, batch([(4, 8), (5, 9)], pattern), *(batch([(5, 4 * n)]) for n in range(3, 6))]


def played(folder: Path, tables: Sequence[pa.Table], *, declared: bool) -> Viewed:
    plan = plan_of(source(fields=(*FIELDS, Field("done", MAP)), policies=(Punctuated("done"),)))
    given = said("~{segment = 4}", plan)
    run = Viewed(folder, plan, splits=False, feedback={"map": [given]} if declared else None)
    run.give(tables)
    run.run.start()
    if not declared:
        run.run.send(Request("send", "map", "view", given))
    run.all(end=False)
    run.run.stop()
    return run


def standing(run: Viewed) -> list[bool]:
    return [bool(state_of(m).standing) for m in run.manifests]


def guarded(run: Viewed) -> list[bool]:
    """In which batches rows of the stream were guarded."""
    shown = [m.progress.get("feedback", {"places": {}}) for m in run.manifests]
    return ["cars" in f["places"] and f["places"]["cars"]["records"] > 0 for f in shown]


@pytest.mark.spec("FC-F20")
def test_a_record_ends_when_a_pattern_of_its_output_covers_it(tmp_path: Path) -> None:
    """It has no test on a time, and a lease for ever: no bound would end it."""
    run = played(tmp_path, batches(SEGMENT), declared=False)
    assert standing(run) == [True, True, True, False, False, False]
    assert guarded(run) == standing(run)
    assert all(r["segment"] == 5 for r in run.rows())


@pytest.mark.spec("FC-F20")
def test_an_input_is_told_no_record_that_its_patterns_cover(tmp_path: Path) -> None:
    """What a start declares stands as long as it is declared; the stream needs no guard any more."""
    run = played(tmp_path, batches(SEGMENT), declared=True)
    assert standing(run) == [True] * 6
    assert guarded(run) == [True, True, True, False, False, False]


@pytest.mark.parametrize(
    "pattern",
    [
        None,
        {"segment": {"op": "=", "value": "5"}},
        {**SEGMENT, "ts": {"op": "<", "value": "9"}},
    ],
    ids=["none", "of another segment", "up to a time"],
)
@pytest.mark.parametrize("declared", [False, True])
def test_it_stays_while_a_row_may_match_it(
    pattern: Mapping[str, Mapping[str, str]] | None, declared: bool, tmp_path: Path
) -> None:
    tables = batches(pattern)[:3]
    run = played(tmp_path, [*tables, *(batch([(4, 4 * n)]) for n in range(3, 6))], declared=declared)  # fmt: skip
    assert standing(run) == guarded(run) == [True] * 6
