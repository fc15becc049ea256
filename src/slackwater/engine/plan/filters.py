"""What a query says itself: a filter above an aggregate drops results, so nobody needs to make them.

That is feedback without a request. It is in force from the first batch on, and as long as the filter is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.kernels.translate.feedback import known_parts
from slackwater.kernels.translate.records import can_test
from slackwater.model.node import Aggregate, Filter, Node
from slackwater.semantics.feedback.columns import Columns
from slackwater.semantics.feedback.condition import columns, dropped
from slackwater.semantics.feedback.value import Feedback


def by_filters(nodes: Sequence[Node], *, ansi: bool, zone: str) -> Mapping[int, Feedback]:
    """What each filter that stands above an aggregate drops of the rows that it reads, by its place among ``nodes``, children first.

    Below a filter over rows of a stream there is nothing to be saved: it is a step of the scan.
    """
    found: dict[int, Feedback] = {}
    above: set[int] = set()
    for i, node in enumerate(nodes):
        if isinstance(node, Aggregate) or any(id(c) in above for c in node.children):
            above.add(id(node))
        if isinstance(node, Filter) and id(node.child) in above:
            condition = known_parts(node.condition.sql, Columns.of(node.child, zone), ansi=ansi)
            usable = tuple(r for r in dropped(condition) if can_test(node.child, r))
            if usable:
                tested = {c for r in usable for c in r.columns}
                by_name = {c.name: c for c in columns(condition) if c.name in tested}
                found[i] = Feedback(usable, tuple(by_name[n] for n in sorted(by_name)))
    return found
