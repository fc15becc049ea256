"""What tasks report: it survives JSON, a digest tells those who agree, and absent parts are not sent."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.operators.low_table import TableMeta
from slackwater.engine.paths.reports import (
    Figures,
    OperatorReport,
    Progress,
    SourceReport,
    TableFigures,
    TableReport,
    TaskReport,
    progress_of,
    reports_of,
)
from slackwater.engine.store.manifest import OutputFile, Run
from slackwater.kernels.joins.bounded.stats import Stats
from slackwater.model.codec import from_json, to_json
from slackwater.semantics.quality.recall_lateness import LateInterval
from slackwater.semantics.slack.waiting import StoreReport
from tests.examples import examples
from tests.semantics.values import COUNTS, NAMES, TICKS, source_states, source_summaries

PAIR = st.lists(COUNTS, min_size=2, max_size=2)
metas = st.builds(
    TableMeta,
    NAMES,
    COUNTS,
    COUNTS,
    COUNTS,
    st.lists(TICKS).map(tuple),
    st.lists(COUNTS).map(tuple),
    TICKS,
)
runs = st.builds(
    Run,
    NAMES,
    COUNTS,
    COUNTS,
    COUNTS,
    TICKS,
    TICKS,
    st.tuples(COUNTS, COUNTS),
    NAMES,
    st.just({}) | metas.map(to_json),
    st.sampled_from([1, 2]),
)
files = st.builds(OutputFile, NAMES, COUNTS, COUNTS, NAMES, st.none() | COUNTS)
table_reports = st.builds(TableReport, NAMES, st.none() | runs, COUNTS, COUNTS)
figures = st.builds(
    Figures,
    st.none() | COUNTS,
    st.none() | st.dictionaries(NAMES, COUNTS),
    st.none() | COUNTS,
    st.none() | st.builds(TableFigures, COUNTS, COUNTS, COUNTS, COUNTS),
    st.none()
    | st.builds(
        StoreReport,
        st.dictionaries(NAMES, st.dictionaries(NAMES, TICKS)),
        st.dictionaries(NAMES, COUNTS),
        st.none() | TICKS,
        COUNTS,
        st.floats(0, 9),
    ),
    st.none() | st.builds(Stats, PAIR, COUNTS, passes=st.dictionaries(NAMES, COUNTS), worth=PAIR),
    st.none()
    | st.lists(st.builds(LateInterval, TICKS, COUNTS, st.lists(COUNTS)), max_size=2).map(tuple),
)
ledgers = st.fixed_dictionaries({"held": COUNTS})
operator_reports = st.builds(
    OperatorReport,
    st.lists(runs, max_size=2).map(tuple),
    COUNTS,
    COUNTS,
    COUNTS,
    COUNTS,
    st.floats(0, 9),
    st.dictionaries(NAMES, COUNTS),
    figures,
    tables=st.none() | st.lists(runs, max_size=2).map(tuple),
)
operator_reports |= st.builds(
    lambda report, ledger, hold: replace(report, ledger=ledger, hold=tuple(hold)),
    operator_reports,
    ledgers,
    st.lists(TICKS, max_size=2),
)
progresses = st.builds(
    Progress,
    st.dictionaries(NAMES, source_states(), max_size=1),
    st.dictionaries(NAMES, source_summaries(), max_size=1),
    st.dictionaries(NAMES, st.dictionaries(NAMES, TICKS)),
    st.none() | st.text(),
    st.none() | st.just("0123456789abcdef"),
    st.none() | st.dictionaries(NAMES, st.lists(TICKS, max_size=2).map(tuple)),
)
task_reports = st.builds(
    TaskReport,
    st.integers(0, 3),
    st.integers(-1, 9),
    st.dictionaries(NAMES, operator_reports, max_size=2),
    st.dictionaries(NAMES, st.lists(files, max_size=2).map(tuple)),
    st.none() | st.just("0123456789abcdef"),
    st.none() | progresses,
)

# Values are large, and their parts independent of each other.
few = examples(25)


def sent(value: Any) -> Any:
    """The JSON of a value, after its way."""
    return json.loads(json.dumps(to_json(value), separators=(",", ":")))


@few
@given(report=task_reports)
def test_task_reports_survive_json(report: TaskReport) -> None:
    assert from_json(TaskReport, sent(report)) == report


@few
@given(report=operator_reports)
def test_operator_reports_survive_json(report: OperatorReport) -> None:
    assert from_json(OperatorReport, sent(report)) == report


@few
@given(known=figures)
def test_figures_survive_json(known: Figures) -> None:
    assert from_json(Figures, sent(known)) == known


@few
@given(report=table_reports, meta=metas)
def test_reports_of_low_level_tables_survive_json(report: TableReport, meta: TableMeta) -> None:
    assert from_json(TableReport, sent(report)) == report
    assert from_json(TableMeta, sent(meta)) == meta


@few
@given(source=NAMES, summary=source_summaries(), sample=st.none() | st.text())
def test_source_reports_survive_json(source: str, summary: Any, sample: str | None) -> None:
    report = SourceReport(source, summary, sample)
    assert from_json(SourceReport, sent(report)) == report


@few
@given(progress=progresses)
def test_progress_survives_json_and_so_does_its_digest(progress: Progress) -> None:
    again = from_json(Progress, sent(progress))
    assert again == progress
    assert again.signed.digest == progress.signed.digest


@few
@given(progress=progresses, holds=st.dictionaries(NAMES, st.lists(TICKS, max_size=2)))
def test_a_digest_is_of_what_all_tasks_compute(
    progress: Progress, holds: dict[str, list[int]]
) -> None:
    # Holds come from the level below, so they are no part of it.
    assert replace(progress, holds=holds).signed.digest == progress.signed.digest
    other = replace(progress, sample=(progress.sample or "") + "x")
    assert other.signed.digest != progress.signed.digest


RUN = {"name": "r", "rows": 1, "bytes": 2, "crc": 3, "low": 4, "high": 5, "buckets": [0, 256],
       "part": "", "meta": {}, "kind": 2}  # fmt: skip
REPORT: dict[str, Any] = {
    "level": 1,
    "group": 0,
    "digest": "0123456789abcdef",
    "operators": {
        "plain": {
            "runs": [RUN], "in": 7, "out": 2, "late": 1, "compacted": 0, "seconds": 0.25,
            "statistics": {"partials": 0, "groups": {"rows": 3}},
        },
        "smooth": {
            "runs": [], "in": 7, "out": 2, "late": 1, "compacted": 0, "seconds": 0.25,
            "statistics": {
                "partials": 4, "held": 0, "low": {"arrived": 5, "sent": 4, "drained": 0, "entries": 1},
            },
            "ledger": {"closed": [], "held": 0, "low": False}, "hold": [9], "tables": [RUN],
        },
        "store": {
            "runs": [], "in": 7, "out": 2, "late": 1, "compacted": 0, "seconds": 0.25,
            "readers": {"one": 2, "two": 0},
            "statistics": {
                "waiting": {"marks": {"p": {"one": 4}}, "rows": {"f": 7}, "newest": None, "moved": 0, "seconds": 0.1},
            },
        },
        "join": {
            "runs": [], "in": 7, "out": 2, "late": 1, "compacted": 0, "seconds": 0.25,
            "statistics": {"recall": [[3, 4, [5, 6]]]},
        },
    },
    "outputs": {"out": [{"name": "f", "rows": 1, "bytes": 2, "partition": "", "crc": 3}]},
    "progress": {
        "states": {}, "summaries": {"s": {"rows": 7}}, "bounds": {"s": {"ts": 4}}, "sample": None,
        "digest": "0123456789abcdef",
    },
}  # fmt: skip


def test_a_report_has_the_json_that_it_always_had() -> None:
    report = from_json(TaskReport, REPORT)
    assert sent(report) == REPORT
    assert progress_of([report]).summaries["s"].rows == 7
    assert [r.rows_in for r in reports_of([report, report], "join")] == [7, 7]
    assert sent(TaskReport.of_files({"out": report.outputs["out"]})) == {
        "level": 0, "group": -1, "operators": {}, "outputs": REPORT["outputs"],
    }  # fmt: skip


def test_a_table_without_entries_has_no_file() -> None:
    assert sent(TableReport("l0s1", None, 4, 5)) == ["l0s1", None, 4, 5]
