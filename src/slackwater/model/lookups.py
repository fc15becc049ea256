"""A join with a relation as operators: one that joins rows as they come, and one for rows that wait, for a partner or for a segment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from slackwater.model.join import How, is_existence
from slackwater.model.join_times import renamed
from slackwater.model.names import COLD, MATCHED
from slackwater.model.node import (
    MET,
    Filter,
    Held,
    Lookup,
    Node,
    Parted,
    Project,
    Union,
    Waiting,
    raw_name,
)
from slackwater.model.relation import Relation
from slackwater.model.schema import Expr, Field, Named, column

_MET = column(MATCHED, "boolean")
_UNMET = Expr(f"(NOT {_MET.sql})", "boolean", f"(NOT {_MET.duck})")


@dataclass(frozen=True)
class RelationJoin:
    """A stream and a relation.

    ``columns`` are those of a pair, with all of the stream's; ``where`` is over these. ``on`` is the time by which rows are
    held, for ``hold`` ticks; without ``hold`` a row without a partner leaves at once. With a ``deadline`` above 0, in microseconds of
    the clock, rows wait so long for segments of the relation that are not at hand, and hold bounds back by ``on``.
    """

    child: Node
    relation: Relation
    keys: tuple[Named, ...]
    columns: tuple[Named, ...]
    how: How = "inner"
    where: Expr | None = None
    on: str = ""
    hold: int | None = None
    deadline: int = 0

    @property
    def result(self) -> Node:
        """The join itself."""
        if self.deadline and self.how != "left_anti":
            later = self._leaving(None if self.how == "left" else _MET)
            return self._both(self._lookup(self.how, self._ready), later)
        if self.hold is None and not self.deadline:
            return self._lookup(self.how)
        if self.how == "left_anti":
            return self.unmatched
        if self.how == "left":
            return self._both(self._lookup("inner"), self._leaving(None))
        return self._both(self._lookup(self.how), self._leaving(_MET))

    @cached_property
    def unmatched(self) -> Node:
        """The stream's rows that have no partner."""
        if self.hold is None and not self.deadline:
            return self._lookup("left_anti")
        alone = Filter(self._later.schema, self._later.times, self._later, _UNMET)
        places = self._names(self._later.outputs)
        columns = tuple(Named(f.name, column(places[f.name], f.type)) for f in self.child.schema)
        origins = tuple((name, out, 0) for out, name in self._later.origins)
        later = Project(self.child.schema, self.child.times, alone, columns, origins)
        if self.deadline:
            return self._both(self._lookup("left_anti", self._ready), later)
        return later

    def _names(self, outputs: tuple[Named, ...]) -> dict[str, str]:
        """What each column of the stream is called in the output."""
        raws = {column(raw_name(0, f.name), f.type).sql: f.name for f in self.child.schema}
        return {raws[c.expr.sql]: c.name for c in reversed(outputs) if c.expr.sql in raws}

    @cached_property
    def _later(self) -> Held | Waiting:
        """Rows that wait: one operator, whoever reads of it."""
        kind: How = "left_semi" if is_existence(self.how) else "inner"
        made = self._lookup(kind)
        same = (
            self.relation, self.keys, kind, self.where, made.outputs, made.pair, made.origins, made.read,
        )  # fmt: skip
        schema = (*made.schema, MET)
        if self.deadline:
            return Waiting(schema, made.times, self._parted(True), *same, self.on, self.deadline)
        assert self.hold is not None
        return Held(schema, made.times, self._lookup("left_anti"), *same, self.on, self.hold)

    @cached_property
    def _ready(self) -> Parted:
        """The rows that need not wait."""
        return self._parted(False)

    def _parted(self, waits: bool) -> Parted:
        child = self.child
        outputs = self._as_they_are
        if waits:
            outputs = (*outputs, Named(COLD, column(raw_name(1, COLD), "bigint")))
        schema = tuple(Field(c.name, c.expr.type) for c in outputs)
        origins = tuple((t.name, t.name) for t in child.times)
        return Parted(
            schema, child.times, child, self.relation, self.keys, "inner" if waits else "left_anti", None,
            outputs, (), origins, self._read, waits,
        )  # fmt: skip

    @property
    def _read(self) -> tuple[str, ...] | None:
        """The relation's columns that are read, wherever rows are joined: so all share what was decoded."""
        if not self.deadline:
            return None
        outputs = () if is_existence(self.how) else self.columns
        texts = [c.expr.sql for c in (*outputs, *(self.columns if self.where is not None else ()))]
        raws = {f.name: column(raw_name(1, f.name), "").sql for f in self.relation.schema}
        return tuple(name for name, raw in raws.items() if any(raw in t for t in texts))

    def _lookup(self, how: How, child: Node | None = None) -> Lookup:
        """Rows joined as they come."""
        tested = self.columns if self.where is not None else ()
        outputs, pair = (self._as_they_are, tested) if is_existence(how) else (self.columns, ())
        names = self._names(outputs)
        times = tuple(renamed(t, names.__getitem__) for t in self.child.times)
        origins = tuple((t.name, old.name) for t, old in zip(times, self.child.times, strict=True))
        schema = tuple(Field(c.name, c.expr.type) for c in outputs)
        return Lookup(
            schema, times, child or self.child, self.relation, self.keys, how, self.where, outputs, pair,
            origins, self._read,
        )  # fmt: skip

    @property
    def _as_they_are(self) -> tuple[Named, ...]:
        return tuple(Named(f.name, column(raw_name(0, f.name), f.type)) for f in self.child.schema)

    def _leaving(self, condition: Expr | None) -> Node:
        """Rows that have waited, without the mark."""
        held: Node = self._later
        if condition is not None:
            held = Filter(held.schema, held.times, held, condition)
        fields = held.schema[:-1]
        columns = tuple(Named(f.name, column(f.name, f.type)) for f in fields)
        return Project(
            fields, held.times, held, columns, tuple((t.name, t.name, 0) for t in held.times)
        )

    @staticmethod
    def _both(at_once: Node, later: Node) -> Node:
        return Union(at_once.schema, at_once.times, (at_once, later))
