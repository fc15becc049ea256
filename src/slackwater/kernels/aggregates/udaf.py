"""A user's aggregate: four functions, called once per group and piece of time, never per row."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.errors import ExecutionError
from slackwater.kernels.aggregates.cells import Array, Ints
from slackwater.kernels.buckets import flat, list_parts
from slackwater.kernels.types import arrow_type
from slackwater.model.aggregate import Udaf

FUNCTIONS = ("init", "update", "merge", "finish")


@dataclass
class UserKind:
    """States are dicts in an object array; in the state table they are a struct.

    ``types`` are the arguments' types; if ``filtered``, the last argument is true for rows that count.
    """

    name: str
    types: tuple[str, ...]
    udaf: Udaf
    filtered: bool

    def __post_init__(self) -> None:
        self.additive = 0
        self.state = pa.struct([pa.field(n, arrow_type(t)) for n, t in self.udaf.state])
        self.fields = [pa.field(f"{self.name}_u", self.state)]
        self._code: dict[str, Callable[..., Any]] | None = None

    def load(self, table: pa.Table) -> tuple[list[Array], Any]:
        return [_objects(flat(table.column(f"{self.name}_u")).to_pylist())], None

    def dump(self, arrays: Sequence[Array], memory: Any) -> list[pa.Array]:
        return [self._typed(arrays[0].tolist(), self.state, "a state")]

    def reduce(self, arrays: Sequence[Array], starts: Ints) -> list[Array]:
        states = arrays[0]
        ends = np.append(starts[1:], len(states))
        out = []
        for a, b in zip(starts, ends):
            state = states[a]
            for other in states[a + 1 : b]:
                state = self._merged(state, other)
            out.append(state)
        return [_objects(out)]

    def op(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        return [_objects([self._merged(a, b) for a, b in zip(left[0], right[0])])]

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        values = [self._call("finish", copy.deepcopy(s)) for s in arrays[0]]
        return self._typed(values, arrow_type(self.udaf.type), "the result")

    def blank(self) -> pa.Array:
        """The state of no rows."""
        return self._typed([self._call("init")], self.state, "a state")

    def select(self, args: Sequence[str]) -> list[tuple[str, str]]:
        """The group's rows as a list."""
        columns = args[:-1] if self.filtered else args
        row = "{" + ", ".join(f"'a{i}': {a}" for i, a in enumerate(columns)) + "}"
        only = f" FILTER (WHERE ({args[-1]}) IS TRUE)" if self.filtered else ""
        return [(f"list({row}){only}", "_u")]

    def read(self, table: pa.Table) -> list[pa.Array]:
        """States of groups from the lists of their rows."""
        rows, offsets = list_parts(flat(table.column(f"{self.name}_u")))
        types = self.types[:-1] if self.filtered else self.types
        columns = [c.cast(arrow_type(t)) for c, t in zip(rows.flatten(), types)]
        states = []
        for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist()):
            state = self._call("init")
            if b > a:
                state = self._call("update", state, *(c.slice(a, b - a) for c in columns))
            states.append(state)
        return [self._typed(states, self.state, "a state")]

    def _merged(self, a: Any, b: Any) -> Any:
        # A state takes part in several windows: what a function changes must not be seen by others.
        return self._call("merge", copy.deepcopy(a), copy.deepcopy(b))

    def _call(self, function: str, *args: Any) -> Any:
        if self._code is None:
            self._code = dict(zip(FUNCTIONS, pickle.loads(self.udaf.code), strict=True))
        try:
            result = self._code[function](*args)
        except Exception as error:
            raise ExecutionError(
                "UDAF_FAILED",
                f"the function '{function}' of aggregate '{self.udaf.name}' raised "
                f"{type(error).__name__}: {error}",
                hint="mend the function; the query goes on where it stopped",
                aggregate=self.udaf.name,
                function=function,
            ) from error
        if function == "finish":
            return result.as_py() if isinstance(result, pa.Scalar) else result
        if isinstance(result, dict):
            return {n: v.as_py() if isinstance(v, pa.Scalar) else v for n, v in result.items()}
        raise ExecutionError(
            "UDAF_FAILED",
            f"the function '{function}' of aggregate '{self.udaf.name}' returned "
            f"{type(result).__name__}, not a dict",
            hint=f"return the state, a dict with: {', '.join(n for n, _ in self.udaf.state)}",
            aggregate=self.udaf.name,
            function=function,
        )

    def _typed(self, values: list[Any], t: pa.DataType, what: str) -> pa.Array:
        try:
            if pa.types.is_struct(t):
                # Arrow would ignore a name that it does not know.
                unknown = {n for v in values if v is not None for n in v} - {f.name for f in t}
                if unknown:
                    raise KeyError(f"there is no field {sorted(unknown)}")
            return pa.array(values, type=t, from_pandas=False)
        except (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ExecutionError(
                "UDAF_FAILED",
                f"{what} of aggregate '{self.udaf.name}' is not of type {t}: {error}",
                hint="return values of the declared types",
                aggregate=self.udaf.name,
            ) from error


def _objects(values: Sequence[Any]) -> Array:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
