"""Windows by tuple: each is the time before a row, that row included; its id is the row's time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.model.window import ByTuple
from slackwater.semantics.lateness import is_late
from slackwater.semantics.window_types.answers import Ints, Traits, always

TRAITS = Traits("FCA", plan="ticks")

holds = always
apart = always


def needs_rows(w: ByTuple) -> bool:
    return w.over == "arrival" and w.every > 1


def extents(wids: Ints, w: ByTuple) -> tuple[Ints, Ints]:
    return wids - w.range, wids


def result_bound(bound: int, w: ByTuple) -> int:
    # What remains open ends at the bound or later, its end included.
    return bound - 1


def missed(times: Ints, bound: int, w: ByTuple) -> Ints:
    return is_late(times, bound).astype(np.int64)


def closing(hi: int, w: ByTuple) -> int:
    return hi + 1


def reaching(needed: int, w: ByTuple) -> int:
    return needed + 1


def shifted(w: ByTuple, ticks: int) -> ByTuple:
    return w


def keeps(w: ByTuple, each: str, keys: Sequence[str]) -> str:
    return f"{each} and tick from {w.range} ticks below the bound on {w.on}"
