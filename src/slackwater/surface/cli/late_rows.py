"""``slackwater late CHECKPOINT``: late rows by reason and partition, how late they were, and the newest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slackwater.model.spans import in_words
from slackwater.semantics.partition_names import partition_name
from slackwater.surface.cli.checkpoints import LateOutput, Seen, seen
from slackwater.surface.cli.tables import table

OURS = ("_late_reason", "_late_by", "_late_bound", "_late_windows")


def late(location: Path, newest: int = 5) -> dict[str, Any]:
    """What there is to say, as a document: see ``docs/commands.schema.json``."""
    given = seen(location)
    outputs = given.late_outputs()
    return {
        "checkpoint": str(location),
        "streams": _counts(given),
        "outputs": [_read(o, newest) for o in outputs],
        "missing": [
            {"stream": s, "sql": _sql_line(s), "python": _python_line(s)}
            for s in given.last.get("streams", {})
            if s not in {o.stream for o in outputs}
        ],
    }


def _counts(given: Seen) -> list[dict[str, Any]]:
    """Late rows of each stream since the query was first started, by its last record, whose counts are of all batches."""
    return [
        {
            "name": name,
            "rows": stream["totalRows"],
            "late": sum(stream["totalLate"].values()),
            "future": sum(stream.get("future", {}).values()),
            "nullTime": sum(stream.get("nullTime", {}).values()),
        }
        for name, stream in given.last.get("streams", {}).items()
    ]


def _read(output: LateOutput, newest: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": output.name, "stream": output.stream, "path": None if output.path is None else str(output.path),
        "partition": output.partition, "problem": None, "groups": [], "newest": [],
    }  # fmt: skip
    if output.path is None or output.format != "parquet":
        kind = output.format or "unknown"
        made["problem"] = f"its rows go to a sink of kind {kind}; parquet files can be read here"
        return made
    if not output.path.is_dir():
        made["problem"] = f"'{output.path}' is not there any more"
        return made
    rows = _rows(output.path)
    if rows is None:
        return made
    lacking = [c for c in OURS[:2] if c not in rows.column_names]
    if lacking:
        made["problem"] = f"its select list left out {' and '.join(lacking)}: SELECT * FROM LATE({output.stream}) keeps them"  # fmt: skip
        return made
    partition = output.partition if output.partition in rows.column_names else None
    made["partition"] = partition
    made["times"] = "timestamps" if _is_time(rows) else "numbers"
    made["groups"] = _groups(rows, partition)
    made["newest"] = [_plain(r) for r in rows.slice(max(rows.num_rows - newest, 0)).to_pylist()[::-1]]  # fmt: skip
    return made


def _rows(folder: Path) -> Any:
    """All late rows in the order in which their batches wrote them; None without any."""
    import pyarrow.dataset as ds

    # The name of a file begins with the batch; one without rows only says the schema.
    files = sorted(folder.rglob("part-b*.parquet"), key=lambda p: p.name)
    if not files:
        return None
    hive = ds.partitioning(flavor="hive")
    return ds.dataset(
        [str(f) for f in files],
        format="parquet",
        partitioning=hive,
        partition_base_dir=str(folder),
    ).to_table()


def _is_time(rows: Any) -> bool:
    import pyarrow as pa

    name = "_late_bound"
    return name not in rows.column_names or pa.types.is_timestamp(rows.schema.field(name).type)


def _groups(rows: Any, partition: str | None) -> list[dict[str, Any]]:
    from slackwater.kernels.column_engine import connect, sql_to_arrow

    shown = "NULL" if partition is None else f'"{partition.replace(chr(34), chr(34) * 2)}"::VARCHAR'
    missed = "sum(_late_windows)::BIGINT" if "_late_windows" in rows.column_names else "NULL"
    text = (
        f'SELECT _late_reason AS reason, {shown} AS "partition", count(*) AS "rows",'
        ' quantile_disc(_late_by, 0.5) AS "medianBy", quantile_disc(_late_by, 0.95) AS "by95", max(_late_by) AS "mostBy",'
        f' {missed} AS "windowsMissed" FROM late GROUP BY ALL ORDER BY ALL'
    )
    groups = list(sql_to_arrow(connect(), text, {"late": rows}).to_pylist())
    if partition is not None:
        for group in groups:
            group["partition"] = partition_name(group["partition"])
    return groups


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(row, default=_text)))


def _text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _sql_line(stream: str) -> str:
    return f"CREATE STREAMING TABLE late USING parquet OPTIONS (path '...') AS SELECT * FROM LATE({stream});"


def _python_line(stream: str) -> str:
    return f'{stream}.late.writeStream.queryName("late").option("path", ...)'


def as_text(document: dict[str, Any]) -> str:
    """For people."""
    streams = [[s["name"], s["rows"], s["late"], s["future"], s["nullTime"]] for s in document["streams"]]  # fmt: skip
    if not streams:
        return "the query has not completed a batch yet"
    parts = [table(["stream", "rows", "late", "future", "no time"], streams)]
    parts += [_output_text(o) for o in document["outputs"]]
    for missing in document["missing"]:
        parts.append(
            f"No output keeps the late rows of {missing['stream']}. Add one, with a path of its own:\n"
            f"  SQL     {missing['sql']}\n  Python  {missing['python']}"
        )
    return "\n\n".join(parts)


def _output_text(output: dict[str, Any]) -> str:
    title = f"Late rows of {output['stream']} in {output['path'] or output['name']}"
    if output["problem"] is not None:
        return f"{title}: {output['problem']}"
    if not output["groups"]:
        return f"{title}: none yet"
    times = output["times"] == "timestamps"
    name = output["partition"]
    head = ["reason", *([name] if name else []), "rows", "median by", "95 % by", "most by", "windows missed"]  # fmt: skip
    rows = [
        [
            g["reason"], *([g["partition"]] if name else []), g["rows"],
            *(_span(g[k], times) for k in ("medianBy", "by95", "mostBy")), g["windowsMissed"],
        ]
        for g in output["groups"]
    ]  # fmt: skip
    newest = "\n".join(_row(r, times) for r in output["newest"])
    return f"{title}\n\n{table(head, rows)}\n\nThe newest, the last first:\n{newest}"


def _span(value: int | None, times: bool) -> Any:
    return value if value is None or not times else in_words(_rounded(value))


def _rounded(micros: int) -> int:
    """Lateness to a tenth of a second, once it is over one."""
    return micros if abs(micros) < 1_000_000 else round(micros / 100_000) * 100_000


def _row(row: dict[str, Any], times: bool) -> str:
    own: Sequence[str] = [f"{k}={v}" for k, v in row.items() if k not in OURS]
    by = _span(row["_late_by"], times)
    behind = "" if by is None else f" by {by}"
    return f"  {row['_late_reason']}{behind}: {', '.join(own)}"
