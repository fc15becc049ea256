"""The page of figures about joins with a table."""

from __future__ import annotations

from typing import Any

from benchmarks import tables
from benchmarks.cases import NATIVE, SPLITS
from benchmarks.large_relations import MEMORY_ALONE, MEMORY_SHARE, NO_JOIN, TUNED

HEAD = ("case", "native rows/s", "ours rows/s", "ratio", "rounds", "target", "verdict", "commit")
LARGE = (
    "keys", "as written rows/s", "tuned rows/s", "ours rows/s", "to written", "target", "verdict", "to tuned", "target",
    "verdict", "memory alone rows/s", "commit",
)  # fmt: skip
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


def large_rows(found: dict[str, Any]) -> list[list[str]]:
    """Results of tables larger than memory."""
    rows = []
    for case in found["large"]:
        size = case["data"]["batch_rows"]
        median = {c: s["median_seconds"] for c, s in case["contenders"].items()}
        row = [
            _keys(case),
            *(tables.rate(size, median[c]) for c in (NATIVE, TUNED, SPLITS)),
        ]
        for gained, target in (
            (case["against_native"], case["target"]),
            (case["against_tuned"], case["tuned_target"]),
        ):
            ratio = gained["ratio"]
            row += [f"{tables.times(ratio)} ({_rounds(gained)})", tables.times(target), tables.verdict(ratio, target)]  # fmt: skip
        rows.append([*row, tables.rate(size, median[MEMORY_ALONE]), case["commit"]])
    return rows


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
        "and the table persisted. *Ours*: as it is by default, with 4 GB on the disk for what is decoded. *Memory alone*: with "
        f'`option("relationDisk", "0")`, one run. Rounds: {rounds}. The first batch of a run does not count. '
        "Where rows may wait, a batch counts as the mean of all, with the last one, in which those leave that still wait.",
        "",
        tables.markdown(LARGE, large_rows(found)),
        "",
        "In the first batch of a run Spark plans and compiles, its tuned form decodes the whole table, and ours decodes what rows ask for. Seconds, a figure per round:",
        "",
        tables.markdown(FIRST, first_rows(found)),
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
        rows = [
            [
                line["contender"],
                f"{line['pss'] / 1e6:,.0f} MB",
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
            tables.markdown(("", "peak", "by program, MB"), rows),
            "",
            f"Commit {found['memory']['commit']}.",
            "",
        ]
    return lines
