"""Guards of feedback on results of operators, with the times up to which they may drop rows.

A row is dropped only if its time is one that plausible rows of the sources explain: then it is known for how long the row is
missed when the feedback ends. What follows from a row with an implausible time is later than that, and stays.
"""

from __future__ import annotations

from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.reports import Progress
from slackwater.engine.plan.guards import Placed
from slackwater.engine.plan.plan import Path
from slackwater.engine.plan.steps import GuardStep
from slackwater.engine.progress.step import reached
from slackwater.kernels.translate.records import both, negated, no_later
from slackwater.semantics.feedback_rules import newest
from slackwater.semantics.limits import END, START


class ResultGuards:
    """The guards of one group task, by path."""

    def __init__(self, batch: Batch, progress: Progress):
        self._batch = batch
        self._progress = progress
        self._made: dict[int, tuple[Placed, ...]] = {}

    def of(self, path: Path) -> tuple[Placed, ...]:
        """Those of a path, as filters."""
        placed = self._batch.guards.of(path)
        if not placed:
            return ()
        if path.id not in self._made:
            # Behind one that drops all matching rows, the same condition finds none.
            hard = {(at, g.match.duck) for at, g in placed if not g.soft}
            needed = [(at, g) for at, g in placed if not g.soft or (at, g.match.duck) not in hard]
            settled = ((at, self._settled(g)) for at, g in needed)
            self._made[path.id] = tuple((at, g) for at, g in settled if g is not None)
        return self._made[path.id]

    def _settled(self, guard: GuardStep) -> GuardStep | None:
        if not guard.soft:
            return guard
        plan = self._batch.plan
        node = plan.node(guard.node)
        last = newest(node, reached(plan, self._progress.states, self._progress.bounds))
        if any(time <= START for time in last.values()):
            return None
        limit = no_later(node, [(name, time) for name, time in last.items() if time < END])
        if limit is None:
            return None
        match = both(guard.match, limit)
        return GuardStep(negated(match), match, guard.node, guard.place, guard.soft)
