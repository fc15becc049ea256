"""Types that no output and no key can have are refused before the start, not by the first task that meets one."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.engine.plan.plan import Output
from slackwater.errors import AnalysisError
from slackwater.kernels.types import arrow_type
from slackwater.model.node import Aggregate, Dedup, Join
from slackwater.semantics.bounds import topological
from slackwater.semantics.contracts.words import called


def check_types(outputs: Sequence[Output]) -> None:
    """Every column of every output has a type that we can write."""
    for output in outputs:
        for field in output.node.schema:
            try:
                arrow_type(field.type)
            except AnalysisError as error:
                interval = field.type.startswith("interval")
                way = (
                    f"write, for example, CAST(`{field.name}` AS STRING)"
                    if interval
                    else error.hint
                )
                raise AnalysisError(
                    "UNSUPPORTED_TYPE",
                    f"column '{field.name}' of output '{output.name}' is {field.type}, which cannot be written",
                    hint=way,
                    column=field.name,
                    output=output.name,
                    type=field.type,
                ) from None


def check_keys(outputs: Sequence[Output]) -> None:
    """Every key has a type that the column engine compares: it knows letters by their bytes only."""
    for node in topological([o.node for o in outputs]):
        if not isinstance(node, Aggregate | Dedup | Join):
            continue
        for name, type in _keys(node):
            try:
                arrow_type(type)
            except AnalysisError:
                raise AnalysisError(
                    "UNSUPPORTED_TYPE",
                    f"the key '{name}' is {type}, which Slackwater cannot compare",
                    hint="cast it: CAST(... AS STRING), or lower(CAST(... AS STRING)) to tell no upper from lower case",
                    column=name,
                    operator=called(node),
                    type=type,
                ) from None


def _keys(node: Aggregate | Dedup | Join) -> list[tuple[str, str]]:
    """Name and type of the columns whose values are compared."""
    if isinstance(node, Dedup):
        return [(f.name, f.type) for f in node.child.schema if f.name in node.subset]
    keys = [k for side in node.keys for k in side] if isinstance(node, Join) else node.keys
    return [(k.name, k.expr.type) for k in keys]
