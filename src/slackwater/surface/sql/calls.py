"""Calls in an expression, found on tokens: aggregates, functions of ours, and the columns of a window."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from slackwater.surface.sql.tokens import Token
from slackwater.surface.sql.tree import Cut

HEAVY_HITTERS = ("heavy_hitters", "heavyhitters")
AGGREGATES = frozenset(
    [
        "any",
        "any_value",
        "approx_count_distinct",
        "approx_percentile",
        "approx_top_k",
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bitmap_construct_agg",
        "bitmap_or_agg",
        "bool_and",
        "bool_or",
        "collect_list",
        "collect_set",
        "corr",
        "count",
        "count_if",
        "count_min_sketch",
        "covar_pop",
        "covar_samp",
        "every",
        "first",
        "first_value",
        "grouping",
        "grouping_id",
        "histogram_numeric",
        "hll_sketch_agg",
        "hll_union_agg",
        "kurtosis",
        "last",
        "last_value",
        "listagg",
        "max",
        "max_by",
        "mean",
        "median",
        "min",
        "min_by",
        "mode",
        "percentile",
        "percentile_approx",
        "percentile_cont",
        "percentile_disc",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "schema_of_json_agg",
        "skewness",
        "some",
        "std",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "string_agg",
        "sum",
        "try_avg",
        "try_sum",
        "var_pop",
        "var_samp",
        "variance",
    ]
)
"""Names of Spark's aggregate functions."""


@dataclass(frozen=True)
class Call:
    """A call: the numbers of its first token and of the one behind it, and its arguments as ranges."""

    name: str
    first: int
    last: int
    arguments: tuple[tuple[int, int], ...]


def calls(tokens: Sequence[Token], cut: Cut, names: Collection[str]) -> list[Call]:
    """The outermost calls of functions of these names."""
    made: list[Call] = []
    i = cut.first
    while i < cut.last - 1:
        token = tokens[i]
        named = token.is_name and token.name.lower() in names and tokens[i + 1].is_sign("(")
        if not named or (i > cut.first and tokens[i - 1].is_sign(".")):
            i += 1
            continue
        end, arguments = _brackets(tokens, i + 1)
        end = _behind(tokens, end, cut.last)
        made.append(Call(token.name.lower(), i, end, arguments))
        i = end
    return made


def _brackets(tokens: Sequence[Token], opening: int) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The number behind the closing bracket, and the ranges between commas."""
    depth, i, begin = 0, opening, opening + 1
    ranges: list[tuple[int, int]] = []
    while True:
        token = tokens[i]
        if token.is_sign("(", "[", "{"):
            depth += 1
        elif token.is_sign(")", "]", "}"):
            depth -= 1
        if (depth == 1 and token.is_sign(",")) or depth == 0:
            if begin < i:
                ranges.append((begin, i))
            begin = i + 1
        if depth == 0:
            return i + 1, tuple(ranges)
        i += 1


def _behind(tokens: Sequence[Token], end: int, limit: int) -> int:
    """With ``FILTER (...)``, ``WITHIN GROUP (...)`` and the like behind the call."""
    while end < limit:
        if tokens[end].is_word("FILTER") and tokens[end + 1].is_sign("("):
            end, _ = _brackets(tokens, end + 1)
        elif tokens[end].is_word("WITHIN") and tokens[end + 1].is_word("GROUP"):
            end, _ = _brackets(tokens, end + 2)
        elif tokens[end].is_word("IGNORE", "RESPECT") and tokens[end + 1].is_word("NULLS"):
            end += 2
        else:
            break
    return end
