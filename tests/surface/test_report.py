"""The report and the progress log it is made from."""

from __future__ import annotations

import itertools
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.engine.store import history
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.errors import CheckpointError
from slackwater.model.time import SECOND, parse_duration
from slackwater.surface.report import quality, render_report, series, svg
from tests.engine.feedback.viewport import Viewed, plan_of
from tests.surface.history_records import checkpoint, record

FINITE = st.floats(-1e12, 1e12, allow_nan=False)


class Tags(HTMLParser):
    """Checks that tags are balanced, and collects them with their attributes."""

    VOID = {"meta", "br", "hr"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    return tags


# ---- the log ----
def test_what_was_appended_is_read(tmp_path: Path):
    log = Checkpoint(str(checkpoint(tmp_path, [])))
    for batch in (3, 4, 9):
        assert history.append(log, record(batch))
    assert [r["batchId"] for r in history.read(tmp_path)] == [3, 4, 9]
    assert history.read(tmp_path)[0] == record(3)


def test_a_torn_line_costs_only_itself(tmp_path: Path):
    folder = checkpoint(tmp_path, [record(1)])
    log = folder / "slackwater" / history.NAME
    log.write_bytes(log.read_bytes() + b'{"batchId": 2, "num')
    assert history.append(Checkpoint(str(folder)), record(3))
    assert [r["batchId"] for r in history.read(folder)] == [1, 3]


def test_the_log_is_bounded_and_keeps_the_newest(tmp_path: Path):
    root = checkpoint(tmp_path, []) / "slackwater"
    for batch in range(200):
        history.append(Checkpoint(str(tmp_path)), record(batch), max_bytes=20_000)
    size = sum(
        (root / n).stat().st_size for n in (history.NAME, history.OLDER) if (root / n).exists()
    )
    assert size < 2 * 20_000 + 3_000
    batches = [r["batchId"] for r in history.read(tmp_path)]
    assert batches == list(range(batches[0], 200)) and len(batches) >= 10


def test_a_log_that_cannot_be_written_fails_nothing(tmp_path: Path):
    assert history.append(Checkpoint(str(tmp_path)), record(1)) is False
    assert history.append(Checkpoint(str(checkpoint(tmp_path, []))), {"batchId": object()}) is False


def test_a_directory_that_is_no_checkpoint_is_refused(tmp_path: Path):
    with pytest.raises(CheckpointError) as raised:
        history.read(tmp_path)
    assert raised.value.getCondition() == "NO_CHECKPOINT"


# ---- the page ----
def test_the_page_needs_nothing_else(tmp_path: Path):
    page = render_report(checkpoint(tmp_path, [record(i) for i in range(30)]))
    tags = parsed(page)
    assert not re.search(r"https?:|//[a-z]|@import|url\(", page)
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in tags.seen}
    assert not any(name in ("src", "href") for _, attributes in tags.seen for name in attributes)
    assert "prefers-color-scheme: dark" in page


def test_the_page_shows_the_final_numbers_and_the_tree(tmp_path: Path):
    page = render_report(checkpoint(tmp_path, [record(i) for i in range(30)]))
    for text in ("1,029", "main2", "aggregate by [srcIP]", "Event time of packets.ts", "79 rows"):
        assert text in page
    kinds = [page.count(f'<svg class="{kind}"') for kind in ("usual", "narrow", "broad")]
    assert kinds == [9, 9, 1], (
        "each chart for large and for small screens, the strips for two columns, too"
    )
    assert "order violations" in page and "out of order" not in page


def promised(batch: int) -> dict[str, Any]:
    """A record whose stream has a target: slack 2 s, later 4 s; the fifth window has too few rows."""
    made = record(batch)
    slack = 2_000_000 if batch < 20 else 4_000_000
    window = batch // 2
    made["streams"]["packets"]["quality"] = {
        "ts": {
            "target": {"error": 0.01, "confidence": 0.95},
            "method": "model",
            "strict": False,
            "slack": None if batch < 5 else slack,
            "warm": batch >= 10,
            "delays": {
                "p50": 100_000, "p90": 500_000, "p99": 1_500_000, "p999": 3_000_000, "max": 6_000_000,
                "rows": 900, "largest": 9_000_000, "lateShare": 0.1, "changes": 0,
            },
            "rate": 0.01,
            "consumers": {
                "aggregate-abc": {
                    "needed": 0.98, "estimated": 0.985,
                    "measured": 0.9 if window == 5 else 0.99, "window": window,
                }
            },
        }
    }  # fmt: skip
    return made


def test_a_quality_target_is_shown_with_what_other_ways_would_have_waited(tmp_path: Path):
    records = [promised(i) for i in range(30)]
    kept = quality.promise(records, "packets", "ts")
    assert (kept.kept, kept.measured) == (14, 15)
    assert kept.mean == pytest.approx(3.0) and kept.fixed == 4.0 and kept.greatest == 9.0
    page = render_report(checkpoint(tmp_path, records))
    parsed(page)
    for text in (
        "Slack of packets.ts",
        "93.3 %",
        "4 s: 1.3 times as long",
        "9 s: 3.0 times as long",
    ):
        assert text in page
    drawn = quality.coverage(series.bins(records), "packets", "ts")
    assert drawn["measured"][10] == 90 and drawn["needed"][10] == 98
    assert quality.slack_and_delays(series.bins(records), "packets", "ts", 1e6)["slack"][4:6] == [
        None,
        2.0,
    ]


def heard(dropped: int, total: int) -> dict[str, Any]:
    """A batch of a query with feedback."""
    return {
        "standing": [
            {"id": 1, "output": "map", "name": "view", "records": "~{segment < 40}", "sinceBatch": 3, "until": None}
        ],
        "filters": [{"operator": "filter-1", "records": "~{peak < 90}"}],
        "places": {"cars": {"records": 2, "rowsDropped": dropped, "totalRowsDropped": total}},
        "notRead": {"rows": 1_500, "bytes": 9_000, "streams": {"cars": {"rows": 700, "bytes": 4_100}}},
        "dark": {"aggregate-1": 1},
        "refused": [],
        "log": {"cars": {"rowsIn": 77_001, "rowsDropped": 66_001, "rowsOut": 11_000}},
    }  # fmt: skip


def test_feedback_is_shown_with_what_it_saved(tmp_path: Path):
    records = [
        record(0),
        record(1, feedback=heard(0, 0)),
        record(2, feedback=heard(66_001, 66_001)),
    ]
    page = render_report(checkpoint(tmp_path, records))
    for text in (
        "~{segment &lt; 40}",
        "~{peak &lt; 90}",
        "view on map",
        "the query itself, filter-1",
    ):
        assert text in page
    for number in ("66,001", "77,001", "11,000", "3,000 rows and 18,000 bytes were not read"):
        assert number in page
    # By stream, over both batches.
    assert all(f'<td class="n">{sum}</td>' in page for sum in ("1,400", "8,200"))
    assert "Dropped by feedback" in page
    parsed(page)


def test_without_feedback_there_is_no_word_of_it(tmp_path: Path):
    page = render_report(checkpoint(tmp_path, [record(i) for i in range(3)]))
    assert "eedback" not in page


def test_names_are_escaped(tmp_path: Path):
    evil = "<script>alert(1)</script>"
    streams = {evil: record(1)["streams"]["packets"]}
    streams[evil]["bounds"]["ts"]["holder"] = "<b>&"
    page = render_report(checkpoint(tmp_path, [record(1, streams=streams)], outputs={evil: [evil]}))
    parsed(page)
    assert "<script>" not in page and "<b>&<" not in page


def test_a_long_history_gives_a_page_of_the_usual_size(tmp_path: Path):
    page = render_report(checkpoint(tmp_path, [record(i) for i in range(5_000)]))
    assert len(page) < 2_000_000
    assert page.count('class="hover"') <= 8 * series.BINS


@pytest.mark.parametrize("count", [1, 2, 239, 240, 241, 5_000])
def test_bins_hold_every_batch_once(count: int):
    records = [{"batchId": i} for i in range(count)]
    points = series.bins(records)
    assert [r for p in points for r in p.records] == records
    assert len(points) <= series.BINS


def test_one_batch_without_rows_is_enough(tmp_path: Path):
    empty = record(0)
    bound = empty["streams"]["packets"]["bounds"]["ts"]
    bound.update(bound=None, ticks=None, newest=None, behind=None, holder=None)
    empty["operators"] = {}
    parsed(render_report(checkpoint(tmp_path, [empty])))


def test_integer_times_and_ended_streams_are_shown(tmp_path: Path):
    records = []
    for batch in range(5):
        made = record(batch)
        made["streams"]["packets"]["bounds"]["ts"].update(
            newest=100 + batch, bound=90 + batch, ticks=90 + batch, behind=10, holder=""
        )
        records.append(made)
    last = record(5, final=True)
    last["streams"]["packets"]["bounds"]["ts"].update(
        bound="end", newest=104, behind=None, holder=None
    )
    page = render_report(checkpoint(tmp_path, [*records, last]))
    parsed(page)
    assert "<td>104</td><td>end</td>" in page and "the stream itself" in page


def test_no_batch_yet_says_so(tmp_path: Path):
    with pytest.raises(CheckpointError) as raised:
        render_report(checkpoint(tmp_path, []))
    assert raised.value.getCondition() == "NO_HISTORY"


def test_what_a_running_total_grew_adds_up_to_it():
    records = [record(i) for i in range(700)]
    grown = series.increments(
        series.bins(records), lambda r: r["streams"]["packets"]["totalLate"]["ts"]
    )
    assert sum(g or 0 for g in grown) == records[-1]["streams"]["packets"]["totalLate"]["ts"]


# ---- the drawing ----
@given(st.lists(FINITE, min_size=1, max_size=20), st.booleans())
@example([5e-324], True)
@example([1e12, 1e12 + 2**-13], False)
@example([3e19, 3e19 + 2**13], False)
def test_a_scale_holds_its_values_between_its_first_and_last_tick(values: list[float], zero: bool):
    scale = svg.linear(values, from_zero=zero)
    slack = 1e-6 * (scale.high - scale.low)
    assert scale.ticks[0] == scale.low and scale.ticks[-1] == scale.high
    assert 2 <= len(scale.ticks) <= 8
    assert all(scale.low - slack <= v <= scale.high + slack for v in values)


@given(st.lists(st.floats(0, 4e9, allow_nan=False), min_size=1, max_size=20))
def test_a_clock_scale_has_ticks_at_round_times(values: list[float]):
    scale = svg.clock(values)
    assert all(scale.low <= v <= scale.high for v in values)
    assert 2 <= len(scale.ticks) <= 8


def test_stacked_bars_reach_the_sum():
    axis = svg.Axis(["a"], [0], ["12:00:00"])
    drawing = svg.bars(axis, {"x": [30.0], "y": [10.0]})
    scale = svg.linear([40.0])
    assert f"V{scale.y(40):.1f}" in drawing and f"V{scale.y(30):.1f}" in drawing


@pytest.mark.parametrize("width", [svg.NARROW, svg.WIDTH, 2 * svg.WIDTH])
@pytest.mark.parametrize("count", [1, 2, 9, 40, 239, 240])
def test_labels_along_the_bottom_are_whole_and_apart(count: int, width: int):
    axis = svg.Axis(["?"] * count, [10_000_000 + i for i in range(count)], ["23:59:59"] * count, width)  # fmt: skip
    drawn = svg.lines(axis, {"x": [1.0] * count})
    places = re.findall(r'<text class="axis[^"]*" x="([\d.]+)" y="\d+" text-anchor="middle">([^<]+)<', drawn)  # fmt: skip
    assert places
    spans = {}
    for x, text in places:
        half = 3.3 * len(text)  # digits of 12 pixels are 6.6 wide at most
        assert float(x) + half <= width, (x, text)
        spans.setdefault(":" in text, []).append((float(x) - half, float(x) + half))
    for row in spans.values():
        assert all(before[1] < after[0] for before, after in itertools.pairwise(row))


def test_a_small_screen_gets_drawings_that_are_not_shrunk(tmp_path: Path):
    """At 400 pixels a chart is 358 wide: its letters of 12 pixels stay as they are."""
    page = render_report(checkpoint(tmp_path, [record(i) for i in range(30)]))
    narrow = re.findall(r'<svg class="narrow" viewBox="0 0 (\d+) ', page)
    assert set(narrow) == {"360"}
    assert "@media (max-width: 560px)" in page
    small = page.partition("@media (max-width: 560px)")[2].partition("}\n}")[0]
    assert "svg.usual, .wide svg.usual { display: none; }" in small
    assert "svg.narrow { display: block; }" in small


def test_a_bound_ahead_of_all_rows_is_not_behind(tmp_path: Path):
    """After a flush, or where it follows the clock; and nothing is behind once a stream has ended."""
    ahead, ended = record(3), record(4, final=True)
    ahead["streams"]["packets"]["bounds"]["ts"]["behind"] = -50_000_000
    ended["streams"]["packets"]["bounds"]["ts"].update(bound="end", behind=-7_000_000, holder=None)
    for records in ([record(2), ahead], [record(2), ahead, ended]):
        page = render_report(checkpoint(tmp_path / str(len(records)), records))
        assert not re.search(r">-\d|: -\d", page), re.findall(r".{40}[>:] ?-\d.{20}", page)
    assert [*series.progress_of(series.bins([record(2), ahead, ended]), "packets", "ts").behind[1:]] == [0, None]  # fmt: skip


# ---- a whole run ----
def tiles(page: str) -> dict[str, str]:
    """The numbers at the top of a report."""
    return dict(re.findall(r'class="tile"><span class="soft">(.*?)</span><b>(.*?)</b>', page))


@pytest.mark.spec("FC-F56")
def test_a_run_is_timed_from_its_start_to_the_end_of_its_streams(tmp_path: Path) -> None:
    """And rows held are counted: one for each segment, as long as their window is open."""
    run = Viewed(tmp_path, plan_of(window={"range": 1000, "slide": 1000}))
    for n in range(3):
        segments = [10 * n + i // 2 for i in range(20)]
        run.give([pa.table({"segment": segments, "ts": [n] * 20, "v": [1] * 20})])
    run.run.start()
    started = time.monotonic()
    for n in range(3):
        time.sleep(0.2)
        run.step()
        shown = tiles(render_report(tmp_path / "checkpoint"))
        assert shown["state now"] == shown["most state"] == f"{10 * (n + 1)} rows"
        assert "since the start" in shown and shown["streams ended"] == "no"
    run.step(final=True)
    took = time.monotonic() - started
    run.run.stop()
    shown = tiles(render_report(tmp_path / "checkpoint"))
    assert (shown["state now"], shown["most state"]) == ("0 rows", "30 rows")
    told = parse_duration(shown["start to end"]) / SECOND
    assert 0.4 < told <= took - 0.2 + 0.01, "two waits lie within, the first one before the start"


def test_of_a_run_whose_first_batches_are_not_shown_no_time_is_told(tmp_path: Path) -> None:
    shown = tiles(render_report(checkpoint(tmp_path, [record(4), record(5)])))
    assert not {"start to end", "since the start"} & set(shown)
    one = tiles(render_report(checkpoint(tmp_path / "one", [record(0), record(9, final=True)])))
    # Nine seconds apart; before the first record its plan and job, behind the last one its commit and publication.
    assert one["start to end"] == "9.22 seconds"
