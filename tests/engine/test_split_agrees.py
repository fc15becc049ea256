"""A split source reads what Spark reads, or both refuse: every pair of types, every folder, random directories."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from slackwater.engine.analysis.schema import fields_of
from slackwater.errors import SlackwaterError
from slackwater.model.schema import Field
from tests.engine.parquet_pairs import written
from tests.engine.test_split_columns import NEW_YORK, VALUES, V, table
from tests.surface.helpers import write
from tests.surface.random_files import directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def new_york(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", NEW_YORK)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def of_spark(spark: SparkSession, root: Path, schema: str) -> pa.Table:
    frame = spark.read.schema(schema).parquet(str(root))
    return frame.select(*[f.name for f in _parsed(schema)]).toArrow()


def _parsed(schema: str) -> tuple[Field, ...]:
    from pyspark.sql.types import StructType

    made = StructType.fromDDL(schema)
    assert isinstance(made, StructType)
    return fields_of(made)


def same(one: pa.Table, other: pa.Table) -> None:
    assert sorted(map(_text, _rows(one))) == sorted(map(_text, _rows(other)))


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """Dates as numbers: Spark has more of them than Python."""
    days = [pa.int32() if pa.types.is_date(f.type) else f.type for f in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, days, strict=True)))).to_pylist()  # type: ignore[no-any-return]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.timezone.utc).isoformat()
    return repr(value)


def test_every_pair_of_types(spark: SparkSession, tmp_path: Path) -> None:
    schema = ", ".join(f"{c} {declared}" for c, _, declared in written(tmp_path))
    expected = of_spark(spark, tmp_path, schema)
    assert expected.num_rows == 9
    same(table(tmp_path, _parsed(schema)), expected)


def test_every_value_of_a_folder(new_york: SparkSession, tmp_path: Path) -> None:
    good = [(kind, text) for kind, text, value in VALUES if value is not None]
    path = "/".join(f"k{i}={text}" for i, (_, text) in enumerate(good))
    write(tmp_path, f"{path}/x.parquet", V)
    schema = ", ".join([f"k{i} {kind}" for i, (kind, _) in enumerate(good)] + ["v bigint"])
    same(table(tmp_path, _parsed(schema), zone=NEW_YORK), of_spark(new_york, tmp_path, schema))


def agree(spark: SparkSession, seed: int, root: Path) -> bool:
    """Whether the directory of a seed is read; both must say the same."""
    schema = directory(random.Random(seed), root)
    try:
        expected = of_spark(spark, root, schema)
    except Exception:
        with pytest.raises(SlackwaterError):
            table(root, _parsed(schema), zone=NEW_YORK)
        return False
    same(table(root, _parsed(schema), zone=NEW_YORK), expected)
    return True


def test_random_directories(new_york: SparkSession, tmp_path: Path) -> None:
    read = [agree(new_york, seed, tmp_path / str(seed)) for seed in range(16)]
    assert any(read) and not all(read)


@pytest.mark.faults
def test_many_random_directories(new_york: SparkSession, tmp_path: Path) -> None:
    read = [agree(new_york, seed, tmp_path / str(seed)) for seed in range(100, 500)]
    assert 0.5 < sum(read) / len(read) < 0.95
