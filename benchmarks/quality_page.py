"""The page of ``python -m benchmarks quality``: from the JSON document to docs/quality-experiments.md."""

from __future__ import annotations

from typing import Any

from benchmarks.quality_aggregates import WANTED
from benchmarks.quality_change_page import again_sections, change_sections, kind_sections
from benchmarks.quality_join_page import join_sections, joins_again_sections
from benchmarks.tables import Section, Table, markdown, whole

LESS = 0.5
"""How far below that of the largest delay the latency is to be, at least."""

SOURCE = {
    "game1": {
        "no slack": "0.22 s",
        "max-delay": "3.05 s",
        "wrong": {0.1: 9 / 9800, 0.5: 28 / 9800, 1.0: 40 / 9800, 5.0: 45 / 9800},
    },
    "game2": {
        "no slack": "0.014 s",
        "max-delay": "17.3 s",
        "wrong": {0.1: 12 / 14000, 0.5: 37 / 14000, 1.0: 57 / 14000, 5.0: 100 / 14000},
    },
}
"""What the source prints of its two data sets: mean waits, and the share of wrong results with the largest delay."""

DATA = {
    "game1": "stand-in for the source's first set: half of the rows late, mostly by milliseconds, in the second half bursts by seconds",
    "game2": "stand-in for its second set: bursts all over, up to 17 s late",
    "x3": "first stream of the source's generator x3: any row may be late by up to 20 s, Zipf's law with exponent 2",
    "x4": "first stream of x4: the same with exponent 3",
    "change": "a change of regime: usual delays eight times as long in the middle third",
}


def _of(found: dict[str, Any], **keys: Any) -> list[dict[str, Any]]:
    return [r for r in found["runs"] if all(r[k] == v for k, v in keys.items())]


def verdict(line: dict[str, Any], hindsight: dict[str, Any], longest: float) -> str:
    """Whether both goals are met; if not, which assumption failed."""
    said = []
    if line["high"] < WANTED:
        thirds = ", ".join(f"{t:.3f}" for t in line["thirds"])
        said.append(
            f"Phi missed: windows to come needed more than past ones did (thirds of the run: {thirds})"
        )
    if line["saved"] < LESS:
        best = 1 - hindsight["latency"] / longest
        if best < LESS:
            said.append(
                f"latency missed: too many delays are near the largest; with hindsight a fixed slack is {best:.0%} below"
            )
        else:
            said.append(
                f"latency missed: the reserve above what most windows needed; with hindsight {best:.0%} below"
            )
    return "; ".join(said) or "met"


def ours(found: dict[str, Any], name: str) -> Table:
    """What the promise comes to on one data set."""
    head = (
        "window", "error", "Phi", "interval", "mean error", "latency", "below max-delay", "controller: Phi", "latency",
        "hindsight: latency", "goals",
    )  # fmt: skip
    lines = []
    for line in _of(found, data=name, way="ours"):
        key = {"data": name, "window": line["window"], "error": line["error"]}
        pd, best, most = (
            _of(found, way=w, **key)[0] for w in ("controller", "hindsight", "max-delay")
        )
        lines.append(
            [
                f"{line['window']:g} s",
                f"{line['error']:.1%}",
                f"{line['kept']:.3f}",
                f"{line['low']:.3f} to {line['high']:.3f}",
                f"{line['mean_error']:.2%}",
                _seconds(line["latency"]),
                f"{line['saved']:.1%}",
                f"{pd['kept']:.3f}",
                _seconds(pd["latency"]),
                _seconds(best["latency"]),
                verdict(line, best, most["latency"]),
            ]
        )
    return head, lines


def others(found: dict[str, Any], name: str) -> Table:
    """The ways that know nothing of a target."""
    errors = sorted({r["error"] for r in found["runs"]})
    head = (
        "window", "way", "latency", "below max-delay", "mean error", *(f"Phi {e:.1%}" for e in errors), "wrong",
    )  # fmt: skip
    ways = [w for w in dict.fromkeys(r["way"] for r in found["runs"]) if w not in ADAPTED]
    lines = []
    for window in sorted({r["window"] for r in found["runs"]}):
        for way in ways:
            mine = _of(found, data=name, window=window, way=way)
            lines.append(
                [
                    f"{window:g} s",
                    way,
                    _seconds(mine[0]["latency"]),
                    f"{mine[0]['saved']:.1%}",
                    f"{mine[0]['mean_error']:.2%}",
                    *(f"{r['kept']:.3f}" for r in sorted(mine, key=lambda r: float(r["error"]))),
                    f"{mine[0]['wrong']:.2%}",
                ]
            )
    return head, lines


ADAPTED = ("ours", "controller", "hindsight")


def beside_source(found: dict[str, Any]) -> Table:
    """The source's figures and ours."""
    head = ("what", "data", "the source", "here")
    lines: list[list[str]] = []
    for name, known in SOURCE.items():
        mine = _of(found, data=name)
        if not mine:
            continue
        for way in ("no slack", "max-delay"):
            here = _of(found, data=name, way=way)[0]["latency"]
            lines.append([f"mean wait, {way}", name, str(known[way]), _seconds(here)])
        for window, share in known["wrong"].items():  # type: ignore[attr-defined]
            here = _of(found, data=name, way="max-delay", window=window)
            if here:
                shown = f"{here[0]['wrong']:.2%}"
                lines.append([f"wrong with max-delay, {window:g} s", name, f"{share:.2%}", shown])
        for way, least in (("ours", "0.92 (its model)"), ("controller", "0.95")):
            part = _of(found, data=name, way=way)
            lines.append([f"least Phi, {way}", name, least, f"{min(r['kept'] for r in part):.3f}"])
            below = f"{min(r['saved'] for r in part):.0%} to {max(r['saved'] for r in part):.1%}"
            range_ = "48 % to 99.98 %" if way == "ours" else "32 % or more"
            lines.append([f"below max-delay, {way}", name, range_, below])
    return head, lines


def phases(found: dict[str, Any]) -> Table:
    """How the change of regime is followed."""
    head = ("window", "error", "way", "Phi before", "Phi after the change", "Phi after it is over")
    return head, [
        [f"{r['window']:g} s", f"{r['error']:.1%}", r["way"], *(f"{t:.3f}" for t in r["thirds"])]
        for way in ("ours", "controller", "native, p99.9")
        for r in _of(found, data="change", way=way)
    ]


def streams(found: dict[str, Any]) -> Table:
    """What the streams are like."""
    head = (
        "data", "what it is", "rows", "late", "of these after a late one", "delay p99", "p99.9", "largest",
    )  # fmt: skip
    return head, [
        [
            name,
            DATA[name],
            f"{s['rows']:,.0f}",
            f"{s['late']:.1%}",
            f"{s['correlated']:.1%}",
            _seconds(s["p99"]),
            _seconds(s["p999"]),
            _seconds(s["max"]),
        ]
        for name, s in found["data"].items()
    ]


def _seconds(value: float) -> str:
    return f"{value:.3f} s" if value < 0.1 else f"{value:.2f} s"


def met(found: dict[str, Any]) -> str:
    """How many of the cases meet the goals."""
    mine = _of(found, way="ours")
    kept = sum(r["high"] >= WANTED for r in mine)
    plainly = sum(r["kept"] >= WANTED for r in mine)
    quick = sum(r["saved"] >= LESS for r in mine)
    tenth = sum(r["saved"] >= 0.9 for r in mine)
    others = [r for r in found["runs"] if r["way"].startswith("native")]
    each = dict.fromkeys(r["way"] for r in others)
    fixed = ", ".join(
        f"{sum(r['high'] >= WANTED for r in others if r['way'] == way)} ({way}, "
        f"{sum(r['high'] >= WANTED and r['saved'] >= LESS for r in others if r['way'] == way)} of them at most half as long)"
        for way in each
    )
    return (
        f"Of {len(mine)} cases {kept} keep Phi >= {WANTED:g} less the sampling error ({plainly} of them with the share itself), {quick} wait at most half as long as "
        f"max-delay, {tenth} a tenth or less. Fixed delays keep it in {fixed}."
    )


def sections(found: dict[str, Any]) -> list[Section]:
    """All there is in the document."""
    out: list[Section] = []
    if aggregates := found.get("aggregates"):
        out.append(
            (
                "Aggregates",
                "\n\n".join([ABOUT_AGGREGATES, OURS, OTHERS, met(aggregates)]),
                streams(aggregates),
            )
        )
        for name in aggregates["data"]:
            about = DATA[name].capitalize() + "."
            out.append((f"Sums over {name}: the target kept", about, ours(aggregates, name)))
            out.append(
                (f"Sums over {name}: ways without a target", about, others(aggregates, name))
            )
        out.append(("The change of regime", PHASES, phases(aggregates)))
        out.append(("Beside the source", BESIDE, beside_source(aggregates)))
    if aggregates and (again := found.get("again")):
        out += again_sections(again, aggregates)
    if changes := found.get("changes"):
        out += change_sections(changes)
    if kinds := found.get("kinds"):
        out += kind_sections(kinds)
    if joins := found.get("joins"):
        out += join_sections(joins)
    if joins and (again := found.get("joins-again")):
        out += joins_again_sections(again, joins)
    if spark := found.get("spark"):
        out.append(
            ("On Spark, by the clock", ABOUT_SPARK.format(**spark["settings"]), on_spark(spark))
        )
    if cost := found.get("cost"):
        out.append(("What the statistics cost", ABOUT_COST.format(**cost["settings"]), costs(cost)))
    return out


def on_spark(found: dict[str, Any]) -> Table:
    """Wall-clock latency."""
    head = ("progress", "results", "wait, mean", "p95", "of it the batch (`latencyMs`, median)", "within 1 %")  # fmt: skip
    return head, [
        [
            r["way"],
            r["results"],
            f"{r['mean']:.2f} s",
            f"{r['p95']:.2f} s",
            f"{r['latency_ms'] / 1000:.2f} s",
            f"{r['kept']:.3f}",
        ]
        for r in found["runs"]
    ]


def costs(found: dict[str, Any]) -> Table:
    """Seconds per batch with and without a target."""
    head = (
        "progress",
        "seconds per batch, median",
        "of each round",
        "against BoundedDelay, by round",
    )
    base = found["runs"][0]["rounds"]
    return head, [
        [
            r["way"],
            f"{r['median']:.2f}",
            ", ".join(f"{m:.2f}" for m in r["rounds"]),
            ", ".join(f"{m / n - 1:+.0%}" for m, n in zip(r["rounds"], base, strict=True)),
        ]
        for r in found["runs"]
    ]


def page(found: dict[str, Any]) -> str:
    """The whole page."""
    machine, settings = found["machine"], found["settings"]
    head = HEAD.format(
        seed=settings["seed"],
        date=found["date"],
        cores=machine["cores"],
        memory=machine["memory_gb"],
        python=found["versions"]["python"],
        commits=", ".join(f"{part} {c}" for part, c in found["commits"].items()),
        minutes=round(sum(found[p]["minutes"] for p in ("aggregates", "joins") if p in found)),
    )
    return head + "\n\n" + whole(sections(found), markdown) + "\n"


HEAD = """# Quality targets, measured

Written by `make bench-quality`; do not edit. See [a promised accuracy](quality.md) and [joins with a promised recall](quality-joins.md) for what is measured.
Seed {seed}, on which nothing was tuned: constants were chosen on others. {date}, {cores} cores, {memory} GB, Python {python}, {minutes} minutes on one core.
Commits: {commits}. A commit that git does not know did not land under its name: [where it is](commits.md).

Everything but the last parts runs without Spark, row by row in order of arrival (`strict=True` for aggregates), and latency is in *stream time*: the newest time
(for joins: the clock of arrivals) when a result leaves, less the result's own time. So figures depend on no machine."""

ABOUT_AGGREGATES = """A sum over sliding windows, slide 0.1 s, confidence 0.95. *Phi* is the share of windows whose relative error is within the target; its interval is 95 % of a block bootstrap
(blocks of ten windows' lengths, 10 s at least). The first minute trains fixed delays and counts nowhere. Goals: Phi of 0.95 less the sampling error
(the interval reaches it), latency at least 50 % below that of the largest delay seen so far (*max-delay*)."""

OURS = """*Controller* is the PD controller of the source. *Hindsight* is the least fixed slack with which 95 % of these very windows keep the target: nobody can know it beforehand."""

OTHERS = """*Native* is Spark's watermark: newest time less a fixed delay, here the p99, p99.9 or maximum of the first minute's delays. As in Spark it moves between batches (of 0.1 s): a row is
dropped from windows that closed in an earlier batch, and a window leaves in the first batch that begins with a watermark past its end. Its wait therefore contains up to two batches; ours on Spark
would, too. *Wrong* is the share of results with any error."""

PHASES = """Phi by thirds of the run; the delays grow at the first third and fall back at the second, so the middle third shows what the change costs."""

BESIDE = """The source ran football data that are not free to pass on; ours are stand-ins with the same rate and largest delay, but fewer late rows (its sets had 57.6 % and 50.0 %; for ours see above). Its error targets reach from 0.01 % to 10 %."""

ABOUT_SPARK = """`python -m benchmarks quality --spark`: {seconds} s of {data} replayed at its own pace, a file every {every} s, sums over windows of 1 s every 0.5 s; the first {skip} s are left out. A result's wait is
from the moment at which the replay reaches the window's end until its file is visible, so it contains the slack, the wait for the next file, and the batch."""

ABOUT_COST = """`python -m benchmarks quality --cost`: batches of {rows} rows read from files by our own tasks, sums by {keys} keys over windows of 60 s every 5 s, {rounds} rounds in turns after one to warm up, other work on the machine. With a quality
target the tasks also look at each row's delay and value, and reading is not fused with the first aggregation."""
