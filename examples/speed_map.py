"""A map of speeds from two kinds of witnesses: sensors at the road, and cars that pass. A viewer looks at one part of it.

At some places and times there is only a sensor's report, at some only a car's: a full outer join keeps them all. Two minutes of
a place become a colour: green above 50, red below 20, else yellow. What is out of view is dropped at both streams.

Run it with ``python examples/speed_map.py``.
"""

import shutil
from datetime import datetime, timedelta, timezone

import slackwater as sw

START = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
CHECKPOINT = "speed-map-checkpoint"
PLACES, REPORTS = 8, 24  # a report every 20 seconds, for eight minutes


def sensors():
    """Every 20 seconds the sensor of each place, but that of place 3 is broken; traffic slows down, place by place."""
    for n in range(REPORTS):
        yield [
            (p, START + timedelta(seconds=20 * n), max(5, 70 - abs(4 * n - 9 * p)))
            for p in range(PLACES)
            if p != 3
        ]


def cars():
    """A car passes two places at a time."""
    for n in range(REPORTS):
        yield [(p, START + timedelta(seconds=20 * n), 15 + 9 * p) for p in (n % PLACES, 3)]


def speed_map(spark):
    """The colour of each place, every two minutes."""

    def stream(name, reports):
        rows = list(reports)
        batches = [[r for part in rows[i : i + 6] for r in part] for i in range(0, REPORTS, 6)]
        replayed = sw.replay(spark, batches, f"place int, {name}_at timestamp, {name} int")
        at = f"{name}_at"
        return sw.stream(replayed, time=at, name=name, progress=sw.BoundedDelay("0 seconds"))

    # A place and a time are one report of each kind, or of one of them.
    both = stream("sensor", sensors()).join(
        stream("car", cars()), on="place", within=sw.band(), how="full"
    )
    speeds = both.withColumn("speed", "coalesce((sensor + car) / 2, sensor, car)")
    averages = speeds.groupBy("place", sw.window("2 minutes")).agg("avg(speed) AS speed")
    colour = "CASE WHEN speed > 50 THEN 'green' WHEN speed < 20 THEN 'red' ELSE 'yellow' END"
    return averages.withColumn("colour", colour)


def main(view="place BETWEEN 2 AND 4"):
    """The map as it was seen: places and colours by the end of the window."""
    seen = {}

    def show(frame, batch):
        for row in frame.orderBy("wid", "place").collect():
            seen.setdefault(row.wid, {})[row.place] = row.colour

    shutil.rmtree(CHECKPOINT, ignore_errors=True)
    query = sw.start(
        [speed_map(sw.session()).writeStream.queryName("map").foreachBatch(show)],
        checkpointLocation=CHECKPOINT, trigger={"availableNow": True}, options={"endOfStream": True},
        feedback={"map": [sw.only(view)]} if view else None,
    )  # fmt: skip
    query.awaitTermination()
    for number, wid in enumerate(sorted(seen), 1):
        places = ", ".join(f"{p} {colour}" for p, colour in sorted(seen[wid].items()))
        print(f"after {2 * number} minutes: {places}")
    shutil.rmtree(CHECKPOINT, ignore_errors=True)
    return seen


if __name__ == "__main__":
    main()
