"""The commands on ``.sql`` files: exit codes, both outputs, and signals inside a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.surface.cli import main
from tests.surface.helpers import at, write
from tests.surface.verb_documents import check_document

QUERY = """
SET checkpointLocation = '${work}/ck';
SET trigger = '${trigger}';
CREATE STREAM packets (srcIP STRING, len INT, ts TIMESTAMP)
  USING parquet OPTIONS (path '${work}/packets', maxFilesPerTrigger 1) TIME ts PROGRESS ORDERED;
CREATE STREAMING TABLE talkers USING parquet OPTIONS (path '${work}/talkers') AS
  SELECT srcIP, window_end, count(*) AS n FROM packets [RANGE 10 SECONDS] GROUP BY srcIP;
SELECT srcIP, len FROM packets WHERE len = 0;
"""


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    code = ended.value.code
    return 0 if code is None else int(code)


def file(folder: Path, text: str) -> Path:
    path = folder / "talkers.sql"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_text_that_is_wrong_ends_with_2_and_a_caret(tmp_path: Path, capsys: Any):
    path = file(tmp_path, "SELECT a\nFORM packets;")
    for verb in (["run"], ["check"], ["check", "--syntax"], ["explain"]):
        assert run(*verb, path) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert f"{path}:2:1: [SYNTAX]" in shown.err and "^^^^" in shown.err


def test_syntax_needs_no_spark_and_little_time(tmp_path: Path):
    path = file(tmp_path, QUERY)
    code = (
        "import resource, sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] in ('pyspark', 'py4j'): raise AssertionError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "from slackwater.surface.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end:\n"
        "    used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    print(end.code or 0, used.ru_utime + used.ru_stime)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "check", "--syntax", str(path), "--set", "work=w", "--set", "trigger=once"],
        capture_output=True, text=True, check=True, env={**os.environ, "JAVA_HOME": "/nowhere"},
    )  # fmt: skip
    ended, seconds = done.stdout.split()
    assert ended == "0" and float(seconds) < 1


@pytest.mark.parametrize("given", ["work", "=x", ""])
def test_a_variable_has_a_name_and_a_value(tmp_path: Path, given: str):
    assert run("run", file(tmp_path, QUERY), "--set", given) == 2


@pytest.mark.spark
def test_check_against_a_checkpoint(spark: Any, tmp_path: Path, capsys: Any):
    feed(tmp_path / "packets", 2)
    path = file(tmp_path, QUERY)
    given = ["--set", f"work={tmp_path}", "--set", "trigger=available now"]
    assert run("run", path, *given, "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [{"srcIP": "a", "len": 0}]
    assert run("check", path, *given, "--against", tmp_path / "ck") == 0
    assert "talkers(srcIP string, window_end timestamp, n bigint)" in capsys.readouterr().out
    assert run("explain", path, *given, "--json") == 0
    plan = check_document("explain", capsys.readouterr().out)["plan"]
    assert any("output talkers" in line for line in plan)
    for verb in ("late", "inspect"):
        assert run(verb, tmp_path / "ck", "--json") == 0
        document = check_document(verb, capsys.readouterr().out)
    assert document["batch"] == 1 and document["offsets"] and document["lock"]["by"]
    other = file(tmp_path, QUERY.replace("count(*)", "sum(len)"))
    assert run("check", other, *given, "--against", tmp_path / "ck") == 1
    assert "sum(`len`)" in capsys.readouterr().err
    assert run("run", other, *given) == 3
    assert run("check", other, *given, "--against", tmp_path) == 3
    unsafe = file(tmp_path, QUERY.replace(" [RANGE 10 SECONDS]", "").replace("window_end, ", ""))
    assert run("check", unsafe, *given, "--json") == 1
    assert run("run", unsafe, *given) == 1


def feed(folder: Path, count: int) -> None:
    for i in range(count):
        write(
            folder, f"{i:03d}.parquet",
            {"srcIP": ["a"] * 5, "len": pa.array(range(5 * i, 5 * i + 5), pa.int32()),
             "ts": pa.array([at(5 * i + s) for s in range(5)], pa.timestamp("us", "UTC"))},
        )  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.faults)]
)
def test_a_signal_lets_the_batch_end_and_a_restart_goes_on(spark: Any, tmp_path: Path, number: int):
    feed(tmp_path / "packets", 30)
    path = file(tmp_path, QUERY)
    program = "from slackwater.surface.cli import main; main()"
    command = [sys.executable, "-c", program, "run", str(path), "--set", f"work={tmp_path}"]
    with (tmp_path / "err").open("w") as err, (tmp_path / "out").open("w") as out:
        child = subprocess.Popen(
            [*command, "--set", "trigger=10 milliseconds"], stdout=out, stderr=err
        )
        until = monotonic() + 240
        while "rows in" not in (tmp_path / "err").read_text() and monotonic() < until:
            assert child.poll() is None, (tmp_path / "err").read_text()
            sleep(0.05)
        child.send_signal(number)
        assert child.wait(120) == 0, (tmp_path / "err").read_text()
    assert "stopping after the batch at hand" in (tmp_path / "err").read_text()
    assert run("run", path, "--set", f"work={tmp_path}", "--set", "trigger=available now") == 0
    rows = pq.read_table(tmp_path / "talkers").to_pylist()
    # The last window is still open: 150 rows, 10 in each window.
    assert sorted(r["n"] for r in rows) == [10] * 14
    assert len({r["window_end"] for r in rows}) == 14
