"""The report of ``windows``: from the JSON document to tables, for the terminal, README and docs."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.cases import LABELS, NATIVE, ROWS, SPLITS
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


def _small(found: dict[str, Any]) -> bool:
    """Whether the run was too small to be judged."""
    return bool(found["settings"]["quick"])


def throughput(found: dict[str, Any]) -> Table:
    """A line per case and source of ours."""
    head = (
        "source, rows a batch, window", "native rows/s", "ours rows/s", "ratio", "rounds", "target", "verdict",
    )  # fmt: skip
    lines = []
    for source in (ROWS, SPLITS):
        for case in found["cases"]:
            ours, native = case["contenders"].get(source), case["contenders"].get(NATIVE)
            if ours is None or native is None:
                continue
            compared, target = ours["against_native"], case["targets"].get(source)
            small = _small(found)
            lines.append(
                [
                    f"{LABELS[source]}, {case['batch_rows'] / 1e6:g} M, {case['window']}",
                    rate(case["batch_rows"], native["median_seconds"]),
                    rate(case["batch_rows"], ours["median_seconds"]),
                    times(compared["ratio"]),
                    f"{times(compared['least'])} to {times(compared['most'])}",
                    "-" if target is None or small else times(target),
                    "-" if target is None or small else verdict(compared["ratio"], target),
                ]
            )
    return head, lines


def duckdb(found: dict[str, Any]) -> Table:
    """How far ours is from a batch engine that sees all rows at once."""
    head = ("rows a batch, window", "DuckDB rows/s", "row source", "split source", "native")
    lines = []
    for case in found["cases"]:
        if "duckdb_seconds" not in case:
            continue
        batch = case["rows"] / median(case["duckdb_seconds"])
        lines.append(
            [
                f"{case['batch_rows'] / 1e6:g} M, {case['window']}",
                rate(case["rows"], median(case["duckdb_seconds"])),
                *(
                    times(batch / (case["batch_rows"] / c["median_seconds"])) if c else "-"
                    for c in (case["contenders"].get(n) for n in (ROWS, SPLITS, NATIVE))
                ),
            ]
        )
    return head, lines


def where_time_goes(found: dict[str, Any]) -> Table:
    """Medians of the parts of a warm batch, in milliseconds."""
    names = ("spark", "plan", "job", "commit", "publish", "rest", "batch")
    head = ("contender, rows a batch, window", "whole", *names, "stages")
    lines = []
    for case in found["cases"]:
        for name, c in case["contenders"].items():
            lines.append(
                [
                    f"{LABELS[name]}, {case['batch_rows'] / 1e6:g} M, {case['window']}",
                    f"{c['median_seconds'] * 1000:.0f}",
                    *(f"{c['parts'][n] * 1000:.0f}" if n in c["parts"] else "" for n in names),
                    " + ".join(f"{s * 1000:.0f}" for s in c["stages"]),
                ]
            )
    return head, lines


def memory(found: dict[str, Any]) -> Table:
    """Peaks of process trees."""
    head = (
        "contender, rows a batch, window",
        "peak",
        "of it JVM",
        "of it Python",
        "against native",
        "verdict",
    )
    lines = []
    for item in found.get("memory", []):
        native = _native_peak(found, item)
        programs = item["by_program"]
        java = programs.get("java", 0)
        line = [
            f"{LABELS[item['contender']]}, {item['batch_rows'] / 1e6:g} M, {item['window']}",
            size(item["pss"]),
            size(java),
            size(sum(programs.values()) - java),
        ]
        if native is None or item is native:
            line += ["", ""]
        else:
            share = item["pss"] / native["pss"]
            line += [f"{share:.0%}", "-" if _small(found) else verdict(share, 1.0, least=False)]
        lines.append(line)
    return head, lines


def _native_peak(found: dict[str, Any], item: dict[str, Any]) -> dict[str, Any] | None:
    same = (i for i in found["memory"] if i["case"] == item["case"])
    return next((i for i in same if i["contender"] == NATIVE), None)


def latency(found: dict[str, Any]) -> Table:
    """From file to result."""
    head = ("contender", "median", "least", "most", "verdict")
    lines = []
    taken = found.get("latency", {})
    for name, seconds in taken.items():
        met = ""
        if name != NATIVE and NATIVE in taken and not _small(found):
            met = verdict(median(seconds), median(taken[NATIVE]), least=False)
        lines.append(
            [LABELS[name], *(f"{f(seconds) * 1000:.0f} ms" for f in (median, min, max)), met]
        )
    return head, lines


def sections(found: dict[str, Any]) -> list[Section]:
    """(title, explanation, table) of all that was measured."""
    heap = found["settings"]["heap"]
    return [
        (
            "Throughput",
            "Rows per second of warm batches (the first of each run left out), medians; the ratio is that of the "
            "medians. `rounds`: the ratio's extremes over rounds, in each of which the contenders ran in turns, "
            "since the machine's speed drifts.",
            throughput(found),
        ),
        (
            "Where a batch's time goes",
            "Milliseconds, medians. `spark`: Structured Streaming's own logs and planning. Ours: `plan`, `job` "
            "(the Spark job), `commit` (the manifest), `publish`, `rest` (the way in and out of the callback). "
            "`batch`: native's own job and sink. `stages`: the job's stages one by one; for ours the scan with "
            "partial aggregation, then the groups with state and output.",
            where_time_goes(found),
        ),
        (
            "Distance to DuckDB in batch",
            "DuckDB answers the same question over all files at once: two threads, panes, then windows of panes, "
            "parquet out. It keeps no state, no log, and knows no late row. The columns say how many times faster "
            "it is.",
            duckdb(found),
        ),
        (
            "Memory",
            f"Peak of the process tree (driver, JVM with a heap of {heap}, Python workers), each contender in "
            "processes of its own: sum of proportional set sizes, so that pages that processes share count once.",
            memory(found),
        ),
        (
            "Latency",
            "From the appearance of a near-empty file to the visible result of the window that it completes, in a "
            "query that runs without pause. Native needs a second batch.",
            latency(found),
        ),
    ]


def terminal(found: dict[str, Any]) -> str:
    """The report for a terminal."""
    return "\n" + whole(sections(found), plain) + "\n" + "\n".join(misses(found))


def misses(found: dict[str, Any]) -> list[str]:
    """A sentence for each target that was missed, with the largest part of what it was missed by."""
    if _small(found):
        return ["A quick run: the sizes are too small for the targets to mean anything."]
    said = []
    for case in found["cases"]:
        for name, target in case["targets"].items():
            c = case["contenders"].get(name)
            if c is None or "against_native" not in c or c["against_native"]["ratio"] >= target:
                continue
            part, seconds = max(c["parts"].items(), key=lambda p: p[1])
            stages = ", ".join(f"{s * 1000:.0f} ms" for s in c["stages"])
            said.append(
                f"{LABELS[name]}, {case['name']}: {times(c['against_native']['ratio'])} where "
                f"{times(target)} was the target; of {c['median_seconds'] * 1000:.0f} ms a batch "
                f"{seconds * 1000:.0f} ms are `{part}`"
                + (f" (stages: {stages})." if stages else ".")
            )
    for item in found.get("memory", []):
        native = _native_peak(found, item)
        if native is None or item["pss"] <= native["pss"]:
            continue
        java = item["by_program"].get("java", 0) - native["by_program"].get("java", 0)
        said.append(
            f"{LABELS[item['contender']]}, {item['case']}: {size(item['pss'] - native['pss'])} more memory than "
            f"native; of it {size(java)} in the JVM, the rest in Python."
        )
    taken = found.get("latency", {})
    for name in (ROWS, SPLITS):
        if name in taken and median(taken[name]) > median(taken[NATIVE]):
            later = median(taken[name]) - median(taken[NATIVE])
            said.append(f"{LABELS[name]}: {later * 1000:.0f} ms later than native to a result.")
    return said


def readme(found: dict[str, Any]) -> str:
    """What stands in the README."""
    machine = found["machine"]
    return (
        markdown(*throughput(found))
        + f"\n\n{measured(found)}: {machine['cores']} cores, {machine['memory_gb']} GB, Spark "
        f"{found['versions']['pyspark']}; 1000 keys, delays of 2 s on average. "
        "[Memory, latency, where the time goes](docs/benchmarks.md)."
    )


def document(found: dict[str, Any]) -> str:
    """``docs/benchmarks.md``."""
    machine, versions = found["machine"], found["versions"]
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    missed = misses(found)
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "Sliding windows beside native Structured Streaming, on the same machine, in the same session, over the same "
            "files. Written by `make bench-windows` with `--readme`; do not edit.",
            "",
            f"{measured(found)}: {machine['cores']} cores, {machine['memory_gb']} GB of memory; {named}. "
            f"Heap {found['settings']['heap']}.",
            "",
            "The data: 1000 keys, 100,000 rows per second of event time, each delayed by an exponentially distributed time "
            "with a mean of 2 s; two parquet files a batch. The query: `sum` and `count` by key and window, the bound "
            "10 s behind the newest time, parquet out, `availableNow`. Native is tuned: two shuffle partitions, heap "
            "state store. Every run's output is compared with DuckDB's answer over the same files, row by row.",
            "",
            whole(sections(found), markdown),
            "",
            *(
                ["## Targets that were missed", "", *[f"- {m}" for m in missed], ""]
                if missed
                else []
            ),
        ]
    )
