"""Whether a restart on a checkpoint would be refused: what ``start`` compares, without a lock and without writing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.engine.driver.opening import open_query, stored_plans, stored_query, stored_stores
from slackwater.engine.driver.passes import Started, passed
from slackwater.engine.lowlevel.directories import source_numbers, spark_sources
from slackwater.engine.store import manifest
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.errors import CheckpointError
from slackwater.surface.options import local_path
from slackwater.surface.start import (
    plan_of,
    settings_of,
    shares_panes,
    window_plan_of,
)
from slackwater.surface.writer import StreamWriter


class _Looked(Checkpoint):
    """A checkpoint that is only looked at."""

    def update_query(self, stored: dict[str, Any]) -> None:
        """Nothing is written."""


def check_against(
    writers: Sequence[StreamWriter], location: str, options: Mapping[str, Any]
) -> None:
    """A `CheckpointError` that says what a restart would refuse; nothing if it would go on."""
    merged: dict[str, Any] = {}
    for w in reversed(writers):
        merged.update({k.lower(): v for k, v in w._options.items()})
    merged.update({k.lower(): v for k, v in options.items()})
    settings = settings_of(merged)
    checkpoint = _Looked(local_path(location, "checkpoint"), settings.storage)
    if not checkpoint.storage.exists(checkpoint.description_file):
        raise CheckpointError(
            "NO_CHECKPOINT",
            f"'{location}' is no checkpoint of Slackwater",
            hint="give the checkpointLocation of a query that has run",
            location=location,
        )
    names = [w._name or ("output" if i == 0 else f"output{i + 1}") for i, w in enumerate(writers)]
    streams = dict(zip(names, [w._stream for w in writers], strict=True))
    plan, inputs = plan_of(streams, merged, stored_query(checkpoint))
    last = manifest.last(checkpoint)
    started = Started(
        inputs, window_plan_of(merged), shares_panes(merged, settings),
        stored_plans(checkpoint), stored_stores(checkpoint), last,
    )  # fmt: skip
    numbers = source_numbers(spark_sources(inputs), len(inputs))
    open_query(checkpoint, passed(plan, started), last, numbers)
