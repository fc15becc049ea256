"""All columns of a stream under new names."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.engine.plan.reserved import check_names
from slackwater.errors import AnalysisError
from slackwater.model.schema import Field, Named, column


def renamed_all(fields: Sequence[Field], names: Sequence[object]) -> tuple[Named, ...]:
    """The columns of ``toDF(*names)``."""
    given = [n for n in names if isinstance(n, str)]
    if len(given) != len(names):
        other = next(n for n in names if not isinstance(n, str))
        raise AnalysisError(
            "BAD_NAMES",
            f"toDF takes names as texts, not the {type(other).__name__} {other!r}",
            hint=f"give one text per column: {', '.join(f.name for f in fields)}",
        )
    if len(given) != len(fields):
        raise AnalysisError(
            "BAD_NAMES",
            f"toDF got {len(given)} name(s) for {len(fields)} columns",
            hint=f"give one name per column: {', '.join(f.name for f in fields)}; "
            "or rename single ones with withColumnRenamed",
        )
    check_names(given, way="give the column another name")
    return tuple(Named(n, column(f.name, f.type)) for n, f in zip(given, fields, strict=True))
