"""What a query's description says of its outputs, so that another process can check feedback: columns, types, times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slackwater.engine.plan.plan import Plan
from slackwater.model.node import Node, Source
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.semantics.bounds import topological
from slackwater.semantics.feedback.columns import Columns, struct_fields
from slackwater.semantics.feedback_rules import ends_by_itself, in_result_time
from slackwater.semantics.pattern_rules import Want, propagate_patterns
from slackwater.semantics.patterns import Pattern, Test

RESULTS = "results"
"""The part of a description that has them."""


@dataclass(frozen=True)
class Result:
    """One output: its ``columns``, which of them (as records name them) a bound will pass, and where rows may be dropped for it.

    ``places`` are names as in counts of what was dropped, and of a column that is ``punctuated`` a pattern of the streams may
    say that no later row has some of its values; none, if an older version started the query.
    """

    columns: Columns
    passing: frozenset[str]
    places: tuple[str, ...] = ()
    punctuated: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Results:
    """The outputs of a query by name.

    ``clock`` says whether leases go by a clock; without one they go by the newest time of the streams, which may be
    ``integer``s.
    """

    outputs: Mapping[str, Result]
    ansi: bool = True
    clock: bool = True
    integer: bool = False


def results_of(plan: Plan, clock: bool) -> dict[str, Any]:
    """The part of a description that says what the outputs of a plan are."""
    return {
        "outputs": {
            o.name: {
                "columns": [[f.name, f.type] for f in o.node.schema],
                "windows": [t.name for t in o.node.times if t.kind == "window"],
                "passing": sorted(_passing(o.node)),
                "places": [*_below(plan, o.node), f"out:{o.name}"],
                "punctuated": sorted(_punctuated(o.node)),
            }
            for o in plan.outputs
        },
        "zone": plan.zone,
        "ansi": plan.ansi,
        "clock": clock,
        "integer": any(t.is_integer for s in plan.sources for t in s.times),
    }


def _below(plan: Plan, node: Node) -> list[str]:
    """The names of an output's operators and streams."""
    reached = {id(n) for n in topological([node])}
    return [name for n, name in zip(plan.nodes, plan.names, strict=True) if id(n) in reached]


def _punctuated(node: Node) -> set[str]:
    """Columns that a pattern may be about alone, if streams say one of each of their columns."""
    nodes = topological([node])
    said = {
        s.name: tuple(
            Pattern.of({f.name: Test.among([0])})
            for f in s.schema
            if f.name not in {t.name for t in s.times}
        )
        for s in nodes
        if isinstance(s, Source)
    }
    columns = [f.name for f in node.schema]
    asked = {len(nodes) - 1: [Want(frozenset([c])) for c in columns]}
    *_, found = propagate_patterns(nodes, [{} for _ in nodes], said, asked)
    return {c for c in columns if any(p.columns == (c,) for p in found)}


def _passing(node: Node) -> set[str]:
    """Columns of which a test that is not open above will be passed by a bound."""
    times = [t.name for t in node.times]
    names = [f.name for f in node.schema]
    names += [f"{f.name}.{part}" for f in node.schema for part, _ in struct_fields(f.type)]
    return {
        n for n in (*names, *times)
        if n and ends_by_itself(in_result_time(node, Pattern.of({n: Test.below(0)})), times)
    }  # fmt: skip


def read_results(json: Mapping[str, Any]) -> Results:
    """From a description's part."""

    def result(one: Mapping[str, Any]) -> Result:
        fields = tuple(Field(name, type) for name, type in one["columns"])
        times = tuple(TimeColumn(name, "window") for name in one["windows"])
        columns = Columns(fields, times, json["zone"])
        places, punctuated = tuple(one.get("places", ())), frozenset(one.get("punctuated", ()))
        return Result(columns, frozenset(one["passing"]), places, punctuated)

    return Results(
        {name: result(one) for name, one in json["outputs"].items()},
        json["ansi"], json["clock"], json["integer"],
    )  # fmt: skip
