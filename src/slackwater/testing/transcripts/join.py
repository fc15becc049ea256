"""The joins of a transcript's query, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from slackwater.model.join import (
    HOWS,
    Anytime,
    Band,
    Condition,
    How,
    Reach,
    Tumbling,
    Within,
    is_existence,
)
from slackwater.model.join_times import join_times, renamed
from slackwater.model.node import DELAYED_OUTPUT, Join, Node, Source, raw_name
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import TimeColumn, parse_duration, parse_instant, parse_span
from slackwater.model.window import TimeWindow
from slackwater.surface.conditions import condition_of
from slackwater.testing.transcripts.conditions import CONDITIONS
from slackwater.testing.transcripts.windows import bad, time_column, zone_of

Expression = Callable[[str, Sequence[Field]], Expr]
Pipeline = Callable[[Any], Node]

KNOWN = {
    "join", "keys", "times", "band", "tumbling", "reach", "anytime", "how", "where", "memory", "deadline",
    "mark_delayed",
}  # fmt: skip
SPANS = {"band", "tumbling", "reach", "anytime"}


def build_join(step: Mapping[str, Any], pipeline: Pipeline, expression: Expression) -> Join:
    """The operator of a ``join`` step; ``pipeline`` builds an input, ``expression`` reads a text."""
    unknown = set(step) - KNOWN
    if unknown or len(SPANS & set(step)) != 1:
        raise bad(
            f"join {dict(step)!r}: unknown {sorted(unknown)}, or not one of {sorted(SPANS)}",
            f"use: {sorted(KNOWN)}",
        )
    inputs = [pipeline(input_of(i)) for i in step["join"]]
    labels = [_label(i, node) for i, node in zip(step["join"], inputs, strict=True)]
    how = HOWS[step.get("how", "inner")]
    if is_existence(how) and "memory" in step:
        raise bad(f"a {how} join takes no memory", "leave memory out")
    wanted = step.get("times", [None] * len(inputs))
    times = [time_column(node, name) for node, name in zip(inputs, wanted, strict=True)]
    keys = [key_of(k, len(inputs)) for k in step.get("keys", [])]
    shared = [key for k, key in zip(step.get("keys", []), keys, strict=True) if isinstance(k, str)]
    names, outputs = _outputs(inputs, labels, shared, how)
    schema = tuple(Field(o.name, o.expr.type) for o in outputs)
    test = _test(step["where"], schema, expression) if "where" in step else None
    pair: tuple[Named, ...] = ()
    if is_existence(how):
        pair = () if test is None else outputs
        names, outputs = _outputs(inputs[:1], labels[:1], [key[:1] for key in shared], how)
        schema = tuple(Field(o.name, o.expr.type) for o in outputs)
    if step.get("mark_delayed"):
        outputs = (*outputs, DELAYED_OUTPUT)
        schema = tuple(Field(o.name, o.expr.type) for o in outputs)
    own = [
        renamed(t, partial(lambda i, name: names[i, name], i))
        for i, t in enumerate(times[:1] if is_existence(how) else times)
    ]
    return Join(
        schema,
        join_times(own, how),
        tuple(inputs),
        tuple(
            tuple(Named(key[i], expression(f"`{key[i]}`", node.schema)) for key in keys)
            for i, node in enumerate(inputs)
        ),
        tuple(t.name for t in times),
        _within(step, times[0], zone_of(inputs[0])),
        how,
        test,
        outputs,
        tuple(t.name for t in own),
        step.get("memory"),
        parse_duration(step["deadline"], positive=False) if "deadline" in step else None,
        pair=pair,
    )


def _test(spec: Any, schema: Sequence[Field], expression: Expression) -> Expr | Condition:
    """A text, or the name of a function in `transcript_conditions`."""
    if isinstance(spec, Mapping):
        return condition_of(CONDITIONS[spec["function"]], schema)
    return expression(spec, schema)


def input_of(spec: Any) -> Any:
    """The pipeline of an input: a name, a list of steps, or ``{as: name, from: ...}``."""
    return spec["from"] if isinstance(spec, Mapping) else spec


def key_of(spec: Any, inputs: int) -> tuple[str, ...]:
    """A column name per input; one name stands for all."""
    return (spec,) * inputs if isinstance(spec, str) else tuple(spec)


def _label(spec: Any, node: Node) -> str | None:
    if isinstance(spec, Mapping) and "as" in spec:
        return str(spec["as"])
    return _only_source(node)


def _only_source(node: Node) -> str | None:
    if isinstance(node, Source):
        return node.name
    one_sided = isinstance(node, Join) and is_existence(node.how)
    found = {_only_source(c) for c in (node.children[:1] if one_sided else node.children)}
    return found.pop() if len(found) == 1 else None


def _outputs(
    inputs: Sequence[Node],
    labels: Sequence[str | None],
    shared: Sequence[tuple[str, ...]],
    how: How,
) -> tuple[dict[tuple[int, str], str], tuple[Named, ...]]:
    """Names of the inputs' columns in the result, and the result's columns: shared keys first."""
    names: dict[tuple[int, str], str] = {}
    outputs: list[Named] = []
    for key in shared:
        field = inputs[0].field(key[0])
        if field is None:
            raise bad(f"there is no key column '{key[0]}'", f"use: {inputs[0].schema}")
        raws = [column(raw_name(i, name), field.type) for i, name in enumerate(key)]
        both = ", ".join(r.sql for r in raws), ", ".join(str(r.duck) for r in raws)
        if how == "full":
            merged = Expr(f"coalesce({both[0]})", field.type, f"coalesce({both[1]})")
        else:
            merged = raws[1 if how == "right" else 0]
        outputs.append(Named(key[0], merged))
        names |= dict.fromkeys(enumerate(key), key[0])
    taken = {o.name for o in outputs}
    rest = [(i, f) for i, n in enumerate(inputs) for f in n.schema if (i, f.name) not in names]
    count = [f.name for _, f in rest]
    for i, f in rest:
        name = f.name
        if count.count(name) > 1 or name in taken:
            if labels[i] is None or labels.count(labels[i]) > 1:
                raise bad(f"column '{name}' is in several inputs", "name them with as:")
            name = f"{labels[i]}_{name}"
        names[i, f.name] = name
        outputs.append(Named(name, column(raw_name(i, f.name), f.type)))
    return names, tuple(outputs)


def _within(step: Mapping[str, Any], time: TimeColumn, zone: str) -> Within:
    if "band" in step:
        band = step["band"]
        before, after = (_signed(band.get(end, 0), time) for end in ("before", "after"))
        return Band(before, after, band.get("closed", "both"))
    if "reach" in step:
        spans = (parse_span(r, time, what="reach", positive=False) for r in step["reach"])
        return Reach(tuple(spans))
    if step.get("anytime"):
        return Anytime()
    spec = step["tumbling"]
    spec = spec if isinstance(spec, Mapping) else {"range": spec}
    span = parse_span(spec["range"], time, what="range")
    origin = spec.get("origin")
    first = 0 if origin is None else parse_instant(origin, time, zone, what="origin")
    return Tumbling(TimeWindow(span, span, first, time.name))


def _signed(value: Any, time: TimeColumn) -> int:
    if isinstance(value, str) and value.startswith("-"):
        return -parse_span(value[1:].strip(), time, what="band", positive=False)
    if isinstance(value, int):
        return value
    return parse_span(value, time, what="band", positive=False)
