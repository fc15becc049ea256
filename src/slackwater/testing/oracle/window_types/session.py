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
    Completing,
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
) -> list[Completing]:
    found = []
    for key, mine in by_key(came).items():
        open_ones: list[list[Came]] = []
        for step, after in enumerate(bounds):
            before = bounds[step - 1] if step else START
            merged = _touching(open_ones + [[c] for c in mine if c.step == step], w)
            # What is behind the bound as a whole can only be late rows.
            merged = [s for s in merged if not _over(s, before, w)]
            open_ones = [s for s in merged if not _over(s, after, w)]
            if step == len(bounds) - 1:
                for s in merged:
                    if _over(s, after, w):
                        first = min(c.time for c in s)
                        extent = Extent(first, _last(s) + w.gap)
                        found.append(Completing(None, extent, key, [c.row for c in s]))
    return found


def _over(session: Sequence[Came], bound: int, w: SessionWindow) -> bool:
    """Whether no row from the bound on can belong to a session: a row at its end does if sessions are closed."""
    end = _last(session) + w.gap
    return end < bound if w.closed else end <= bound


def _near(time: int, session: Sequence[Came], w: SessionWindow) -> bool:
    """Whether a time is not too far behind the last row of a session."""
    apart = time - _last(session)
    return apart <= w.gap if w.closed else apart < w.gap


def _touching(sessions: list[list[Came]], w: SessionWindow) -> list[list[Came]]:
    """Sessions merged until no two overlap."""
    done: list[list[Came]] = []
    for s in sessions:
        again = True
        while again:
            again = False
            for other in done:
                a, b = min(c.time for c in s), min(c.time for c in other)
                if _near(a, other, w) and _near(b, s, w):
                    done.remove(other)
                    s, again = other + s, True
                    break
        done.append(s)
    return done


def _last(session: Sequence[Came]) -> int:
    return max(c.time for c in session)


def bound_of_results(v: int, w: SessionWindow) -> int:
    # The least time of a result that may come: of a session that ends at the bound, if it is still open there.
    return v - 1 if w.closed else v


def missed(node: Aggregate, time: int, given: Given, run: Run) -> int:
    w = node.window
    assert isinstance(w, SessionWindow)
    bound = run.before(node.child, w.on)
    return int(time + w.gap < bound if w.closed else time + w.gap <= bound)
