"""What is known of a store of rows that several sorts share, and what a batch adds to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.semantics.limits import START
from slackwater.semantics.slack.routes import Routes
from slackwater.semantics.slack.tree import Selectivity
from slackwater.semantics.slack.trigger import Penalty, Reports

__all__ = ["Marks", "StoreReport", "Waiting"]

Marks = Mapping[str, Mapping[str, int]]
"""By place, then by consumer; a consumer is owed nothing from a place where it has no mark."""


@dataclass(frozen=True)
class StoreReport:
    """What a batch did to a store of rows.

    ``marks`` say how far each place with rows has come, ``rows`` how many passed each filter. ``newest`` is the greatest
    time of the batch, None without rows; ``moved`` rows changed their place for another route.
    """

    marks: Marks
    rows: Mapping[str, int]
    newest: int | None
    moved: int
    seconds: float


@dataclass(frozen=True)
class Waiting:
    """What is known of a store of rows: its routes, how far each place has come, what filters let through.

    ``reports`` is how far each sort is behind, ``newest`` the greatest time that the store has seen, ``usual`` the
    seconds that a batch takes it. Routes that are ``changed`` have not been followed yet: what the next batch takes
    longer than usual is their price.
    """

    routes: Routes
    marks: Marks = field(default_factory=dict)
    selectivity: Mapping[str, Selectivity] = field(default_factory=dict)
    reports: Reports = Reports({})  # noqa: RUF009
    penalty: Penalty = Penalty()  # noqa: RUF009
    newest: int = START
    usual: float = 0.0
    changed: bool = False
