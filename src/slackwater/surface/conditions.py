"""Conditions of joins that are Python functions on Arrow columns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.errors import AnalysisError
from slackwater.kernels.by_value import ByValue
from slackwater.model.join import Condition
from slackwater.model.schema import Field
from slackwater.surface.functions import _digest, _pickled


@dataclass(frozen=True)
class ConditionSpec:
    """A function for ``where=`` of a join, with its name and version; made by `condition`."""

    function: Callable[..., Any]
    name: str | None = None
    version: str | None = None


def condition(
    function: Callable[..., Any], *, name: str | None = None, version: str | None = None
) -> ConditionSpec:
    """A function for ``where=`` of a join; a plain function will do if it needs no name or version.

    Its parameters are named after columns of the join's result, and it gets these as Arrow arrays, many pairs at a time;
    a single parameter of another name gets all columns, as a table. It returns an array of booleans: which
    pairs match. It must not depend on anything but its arguments.

    Parameters
    ----------
    name
        Shown in plans and errors; the function's own by default.
    version
        A query is restarted only with the function that it had, which is told by what the function does. Give a
        version to say so yourself; then only the version counts.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> condition(lambda a_price, b_price: pc.less(a_price, b_price), version="1").version
    '1'
    """
    return ConditionSpec(function, name, version)


def condition_of(spec: ConditionSpec, fields: Sequence[Field]) -> Condition:
    """The condition of a join whose result has these columns."""
    function = spec.function
    called = spec.name or getattr(function, "__name__", type(function).__name__).strip("<>")
    if not callable(function):
        raise _bad(
            called, f"is of type {type(function).__name__}, not a function", "give a function"
        )
    columns = _columns(called, function, [f.name for f in fields])
    version = spec.version if spec.version is not None else _digest((function,))
    return Condition(called, version, columns, ByValue(_pickled((function,)), 0))


def _columns(called: str, function: Callable[..., Any], names: Sequence[str]) -> tuple[str, ...]:
    """The columns that a function takes; none: it takes a table."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p.name for p in plain if p.default is p.empty]
    if len(plain) < len(parameters) and not needed:
        raise _bad(
            called, "has no parameter of its own", "name its parameters after columns of the result"
        )
    by_lower = {n.lower(): n for n in names}
    columns = [by_lower.get(n.lower()) for n in needed]
    if len(needed) == 1 and columns[0] is None:
        return ()
    unknown = [n for n, c in zip(needed, columns, strict=True) if c is None]
    if unknown or not needed:
        what = f"has a parameter '{unknown[0]}', which is no column" if unknown else "takes nothing"
        raise _bad(
            called,
            f"{what} of the join's result" if unknown else what,
            f"name its parameters after columns: {', '.join(names)}; or take all, as one table",
        )
    return tuple(c for c in columns if c is not None)


def _bad(called: str, what: str, hint: str) -> AnalysisError:
    return AnalysisError("JOIN_CONDITION", f"where=: the function '{called}' {what}", hint=hint)
