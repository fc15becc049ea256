"""Sessions, by definition."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.model.node import Aggregate
from slackwater.model.window import SessionWindow
from slackwater.semantics.limits import START
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item
from slackwater.testing.oracle.types import Window as Extent
from slackwater.testing.oracle.window_types.came import (
    Came,
    Found,
    Given,
    by_key,
    completed_results,
    excluded_group,
)

excluded = excluded_group


def results(node: Aggregate, run: Run) -> list[Item]:
    return completed_results(node, run, completed)


def completed(
    w: SessionWindow, came: Sequence[Came], bounds: Sequence[int], key_names: Sequence[str]
) -> list[Found]:
    found = []
    for key, mine in by_key(came).items():
        open_ones: list[list[Came]] = []
        for step, after in enumerate(bounds):
            before = bounds[step - 1] if step else START
            merged = _touching(open_ones + [[c] for c in mine if c.step == step], w.gap)
            # What is behind the bound as a whole can only be late rows.
            merged = [s for s in merged if _last(s) + w.gap > before]
            open_ones = [s for s in merged if _last(s) + w.gap > after]
            if step == len(bounds) - 1:
                for s in merged:
                    if _last(s) + w.gap <= after:
                        first = min(c.time for c in s)
                        extent = Extent(first, _last(s) + w.gap)
                        found.append(Found(None, extent, key, [c.row for c in s]))
    return found


def _touching(sessions: list[list[Came]], gap: int) -> list[list[Came]]:
    """Sessions merged until no two overlap."""
    done: list[list[Came]] = []
    for s in sessions:
        again = True
        while again:
            again = False
            for other in done:
                a, b = min(c.time for c in s), min(c.time for c in other)
                if a < _last(other) + gap and b < _last(s) + gap:
                    done.remove(other)
                    s, again = other + s, True
                    break
        done.append(s)
    return done


def _last(session: Sequence[Came]) -> int:
    return max(c.time for c in session)


def bound_of_results(v: int, w: SessionWindow) -> int:
    return v


def missed(node: Aggregate, time: int, given: Given, run: Run) -> int:
    w = node.window
    assert isinstance(w, SessionWindow)
    bound = run.before(node.child, w.on)
    return int(time + w.gap <= bound)
