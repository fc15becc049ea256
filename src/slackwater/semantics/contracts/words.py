"""Verdicts in words: what is missing, where, and the smallest change that would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.aggregate import Primitive
from slackwater.model.node import (
    Aggregate,
    Dedup,
    Held,
    Join,
    Late,
    Lookup,
    Node,
    Sort,
    Source,
    Waiting,
)
from slackwater.model.policy import Punctuated
from slackwater.model.window import Landmark, is_all_time
from slackwater.semantics.bounds import topological
from slackwater.semantics.column_origin import column_origin
from slackwater.semantics.contracts.derive import Unmet
from slackwater.semantics.contracts.needs import Need
from slackwater.semantics.contracts.offers import Offer
from slackwater.semantics.contracts.requirements import Demand, meeting, missing
from slackwater.semantics.contracts.sources import has_patterns
from slackwater.semantics.pattern_rules import passes_patterns, plain_column
from slackwater.semantics.settings import resolve_source

PATTERN_TYPE = "map<string,struct<op:string,value:string>>"
WINDOW = 'add a window: groupBy(..., sw.window("1 minute"))'

_CALLED: dict[type[Node], str] = {Late: "late rows", Sort: "sort()"}
_SMALLER = {
    "count_distinct": "approx_count_distinct",
    "percentile": "percentile_approx",
    "percentile_disc": "percentile_approx",
    "heavy_hitters": "sw.heavyHitters(..., error=0.001)",
    "mode": "sw.heavyHitters(..., error=0.001)",
}


def called(node: Node) -> str:
    """A short name for an operator."""
    if isinstance(node, Source):
        return f"stream '{node.given_name}'"
    if isinstance(node, Aggregate):
        keys = [k.name for k in node.keys]
        if is_all_time(node.window):
            return f"groupBy({', '.join(keys)}) without a window"
        ons = " and ".join(w.on for w in node.windows)
        return f"groupBy({', '.join([*keys, f'window on {ons}'])})"
    if isinstance(node, Dedup):
        return f"dropDuplicates({', '.join(node.subset)})"
    if isinstance(node, Join):
        keys = [k.name for k in node.keys[0]] if node.keys else []
        return f"{node.how} join on {', '.join(keys) or 'any rows'}"
    if isinstance(node, Held):
        return f"rows held for relation '{node.relation.name}'"
    if isinstance(node, Waiting):
        return f"rows that wait for relation '{node.relation.name}'"
    if isinstance(node, Lookup):
        return f"{node.how} join with relation '{node.relation.name}'"
    if isinstance(node, Sort):
        return f"sort by {node.on}"
    return _CALLED.get(type(node), type(node).__name__.lower())


def columns_of(need: Need) -> tuple[str, ...]:
    """The columns that lack punctuation."""
    return tuple(sorted({c for w in need.ways for c in w.columns}))


def refusal(unmet: Unmet, input: Offer, offers: Mapping[str, Offer]) -> tuple[str, str]:
    """What is wrong and the way out. ``input`` is what the operator's input offers, ``offers`` what the sources do."""
    node, need = unmet.node, unmet.need
    if isinstance(node, Aggregate):
        if is_all_time(node.window):
            return _ungrouped(node, need, input, offers)
        growing = next((p for p in node.primitives if not p.traits.bounded), None)
        if isinstance(node.window, Landmark) and growing is not None:
            return _keeps_all(node, growing, smallest_change(node, need, offers))
    side = f", input {need.input + 1}" if len(node.children) > 1 else ""
    return (
        f"{called(node)}{side}: {need.state} would be kept for ever; to free them takes {_wanted(need)}, and what arrives "
        f"there has {input}",
        smallest_change(node, need, offers) or _another_plan(node, need),
    )


def _wanted(need: Need) -> str:
    """Which punctuation would free a state."""
    ways = []
    for w in need.ways:
        if w.bounds:
            ways.append(f"a bound on {' or '.join(sorted(w.bounds))}")
        patterns = w.up_to | w.single
        if patterns - w.bounds:
            ways.append(f"punctuation on {_some_of(patterns)}")
    return ", or ".join(ways) or "nothing but the end of the stream"


def _some_of(columns: frozenset[str]) -> str:
    names = sorted(columns)
    return names[0] if len(names) == 1 else f"some of {', '.join(names)} and no other column"


def smallest_change(node: Node, need: Need, offers: Mapping[str, Offer]) -> str:
    """The fewest promises of sources that would meet a need; nothing if no promises would."""
    able = meeting(node, need)
    if not able:
        return ""
    best = min((missing(c, offers) for c in able), key=lambda c: (len(c), _columns(c)))
    sources = {n.name: n for n in topological([node]) if isinstance(n, Source)}
    requests = [asked(d, sources[d.source]) for d in sorted(best, key=lambda d: d.source)]
    return "; and ".join(requests)


def _columns(choice: frozenset[Demand]) -> list[list[str]]:
    return sorted(sorted(d.way.columns) for d in choice)


def asked(demand: Demand, source: Source) -> str:
    """What to ask of the team that owns a source."""
    name = source.given_name
    template = demand.template
    by_patterns = any(
        isinstance(p, Punctuated) and has_patterns(source, p) for p in source.policies
    )
    if demand.way.bounds and not by_patterns:
        return f"let stream '{name}' progress on {min(demand.way.bounds)}"
    patterns = demand.way.up_to | demand.way.single
    how = (
        f'scheme=[..., "{template}"]'
        if by_patterns
        else (
            f'progress=sw.Punctuated("column", scheme=["{template}"]) with a column of type {PATTERN_TYPE}'
        )
    )
    return f"have stream '{name}' punctuated on {_some_of(patterns | demand.way.bounds)}, and declare it: {how}"  # fmt: skip


def _another_plan(node: Node, need: Need) -> str:
    below = topological([node.children[need.input]])
    late = any(isinstance(n, Late) for n in below)
    why = "late rows promise nothing before their stream ends" if late else "none of it gets there"
    return (
        f"no punctuation of the streams would do, since {why}: change the query, e.g. put the operator before that, "
        'or end the streams with option("endOfStream", True)'
    )


def _keeps_all(node: Aggregate, growing: Primitive, change: str) -> tuple[str, str]:
    smaller = _SMALLER.get(growing.function)
    instead = f"use {smaller}, whose state does not grow, or " if smaller else ""
    # Without what the analysis adds: the time of a collected value, constants.
    given = growing.args[:1] if growing.function == "collect_list" else growing.args
    call = f"{growing.function}({', '.join(a.sql for a in given)})"
    return (
        f"{call} over a landmark window keeps all values there ever were: a landmark window never ends, "
        f"so no bound on '{node.window.on}' frees them",
        f'{instead or "use "}a window that ends: sw.window("1 day", "1 hour")'
        + (f"; or {change}" if change else ""),
    )


def _ungrouped(
    node: Aggregate, need: Need, input: Offer, offers: Mapping[str, Offer]
) -> tuple[str, str]:
    """Of groups without a window, which punctuation completes."""
    names = ", ".join(k.name for k in node.keys)
    if not node.keys:
        return (
            "an aggregate over all rows, without a window, never completes",
            'add a window: groupBy(sw.window("1 minute"))',
        )
    below = topological([node.child])
    blocking = next((n for n in below if not passes_patterns(n)), None)
    if blocking is not None:
        kind = _CALLED.get(type(blocking), type(blocking).__name__)
        return (
            f"groupBy({names}) without a window is completed by punctuation, which {kind} cannot pass on",
            f"{WINDOW}, or group before it",
        )
    sources = [n for n in below if isinstance(n, Source)]
    for source in sources:
        if not source.end_of_stream and not any(s.patterns for s in resolve_source(source)):
            return (
                f"groupBy({names}) without a window completes a group only by punctuation, and stream "
                f"'{source.given_name}' has none on these columns",
                f'{WINDOW}, or punctuate {names}: progress=sw.Punctuated("column") with a column of type '
                f"{PATTERN_TYPE}",
            )
    # Of a join, what reaches the groups is told by what arrives there.
    joined = any(isinstance(n, Join) for n in below)
    if not joined and not any(
        _reached(node.child, plain_column(k.expr), sources) for k in node.keys
    ):
        return (
            f"groupBy({names}) without a window completes a group only by punctuation, but none of these is a "
            "column of every stream it comes from",
            "group by a column that the streams have and punctuate, or add a window",
        )
    change = smallest_change(node, need, offers)
    return (
        f"groupBy({names}) without a window completes a group only by punctuation on {_some_of(frozenset(columns_of(need)))}, "
        f"and what arrives there has {input}",
        f"{change}; or {WINDOW}" if change else WINDOW,
    )


def _reached(node: Node, name: str | None, sources: Sequence[Source]) -> bool:
    """Whether a column just is a column of every source, so that patterns on it arrive."""
    return name is not None and all(column_origin(node, name, s) is not None for s in sources)
