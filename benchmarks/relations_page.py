"""The page of figures about joins with a table."""

from __future__ import annotations

from typing import Any

from benchmarks import tables
from benchmarks.cases import NATIVE, SPLITS
from benchmarks.large_relations import MEMORY_ALONE, MEMORY_SHARE, NO_JOIN, TUNED

HEAD = ("case", "native rows/s", "ours rows/s", "ratio", "rounds", "target", "verdict", "commit")
LARGE = (
    "keys", "as written rows/s", "tuned rows/s", "ours rows/s", "to written", "target", "verdict", "to tuned", "target",
    "verdict", "commit",
)  # fmt: skip
PROFILE = ("keys", "bound", "a batch takes", "parts", "stages", "segments decoded, and mapped")
OURS = {SPLITS: "memory and disk", MEMORY_ALONE: "memory alone"}
"""Our two contenders by what bounds the parts of the table that an executor keeps decoded."""
FIRST = ("keys", "as written", "tuned", "ours", "memory alone")
SLOWER_EMPTY = 1.5
"""How many times as long a near-empty batch may take with the join."""


def whole_rows(found: dict[str, Any]) -> list[list[str]]:
    """Results of tables in memory."""
    rows = []
    for case in found["cases"]:
        gained, size = case["against_native"], case["data"]["batch_rows"]
        medians = [case["contenders"][c]["median_seconds"] for c in (NATIVE, SPLITS)]
        rows.append(
            [
                case["name"],
                *(tables.rate(size, m) for m in medians),
                tables.times(gained["ratio"]),
                _rounds(gained),
                tables.times(case["target"]),
                tables.verdict(gained["ratio"], case["target"]),
                case["commit"],
            ]
        )
    return rows


def large_rows(found: dict[str, Any], ours: str) -> list[list[str]]:
    """Results of tables larger than memory, of one of our two contenders."""
    rows = []
    for case in found["large"]:
        size = case["data"]["batch_rows"]
        median = {c: s["median_seconds"] for c, s in case["contenders"].items()}
        row = [
            _keys(case),
            *(tables.rate(size, median[c]) for c in (NATIVE, TUNED, ours)),
        ]
        for other, target in _bars(case):
            ratio, rounds = gain(case, other, ours)
            row += [f"{tables.times(ratio)} ({rounds})", tables.times(target), tables.verdict(ratio, target)]  # fmt: skip
        rows.append([*row, case["commit"]])
    return rows


def _bars(case: dict[str, Any]) -> tuple[tuple[str, float], tuple[str, float]]:
    """Whom ours is beside, and how many times as fast it should be."""
    return (NATIVE, case["target"]), (TUNED, case["tuned_target"])


def gain(case: dict[str, Any], other: str, ours: str) -> tuple[float, str]:
    """How many times as fast ours is, and between which factors the rounds lie, if both ran in turns."""
    theirs, own = (case["contenders"][c] for c in (other, ours))
    if len(theirs["batch_seconds"]) != len(own["batch_seconds"]):
        return theirs["median_seconds"] / own["median_seconds"], f"{len(own['batch_seconds'])} run"
    made = tables.ratio(theirs["batch_seconds"], own["batch_seconds"])
    return made["ratio"], _rounds(made)


def profile_rows(found: dict[str, Any]) -> list[list[str]]:
    """Where the time of our warm batches goes, of each line that missed a bar."""
    rows = []
    for case in found["large"]:
        for ours, bound in OURS.items():
            if all(gain(case, other, ours)[0] >= target for other, target in _bars(case)):
                continue
            one, read = case["contenders"][ours], case["reads"][ours][-1]
            parts = sorted(one["parts"].items(), key=lambda p: -p[1])
            rows.append(
                [
                    _keys(case),
                    bound,
                    f"{1000 * one['median_seconds']:.0f} ms",
                    ", ".join(f"{n} {1000 * s:.0f}" for n, s in parts),
                    ", ".join(f"{1000 * s:.0f}" for s in one["stages"]),
                    f"{read['reads']}, {read['hits']}",
                ]
            )
    return rows


def strict(found: dict[str, Any]) -> str:
    """A sentence about what memory alone is worth."""
    written, tuned = (
        [gain(c, o, MEMORY_ALONE)[0] for c in found["large"]] for o in (NATIVE, TUNED)
    )
    missed = [
        f"{_keys(c)} {tables.times(r)} of {tables.times(c['target'])}"
        for c, r in zip(found["large"], written, strict=True)
        if r < c["target"]
    ]
    short = [c for c, r in zip(found["large"], tuned, strict=True) if r < c["tuned_target"]]
    return (
        f"If an executor may keep no more than `memory` decoded, ours is {tables.times(min(written))} to {tables.times(max(written))} as fast as Spark's join as it is written, and "
        f"{tables.times(min(tuned))} to {tables.times(max(tuned))} as fast as the tuned one. Of the targets to the first, "
        + (
            f"it misses {len(missed)} of {len(written)}: {', '.join(missed)}; "
            if missed
            else "it meets all; "
        )
        + (f"of those to the second {len(short)}." if short else "those to the second it meets.")
    )


def first_rows(found: dict[str, Any]) -> list[list[str]]:
    """What first batches took."""
    rows = []
    for case in found["large"]:
        firsts = [case["contenders"][c]["first_batch_seconds"] for c in (NATIVE, TUNED, SPLITS, MEMORY_ALONE)]  # fmt: skip
        rows.append([_keys(case), *(" ".join(f"{s:.1f}" for s in one) for one in firsts)])
    return rows


def _keys(case: dict[str, Any]) -> str:
    """Which keys came; and how long rows might wait."""
    wait = case["data"].get("wait", 0)
    return str(case["data"]["kind"]) + (f", deadline of {wait} batches" if wait else "")


def _rounds(gained: dict[str, Any]) -> str:
    return f"{tables.times(gained['least'])} to {tables.times(gained['most'])}"


def page(found: dict[str, Any]) -> str:
    """The figures for readers."""
    return "\n".join(
        [
            "# Joins with a table, measured",
            "",
            "Spark's stream–static join and ours over the same files, in turns; answers are checked. Each line names the commit that was measured. `make bench-relations`.",
            "",
            "## A table of 100,000 rows",
            "",
            tables.markdown(HEAD, whole_rows(found)),
            "",
            *_large(found),
            *_costs(found),
        ]
    )


def _large(found: dict[str, Any]) -> list[str]:
    if not found["large"]:
        return []
    data = found["large"][0]["data"]
    rounds = ", ".join(f"{_keys(c)} {c['data']['rounds']}" for c in found["large"])
    return [
        "## A table larger than memory",
        "",
        f"{data['table_rows']:,} rows of five columns sorted by their key, of which a {MEMORY_SHARE}th of the decoded size is the table's `memory`; "
        f"{data['batch_rows']:,} rows of the stream a batch. *As written*: Spark's join as it is usually written. *Tuned*: with the stream's side broadcast "
        f"and the table persisted. Rounds in turns: {rounds}; {_alone(found)}. The first batch of a run does not count. "
        "Where rows may wait, a batch counts as the mean of all, with the last one, in which those leave that still wait.",
        "",
        "*Ours* as it is by default, with 4 GB on the disk for what is decoded:",
        "",
        tables.markdown(LARGE, large_rows(found, SPLITS)),
        "",
        'With *memory alone*, `option("relationDisk", "0")`:',
        "",
        tables.markdown(LARGE, large_rows(found, MEMORY_ALONE)),
        "",
        strict(found),
        "",
        *_profile(found),
        "In the first batch of a run Spark plans and compiles, its tuned form decodes the whole table, and ours decodes what rows ask for. Seconds, a figure per round:",
        "",
        tables.markdown(FIRST, first_rows(found)),
        "",
    ]


def _alone(found: dict[str, Any]) -> str:
    counts = {len(c["contenders"][MEMORY_ALONE]["batch_seconds"]) for c in found["large"]}
    return f"with memory alone {' or '.join(str(n) for n in sorted(counts))}"


def _profile(found: dict[str, Any]) -> list[str]:
    rows = profile_rows(found)
    if not rows:
        return []
    return [
        "### Where the time goes where a bar is missed",
        "",
        "Medians of our warm batches, in milliseconds: parts of a batch as the driver sees them, and the stages of its job, of which the first reads the stream and joins. *Segments* are those of the "
        "last batch, of all its tasks; decoding one takes about eight times as long as mapping it.",
        "",
        tables.markdown(PROFILE, rows),
        "",
    ]


def _costs(found: dict[str, Any]) -> list[str]:
    lines = []
    if "empty" in found:
        median = found["empty"]["figures"]
        ratio, tuned = median[SPLITS] / median[NO_JOIN], median[TUNED] / median[SPLITS]
        rows = [[c, f"{1000 * s:.0f} ms"] for c, s in median.items()]
        lines += [
            "## A batch of ten rows",
            "",
            tables.markdown(("", "a batch takes"), rows),
            "",
            f"With the join it takes {ratio:.2f} times as long as without ({'met' if ratio <= SLOWER_EMPTY else 'missed'}: at most {SLOWER_EMPTY}), "
            f"tuned Spark {tuned:.2f} times as long as ours ({'met' if tuned > 1 else 'missed'}: more than 1). Commit {found['empty']['commit']}.",
            "",
        ]
    if "curves" in found:
        rows = [
            [
                line["kind"],
                str(line["share"]),
                *(
                    f"{line[c]:.2f} s, {line[f'{c}, decoded']} decoded"
                    for c in (SPLITS, MEMORY_ALONE)
                ),
            ]
            for line in found["curves"]["figures"]
        ]
        lines += [
            "## By how much larger the table is than memory",
            "",
            "A warm batch of ours, and how many segments the last one decoded.",
            "",
            tables.markdown(("keys", "times the memory", "ours", "memory alone"), rows),
            "",
            f"Commit {found['curves']['commit']}.",
            "",
        ]
    if "memory" in found:
        native = next(x["pss"] for x in found["memory"]["figures"] if x["contender"] == NATIVE)
        rows = [
            [
                line["contender"],
                f"{line['pss'] / 1e6:,.0f} MB",
                tables.verdict(line["pss"], native, least=False)
                if line["contender"] in OURS
                else "",
                ", ".join(f"{p} {s / 1e6:,.0f}" for p, s in sorted(line["by_program"].items())),
            ]
            for line in found["memory"]["figures"]
        ]
        lines += [
            "## Memory at the peak",
            "",
            "Proportional set size of driver, JVM and Python workers, mapped files included, where keys are anywhere. What lies in files that nobody maps at the "
            "moment is in no figure: the system drops it when memory is short.",
            "",
            tables.markdown(("", "peak", "no more than as written", "by program, MB"), rows),
            "",
            f"Commit {found['memory']['commit']}.",
            "",
        ]
    return lines
