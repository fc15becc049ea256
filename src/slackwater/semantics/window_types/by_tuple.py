"""Windows by tuple: each is the time before a row, that row included; its id is the row's time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.model.window import ByTuple
from slackwater.semantics.lateness import is_late
from slackwater.semantics.window_types.rules import Ints, Span, Traits, WindowRules


class WindowsByTuple(WindowRules[ByTuple]):
    """The time before a row."""

    traits = Traits("FCA", plan="ticks")

    def needs_rows(self, w: ByTuple) -> bool:
        return w.over == "arrival" and w.every > 1

    def besides_time(self, w: ByTuple) -> tuple[str, ...]:
        return w.order

    def extents(self, wids: Ints, w: ByTuple) -> tuple[Ints, Ints]:
        return wids - w.range, wids

    def result_bound(self, bound: int, w: ByTuple) -> int:
        # What remains open ends at the bound or later, its end included.
        return bound - 1

    def missed(self, times: Ints, bound: int, w: ByTuple) -> Ints:
        return is_late(times, bound).astype(np.int64)

    def closing(self, hi: int, w: ByTuple) -> int:
        return hi + 1

    def reaching(self, needed: int, w: ByTuple) -> int:
        return needed + 1

    def shifted(self, w: ByTuple, ticks: int) -> ByTuple:
        return w

    def keeps(self, w: ByTuple, each: str, keys: Sequence[str], span: Span) -> str:
        return f"{each} and time from {span(w.range)} below the bound on {w.on}"
