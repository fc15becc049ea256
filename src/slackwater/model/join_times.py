"""What the result of a join progresses on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from slackwater.model.join import How, is_existence
from slackwater.model.time import TimeColumn


def join_times(columns: Sequence[TimeColumn], how: How) -> tuple[TimeColumn, ...]:
    """The greatest of the inputs' times, each that is never null, the least; ``columns`` as the result names them.

    Of a join that asks for existence it is the left time, and no other.
    """
    parts = tuple(columns)
    if is_existence(how):
        return parts[:1]
    kept = {"inner": parts, "left": parts[:1], "right": parts[1:], "full": ()}[how]
    names = ", ".join(t.name for t in parts)
    first = parts[0]
    whole = TimeColumn("", "greatest", first.unit, first.is_integer, parts, first.is_local)
    return (
        replace(whole, name=f"greatest({names})"),
        *kept,
        replace(whole, name=f"least({names})", kind="least"),
    )


def renamed(time: TimeColumn, name_of: Callable[[str], str]) -> TimeColumn:
    """The same time where columns have other names; a greatest or least is named after its parts.

    >>> pair = join_times([TimeColumn("a", "long"), TimeColumn("b", "long")], "inner")[0]
    >>> renamed(pair, lambda name: f"x_{name}").name
    'greatest(x_a, x_b)'
    """
    if not time.parts:
        return replace(time, name=name_of(time.name))
    parts = tuple(renamed(p, name_of) for p in time.parts)
    return replace(time, name=f"{time.kind}({', '.join(p.name for p in parts)})", parts=parts)


def leaves(time: TimeColumn) -> tuple[TimeColumn, ...]:
    """The columns that a time is made of: itself, or those of a greatest or least."""
    return tuple(c for p in time.parts for c in leaves(p)) if time.parts else (time,)
