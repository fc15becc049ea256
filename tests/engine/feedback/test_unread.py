"""What footers prove: row groups inside a record are not opened, and all others are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.driver.passes import Shown, passed
from slackwater.engine.lowlevel.inputs import SplitInput
from slackwater.engine.lowlevel.splits import plan_splits
from slackwater.engine.lowlevel.unread import Unread, unread
from slackwater.engine.paths.batch import Batch
from slackwater.engine.plan.guards import Guards
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.model.node import Source
from slackwater.model.policy import BoundedDelay, Policy, Punctuated
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.semantics.feedback.columns import Columns
from slackwater.semantics.feedback.text import parsed
from tests.engine.footers import cut_bounds

FIELDS = (
    Field("ts", "bigint"), Field("k", "int"), Field("x", "double"), Field("s", "string"),
    Field("d", "date"), Field("at", "timestamp"), Field("p", "bigint"),
)  # fmt: skip
TYPES = {
    "ts": pa.int64(), "k": pa.int32(), "x": pa.float64(), "s": pa.string(), "d": pa.date32(),
    "at": pa.timestamp("us", tz="UTC"), "p": pa.int64(),
}  # fmt: skip


def source(policy: Policy | None = None, **others: Any) -> Source:
    policy = policy or BoundedDelay(delay=1)
    return Source(FIELDS, (TimeColumn("ts", "long", 1),), "s", policies=(policy,), **others)


def written(folder: Path, groups: Sequence[dict[str, list[Any]]], name: str = "f") -> str:
    """A file with a row group for each; columns that are not given are 1, 'a' or null."""
    path = folder / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([pa.field(n, t) for n, t in TYPES.items()])
    with pq.ParquetWriter(path, schema) as writer:
        for group in groups:
            count = len(next(iter(group.values())))
            usual: dict[str, Any] = {
                "ts": [10] * count,
                "k": [1] * count,
                "x": [1.0] * count,
                "s": ["a"] * count,
            }
            whole = {**{n: [None] * count for n in TYPES}, **usual, **group}
            writer.write_table(pa.table({n: pa.array(v, TYPES[n]) for n, v in whole.items()}))
    return str(path)


def skipped(
    path: str, text: str, *, stream: Source | None = None, now: int | None = None, bound: int = 0,
    folders: Any = (),
) -> Unread:  # fmt: skip
    node = stream or source()
    plan = build([Output("out", node)], ansi=True, zone="UTC")
    plan = passed(plan, Shown([SplitInput(None, "in", FIELDS)]))
    records = parsed(text, Columns.of(node)).records
    batch = Batch(
        plan, 0, 1, 1, now, frozenset(), False, {}, {"s": {"ts": bound}}, {}, "root", {},
        guards=Guards(scans={0: records}),
    )  # fmt: skip
    return unread(batch, 0, {path: folders})


def test_groups_inside_a_record_are_not_read_and_all_others_are(tmp_path: Path) -> None:
    groups = [{"k": [1, 2], "ts": [5, 9]}, {"k": [2, 7]}, {"k": [3, 3], "ts": [7, 8]}, {"k": [9]}]
    path = written(tmp_path, groups)
    found = skipped(path, "~{k < 5}")
    assert found.rows == 4 and found.bytes > 0
    assert found.dropped == {"s": 4} and found.spared == {"s": found.bytes}
    assert [(a, b) for a, b, _ in found.kept[path]] == [(2, 4), (6, 7)]
    (report,) = found.reports
    summary = report.summary.columns["ts"][""]
    assert (summary.rows, summary.lo, summary.hi) == (4, 5, 9)
    assert report.summary.rows == 4 and report.summary.late == {"ts": 0}
    dealt = plan_splits({path: ()}, 2, found.pieces({path: ()}))
    assert sorted((s.first, s.end) for task in dealt for s in task) == [(2, 4), (6, 7)]


def test_neighbours_that_are_read_are_one_split(tmp_path: Path) -> None:
    path = written(tmp_path, [{"k": [9]}, {"k": [1]}, {"k": [8]}, {"k": [8]}])
    found = skipped(path, "~{k < 5}")
    (dealt,) = plan_splits({path: ()}, 1, found.pieces({path: ()}))
    assert sorted((s.first, s.end) for s in dealt) == [(0, 1), (2, 4)]


def test_what_is_left_of_a_file_is_dealt_out_to_all_tasks(tmp_path: Path) -> None:
    path = written(tmp_path, [{"k": [1] * 9}, *({"k": [9] * 9} for _ in range(8))])
    left = skipped(path, "~{k < 5}").pieces({path: ()})
    tasks = plan_splits({path: ()}, 2, left)
    assert [sum(s.end - s.first for s in task) for task in tasks] == [36, 36]
    assert sorted(r for task in tasks for s in task for r in range(s.first, s.end)) == list(range(9, 81))  # fmt: skip


@pytest.mark.parametrize(
    ("group", "text", "gone"),
    [
        ({"k": [1, None]}, "~{k < 5}", False),
        ({"k": [1, None]}, "~{k < 5 OR IS NULL}", True),
        ({"k": [None, None]}, "~{k < 5}", False),
        ({"x": [1.0, 2.0]}, "~{x < 5}", False),
        ({"x": [1.0, float("nan")]}, "~{x < 5}", False),
        ({"x": [6.0, float("nan")]}, "~{x >= 5}", True),
        ({"x": [4.0, 9.0]}, "~{x >= 5}", False),
        ({"x": [-0.0, 0.0]}, "~{x >= 0}", True),
        ({"s": ["b", "c"]}, "~{s >= 'b'}", True),
        ({"s": ["b", "z" * 300]}, "~{s < 'd'}", False),
        ({"s": ["b", "cc"]}, "~{s BETWEEN 'b' AND 'cc'}", True),
        ({"s": ["b", "c"]}, "~{s < 'c'}", False),
        ({"k": [1, 2], "s": ["b", "b"]}, "~{k < 5, s = 'b'}", True),
        ({"k": [1, 2], "s": ["b", "c"]}, "~{k < 5, s = 'b'}", False),
        ({"ts": [3, 4]}, "~{ts < 5}", True),
        ({"ts": [3, None]}, "~{ts < 5}", False),
        ({"ts": [3, 5]}, "~{ts < 5}", False),
    ],
)  # fmt: skip
def test_what_a_footer_proves(
    tmp_path: Path, group: dict[str, list[Any]], text: str, gone: bool
) -> None:
    assert bool(skipped(written(tmp_path, [group]), text).rows) == gone


def test_a_footer_whose_texts_are_no_text_proves_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "f.parquet")
    texts = pa.array([b"a\xff", b"b"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"ts": pa.array([10, 10], pa.int64()), "s": texts}), path)
    assert skipped(path, "~{s < 'c'}").rows == 0
    assert skipped(path, "~{ts < 20}").rows == 2, "which does not ask for them"


@pytest.mark.parametrize(
    ("values", "length", "text", "gone"),
    [
        (["abc", "abd"], 2, "~{s BETWEEN 'ab' AND 'ac'}", True),  # the bounds are ab and ac
        (["abc", "abd"], 2, "~{s BETWEEN 'ab' AND 'abz'}", False),  # though all values are inside
        (["abc", "abd"], 2, "~{s BETWEEN 'abc' AND 'abz'}", False),
        (["abc", "abc"], 2, "~{s = 'ab'}", False),  # which is a bound, and no value
        (["abc", "abc"], 2, "~{s = 'abc'}", False),
        (["abc", "abc"], 3, "~{s = 'abc'}", True),
        (["abc", "abd"], 2, "~{s < 'ac'}", False),
        (["abc", "abd"], 2, "~{s < 'acz'}", True),
        (["ab", "a\U0010ffffb"], 5, "~{s >= 'b'}", False),
        (["ab", "a\U0010ffffb"], 5, "~{s <= 'b'}", True),  # nothing is above that character: b is the next
        (["ab", "a\U0010ffffb"], 5, "~{s < 'b'}", False),
        (["\U0010ffff", "\U0010ffffb"], 4, "~{s <= '\U0010ffffb'}", True),  # it cannot be cut
    ],
)  # fmt: skip
def test_a_footer_whose_bounds_are_cut_proves_what_is_inside_of_them(
    tmp_path: Path, values: list[str], length: int, text: str, gone: bool
) -> None:
    path = written(tmp_path, [{"s": values}])
    cut_bounds(Path(path), length, text=True)
    assert bool(skipped(path, text).rows) == gone


def test_a_footer_whose_bounds_are_cut_within_a_character_proves_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, [{"s": ["aé", "aéb"]}])
    cut_bounds(Path(path), 2, text=False)
    assert skipped(path, "~{s >= 'a'}").rows == 0
    assert skipped(path, "~{k < 5}").rows == 2, "which does not ask for them"


def test_what_progress_must_see_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, [{"k": [1, 1], "ts": [10, 12]}])
    assert skipped(path, "~{k < 5}").rows == 2
    assert skipped(path, "~{k < 5}", bound=10).rows == 2
    assert skipped(path, "~{k < 5}", bound=11).rows == 0, "a row is late"
    guarded = source(BoundedDelay(delay=1).futureGuard(2))
    assert skipped(path, "~{k < 5}", stream=guarded, now=10).rows == 2
    assert skipped(path, "~{k < 5}", stream=guarded, now=9).rows == 0, "a time is implausible"
    for other in (
        source(Punctuated("p")), source(order=("p",)), source(partition="s"),
    ):  # fmt: skip
        assert skipped(path, "~{k < 5}", stream=other).rows == 0


def test_the_value_of_a_folder_counts_and_not_the_files(tmp_path: Path) -> None:
    path = written(tmp_path, [{"k": [9, 9]}])
    assert skipped(path, "~{k = 3}", folders=(("k", "CAST(3 AS INTEGER)"),)).rows == 2
    assert skipped(path, "~{k = 9}", folders=(("k", "CAST(3 AS INTEGER)"),)).rows == 0
    assert skipped(path, "~{ts < 99}", folders=(("ts", "CAST(3 AS BIGINT)"),)).rows == 0


def test_columns_of_another_type_prove_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "f.parquet")
    table = pa.table({"ts": pa.array([10], pa.int64()), "k": pa.array([1], pa.int64())})
    pq.write_table(table, path)
    assert skipped(path, "~{k < 5}").rows == 0
    assert skipped(path, "~{x IS NULL}").rows == 0, "a column that the file lacks"
