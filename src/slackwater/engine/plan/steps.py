"""A row operator as the plan has it: one step of the rows on a path."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.model.schema import Expr, Named


@dataclass(frozen=True)
class Step:
    """One row operator on a path: a filter (``condition``) or a projection (``columns``)."""

    condition: Expr | None = None
    columns: tuple[Named, ...] = ()

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The expressions it evaluates."""
        if self.condition is not None:
            return (self.condition,)
        return tuple(c.expr for c in self.columns)
