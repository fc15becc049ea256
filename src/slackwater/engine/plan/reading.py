"""How each input of a query is read: a value of the plan, chosen once, when operators and paths are settled.

| reading | who reads | what a low-level task gets |
| --- | --- | --- |
| `Rows` | Spark | rows |
| `RowsWithSteps` | Spark, which evaluates the row steps of some paths, too | rows, and the rows of these paths |
| `JvmPartials` | Spark, whose own partial aggregation reduces them | partial aggregates |
| `Scan` | the column engine | rows |
| `FusedScan` | the column engine, which reduces them in the same pass | partial aggregates |

Rows whose lateness is judged one by one are read ``in_one_task``, so that it has them all in order of arrival. If rows of one
input are, those of all inputs are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NoReturn, Protocol

from slackwater.engine.plan.plan import Path, Plan
from slackwater.engine.plan.sources import judged_strictly
from slackwater.kernels.aggregates.partials import spark_partials
from slackwater.model.node import Late, Source
from slackwater.semantics.settings import resolve_source


@dataclass(frozen=True)
class Rows:
    """Spark reads the rows."""

    in_one_task: bool = False
    by_columns: ClassVar[bool] = False


@dataclass(frozen=True)
class RowsWithSteps:
    """Spark reads the rows and evaluates the steps of ``paths``, given by id: the column engine cannot."""

    paths: tuple[int, ...]
    in_one_task: bool = False
    by_columns: ClassVar[bool] = False


@dataclass(frozen=True)
class JvmPartials:
    """Spark reads the rows and reduces those of ``path``, the input's only one.

    ``otherwise`` is how the input is read when Spark's plan of a batch turns out to have another shape.
    """

    path: int
    otherwise: Rows | RowsWithSteps
    by_columns: ClassVar[bool] = False

    @property
    def in_one_task(self) -> bool:
        """Partial aggregates are merged, in whatever order they come."""
        return False


@dataclass(frozen=True)
class Scan:
    """The column engine reads the rows of files."""

    in_one_task: bool = False
    by_columns: ClassVar[bool] = True


@dataclass(frozen=True)
class FusedScan:
    """The column engine reads files and reduces the rows of ``path``, the input's only one."""

    path: int
    in_one_task: bool = False
    by_columns: ClassVar[bool] = True


MOST_IN_JVM = 64
"""Row operators that Spark may have below an aggregation: its analyser passes over a query a hundred times, once for each in the others."""

Reading = Rows | RowsWithSteps | JvmPartials | Scan | FusedScan


class Readable(Protocol):
    """What must be known of an input."""

    @property
    def by_rows(self) -> str:
        """Why the column engine cannot read it; empty if it can."""


def unknown(reading: NoReturn) -> TypeError:
    """The error of a ``match`` that does not know a reading; type checkers see that it knows all."""
    return TypeError(f"no input is read as {type(reading).__name__}")


def described(reading: Reading) -> str:
    """For people."""
    match reading:
        case Rows():
            text = "rows"
        case RowsWithSteps():
            text = f"rows, and Spark evaluates the row steps of {len(reading.paths)} path(s)"
        case JvmPartials():
            text = "partial aggregates by the JVM"
        case Scan():
            text = "scan of rows"
        case FusedScan():
            text = "fused scan"
        case _:
            raise unknown(reading)
    return text + (", in one task" if reading.in_one_task else "")


def chosen(plan: Plan, inputs: Sequence[Readable]) -> Plan:
    """The plan with a reading of each input."""
    strict = any(map(judged_strictly, plan.sources))
    readings = [
        _by_columns(plan, i, strict) if _for_columns(plan, i, item) else _by_rows(plan, i, strict)
        for i, item in enumerate(inputs)
    ]
    rows = [i for i, reading in enumerate(readings) if not reading.by_columns]
    if len(rows) == 1:  # Spark reduces the rows of one input, where no other rows are read
        readings[rows[0]] = _in_jvm(plan, rows[0], readings[rows[0]])
    return replace(plan, readings=tuple(readings))


def _for_columns(plan: Plan, index: int, item: Readable) -> bool:
    return not item.by_rows and not any(p.begins_in_spark for p in _paths(plan, index))


def _by_columns(plan: Plan, index: int, strict: bool) -> Reading:
    path = _reducible(plan, index)
    return Scan(strict) if path is None else FusedScan(path.id, strict)


def _by_rows(plan: Plan, index: int, strict: bool) -> Reading:
    blocked = tuple(p.id for p in _paths(plan, index) if p.begins_in_spark)
    return RowsWithSteps(blocked, strict) if blocked else Rows(strict)


def _in_jvm(plan: Plan, index: int, otherwise: Reading) -> Reading:
    """The reading of an input whose partial aggregation Spark can do itself; ``otherwise`` if it cannot."""
    path = _reducible(plan, index)
    if path is None or not isinstance(otherwise, Rows | RowsWithSteps):
        return otherwise
    if path.lookups:
        return otherwise  # tables of relations are with the tasks
    if len(path.steps) > MOST_IN_JVM:
        return otherwise
    operator = plan.operator(path.consumer)
    assert operator is not None
    time = next(t for t in operator.node.children[0].times if t.name == operator.on)
    (source,) = _sources(plan, index)
    if time.is_local or any(t.is_local for t in source.times):
        return otherwise
    if any(spark_partials(p) is None for p in operator.aggregation.primitives):
        return otherwise
    return JvmPartials(path.id, otherwise)


def _reducible(plan: Plan, index: int) -> Path | None:
    """The one path whose rows can be reduced in the first pass, or None if rows are needed as such."""
    sources, paths = _sources(plan, index), _paths(plan, index)
    if len(sources) != 1 or len(paths) != 1:
        return None
    (source,), (path,) = sources, paths
    if source.order or source.late == "raise":
        return None
    if any(isinstance(n, Late) and n.source is source for n in plan.nodes):
        return None
    settings = resolve_source(source)
    if any(s.kind in ("punctuated", "quality") or s.future == "side" for s in settings):
        return None
    if path.lookups and path.blocked_by is not None:
        return None  # rows go through Spark behind a relation
    if any(s.how == "left" and s.where is not None for s in path.lookups):
        return None  # whether a row is alone is known when all its pairs are
    operator = plan.operator(path.consumer)
    if operator is None or not operator.is_aggregate:
        return None
    spec = operator.aggregation
    if spec.plan not in ("panes", "landmark"):
        return None
    if spec.plan == "panes" and spec.sliding.range < spec.sliding.slide:
        return None  # rows between windows vanish in the kernel, but tell progress
    return path


def _sources(plan: Plan, index: int) -> list[Source]:
    return [s for s in plan.sources if s.input == index]


def _paths(plan: Plan, index: int) -> list[Path]:
    """The paths of an input's streams, stream by stream."""
    return [p for s in _sources(plan, index) for p in plan.paths_from(s.name)]
