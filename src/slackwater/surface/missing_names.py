"""Names that a PySpark DataFrame has and a stream has not: what to use instead.

A method wins over a column of the same name, as in PySpark, also a method that a stream lacks: ``a["limit"]`` is the
column then.
"""

from __future__ import annotations

ADVICE: dict[str, str] = {}
"""What to use, for the names of a DataFrame that a stream lacks."""


def advice_on(name: str) -> str | None:
    """What to say of a name that is a DataFrame's, and no stream's; None if it is neither's."""
    from pyspark.sql import DataFrame

    advice = ADVICE.get(name)
    if advice is not None:
        return f"a stream has no '{name}': {advice}"
    if name.startswith("_") or not hasattr(DataFrame, name):
        return None
    return f"a stream has no '{name}', which is a DataFrame's"
