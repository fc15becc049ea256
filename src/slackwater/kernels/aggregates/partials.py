"""Aggregates cut into parts that merge: what both engines compute, and how the parts are finished.

======================= ============================ ==========================================
aggregate               state columns (after name)   note
======================= ============================ ==========================================
count                   ``_n``
sum, avg of integers    ``_n``, ``_0`` ...           exact, in limbs of 32 bits
and decimals
sum, avg of floats      ``_n``, ``_s``               a double, as in Spark
variance family         ``_n``, ``_mean``, ``_m2``   merged by Chan's rule
min, max, bool_and/or   ``_v``                       null = no value yet
max_by, min_by          ``_y``, ``_x``               null ``_y`` = no row yet
covariance, correlation ``_n``, ``_mx`` ...          see ``comoments``
distinct, quantiles,    ``_t``                       value→count tables, see ``holistic``,
modes, collections                                   thinned ones in ``sketches``
approx_count_distinct   ``_r``                       registers, see ``sketches``
udaf                    ``_u``                       the user's state, see ``udaf``
======================= ============================ ==========================================
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.kernels.aggregates import cells
from slackwater.kernels.aggregates import limbs as lb
from slackwater.kernels.aggregates.cells import Counts, Exact, Extreme, Floats, Moments
from slackwater.kernels.aggregates.comoments import Comoments
from slackwater.kernels.aggregates.holistic import TableKind
from slackwater.kernels.aggregates.kinds import kind_of, unsupported
from slackwater.kernels.aggregates.sketches import Hashes
from slackwater.kernels.aggregates.udaf import UserKind
from slackwater.kernels.buckets import flat
from slackwater.kernels.types import arrow_type, parse
from slackwater.model.aggregate import Primitive
from slackwater.model.duck_sql import quote
from slackwater.model.names import ours

__all__ = [
    "duck_partials", "finish", "from_duck", "from_spark", "kind_of",
    "merge_groups", "of_no_rows", "spark_partials", "state_fields", "typed",
]  # fmt: skip

_OWN = (Comoments, TableKind, Hashes, UserKind)
"""Kinds that say themselves what the column engine selects, and read it."""


def state_fields(p: Primitive) -> list[pa.Field]:
    """The state columns."""
    return list(kind_of(p).fields)


def merge_groups(
    primitives: Sequence[Primitive], table: pa.Table, starts: npt.NDArray[np.int64]
) -> pa.Table:
    """Merge the state columns of rows that lie together by group: one row per segment.

    ``starts`` are the rows where segments begin, rising, the first one 0.
    """
    names: list[str] = []
    columns: list[pa.Array] = []
    for p in primitives:
        kind = kind_of(p)
        arrays, memory = kind.load(table)
        columns += kind.dump(kind.reduce(arrays, starts), memory)
        names += [f.name for f in kind.fields]
    return pa.table(columns, names=names)


def finish(p: Primitive, table: pa.Table, ansi: bool) -> pa.Array:
    """The values of state rows, in Spark's result type."""
    kind = kind_of(p)
    arrays, memory = kind.load(table)
    return typed(p, kind.finish(arrays, memory, ansi))


def of_no_rows(p: Primitive, count: int) -> pa.Array:
    """``count`` times the value of an aggregate over no rows."""
    kind = kind_of(p)
    t = arrow_type(p.type)
    if isinstance(kind, Counts):
        return pa.array(np.zeros(count, np.int64)).cast(t)
    if isinstance(kind, UserKind):
        state = [kind.blank()]
    elif isinstance(kind, (TableKind, Hashes)):
        empty: list[object] = [[]]
        state = [pa.array(empty if pa.types.is_list(f.type) else [0], f.type) for f in kind.fields]
    else:
        return pa.nulls(count, t)
    one = finish(p, pa.table(state, schema=pa.schema(kind.fields)), True)
    return one.take(pa.array(np.zeros(count, dtype=np.int64)))


def typed(p: Primitive, values: pa.Array) -> pa.Array:
    """Values in the Arrow type of ``p.type``."""
    t = arrow_type(p.type)
    return values if values.type.equals(t) else values.cast(t)


def duck_partials(p: Primitive) -> list[str]:
    """Select items of the column engine, under names of ours; without the prefix their result goes through ``from_duck``."""
    args = []
    for a in p.args:
        if a.duck is None:
            raise unsupported(p, f"{a.sql} cannot run in the column engine: {a.why}")
        args.append(a.duck)
    kind = kind_of(p)

    def item(expression: str, suffix: str) -> str:
        return f"{expression} AS {quote(ours(p.name + suffix))}"

    if isinstance(kind, _OWN):
        return [item(expression, suffix) for expression, suffix in kind.select(args)]
    if isinstance(kind, Counts):
        if not args:
            return [item("count(*)", "_n")]
        if len(args) == 1:
            return [item(f"count({args[0]})", "_n")]
        nulls = " AND ".join(f"({a}) IS NOT NULL" for a in args)
        return [item(f"count(*) FILTER (WHERE {nulls})", "_n")]
    x = args[0]
    if isinstance(kind, Exact):
        parsed = parse(p.args[0].type)
        count = item(f"count({x})", "_n")
        if parsed.kind != "decimal" or parsed.precision <= 28:
            # The engine adds up in 128 bits: room for 10**10 rows of 28 digits.
            return [count, item(f"CAST(sum({x}) AS DECIMAL(38,{parsed.scale}))", "_s")]
        # Wider decimals: two sums of 19 digits each, of the digits as text (there is no other way
        # to the unscaled value that keeps all 38 digits).
        wide = f"CAST(CAST({x} AS DECIMAL(38,{parsed.scale})) AS VARCHAR)"
        whole = f"CAST(replace({wide}, '.', '') AS HUGEINT)"
        cut = "CAST(10000000000000000000 AS HUGEINT)"
        return [
            count,
            item(f"CAST(sum({whole} // {cut}) AS DECIMAL(38,0))", "_h"),
            item(f"CAST(sum({whole} % {cut}) AS DECIMAL(38,0))", "_s"),
        ]
    if isinstance(kind, Floats):
        return [item(f"count({x})", "_n"), item(f"sum(CAST({x} AS DOUBLE))", "_s")]
    if isinstance(kind, Moments):
        double = f"CAST({x} AS DOUBLE)"
        # Some versions of the engine refuse a variance that is not finite; `_bad` makes it NaN.
        finite = f"FILTER (WHERE isfinite({double}))"
        return [
            item(f"count({x})", "_n"),
            item(f"favg({double}) {finite}", "_mean"),
            item(f"var_pop({double}) {finite}", "_m2"),
            item(f"count(*) FILTER (WHERE NOT isfinite({double}))", "_bad"),
        ]
    least = isinstance(kind, Extreme) and kind.least
    function = "min" if least else "max"
    if len(p.args) == 1:
        return [item(f"{function}({x})", "_v")]
    pair = f"{{'y': {args[1]}, 'p': ({x}) IS NOT NULL, 'x': {x}}}"
    return [item(f"{function}({pair}) FILTER (WHERE ({args[1]}) IS NOT NULL)", "_v")]


def from_duck(p: Primitive, table: pa.Table) -> list[pa.Array]:
    """State columns from what ``duck_partials`` selected."""
    kind = kind_of(p)
    if isinstance(kind, _OWN):
        return kind.read(table)
    if isinstance(kind, Exact):
        sums = lb.from_decimals(_column(table, p, "_s"), kind.limbs)
        if f"{p.name}_h" in table.column_names:
            high = lb.from_decimals(_column(table, p, "_h"), kind.limbs)
            for _ in range(2):
                high = lb.scaled(high, 10**8)
            sums = lb.carry(lb.add(lb.scaled(high, 10**3), sums))
        return [_column(table, p, "_n").cast(pa.int64()), *(pa.array(s) for s in sums)]
    if isinstance(kind, Floats):
        return [_column(table, p, "_n").cast(pa.int64()), _column(table, p, "_s").fill_null(0.0)]
    if isinstance(kind, Moments):
        n = cells.numbers(table, f"{p.name}_n")
        bad = cells.numbers(table, f"{p.name}_bad")
        mean = cells.numbers(table, f"{p.name}_mean", 0.0)
        m2 = cells.numbers(table, f"{p.name}_m2", 0.0) * (n - bad)
        mean, m2 = np.where(bad > 0, np.nan, mean), np.where(bad > 0, np.nan, m2)
        return [pa.array(n.astype(np.int64)), pa.array(mean), pa.array(m2)]
    if isinstance(kind, Extreme) and len(kind.types) == 2:
        return _pair(kind, _column(table, p, "_v"))
    return [_cast(flat(table.column(f.name)), f.type) for f in kind.fields]


def spark_partials(p: Primitive) -> list[tuple[str, str]] | None:
    """(name, Spark SQL aggregate) pairs whose partial buffers are their values, or None.

    None: the row engine has no such partial; it hands rows over. The result goes through
    ``from_spark``.
    """
    kind = kind_of(p)
    args = [a.sql for a in p.args]
    if isinstance(kind, Counts):
        return [(f"{p.name}_n", f"count({', '.join(args) or '1'})")]
    if isinstance(kind, (Moments, *_OWN)):
        return None  # sums of squares would not be stable, tables are not for the JVM
    x = args[0]
    if isinstance(kind, Exact):
        parsed = parse(p.args[0].type)
        if parsed.kind == "decimal":
            if parsed.precision > 18:
                return None
            if parsed.scale:
                factor = f"CAST(1{'0' * parsed.scale} AS DECIMAL({parsed.scale + 1},0))"
                x = f"({x}) * {factor}"
        whole = f"CAST({x} AS BIGINT)"
        count = (f"{p.name}_n", f"count({args[0]})")
        if kind.limbs == 1:
            return [count, (f"{p.name}_0", f"sum({whole})")]
        return [
            count,
            (f"{p.name}_0", f"sum({whole} & 4294967295L)"),
            (f"{p.name}_1", f"sum(shiftright({whole}, 32))"),
        ]
    if isinstance(kind, Floats):
        return [(f"{p.name}_n", f"count({x})"), (f"{p.name}_s", f"sum(CAST({x} AS DOUBLE))")]
    function = "min" if isinstance(kind, Extreme) and kind.least else "max"
    if len(args) == 1:
        return [(f"{p.name}_v", f"{function}({x})")]
    pair = f"named_struct('y', {args[1]}, 'x', {x})"
    return [(f"{p.name}_v", f"{function}(IF(({args[1]}) IS NULL, NULL, {pair}))")]


def from_spark(p: Primitive, table: pa.Table) -> list[pa.Array]:
    """State columns from what ``spark_partials`` computed."""
    kind = kind_of(p)
    if isinstance(kind, Extreme) and len(kind.types) == 2:
        return _pair(kind, _column(table, p, "_v"))
    columns = [_cast(flat(table.column(f.name)), f.type) for f in kind.fields]
    if isinstance(kind, Exact):
        columns = [c.fill_null(0) for c in columns]
        sums = lb.carry([c.to_numpy(zero_copy_only=False) for c in columns[1:]])
        return [columns[0], *(pa.array(s) for s in sums)]
    if isinstance(kind, Floats):
        columns[1] = columns[1].fill_null(0.0)
    return columns


def _pair(kind: Extreme, structs: pa.Array) -> list[pa.Array]:
    # flatten() carries the struct's own nulls into the fields.
    parts = dict(zip((f.name for f in structs.type), structs.flatten()))
    return [_cast(parts[n], f.type) for n, f in zip(("y", "x"), kind.fields)]


def _column(table: pa.Table, p: Primitive, suffix: str) -> pa.Array:
    return flat(table.column(p.name + suffix))


def _cast(array: pa.Array, t: pa.DataType) -> pa.Array:
    return array if array.type.equals(t) else array.cast(t)
