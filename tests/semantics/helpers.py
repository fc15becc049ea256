"""A source fed batch by batch, without kernels."""

from __future__ import annotations

from typing import Any

from slackwater.model.node import Source
from slackwater.model.policy import Policy
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.semantics.progress import SourceState, advance, initial_state, resolve_source
from slackwater.testing.executors.summaries import summarize

TS = TimeColumn("ts", "long", None)
MICROS = TimeColumn("ts", "timestamp", 1)


def source(policy: Policy, time: TimeColumn = TS, **options: Any) -> Source:
    fields = (Field("ts", "bigint"), Field("p", "string"), Field("i", "bigint"))
    return Source(fields, (time,), "s", policies=(policy,), **options)


class Feed:
    """A source and its state."""

    def __init__(self, policy: Policy, time: TimeColumn = TS, **options: Any):
        self.source = source(policy, time, **options)
        self.settings = resolve_source(self.source)
        self.state: SourceState = initial_state(self.source)

    def batch(self, *rows: Any, now: int | None = None, ended: bool = False, **how: Any) -> int:
        """Feed one batch (times, or dicts) and return the bound after it."""
        dicts = [r if isinstance(r, dict) else {"ts": r} for r in rows]
        summary = summarize(self.source, self.settings, self.state, dicts, now)
        self.state = advance(
            self.source, self.settings, self.state, summary, now, ended=ended, **how
        )
        return self.bound

    @property
    def bound(self) -> int:
        return self.state.columns["ts"].bound

    @property
    def holder(self) -> str | None:
        return self.state.columns["ts"].holder
