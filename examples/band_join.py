"""Clicks within half a minute after the advertisement was shown, and advertisements that nobody clicked.

The two logs arrive out of order, and not at the same pace. Each side is kept only until the other's bound says that no
partner can come any more; then an advertisement without a click leaves with nulls.

Run it with ``slackwater run examples/band_join.py`` or ``python examples/band_join.py``.
"""

from datetime import datetime, timedelta, timezone

import slackwater as sw

START = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)


def event(user, second, what):
    return user, START + timedelta(seconds=second), what


SHOWN = [
    [event("ann", 0, "shoes"), event("bob", 5, "tea"), event("cid", 20, "books")],
    [event("ann", 60, "tea"), event("bob", 48, "books")],
]
CLICKS = [
    [event("bob", 90, "late, but welcome"), event("ann", 12, "quick")],
    [event("bob", 33, "just in time"), event("ann", 61, "at once")],
]


def query(spark):
    def stream(name, batches):
        rows = sw.replay(spark, batches, f"user string, {name}_at timestamp, {name} string")
        return sw.stream(rows, time=f"{name}_at", name=name, progress=sw.BoundedDelay("1 minute"))

    pairs = stream("shown", SHOWN).join(
        stream("click", CLICKS),
        on="user",
        within=sw.band(before="0 seconds", after="30 seconds"),
        how="left",
    )
    return (
        pairs.writeStream.format("console")
        .queryName("pairs")
        .option("truncate", False)
        .option("endOfStream", True)
        .trigger(availableNow=True)
    )


if __name__ == "__main__":
    sw.start([query(sw.session())]).awaitTermination()
