"""Joins: a later result holds a row that has not arrived yet (see `semantics.join`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slackwater.model.join import Anytime, Tumbling, Within, is_existence
from slackwater.model.node import Join, raw_name
from slackwater.model.schema import column
from slackwater.semantics.contracts.needs import Need, Way, by_bound
from slackwater.semantics.contracts.offers import ENDED, Offer, crossed, renamed
from slackwater.semantics.contracts.templates import Template
from slackwater.semantics.feedback.columns import joined, parted
from slackwater.semantics.join import (
    Reading,
    corners,
    is_empty,
    last_partner,
    outer_inputs,
    reaches,
    rows_within,
)
from slackwater.semantics.join_patterns import (
    binds_time,
    carriers,
    key_names,
    passed,
    result_bound,
    useful_columns,
    uses_patterns,
    want,
)
from slackwater.semantics.limits import START, Bounds
from slackwater.semantics.operators import common
from slackwater.semantics.operators.answers import (
    Known,
    Newest,
    Points,
    Reaction,
    Trace,
    Traced,
    least,
)
from slackwater.semantics.pattern_wants import Want, plain_column
from slackwater.semantics.patterns import Pattern, Patterns, Test

copies = common.no_copies  # an output may be of either input, or null


def entering(node: Join) -> tuple[str, ...]:
    return node.on


def bounds(node: Join, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]) -> dict[str, int]:
    """Bounds of a join's own time (the greatest), of the least, and of each input's time that is kept."""
    own = [b[on] for b, on in zip(inputs, node.on, strict=True)]
    return {t.name: result_bound(node, own, t.name) for t in node.times}


def wants(node: Join, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    """Patterns on keys and time; what consumers can use of the results is on these, too."""
    if not uses_patterns(node):
        return common.no_wants(node, above)
    return tuple((want(node, i),) for i in range(len(node.inputs)))


def patterns(
    node: Join,
    inputs: Sequence[Patterns],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Patterns],
) -> Patterns:
    return passed(node, inputs, bounds)


def frontier(node: Join, columns: Sequence[str], known: Known) -> Points:
    if outer_inputs(node.how) or is_existence(node.how):
        # An unmatched row comes out when its own time is old, whatever the other's is.
        return common.bounds_alone(node, columns, known)
    bounds = [known.bound(child, on) for child, on in zip(node.inputs, node.on, strict=True)]
    held = known.hold(node)
    if held is not None:
        bounds = [min(b, h) for b, h in zip(bounds, held, strict=True)]
    place = {name: i for i, name in enumerate(node.time_names)}
    kinds = {t.name: t.kind for t in node.times}

    def time(point: Sequence[int], column: str) -> int:
        if column in place:
            return point[place[column]]
        return max(point) if kinds[column] == "greatest" else min(point)

    points = corners(node.within, bounds, node.how)
    return least(tuple(time(point, c) for c in columns) for point in points)


def trace(node: Join, name: str, ask: Trace) -> list[Traced]:
    if not ask.joins:
        return []  # which windows the results of a row are in is not for the row to say
    if isinstance(node.within, Anytime):
        return []  # no time of a row says anything of those of its results
    # Whatever time of the results is followed, its bound is behind the inputs' by the widest span at most.
    behind = _lag(node.within)
    return [
        (chain, moved - behind)
        for child, on in zip(node.inputs, node.on, strict=True)
        for chain, moved in ask.below(child, on)
    ]


def _lag(within: Within) -> int:
    """How far a bound of the results may lie behind the least bound of the inputs."""
    return within.window.slide if isinstance(within, Tumbling) else max(0, *reaches(within))


def feedback(node: Join, records: Patterns) -> Reaction:
    """A row may go to which every result that it can be in matches a record.

    Where rows without a partner come out, too, a row that goes may leave another alone that had a partner. Such results
    must match the record as well, and the join is dark for them.
    """
    if is_empty(node.within):
        return common.only_guarded(node, records)
    each = ((r, *_sent(node, r)) for r in records)
    return Reaction.of(len(node.inputs), each, alone=bool(outer_inputs(node.how)))


def _sent(node: Join, record: Pattern) -> tuple[list[Pattern | None], bool]:
    """What goes on to each input, and whether the join gets dark by it."""
    inputs = range(len(node.inputs))
    if node.how == "inner":
        return [_of_input(node, i, record) for i in inputs], False
    kept = _preserved(node)
    sent = [_of_input(node, i, record) for i in inputs]
    if any(sent[i] is None for i in kept):
        return [None for _ in inputs], False
    # What goes to the one preserved input leaves no other row without a partner.
    leaves = any(s is not None for i, s in enumerate(sent) if kept != (i,))
    return sent, leaves and bool(outer_inputs(node.how))


def _preserved(node: Join) -> tuple[int, ...]:
    """The inputs of which a result always has what it tells of a row: a semi and an anti join tell of the left one."""
    return (0,) if is_existence(node.how) else outer_inputs(node.how)


def _of_input(node: Join, i: int, record: Pattern) -> Pattern | None:
    """The rows of input i of which all results match a record; None if that is not for a row to tell."""
    below = Pattern(())
    for name, test in record.tests:
        mine = _place(node, i, name)
        if mine is not None:
            below &= Pattern.of({mine: test})
            continue
        times = _times(node, i, name, test)
        if times is None:
            return None
        below &= Pattern.of({node.on[i]: times})
    return below


def _place(node: Join, i: int, name: str) -> str | None:
    """The column of input i that has the value of an output's column in every result that matters; None if none has.

    Of an inner join that is each input's key, since keys are equal. If rows of an input come out alone, the value must be
    that row's own.
    """
    kept = _preserved(node)
    if name in node.time_names:
        owner = node.time_names.index(name)
        fits = owner == i and (not kept or kept == (i,))
        return node.on[i] if fits else None
    whole, part = parted(node, name)
    text = next((o.expr.sql for o in node.outputs if o.name == whole), None)
    if text is None:
        return None
    owners = {
        column(raw_name(j, f.name), f.type).sql: (j, f.name)
        for j, child in enumerate(node.inputs)
        for f in child.schema
    }
    for key in _keys(node):
        raws = [column(raw_name(j, n), "").sql for j, n in enumerate(key)]
        if text == f"coalesce({', '.join(raws)})":
            return joined(node.inputs[i], key[i], part)
        if text in raws and (not kept or kept == (raws.index(text),)):
            return joined(node.inputs[i], key[i], part)
    owner, own = owners.get(text, (-1, ""))
    fits = owner == i and (not kept or kept == (i,))
    return joined(node.inputs[i], own, part) if fits else None


def _keys(node: Join) -> list[tuple[str, ...]]:
    """Keys that are columns of one type in all inputs: their values are equal in every pair."""
    found = []
    for key in zip(*node.keys, strict=True):
        names = [plain_column(k.expr) for k in key]
        types = {k.expr.type for k in key}
        if len(types) == 1 and all(n is not None for n in names):
            found.append(tuple(n or "" for n in names))
    return found


def _times(node: Join, i: int, name: str, test: Test) -> Test | None:
    """A test on a time of the results as one on the time of input i; None if that says nothing of the other."""
    inputs = range(len(node.inputs))
    kept = _preserved(node)
    if name in node.time_names:
        # With rows that come out alone a time is a column of its side, and no more.
        return None if kept else rows_within(node.within, i, [node.time_names.index(name)], test)
    kind = next((t.kind for t in node.times if t.name == name), None)
    if kind not in ("greatest", "least") or is_existence(node.how):
        return None
    reading: Reading = "greatest" if kind == "greatest" else "least"
    found = rows_within(node.within, i, inputs, test, reading)
    if kept:
        # Alone, a row has its own time only: that of this input, or of a partner which this row leaves alone.
        found &= rows_within(node.within, i, [i] if kept == (i,) else kept, test)
    return found


def newest(
    node: Join, inputs: Sequence[Newest], bounds: Sequence[Bounds], sources: Mapping[str, Newest]
) -> dict[str, int]:
    """Each time of the results up to the last that a partner of a missing row can have."""
    own = [n.get(on, START) for n, on in zip(inputs, node.on, strict=True)]
    reached = [
        max(last_partner(node.within, j, i, t) if i != j else t for j, t in enumerate(own))
        for i in range(len(own))
    ]
    named = zip(node.time_names, reached, strict=False)
    # The time of an input may be made of several columns, and be none of the results' itself.
    shown = {f.name for f in node.schema} | {t.name for t in node.times}
    found = {name: time for name, time in named if name in shown}
    return found | {t.name: max(reached) for t in node.times if t.name not in found}


def heard(
    node: Join, inputs: Sequence[Newest], bounds: Sequence[Bounds], sources: Mapping[str, Newest]
) -> dict[str, int]:
    """No result is newer than its rows, and these have come."""
    own = [n.get(on, START) for n, on in zip(inputs, node.on, strict=True)]
    found = dict(zip(node.time_names, own, strict=False))
    return {
        t.name: found.get(t.name, min(own) if t.kind == "least" else max(own)) for t in node.times
    }


def offers(node: Join, inputs: Sequence[Offer], sources: Mapping[str, Offer]) -> Offer:
    """Bounds on all times of the results, once all inputs have theirs; and what all of them close for the same keys."""
    if all(i.ended for i in inputs):
        return ENDED
    times: frozenset[str] = frozenset()
    is_bound = [i.ended or on in i.bounds for i, on in zip(inputs, node.on, strict=True)]
    if all(is_bound) and not isinstance(node.within, Anytime):
        times = frozenset(t.name for t in node.times)
    if not uses_patterns(node):
        return Offer(times)
    both = crossed([_of_keys(node, i, offer) for i, offer in enumerate(inputs)])
    names: dict[str, list[str]] = {str(n): own for n, own in enumerate(carriers(node))}
    if not isinstance(node.within, Anytime):
        names[_TIME] = [t.name for t in node.times]
    by_keys = renamed(both, {}, names)
    return Offer(times, by_keys.templates, by_keys.anything - times)


_TIME = "time"
"""Stands for the time that a join binds, beside the numbers of its keys."""


def _of_keys(node: Join, i: int, offer: Offer) -> Offer:
    """What an input offers on keys, by their numbers, and on the time that the join binds."""
    columns: dict[str, list[str]] = {}
    for n, name in enumerate(key_names(node, i)):
        if name is not None:
            columns.setdefault(name, []).append(str(n))
    if binds_time(node, i):
        columns[node.on[i]] = [_TIME]
        # Single times are not all that a row could meet.
        kept = frozenset(t for t in offer.templates if t.kind(node.on[i]) in "+-")
        offer = replace(offer, templates=kept)
    linear = {Template.of({c: "+"}) for c in offer.bounds if c in columns}
    offer = replace(offer, templates=offer.templates | linear)
    return renamed(offer, {}, columns)


def needs(node: Join) -> tuple[Need, ...]:
    """A row is kept until the *other* inputs have closed all that it could meet: by bounds, or by patterns on its keys."""
    if is_empty(node.within):
        return ()
    keys = [k.name for k in node.keys[0]]
    what = f"join on {', '.join(keys)}" if keys else "join"
    return tuple(
        Need(i, (_way(node, i),), f"rows of the other side of the {what}", of_others=True)
        for i in range(len(node.inputs))
    )


def _way(node: Join, i: int) -> Way:
    """What input i must close, so that rows of the others go."""
    times = {t.name for t in node.inputs[i].times}
    keys = frozenset(n for n in key_names(node, i) if n is not None)
    bounds = keys & times
    if not isinstance(node.within, Anytime):
        bounds |= {node.on[i]}
    if not uses_patterns(node):
        return by_bound(node.on[i])
    return Way(bounds, useful_columns(node, i), keys)


def keeps(node: Join) -> str:
    if isinstance(node.within, Anytime):
        keys = ", ".join(k.name for k in node.keys[0])
        which = "left rows that have found no partner yet, right rows that may still be one" if is_existence(node.how) else "rows that may still find a partner"  # fmt: skip
        return f"{which}, until punctuation of the other side closes their {keys}"
    if is_existence(node.how):
        return (
            "left rows that have found no partner yet, right rows that may still be one, by the other side's bound "
            f"on {', '.join(node.on)}"
        )
    return f"rows that may still find a partner, by the other side's bound on {', '.join(node.on)}"
