"""Aggregate functions beyond Spark's: heavy hitters, and a user's own."""

from __future__ import annotations

import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError
from slackwater.model.aggregate import Udaf

if TYPE_CHECKING:
    from pyspark.sql import Column

State = dict[str, Any]


def heavyHitters(col: Column | str, share: float, *, error: float | None = None) -> Column:
    """The values that make up at least ``share`` of a group's rows, with their counts.

    An aggregate column of type ``array<struct<value, count>>``, the most frequent values first, then by
    value. Rows where the value is null do not count.

    Parameters
    ----------
    col
        The column, or its name.
    share
        Between 0 and 1, e.g. 0.05 for 5 %.
    error
        Without it the counts are exact, and a pane remembers each of its values. With it a pane remembers at
        most ``1/error`` values: a count may be too low by ``error`` of the rows, no value with the
        share is missing, and each one found has at least ``share - error``.
    """
    from slackwater.engine.analysis.markers import heavy_hitters

    if not 0 < share <= 1:
        raise _bad("share", share, "a share of the rows, above 0 and at most 1, e.g. 0.05")
    if error is not None and not 1e-6 <= error < share:
        raise _bad("error", error, f"an error between 0.000001 and the share {share}")
    made = heavy_hitters(_column(col), float(share), None if error is None else float(error))
    name = col if isinstance(col, str) else str(col)[8:-2]  # Column<'...'>
    return made.alias(f"heavyHitters({name}, {share})")


class UserAggregate:
    """An aggregate function of the user's; call it with columns in ``agg``. Made by `udaf`."""

    def __init__(self, described: Udaf):
        self._udaf = described

    def __call__(self, *cols: Column | str) -> Column:
        from slackwater.engine.analysis.markers import user_defined

        if not cols:
            raise AnalysisError(
                "BAD_OPTION",
                f"the aggregate '{self._udaf.name}' has no argument",
                hint="call it with at least one column",
            )
        made = user_defined(self._udaf, [_column(c) for c in cols])
        shown = ", ".join(c if isinstance(c, str) else str(c)[8:-2] for c in cols)
        return made.alias(f"{self._udaf.name}({shown})")

    def __repr__(self) -> str:
        return f"sw.udaf({self._udaf})"


def udaf(
    init: Callable[[], State],
    update: Callable[..., State],
    merge: Callable[[State, State], State],
    finish: Callable[[State], Any],
    *,
    stateType: str | Mapping[str, str],
    returnType: str,
    name: str | None = None,
    version: str | None = None,
) -> UserAggregate:
    """An aggregate function from four functions on Arrow columns.

    ``update`` is called once per group, pane and batch with all the group's rows as Arrow arrays; never per
    row. ``merge`` joins the states of two pieces of a group, in any order: it must be associative and
    commutative. States are dicts of plain values.

    Parameters
    ----------
    init
        ``init()`` gives the state of no rows.
    update
        ``update(state, *columns)`` gives the state with the rows of the Arrow arrays.
    merge
        ``merge(a, b)`` gives the state of both.
    finish
        ``finish(state)`` gives the result, or None for null.
    stateType
        Types of what a state holds: ``"total double, n bigint"``, or a dict of names and types.
    returnType
        Type of the result, e.g. ``"double"``.
    name
        Shown in plans and errors; the name of ``update`` by default.
    version
        A query is restarted only with the functions that it had: they are told apart by what they do. Give
        a version to say so yourself; then only the version counts.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> spread = udaf(
    ...     lambda: {"low": None, "high": None},
    ...     lambda s, x: {"low": pc.min(x), "high": pc.max(x)},
    ...     lambda a, b: {
    ...         "low": min((v["low"] for v in (a, b) if v["low"] is not None), default=None),
    ...         "high": max((v["high"] for v in (a, b) if v["high"] is not None), default=None),
    ...     },
    ...     lambda s: None if s["low"] is None else s["high"] - s["low"],
    ...     stateType="low double, high double",
    ...     returnType="double",
    ...     name="spread",
    ...     version="1",
    ... )
    >>> spread
    sw.udaf(spread@1 [low double, high double] double)
    """
    functions = (init, update, merge, finish)
    for given, what in zip(functions, ("init", "update", "merge", "finish"), strict=True):
        if not callable(given):
            raise _bad(what, given, "a function")
    state = _fields(stateType)
    _check_type("returnType", returnType)
    called = name or getattr(update, "__name__", "udaf").strip("<>")
    identity = version if version is not None else _digest(functions)
    return UserAggregate(Udaf(called, identity, state, returnType, _pickled(functions)))


def _column(col: Column | str) -> Column:
    from pyspark.sql import functions as F

    return F.col(col) if isinstance(col, str) else col


def _fields(given: str | Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    from slackwater.kernels.types import split

    if isinstance(given, str):
        pairs = [piece.strip().partition(" ")[::2] for piece in split(given)]
    else:
        pairs = [(str(n), str(t)) for n, t in given.items()]
    fields = tuple((n.strip("`"), t.strip()) for n, t in pairs)
    if (
        not fields
        or len({n for n, _ in fields}) < len(fields)
        or not all(n and t for n, t in fields)
    ):
        raise _bad("stateType", given, 'names and types, e.g. "total double, n bigint"')
    for _, t in fields:
        _check_type("stateType", t)
    return fields


def _check_type(what: str, given: str) -> None:
    from slackwater.kernels.types import parse

    try:
        parse(given)
    except AnalysisError as error:
        raise _bad(what, given, "a type such as double, bigint or array<string>") from error


def _pickled(functions: tuple[Callable[..., Any], ...]) -> bytes:
    """The functions by value: a worker need not have the module they come from."""
    import pyspark.cloudpickle

    cloudpickle: Any = pyspark.cloudpickle

    modules = []
    for f in functions:
        module = sys.modules.get(getattr(f, "__module__", None) or "")
        if module is not None and module.__name__ != "__main__" and _is_users(module):
            with suppress(ValueError):
                cloudpickle.register_pickle_by_value(module)
                modules.append(module)
    try:
        done: bytes = cloudpickle.dumps(functions)
    except Exception as error:
        raise AnalysisError(
            "BAD_OPTION",
            f"the functions of sw.udaf cannot be sent to workers: {error}",
            hint="use functions that refer to plain values only, not to sessions, files or locks",
        ) from error
    finally:
        for module in modules:
            with suppress(ValueError):
                cloudpickle.unregister_pickle_by_value(module)
    return done


def _is_users(module: types.ModuleType) -> bool:
    """Whether a module is not installed: workers have what is."""
    file = getattr(module, "__file__", None)
    if file is None:
        return False
    places = {sysconfig.get_paths()[p] for p in ("stdlib", "platstdlib", "purelib", "platlib")}
    return not any(Path(file).is_relative_to(p) for p in places)


def _digest(functions: tuple[Callable[..., Any], ...]) -> str:
    """What the functions do: their code, constants, defaults and what they enclose."""
    made = hashlib.sha256()
    for f in functions:
        made.update(_described(f, 0).encode())
    return made.hexdigest()[:12]


def _described(value: Any, depth: int) -> str:
    if isinstance(value, types.CodeType):
        inside = ",".join(_described(c, depth) for c in value.co_consts)
        return f"{value.co_code.hex()}|{value.co_names}|{value.co_varnames}|{inside}"
    if isinstance(value, types.FunctionType) and depth < 4:
        enclosed = [c.cell_contents for c in value.__closure__ or ()]
        used = [value.__globals__.get(n) for n in value.__code__.co_names]
        helpers = [g for g in used if isinstance(g, (types.FunctionType, int, float, str))]
        parts = [value.__code__, value.__defaults__, value.__kwdefaults__, *enclosed, *helpers]
        return "(" + ";".join(_described(p, depth + 1) for p in parts) + ")"
    if isinstance(value, functools.partial) and depth < 4:
        parts = [value.func, value.args, *sorted(value.keywords.items())]
        return "partial(" + ";".join(_described(p, depth + 1) for p in parts) + ")"
    if isinstance(value, types.MethodType) and depth < 4:
        held = sorted(getattr(value.__self__, "__dict__", {}).items())
        return "method(" + ";".join(_described(p, depth + 1) for p in (value.__func__, held)) + ")"
    if isinstance(value, (list, tuple)) and depth < 4:
        return "[" + ";".join(_described(p, depth + 1) for p in value) + "]"
    if isinstance(value, (types.ModuleType, type, types.BuiltinFunctionType, types.FunctionType)):
        return str(getattr(value, "__name__", value))
    if isinstance(value, (frozenset, set)):
        return repr(sorted(map(repr, value)))
    text = repr(value)
    return f"{type(value).__name__}" if " at 0x" in text else text


def _bad(option: str, value: Any, expected: str) -> AnalysisError:
    return AnalysisError(
        "BAD_OPTION",
        f"{option}={value!r} is not usable",
        hint=f"give {expected}",
        option=option,
        value=str(value),
    )
