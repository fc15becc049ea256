"""Sessions and DataFrames of Spark Connect, which have no JVM on this side."""

from __future__ import annotations

from slackwater.errors import SetupError

_CONNECT = "pyspark.sql.connect."


def is_connect(thing: object) -> bool:
    """Whether a session or a DataFrame is one of Spark Connect; its classes are not imported for that.

    >>> is_connect(object())
    False
    """
    return any(c.__module__.startswith(_CONNECT) for c in type(thing).__mro__)


def check_classic(thing: object, call: str) -> None:
    """Refuse a session or DataFrame of Spark Connect; ``call`` is what it was given to."""
    if is_connect(thing):
        raise SetupError(
            "CONNECT_NOT_SUPPORTED",
            f"{call} got a {type(thing).__name__} of Spark Connect, and Slackwater runs its loop where Spark's driver is",
            hint="run the job where the driver is, with a classic session: spark = sw.session(), or "
            'SparkSession.builder.config("spark.api.mode", "classic").getOrCreate(), '
            "without .remote(...) and without the environment variable SPARK_REMOTE; on a cluster submit it "
            "with spark-submit",
            call=call,
        )
