"""Which columns of an input anybody reads: those that nobody reads need not come along with its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slackwater.engine.plan.operators.registry import stateful
from slackwater.engine.plan.plan import Path, Plan
from slackwater.engine.plan.read_columns import ALL, Columns
from slackwater.engine.plan.relations import is_plain
from slackwater.engine.plan.steps import (
    FilterStep,
    LookupStep,
    PaceStep,
    ProjectStep,
    Step,
    unknown_step,
)
from slackwater.model.join_times import leaves
from slackwater.model.node import Aggregate, Late, Source
from slackwater.model.schema import Field
from slackwater.semantics.progress import SourceState
from slackwater.semantics.settings import resolve_source


def carried(plan: Plan, index: int, fields: Sequence[Field]) -> tuple[Field, ...]:
    """The columns of an input that its rows are to bring along, in the order of ``fields``."""
    sources = [s for s in plan.sources if s.input == index]
    read = [columns for s in sources for columns in _read(plan, s)]
    return tuple(f for f in fields if any(f.name in columns for columns in read))


def narrowed(plan: Plan) -> Plan:
    """The plan whose paths from the edge take no column along that their ends do not read.

    A projection loses plain columns alone: any other expression may fail, and then has to.
    """
    edge = {n for n, m in zip(plan.names, plan.nodes, strict=True) if isinstance(m, Source | Late)}
    paths = tuple(_narrowed(plan, p) if p.producer in edge else p for p in plan.paths)
    before = None if plan.before is None else narrowed(plan.before)
    return replace(plan, paths=paths, before=before)


def _read(plan: Plan, source: Source) -> list[Columns]:
    """What reads the columns of a source: its policies, and the paths from it and from its late rows."""
    settings = resolve_source(source)
    if source.late == "raise" or any(s.patterns for s in settings):
        return [ALL]  # the error shows the row; a pattern may speak of any column
    own = [t.name for t in source.times] + [s.punctuation for s in settings if s.punctuation]
    own += [*source.order, *([] if source.partition is None else [source.partition])]
    read = [Columns(own)]
    # Statistics are gathered on the paths that operators have each for itself.
    for one in (plan, plan.unshared):
        late = {
            n for n, m in zip(one.names, one.nodes, strict=True)
            if isinstance(m, Late) and m.source is source
        }  # fmt: skip
        for path in one.paths:
            if path.producer in late and path.blocked_by is not None:
                read.append(ALL)  # rows travel whole to where Spark evaluates the steps
            elif path.producer == source.name or path.producer in late:
                read.append(_at_start(path.steps, _at_end(one, path)))
    return read


def read_by_progress(plan: Plan, source: Source, state: SourceState | None) -> list[Columns]:
    """What progress reads of a source's rows, whoever needs these otherwise; ``state`` is the source's when the batch began."""
    settings = resolve_source(source)
    own = [leaf.name for time in source.times for leaf in leaves(time)]
    own += [s.punctuation for s in settings if s.punctuation]
    own += [*source.order, *([] if source.partition is None else [source.partition])]
    own += [c for p in (() if state is None else state.patterns) for c in p.columns]
    read = [Columns(own)]
    if any(s.target is not None for s in settings):
        for path in plan.unshared.paths_from(source.name):
            operator = plan.unshared.operator(path.consumer)
            is_aggregate = operator is not None and isinstance(operator.node, Aggregate)
            end = _at_end(plan.unshared, path) if is_aggregate else Columns()
            read.append(_at_start(path.steps, end))
    return read


def _narrowed(plan: Plan, path: Path) -> Path:
    wanted = _at_end(plan, path)
    steps: list[Step] = []
    for step in reversed(path.steps):
        if isinstance(step, ProjectStep):
            step = ProjectStep(
                tuple(c for c in step.columns if c.name in wanted or not is_plain(c))
            )
        elif isinstance(step, LookupStep):
            step = _of_lookup(step, wanted)
        wanted = _at_start((step,), wanted)
        steps.insert(0, step)
    return path if tuple(steps) == path.steps else replace(path, steps=tuple(steps))


def _at_start(steps: Sequence[Step], wanted: Columns) -> Columns:
    """What the start of a path must have, where the end wants ``wanted``."""
    for step in reversed(steps):
        match step:
            case FilterStep():
                wanted = wanted.and_those_of(step.condition)
            case PaceStep():
                wanted = wanted.and_those_of(*step.reads)
            case ProjectStep():
                wanted = Columns(texts=step.expressions)
            case LookupStep():
                wanted = Columns(step.used, step.keys)
            case _:
                raise unknown_step(step)
    return wanted


def shown_at(plan: Plan, path: Path, steps: int) -> Columns:
    """The columns that rows of a path have when so many of its steps are done; those that nobody reads may be gone."""
    for step in reversed(path.steps[:steps]):
        if isinstance(step, ProjectStep):
            return Columns([c.name for c in step.columns])
    node = plan.node(path.producer)
    if not isinstance(node, Source | Late):
        return Columns([f.name for f in path.fields])
    return _at_start(path.steps, _at_end(plan, path))


def _at_end(plan: Plan, path: Path) -> Columns:
    """What the consumer of a path reads; an output shows all columns."""
    operator = plan.operator(path.consumer)
    return ALL if operator is None else stateful(operator.node).reads(operator.node, path.input)


def _of_lookup(step: LookupStep, wanted: Columns) -> LookupStep:
    """The step without columns that nobody reads: the table is then narrower, too."""
    if step.where is not None:
        wanted = wanted.and_those_of(step.where)
    columns = tuple(c for c in step.columns if c.name in wanted or not is_plain(c))
    return replace(step, columns=columns or step.columns[:1])
