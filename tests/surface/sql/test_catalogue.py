"""The queries of the catalogues (WQ Appendix A, XJ §1.6), as texts, on Spark: equal to the oracle's answers to the Python calls."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import slackwater as sw
from slackwater.testing.oracle.nodes import Oracle
from tests.surface.helpers import at, run
from tests.surface.local import is_local, run_locally

pytestmark = pytest.mark.spark

SCHEMA = "srcIP string, destIP string, srcPort int, destPort int, length int, flag string, ts timestamp, n bigint"
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MINUTE = 60
UNION_OF_TWO = "(SELECT * FROM Main1 UNION ALL SELECT * FROM Main2)"
UNION_OF_THREE = (
    "(SELECT * FROM Main1 UNION ALL SELECT * FROM Main2 UNION ALL SELECT * FROM Control)"
)
PAIR = (
    '[("srcIP", "destIP"), ("destIP", "srcIP"), ("srcPort", "destPort"), ("destPort", "srcPort")]'
)


def reversed_pair(one: str, other: str) -> str:
    return (
        f"{one}.srcIP = {other}.destIP AND {one}.destIP = {other}.srcIP AND "
        f"{one}.srcPort = {other}.destPort AND {one}.destPort = {other}.srcPort"
    )


def counted(range_: str, slide: str) -> str:
    """The calls of a count by source."""
    return (
        f'Main1.groupBy("srcIP", sw.window("{range_}", "{slide}")).agg("count(*) AS n")'
        '.select("srcIP", "window.end AS window_end", "n")'
    )


def summed(range_: str, slide: str) -> str:
    return (
        f'Main1.groupBy("srcIP", sw.window("{range_}", "{slide}")).agg("sum(length) AS s")'
        '.select("srcIP", "window.end AS window_end", "s")'
    )


SYN = (
    "((S0.ts < S1.ts AND S0.flag = 'SYN' AND S1.flag = 'SYN_ACK') OR "
    "(S0.ts > S1.ts AND S0.flag = 'SYN_ACK' AND S1.flag = 'SYN'))"
)
JOINED = (
    "Main1.srcIP AS s1, Main1.destIP AS d1, Main2.srcIP AS s2, Main2.destIP AS d2, Main2.ts AS t"
)
JOINED_CALLS = '.select("Main1_srcIP AS s1", "Main1_destIP AS d1", "Main2_srcIP AS s2", "Main2_destIP AS d2", "Main2_ts AS t")'
MATCHED = "M1.srcIP AS s, M1.destIP AS d, M1.ts AS t"

QUERIES: dict[str, tuple[str, str]] = {
    "Q1-1": (
        "SELECT srcIP, window_end, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA ts] AS n FROM Main1 GROUP BY srcIP",
        counted("10 minutes", "1 minute"),
    ),
    "Q1-2": (
        "SELECT window_end, count(*) [RANGE 1 minute, SLIDE 1 minute, WA ts] AS n FROM "
        "(SELECT * FROM Control UNION ALL SELECT * FROM Main1 UNION ALL SELECT * FROM Main2) u",
        'Control.union(Main1).union(Main2).groupBy(sw.window("1 minute")).agg("count(*) AS n").select("window.end AS window_end", "n")',
    ),
    "Q2-1": (
        "SELECT srcIP, ts, count(*) AS n FROM Main1 WHERE srcIP = 'a' OR srcIP = 'b' GROUP BY srcIP, ts",
        """Main1.where("srcIP = 'a' OR srcIP = 'b'").select("srcIP", "ts")""",
    ),
    "Q3-1": (
        "SELECT * FROM Main1 [WA ts, RANGE 3 min], Main2 [WA ts, RANGE 2 min] WHERE Main1.srcIP = Main2.destIP",
        'Main1.join(Main2, on=[("srcIP", "destIP")], within=sw.band(before="2 minutes", after="3 minutes"))',
    ),
    "Q5-1": (
        "Select srcIP, window_end, count(*) [RANGE 10 minutes, SLIDE 1 minute, WATTR ts] AS n From Main1 Group By srcIP",
        counted("10 minutes", "1 minute"),
    ),
    "Q5-2": (
        "SELECT srcIP, wid, max(length) [RANGE 1000 rows, SLIDE 10 rows, WA row-num, PA srcIP] AS m FROM Main1",
        'Main1.groupBy("srcIP", sw.rows(1000, 10, per="srcIP")).agg("max(length) AS m").select("srcIP", "wid", "m")',
    ),
    "Q5-2 with many windows": (
        "SELECT srcIP, wid, max(length) [RANGE 10 rows, SLIDE 3 rows, WA row-num, PA srcIP] AS m FROM Main1 GROUP BY srcIP",
        'Main1.groupBy("srcIP", sw.rows(10, 3, per="srcIP")).agg("max(length) AS m").select("srcIP", "wid", "m")',
    ),
    "Q5-3": (
        "SELECT srcIP, wid, max(length) [RANGE 1000 rows, SLIDE 10 rows, WA row-num] AS m FROM Main1 GROUP BY srcIP",
        'Main1.groupBy("srcIP", sw.rows(1000, 10)).agg("max(length) AS m").select("srcIP", "wid", "m")',
    ),
    "Q5-3 with many windows": (
        "SELECT srcIP, wid, max(length) [RANGE 10 rows, SLIDE 3 rows, WA row-num] AS m FROM Main1 GROUP BY srcIP",
        'Main1.groupBy("srcIP", sw.rows(10, 3)).agg("max(length) AS m").select("srcIP", "wid", "m")',
    ),
    "Q5-4": (
        "SELECT srcIP, window_end, count(*) [RANGE ALL, SLIDE 1 minute, WA ts, ORIGIN '2026-01-01 00:00:00'] AS n FROM Main1 "
        "GROUP BY srcIP",
        'Main1.groupBy("srcIP", sw.landmark("1 minute", "2026-01-01 00:00:00")).agg("count(*) AS n")'
        '.select("srcIP", "window.end AS window_end", "n")',
    ),
    "Q5-5": (
        "SELECT wid, max(length) [RANGE 5 minutes, RATTR ts, SLIDE 1 row, SATTR row-num] AS m FROM Main1",
        'Main1.groupBy(sw.byTuple("5 minutes")).agg("max(length) AS m").select("wid", "m")',
    ),
    "Q5-6": (
        "SELECT wid, count(*) [RANGE 5 minutes, RATTR ts, SLIDE 5 rows, SATTR rank(ts)] AS n FROM Main1",
        'Main1.groupBy(sw.byTuple("5 minutes", 5, over="rank")).agg("count(*) AS n").select("wid", "n")',
    ),
    "Q5-7": (
        f"SELECT {JOINED} FROM Main1, Main2 [RANGE TUMBLING 5 minutes, WA ts] WHERE Main1.srcIP = Main2.destIP",
        'Main1.join(Main2, on=[("srcIP", "destIP")], within=sw.window("5 minutes"))' + JOINED_CALLS,
    ),
    "Q5-8": (
        f"SELECT {JOINED} FROM Main1 [RANGE 3 minutes, WA ts], Main2 [RANGE 2 minutes, WA ts] WHERE Main1.srcIP = Main2.destIP",
        'Main1.join(Main2, on=[("srcIP", "destIP")], within=sw.band(before="2 minutes", after="3 minutes"))'
        + JOINED_CALLS,
    ),
    "Q6-1": (
        "Select srcIP, window_end, count(*) AS n From Main1 [RANGE 10 minutes, SLIDE 1 minute, WA ts] Group By srcIP",
        counted("10 minutes", "1 minute"),
    ),
    "Q6-2": (
        "SELECT window_end, max(length) [RANGE 4 minutes, SLIDE 1 minute, WA ts] AS m FROM Main1",
        'Main1.groupBy(sw.window("4 minutes", "1 minute")).agg("max(length) AS m").select("window.end AS window_end", "m")',
    ),
    "Q6-3": (
        "SELECT srcIP, window_end, count(*) [RANGE 4 minutes, SLIDE 1 minute, WA ts] AS n FROM Main1 GROUP BY srcIP",
        counted("4 minutes", "1 minute"),
    ),
    "Q6-4": (
        "SELECT window_end, heavy_hitters(srcIP, 0.05) [RANGE 10 minutes, SLIDE 1 minute, WA ts] AS top FROM Main1",
        'Main1.groupBy(sw.window("10 minutes", "1 minute")).agg(sw.heavyHitters("srcIP", 0.05).alias("top"))'
        '.select("window.end AS window_end", "top")',
    ),
    "Q6-5": (
        "SELECT srcIP, window_end, count(*) [RANGE 5 minutes, SLIDE 1 minute, WA ts] AS n FROM Main1 GROUP BY srcIP",
        counted("5 minutes", "1 minute"),
    ),
    "Q6-6": (
        "SELECT srcIP, window_end, sum(length) [RANGE 10 seconds, SLIDE 1 second, WA ts] AS s FROM Main1 GROUP BY srcIP",
        summed("10 seconds", "1 second"),
    ),
    "Q6-7": (
        "SELECT srcIP, window_end, sum(length) [RANGE 1 second, SLIDE 1 second, WA ts] AS s FROM Main1 GROUP BY srcIP",
        summed("1 second", "1 second"),
    ),
    "Q6-8": (
        "SELECT srcIP, window_end, count(*) [RANGE 10 sec, SLIDE 1 sec, WA ts] AS n FROM "
        "(SELECT * FROM Main2 UNION ALL SELECT * FROM (SELECT * FROM Main1 UNION ALL SELECT * FROM Control)) u GROUP BY srcIP",
        'Main2.union(Main1.union(Control)).groupBy("srcIP", sw.window("10 seconds", "1 second")).agg("count(*) AS n")'
        '.select("srcIP", "window.end AS window_end", "n")',
    ),
    "Q7-1": (
        "SELECT S0.ts AS t0, S1.ts AS t1, count(*) AS n FROM Main1 S0 [WA ts, RANGE 2 min], Main2 S1 [WA ts, RANGE 2 min] "
        f"WHERE {reversed_pair('S0', 'S1')} AND {SYN} GROUP BY S0.ts, S1.ts",
        f'Main1.alias("S0").join(Main2.alias("S1"), on={PAIR}, within=sw.band(before="2 minutes", after="2 minutes"))'
        """.where("((S0_ts < S1_ts AND S0_flag = 'SYN' AND S1_flag = 'SYN_ACK') OR """
        """(S0_ts > S1_ts AND S0_flag = 'SYN_ACK' AND S1_flag = 'SYN'))").select("S0_ts AS t0", "S1_ts AS t1")""",
    ),
    "Q7-1 with its band in ON": (
        f"SELECT S0.ts AS t0, S1.ts AS t1, count(*) AS n FROM Main1 S0 JOIN Main2 S1 ON {reversed_pair('S0', 'S1')} "
        "AND S1.ts BETWEEN S0.ts - INTERVAL 2 MINUTES AND S0.ts + INTERVAL 2 MINUTES "
        f"WHERE {SYN} GROUP BY S0.ts, S1.ts",
        f'Main1.alias("S0").join(Main2.alias("S1"), on={PAIR}, within=sw.band(before="2 minutes", after="2 minutes"))'
        """.where("((S0_ts < S1_ts AND S0_flag = 'SYN' AND S1_flag = 'SYN_ACK') OR """
        """(S0_ts > S1_ts AND S0_flag = 'SYN_ACK' AND S1_flag = 'SYN'))").select("S0_ts AS t0", "S1_ts AS t1")""",
    ),
    "Q7-2": (
        "SELECT window_end, count(*) [RANGE 1 minute, SLIDE 1 minute, WA M1.ts] AS n FROM Main1 M1 [RANGE 2 minutes, WA ts], "
        f"Main2 M2 [RANGE 2 minutes, WA ts] WHERE {reversed_pair('M1', 'M2')}",
        f'Main1.alias("M1").join(Main2.alias("M2"), on={PAIR}, within=sw.band(before="2 minutes", after="2 minutes"))'
        '.groupBy(sw.window("1 minute", on="M1_ts")).agg("count(*) AS n").select("window.end AS window_end", "n")',
    ),
    "Q8-1": (
        "SELECT srcIP, destIP, window_end, count(*) [RANGE 1 minute, SLIDE 1 minute, WA ts] AS n FROM Main1 GROUP BY srcIP, destIP",
        'Main1.groupBy("srcIP", "destIP", sw.window("1 minute")).agg("count(*) AS n")'
        '.select("srcIP", "destIP", "window.end AS window_end", "n")',
    ),
    "Q8-2": (
        "SELECT srcIP, destIP, window_end, count(*) [RANGE 1 minute, SLIDE 1 minute, WA ts] AS n "
        f"FROM {UNION_OF_TWO} u GROUP BY srcIP, destIP",
        'Main1.union(Main2).groupBy("srcIP", "destIP", sw.window("1 minute")).agg("count(*) AS n")'
        '.select("srcIP", "destIP", "window.end AS window_end", "n")',
    ),
    "Q8-3": (
        f"SELECT {MATCHED} FROM {UNION_OF_TWO} AS M1, (SELECT * FROM Control UNION ALL SELECT * FROM Main2) AS M2 "
        f"[RANGE TUMBLING 10 seconds, WA ts] WHERE {reversed_pair('M1', 'M2')}",
        f'Main1.union(Main2).alias("M1").join(Control.union(Main2).alias("M2"), on={PAIR}, within=sw.window("10 seconds"))'
        '.select("M1_srcIP AS s", "M1_destIP AS d", "M1_ts AS t")',
    ),
    "Q8-4": (
        f"SELECT {MATCHED} FROM Main1 M1, (SELECT * FROM Main2 UNION ALL SELECT * FROM Control) AS M3 "
        f"[RANGE TUMBLING 1 minute, WA ts] WHERE {reversed_pair('M1', 'M3')}",
        f'Main1.alias("M1").join(Main2.union(Control).alias("M3"), on={PAIR}, within=sw.window("1 minute"))'
        '.select("M1_srcIP AS s", "M1_destIP AS d", "M1_ts AS t")',
    ),
    "Q8-5": (
        f"SELECT window_end, count(*) [RANGE 5 minutes, SLIDE 1 minute, WA ts] AS n FROM {UNION_OF_THREE} u",
        'Main1.union(Main2).union(Control).groupBy(sw.window("5 minutes", "1 minute")).agg("count(*) AS n")'
        '.select("window.end AS window_end", "n")',
    ),
    # XJ Q1 with an hourly window; XJ Q2: bids of the last four days per seller.
    "XJ-Q1": (
        "SELECT window_end, sum(C.length) AS s FROM Main1 C [RANGE 1 HOUR], Main2 B [RANGE 1 HOUR] WHERE C.srcIP = B.srcIP "
        "GROUP BY window(C.ts, '1 hour')",
        'Main1.alias("C").join(Main2.alias("B"), on=[("srcIP", "srcIP")], within=sw.band(before="1 hour", after="1 hour"))'
        '.groupBy(sw.window("1 hour", on="C_ts")).agg("sum(C_length) AS s").select("window.end AS window_end", "s")',
    ),
    "XJ-Q2": (
        "SELECT a.srcIP AS seller, a.ts AS opened, b.ts AS bid FROM Main1 a JOIN Main2 b ON a.srcPort = b.srcPort "
        "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 4 DAYS",
        'Main1.alias("a").join(Main2.alias("b"), on=[("srcPort", "srcPort")], within=sw.band(after="4 days"))'
        '.select("a_srcIP AS seller", "a_ts AS opened", "b_ts AS bid")',
    ),
}
"""Text and Python calls of each query of WQ Appendix A, as it is printed, with the window's end among the columns."""


TICKS = ("Q2-1", "Q7-1", "Q7-1 with its band in ON")


def _rows(seed: int) -> list[list[tuple[Any, ...]]]:
    """Three batches of packets out of order."""
    dice = random.Random(seed)
    batches, number = [], 0
    for batch in range(3):
        rows = []
        for _ in range(14):
            second = batch * 3 * MINUTE + dice.randrange(0, 5 * MINUTE)
            ends = dice.sample("abc", 2)
            ports = [dice.randrange(2), dice.randrange(2)]
            flag = dice.choice(["SYN", "SYN_ACK"])
            rows.append((*ends, *ports, dice.randrange(100), flag, at(second), number))
            number += 1
        batches.append(rows)
    return batches


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        value = value if value.tzinfo else value.replace(tzinfo=dt.timezone.utc)
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dict):
        return tuple(_plain(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return tuple(_plain(v) for v in value)
    return value


def _sorted(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(_plain(v) for v in r.values()) for r in rows), key=repr)


@pytest.mark.spec("WQ-F95")
def test_the_catalogue_runs_and_equals_the_oracle(spark: Any, tmp_path: Path):
    data = {name: _rows(seed) for seed, name in enumerate(("Main1", "Main2", "Control"))}
    streams = {
        name: sw.stream(
            sw.replay(spark, batches, SCHEMA), time="ts", name=name, progress=sw.BoundedDelay("1 hour"), order="n"
        )
        for name, batches in data.items()
    }  # fmt: skip
    made = {name: sw.sql(text, streams=streams) for name, (text, _) in QUERIES.items()}
    done = run(made, tmp_path / "ck")
    local = {name: stream for name, stream in made.items() if is_local(stream)}
    assert len(local) > len(made) / 2
    here = run_locally(local, tmp_path / "local")
    calls = {
        name: eval(python, {"sw": sw, **streams})._node for name, (_, python) in QUERIES.items()
    }
    oracle = Oracle(calls)
    fields = [f.partition(" ")[0] for f in SCHEMA.split(", ")]
    expected: dict[str, list[dict[str, Any]]] = {name: [] for name in QUERIES}
    for step in range(4):
        rows = {
            name: [dict(zip(fields, map(_plain, r), strict=True)) for r in batches[step]]
            if step < 3
            else []
            for name, batches in data.items()
        }
        outputs = oracle.step(rows, end=step == 3).outputs
        for name, out in outputs.items():
            expected[name] += [dict(r) for r in out]
    # A window of one tick would be one of many millions to the oracle: it gives the rows, and they are counted here.
    for name in TICKS:
        counted = Counter(tuple(r.values()) for r in expected[name])
        expected[name] = [
            {str(i): v for i, v in enumerate((*row, n))} for row, n in counted.items()
        ]
    for name in QUERIES:
        assert expected[name], f"{name} has no result, so that nothing was compared"
        assert _sorted(done.rows(name)) == _sorted(expected[name]), name
        if name in local:
            assert _sorted(here.rows(name)) == _sorted(expected[name]), name


def test_an_unbounded_side_is_refused(streams: dict[str, Any]):
    """XJ Q3: Orders[∞] with Fulfilments[12 h]."""
    text = "SELECT count(*) FROM packets o [RANGE ALL SLIDE 1 HOUR], other f [RANGE 12 HOURS] WHERE o.srcIP = f.srcIP"
    with pytest.raises(sw.AnalysisError) as raised:
        sw.sql(text, streams=streams)
    assert "kept for ever" in raised.value.hint and raised.value.column == text.index("[") + 1
