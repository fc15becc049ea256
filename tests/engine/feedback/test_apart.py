"""Rows that match a guard of a scan: of them only what progress needs is read, and they are counted all the same."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.lowlevel import fused_scan, given_up, tasks
from slackwater.engine.plan.plan import Plan
from slackwater.model.node import LateSetting
from slackwater.model.policy import Punctuated
from slackwater.model.schema import Field
from slackwater.testing.local.run import scratch_folder
from tests.engine.feedback.viewport import FIELDS, Viewed, plan_of, source, view

IN_VIEW = (4, 5)


def batch(times: list[int | None], segments: list[int | None]) -> pa.Table:
    values = list(range(len(times)))
    return pa.table(
        {
            "segment": pa.array(segments, pa.int64()),
            "ts": pa.array(times, pa.int64()),
            "v": pa.array(values, pa.int64()),
        }
    )


FIRST = batch([10, 11, 12, 13], [4, 1, 5, 9])
ON_TIME = batch([14, 15, 16, 17, 18], [1, 4, None, 5, 9])
ODD = batch([16, 2, None, 3, 17], [4, 1, 1, 5, 9])
"""With late rows and one without a time: no footer tells of these."""


class Watched:
    """A run whose scans are written down, statement by statement."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, plan: Plan):
        self.statements: list[str] = []
        self.plan = plan
        fused, rows, measured = (
            fused_scan.scan_to_arrow, tasks.scan_rows, given_up.scan_to_arrow,
        )  # fmt: skip

        def reduce(con: Any, sql: str, tables: Any) -> pa.Table:
            self.statements.append(sql)
            return fused(con, sql, tables)

        def measure(con: Any, sql: str, tables: Any) -> pa.Table:
            self.statements.append(sql)
            return measured(con, sql, tables)

        def scan(sql: str, memory: str, chunk: int) -> Any:
            self.statements.append(sql)
            return rows(sql, memory, chunk)

        monkeypatch.setattr(fused_scan, "scan_to_arrow", reduce)
        monkeypatch.setattr(given_up, "scan_to_arrow", measure)
        monkeypatch.setattr(tasks, "scan_rows", scan)
        monkeypatch.setattr(given_up, "scan_rows", scan)

    def second(
        self, table: pa.Table, *, feedback: bool = True, first: pa.Table = FIRST
    ) -> tuple[list[str], dict[str, Any]]:
        """The statements over a second batch, and its progress; one row group, so that none is left unopened."""
        with scratch_folder() as folder:
            run = Viewed(folder, self.plan, group=None)
            run.give([first, table])
            run.run.start()
            if feedback:
                run.run.send(view(self.plan, *IN_VIEW))
            run.step()
            self.statements.clear()
            done = run.step()
            run.run.stop()
        return list(self.statements), dict(done.progress)


def columns(sql: str) -> set[str]:
    """The columns that a statement reads of files."""
    lists = re.findall(r"SELECT ((?:(?!SELECT).)*) FROM read_parquet", sql)
    return {name for each in lists for name in re.findall(r'AS "(\w+)"', each)}


@pytest.mark.parametrize("late", [False, True], ids=["fused", "rows"])
@pytest.mark.spec("FC-F19")
def test_where_footers_tell_progress_nothing_is_read_for_it(
    monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    statements, progress = Watched(monkeypatch, plan_of(late=late)).second(ON_TIME)
    (kept,) = statements
    assert " WHERE NOT (" in kept and columns(kept) == {"segment", "ts", "v"}
    stream = progress["streams"]["cars"]
    assert stream["numInputRows"] == 5 and stream["late"] == {"ts": 0}
    assert stream["bounds"]["ts"]["ticks"] == 15
    assert progress["feedback"]["places"]["cars"]["rowsDropped"] == 3


@pytest.mark.parametrize("setting", ["admit", "drop"])
@pytest.mark.parametrize("late", [False, True], ids=["fused", "rows"])
@pytest.mark.spec("FC-F19")
def test_a_second_statement_reads_no_column_that_progress_does_not_need(
    monkeypatch: pytest.MonkeyPatch, late: bool, setting: LateSetting
) -> None:
    plan = plan_of(source(late=setting), late=late)
    statements, progress = Watched(monkeypatch, plan).second(ODD)
    assert len(statements) == 2
    # The fused scan measures all rows; the other one those that match, which it must be able to tell.
    (told,) = [columns(s) for s in statements if "v" not in columns(s)]
    assert told == ({"ts", "segment"} if late else {"ts"})
    stream = progress["streams"]["cars"]
    assert (stream["numInputRows"], stream["late"], stream["nullTime"]) == (5, {"ts": 2}, {"ts": 1})
    # A late row that matches is dropped where it is not read for others, and enters operators only under "admit".
    dropped = 2 if setting == "admit" else 1
    assert progress["feedback"]["places"]["cars"]["rowsDropped"] == dropped


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.spec("FC-F19")
def test_of_a_punctuated_stream_a_second_statement_reads_punctuation_too(
    monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    fields = (*FIELDS, Field("upto", "bigint"))
    plan = plan_of(source(fields=fields, policies=(Punctuated("upto"),)), late=late)
    upto = pa.array([None, None, 13, None, 12], pa.int64())
    found = [
        Watched(monkeypatch, plan).second(
            ON_TIME.append_column("upto", upto), feedback=feedback,
            first=FIRST.append_column("upto", pa.array([None] * 3 + [12], pa.int64())),
        )
        for feedback in (False, True)
    ]  # fmt: skip
    (_, without), (statements, progress) = found
    (own,) = [columns(s) for s in statements if "v" not in columns(s)]
    assert len(statements) == 2 and own == {"ts", "segment", "upto"}
    assert progress["streams"] == without["streams"]
    assert progress["streams"]["cars"]["bounds"]["ts"]["ticks"] == 13
    # Two of the three that match are punctuation, and no data.
    assert progress["feedback"]["places"]["cars"]["rowsDropped"] == 1


@pytest.mark.parametrize("late", [False, True], ids=["fused", "rows"])
def test_without_feedback_one_statement_reads_all(
    monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    statements, progress = Watched(monkeypatch, plan_of(late=late)).second(ODD, feedback=False)
    (whole,) = statements
    assert "WHERE NOT" not in whole
    assert columns(whole) == {"segment", "ts", "v"}
    assert progress["streams"]["cars"]["numInputRows"] == 5


@pytest.mark.parametrize("late", [False, True], ids=["fused", "rows"])
def test_a_batch_of_which_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    statements, progress = Watched(monkeypatch, plan_of(late=late)).second(
        batch([14, 15, 3], [1, 2, 3])
    )
    assert len(statements) == 2
    assert progress["streams"]["cars"]["numInputRows"] == 3
    assert progress["feedback"]["places"]["cars"]["rowsDropped"] == 3
