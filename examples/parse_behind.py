"""Messages of JSON, of which a map shows a few segments: parsed before ``sw.stream``, and behind it.

What a DataFrame does before ``sw.stream`` is done for every message. Behind it, a guard of feedback stands in front of the
step that parses, so that only messages in view are. Here the speed in messages out of view is no number, which is an
error in SQL (ANSI): one query fails at the first of them, the other does not notice.

Run it with ``python examples/parse_behind.py``.
"""

import datetime as dt
import tempfile
from pathlib import Path

import slackwater as sw

SCHEMA = "key string, timestamp timestamp, value string"
SPEED = "CAST(get_json_object(value, '$.speed') AS DOUBLE)"
IN_VIEW = "segment BETWEEN 2 AND 3"
START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)


def messages(spark):
    """As Kafka has them: a key, a time, a value. Those of two segments in eight can be parsed."""
    good, bad = '{"speed": 50}', '{"speed": "fast"}'
    return sw.replay(
        spark,
        [
            [
                (
                    str(s),
                    START + dt.timedelta(seconds=10 * n + s),
                    good if s in (2, 3) else bad,
                )
                for s in range(8)
            ]
            for n in range(4)
        ],
        SCHEMA,
    )


def parsed_first(kafka):
    rows = kafka.selectExpr("CAST(key AS INT) AS segment", "timestamp AS ts", f"{SPEED} AS speed")
    return sw.stream(rows, time="ts", name="cars")


def parsed_behind(kafka):
    rows = kafka.selectExpr("CAST(key AS INT) AS segment", "timestamp AS ts", "value")
    return sw.stream(rows, time="ts", name="cars").withColumn("speed", SPEED)


def counted(spark, parsed, name, folder):
    """Averages by segment and 10 seconds, of the segments in view."""
    cars = parsed(messages(spark))
    speeds = cars.groupBy("segment", sw.window("10 seconds")).agg("avg(speed) AS speed")
    query = sw.start(
        [speeds.writeStream.queryName(name).format("memory")],
        checkpointLocation=str(folder / name),
        trigger={"availableNow": True},
        options={"endOfStream": True},
        feedback={name: [sw.only(IN_VIEW)]},
    )
    query.awaitTermination()
    return spark.table(name).count()


def main():
    spark = sw.session()
    with tempfile.TemporaryDirectory() as folder:
        behind = counted(spark, parsed_behind, "behind", Path(folder))
        print(f"parsed behind sw.stream: {behind} averages")
        try:
            counted(spark, parsed_first, "first", Path(folder))
        except Exception as error:
            print(f"parsed before it: {type(error).__name__}, at a message that nobody needs")
            return behind, True
    return behind, False


if __name__ == "__main__":
    main()
