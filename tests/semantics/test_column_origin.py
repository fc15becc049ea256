"""Where a column's values come from, over random queries that know it by how they were made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.model.join import Band
from slackwater.model.node import (
    LATE_FIELDS,
    Aggregate,
    Dedup,
    Filter,
    Join,
    Late,
    Node,
    Project,
    Sort,
    Source,
    Union,
)
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.semantics.column_origin import column_origin

TS = TimeColumn("ts", "long", None)
SOURCES = tuple(
    Source(tuple(Field(f"{s}{c}", "bigint") for c in ("k", "n", "ts")), (TS,), s)
    for s in ("a", "b")
)


class Made(NamedTuple):
    """A query, and for each of its columns the column of each source that it just is."""

    node: Node
    origins: list[dict[str, str]]

    @property
    def names(self) -> list[str]:
        return [f.name for f in self.node.schema]


def of_source(source: Source) -> Made:
    return Made(source, [{source.name: f.name} for f in source.schema])


def expression(name: str, plain: bool) -> Expr:
    return column(name, "bigint") if plain else Expr(f"`{name}` + 1", "bigint")


@st.composite
def steps(draw: st.DrawFn, below: st.SearchStrategy[Made]) -> Made:
    """One operator more."""
    made = draw(below)
    node, names = made.node, made.names
    kind = draw(
        st.sampled_from(["filter", "dedup", "sort", "project", "aggregate", "union", "join"])
    )
    if kind == "filter":
        return Made(Filter(node.schema, (TS,), node), made.origins)
    if kind == "dedup":
        return Made(Dedup(node.schema, (TS,), node), made.origins)
    if kind == "sort":
        return Made(Sort(node.schema, (TS,), node, "ts"), made.origins)
    if kind in ("project", "aggregate"):
        picks = st.tuples(st.integers(0, len(names) - 1), st.booleans())
        picked = draw(st.lists(picks, min_size=1, max_size=4))
        # New names may be old names of other columns, but not those of a window's own.
        free = dict.fromkeys([*names, "x", "`y", "z", "u"]).keys() - {"wid", "total"}
        new = draw(st.permutations(sorted(free)))[: len(picked)]
        columns = tuple(
            Named(n, expression(names[i], plain)) for n, (i, plain) in zip(new, picked, strict=True)
        )
        origins = [made.origins[i] if plain else {} for i, plain in picked]
        schema = tuple(Field(n, "bigint") for n in new)
        if kind == "project":
            return Made(Project(schema, (TS,), node, columns), origins)
        own = (Field("wid", "bigint"), Field("total", "bigint"))
        window = TimeWindow(5, 5, 0, "ts")
        return Made(Aggregate((*schema, *own), (TS,), node, columns, window), [*origins, {}, {}])
    other = draw(below)
    if kind == "join":
        outputs = tuple(Named(f"{s}{n}", column(n, "bigint")) for s, n in zip("ab", names * 2))
        schema = tuple(Field(o.name, "bigint") for o in outputs)
        join = Join(schema, (TS,), (node, other.node), within=Band(0, 0), outputs=outputs)
        return Made(join, [{} for _ in outputs])
    # Columns go by place, and the first input that has one of a source gives it.
    width = min(len(names), len(other.names))
    sides = [cut(made, width), cut(other, width)]
    union = Union(sides[0].node.schema, (TS,), (sides[0].node, sides[1].node))
    pairs = zip(sides[0].origins, sides[1].origins, strict=True)
    return Made(union, [second | first for first, second in pairs])


def cut(made: Made, width: int) -> Made:
    schema = made.node.schema[:width]
    columns = tuple(Named(f.name, column(f.name, f.type)) for f in schema)
    return Made(Project(schema, (TS,), made.node, columns), made.origins[:width])


QUERIES = st.recursive(st.sampled_from(SOURCES).map(of_source), steps, max_leaves=8)


@given(QUERIES)
def test_a_column_is_traced_to_the_source_it_was_made_of(made: Made) -> None:
    for name, origins in zip(made.names, made.origins, strict=True):
        assert [column_origin(made.node, name, s) for s in SOURCES] == [
            origins.get(s.name) for s in SOURCES
        ]


@given(QUERIES)
def test_a_column_that_is_not_there_comes_from_nowhere(made: Made) -> None:
    assert column_origin(made.node, "nowhere", SOURCES[0]) is None


def test_why_a_row_is_late_is_no_column_of_its_source() -> None:
    source = SOURCES[0]
    late = Late((*source.schema, *LATE_FIELDS), (TS,), source)
    origins = {f.name: column_origin(late, f.name, source) for f in late.schema}
    assert origins == {
        **{f.name: f.name for f in source.schema},
        **{f.name: None for f in LATE_FIELDS},
    }


@dataclass(frozen=True)
class Renaming(Filter):
    """An operator with one input that no registry knows: it may well swap columns."""


def test_an_unknown_operator_is_not_taken_to_pass_columns() -> None:
    node = Renaming(SOURCES[0].schema, (TS,), SOURCES[0])
    above = Filter(node.schema, (TS,), node)
    with pytest.raises(AnalysisError, match=r"Renaming has no entry in .*semantics/operators"):
        column_origin(above, "ak", SOURCES[0])
