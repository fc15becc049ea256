"""Types that no output can have are refused before the start, not by the first task that meets one."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.engine.plan.plan import Output
from slackwater.errors import AnalysisError
from slackwater.kernels.types import arrow_type


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
