"""Names of ours where they stand beside users' names: in SQL with users' expressions, in tables with users' columns.

All of them begin with `PREFIX`, which users' names may not. So none hides a user's column, and no sub-query is taken for
a struct column of the same name. Tables of ours alone have the names without the prefix.
"""

from __future__ import annotations

PREFIX = "__sw"


def ours(name: str) -> str:
    """A name of ours as it is called beside users' names.

    >>> ours("_pane"), ours("__e0")
    ('__sw_pane', '__sw__e0')
    """
    return PREFIX + name


def alone(name: str) -> str:
    """The same name where no user's is near; users' names stay as they are.

    >>> alone("__sw_pane"), alone("_pane")
    ('_pane', '_pane')
    """
    return name.removeprefix(PREFIX)


def is_ours(name: str) -> bool:
    """Whether a user may not have the name: column names ignore case.

    >>> is_ours("__SW_x"), is_ours("_sw_x")
    (True, False)
    """
    return name[: len(PREFIX)].lower() == PREFIX


def key(n: int) -> str:
    """The column of a join's key number n, where it is no column of the user's.

    >>> key(0)
    '__sw_k0'
    """
    return ours(f"_k{n}")


def sub_query(sql: str) -> str:
    """A relation for FROM: without a name of its own an engine would give it one.

    >>> sub_query("SELECT 1")
    '(SELECT 1) AS __sw_q'
    """
    return f"({sql}) AS {ours('_q')}"


ROWS = ours("_rows")
"""The table that a statement of the column engine reads."""
SOURCE = ours("_src")
"""The number of the input that a row comes from."""
TIME = ours("_time")
BUCKET = ours("_bucket")
FOR = ours("_for")
"""Bits, one for each sort that wants a row."""
ROW, MATCHED = ours("_row"), ours("_matched")
"""Of a row that waits in an outer, semi or anti join: its number, and whether it has met a partner."""
CODE = ours("_code")
"""The hash of a row's keys."""
DELAYED = ours("_delayed")
"""Whether a pair of a bounded join came from a pass."""
COLD = ours("_cold")
"""Of a row that waits for a segment of a relation: the hash of the segment's name, by which rows come together."""
VERSION, ARRIVED = ours("_version"), ours("_arrived")
"""Of such a row: the version of the relation in the batch in which it came, and the reading of the clock then."""
PASS = ours("_pass")
"""Whether all filters let a row pass."""
BARE = ours("_bare")
"""Whether of a row nothing is there but what progress needs, since nobody needs it."""
FLOOR = ours("_floor")
"""The first window that a row may enter, where lateness is judged row by row."""
PLACE = ours("_place")
"""A row's number in its table."""
