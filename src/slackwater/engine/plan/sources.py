"""What the settings of sources mean for the plan."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.engine.plan.plan import Operator, Plan
from slackwater.model.node import Source
from slackwater.semantics.settings import resolve_source


def judged_strictly(source: Source) -> bool:
    """Whether the lateness of a source's rows is judged row by row."""
    return any(s.strict for s in resolve_source(source))


def reads_strictly(plan: Plan, operator: Operator) -> bool:
    """Whether an operator gets rows that say which windows they may enter: a pane could not tell."""
    strict = {s.name for s in plan.sources if judged_strictly(s)}
    return any(path.producer in strict for path in plan.paths_to(operator.id))


def has_patterns(sources: Sequence[Source]) -> bool:
    """Whether punctuation may close single groups, for which there must be partials of all of them."""
    return any(s.patterns for source in sources for s in resolve_source(source))
