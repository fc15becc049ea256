"""What a query reads of its relations: a table's form, which is all that tasks must know to have its rows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from slackwater.engine.plan.read_columns import Columns
from slackwater.model.names import ours
from slackwater.model.relation import Relation
from slackwater.model.schema import Expr, Field, Named


@dataclass(frozen=True)
class TableForm:
    """Rows of a relation as a join needs them: its key, and those of the other ``columns`` that anybody reads."""

    relation: Relation
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the relation."""
        return self.relation.name

    @cached_property
    def digest(self) -> str:
        """A short name that depends on what is read, and on nothing else."""
        whole = self.relation
        described = (whole.name, self.fields, whole.key, self.changes, self.columns)
        return hashlib.sha256(repr(described).encode()).hexdigest()[:12]

    @property
    def table(self) -> str:
        """What the table is called in statements of the column engine."""
        return ours(f"_rel_{self.digest}")

    @cached_property
    def changes(self) -> tuple[Expr | tuple[Named, ...], ...]:
        """What is made of the rows that are read, without columns that nobody reads."""
        return tuple(change for change, _ in self._narrowed)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns of the files that are read."""
        wanted = Columns((*self.relation.key, *self.columns))
        if self._narrowed:
            wanted = self._narrowed[0][1]
        return tuple(f for f in self.relation.fields if f.name in wanted)

    @cached_property
    def _narrowed(self) -> list[tuple[Expr | tuple[Named, ...], Columns]]:
        """The changes, each with the columns that it needs of the rows before it."""
        wanted = Columns((*self.relation.key, *self.columns))
        made: list[tuple[Expr | tuple[Named, ...], Columns]] = []
        for change in reversed(self.relation.changes):
            if isinstance(change, Expr):
                wanted = wanted.and_those_of(change)
                made.insert(0, (change, wanted))
                continue
            # An expression may fail, and then has to, whoever reads it.
            kept = tuple(c for c in change if c.name in wanted or not is_plain(c))
            wanted = Columns(texts=(c.expr for c in kept))
            made.insert(0, (kept, wanted))
        return made


def stored_keys(relation: Relation) -> tuple[Field | None, ...]:
    """The column of the files behind each key of a relation; None if the key is computed."""
    fields = {f.name: f for f in relation.fields}
    return tuple(fields.get(_stored_name(relation, key) or "") for key in relation.key)


def _stored_name(relation: Relation, name: str) -> str | None:
    for change in reversed(relation.changes):
        if isinstance(change, Expr):
            continue
        made = next((c for c in change if c.name == name), None)
        if made is None or not is_plain(made):
            return None
        name = made.expr.sql[1:-1].replace("``", "`")
    return name


def is_plain(column: Named) -> bool:
    """Whether a projection gives a column of its input as it is, by whatever name."""
    text = column.expr.sql
    return text[:1] == text[-1:] == "`" and "`" not in text[1:-1].replace("``", "")
