"""The query of a transcript as a tree of operators, without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from slackwater.model.aggregate import Primitive
from slackwater.model.join_times import leaves, renamed
from slackwater.model.lookups import RelationJoin
from slackwater.model.node import (
    LATE_FIELDS,
    Aggregate,
    Dedup,
    Filter,
    Held,
    Join,
    Late,
    Lookup,
    Node,
    Outpaced,
    Pace,
    Parted,
    Project,
    Sort,
    Source,
    Union,
    Waiting,
)
from slackwater.model.policy import (
    BoundedDelay,
    BoundedLatency,
    BoundedRows,
    MaxDelay,
    Ordered,
    Policy,
    Punctuated,
)
from slackwater.model.reacting import Reacting
from slackwater.model.registry import Registry
from slackwater.model.relation import Relation
from slackwater.model.schema import Expr, Field, Named
from slackwater.model.time import Kind, TimeColumn, parse_duration, parse_span, window_time
from slackwater.model.unnamed_time import unnamed_origin
from slackwater.model.window import all_time
from slackwater.semantics.feedback_rules import must_exploit
from slackwater.testing.oracle.expressions import compile_expression, to_duck
from slackwater.testing.transcripts.aggregates import cut_calls
from slackwater.testing.transcripts.join import build_join
from slackwater.testing.transcripts.lookup import build_lookup
from slackwater.testing.transcripts.windows import (
    bad,
    build_window,
    has_wid,
    listed,
    time_column,
)

PATTERN = "map<string,struct<op:string,value:string>>"
_SAMPLES = {
    "bigint": 1, "double": 1.0, "string": "a", "boolean": True, "timestamp": 1, "timestamp_ntz": 1,
}  # fmt: skip
_TYPES = {bool: "boolean", int: "bigint", float: "double", str: "string"}
_MOVED = re.compile(r"^`?(\w+)`?\s*([+-])\s*(\d+)$")
_COLUMN = re.compile(r"^`?(\w+)`?$")
_FIELD = re.compile(r"^`?(\w+)`?\.`?(start|end)`?$")


def build_source(name: str, spec: Mapping[str, Any], zone: str = "UTC") -> Source:
    """A stream as a transcript declares it, in a session of that time zone."""
    known = {
        "columns", "time", "unit", "progress", "late", "order", "partition", "partitions",
    }  # fmt: skip
    if unknown := set(spec) - known:
        raise bad(f"stream '{name}': unknown {sorted(unknown)}", f"use: {sorted(known)}")
    columns = {c: PATTERN if t == "pattern" else str(t) for c, t in spec["columns"].items()}
    names = listed(spec["time"])
    unit = None
    if "unit" in spec:
        unit = parse_duration(f"1 {spec['unit']}")
    kinds: dict[str, Kind] = {"timestamp": "timestamp", "timestamp_ntz": "timestamp_ntz"}
    times = tuple(
        TimeColumn(c, kinds[columns[c]], 1) if columns[c] in kinds else TimeColumn(c, "long", unit)
        for c in names
    )
    progress = spec.get("progress", "max_delay")
    if len(names) > 1 and isinstance(progress, Mapping) and set(progress) <= set(names):
        policies = tuple(policy(progress.get(c, "max_delay")) for c in names)
    else:
        policies = (policy(progress),) * len(names)
    partitions = spec.get("partitions")
    return Source(
        tuple(Field(c, t) for c, t in columns.items()),
        times,
        name,
        policies=policies,
        late=spec.get("late", "admit"),
        order=tuple(listed(spec.get("order", []))),
        partition=spec.get("partition"),
        partitions=tuple(partitions) if isinstance(partitions, list) else partitions,
        replay=True,
        zone=zone,
    )


def policy(spec: Any) -> Policy:
    """A progress policy: a name, or a mapping of the name to its parameter, and modifiers."""
    options: dict[str, Any] = {spec: None} if isinstance(spec, str) else dict(spec)
    made: Policy
    if "ordered" in options:
        made = Ordered()
    elif "max_delay" in options:
        made = MaxDelay()
    elif "bounded_delay" in options:
        made = BoundedDelay(delay=options["bounded_delay"])
    elif "bounded_rows" in options:
        made = BoundedRows(rows=options["bounded_rows"])
    elif "punctuated" in options:
        made = Punctuated(column=options["punctuated"], data=bool(options.get("data")))
    elif "bounded_latency" in options:
        made = BoundedLatency(delay=options["bounded_latency"])
    else:
        raise bad(
            f"progress {spec!r} is not known",
            "use ordered, max_delay, bounded_delay, bounded_rows, bounded_latency or punctuated",
        )
    if "idle_after" in options:
        made = made.idleAfter(options["idle_after"])
    if "future_guard" in options:
        made = made.futureGuard(options["future_guard"], future=options.get("future", "keep"))
    if "lag_limit" in options:
        made = made.lagLimit(options["lag_limit"])
    if "in_steps" in options:
        made = made.inSteps(options["in_steps"])
    return made


class QueryBuilder:
    """Builds pipelines; a pipeline named in ``queries`` is built once and shared."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        queries: Mapping[str, Sequence[Any]],
        relations: Mapping[str, Relation] | None = None,
    ):
        self.sources = sources
        self.queries = queries
        self.relations = relations or {}
        self.lookups: dict[str, RelationJoin] = {}
        """Joins with a relation whose rows without a partner another pipeline may read, by the name that the step gives."""
        self._built: dict[str, Node] = {}

    def named(self, name: str) -> Node:
        """A stream, or another output's pipeline."""
        if name in self.sources:
            return self.sources[name]
        if name not in self._built:
            if name not in self.queries:
                raise bad(f"'{name}' is neither a stream nor an output", "name one of them")
            self._built[name] = self.pipeline(self.queries[name])
        return self._built[name]

    def pipeline(self, steps: Sequence[Mapping[str, Any]] | str) -> Node:
        """The operators of a list of steps."""
        if isinstance(steps, str):
            return self.named(steps)
        node: Node | None = None
        for step in steps:
            node = self._step(step, node)
        if node is None:
            raise bad("a pipeline is empty", "begin it with from:, late:, union: or join:")
        return node

    def _step(self, step: Mapping[str, Any], node: Node | None) -> Node:
        form = STEPS[operator_of(step)]
        if node is None and not form.begins:
            begin = ", ".join(f"{f.keys[0]}:" for f in STEPS.values() if f.begins)
            raise bad(f"a pipeline begins with {dict(step)!r}", f"begin it with {begin}")
        return _reacting(form.build(self, step, node), step)


def _reacting(node: Node, step: Mapping[str, Any]) -> Node:
    """The operator of a step, told by ``exploit``, ``propagate``, ``log`` and ``seal`` how to deal with feedback."""
    given = {name: step[name] for name in ("exploit", "propagate", "log", "seal") if name in step}
    if not given or isinstance(node, Source):
        return node
    settings = Reacting(**given)
    if settings.propagate and not settings.exploit and must_exploit(node):
        raise bad(
            f"step {dict(step)!r} propagates without exploiting",
            "results that lack rows would come out",
        )
    return replace(node, reacting=settings)


def operator_of(step: Mapping[str, Any]) -> type:
    """The type of operator that a step of a pipeline is."""
    for operator, form in STEPS.items():
        if any(key in step for key in form.keys):
            return operator
    known = ", ".join(f.keys[0] for f in STEPS.values())
    raise bad(f"step {dict(step)!r} is not known", f"use one of: {known}")


class Form(NamedTuple):
    """How a transcript writes an operator: the ``keys`` that tell it, any of them, and what it is built by.

    ``begins`` is whether a pipeline may begin with it; the node before it is None then.
    """

    keys: tuple[str, ...]
    build: Callable[[QueryBuilder, Mapping[str, Any], Any], Node]
    begins: bool = False


def _from(builder: QueryBuilder, step: Mapping[str, Any], node: Node | None) -> Node:
    return builder.named(step["from"])


def _late(builder: QueryBuilder, step: Mapping[str, Any], node: Node | None) -> Node:
    source = builder.sources[step["late"]]
    return Late((*source.schema, *LATE_FIELDS), source.times, source)


def _union(builder: QueryBuilder, step: Mapping[str, Any], node: Node | None) -> Node:
    inputs = [builder.pipeline(p) for p in step["union"]]
    inputs = inputs if node is None else [node, *inputs]
    inputs = [_named_as(inputs[0], i) for i in inputs]
    return Union(inputs[0].schema, inputs[0].times, tuple(inputs))


def _named_as(first: Node, node: Node) -> Node:
    """The rows of ``node`` under the names of the first input of a union, which takes columns by position."""
    names = [f.name for f in first.schema]
    own = [f.name for f in node.schema]
    return node if names == own else project(node, dict(zip(names, own, strict=True)))


def _join(builder: QueryBuilder, step: Mapping[str, Any], node: Node | None) -> Node:
    if node is not None:
        raise bad("join: after another step", "name that pipeline as an input: {from: ...}")
    return build_join(step, builder.pipeline, expression)


def _where(builder: QueryBuilder, step: Mapping[str, Any], node: Node) -> Node:
    return Filter(node.schema, node.times, node, expression(step["where"], node.schema))


def _select(builder: QueryBuilder, step: Mapping[str, Any], node: Node) -> Node:
    return project(node, step["select"])


def _dedup(builder: QueryBuilder, step: Mapping[str, Any], node: Node) -> Node:
    spec = step["dedup"]
    time = time_column(node, spec.get("time"))
    within = spec.get("within")
    if within is not None:
        within = parse_span(within, time, what="within", positive=False)
    return Dedup(node.schema, node.times, node, tuple(spec["subset"]), within, time.name)


def _sort(builder: QueryBuilder, step: Mapping[str, Any], node: Node) -> Node:
    time = time_column(node, step["sort"] if isinstance(step["sort"], str) else None)
    return Sort(node.schema, (time,), node, time.name)


def _pace(builder: QueryBuilder, step: Mapping[str, Any], node: Node) -> Node:
    """``{pace: limit}``, or with ``{outpaced: limit}`` the rows that it drops; ``clock: true`` and ``time`` may stand beside it."""
    kind, limit = (Pace, step["pace"]) if "pace" in step else (Outpaced, step["outpaced"])
    time = time_column(node, step.get("time"))
    span = parse_span(limit, time, what="pace")
    zone = next((s.zone for s in builder.sources.values()), "UTC")
    clock = bool(step.get("clock", False))
    return kind(node.schema, node.times, node, time.name, span, clock, zone)


def _aggregate(builder: QueryBuilder, step: Mapping[str, Any], node: Node) -> Node:
    windowed = "window" in step or "windows" in step
    return aggregate(node, step) if windowed else ungrouped(node, step)


def _lookup(builder: QueryBuilder, step: Mapping[str, Any], node: Node | None) -> Node:
    """``{lookup: relation, ...}``; ``{unmatched: name}`` begins with the rows of a join that have no partner."""
    if "unmatched" in step:
        return builder.lookups[step["unmatched"]].unmatched
    assert node is not None, "a lookup has a step before it"
    made = build_lookup(node, builder.relations[step["lookup"]], step, expression)
    if "as" in step:
        builder.lookups[step["as"]] = made
    return made.result


def project(node: Node, spec: Mapping[str, str] | Sequence[str]) -> Project:
    """Columns by expression; a time column, moved by a number or not, keeps its progress."""
    texts = dict(spec) if isinstance(spec, Mapping) else {c: c for c in spec}
    columns = tuple(Named(n, expression(str(t), node.schema)) for n, t in texts.items())
    by_name = {t.name: t for t in node.times}
    times, origins = [], []
    for name, text in texts.items():
        moved = _MOVED.match(str(text).strip()) or _COLUMN.match(str(text).strip())
        if moved is None or moved[1] not in by_name:
            continue
        ticks = 0
        if moved.re is _MOVED:
            ticks = int(moved[3]) if moved[2] == "+" else -int(moved[3])
        old = by_name[moved[1]]
        times.append(replace(old, name=name))
        origins.append((name, old.name, ticks))
    for t in node.times:
        if t.parts and (new := combined(t, texts)) is not None:
            # The time of a join's results comes first, their least time last.
            at = 0 if t.kind == "greatest" else len(times)
            times.insert(at, new)
            origins.insert(at, (new.name, t.name, 0))
    schema = tuple(Field(c.name, c.expr.type) for c in columns)
    return Project(schema, tuple(times), node, columns, tuple(origins) or unnamed_origin(node))


def combined(time: TimeColumn, texts: Mapping[str, str]) -> TimeColumn | None:
    """The greatest or least time of a join where all its columns are selected as they are."""
    names = {str(text).strip(" `"): new for new, text in texts.items()}
    if not {c.name for c in leaves(time)} <= set(names):
        return None
    return renamed(time, names.__getitem__)


def ungrouped(node: Node, step: Mapping[str, Any]) -> Project:
    """``by`` and ``agg`` without a window: groups that punctuation completes."""
    size: Any = 1 if node.times[0].is_integer else "1 second"
    whole = aggregate(node, {**step, "window": {"range": size}})
    whole = replace(whole, window=all_time(node.times[0].name))
    fields = tuple(f for f in whole.schema if f.name not in ("wid", "window"))
    columns = tuple(Named(f.name, expression(f"`{f.name}`", whole.schema)) for f in fields)
    return Project(fields, (), whole, columns, ())


def aggregate(node: Node, step: Mapping[str, Any]) -> Aggregate:
    """``window`` with ``by`` and ``agg``."""
    by = step.get("by", [])
    texts = dict(by) if isinstance(by, Mapping) else {c: c for c in by}
    built = build_window(node, step if "windows" in step else step["window"])
    node, window, time = built.node, built.window, built.time
    texts |= {key: key for key in built.keys if key not in texts}
    keys = tuple(Named(n, expression(t, node.schema)) for n, t in texts.items())
    primitives: list[Primitive] = []
    outputs = []
    for name, text in step["agg"].items():
        body = cut_calls(text, partial(expression, schema=node.schema), primitives, time)
        fields = [Field(p.column, p.type) for p in primitives]
        fields += [Field(k.name, k.expr.type) for k in keys]
        outputs.append(Named(name, expression(body, fields)))
    struct = f"struct<start:{time.type},end:{time.type}>"
    schema = (
        *(Field(k.name, k.expr.type) for k in keys),
        *((Field("wid", "bigint"),) if has_wid(window) else ()),
        *(Field(n, struct) for n in built.columns),
        *(Field(o.name, o.expr.type) for o in outputs),
    )
    return Aggregate(
        schema,
        tuple(window_time(n, time) for n in built.columns),
        node,
        keys,
        window,
        tuple(primitives),
        tuple(outputs),
        bool(step.get("emit_empty", False)),
    )


def expression(text: str, schema: Sequence[Field]) -> Expr:
    """An expression over the columns; its type is that of its value for sample inputs."""
    types = {f.name: f.type for f in schema}
    text = text.strip()
    if (m := _COLUMN.match(text)) and m[1] in types:
        return Expr(f"`{m[1]}`", types[m[1]], to_duck(f"`{m[1]}`"))
    if (m := _FIELD.match(text)) and types.get(m[1], "").startswith("struct<"):
        inner = types[m[1]].removeprefix("struct<start:").split(",")[0]
        return Expr(text, inner, to_duck(text))
    value = compile_expression(text)({c: _sample(t) for c, t in types.items()})
    return Expr(text, _TYPES.get(type(value), "string"), to_duck(text))


def _sample(type: str) -> Any:
    return {"start": 1, "end": 2} if type.startswith("struct<") else _SAMPLES.get(type, 1)


STEPS: Registry[Form] = Registry(
    __name__,
    {
        Source: Form(("from",), _from, begins=True),
        Late: Form(("late",), _late, begins=True),
        Union: Form(("union",), _union, begins=True),
        # A step with hold: has rows wait; one without joins them as they come.
        Held: Form(("hold",), _lookup),
        Lookup: Form(("lookup", "unmatched"), _lookup, begins=True),
        Join: Form(("join",), _join, begins=True),  # before filters: its condition is where:, too
        Filter: Form(("where",), _where),
        Project: Form(("select",), _select),
        Dedup: Form(("dedup",), _dedup),
        Sort: Form(("sort",), _sort),
        Pace: Form(("pace",), _pace),
        Outpaced: Form(("outpaced",), _pace),
        Aggregate: Form(("window", "windows", "agg"), _aggregate),
        # A lookup with deadline: has both; joins know the word, too.
        Parted: Form(("deadline",), _lookup),
        Waiting: Form(("deadline",), _lookup),
    },
)
"""How each operator is written; the first of whose keys one is there."""
