"""A row operator as the plan has it: one step of the rows on a path."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, NoReturn

from slackwater.engine.plan.read_columns import Columns
from slackwater.engine.plan.relations import TableForm
from slackwater.kernels.listed import Listed
from slackwater.model.join import How, is_existence
from slackwater.model.join_times import leaves
from slackwater.model.node import Lookup, Pace, Parted, raw_name
from slackwater.model.relation import Relation
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.semantics.limits import START

NEVER = Expr("FALSE", "boolean", "FALSE")


@dataclass(frozen=True)
class FilterStep:
    """Rows for which ``condition`` is true go on."""

    condition: Expr
    drops_rows: ClassVar[bool] = True

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The expressions it evaluates."""
        return (self.condition,)


@dataclass(frozen=True)
class GuardStep(FilterStep):
    """A filter that feedback puts up for a batch: rows for which ``match`` is true go no further.

    The rows are those of ``node``, and ``place`` is the name under which they are counted. A guard that is ``soft`` spares
    rows whose time is not plausible: nobody could say for how long these would be missed. As a plain filter it drops them. One
    that is ``moving`` has another limit in each batch. It is left out where rows are reduced in the first pass, since the pace that
    sent it is on the same path, and a text that changes would be compiled anew. ``lists`` are those that its text names.
    """

    match: Expr = NEVER
    node: str = ""
    place: str = ""
    soft: bool = True
    moving: bool = False
    lists: tuple[Listed, ...] = ()


@dataclass(frozen=True)
class PaceStep:
    """Rows whose time is at least ``limit`` go on; with ``keeps_old`` the others, which `Pace` drops, do.

    The limit is a batch's own, and is put in when the batch begins (`paced`). It is a number that tasks are told and no part of an
    expression: Spark, which would compile a text with another number anew, never evaluates this step but in the form of
    `Dialect.number`. Rows that ``node`` drops are counted under the name ``place``, if it has one.
    """

    node: Pace
    keeps_old: bool = False
    limit: int = START
    place: str = ""
    drops_rows: ClassVar[bool] = True
    expressions: ClassVar[tuple[Expr, ...]] = ()

    @property
    def time(self) -> TimeColumn:
        """The time by which rows are judged."""
        return self.node.time

    @property
    def reads(self) -> tuple[Expr, ...]:
        """The columns that the time is made of."""
        return tuple(column(t.name, t.type) for t in leaves(self.time))

    def passes(self, ticks: str, limit: str) -> str:
        """The condition in SQL; a row without a time is behind nothing."""
        test = f"coalesce({ticks} < {limit}, FALSE)"
        return test if self.keeps_old else f"NOT {test}"


@dataclass(frozen=True)
class ProjectStep:
    """Each row goes on with ``columns`` in the place of those it had."""

    columns: tuple[Named, ...]
    drops_rows: ClassVar[bool] = False

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The expressions it evaluates."""
        return tuple(c.expr for c in self.columns)


@dataclass(frozen=True)
class LookupStep:
    """Rows meet those of a relation that have their ``keys`` and satisfy ``where``; ``columns`` are made of both.

    ``left`` are the columns of the rows as they come. With ``counts`` rows without a partner are counted here. The other fields are
    those of `model.node.Lookup`. A step that ``parts`` rows holds them against the keys for which something must be read first
    (`Parted`), in place of the relation's rows.
    """

    relation: Relation
    keys: tuple[Expr, ...]
    how: How
    where: Expr | None
    columns: tuple[Named, ...]
    pair: tuple[Named, ...]
    left: tuple[str, ...]
    read: tuple[str, ...] | None = None
    parts: bool = False
    counts: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, node: Lookup, how: How | None = None) -> LookupStep:
        """The step of an operator, or of another kind of join over the same rows."""
        keys = tuple(k.expr for k in node.keys)
        names = tuple(f.name for f in node.child.schema)
        columns, pair = node.outputs, node.pair
        if how is not None and is_existence(how):
            columns, pair = own_columns(node.child.schema), node.tested if node.where else ()
        return cls(
            node.relation, keys, how or node.how, node.where, columns, pair, names, node.read,
            isinstance(node, Parted),
        )  # fmt: skip

    @property
    def drops_rows(self) -> bool:
        """Whether some row may be left out."""
        return self.how != "left"

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The expressions it evaluates."""
        where = () if self.where is None else (self.where,)
        return (*self.keys, *where, *(c.expr for c in (*self.columns, *self.pair)))

    @property
    def tested(self) -> tuple[Named, ...]:
        """The columns that ``where`` is over."""
        return self.pair if is_existence(self.how) else self.columns

    @cached_property
    def used(self) -> tuple[str, ...]:
        """The columns of the rows as they come that are made into others."""
        return tuple(n for n in self.left if self._names(raw_name(0, n)))

    @cached_property
    def form(self) -> TableForm:
        """What is read of the relation."""
        if self.read is not None:
            return TableForm(self.relation, self.read)
        used = (f.name for f in self.relation.schema if self._names(raw_name(1, f.name)))
        return TableForm(self.relation, tuple(used))

    @property
    def table(self) -> str:
        """What the table is called that rows are held against, in statements of the column engine."""
        return f"{self.form.table}_cold" if self.parts else self.form.table

    def _names(self, raw: str) -> bool:
        text = column(raw, "").sql
        return any(text in c.expr.sql for c in (*self.columns, *self.pair))

    def carrying(self, extra: Named) -> LookupStep:
        """The step with one more column taken along as it is."""
        raw = Named(extra.name, column(raw_name(0, extra.name), extra.expr.type))
        return replace(self, columns=(*self.columns, raw), left=(*self.left, extra.name))


def own_columns(fields: tuple[Field, ...]) -> tuple[Named, ...]:
    """The columns of rows as they come, from inside a join with a relation."""
    return tuple(Named(f.name, column(raw_name(0, f.name), f.type)) for f in fields)


Step = FilterStep | PaceStep | ProjectStep | LookupStep


@dataclass(frozen=True)
class Stretch:
    """Steps of a path that one engine evaluates: Spark, or the column engine."""

    steps: tuple[Step, ...]
    by_spark: bool


def stretches(steps: tuple[Step, ...]) -> tuple[Stretch, ...]:
    """The steps of a path, cut where another engine takes over.

    Tables of relations and limits of paces are with the column engine. Between two joins with one, all steps go to Spark if it must evaluate one of them.
    """
    made: list[Stretch] = []
    run: list[Step] = []

    def end() -> None:
        if run:
            add(tuple(run), any(e.duck is None for s in run for e in s.expressions))
            run.clear()

    def add(steps: tuple[Step, ...], by_spark: bool) -> None:
        if made and not made[-1].by_spark and not by_spark:
            made[-1] = Stretch((*made[-1].steps, *steps), False)
        else:
            made.append(Stretch(steps, by_spark))

    for step in steps:
        if isinstance(step, LookupStep | PaceStep):
            end()
            add((step,), False)
        else:
            run.append(step)
    end()
    return tuple(made)


def from_relations(steps: tuple[Step, ...]) -> set[str]:
    """The columns behind some steps that are made of a relation's."""
    theirs: set[str] = set()
    for step in steps:
        match step:
            case FilterStep() | PaceStep():
                continue
            case ProjectStep():
                theirs = {
                    c.name
                    for c in step.columns
                    if any(n in Columns(texts=(c.expr,)) for n in theirs)
                }
            case LookupStep():
                before = {column(raw_name(0, n), "").sql for n in theirs}
                before |= {column(raw_name(1, f.name), "").sql for f in step.relation.schema}
                theirs = {
                    c.name for c in step.columns if any(text in c.expr.sql for text in before)
                }
            case _:
                raise unknown_step(step)
    return theirs


def fields_after(steps: tuple[Step, ...], fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """The columns of rows behind some steps."""
    for step in steps:
        if not isinstance(step, FilterStep | PaceStep):
            fields = tuple(Field(c.name, c.expr.type) for c in step.columns)
    return fields


def unknown_step(step: NoReturn) -> TypeError:
    """The error of a ``match`` that does not know a step; type checkers see that it knows all."""
    return TypeError(f"no step of a path is a {type(step).__name__}")
