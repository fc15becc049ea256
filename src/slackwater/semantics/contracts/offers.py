"""What an edge of a plan offers: the scheme of the punctuation that arrives there, as far as the engine passes it on.

The engine passes on two things: bounds on times, and patterns. They go different ways (a sort passes its bound on and no
patterns), so they are kept apart here. A scheme shows both: a bound is a template with one ``+``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from slackwater.semantics.contracts.templates import Class, Template, least, merged

MOST_TEMPLATES = 16
"""More templates than this are cut down to those that no other covers: sets of templates multiply at unions."""


@dataclass(frozen=True)
class Offer:
    """What is sure to come on an edge, again and again.

    ``bounds`` are times whose bound grows without end. ``templates`` are forms of patterns, each of which sooner or later
    covers every row. ``anything`` are columns of streams that do not say what they punctuate: any pattern on these alone
    counts as sure. ``ended``: no row comes any more.
    """

    bounds: frozenset[str] = frozenset()
    templates: frozenset[Template] = frozenset()
    anything: frozenset[str] = frozenset()
    ended: bool = False

    @property
    def all(self) -> frozenset[Template]:
        """The templates, with those that bounds are."""
        return self.templates | {Template.of({c: "+"}) for c in self.bounds}

    @property
    def scheme(self) -> tuple[Template, ...]:
        """The templates in a fixed order, the shortest first."""
        return tuple(sorted(self.all, key=lambda t: (len(t.tags), t.tags)))

    def __str__(self) -> str:
        if self.ended:
            return "ended"
        shown = [str(t) for t in self.scheme]
        if self.anything:
            shown.append(f"anything on {', '.join(sorted(self.anything))} (not declared)")
        return ", ".join(shown) or "nothing"

    def pruned(self) -> Offer:
        """The same, without templates that others make superfluous if there are many."""
        if len(self.templates) <= MOST_TEMPLATES:
            return self
        return replace(self, templates=frozenset(least(self.all)) & self.templates)


NOTHING = Offer()
ENDED = Offer(ended=True)


Names = Mapping[str, Iterable[str]]


def renamed(offer: Offer, times: Names, columns: Names) -> Offer:
    """The offer where times and columns have other names: none if they are gone, several if they have several."""
    if offer.ended:
        return offer
    return Offer(
        frozenset(n for c in offer.bounds for n in times.get(c, ())),
        frozenset(Template.of(dict(tags)) for t in offer.templates for tags in _named(t, columns)),
        frozenset(n for c in offer.anything for n in columns.get(c, ())),
    ).pruned()


def _named(template: Template, columns: Names) -> list[list[tuple[str, Class]]]:
    made: list[list[tuple[str, Class]]] = [[]]
    for c, k in template.tags:
        made = [[*tags, (n, k)] for tags in made for n in columns.get(c, ())][:MOST_TEMPLATES]
    return made


def crossed(offers: Iterable[Offer]) -> Offer:
    """What all of several streams offer together: what is sure of each is sure of their rows, where all say it.

    A stream that has ended agrees with whatever the others say. Names are those of the result.
    """
    open_ones = [o for o in offers if not o.ended]
    if not open_ones:
        return ENDED
    both = open_ones[0]
    for other in open_ones[1:]:
        templates = {merged(a, b) for a in both.all for b in other.all}
        templates |= _with_anything(both, other) | _with_anything(other, both)
        only = both.anything - other.anything, other.anything - both.anything
        templates |= {Template.of({a: "+", b: "+"}) for a in only[0] for b in only[1]}
        bounds = both.bounds & other.bounds
        bare = {Template.of({c: "+"}) for c in bounds}
        both = Offer(bounds, frozenset(templates - bare), both.anything & other.anything).pruned()
    return both


def _with_anything(one: Offer, other: Offer) -> set[Template]:
    """The templates of one stream where the other punctuates anything on some columns."""
    made: set[Template] = set()
    for t in one.all:
        if t.columns & other.anything:
            made.add(t)
        else:
            made |= {merged(t, Template.of({c: "+"})) for c in other.anything}
    return made
