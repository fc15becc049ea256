"""Tables whose footers bound texts and binaries by cut values: a greatest one is then above all values, and in none of them.

A cut bound is wider than the values, so more is read than must be, and nothing is left out. A greatest value that is cut without being raised is no
bound by the format's definition (`is_max_value_exact` says that a bound need not be a value, never that values may be above it), so no such file is made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.paths.lookup import table_key
from slackwater.engine.paths.segments import SegmentIndex, segment_index
from slackwater.engine.store.versions import TableFile
from slackwater.kernels.types import arrow_type
from slackwater.model.relation import Relation
from slackwater.model.schema import Field
from slackwater.testing.local.run import scratch_folder
from tests.engine.footers import cut_bounds
from tests.examples import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "customer-of-the-northern-branch-"
TEXTS = st.builds(
    str.__add__, st.sampled_from(["", PREFIX]),
    st.text(st.sampled_from(["a", "b", "z", "é", "\ud7ff", "\ue000", "\uffff", "\U0010ffff"]), max_size=4),
)  # fmt: skip
BYTES = st.builds(
    bytes.__add__, st.sampled_from([b"", b"\xff\xff\xff", b"common"]),
    st.lists(st.sampled_from([0, 1, 97, 254, 255]), max_size=4).map(bytes),
)  # fmt: skip


def index_of(path: Path, kind: str) -> SegmentIndex:
    fields = (Field("id", kind),)
    relation = Relation("d", str(path.parent), fields, ("id",), fields)
    return segment_index(relation, [TableFile(str(path), 1, 1)])


def check(index: SegmentIndex, kind: str, groups: Sequence[Sequence[Any]]) -> None:
    """Each key is looked for in all segments that have it, and rows wait for them."""
    keys = sorted({v for g in groups for v in g})
    table = pa.table({table_key(0): pa.array(keys, arrow_type(kind))})
    wanted = index.wanted(table, np.ones(len(keys), np.int64))
    for number, values in enumerate(groups):
        assert wanted.asking()[number] >= len(set(values))
        rows = pa.table({table_key(0): pa.array(values, arrow_type(kind))})
        assert wanted.met(number, rows, [table_key(0)]).num_rows == len(values)
        alone = index.first_of(table, np.arange(len(groups)) == number)
        assert all(alone[keys.index(v)] == number for v in values)


@pytest.mark.spec("XJ-F47")
@pytest.mark.parametrize(("kind", "values"), [("string", TEXTS), ("binary", BYTES)])
def test_keys_are_found_whose_bounds_are_cut(kind: str, values: st.SearchStrategy[Any]) -> None:
    @given(
        st.lists(st.lists(values, min_size=1, max_size=4), min_size=1, max_size=4),
        st.integers(1, 40),
    )
    @examples(60)
    def found(groups: list[list[Any]], length: int) -> None:
        with scratch_folder() as folder:
            path = folder / "a.parquet"
            with pq.ParquetWriter(path, pa.schema([("id", arrow_type(kind))])) as writer:
                for group in groups:
                    writer.write_table(pa.table({"id": pa.array(group, arrow_type(kind))}))
            cut_bounds(path, length, text=kind == "string")
            check(index_of(path, kind), kind, groups)

    found()


@pytest.mark.spec("XJ-F47")
def test_bounds_that_are_cut_still_tell_segments_apart(tmp_path: Path) -> None:
    """A greatest value that is cut is above the values, and no value."""
    path = tmp_path / "a.parquet"
    groups = [[f"{PREFIX}{letter}-{n:09d}" for n in range(3)] for letter in "abcd"]
    table = pa.table({"id": [v for g in groups for v in g]})
    pq.write_table(table, path, row_group_size=3)
    cut_bounds(path, len(PREFIX) + 1, text=True)
    index = index_of(path, "string")
    (bounds,) = index.ranges
    assert bounds.least.to_pylist() == [f"{PREFIX}{letter}" for letter in "abcd"]
    assert bounds.greatest.to_pylist() == [f"{PREFIX}{letter}" for letter in "bcde"]
    check(index, "string", groups)
    asked = pa.table({table_key(0): [groups[2][1]]})
    assert index.wanted(asked, np.ones(1, np.int64)).asking().tolist() == [0, 0, 1, 0]
    # With nothing left of the last letter all may have it.
    cut_bounds(path, len(PREFIX), text=True)
    index = index_of(path, "string")
    assert index.wanted(asked, np.ones(1, np.int64)).asking().tolist() == [1, 1, 1, 1]


@pytest.mark.spec("XJ-F47")
def test_bounds_that_are_cut_within_a_character_say_nothing(tmp_path: Path) -> None:
    """As writers leave them that cut texts as if they were binaries."""
    path = tmp_path / "a.parquet"
    groups = [["aé", "aéb"], ["b", "c"]]
    with pq.ParquetWriter(path, pa.schema([("id", pa.string())])) as writer:
        for group in groups:
            writer.write_table(pa.table({"id": group}))
    cut_bounds(path, 2, text=False)
    index = index_of(path, "string")
    assert [b.as_py() for b in index.ranges[0].least] == [None, "b"]
    check(index, "string", groups)


@pytest.mark.spark
@pytest.mark.spec("XJ-F47")
def test_keys_are_found_in_files_of_a_writer_that_cuts_bounds(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's, where it is told to."""
    names = [f"{PREFIX}{n:05d}" for n in range(4000)]
    frame = (
        spark.createDataFrame(pa.table({"id": names}).to_pandas())
        .coalesce(1)
        .sortWithinPartitions("id")
    )
    writer = frame.write.option("parquet.statistics.truncate.length", len(PREFIX) + 2)
    writer.option("parquet.block.size", 1).option("parquet.block.size.row.check.min", 1000).parquet(
        str(tmp_path / "t")
    )
    (path,) = (tmp_path / "t").glob("*.parquet")
    stored = pq.ParquetFile(path)
    groups = [stored.read_row_group(i)["id"].to_pylist() for i in range(stored.num_row_groups)]
    assert len(groups) > 1
    index = index_of(path, "string")
    (bounds,) = index.ranges
    cut = [len(b) for b in (*bounds.least.to_pylist(), *bounds.greatest.to_pylist())]
    assert set(cut) == {len(PREFIX) + 2}
    assert all(
        high not in group for high, group in zip(bounds.greatest.to_pylist(), groups, strict=True)
    )
    check(index, "string", groups)
