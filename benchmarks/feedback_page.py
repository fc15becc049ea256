"""The figures of feedback for readers: ``docs/feedback-experiments.md``, its picture, and the same as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.feedback_missed import TITLE, missed
from benchmarks.pictures import axes_of
from benchmarks.tables import Section, markdown, plain, times, verdict, whole

Found = Mapping[str, Any]


def page(found: Found) -> str:
    """``docs/feedback-experiments.md``."""
    machine, versions = found["machine"], found["versions"]
    stamps = sorted({(c["date"], c["commit"]) for c in found["cases"].values()})
    days = "; ".join(f"{date} (commit {commit})" for date, commit in stamps)
    measured = f"Measured on {days}" if days else "Nothing is measured yet"
    if not stamps:
        measured = (
            "no day yet: `make bench-feedback` measures all, and each case is kept when it is done"
        )
    picture = ["![rows avoided by the batch in which feedback arrives](feedback.svg)", ""]
    return "\n".join(
        [
            "# Feedback, measured",
            "",
            "What [feedback](feedback.md) costs, how far up it goes, what it saves. Written by `make bench-feedback`; do not edit.",
            "",
            f"{measured}: {machine['cores']} cores, {machine['memory_gb']} GB of memory, Spark {versions['pyspark']}, heap "
            f"{found['settings']['heap']}. Queries live side by side and get the same batches in turns; a ratio is the median over the pairs, with the "
            "least and the greatest. A near-empty batch has the same query and time with a few hundred rows.",
            "",
            whole(sections(found), markdown),
            "",
            *misses(found),
            *(picture if "suite4" in found["cases"] else []),
        ]
    )


def misses(found: Found) -> list[str]:
    """What was missed, as a section; no line if nothing was."""
    lines = missed(sections(found), found["cases"])
    return [f"## {TITLE}", "", *(f"- {line}" for line in lines), ""] if lines else []


def plain_text(found: Found) -> str:
    """The same for a terminal."""
    return "\n".join([whole(sections(found), plain), "", *misses(found)])


def sections(found: Found) -> list[Section]:
    """All tables."""
    cases = found["cases"]
    return [
        gains(cases),
        catch_up(cases),
        phases(cases),
        idle(cases),
        messages(cases),
        reach(cases),
        restrictive(cases),
    ]


def spread(value: Found, digits: int = 2) -> str:
    """A median with the least and the greatest.

    >>> spread({"median": 3.0, "least": 2.5, "most": 4.0}, 1)
    '3.0 (2.5 to 4.0)'
    """
    return (
        f"{value['median']:.{digits}f} ({value['least']:.{digits}f} to {value['most']:.{digits}f})"
    )


def share(value: float) -> str:
    """As percent, with a digit where it is small."""
    return f"{value:.1%}" if abs(value) < 0.1 else f"{value:.0%}"


def gains(cases: Found) -> Section:
    """What users gain."""
    lines = []
    for name in ("viewport-clustered", "viewport-scattered", "rare-maxima"):
        case = cases.get(name)
        if case is None:
            continue
        bars = case["bars"]
        for what in ("batch", "scan"):
            goal = bars.get(what)
            kind = "batch" if what == "batch" else "first stage"
            reached = "" if goal is None else verdict(case[what]["median"], goal)
            bar = "" if goal is None else times(goal)
            lines.append(
                [f"{name}: {kind}", f"{case['rows']:,}", spread(case[what], 1), bar, reached]
            )
        done = verdict(case["state"], bars["state"], least=False)
        lines.append(
            [
                f"{name}: state rows",
                f"{case['rows']:,}",
                share(case["state"]),
                share(bars["state"]),
                done,
            ]
        )
        seconds = ", ".join(f"{n} {v['median']:.2f}" for n, v in case["seconds"].items())
        lines.append([f"{name}: s a batch", f"{case['rows']:,}", seconds, "", ""])
    text = (
        "Times without feedback divided by times with it. Viewport: one segment in a hundred is in view, windows of 60 s / 5 s, 100,000 segments; "
        "files are clustered by segment, or not. Rare maxima: `max(v)` below a `where` at the 99.9th percentile, 1 M keys. State rows: share "
        "of those without feedback, once the windows that were open at the start have closed. Answers are compared."
    )  # fmt: skip
    return (
        "What users gain",
        text,
        (("case", "rows a batch", "measured", "at least", "verdict"), lines),
    )


def catch_up(cases: Found) -> Section:
    """A live view that catches up after an outage."""
    case = cases.get("catch-up")
    lines = []
    if case:
        bars = case["bars"]
        for what, value, text, least in (
            ("time to the newest result", case["time"]["median"], spread(case["time"], 1), True),
            ("bytes read", case["read"], share(case["read"]), False),
        ):
            goal = bars["time" if least else "read"]
            bar = times(goal) if least else share(goal)
            lines.append([what, f"{case['rows']:,}", text, bar, verdict(value, goal, least=least)])
        seconds = ", ".join(f"{n} {v['median']:.2f}" for n, v in case["seconds"].items())
        lines.append(["s a batch", f"{case['rows']:,}", seconds, "", ""])
    text = (
        'Old rows of two streams in files by time, all in one batch, with `pace("5 minutes", clock=True)` and without; counts by key and minute. Each round is two queries that '
        "begin anew. Results of the last five minutes are compared."
    )  # fmt: skip
    return "Catching up", text, (("what", "rows", "measured", "bar", "verdict"), lines)


def phases(cases: Found) -> Section:
    """Where the time of a batch goes that catches up."""
    case = cases.get("catch-up", {})
    found = case.get("phases", {})
    lines = [
        [phase, *(f"{one[phase]:.0f}" for one in found.values())]
        for phase in next(iter(found.values()), {})
    ]
    if lines:
        lines.append(["CPU of the driver", *(f"{ms:.0f}" for ms in case["cpu_ms"].values())])
    text = (
        "Milliseconds of that batch, medians. Near-empty is the paced query over two files of 200 rows: what it takes, the first batch of any query takes. *Spark's own*: offsets, logs and "
        "the plan of the stream; *plan*: what a batch depends on, and with a pace the footers of all files; *launch*: making the job and Spark's planning of it, outside of its stages. CPU is that of the driver's thread that runs the batch."
    )  # fmt: skip
    return "Catching up: where the time goes", text, (("phase", *found), lines)


def idle(cases: Found) -> Section:
    """Suite 1."""
    case = cases.get("suite1", {"plans": {}, "bars": {"ratio": 1.03}, "beside": ""})
    bar = case["bars"]["ratio"]
    lines = [
        [name, spread(p["before"], 3), spread(p["now"], 3), spread(p["ratio"]), f"{bar:.2f}",
         verdict(p["ratio"]["median"], bar, least=False)]
        for name, p in case["plans"].items()
    ]  # fmt: skip
    text = (
        f"The machinery is there and nothing flows, against {case['beside']}, whose engine knows no feedback, in two processes in turns "
        "(published: +1.4 to +4 %). Everything else that was built since is in the ratio, too. That the texts of statements do not "
        "change is a test: `test_where_no_feedback_acts_every_statement_is_the_same`."
    )  # fmt: skip
    return (
        "Suite 1: nothing flows",
        text,
        (("plan", "before: s", "now: s", "ratio", "at most", "verdict"), lines),
    )


def messages(cases: Found) -> Section:
    """Suite 2."""
    found = [c for name, c in cases.items() if name.startswith("suite2-")]
    lines = []
    for case in found:
        bars, name = case["bars"], case["name"].removeprefix("suite2-").replace("-", " ")
        for kind, one in case["found"].items():
            lines.append(
                [f"{name}: {kind}", str(one["cpu_ms"]["values"]), confident(one["cpu_ms"], 1), f"{bars['cpu_ms']:g}", decided(one["cpu_ms"], bars["cpu_ms"]),
                 f"{one['sending_ms']:.1f}", confident(one["ratio"]), f"{bars['ratio']:.2f}", decided(one["ratio"], bars["ratio"])]
            )  # fmt: skip
    rows = found[0]["batch_rows"] if found else 0
    text = (
        f"A message with each batch of {rows:,} rows through a chain of filters, and many records that match nothing, beside the same batch without feedback (published: at most +0.4 % of the time). In brackets is "
        "the range in which the median lies with a confidence of 95 %; where the bar is inside, nothing is decided, as for times on a machine that others use. CPU is that of the driver's thread that runs the batches, so that others on the machine do not count; garbage is collected between batches. One shape: a value for each of "
        "two columns; ranges: a different range of one column and a test of another. *Not exploited* is a query with `option(\"feedback\", \"off\")`: the record is taken in, stands and is kept, but does not travel. "
        "*ms to send* is what the call of `q.feedback` takes in the process of the consumer, until the request is on disk: the condition is read, and one file written. No batch waits for it, and no other column has it in it; the many records are declared when their query starts, and nothing is sent."
    )  # fmt: skip
    head = (
        "treatment", "pairs", "CPU ms a batch", "at most", "verdict", "ms to send",
        "ratio of times", "at most", "verdict",
    )  # fmt: skip
    return "Suite 2: messages", text, (head, lines)


def decided(value: Found, most: float) -> str:
    """The verdict on a median that is to be at most so much; none, if its range of confidence has more and less.

    >>> decided({"median": 1.0, "low": 0.9, "high": 1.1}, 1.05)
    'not decided'
    >>> decided({"median": 1.0, "low": 0.9, "high": 1.04}, 1.05)
    'met'
    >>> decided({"median": 2.1, "low": 1.1, "high": 4.0}, 1.05)
    'missed by 100%'
    """
    if value["low"] <= most < value["high"]:
        return "not decided"
    return verdict(value["median"], most, least=False)


def confident(value: Found, digits: int = 2) -> str:
    """A median with its range of confidence.

    >>> confident({"median": 3.0, "low": 2.5, "high": 4.0}, 1)
    '3.0 (2.5 to 4.0)'
    """
    return f"{value['median']:.{digits}f} ({value['low']:.{digits}f} to {value['high']:.{digits}f})"


def reach(cases: Found) -> Section:
    """Suite 4."""
    case = cases.get("suite4")
    lines = []
    for name, one in (case or {"treatments": {}})["treatments"].items():
        flows = "; ".join(
            f"{n.split()[0]} {i:,} in, {o:,} out" for n, (i, o) in one["operators"].items()
        )
        avoided = "; ".join(f"{n} {rows:,}" for n, rows in one["avoided"].items())
        lines.append([name, flows, avoided or "-"])
    text = ""
    if case:
        text = (
            f"{case['rows']:,} rows of sensors joined with themselves, in batches of {case['batch_rows']:,}; an average by windows of a minute; "
            f"`~{{wid < N}}` before the first batch, which asks for {case['avoidable']:,} rows of each side (published: 44,981 to 44,990 of 45,000). Results are the same "
            f"in all but `off`: {case['results']:,} rows that were not given up."
        )  # fmt: skip
    return "Suite 4: how far up", text, (("treatment", "rows", "rows dropped, by place"), lines)


def restrictive(cases: Found) -> Section:
    """Suite 5."""
    lines = []
    for name, case in cases.items():
        if not name.startswith("suite5"):
            continue
        bars, off = case["bars"], case["between"]["off"]
        for reach in ("operators", "source"):
            fewer = off / max(1, case["between"][reach])
            saved = case["saved"][reach]
            lines.append(
                [f"{name}: {reach}", f"{case['rows']:,}", f"{off:,} → {case['between'][reach]:,}", verdict(fewer, bars["between"]),
                 spread({k: 100 * v for k, v in saved.items()}, 0), f"{bars[reach]:.0%}", verdict(saved["median"], bars[reach]),
                 f"{100 * case['whole'][reach]['median']:.0f}", case["rounds_used"]]
            )  # fmt: skip
    text = (
        "Q1: two filters on sensors, united; Q2: sensors joined with a table of places, maxima by place and minute; Q3: averages of sensors and of cars by minute, joined. All "
        "results after the first minutes are given up. Rows between operators, of all batches, are to be a thousandth. Time saved is in percent of what the batch without "
        "feedback takes above a near-empty one of the same round; the last column is in percent of the whole batch (published: 12 to 25 %)."
    )  # fmt: skip
    head = (
        "query: reach",
        "rows a batch",
        "rows between",
        "verdict",
        "saved %",
        "at least",
        "verdict",
        "of all %",
        "rounds",
    )
    return "Suite 5: nearly all is given up", text, (head, lines)


def plot(found: Found, target: Path) -> None:
    """Effectiveness by the batch before which feedback arrives."""
    case = found["cases"]["suite4"]
    points = case["arrival"]
    title = f"Effectiveness of feedback on {case['windows']} windows, {case['step']} a batch"
    with axes_of(target) as axes:
        axes.plot([n for n, _ in points], [100 * e for _, e in points], marker="o")
        axes.set(
            xlabel="batches before feedback arrives", ylabel="rows avoided, % of those asked for",
            title=title, ylim=(-3, 103),
        )  # fmt: skip
