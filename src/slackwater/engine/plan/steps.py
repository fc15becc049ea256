"""A row operator as the plan has it: one step of the rows on a path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from slackwater.model.schema import Expr, Named

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
    rows whose time is not plausible: nobody could say for how long these would be missed. As a plain filter it drops them.
    """

    match: Expr = NEVER
    node: str = ""
    place: str = ""
    soft: bool = True


@dataclass(frozen=True)
class ProjectStep:
    """Each row goes on with ``columns`` in the place of those it had."""

    columns: tuple[Named, ...]
    drops_rows: ClassVar[bool] = False

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The expressions it evaluates."""
        return tuple(c.expr for c in self.columns)


Step = FilterStep | ProjectStep


def unknown_step(step: NoReturn) -> TypeError:
    """The error of a ``match`` that does not know a step; type checkers see that it knows all."""
    return TypeError(f"no step of a path is a {type(step).__name__}")
