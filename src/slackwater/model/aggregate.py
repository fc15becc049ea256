"""Aggregates as a query states them, cut into primitives that merge; and what kind of aggregate each is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slackwater.model.names import ours
from slackwater.model.schema import Expr


@dataclass(frozen=True)
class Traits:
    """An aggregate's place in the taxonomy (WQ §4.8).

    ``bounded``: parts of constant size suffice (else it is holistic: a part is a table of values).
    ``differential``: the parts of a whole and of a piece of it give the parts of the rest.
    ``error`` says how far the value may be off; "" = exact (floats: up to rounding).
    """

    bounded: bool
    differential: bool
    error: str = ""

    def __str__(self) -> str:
        if self.bounded:
            text = "bounded, full-differential" if self.differential else "bounded"
        else:
            text = "holistic, pseudo-differential" if self.differential else "holistic"
        return f"{text}, {self.error or 'exact'}"


_SUMS = Traits(bounded=True, differential=True)
_BEST = Traits(bounded=True, differential=False)
_TABLE = Traits(bounded=False, differential=True)
_RANKS = Traits(bounded=True, differential=False, error="rank error at most 1/accuracy of the rows")
_HASHES = Traits(bounded=True, differential=False, error="relative standard error at most rsd")
_COUNTERS = Traits(
    bounded=True, differential=False, error="counts too low by at most error of the rows"
)

TRAITS: dict[str, Traits] = {
    **dict.fromkeys(("count", "sum", "avg"), _SUMS),
    **dict.fromkeys(("var_pop", "var_samp", "stddev_pop", "stddev_samp"), _SUMS),
    **dict.fromkeys(("covar_pop", "covar_samp", "corr"), _SUMS),
    **dict.fromkeys(("min", "max", "bool_and", "bool_or", "max_by", "min_by"), _BEST),
    **dict.fromkeys(("count_distinct", "sum_distinct", "avg_distinct"), _TABLE),
    **dict.fromkeys(("percentile", "percentile_disc", "mode", "heavy_hitters"), _TABLE),
    **dict.fromkeys(("collect_list", "collect_set"), _TABLE),
    "percentile_approx": _RANKS,
    "approx_count_distinct": _HASHES,
    "udaf": Traits(bounded=True, differential=False, error="as its functions say"),
}


@dataclass(frozen=True)
class Primitive:
    """One aggregate function call, e.g. ``sum(v)``; ``type`` is Spark's result type.

    ``count`` has no argument for ``count(*)`` or several (rows where none is null);
    ``max_by(x, y)`` and ``min_by(x, y)`` have two, ``collect_list`` the value and the row's time.
    ``name`` tells it from others of the operator (``_a0``, ``_a1``...); beside group columns its value is in `column`.
    ``params`` are constants:

    ================================== ======================================================
    percentile, percentile_disc        (percentages, whether the result is an array, descending)
    percentile_approx                  (percentages, whether the result is an array, accuracy)
    mode                               (), or (True,) to take the greatest of equally frequent ones
    approx_count_distinct              (relative standard deviation,)
    heavy_hitters                      (share, error or None for exact counts)
    udaf                               (the `Udaf`, whether the last argument says which rows count)
    ================================== ======================================================
    """

    name: str
    function: str
    args: tuple[Expr, ...]
    type: str
    params: tuple[Any, ...] = ()

    @property
    def column(self) -> str:
        """The column that holds the finished value, where users' group columns are beside it."""
        return ours(self.name)

    @property
    def call(self) -> str:
        """The call as text; two calls with one text have the same state."""
        inside = ", ".join(a.sql for a in self.args) or "*"
        if self.params:
            inside += "; " + ", ".join(str(v) for v in self.params)
        return f"{self.function}({inside})"

    @property
    def traits(self) -> Traits:
        """What kind of aggregate it is."""
        if self.function == "heavy_hitters" and self.params[1] is not None:
            return _COUNTERS
        return TRAITS[self.function]


@dataclass(frozen=True)
class Udaf:
    """A user's aggregate: four functions, pickled by value as ``code``.

    ``identity`` tells a changed one from the same one after a restart: the version that the user gave, or
    a digest of the functions. ``state`` are (name, Spark type) of what a state holds.
    """

    name: str
    identity: str
    state: tuple[tuple[str, str], ...]
    type: str
    code: bytes

    def __str__(self) -> str:
        fields = ", ".join(f"{n} {t}" for n, t in self.state)
        return f"{self.name}@{self.identity} [{fields}] {self.type}"
