"""The joins' part of docs/quality-experiments.md."""

from __future__ import annotations

from typing import Any

from benchmarks.quality_joins import SECONDS, TARGETS, WANTED
from benchmarks.tables import Section, Table

LESS = 0.5
NAMES = {
    "ours": "ours: measured lateness",
    "model": "source: selectivity by delay",
    "equal": "source: one selectivity",
    "controller": "source: controller",
}


def join_sections(found: dict[str, Any]) -> list[Section]:
    """All there is about joins."""
    out: list[Section] = [("Joins", ABOUT + "\n\n" + met(found), streams(found))]
    out += [(f"Joins over {name}", RUNS[name], runs(found, name)) for name in found["data"]]
    out.append(("The hard case: x3 at 0.99", FRONTIER, frontier(found)))
    out.append(("Results that leave at once", IMMEDIATE, immediate(found)))
    return out


JOINS_AGAIN = """Our lines of the tables above at commit {commit}, {date}, beside the figures of before. Of {cases} cases {same} have the very same latency and recall."""


def joins_again_sections(found: dict[str, Any], before: dict[str, Any]) -> list[Section]:
    """Our lines, measured again."""
    old = {(r["data"], r["target"]): r for r in before["runs"] if r["method"] == "ours"}
    head = ("data", "recall asked", "latency before", "now", "recall before", "now", "Phi(.99) before", "now")  # fmt: skip
    rows, same = [], 0
    for r in found["runs"]:
        was = old[r["data"], r["target"]]
        same += all(abs(r[k] - was[k]) < 1e-9 for k in ("latency", "recall", "kept99"))
        shown = [
            form.format(line[key])
            for key, form in (("latency", "{:.3f} s"), ("recall", "{:.4f}"), ("kept99", "{:.3f}"))
            for line in (was, r)
        ]
        rows.append([r["data"], f"{r['target']:g}", *shown])
    about = JOINS_AGAIN.format(
        commit=found["commit"], date=found["date"], cases=len(rows), same=same
    )
    return [("Joins, measured again", about, (head, rows))]


def verdict(line: dict[str, Any]) -> str:
    """Whether both goals are met; if not, which assumption failed."""
    if line["target"] is None:
        return ""
    said = []
    ours = line["method"] == "ours"
    if line["kept99"] < WANTED:
        said.append(f"Phi missed ({line['kept99']:.3f})" + (OURS_PHI if ours else ""))
    if line["against_max"] < LESS:
        said.append(
            f"latency missed ({line['against_max']:.0%} below)" + (OURS_WAIT if ours else "")
        )
    return "; ".join(said) + (WHY.get(line["method"], "") if said else "met")


OURS_PHI = ": what is late now is not what was late in the last minute"
OURS_WAIT = ": late rows come in bursts, and for ten seconds after one the burst counts as if all were like it"
WHY = {
    "model": ": makes good each lack within one second, so slack swings between none and the largest delay",
    "equal": ": makes good each lack within one second, and takes late rows to yield as much as others",
    "controller": ": follows a rough estimate of recall",
}


def runs(found: dict[str, Any], name: str) -> Table:
    """All ways on one data set."""
    head = (
        "recall asked", "way", "latency", "below max delay", "recall, mean", "least", "Phi", "Phi(.99)", "adaptation", "the source", "goals",
    )  # fmt: skip
    lines = []
    for r in found["runs"]:
        if r["data"] != name:
            continue
        phi99 = r["kept99"]
        if phi99 is None:
            shown = " / ".join(f"{r['kept_all'][str(t)]:.3f}" for t in TARGETS)
        else:
            shown = f"{phi99:.3f}"
        lines.append(
            [
                "any" if r["target"] is None else f"{r['target']:g}",
                NAMES.get(r["method"], r["method"]),
                f"{r['latency']:.2f} s",
                f"{r['against_max']:.1%}",
                f"{r['recall']:.4f}",
                f"{r['least']:.4f}",
                "" if r["kept"] is None else f"{r['kept']:.3f}",
                shown,
                "" if r["micros"] is None else f"{r['micros'] / 1000:.2f} ms",
                r["source"],
                verdict(r),
            ]
        )
    return head, lines


def met(found: dict[str, Any]) -> str:
    """How many of the cases meet the goals."""
    mine = [r for r in found["runs"] if r["method"] == "ours"]
    kept = sum(r["kept99"] >= WANTED for r in mine)
    quick = sum(r["against_max"] >= LESS for r in mine)
    tenth = sum(r["against_max"] >= 0.9 for r in mine)
    others = [r for r in found["runs"] if r["method"].startswith("native")]
    each = dict.fromkeys(r["method"] for r in others)
    fixed = ", ".join(
        f"{sum(v >= WANTED for r in others if r['method'] == way for v in r['kept_all'].values())} ({way})"
        for way in each
    )
    return (
        f"Of {len(mine)} cases of ours {kept} keep Phi(.99) >= {WANTED:g}, {quick} wait at most half as long as with the "
        f"largest delay, {tenth} a tenth or less. Of the same cases a fixed delay keeps {fixed}; where one does, it may be as "
        "quick as ours, but which one is not known beforehand."
    )


def streams(found: dict[str, Any]) -> Table:
    """What the streams are like."""
    head = ("stream", "rows", "rows/s", "late", "of these after a late one", "delay p99", "largest")
    return head, [
        [
            f"{name} {i}",
            f"{s['rows']:,.0f}",
            f"{s['rate']:.0f}",
            f"{s['late']:.1%}",
            f"{s['correlated']:.1%}",
            f"{s['p99']:.2f} s",
            f"{s['max']:.2f} s",
        ]
        for name, each in found["data"].items()
        for i, s in enumerate(each)
    ]


def frontier(found: dict[str, Any]) -> Table:
    """Promise against latency."""
    return ("slack", "latency", "recall", "Phi", "Phi(.99)"), [
        [r["how"], f"{r['latency']:.2f} s", f"{r['recall']:.4f}", f"{r['kept']:.3f}", f"{r['kept99']:.3f}"]
        for r in sorted(found["frontier"], key=lambda r: float(r["latency"]))
    ]  # fmt: skip


def immediate(found: dict[str, Any]) -> Table:
    """State against recall."""
    head = (
        "data", "recall asked", "slack", "rows held", "below max delay", "mean slack", "recall, mean", "least", "Phi", "Phi(.99)", "latency",
    )  # fmt: skip
    return head, [
        [
            r["data"],
            f"{r['target']:g}",
            r["method"],
            f"{r['held']:,.0f}",
            f"{r['against_max']:.1%}",
            f"{r['slack']:.2f} s",
            f"{r['recall']:.4f}",
            f"{r['least']:.4f}",
            f"{r['kept']:.3f}",
            f"{r['kept99']:.3f}",
            f"{r['latency']:.2f} s",
        ]
        for r in found["immediate"]
    ]


ABOUT = """Results in order of time (`emit="ordered"`), recall over the last minute, sampled each second right before the slack is set anew; the first minute is left out. *Phi(.99)* is the share of
samples with at least 0.99 of the recall asked for (for ways without a target: for 0.9, 0.95 and 0.99 in turn). Goals: Phi(.99) of 0.97, latency at least 50 % below that of the largest delay. *None* waits for the slowest stream only.
*Native* is Spark's watermark with the p99, p99.9 or maximum of each stream's delays in the first minute: a row behind the watermark of the batch before (batches of 0.1 s) is dropped, whatever it could still join, and
results leave when the watermark has passed them. Spark joins two streams; for more it is taken that a cascade loses nothing else."""

RUNS = {
    "x2": f"Stand-in for the two teams of a football game: who comes within 5 m of whom, windows of 5 s, {SECONDS['x2']} s. The source's own data had delays of up to 26 s as well.",
    "x3": f"The source's generator: three streams with a common key, windows of 5 s, {SECONDS['x3']} s.",
    "x4": f"The source's generator: three streams that each join the first by an attribute, windows of 3 s, {SECONDS['x4']} s.",
    "shift": f"A change of regime: as x3, in good order, then in bad for a third of the time, then in good again, {SECONDS['shift']} s.",
}

FRONTIER = """What a latency buys: fixed slacks, which need hindsight, and ours asked for several recalls; all judged by a recall of 0.99."""

IMMEDIATE = """`emit="immediate"`, two streams: a result leaves when its last row comes, so slack bounds the rows held, and latency is that of the rows themselves. Recall is what was produced ever of what is true, by
the results' times. Goals: Phi(.99) of 0.97 with fewer rows held."""
