"""The report of ``joins``: from the JSON document to tables, for the terminal and docs/benchmarks.md."""

from __future__ import annotations

import re
from statistics import median
from typing import Any

from benchmarks.cases import ROWS, SPLITS
from benchmarks.join_cases import BOUNDED, HEAP, LABELS, NATIVES
from benchmarks.record import measured
from benchmarks.tables import (
    Section,
    Table,
    markdown,
    plain,
    rate,
    size,
    times,
    verdict,
    whole,
)

OPEN, CLOSE = "<!-- bench-joins -->", "<!-- /bench-joins -->"
OURS = (ROWS, SPLITS)
ABOUT = """## Joins

`make bench-joins` sets joins beside Spark's own stream-stream joins, on its heap and its RocksDB state store: the same files,
the same session, in turns. `make bench-joins BENCH=--readme` writes the figures here.
`BENCH="--cases 400k --rounds 1 --no-memory --no-curves"` is the shortest run that tells something; `--quick` only shows that
everything works.

| case | what it is | goal |
| --- | --- | --- |
| `400k-30s` | times at most 30 s apart, 100,000 keys, 2 M rows a side in batches of 200,000 | 8 times the heap store, 20 times RocksDB |
| `2m-30s` | 200,000 keys, batches of 1 M rows a side: the fixed cost of a batch matters less | 8 times the heap store |
| `bounded-270s` | a window of about nine times what `memory=` allows, beside the same with ample memory | half of the throughput |

In every run the number of pairs and a checksum over them are compared with DuckDB's answer over the same files; a difference ends
the benchmark. Under `benchmarks/baselines` are joins as others do them, for [experiments](join-experiments.md): RPWJ, two joins that keep order
(results buffered, inputs buffered), and one that trusts in global order, with tests that show where it goes wrong."""
LEAST_SHARE = 0.5
"""What is left of the throughput with ample memory when the window is nine times the budget, at least."""


def _small(found: dict[str, Any]) -> bool:
    return bool(found["settings"]["quick"])


def _setting(case: dict[str, Any]) -> str:
    return f"±{case['band_seconds']:g} s, {case['batch_rows'] / 1e6:g} M rows a batch"


def throughput(found: dict[str, Any]) -> Table:
    """A line per case, source of ours and native contender."""
    head = (
        "source, band", "against", "native rows/s", "ours rows/s", "ratio", "rounds", "goal", "verdict",
    )  # fmt: skip
    lines = []
    for case in found["cases"]:
        for ours in OURS:
            for native, compared in case["contenders"].get(ours, {}).get("against", {}).items():
                goal = case["targets"].get(native)
                judged = goal is not None and not _small(found)
                lines.append(
                    [
                        f"{LABELS[ours]}, {_setting(case)}",
                        LABELS[native],
                        rate(case["batch_rows"], case["contenders"][native]["median_seconds"]),
                        rate(case["batch_rows"], case["contenders"][ours]["median_seconds"]),
                        times(compared["ratio"]),
                        f"{times(compared['least'])} to {times(compared['most'])}",
                        times(goal) if judged and goal else "-",
                        verdict(compared["ratio"], goal) if judged and goal else "-",
                    ]
                )
    return head, lines


def where_time_goes(found: dict[str, Any]) -> Table:
    """Medians of the parts of a warm batch, in milliseconds."""
    names = ("spark", "plan", "job", "commit", "publish", "rest", "batch")
    head = ("contender, band", "whole", *names, "stages")
    lines = [
        [
            f"{LABELS[name]}, {_setting(case)}",
            f"{c['median_seconds'] * 1000:.0f}",
            *(f"{c['parts'][n] * 1000:.0f}" if n in c["parts"] else "" for n in names),
            " + ".join(f"{s * 1000:.0f}" for s in c["stages"]),
        ]
        for case in found["cases"]
        for name, c in case["contenders"].items()
    ]
    return head, lines


def state(found: dict[str, Any]) -> Table:
    """State at its largest, and peaks of process trees."""
    head = ("contender, band", "state rows", "state", "peak memory", "of it JVM", "of it Python")
    peaks = {(m["case"], m["contender"]): m for m in found.get("memory", [])}
    lines = []
    for case in found["cases"]:
        for name, c in case["contenders"].items():
            peak = peaks.get((case["name"], name))
            java = peak["by_program"].get("java", 0) if peak else 0
            lines.append(
                [
                    f"{LABELS[name]}, {_setting(case)}",
                    f"{c['state_rows']:,}",
                    size(c["state_bytes"]),
                    *(
                        (size(peak["pss"]), size(java), size(peak["pss"] - java))
                        if peak
                        else ("-", "-", "-")
                    ),
                ]
            )
    return head, lines


def bounded(found: dict[str, Any]) -> Table:
    """Joins in little memory beside the same with ample memory; throughput by means."""
    head = ("band", "budget of a group", "window / budget", "ample rows/s", "bounded rows/s", "share", "verdict")  # fmt: skip
    lines = []
    for case in found["cases"]:
        little, ample = (case["contenders"].get(n) for n in (BOUNDED, SPLITS))
        if little is None or ample is None:
            continue
        share = ample["mean_seconds"] / little["mean_seconds"]
        volume = little["state_bytes"] / found["settings"]["cores"]
        lines.append(
            [
                _setting(case),
                f"{case['memory'] / 1e6:.1f} MB",
                times(volume / case["memory"]),
                rate(case["batch_rows"], ample["mean_seconds"]),
                rate(case["batch_rows"], little["mean_seconds"]),
                f"{share:.0%}",
                "-" if _small(found) else verdict(share, LEAST_SHARE),
            ]
        )
    return head, lines


def duckdb(found: dict[str, Any]) -> Table:
    """How far ours is from a batch engine that sees all rows at once."""
    names = (ROWS, SPLITS, *NATIVES)
    head = ("band", "pairs", "DuckDB rows/s", *(LABELS[n] for n in names))
    lines = []
    for case in found["cases"]:
        batch = case["rows"] / median(case["duckdb_seconds"])
        lines.append(
            [
                _setting(case),
                f"{case['pairs']:,}",
                rate(case["rows"], median(case["duckdb_seconds"])),
                *(
                    times(batch * c["median_seconds"] / case["batch_rows"]) if c else "-"
                    for c in (case["contenders"].get(n) for n in names)
                ),
            ]
        )
    return head, lines


def curves(found: dict[str, Any]) -> Table:
    """The points of the curves."""
    head = ("curve", "at", "rows/s", "pairs/s", "state rows", "state")
    lines = [
        [
            p["curve"],
            f"{p['x']:g}",
            rate(p["rows_per_second"], 1),
            rate(p["pairs_per_second"], 1),
            f"{p['state_rows']:,}",
            size(p["state_bytes"]),
        ]
        for p in found.get("curves", [])
    ]
    return head, lines


def sections(found: dict[str, Any]) -> list[Section]:
    """(title, explanation, table) of all that was measured."""
    return [
        (
            "Throughput",
            "Rows of both sides per second of warm batches (once the state has its full size), medians; the ratio is "
            "that of the medians. `rounds`: its extremes over rounds, in each of which the contenders ran in turns.",
            throughput(found),
        ),
        (
            "Where a batch's time goes",
            "Milliseconds, medians; the parts are those of the windows above. `stages` of ours: the scan of both "
            "sides, then the groups with state, join and output.",
            where_time_goes(found),
        ),
        (
            "State and memory",
            "State at its largest, as each contender reports it: native in memory, ours in files. Peak memory is that of the "
            "process tree in processes of its own, as above.",
            state(found),
        ),
        (
            "Little memory",
            "The window's volume in a partition-group is several times what `memory=` allows. Means over warm "
            "batches, since passes over the disk do not come in each. At least half of the throughput must be left.",
            bounded(found),
        ),
        (
            "Distance to DuckDB in batch",
            "DuckDB joins the same files at once, with two threads and parquet out. It keeps no state and no log. "
            "The columns say how many times faster it is.",
            duckdb(found),
        ),
        (
            "Growth",
            "Split sources. The band grows with the keys, so that only the state grows; the band shrinks with the skew, so that "
            "a row has three partners at any skew; the keys grow fewer as the partners of a row grow.",
            curves(found),
        ),
    ]


def terminal(found: dict[str, Any]) -> str:
    """The report for a terminal."""
    return "\n" + whole(sections(found), plain) + "\n" + "\n".join(misses(found))


def misses(found: dict[str, Any]) -> list[str]:
    """A sentence for each goal that was missed, with the largest part of what it was missed by."""
    if _small(found):
        return ["A quick run: the sizes are too small for the goals to mean anything."]
    said = []
    for case in found["cases"]:
        for name in OURS:
            c = case["contenders"].get(name, {})
            for native, compared in c.get("against", {}).items():
                goal, floor = case["targets"].get(native), case["floors"].get(native)
                if goal is None or compared["ratio"] >= goal:
                    continue
                part, seconds = max(c["parts"].items(), key=lambda p: p[1])
                stages = ", ".join(f"{s * 1000:.0f} ms" for s in c["stages"])
                below = floor is not None and compared["ratio"] < floor
                said.append(
                    f"{LABELS[name]}, {case['name']}: {times(compared['ratio'])} of {LABELS[native]} where "
                    f"{times(goal)} was the goal"
                    + (f" and {times(floor)} the least" if below and floor else "")
                    + f"; of {c['median_seconds'] * 1000:.0f} ms a batch {seconds * 1000:.0f} ms are `{part}`"
                    + (f" (stages: {stages})." if stages else ".")
                )
        little, ample = (case["contenders"].get(n) for n in (BOUNDED, SPLITS))
        if little and ample and ample["mean_seconds"] / little["mean_seconds"] < LEAST_SHARE:
            share = ample["mean_seconds"] / little["mean_seconds"]
            said.append(f"{case['name']}: in little memory {share:.0%} of the throughput is left.")
        native = case["contenders"].get(HEAP)
        for name in OURS:
            c = case["contenders"].get(name)
            if native and c and c["state_bytes"] > native["state_bytes"]:
                more = size(c["state_bytes"] - native["state_bytes"])
                said.append(f"{LABELS[name]}, {case['name']}: {more} more state than native.")
    peaks = {(m["case"], m["contender"]): m["pss"] for m in found.get("memory", [])}
    for (case_name, name), pss in peaks.items():
        native_peak = peaks.get((case_name, HEAP))
        if name in OURS and native_peak is not None and pss > native_peak:
            said.append(
                f"{LABELS[name]}, {case_name}: {size(pss - native_peak)} more memory than native."
            )
    return said


def section(found: dict[str, Any]) -> str:
    """The section of ``docs/benchmarks.md``."""
    machine = found["machine"]
    missed = misses(found)
    parts = [
        ABOUT,
        f"{measured(found)}: {machine['cores']} cores, "
        f"{machine['memory_gb']} GB of memory, Spark {found['versions']['pyspark']}, heap {found['settings']['heap']}.",
        "The data: two streams of 5,000 rows per second of event time each and 100,000 keys (unless the table says "
        "otherwise), delayed by 2 s on average and 9 s at most; two parquet files a side and batch. The query: equal keys, "
        "times at most 30 s apart, all columns out, parquet, the bound of each side 10 s behind its newest time. Native is "
        "tuned: two shuffle partitions; RocksDB with changelog checkpoints.",
        whole(sections(found), markdown, 3),
    ]
    if found.get("curves"):
        parts.append(
            "![Throughput of joins as the window, the skew and the matches grow](joins.svg)"
        )
    if missed:
        parts += ["### Goals that were missed", "\n".join(f"- {m}" for m in missed)]
    return "\n\n".join(parts)


def with_section(text: str, content: str) -> str:
    """The page with its joins section replaced, or added at its end."""
    block = f"{OPEN}\n\n{content}\n\n{CLOSE}"
    pattern = re.compile(re.escape(OPEN) + r".*?" + re.escape(CLOSE), re.DOTALL)
    if pattern.search(text):
        return pattern.sub(lambda _: block, text)
    return text.rstrip("\n") + f"\n\n{block}\n"


def section_of(text: str) -> str | None:
    """The joins section of the page, if it has one."""
    match = re.search(re.escape(OPEN) + r"\n\n(.*?)\n\n" + re.escape(CLOSE), text, re.DOTALL)
    return match.group(1) if match else None
