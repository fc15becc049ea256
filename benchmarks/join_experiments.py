"""``python -m benchmarks join-experiments``: what others measured of joins in little memory, and what we do.

No Spark takes part: the kernel and the baseline RPWJ run on a simulated machine (`join_simulation`). Written to
docs/join-experiments.md. ``--cases`` takes names of experiments and only prints them.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from benchmarks.experiments.common import Finding
from benchmarks.experiments.page import findings_of, record, text, write
from benchmarks.join_simulation import SCALE, Baseline, Figures, Machine, Ours, Workload, simulate
from benchmarks.tables import markdown

RATES = (800, 1000, 1200, 1400, 1600, 1800)
BIASES = (0.5, 0.6, 0.8)
MEMORIES = (10, 20, 40, 80)
SLIDES = (30, 60, 240)
FLUSHES = (0.2, 0.4, 0.8)
PARTITIONS = (30, 60, 120)
SLOW_RATES = (150, 200, 250, 300)
TEN_MINUTES = Workload()
HALF_HOUR = Workload(
    rate=200, window=1800, row_bytes=128, memory=40_000_000, length=4200, warm_up=2400, trigger=30
)
"""The first of the source's joins: half an hour of wide rows, 20 MB for each of two windows."""


@cache
def measured(kind: str, load: Workload, **settings: Any) -> Figures:
    """One run; several tables show some."""
    join = Ours(load, **settings) if kind == "ours" else Baseline(load, **settings)
    return simulate(join, load, Machine())


def _few(values: tuple[Any, ...], quick: bool) -> tuple[Any, ...]:
    return values[1:3] if quick else values


def _small(load: Workload, quick: bool) -> Workload:
    """The same with a shorter window, for a look."""
    if not quick:
        return load
    share = load.window // 60
    memory, keys = load.memory // share, load.keys // share
    return replace(load, window=60, memory=memory, keys=keys, length=150, warm_up=70)


def _load(quick: bool, base: Workload = TEN_MINUTES, **changes: Any) -> Workload:
    return _small(replace(base, **changes), quick)


def rates(*, quick: bool = False) -> Finding:
    """X11 to X17: both joins as the streams get faster."""
    lines, points = [], []
    used = _few(RATES, quick)
    for rate in used:
        load = _load(quick, rate=rate)
        theirs, ours = measured("rpwj", load), measured("ours", load)
        lines.append(
            [
                rate,
                f"{ours.window / load.scaled_memory:.1f}",
                *(f"{f.last_waiting:,}" for f in (theirs, ours)),
                *(f"{f.delay:.0f}" for f in (theirs, ours)),
                *(f"{f.late:.1%}" for f in (theirs, ours)),
                *(f"{f.cpu:.0f} + {f.disk:.0f}" for f in (theirs, ours)),
            ]
        )
        points.append(
            {"rate": rate, "rpwj": _numbers(theirs), "ours": _numbers(ours), "memory": load.memory}
        )
    last = {p["rate"]: p for p in points}
    at = used[-1] if quick else 1400
    saved = 1 - _busy(last[at]["ours"]) / _busy(last[at]["rpwj"])
    flat = last[used[-1]]["ours"]["delay"] / last[used[0]]["ours"]["delay"]
    full = {k: [p["rate"] for p in points if p[k]["overloaded"]] for k in ("rpwj", "ours")}
    first = {
        k: f"from {min(v)} rows/s on" if v else "at none of these rates" for k, v in full.items()
    }
    late = max(p["ours"]["late"] for p in points)
    wide = max(points, key=lambda p: p["rate"])
    return Finding(
        "X11",
        "as streams get faster (X11 to X17)",
        "Window 10 minutes, 20 MB for the join, rows of 64 bytes, bursts with bias 0.6. Waiting are the rows in the queue at the end; "
        "delay in seconds is the mean over results; late are results that came after more than a window; work is seconds of the "
        f"processor and of the disk, of {_load(quick).length - _load(quick).warm_up}.",
        (
            "rows/s",
            "window / memory",
            "waiting: RPWJ",
            "ours",
            "delay: RPWJ",
            "ours",
            "late: RPWJ",
            "ours",
            "work: RPWJ",
            "ours",
        ),
        lines,
        "RPWJ is overloaded at 1400 rows/s, the adaptive join is not, has nearly no late rows up to 1800, a flat delay up to 1600, where its "
        "windows are 9 times its memory; at 1400 it needs 40 % less time in all; disk time of RPWJ is very much higher",
        f"RPWJ is overloaded {first['rpwj']} (the machine was chosen so), ours {first['ours']}; from {used[0]} to {used[-1]} rows/s "
        f"our delay becomes {flat:.1f} times as long, and at most {late:.1%} of our results are late; at {used[-1]} our windows are {wide['ours']['window'] / (wide['memory'] / SCALE):.1f} times the memory; at "
        f"{at} ours needs {saved:.0%} less time",
        agrees=saved > 0.3
        and flat < 1.5
        and wide["rpwj"]["overloaded"]
        and not wide["ours"]["overloaded"],
        differs="Ours counts all it works with as memory, indexes and results too, so less of it holds rows; and its delay includes the "
        "wait for the trigger of 10 s, and for passes, which start when the rows in debt fill their share of memory: as windows outgrow "
        "the memory, more results come from passes. At low rates it has time to spare and uses it for more passes, so that its disk time does not fall.",
        points=points,
    )


def bursts(*, quick: bool = False) -> Finding:
    """X19 and X20: both joins as arrivals get burstier."""
    lines, points = [], []
    for bias in _few(BIASES, quick):
        load = _load(quick, bias=bias)
        theirs, ours = measured("rpwj", load), measured("ours", load)
        lines.append(
            [
                bias,
                *(f"{f.delay:.0f}" for f in (theirs, ours)),
                f"{ours.window / 1e6 * SCALE:.0f}",
                *(f"{f.most_waiting:,}" for f in (theirs, ours)),
                *(f"{f.cpu:.0f} + {f.disk:.0f}" for f in (theirs, ours)),
            ]
        )
        points.append({"bias": bias, "rpwj": _numbers(theirs), "ours": _numbers(ours)})
    one, two = points[0], points[-1]
    return Finding(
        "X19",
        "as arrivals get burstier (X19, X20)",
        "1200 rows/s. The window is in MB before scaling; waiting are the most rows that the queue had.",
        (
            "bias",
            "delay: RPWJ",
            "ours",
            "window, MB",
            "waiting: RPWJ",
            "ours",
            "work: RPWJ",
            "ours",
        ),
        lines,
        "the adaptive join does much better as the bias rises; windows grow with it; RPWJ's own work falls",
        f"from {one['bias']} to {two['bias']} RPWJ's delay goes from {one['rpwj']['delay']:.0f} to {two['rpwj']['delay']:.0f} s, ours from "
        f"{one['ours']['delay']:.0f} to {two['ours']['delay']:.0f} s; our window grows {two['ours']['window'] / one['ours']['window']:.1f} times; RPWJ's work goes from "
        f"{_busy(one['rpwj']):.0f} to {_busy(two['rpwj']):.0f} s",
        agrees=two["ours"]["delay"] < two["rpwj"]["delay"]
        and two["ours"]["window"] > one["ours"]["window"],
        points=points,
    )


def memories(*, quick: bool = False) -> Finding:
    """X21: ours with more memory."""
    lines, points = [], []
    for megabytes in _few(MEMORIES, quick):
        load = _load(quick, memory=megabytes * 1_000_000)
        f, patient = measured("ours", load), measured("ours", load, idle_share=0.0)
        both = [
            value
            for name in ("delay", "cpu", "disk")
            for value in (f"{getattr(f, name):.0f}", f"{getattr(patient, name):.0f}")
        ]
        lines.append([megabytes, f"{f.window / load.scaled_memory:.1f}", *both])
        points.append({"memory": megabytes, "ours": _numbers(f), "patient": _numbers(patient)})
    one, two = points[0]["ours"], points[-1]["ours"]
    three, four = points[0]["patient"], points[-1]["patient"]
    return Finding(
        "X21",
        "with more memory",
        "1200 rows/s; memory in MB before scaling. In the second column of each pair no pass runs for want of other work (`idle_share=0`).",
        (
            "memory",
            "window / memory",
            "delay",
            "without",
            "processor",
            "without",
            "disk",
            "without",
        ),
        lines,
        "delay, processor and disk time all fall as memory grows",
        f"from {points[0]['memory']} to {points[-1]['memory']} MB the delay goes from {one['delay']:.0f} to {two['delay']:.0f} s, the processor's time from "
        f"{one['cpu']:.0f} to {two['cpu']:.0f} s, the disk's from {one['disk']:.0f} to {two['disk']:.0f} s",
        agrees=all(two[n] < one[n] for n in ("cpu", "disk", "delay")),
        differs="Rows in memory are kept between batches and never read from disk again, so what the disk does is passes and writing. A batch that brings little, "
        "measured by the memory, may start a pass, every 15 s at most. The larger the memory, the more batches bring little, so more passes run than there need be, as long as a part of the window "
        f"is on disk, and results come sooner. Without such passes the disk's time falls from {three['disk']:.0f} to {four['disk']:.0f} s, while results wait until the memory for a pass is full: the delay "
        f"goes from {three['delay']:.0f} to {four['delay']:.0f} s. The processor's time rises a little in both, since an arriving row is compared with more rows in memory.",
        points=points,
    )


def baseline(*, quick: bool = False) -> Finding:
    """X9, X10 and X18: the baseline's own settings."""
    lines, points = [], []
    settings: list[tuple[str, Any, dict[str, Any]]] = [
        ("slide, s", v, {"slide": v * 1000}) for v in _few(SLIDES, quick)
    ]
    settings += [("flush / memory", v, {"flush": v}) for v in _few(FLUSHES, quick)]
    settings += [("partitions", v, {"partitions": v}) for v in _few(PARTITIONS, quick)]
    for name, value, changes in settings:
        f = measured("rpwj", _load(quick), **changes)
        lines.append([name, value, f"{f.delay:.0f}", f"{f.late:.1%}", f"{f.disk:.0f}"])
        points.append({"setting": name, "value": value, "rpwj": _numbers(f)})
    disk = {p["value"]: p["rpwj"]["disk"] for p in points if p["setting"] == "slide, s"}
    delay = {p["value"]: p["rpwj"]["delay"] for p in points if p["setting"] == "flush / memory"}
    more = {p["value"]: p["rpwj"]["delay"] for p in points if p["setting"] == "partitions"}
    wait = {p["value"]: p["rpwj"]["delay"] for p in points if p["setting"] == "slide, s"}
    best = min(delay, key=lambda v: delay[v])
    return Finding(
        "X9",
        "settings of the baseline (X9, X10, X18)",
        "RPWJ alone, 1200 rows/s; what is not varied: slide 60 s, flush 0.4, 60 partitions.",
        ("setting", "value", "delay", "late", "disk"),
        lines,
        "delay, late rows and disk time fall as the slide grows; the delay is least for a flush of about half the memory, and flat around it; "
        "more than 60 partitions make it worse",
        f"disk time goes from {disk[min(disk)]:.0f} s at a slide of {min(disk)} s to {disk[max(disk)]:.0f} s at {max(disk)} s, the delay from "
        f"{' to '.join(f'{v:.0f}' for v in wait.values())} s; it is least for a flush of {best} of those tried; {max(more)} partitions give a delay of {more[max(more)]:.0f} s, {min(more)} one of {more[min(more)]:.0f} s",
        agrees=list(wait.values()) == sorted(wait.values(), reverse=True)
        and list(disk.values()) == sorted(disk.values(), reverse=True)
        and best not in (min(delay), max(delay))
        and more[max(more)] > more[min(more)],
        differs="With a long slide rows wait for it, so the delay rises again once the disk is no longer the limit; with "
        "few partitions there are fewer seeks, and matching is by key, so that it does not get slower.",
        points=points,
    )


def half_hour(*, quick: bool = False) -> Finding:
    """X1 to X6: ours in the setting of the first join of the source, as streams get faster."""
    lines, points = [], []
    for rate in _few(SLOW_RATES, quick):
        load = _load(quick, HALF_HOUR, rate=rate)
        f = measured("ours", load)
        lines.append(
            [
                rate,
                f"{f.window / load.scaled_memory:.1f}",
                f"{f.last_waiting:,}",
                f"{f.late:.1%}",
                f"{f.delay:.0f}",
                f"{f.results:,}",
                f"{f.cpu:.0f} + {f.disk:.0f} of {load.length - load.warm_up}",
            ]
        )
        points.append({"rate": rate, "ours": _numbers(f)})
    one, two = points[0]["ours"], points[-1]["ours"]
    return Finding(
        "X1",
        "half an hour of wide rows (X1 to X6)",
        "Window half an hour, rows of 128 bytes, 40 MB for both windows. Columns as in X11.",
        ("rows/s", "window / memory", "waiting", "late", "delay", "results", "work"),
        lines,
        "rows waiting stay few up to 250 rows/s, with 2 million at 300; under 0.4 % of rows late up to 200; the delay hardly rises up to 250, where windows are "
        "5 times the memory; results grow with the rate; disk time is low, the processor is the limit",
        f"at {points[-1]['rate']} rows/s {two['last_waiting']} rows wait and {two['late']:.1%} of results are late; the delay goes from {one['delay']:.0f} to "
        f"{two['delay']:.0f} s, windows are up to {lines[-1][1]} times the memory; disk time is {two['disk'] / _busy(two):.0%} of the work",
        agrees=two["overloaded"] and two["cpu"] > two["disk"] and one["late"] < 0.004,
        differs="The source's join compares each row with all of a window's in memory, so its processor is the limit; ours looks up "
        "keys, so most of its work is the disk's, and it is not overloaded at 300 rows/s on the machine of X11.",
        points=points,
    )


def half_hour_bursts(*, quick: bool = False) -> Finding:
    """X7 and X8: the same as arrivals get burstier."""
    lines, points = [], []
    for bias in _few(BIASES, quick):
        f = measured("ours", _load(quick, HALF_HOUR, bias=bias))
        lines.append(
            [
                bias,
                f"{f.most_waiting:,}",
                f"{f.delay:.0f}",
                f"{f.late:.1%}",
                f"{f.window / 1e6 * SCALE:.0f}",
            ]
        )
        points.append({"bias": bias, "ours": _numbers(f)})
    one, two = points[0]["ours"], points[-1]["ours"]
    return Finding(
        "X7",
        "half an hour of wide rows, in bursts (X7, X8)",
        "As X1, 200 rows/s. The window is in MB before scaling; waiting are the most rows that the queue had.",
        ("bias", "waiting", "delay", "late", "window, MB"),
        lines,
        "the queue goes up and down even without bursts, while a pass runs; delay rises drastically with burstiness, late rows and windows rise too",
        f"the queue had up to {one['most_waiting']} rows at a bias of {points[0]['bias']} and {two['most_waiting']} at {points[-1]['bias']}; the delay goes from "
        f"{one['delay']:.0f} to {two['delay']:.0f} s, the window grows {two['window'] / one['window']:.1f} times",
        agrees=all(two[n] > one[n] for n in ("most_waiting", "delay", "window", "late")),
        differs="No result of ours is later than the window is long, at any bias."
        if not two["late"]
        else "",
        points=points,
    )


EXPERIMENTS: dict[str, Callable[..., Finding]] = {
    "X1": half_hour,
    "X7": half_hour_bursts,
    "X9": baseline,
    "X11": rates,
    "X19": bursts,
    "X21": memories,
}


def main(options: Namespace) -> None:
    """Measure, print, write."""
    findings = findings_of(EXPERIMENTS, options)
    if not options.cases:
        found = record(findings, quick=options.quick)
        write("join-experiments", found, document(found, findings), quick=options.quick)


def document(found: dict[str, Any], findings: list[Finding]) -> str:
    """The page: no date and no machine, since the same figures come out anywhere."""
    machine = Machine()
    lines = [[f.id, f.theirs, f.ours, "yes" if f.agrees else "no"] for f in findings]
    parts = [
        "# Experiments with joins in little memory",
        "What a dissertation on exact joins measured of its joins, and what our [join in little memory](joins-memory.md) does in the same settings, beside the "
        "baseline RPWJ (`benchmarks/baselines`). Written by `python -m benchmarks join-experiments`; do not edit. Experiments with joins that need order "
        "are with the [others](experiments.md); speed beside native joins is in [benchmarks](benchmarks.md#joins).",
        f"The joins are real, with every row and block; only the time is simulated. Rows, memory, keys and the disk's bandwidth are those of the source "
        f"divided by {SCALE}, windows and times are as they were. A row that arrives costs {machine.row * 1000:g} ms, one that is looked at again, in memory or from disk, "
        f"{machine.scanned * 1000:g} ms, a result {machine.result * 1000:g} ms, a seek {machine.seek * 1000:g} ms, and the disk moves {machine.bandwidth / 1000:g} KB per second, "
        f"all of it {machine.slow:g} times slower: with that RPWJ is overloaded at some 1600 rows/s; in the source it was at 1400. Rows are stamped as they arrive, so that "
        "a delay includes the wait in the queue; a batch takes all that waits, every 10 s (30 s in X1 and X7) or when the last one is done. "
        f"The warm-up, a little longer than a window, is left out. The same figures come out on any machine (commit {found['commit']}). "
        '"Agrees" is said only '
        "where all that the source states is found here.",
        "Not repeated: X22, the size of blocks, which here is a fixed share of the memory, and the number of partitions for ours, as a partition-group is "
        "one and has a budget of its own.",
        "## In short",
        markdown(("experiment", "source", "here", "agrees"), lines),
        *(text(f, markdown) for f in findings),
    ]
    return "\n\n".join(parts) + "\n"


def _numbers(figures: Figures) -> dict[str, Any]:
    names = ("processed", "results", "delay", "late", "most_waiting", "last_waiting", "cpu", "disk", "idle", "window", "overloaded")  # fmt: skip
    return {n: getattr(figures, n) for n in names}


def _busy(numbers: dict[str, Any]) -> float:
    return float(numbers["cpu"] + numbers["disk"])
