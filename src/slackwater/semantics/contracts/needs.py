"""What an operator needs of its inputs, so that each piece of its state is freed and each of its results comes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slackwater.semantics.contracts.offers import Offer
from slackwater.semantics.contracts.templates import Template


@dataclass(frozen=True)
class Way:
    """Punctuation of an input that would do.

    It is a bound on a time of ``bounds``, or a pattern that tests at least one column: columns of ``up_to`` by ``+``,
    columns of ``single`` by ``#``, and no others.
    """

    bounds: frozenset[str] = frozenset()
    up_to: frozenset[str] = frozenset()
    single: frozenset[str] = frozenset()

    @property
    def columns(self) -> frozenset[str]:
        """The columns that punctuation may restrict."""
        return self.bounds | self.up_to | self.single

    def __bool__(self) -> bool:
        """Whether any punctuation would do at all."""
        return bool(self.columns)

    def allows(self, template: Template) -> bool:
        """Whether patterns of a form would do."""
        by_class = {"+": self.up_to, "#": self.single}
        return bool(template.tags) and all(c in by_class.get(k, ()) for c, k in template.tags)

    def met_by(self, offer: Offer) -> bool:
        """Whether an edge has such punctuation."""
        if offer.ended or offer.bounds & self.bounds:
            return True
        return bool(offer.anything & self.columns) or any(map(self.allows, offer.templates))

    def __or__(self, other: Way) -> Way:
        return Way(self.bounds | other.bounds, self.up_to | other.up_to, self.single | other.single)


def by_bound(*times: str) -> Way:
    """A bound on one of these times."""
    return Way(bounds=frozenset(times))


def by_patterns(columns: Iterable[str]) -> Way:
    """A pattern on these columns alone."""
    return Way(frozenset(), frozenset(columns), frozenset(columns))


@dataclass(frozen=True)
class Need:
    """What one input must have: punctuation in one of ``ways``, which frees the state.

    If it has none of these, but one of ``growing``, results come, and what stays is a piece of state for each group.
    ``state`` is what is freed, for people; ``of_others`` says that it is rows of the other inputs.
    """

    input: int
    ways: tuple[Way, ...]
    state: str
    growing: tuple[Way, ...] = ()
    of_others: bool = False

    def freed(self, offer: Offer) -> bool:
        """Whether what an edge offers frees the state."""
        return any(w.met_by(offer) for w in self.ways)

    def grows(self, offer: Offer) -> bool:
        """Whether state of every group stays, but nothing else."""
        return any(w.met_by(offer) for w in self.growing)


ALWAYS = Way(bounds=frozenset(["*"]))
"""Of ``growing``: results come without any punctuation."""
