"""Small plans over streams with three columns that can be punctuated, and streams that obey what those declare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from slackwater.model.aggregate import Primitive
from slackwater.model.join import Anytime, Band, How, Reach, Tumbling, Within, is_existence
from slackwater.model.join_times import join_times
from slackwater.model.node import (
    Aggregate,
    Dedup,
    Join,
    Node,
    Project,
    Sort,
    Source,
    Union,
    raw_name,
)
from slackwater.model.policy import Ordered, Policy, Punctuated
from slackwater.model.schema import Field, Named, column
from slackwater.model.time import TimeColumn, window_time
from slackwater.model.window import (
    ByTuple,
    RowWindow,
    SessionWindow,
    TimeWindow,
    Window,
    all_time,
)
from slackwater.semantics.contracts.template_text import parse_template
from slackwater.semantics.contracts.templates import Template
from slackwater.semantics.patterns import Pattern, Test

MAP = "map<string,struct<op:string,value:string>>"
FIELDS = (
    Field("k", "bigint"), Field("g", "bigint"), Field("ts", "bigint"), Field("p", MAP), Field("b", "bigint"),
)  # fmt: skip
TIME = TimeColumn("ts", "long", None)
COLUMNS = ("k", "g", "ts")
STEP = 10
"""How far a round of a stream goes on in each column."""


def punctuated(name: str, *scheme: str) -> Source:
    """A stream that declares a scheme."""
    return source(name, Punctuated("p", scheme=list(scheme)))


def linear(name: str = "s") -> Source:
    """A stream with bounds on its time."""
    return source(name, Punctuated("b"))


def source(name: str = "s", policy: Policy | None = None) -> Source:
    """A stream of keys k and g, and a time."""
    return Source(FIELDS, (TIME,), name, policies=(policy or Ordered(),), replay=True)


def grouped(child: Node, keys: Sequence[str], window: Window) -> Aggregate:
    """Rows counted per window and keys."""
    count = Primitive("_a0", "count", (), "bigint")
    time = window_time("window", next(t for t in child.times if t.name == window.on))
    if isinstance(window, RowWindow):
        time = window_time("window", TimeColumn("", "long", None))
    return Aggregate(
        (
            *(Field(k, "bigint") for k in keys),
            *([] if isinstance(window, SessionWindow) else [Field("wid", "bigint", False)]),
            Field("window", "struct<start:bigint,end:bigint>", False),
            Field("n", "bigint"),
        ),
        (time,),
        child,
        tuple(Named(k, column(k, "bigint")) for k in keys),
        window,
        (count,),
        (Named("n", column(count.column, "bigint")),),
    )


def selected(child: Node, names: dict[str, str], by: int = 0) -> Project:
    """Columns under new names, the time of them moved."""
    times = {t.name for t in child.times}
    kept = {old: new for old, new in names.items() if old in times}
    types = {f.name: f.type for f in child.schema}
    columns = []
    for old, new in names.items():
        plain = column(old, types[old])
        if old in times and by:
            plain = type(plain)(f"`{old}` + {by}", types[old], f'"{old}" + {by}')
        columns.append(Named(new, plain))
    return Project(
        tuple(Field(new, types[old]) for old, new in names.items()),
        tuple(TimeColumn(kept[t.name], "long", None) for t in child.times if t.name in kept),
        child,
        tuple(columns),
        tuple((new, old, by) for old, new in kept.items()),
    )


def united(*inputs: Node) -> Union:
    """The rows of streams with the same columns."""
    return Union(inputs[0].schema, inputs[0].times, inputs)


def joined(*inputs: Node, within: Within | None = None, how: How = "inner") -> Join:
    """Rows with equal k; columns are prefixed by the number of the input."""
    own = [TimeColumn(f"ts{i}", "long", None) for i in range(len(inputs))]
    outputs = [
        Named(f"{f.name}{i}", column(raw_name(i, f.name), f.type))
        for i, child in enumerate(inputs[:1] if is_existence(how) else inputs)
        for f in child.schema
        if f.name not in ("p", "b")
    ]
    span = within or (Band(3, 3) if len(inputs) == 2 else Reach((3,) * len(inputs)))
    return Join(
        tuple(Field(o.name, o.expr.type) for o in outputs),
        join_times(own, how),
        inputs,
        tuple((Named("k", column("k", "bigint")),) for _ in inputs),
        ("ts",) * len(inputs),
        span,
        how,
        None,
        tuple(outputs),
        tuple(t.name for t in (own[:1] if is_existence(how) else own)),
    )


# --- random ones ----------------------------------------------------------------------------------------

TEMPLATES = tuple(
    parse_template(f"[[{', '.join(f'{c}:{k}' for c, k in zip(COLUMNS, kinds, strict=True))}]]")
    for kinds in [
        (a, b, c) for a in "+#-" for b in "+#-" for c in "+#-" if (a, b, c) != ("-", "-", "-")
    ]
)

schemes = st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=3, unique=True)
sources = st.none() | schemes
"""What a stream promises: bounds on its time (None), or what a scheme declares."""


def made_source(name: str, scheme: list[Template] | None) -> Source:
    """The source of a random promise."""
    return linear(name) if scheme is None else punctuated(name, *map(str, scheme))


windows = st.sampled_from(
    (
        TimeWindow(10, 10, 0, "ts"), TimeWindow(10, 5, 3, "ts"), all_time("ts"), SessionWindow(4, "ts"),
        ByTuple(5, 1, "rank", "ts"),
    )
)  # fmt: skip
"""Windows whose state can be freed by bounds or patterns."""
keys = st.lists(st.sampled_from(["k", "g"]), unique=True, max_size=2).map(sorted)
withins = st.sampled_from(
    (Band(3, 3), Band(0, 5), Tumbling(TimeWindow(5, 5, 0, "ts")), Anytime(), Anytime())
)


@st.composite
def plans(draw: st.DrawFn) -> Node:
    """An operator with state over one or two streams, maybe with row operators between and another one above."""
    one = made_source("s", draw(sources))
    below: Node = one
    shape = draw(st.sampled_from(("one", "one", "union", "join", "join")))
    if shape == "union":
        below = united(one, made_source("r", draw(sources)))
    elif shape == "join":
        other = made_source("r", draw(sources))
        how = draw(st.sampled_from(("inner", "left", "right", "full", "left_semi", "left_anti")))
        pairs = joined(one, other, within=draw(withins), how=how)
        # All rows have a partner, so that an anti join has no results to be grouped.
        if how == "left_anti" or draw(st.booleans()):
            return pairs
        names = [f.name for f in pairs.schema if f.name[0] in "kg"]
        by, time = draw(st.lists(st.sampled_from(names), unique=True, max_size=2)), pairs.times[0].name  # fmt: skip
        window = draw(st.sampled_from((all_time(time), TimeWindow(10, 10, 0, time))))
        return grouped(pairs, sorted(by), window)
    moved = draw(st.sampled_from((None, {"k": "k", "g": "g", "ts": "ts"}, {"g": "k", "k": "g", "ts": "ts"})))  # fmt: skip
    if moved is not None:
        below = selected(below, moved, draw(st.sampled_from((0, 3))))
    kind = draw(st.sampled_from(("aggregate", "aggregate", "aggregate", "sort", "dedup", "twice")))
    if kind == "sort":
        return Sort(below.schema, below.times, below, "ts")
    if kind == "dedup":
        subset = (*draw(keys), "ts")
        return Dedup(below.schema, below.times, below, subset, None, "ts")
    window = draw(windows)
    top = grouped(below, draw(keys), window)
    if kind == "twice" and isinstance(window, TimeWindow) and window.range < 100:
        outer = draw(st.lists(st.sampled_from([k.name for k in top.keys]), unique=True)) if top.keys else []  # fmt: skip
        return grouped(top, sorted(outer), TimeWindow(20, 20, 0, "window"))
    return top


# --- streams that obey ------------------------------------------------------------------------------------


def rows_of(round: int, rows: Sequence[tuple[int, int, int]]) -> list[dict[str, Any]]:
    """Rows of a round: values that no other round has, in order of the rounds in every column."""
    base = round * STEP
    return [
        {"k": base + k, "g": base + g, "ts": base + t, "p": None, "b": None} for k, g, t in rows
    ]


def covering(template: Template, round: int, rows: Sequence[dict[str, Any]]) -> Pattern:
    """Punctuation of a form that covers all rows so far, up to a round: of single values those that rows have had."""
    return Pattern.of(
        {
            c: Test.below((round + 1) * STEP) if k == "+" else Test.among(r[c] for r in rows)
            for c, k in template.tags
        }
    )


def written(pattern: Pattern) -> dict[str, dict[str, Any]]:
    """A pattern as a row of a stream carries it."""
    said = {}
    for c, test in pattern.tests:
        values = [v for low, high in test.spans if low is not None for v in range(low, high)]
        said[c] = (
            {"op": "in", "value": str(values)} if values else {"op": "<", "value": str(test.limit)}
        )
    return said


def punctuation(pattern: Pattern) -> dict[str, Any]:
    """The row that carries it."""
    return {"k": None, "g": None, "ts": None, "p": written(pattern), "b": None}


def bound(round: int) -> dict[str, Any]:
    """The row that carries a bound."""
    return {"k": None, "g": None, "ts": None, "p": None, "b": (round + 1) * STEP}
