"""What sources promise: the scheme of each policy."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.model.node import Source
from slackwater.model.policy import Punctuated
from slackwater.semantics.contracts.offers import ENDED, Offer
from slackwater.semantics.contracts.template_text import parse_scheme
from slackwater.semantics.contracts.templates import Template, covers
from slackwater.semantics.pattern_text import PATTERN_TYPES


@dataclass(frozen=True)
class Promise:
    """What a source is sure to say: what it ``declared``, one way or another, and what counts as said because it
    declares nothing (``assumed``).
    """

    declared: Offer
    assumed: Offer

    @property
    def is_open(self) -> bool:
        """Whether the stream is punctuated by patterns of which it does not say the form."""
        return self.declared != self.assumed

    @property
    def piling(self) -> tuple[Template, ...]:
        """Templates whose patterns stay for ever: single values, and nothing up to a value ever covers them."""
        rising = [t for t in self.declared.all if all(k == "+" for _, k in t.tags)]
        return tuple(
            t
            for t in self.declared.scheme
            if any(k == "#" for _, k in t.tags) and not any(covers(wide, t) for wide in rising)
        )


def has_patterns(source: Source, policy: Punctuated) -> bool:
    """Whether punctuation of a source is patterns; else it is bounds."""
    field = source.field(policy.column)
    return field is not None and field.type.startswith("map<")


def testable(source: Source) -> frozenset[str]:
    """The columns that patterns can test."""
    return frozenset(f.name for f in source.schema if f.type in PATTERN_TYPES)


def promise(source: Source) -> Promise:
    """What a source promises: every policy a bound on its time; patterns what ``scheme=`` declares."""
    if source.end_of_stream:
        return Promise(ENDED, ENDED)
    bounds, templates = set(), set()
    carrying, declaring = set(), set()
    for time, policy in zip(source.times, source.policies, strict=True):
        if not isinstance(policy, Punctuated) or not has_patterns(source, policy):
            bounds.add(time.name)
            continue
        carrying.add(policy.column)
        if policy.scheme is not None:
            declaring.add(policy.column)
            templates |= set(parse_scheme(policy.scheme, {f.name: f.type for f in source.schema}))
    linear = {t.name for t in source.times if Template.of({t.name: "+"}) in templates}
    patterns = frozenset(templates - {Template.of({c: "+"}) for c in linear})
    declared = Offer(frozenset(bounds | linear), patterns)
    if carrying <= declaring:
        return Promise(declared, declared)
    every = frozenset(t.name for t in source.times)
    return Promise(declared, Offer(every, patterns, testable(source)))
