"""Spans in words wherever people read; what is stored stays numbers."""

from __future__ import annotations

import datetime as dt
import io
import re
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.model.render import render
from slackwater.model.spans import in_words
from slackwater.model.time import parse_duration
from slackwater.surface.report.tree import in_words_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBER = re.compile(r"\b\d{5,}\b|(?<!\w)ticks?\b")
"""What nobody should have to read: microseconds, and the word for them."""

BAND = sw.band(before="90 seconds", after="1 hour")


@given(st.integers(-(2**50), 2**50))
def test_words_can_be_read_back(micros: int):
    words = in_words(micros)
    assert not re.search(r"\d{7,}", words)
    sign = -1 if words.startswith("-") else 1
    assert sign * parse_duration(words.removeprefix("-"), positive=False) == micros


@pytest.fixture(scope="module")
def streams(spark: SparkSession) -> dict[str, Any]:
    frame = sw.replay(spark, [], "k string, ts timestamp, n timestamp_ntz, t bigint, v double")
    policy = sw.BoundedDelay(dt.timedelta(seconds=10)).idleAfter("2 minutes")
    s, other = (sw.stream(frame, time="ts", name=name, progress=policy) for name in "ab")
    local = sw.stream(frame, time="n", name="local", progress=sw.Ordered())
    days = sw.customWindow(
        lambda low, high: np.arange(low // 86_400_000_000, high // 86_400_000_000 + 1),
        lambda w: (w * 86_400_000_000, (w + 1) * 86_400_000_000),
        lambda t: (np.arange(len(t)), t // 86_400_000_000),
        name="days",
    )
    pairs = s.join(other, "k", BAND)
    minute = s.groupBy(
        "k", sw.window("90 seconds", "1500 milliseconds", origin="2026-01-01 00:00:05")
    )
    return {
        "sliding": minute.agg("sum(v) AS v"),
        "local": local.groupBy(sw.window("1 day", origin="2026-01-01 06:00:00")).count(),
        "landmark": s.groupBy(sw.landmark("1 hour", "2026-01-01")).count(),
        "tuples": s.groupBy(sw.byTuple("10 seconds", 2, over="rank")).count(),
        "session": s.groupBy("k", sw.sessionWindow("5 minutes")).count(),
        "custom": s.groupBy(days).count(),
        "within": s.dropDuplicates(["k"], within="10 minutes"),
        "band": pairs,
        "tumbling": s.join(other, "k", sw.window("20 seconds"), how="left"),
        "reach": sw.joinAll([s, other], "k", ["3 seconds", "250 milliseconds"]),
        "joint": pairs.groupBy(sw.window("1 minute", on="a_ts"), sw.window("2 minutes", on="b_ts")).count(),
        "sorted": s.sort(),
        "slower": s.withQuality(sw.BoundedDelay("5 minutes")).sort(),
        "filtered": s.withQuality(sw.BoundedDelay("7 minutes")).where("v > 1").sort(),
    }  # fmt: skip


EXPECTED = {
    "sliding": ["range 1 minute 30 seconds slide 1.5 seconds origin 2026-01-01T00:00:05Z on ts", "delay='10 seconds'",
                "idle='2 minutes'"],
    "local": ["range 1 day slide 1 day origin 2026-01-01T06:00:00 on n"],
    "landmark": ["landmark slide 1 hour origin 2026-01-01T00:00:00Z on ts"],
    "tuples": ["range 10 seconds by every 2 rows", "from 10 seconds below the bound"],
    "session": ["session gap 5 minutes on ts"],
    "within": ["within 10 minutes on ts", "for 10 minutes more"],
    "band": ["band -1 minute 30 seconds .. +1 hour"],
    "tumbling": ["within window 20 seconds of"],
    "reach": ["reach 3 seconds, 250 milliseconds of"],
    "joint": ["range 1 minute slide 1 minute on a_ts and range 2 minutes slide 2 minutes on b_ts"],
}  # fmt: skip


def explained(*streams: Any) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        for s in streams:
            s.explain(extended=True)
    return out.getvalue()


@pytest.mark.spark
def test_explain_speaks_of_spans_in_words(streams: dict[str, Any]):
    for name, stream in streams.items():
        text = explained(stream)
        for part in EXPECTED.get(name, []):
            assert part in text, f"{part!r} is not in {text}"
        assert not NUMBER.search(_without_paths(text)), text


@pytest.mark.spark
def test_explain_of_results_that_share_speaks_in_words(streams: dict[str, Any]):
    from slackwater.surface.explain import explain_streams

    together = explain_streams({n: streams[n] for n in ("sorted", "slower", "filtered")})
    assert not NUMBER.search(_without_paths(together)), together
    sums = {"a": streams["sliding"], "b": streams["sliding"]._with(streams["sliding"]._node)}
    assert not NUMBER.search(_without_paths(explain_streams(sums)))


def _without_paths(text: str) -> str:
    """Without names of folders, ids of operators and addresses of functions."""
    text = re.sub(r"estimated cost:[^)]*", "", text)
    return re.sub(r"/\S+|\b\w+-[0-9a-f]{6}\b|@[0-9a-f]+", "", text)


@pytest.mark.spark
def test_what_is_stored_stays_numbers_and_is_shown_in_words(streams: dict[str, Any]):
    """The report has nothing but the stored text, and says of it what explain says."""
    stored = {name: render(s._node) for name, s in streams.items()}
    assert "range 90000000 slide 1500000 origin 1767225605000000 on ts" in stored["sliding"][0]
    assert "band -90000000 .. +3600000000" in stored["band"][0]
    for name, lines in stored.items():
        if name == "local":
            continue
        told = [
            line.partition(" progress ")[0] for line in render(streams[name]._node, policies=True)
        ]
        assert in_words_for(lines) == told, name
    # Its zone is not in the text: the origin of a local time is shown as an instant.
    assert "range 1 day slide 1 day origin 2026-01-01T06:00:00" in in_words_for(stored["local"])[0]


@pytest.mark.spark
def test_spans_of_integer_times_stay_as_users_wrote_them(spark: SparkSession):
    frame = sw.replay(spark, [], "k string, t bigint")
    s = sw.stream(frame, time="t", progress=sw.BoundedDelay(100_000))
    counts = s.groupBy("k", sw.window(3_600_000, origin=5)).count()
    assert "range 3600000 slide 3600000 origin 5 on t" in explained(counts)
    lines = render(counts._node)
    assert in_words_for(lines) == lines
