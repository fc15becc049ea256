"""The page of the report: which charts there are, and the numbers beside them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

import slackwater
from slackwater.engine.store import history
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.files import unseal
from slackwater.engine.store.local import OUTPUT
from slackwater.errors import CheckpointError
from slackwater.model.spans import in_words
from slackwater.model.time import TimeColumn, parse_instant
from slackwater.surface.held import held_by
from slackwater.surface.report import quality, series, svg
from slackwater.surface.report.series import Bin, Record, increments, progress_of
from slackwater.surface.report.tree import in_words_for

STEPS = ("plan", "job", "commit", "publish")


@dataclass(frozen=True)
class Chart:
    """A drawing with its heading; ``legend`` names the colours in order."""

    title: str
    note: str
    drawing: Markup
    legend: tuple[tuple[str, int], ...] = ()
    wide: bool = False


def write_report(location: str | Path, target: Path, *, title: str | None = None) -> None:
    """Write the report of a checkpoint to a file."""
    OUTPUT.make_folder(target.parent)
    OUTPUT.write(target, render_report(location, title=title).encode())


def render_report(location: str | Path, *, title: str | None = None) -> str:
    """The report of a checkpoint as HTML."""
    records = history.read(location)
    if not records:
        raise CheckpointError(
            "NO_HISTORY",
            f"the query of checkpoint '{location}' has not completed a batch yet",
            hint="let it run for a batch or two, then make the report",
            location=location,
        )
    query = _query(Path(location))
    points = series.bins(records)
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    source = resources.files(__package__).joinpath("report.html.j2").read_text(encoding="utf-8")
    last = records[-1]
    return environment.from_string(source).render(
        title=title or f"Slackwater: {', '.join(last['outputs'])}",
        version=slackwater.__version__,
        query_id=query.get("id", ""),
        span=f"{records[0]['timestamp'][:19].replace('T', ' ')} to {last['timestamp'][:19].replace('T', ' ')} UTC",
        tiles=_tiles(records),
        charts=_charts(points),
        streams=_streams(last),
        promises=[quality.promise(records, s, c) for s, c in quality.columns(last)],
        feedback=_feedback(records),
        operators=last["operators"],
        outputs=_outputs(records),
        trees={name: in_words_for(tree) for name, tree in query.get("outputs", {}).items()},
        short=svg.short,
    )


def _query(location: Path) -> dict[str, Any]:
    """The stored description of the query; the report does without it if it is not there."""
    try:
        checkpoint = Checkpoint(str(location))
        return unseal(checkpoint.storage, checkpoint.description_file, what="query description")
    except (OSError, CheckpointError):
        return {}


# ---- numbers ----
def _tiles(records: Sequence[Record]) -> list[tuple[str, str]]:
    last = records[-1]
    took = sorted(r["durationMs"].get("total", 0) for r in records)
    p95 = took[min(len(took) - 1, int(0.95 * len(took)))]
    state = [op["state"] for op in last["operators"].values()]
    return [
        ("rows in", f"{sum(s['totalRows'] for s in last['streams'].values()):,}"),
        ("rows out", f"{sum(_out(r, n) for r in records for n in r['outputs']):,}"),
        ("late rows", f"{sum(_late(last, s) for s in last['streams']):,}"),
        ("from the future", f"{sum(_future(last, s) for s in last['streams']):,}"),
        ("batches", f"{len(records):,}"),
        *_run(records),
        ("batch, median", f"{statistics.median(took):,.0f} ms"),
        ("batch, 95 %", f"{p95:,.0f} ms"),
        ("state now", f"{sum(s['rows'] for s in state):,} rows"),
        ("most state", f"{max(_state(r, 'rows') for r in records):,} rows"),
        ("streams ended", "yes" if last["final"] else "no"),
    ]


def _run(records: Sequence[Record]) -> list[tuple[str, str]]:
    """How long the query ran: from the beginning of its first batch to the end of the one that all streams ended with.

    Before they end, to that of the last batch. Nothing, if the first batches are not shown.
    """
    first, last = records[0], records[-1]
    if first["ordinal"]:
        return []
    took = _written(last) - _written(first) + _part(first, "plan", "job")
    took += _part(last, "commit", "publish")
    return [("start to end" if last["final"] else "since the start", in_words(1000 * took))]


def _written(record: Record) -> int:
    """When a record was made, in milliseconds: behind its batch's job."""
    time = TimeColumn("timestamp", "timestamp")
    return parse_instant(record["timestamp"], time, what="timestamp of a record") // 1000


def _part(record: Record, *steps: str) -> int:
    """Milliseconds of some steps of a batch."""
    return sum(int(record["durationMs"].get(step, 0)) for step in steps)


def _streams(last: Record) -> list[dict[str, Any]]:
    rows = []
    for name, s in last["streams"].items():
        for column, b in s["bounds"].items():
            is_clock = not isinstance(b["newest"], int)
            # A bound that follows the clock, or a flush, may be ahead of all rows.
            ended = b["behind"] is None or b["bound"] == "end"
            behind = None if ended else max(0, b["behind"])
            rows.append(
                {
                    "name": name,
                    "column": column,
                    "rows": s["totalRows"],
                    "newest": b["newest"],
                    "bound": b["bound"],
                    "behind": "" if behind is None else (
                        in_words(behind) if is_clock else f"{behind:,}"
                    ),
                    "holder": held_by(b) or "",
                    "idle": ", ".join(b["idle"]),
                    "late": s["totalLate"].get(column, 0),
                    "null_time": s["nullTime"].get(column, 0),
                    "future": s["future"].get(column, 0),
                    "violations": s["orderViolations"],
                }
            )  # fmt: skip
    return rows


def _outputs(records: Sequence[Record]) -> list[tuple[str, int, int, int]]:
    names = list(dict.fromkeys(n for r in records for n in r["outputs"]))
    return [
        (
            name,
            sum(_out(r, name) for r in records),
            sum(r["outputs"].get(name, {}).get("files", 0) for r in records),
            sum(r["outputs"].get(name, {}).get("bytes", 0) for r in records),
        )
        for name in names
    ]


def _out(record: Record, name: str) -> int:
    return int(record["outputs"].get(name, {}).get("rows", 0))


def _late(record: Record, stream: str) -> int:
    return sum(record["streams"].get(stream, {}).get("totalLate", {}).values())


def _future(record: Record, stream: str) -> int:
    return sum(record["streams"].get(stream, {}).get("future", {}).values())


def _state(record: Record, what: str) -> int:
    return sum(int(op["state"][what]) for op in record["operators"].values())


# ---- feedback ----
def _feedback(records: Sequence[Record]) -> dict[str, Any] | None:
    """What stands, and what was dropped where; None if there never was feedback."""
    seen = [r["feedback"] for r in records if "feedback" in r]
    if not seen:
        return None
    last = records[-1].get("feedback", {})
    # A place that is at rest is not in the newest record; its total is in the last that has it.
    places = {name: place for one in seen for name, place in one["places"].items()}
    now = last.get("places", {})
    return {
        "standing": last.get("standing", []),
        "filters": last.get("filters", []),
        "dark": sum(last.get("dark", {}).values()),
        "rows": sum(one["notRead"]["rows"] for one in seen),
        "bytes": sum(one["notRead"]["bytes"] for one in seen),
        "places": {
            name: (
                now.get(name, {}).get("records", 0),
                place["totalRowsDropped"],
                *(sum(_not_read(one, name, what) for one in seen) for what in ("rows", "bytes")),
            )
            for name, place in places.items()
        },
        "log": last.get("log", {}),
    }


def _not_read(feedback: Record, stream: str, what: str) -> int:
    # Earlier records had the sums alone.
    return int(feedback["notRead"].get("streams", {}).get(stream, {}).get(what, 0))


def _dropped(record: Record, place: str) -> int:
    places = record.get("feedback", {}).get("places", {})
    return int(places.get(place, {}).get("rowsDropped", 0))


# ---- charts ----
def _charts(points: Sequence[Bin]) -> list[Chart]:
    axis = svg.Axis(
        [p.label for p in points],
        [p.records[0]["batchId"] for p in points],
        [series.time_of_day(p.records[0]["timestamp"]) for p in points],
    )
    streams = list(points[-1].last["streams"])
    each = "batch" if max(len(p.records) for p in points) == 1 else "point (several batches)"
    rows: dict[str, svg.Values] = {
        s: [
            p.total(lambda r, s=s: r["streams"].get(s, {}).get("numInputRows", 0))  # type: ignore[misc]
            for p in points
        ]
        for s in streams
    }
    charts = [_bars(axis, "Rows in", f"rows per {each}", rows)]
    for s in streams:
        for column in points[-1].last["streams"][s]["bounds"]:
            charts += _progress(axis, points, s, column)
    for s, column in quality.columns(points[-1].last):
        charts += _quality(axis, points, s, column)
    late: dict[str, svg.Values] = {}
    for s in streams:
        prefix = f"{s}: " if len(streams) > 1 else ""
        late[f"{prefix}late"] = increments(points, lambda r, s=s: _late(r, s))  # type: ignore[misc]
        late[f"{prefix}future"] = increments(points, lambda r, s=s: _future(r, s))  # type: ignore[misc]
    charts.append(
        _bars(axis, "Late rows", f"rows below the bound, or from the future, per {each}", late)
    )
    places = dict.fromkeys(
        n for p in points for r in p.records for n in r.get("feedback", {}).get("places", {})
    )
    if places:
        dropped: dict[str, svg.Values] = {
            n: [p.total(lambda r, n=n: _dropped(r, n)) for p in points]  # type: ignore[misc]
            for n in places
        }
        note = f"rows per {each} that nobody wanted, by place"
        charts.append(_bars(axis, "Dropped by feedback", note, dropped))
    outputs: dict[str, svg.Values] = {
        n: [p.total(lambda r, n=n: _out(r, n)) for p in points]  # type: ignore[misc]
        for n in points[-1].last["outputs"]
    }
    charts.append(_bars(axis, "Rows out", f"rows per {each}, by output", outputs))
    spent: dict[str, svg.Values] = {
        step: [
            p.total(lambda r, step=step: r["durationMs"].get(step, 0)) / len(p.records)  # type: ignore[misc]
            for p in points
        ]
        for step in STEPS
    }
    charts.append(_bars(axis, "Time per batch", "milliseconds, by step", spent, unit=" ms"))
    state: svg.Values = [_state(p.last, "rows") for p in points]
    size: svg.Values = [_state(p.last, "bytes") for p in points]
    charts.append(
        _lines(axis, "State, rows", "partial results kept for open windows", {"rows": state})
    )
    charts.append(_lines(axis, "State, bytes", "size of the state's files", {"bytes": size}))
    return charts


def _progress(axis: svg.Axis, points: Sequence[Bin], stream: str, column: str) -> list[Chart]:
    p = progress_of(points, stream, column)
    event: dict[str, svg.Values] = {"newest": p.newest, "bound": p.bound}
    known = [v for values in event.values() for v in values]
    scale = svg.clock(known) if p.is_clock else svg.linear(known, from_zero=False)
    show = svg.time_of_day if p.is_clock else svg.short
    name = f"{stream}.{column}"
    names = [h for h in dict.fromkeys([*p.holder, *p.ahead, *", ".join(p.idle).split(", ")]) if h]
    # Who holds the bound for a reason of its own has no colour: nobody, or those not seen yet.
    real = [n for n in names if n != "nobody" and not n.startswith("<")]
    colours: dict[str, int | None] = {n: i for i, n in enumerate(real)}
    who = {"held by": p.holder, "idle": p.idle}
    if any(p.ahead):
        who["ahead"] = p.ahead
    broad = replace(axis, width=2 * svg.WIDTH)
    return [
        Chart(
            f"Event time of {name}",
            "newest time seen, and the bound: no later row is older",
            _drawn(axis, lambda a: svg.lines(a, event, show=show, scale=scale, between=True)),
            (("newest", 0), ("bound", 1)),
        ),
        Chart(
            f"Who holds the bound of {name}",
            "the partition that is furthest behind, those that are silent and not waited for, and one that is far ahead of all others",
            # Drawn once more for a page of two columns, which it spans.
            Markup(svg.strips(broad, who, colours))
            + _drawn(axis, lambda a: svg.strips(a, who, colours)),
            tuple((n, i) for i, n in enumerate(real[: svg.COLOURS])),
            wide=True,
        ),
        _lines(
            axis,
            f"How far the bound of {name} is behind",
            "seconds behind the newest time" if p.is_clock else "behind the newest time",
            {"behind": p.behind},
            show=svg.seconds if p.is_clock else svg.short,
        ),
    ]


def _quality(axis: svg.Axis, points: Sequence[Bin], stream: str, column: str) -> list[Chart]:
    name = f"{stream}.{column}"
    is_clock = progress_of(points, stream, column).is_clock
    waits = quality.slack_and_delays(points, stream, column, 1e6 if is_clock else 1.0)
    shares = quality.coverage(points, stream, column)
    return [
        Chart(
            f"Slack of {name}",
            "how long results wait for rows on their way, and the delays of half, 99 % and 99.9 % of recent rows",
            _drawn(
                axis, lambda a: svg.lines(a, waits, show=svg.seconds if is_clock else svg.short)
            ),
            tuple((n, i) for i, n in enumerate(waits)),
        ),
        Chart(
            f"Coverage of {name}",
            "share of a window's rows that the target needs, that was expected, and that was there",
            _drawn(
                axis,
                lambda a: svg.lines(
                    a, shares, show=quality.percent, scale=quality.coverage_scale(shares)
                ),
            ),
            tuple((n, i) for i, n in enumerate(shares)),
        ),
    ]


def _bars(
    axis: svg.Axis, title: str, note: str, values: dict[str, svg.Values], *, unit: str = ""
) -> Chart:
    legend = tuple((n, i % svg.COLOURS) for i, n in enumerate(values)) if len(values) > 1 else ()
    return Chart(title, note, _drawn(axis, lambda a: svg.bars(a, values, unit=unit)), legend)


def _lines(
    axis: svg.Axis,
    title: str,
    note: str,
    values: dict[str, svg.Values],
    *,
    show: svg.Format = svg.short,
) -> Chart:
    return Chart(title, note, _drawn(axis, lambda a: svg.lines(a, values, show=show)))


def _drawn(axis: svg.Axis, draw: Callable[[svg.Axis], str]) -> Markup:
    """A chart for large screens and once more for small ones; the page's style shows one of them."""
    return Markup(draw(axis) + draw(replace(axis, width=svg.NARROW)))
