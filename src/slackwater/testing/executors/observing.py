"""What executors that run the engine have in common: a transcript's clock, its rows as tables, what is seen of late rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from slackwater.kernels.types import arrow_schema
from slackwater.model.node import Source
from slackwater.testing.clock import ManualClock
from slackwater.testing.transcripts.script import Transcript

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def clock_of(transcript: Transcript) -> ManualClock:
    """The clock and the ends of streams, as the steps say."""
    steps = transcript.batches
    clock = ManualClock(steps[0].now)
    clock.script({i: s.now for i, s in enumerate(steps) if s.now is not None})
    clock.end({i: s.end for i, s in enumerate(steps)})
    return clock


def table_of(source: Source, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of a stream."""
    schema = arrow_schema(source.schema)
    return pa.table([array([r.get(f.name) for r in rows], f.type) for f in schema], schema=schema)


def shown_late(transcript: Transcript) -> list[str]:
    """Streams whose late rows the transcript looks at. Counting needs no rows, and a source whose late
    rows nobody reads takes another, faster way through the engine: both ways must be tested.
    """
    shown = {
        n for s in transcript.batches for n, v in s.expect_late.items() if not isinstance(v, int)
    }
    return [n for n, s in transcript.sources.items() if n in shown or len(s.times) > 1]


def count_late(source: Source, records: Mapping[int, Mapping[str, Any]], batch: int) -> int:
    """How many rows of a batch were late, by the progress records of the batches."""
    total = 0
    for time, policy in zip(source.times, source.policies, strict=True):
        for kind in ("totalLate", "nullTime", *(["future"] if policy.future == "side" else [])):
            for at, sign in ((batch, 1), (batch - 1, -1)):
                shown = records.get(at, {}).get("streams", {}).get(source.name)
                total += sign * shown[kind][time.name] if shown else 0
    return total


def array(values: list[Any], type: pa.DataType) -> pa.Array:
    """Values of a transcript, in which times are microseconds and maps are mappings."""
    if pa.types.is_timestamp(type):
        return pa.array(values, pa.int64()).cast(pa.timestamp("us")).cast(type)
    if pa.types.is_map(type):
        return pa.array([None if v is None else list(v.items()) for v in values], type)
    return pa.array(values, type)


def plain(value: Any) -> Any:
    """Rows with times as microseconds."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, dt.datetime):
        value = value if value.tzinfo else value.replace(tzinfo=dt.timezone.utc)
        return (value - _EPOCH) // dt.timedelta(microseconds=1)
    return value
