"""A join with a relation as operators: one that joins rows as they come, and one for rows that wait for a partner."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from slackwater.model.join import How, is_existence
from slackwater.model.join_times import renamed
from slackwater.model.names import MATCHED
from slackwater.model.node import MET, Filter, Held, Lookup, Node, Project, Union, raw_name
from slackwater.model.relation import Relation
from slackwater.model.schema import Expr, Field, Named, column

_MET = column(MATCHED, "boolean")
_UNMET = Expr(f"(NOT {_MET.sql})", "boolean", f"(NOT {_MET.duck})")


@dataclass(frozen=True)
class RelationJoin:
    """A stream and a relation.

    ``columns`` are those of a pair, with all of the stream's; ``where`` is over these. ``on`` is the time by which rows are
    held, for ``hold`` ticks; without ``hold`` a row without a partner leaves at once.
    """

    child: Node
    relation: Relation
    keys: tuple[Named, ...]
    columns: tuple[Named, ...]
    how: How = "inner"
    where: Expr | None = None
    on: str = ""
    hold: int | None = None

    @property
    def result(self) -> Node:
        """The join itself."""
        if self.hold is None:
            return self._lookup(self.how)
        if self.how == "left_anti":
            return self.unmatched
        if self.how == "left":
            return self._both(self._lookup("inner"), self._leaving(None))
        return self._both(self._lookup(self.how), self._leaving(_MET))

    @cached_property
    def unmatched(self) -> Node:
        """The stream's rows that have no partner."""
        if self.hold is None:
            return self._lookup("left_anti")
        alone = Filter(self._held.schema, self._held.times, self._held, _UNMET)
        places = self._names(self._held.outputs)
        columns = tuple(Named(f.name, column(places[f.name], f.type)) for f in self.child.schema)
        origins = tuple((name, out, 0) for out, name in self._held.origins)
        return Project(self.child.schema, self.child.times, alone, columns, origins)

    def _names(self, outputs: tuple[Named, ...]) -> dict[str, str]:
        """What each column of the stream is called in the output."""
        raws = {column(raw_name(0, f.name), f.type).sql: f.name for f in self.child.schema}
        return {raws[c.expr.sql]: c.name for c in reversed(outputs) if c.expr.sql in raws}

    @cached_property
    def _held(self) -> Held:
        """Rows that wait: one operator, whoever reads of it."""
        assert self.hold is not None
        kind: How = "left_semi" if is_existence(self.how) else "inner"
        made = self._lookup(kind)
        return Held(
            (*made.schema, MET), made.times, self._lookup("left_anti"), self.relation, self.keys,
            kind, self.where, made.outputs, made.pair, made.origins, self.on, self.hold,
        )  # fmt: skip

    def _lookup(self, how: How) -> Lookup:
        """Rows joined as they come."""
        tested = self.columns if self.where is not None else ()
        outputs, pair = (self._as_they_are, tested) if is_existence(how) else (self.columns, ())
        names = self._names(outputs)
        times = tuple(renamed(t, names.__getitem__) for t in self.child.times)
        origins = tuple((t.name, old.name) for t, old in zip(times, self.child.times, strict=True))
        schema = tuple(Field(c.name, c.expr.type) for c in outputs)
        return Lookup(
            schema, times, self.child, self.relation, self.keys, how, self.where, outputs, pair, origins,
        )  # fmt: skip

    @property
    def _as_they_are(self) -> tuple[Named, ...]:
        return tuple(Named(f.name, column(raw_name(0, f.name), f.type)) for f in self.child.schema)

    def _leaving(self, condition: Expr | None) -> Node:
        """Rows that have waited, without the mark."""
        held: Node = self._held
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
