"""A user's condition on joined rows, evaluated on chunks of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import ExecutionError
from slackwater.kernels.buckets import flat
from slackwater.model.join import Condition


def holds(condition: Condition, rows: pa.Table) -> pa.BooleanArray:
    """Which rows fulfil the condition; null is no."""
    args = [flat(rows.column(c)) for c in condition.columns] or [rows]
    try:
        answer = condition.function(*args)
    except Exception as error:
        raise _failed(
            condition,
            f"raised {type(error).__name__}: {error}",
            "mend the function; the query goes on where it stopped",
        ) from error
    mask = _array(condition, answer)
    if len(mask) != rows.num_rows:
        raise _failed(
            condition,
            f"returned {len(mask)} values for {rows.num_rows} rows",
            "return one boolean per row of its columns",
        )
    return pc.fill_null(mask, False)


def _array(condition: Condition, answer: Any) -> pa.BooleanArray:
    if isinstance(answer, np.ndarray) and answer.ndim == 1 and answer.dtype == np.bool_:
        return pa.array(answer)
    if isinstance(answer, pa.ChunkedArray):
        answer = flat(answer)
    if isinstance(answer, pa.BooleanArray):
        return answer
    kind = answer.type if isinstance(answer, pa.Array | pa.Scalar) else type(answer).__name__
    shown = f"an array of {kind}" if isinstance(answer, pa.Array) else str(kind)
    if isinstance(answer, np.ndarray):
        shown = f"a NumPy array of {answer.dtype} with {answer.ndim} dimension(s)"
    raise _failed(
        condition,
        f"returned {shown}, not an array of booleans",
        "return a pyarrow (or NumPy) array of booleans, e.g. pc.less(a, b)",
    )


def _failed(condition: Condition, what: str, hint: str) -> ExecutionError:
    return ExecutionError(
        "JOIN_CONDITION_FAILED",
        f"the function '{condition.name}' in where= of a join {what}",
        hint=hint,
        function=condition.name,
    )
