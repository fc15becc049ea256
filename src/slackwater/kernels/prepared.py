"""Statements that the column engine has planned once, over tables that change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from slackwater.kernels.column_engine import Connection

FEW = 10_000
"""Rows for which a plan that was made without knowing their number is as good as any."""


class _Held:
    """A table of a known schema, which may be another one at each reading."""

    def __init__(self, schema: pa.Schema):
        self.schema = schema
        self.table: pa.Table | None = None

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self.table is not None, "a planned statement is read outside `Prepared.run`"
        return self.table.__arrow_c_stream__(requested_schema)


class Prepared:
    """One statement on a connection of its own, whose names are the statement's alone.

    So whatever makes the engine plan it again, it finds the same tables.
    """

    def __init__(self, con: Connection, sql: str, tables: Mapping[str, pa.Table]) -> None:
        self._con = con
        self._held = {name: _Held(table.schema) for name, table in tables.items()}
        for name, held in self._held.items():
            con.register(name, held)
        con.execute(f"PREPARE __sw_statement AS {sql}")

    def run(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The answer over these tables, of the columns that the statement was made for."""
        for name, table in tables.items():
            self._held[name].table = table
        try:
            answer: pa.Table = self._con.sql("EXECUTE __sw_statement").to_arrow_table()
        finally:
            for held in self._held.values():
                held.table = None
        return answer


def is_small(tables: Mapping[str, pa.Table]) -> bool:
    """Whether a plan from before will do for these tables. Which side of a join is the smaller one, it does not know."""
    return len(tables) == 1 and all(table.num_rows <= FEW for table in tables.values())
