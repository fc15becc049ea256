"""What a join is to the kernels: its condition, and the tables it takes, stores and gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import AnalysisError
from slackwater.kernels.buckets import flat
from slackwater.kernels.joins.band_join import MAX_PAIRS, Ints
from slackwater.kernels.order import group_codes
from slackwater.model.join import How, Within, is_existence
from slackwater.model.names import BUCKET, MATCHED, ROW, TIME, key
from slackwater.semantics.join import marked_inputs

MATCHED_SCHEMA = pa.schema([(ROW, pa.int64()), (TIME, pa.int64()), (BUCKET, pa.int16())])
"""Stored rows of an input in `marked_inputs` that found a partner after they were stored."""

Flags = npt.NDArray[np.bool_]
Stored: TypeAlias = Callable[[int, int], pa.Table]
"""Stored rows with low <= time <= high; more rows do no harm."""
Predicate: TypeAlias = Callable[[pa.Table], "pa.BooleanArray | pa.ChunkedArray"]
"""Which rows of a chunk of joined columns satisfy a further condition; null is no."""


@dataclass(frozen=True)
class JoinSpec:
    """``keys`` columns `names.key` (0)… must be equal, times lie ``within``; ``columns[i]`` of input i come out.

    ``max_pairs`` bounds the rows of a chunk of output, and of what is held between two inputs. Where a key is a column
    by another name, ``key_names[i]`` says so for input i, and a bounded join stores it once.
    """

    within: Within
    keys: int
    columns: tuple[tuple[str, ...], ...]
    how: How = "inner"
    max_pairs: int = MAX_PAIRS
    key_names: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.how != "inner" and len(self.columns) != 2:
            raise AnalysisError(
                "JOIN_INPUTS",
                f"a {self.how} join takes two inputs, not {len(self.columns)}",
                hint="join the streams two by two",
                how=self.how,
            )

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return len(self.columns)

    def keys_of(self, i: int) -> tuple[str, ...]:
        """The columns of input i that hold its keys."""
        return self.key_names[i] if self.key_names else tuple(map(key, range(self.keys)))


def column_name(i: int, name: str) -> str:
    """Name of column ``name`` of input i in the output.

    >>> column_name(1, "price")
    '_1.price'
    """
    return f"_{i}.{name}"


def state_schema(spec: JoinSpec, i: int, rows: pa.Schema) -> pa.Schema:
    """Schema of stored rows of input i, from that of its new rows."""
    if i not in marked_inputs(spec.how):
        return rows
    rows = rows.append(pa.field(ROW, pa.int64()))
    # Where existence is asked for, a row that has met a partner is not stored.
    return rows if is_existence(spec.how) else rows.append(pa.field(MATCHED, pa.bool_()))


def output_schema(spec: JoinSpec, rows: Sequence[pa.Schema]) -> pa.Schema:
    """Columns of the output: those of each input, or of the left one alone, the time of each, the result's time."""
    return _joined_schema(spec, rows[:1] if is_existence(spec.how) else rows)


def pair_schema(spec: JoinSpec, rows: Sequence[pa.Schema]) -> pa.Schema:
    """Columns of a match, as a predicate gets them."""
    return _joined_schema(spec, rows)


def _joined_schema(spec: JoinSpec, rows: Sequence[pa.Schema]) -> pa.Schema:
    fields = [
        pa.field(column_name(i, c), schema.field(c).type)
        for i, schema in enumerate(rows)
        for c in with_time(spec.columns[i])
    ]
    return pa.schema([*fields, pa.field(TIME, pa.int64())])


def with_time(columns: Sequence[str]) -> list[str]:
    return [*(c for c in columns if c != TIME), TIME]


def ints(table: pa.Table, name: str) -> Ints:
    return np.asarray(flat(table.column(name)).to_numpy(zero_copy_only=False), dtype=np.int64)


def among(rows: pa.Table, others: pa.Table) -> Flags:
    """Which stored rows are among others: a number is one of its bucket, as buckets move between tasks."""
    n = rows.num_rows
    parts = [np.concatenate([ints(rows, c), ints(others, c)]) for c in (ROW, BUCKET)]
    codes = group_codes(parts, n + others.num_rows).codes
    return np.isin(codes[:n], codes[n:])


def bools(table: pa.Table, name: str) -> Flags:
    return np.asarray(
        pc.fill_null(flat(table.column(name)), False).to_numpy(zero_copy_only=False), dtype=np.bool_
    )
