"""What each type of operator means: one module per type, all with the same questions.

`bounds`, `pattern_rules`, `frontier`, `window_chains`, `column_origin`, `state_bounds`, `feedback_rules` and `contracts`
ask them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from slackwater.model.node import (
    Aggregate,
    Dedup,
    Filter,
    Held,
    Join,
    Late,
    Lookup,
    Outpaced,
    Pace,
    Parted,
    Project,
    SharedPanes,
    SharedSort,
    Sort,
    Source,
    Union,
    Waiting,
)
from slackwater.model.registry import Registry
from slackwater.semantics.contracts.needs import Need
from slackwater.semantics.contracts.offers import Offer
from slackwater.semantics.limits import Bounds
from slackwater.semantics.operators import (
    aggregate,
    dedup,
    held,
    join,
    late,
    lookup,
    outpaced,
    pace,
    project,
    shared_panes,
    shared_sort,
    sort,
    source,
    union,
    waiting,
)
from slackwater.semantics.operators import (
    filter as filter_,
)
from slackwater.semantics.operators.answers import (
    Copies,
    Known,
    Newest,
    Points,
    Reaction,
    Trace,
    Traced,
)
from slackwater.semantics.pattern_wants import Want
from slackwater.semantics.patterns import Patterns


class Rules(Protocol):
    """The questions. A node is given as its own type, ``inputs`` in the order of its children."""

    def entering(self, node: Any, /) -> tuple[str, ...]:
        """The time of each input by which rows enter state that can hold them back; none without such state."""

    def bounds(
        self, node: Any, inputs: Sequence[Bounds], sources: Mapping[str, Bounds], /
    ) -> dict[str, int]:
        """The bounds of the output, from those of the inputs; ``sources`` has those of sources by name."""

    def wants(self, node: Any, above: Sequence[Want], /) -> tuple[Sequence[Want], ...]:
        """For each input what patterns on it are of use, if consumers can use those of ``above`` on the output."""

    def patterns(
        self,
        node: Any,
        inputs: Sequence[Patterns],
        bounds: Sequence[Bounds],
        sources: Mapping[str, Patterns],
        /,
    ) -> Patterns:
        """The patterns of the output, from those and the bounds of the inputs. None is always true."""

    def frontier(self, node: Any, columns: Sequence[str], known: Known, /) -> Points:
        """The frontier of the output over its times ``columns``."""

    def trace(self, node: Any, name: str, ask: Trace, /) -> list[Traced]:
        """The ways on which the time that is asked for comes to column ``name`` of the output."""

    def copies(self, node: Any, column: str, /) -> Copies:
        """The inputs' columns whose values stand unchanged in ``column`` of the output. None is always true."""

    def feedback(self, node: Any, records: Patterns, /) -> Reaction:
        """What to do about the rows that no reader of the output wants: those that match one of the records."""

    def newest(
        self,
        node: Any,
        inputs: Sequence[Newest],
        bounds: Sequence[Bounds],
        sources: Mapping[str, Newest],
        /,
    ) -> dict[str, int]:
        """The greatest times of results that may lack a row, if rows up to those times are missing in the inputs.

        ``bounds`` are those of the inputs, ``sources`` has the times of sources by name.
        """

    def heard(
        self,
        node: Any,
        inputs: Sequence[Newest],
        bounds: Sequence[Bounds],
        sources: Mapping[str, Newest],
        /,
    ) -> dict[str, int]:
        """The greatest times of the results that have come out, if those of the inputs' rows are ``inputs``.

        ``bounds`` are those of the inputs, ``sources`` has the times of sources by name. Rows that are left out count, too.
        """

    def offers(self, node: Any, inputs: Sequence[Offer], sources: Mapping[str, Offer], /) -> Offer:
        """The scheme of the output, from those of the inputs: what `bounds` and `patterns` will pass on. None is always true."""

    def needs(self, node: Any, /) -> tuple[Need, ...]:
        """What the inputs must have, so that all state is freed and all results come; nothing without state."""

    def keeps(self, node: Any, /) -> str:
        """What is kept, and what frees it; for people."""


RULES: Registry[Rules] = Registry(
    __name__,
    {
        Source: source,
        Late: late,
        Filter: filter_,
        Project: project,
        Union: union,
        Dedup: dedup,
        Sort: sort,
        SharedSort: shared_sort,
        Pace: pace,
        Outpaced: outpaced,
        Aggregate: aggregate,
        SharedPanes: shared_panes,
        Join: join,
        Lookup: lookup,
        Held: held,
        Parted: lookup,
        Waiting: waiting,
    },
)
