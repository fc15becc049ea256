"""A table beside the streams: it stands still within a batch, and may be another one in the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from slackwater.model.schema import Expr, Field, Named

Change = Expr | tuple[Named, ...]
"""What is made of a table's rows: those for which a condition is true, or columns in the place of those they had."""


@dataclass(frozen=True)
class Relation:
    """A table as a query names it; which rows it has is said by the version that a batch takes.

    ``path`` is where it lies, ``fields`` are the columns that are read of it. ``changes`` are made of its rows, one after the
    other, ``schema`` are the columns afterwards. ``key`` are those of them that rows of a stream are compared with; a key may
    occur several times. ``use`` is how its rows are had and when it is looked at, as the surface hands it to the engine; it
    may change from start to start. ``known_as`` is its text on the checkpoint, if the table had other columns then that the
    query does not read.
    """

    name: str
    path: str
    fields: tuple[Field, ...]
    key: tuple[str, ...]
    schema: tuple[Field, ...]
    changes: tuple[Change, ...] = ()
    use: Any = field(default=None, compare=False, repr=False)
    known_as: str = field(default="", compare=False, repr=False)
