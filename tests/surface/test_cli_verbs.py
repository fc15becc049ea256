"""The verbs that answer questions about a checkpoint or a machine, without Spark; completion."""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.store.manifest import Manifest, Taken
from slackwater.surface.cli import doctor, inspect_checkpoint, late_rows
from tests.surface.history_records import checkpoint, record
from tests.surface.test_cli import run
from tests.surface.verb_documents import check_document, schemas

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)
SOURCE = "  stream packets(ts timestamp, router string) time ts timestamp partition router"


def late_file(
    path: Path, rows: list[tuple[str, str | None, int, int | None]], numbers: bool = False
):
    """Late rows as the engine writes them: reason, router, lateness, windows missed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    reasons, routers, by, missed = zip(*rows, strict=True)
    bounds = pa.array([7] * len(rows)) if numbers else pa.array([NOON] * len(rows), pa.timestamp("us", "UTC"))  # fmt: skip
    columns = {
        "ts": bounds, "router": list(routers), "_late_reason": list(reasons), "_late_by": pa.array(by, pa.int64()),
        "_late_bound": bounds, "_late_windows": pa.array(missed, pa.int64()),
    }  # fmt: skip
    pq.write_table(pa.table(columns), path)


def made(folder: Path, *, late: str | None = "parquet") -> Path:
    trees: dict[str, Any] = {"talkers": ["aggregate by [k]", SOURCE]}
    sinks = [{"name": "talkers", "description": "parquet", "path": str(folder / "talkers")}]
    if late is not None:
        trees["kept"] = ["late rows", SOURCE]
        sinks.append({"name": "kept", "description": late, "path": str(folder / "late")})
    return checkpoint(folder / "ck", [record(5), record(6, sinks=sinks)], outputs=trees)


def test_late_rows_are_counted_by_reason_and_partition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    ck = made(tmp_path)
    late_file(tmp_path / "late" / "part-b00000009-e1-x.parquet", [("late", "r1", 90_000_000, 3)])
    rows = [("late", "r1", 1_000_000, 1), ("late", "r1", 2_040_000, None), ("future", "r2", 5, None)]  # fmt: skip
    late_file(tmp_path / "late" / "part-b00000010-e1-x.parquet", rows)
    pq.write_table(pa.table({"ts": [1]}), tmp_path / "late" / "part-schema-kept.parquet")
    assert run("late", ck, "--json", "--newest", 2) == 0
    document = check_document("late", capsys.readouterr().out)
    assert document["streams"] == [{"name": "packets", "rows": 1006, "late": 12, "future": 1, "nullTime": 0}]  # fmt: skip
    (output,) = document["outputs"]
    assert output["groups"] == [
        {"reason": "future", "partition": "r2", "rows": 1, "medianBy": 5, "by95": 5, "mostBy": 5, "windowsMissed": None},
        {"reason": "late", "partition": "r1", "rows": 3, "medianBy": 2_040_000, "by95": 90_000_000,
         "mostBy": 90_000_000, "windowsMissed": 4},
    ]  # fmt: skip
    assert [(r["_late_reason"], r["_late_by"]) for r in output["newest"]] == [("future", 5), ("late", 2_040_000)]  # fmt: skip
    assert document["missing"] == []
    assert run("late", ck) == 0
    shown = capsys.readouterr().out
    assert "late    r1         3  2 seconds" in shown and "1 minute 30 seconds" in shown
    assert "future by 5 microseconds: ts=2026-01-01T12:00:00+00:00, router=r2" in shown
    assert max(map(len, shown.splitlines())) <= 120


def test_null_and_the_empty_text_are_told_apart(tmp_path: Path) -> None:
    ck = made(tmp_path)
    rows = [("late", None, 1, 1), ("late", "", 2, 1), ("late", "<null>", 3, 1)]
    late_file(tmp_path / "late" / "part-b00000010-e1-x.parquet", rows)
    (output,) = late_rows.late(ck)["outputs"]
    told = {g["partition"]: g["mostBy"] for g in output["groups"]}
    assert told == {"<null>": 1, "<empty>": 2, "<<null>": 3}


def test_folders_of_partitioned_late_rows_are_read(tmp_path: Path):
    ck = made(tmp_path)
    file = tmp_path / "late" / "day=2026-01-01" / "part-b00000001-e1-x.parquet"
    late_file(file, [("late", "r1", 4, 1)], numbers=True)
    (output,) = late_rows.late(ck)["outputs"]
    assert output["times"] == "numbers" and output["groups"][0]["rows"] == 1
    assert output["newest"][0]["day"] == "2026-01-01"
    assert "late by 4: " in late_rows.as_text(late_rows.late(ck))


def test_without_a_late_output_there_are_counts_and_the_line_to_add(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run("late", made(tmp_path, late=None)) == 0
    shown = capsys.readouterr().out
    assert "packets  1,006    12" in shown
    assert "AS SELECT * FROM LATE(packets);" in shown and "packets.late.writeStream" in shown
    none = late_rows.as_text(late_rows.late(made(tmp_path / "b")))
    assert none.endswith(f"'{tmp_path}/b/late' is not there any more")
    kafka = late_rows.as_text(late_rows.late(made(tmp_path / "c", late="kafka")))
    assert "a sink of kind kafka" in kafka
    file = tmp_path / "d" / "late" / "part-b00000001-e1-x.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"ts": [1]}), file)
    narrow = late_rows.as_text(late_rows.late(made(tmp_path / "d")))
    assert "left out _late_reason and _late_by: SELECT * FROM LATE(packets)" in narrow


def test_inspect_shows_bounds_state_offsets_and_the_lock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    ck = made(tmp_path)
    (ck / "offsets").mkdir()
    (ck / "offsets" / "9").write_text('v1\n{}\n{"logOffset":8}\n{"offset":9}', encoding="utf-8")
    (ck / "offsets" / "10").write_text('v1\n{}\n{"logOffset":9}\n{"offset":10}', encoding="utf-8")
    (ck / "slackwater" / "epochs").mkdir()
    (ck / "slackwater" / "epochs" / "00000003").write_text("1 x")
    lock = ck / "slackwater" / "lock"
    lock.write_text(f"process {os.getpid()}")
    last = Manifest(6, 3, 6, 2, {}, {}, {}, {}, relations={"names": Taken("v7", since=10, looked=20, problem="gone")})  # fmt: skip
    monkeypatch.setattr(inspect_checkpoint.manifests, "last", lambda _: last)
    assert run("inspect", ck, "--json") == 0
    document = check_document("inspect", capsys.readouterr().out)
    assert (document["batch"], document["starts"], document["query"]) == (6, 3, "q-1")
    assert document["bounds"][0] | {"stream": "packets", "behind": 10_000_000, "holder": "main1", "idle": ["main2"]} == document["bounds"][0]  # fmt: skip
    assert document["state"] == [{"operator": "aggregate-abc", "plan": "panes", "rows": 56, "bytes": 4006, "runs": 3}]  # fmt: skip
    assert document["offsets"] == [{"source": 0, "batch": 10, "offset": {"logOffset": 9}}]
    assert document["relations"]["names"]["problem"] == "gone"
    assert document["lock"] == {"held": False, "by": f"process {os.getpid()}"}
    with open(lock, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert inspect_checkpoint.inspected(ck)["lock"]["held"] is True
        assert run("inspect", ck) == 0
    shown = capsys.readouterr().out
    assert f"held by process {os.getpid()}" in shown and "10 seconds" in shown and "v7" in shown


def test_a_folder_that_is_no_checkpoint_is_bad_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for verb in ("late", "inspect", "report"):
        assert run(verb, tmp_path) == 2
        assert "is not the checkpoint of a Slackwater query" in capsys.readouterr().err
    empty = checkpoint(tmp_path / "new", [])
    assert run("late", empty) == 0 and run("inspect", empty) == 0
    assert "no batch yet" in capsys.readouterr().out


def test_report_says_where_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run("report", made(tmp_path), "-o", tmp_path / "r.html", "--json") == 0
    document = check_document("report", capsys.readouterr().out)
    assert Path(document["report"]).exists()


def test_doctor_says_what_is_missing_and_what_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert run("doctor", "--json") == 0
    assert check_document("doctor", capsys.readouterr().out)["ok"]
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python"))
    monkeypatch.setattr(doctor, "ROOM_NEEDED", 1 << 62)
    assert run("doctor") == 3
    shown = capsys.readouterr().out
    assert shown.count("MISSING") == shown.count("to fix: ") == 4
    assert f"JAVA_HOME is {tmp_path}" in shown and f"set PYSPARK_PYTHON={sys.executable}" in shown
    old = tmp_path / "python"
    for said, part in (("[[3, 8], []]", "is 3.8"), (json.dumps([list(sys.version_info[:2]), ["pyarrow"]]), "lacks pyarrow")):  # fmt: skip
        old.write_text(f"#!/bin/sh\necho '{said}'\n")
        old.chmod(0o755)
        assert run("doctor") == 3
        assert part in capsys.readouterr().out


def test_every_verb_has_a_schema_and_an_option_for_it():
    from typer.main import get_command

    from slackwater.surface.cli.app import app

    verbs = get_command(app).commands  # type: ignore[attr-defined]
    assert set(verbs) | {"standing"} == set(schemas()["$defs"])
    for verb in verbs.values():
        assert any("--json" in p.opts for p in verb.params), verb.name


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(shell: str, tmp_path: Path):
    program = [sys.executable, "-c", "from slackwater.surface.cli import main; main()"]

    def asked(**environment: str) -> str:
        done = subprocess.run(
            program, env={**os.environ, **environment}, capture_output=True, text=True, check=True
        )
        return done.stdout

    script = asked(_SLACKWATER_COMPLETE=f"source_{shell}")
    assert f"_SLACKWATER_COMPLETE=complete_{shell}" in script
    if shell == "zsh":
        verbs = asked(_SLACKWATER_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="slackwater in")
        options = asked(_SLACKWATER_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="slackwater late --")  # fmt: skip
        assert '"inspect"' in verbs and '"late"' not in verbs and '"--newest"' in options
        return
    # The shell itself: the program is one on the path, the words are typed up to here.
    (tmp_path / "slackwater").write_text(f"#!/bin/sh\nexec '{program[0]}' -c '{program[2]}' \"$@\"\n")  # fmt: skip
    (tmp_path / "slackwater").chmod(0o755)
    (tmp_path / "completion").write_text(script, encoding="utf-8")
    typed = 'COMP_WORDS=(slackwater {}); COMP_CWORD={}; _slackwater_completion slackwater; echo "${{COMPREPLY[*]}}"'
    for words, number, expected in (("in", 1, "inspect"), ("late --new", 2, "--newest")):
        command = f"source {tmp_path}/completion; {typed.format(words, number)}"
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=True)  # fmt: skip
        assert done.stdout.strip() == expected
