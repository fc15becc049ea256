"""``python -m benchmarks growth``: throughput and memory as keys and overlap grow.

The range stays at 60 s and the slide shrinks, so that a row is in 1, 12, 60 and 600 windows and the state
reaches its full size within the run. Each point runs in a process of its own.
"""

from __future__ import annotations

import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

from benchmarks import memory
from benchmarks.cases import SPLITS, Window
from benchmarks.datagen import Data, prepare
from benchmarks.pictures import axes_of
from benchmarks.record import ROOT, file_name, folder, heading, measured, say, store, written
from benchmarks.tables import Shape, markdown, plain, rate, size

KEYS = (1_000, 10_000, 100_000)
OVERLAPS = (1, 12, 60, 600)
RANGE_SECONDS = 60
BATCHES, BATCH_ROWS = 6, 2_000_000
WARM_UP_BATCHES = 3
"""60 s of event time: from the fourth batch on windows close at the full rate and the state is full."""


def main(options: Namespace) -> None:
    """Measure, print, plot, write."""
    scratch = Path(options.scratch).absolute()
    shrink = 100 if options.quick else 1
    points: list[dict[str, Any]] = []
    for keys in KEYS[2:] if options.quick else KEYS:
        data = Data(
            BATCHES, BATCH_ROWS // shrink, keys=keys // shrink, rate=100_000 // shrink
        )  # the span of event time stays the same
        source = prepare(data, scratch)
        overlaps = OVERLAPS[:: 3 if options.quick else 1]
        points += [one_point(options, scratch, source, data, o) for o in overlaps]
        shutil.rmtree(scratch / "out", ignore_errors=True)
    found = {
        **heading(
            quick=options.quick,
            heap=options.heap,
            range_seconds=RANGE_SECONDS,
            limit=options.limit,
        ),
        "points": points,
    }
    print("\n" + table(found))
    store("growth", found, quick=options.quick)
    picture = folder(quick=options.quick) / f"{file_name('growth', quick=options.quick)}.svg"
    plot(found, picture)
    written(picture)
    if not options.quick:
        page = ROOT / "docs" / "growth.md"
        page.write_text(document(found))
        written(page)


def one_point(
    options: Namespace, scratch: Path, source: Path, data: Data, overlap: int
) -> dict[str, Any]:
    """One number of keys at one overlap."""
    window = Window.seconds(RANGE_SECONDS, RANGE_SECONDS / overlap)
    job = {
        "contender": SPLITS,
        "range": window.range,
        "slide": window.slide,
        "source": str(source),
        "work": str(scratch / "out" / "child"),
        "heap": options.heap,
        "limit": options.limit,
    }
    log = scratch / "log" / f"growth-{data.keys}-{overlap}.log"
    answer, peak = memory.run_child(job, log)
    warm = answer["batches"][WARM_UP_BATCHES:]
    if not warm:  # too slow for the limit: what there is, and the record says so
        warm = answer["batches"][1:] or answer["batches"]
    # Windows of 60 s close in every third batch only, so a mean and not a median.
    rows, taken = sum(b["rows"] for b in warm), sum(b["seconds"] for b in warm)
    say(
        f"{data.keys} keys, {overlap} windows a row: {rate(rows, taken) if taken else '-'} rows/s, "
        f"{peak.pss / 1e6:.0f} MB" + ("" if answer["finished"] else " (stopped at the limit)")
    )
    return {
        "keys": data.keys,
        "overlap": overlap,
        "window": window.label,
        "rows_per_second": rows / taken if taken else None,
        "batch_seconds": [b["seconds"] for b in answer["batches"]],
        "state_rows": answer["state_rows"],
        "state_bytes": answer["state_bytes"],
        "out_rows": answer["out_rows"],
        "pss": peak.pss,
        "by_program": peak.by_program or {},
        "finished": answer["finished"],
    }


def table(found: dict[str, Any], shape: Shape = plain) -> str:
    """The points as text."""
    head = (
        "keys",
        "window",
        "windows a row",
        "rows/s",
        "state rows",
        "state",
        "rows out",
        "peak memory",
    )
    lines = [
        [
            f"{p['keys']:,}",
            p["window"],
            p["overlap"],
            rate(p["rows_per_second"], 1) if p["rows_per_second"] else "-",
            f"{p['state_rows']:,}",
            size(p["state_bytes"]),
            f"{p['out_rows']:,}",
            size(p["pss"]) + ("" if p["finished"] else " (*)"),
        ]
        for p in found["points"]
    ]
    stopped = (
        "\n\n(*) stopped at the time limit"
        if any(not p["finished"] for p in found["points"])
        else ""
    )
    return shape(head, lines) + stopped


def document(found: dict[str, Any]) -> str:
    """``docs/growth.md``."""
    machine, settings = found["machine"], found["settings"]
    return "\n".join(
        [
            "# Growth",
            "",
            "Throughput and memory as keys and overlap grow, over a split source. Written by `make bench-growth`; do not edit.",
            "",
            f"{measured(found)}: {machine['cores']} cores, {machine['memory_gb']} GB of memory, Spark "
            f"{found['versions']['pyspark']}, heap {settings['heap']}. Batches of {BATCH_ROWS / 1e6:g} M rows, windows of "
            f"{RANGE_SECONDS} s, each point in a process of its own, stopped after {settings['limit']:g} s.",
            "",
            "![throughput and memory by keys and overlap](growth.svg)",
            "",
            table(found, markdown),
            "",
        ]
    )


def plot(found: dict[str, Any], target: Path) -> None:
    """Two panels over the overlap: throughput, and peak memory."""
    overlaps = sorted({p["overlap"] for p in found["points"]})
    with axes_of(target, panels=2, size=(10, 4)) as (speed, space):
        for keys in sorted({p["keys"] for p in found["points"]}):
            points = [p for p in found["points"] if p["keys"] == keys and p["rows_per_second"]]
            x = [p["overlap"] for p in points]
            label = f"{keys:,} keys"
            speed.plot(x, [p["rows_per_second"] / 1e6 for p in points], marker="o", label=label)
            space.plot(x, [p["pss"] / 1e9 for p in points], marker="o", label=label)
        speed.set(yscale="log", ylabel="million rows per second", title="Throughput")
        space.set(ylabel="GB", title="Peak memory of the process tree", ylim=(0, None))
        for axes in (speed, space):
            axes.set(xscale="log", xlabel="windows a row is in (range / slide)")
            axes.set_xticks(overlaps, [str(o) for o in overlaps])
            axes.minorticks_off()
        low, high = speed.get_ylim()
        ticks = [m * 10.0**e for e in range(-3, 3) for m in (1, 2, 5) if low <= m * 10.0**e <= high]
        speed.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        speed.legend(frameon=False)
