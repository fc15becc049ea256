"""Where rows without a partner in a relation are counted: a join may be on many paths, and its rows count once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slackwater.engine.plan.plan import Path, Plan
from slackwater.engine.plan.read_columns import Columns
from slackwater.engine.plan.steps import FilterStep, LookupStep, PaceStep, ProjectStep, Step
from slackwater.model.node import Held


def counted_once(plan: Plan) -> Plan:
    """The plan in which one path of each join counts rows without a partner.

    An inner join, its ``unmatched`` and a window behind it are paths of one join. Rows that are held, or wait for segments, are counted when they leave.
    """
    seen = set()
    for path in plan.paths:
        operator = plan.operator(path.consumer)
        if operator is not None and isinstance(operator.node, Held):
            at = max(i for i, s in enumerate(path.steps) if isinstance(s, LookupStep))
            seen.add((path.producer, _join(path.steps, at)))
    paths = []
    for path in plan.paths:
        marked = list(path.steps)
        for at, step in enumerate(path.steps):
            if isinstance(step, LookupStep) and not step.parts:
                join = (path.producer, _join(path.steps, at))
                marked[at] = replace(step, counts=join not in seen)
                seen.add(join)
        paths.append(_with(path, tuple(marked)))
    return replace(plan, paths=tuple(paths))


def _with(path: Path, steps: tuple[Step, ...]) -> Path:
    return replace(path, steps=steps) if path.lookups else path


def _join(steps: Sequence[Step], at: int) -> tuple[str, ...]:
    """What a join on a path is known by: the rows that reach it, and what makes a partner. Columns that nobody needs for that count for nothing."""
    step = steps[at]
    assert isinstance(step, LookupStep)
    made = [_partners(step)]
    wanted = Columns(texts=step.expressions if step.where is not None else step.keys)
    for before in reversed(steps[:at]):
        match before:
            case FilterStep():
                made.append(f"where {before.condition.sql}")
                wanted = wanted.and_those_of(before.condition)
            case PaceStep():
                made.append(f"pace {before.place} {before.keeps_old}")
                wanted = wanted.and_those_of(*before.reads)
            case ProjectStep():
                columns = [c for c in before.columns if c.name in wanted]
                made.append(", ".join(f"{c.expr.sql} AS {c.name}" for c in columns))
                wanted = Columns(texts=(c.expr for c in columns))
            case LookupStep():
                kind = "parted" if before.parts else before.how
                made.append(f"{kind} {_partners(before)}")
                wanted = Columns(before.used, before.keys)
    return tuple(made)


def _partners(step: LookupStep) -> str:
    relation = step.relation
    test = None
    if step.where is not None:
        columns = Columns(texts=(step.where,))
        tested = [f"{c.expr.sql} AS {c.name}" for c in step.tested if c.name in columns]
        test = (step.where.sql, tested)
    return repr((relation.name, relation.changes, [k.sql for k in step.keys], test))
