"""The pace of a stream: a row is of use only if it is not too far behind the newest.

The *mark* is the newest plausible time of the rows that a `Pace` reads. It follows from the progress of the streams alone
(`Rules.heard`), not from the rows that reach the operator: a row that a filter leaves out tells how far the stream is as well, and
rows that feedback lets nobody read move no mark. A row is judged by the mark that was in force when its batch began, so a
verdict does not depend on how the batch was cut into tasks. A mark never goes back, whatever the clock does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.model.node import Pace
from slackwater.semantics.limits import END, START, Bounds, shift
from slackwater.semantics.local_time import greatest_until
from slackwater.semantics.operators.answers import Newest
from slackwater.semantics.patterns import Pattern, Test

STEPS = 10
"""Inputs are told of a limit in steps of this part of λ."""


@dataclass(frozen=True)
class Marks:
    """What marks are made of: the newest plausible times of sources by name, the marks so far by the operator's place in the
    plan, and what the clock shows, in microseconds.
    """

    newest: Mapping[str, Newest] = field(default_factory=dict)
    earlier: Mapping[int, int] = field(default_factory=dict)
    now: int | None = None

    def of(self, node: Pace, place: int, heard: Newest) -> int:
        """The mark of an operator whose input has the newest times ``heard``; `START` before anything is known."""
        newest = heard.get(node.on, START)
        seen = [self.earlier.get(place, START), newest if newest < END else START]
        if node.clock and self.now is not None:
            seen.append(shown(node, self.now))
        return max(seen)


def shown(node: Pace, now: int) -> int:
    """What the clock reads in the time by which a pace judges."""
    time = node.time
    if time.is_local:
        return greatest_until(now, node.zone)
    return now // (time.unit or 1)


def limit(node: Pace, mark: int) -> int:
    """The oldest time that passes: a row is dropped iff mark − time > λ.

    >>> node = Pace((), (), on="ts", limit=5)
    >>> limit(node, 100), limit(node, START) == START
    (95, True)
    """
    return shift(mark, -node.limit)


def raised(node: Pace, bounds: Bounds, mark: int) -> dict[str, int]:
    """What a pace promises after a batch: its input's bounds, or that it drops what is older than its limit."""
    return {**bounds, node.on: max(bounds[node.on], limit(node, mark))}


def given_up(node: Pace, mark: int) -> Pattern | None:
    """What a pace tells its input: rows with these times will be dropped. It moves in steps of a tenth of λ."""
    oldest = limit(node, mark)
    if oldest <= START:
        return None
    step = max(1, node.limit // STEPS)
    return Pattern.of({node.on: Test.below(oldest // step * step)})
