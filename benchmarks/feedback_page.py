"""The figures of feedback for readers: ``docs/feedback-experiments.md``, its picture, and the same as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
            *(picture if "suite4" in found["cases"] else []),
        ]
    )


def plain_text(found: Found) -> str:
    """The same tables for a terminal."""
    return whole(sections(found), plain)


def sections(found: Found) -> list[Section]:
    """All tables."""
    cases = found["cases"]
    return [
        gains(cases),
        catch_up(cases),
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
    case = cases.get("suite2")
    lines = []
    for name, treatments in (case or {"found": {}})["found"].items():
        for kind, one in treatments.items():
            bars = case["bars"] if case else {}
            bar = bars["records_ms" if "records" in name else "message_ms"]
            lines.append(
                [f"{name}: {kind}", spread(one["cpu_ms"], 1), f"{bar:g}", verdict(one["cpu_ms"]["median"], bar, least=False),
                 f"{one['sending_ms']:.1f}", spread(one["ratio"]), f"{bars['ratio']:.2f}", verdict(one["ratio"]["median"], bars["ratio"], least=False)]
            )  # fmt: skip
    rows = case["batch_rows"] if case else 0
    text = (
        f"A message with each batch of {rows:,} rows through a chain of filters, and many records that match nothing. CPU is that of the driver's "
        "Python process for a batch, above the same batch without feedback (published: at most +0.4 % of the time). One shape: a value for each of "
        "two columns; ranges: a different range of one column and a test of another. Sending is the call of `q.feedback`, which reads the condition and writes the request; it is not part of the batch."
    )  # fmt: skip
    head = (
        "treatment",
        "CPU ms a batch",
        "at most",
        "verdict",
        "ms to send",
        "ratio of times",
        "at most",
        "verdict",
    )
    return "Suite 2: messages", text, (head, lines)


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
