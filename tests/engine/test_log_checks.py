"""Spark's logs, as a start compares them with the newest manifest. What Spark makes of damaged logs is tested on Spark
(`tests/faults/test_damaged_logs`); here is what it never gets to see."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.store.hadoop_checksum import check_sum
from slackwater.engine.store.log_digest import (
    FileLog,
    OtherLog,
    check_log,
    from_json,
    logs_at,
    to_json,
)
from slackwater.errors import CheckpointError
from tests.engine import test_low_table as low_tables
from tests.engine.on_disk import Place, no_spark, write_inputs

__all__ = ["no_spark"]

STOPPED = 4


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    root = tmp_path_factory.mktemp("stopped")
    tables = [low_tables.table(r) for r in low_tables.batches(9, STOPPED + 1)]
    place = Place(root / "state", low_tables.plan_of(10, 5), write_inputs(root / "in", tables))
    with pytest.MonkeyPatch.context() as patch:
        no_spark.__wrapped__(patch)  # type: ignore[attr-defined]
        place.run(STOPPED)
        pending = place.copy(root / "pending")
        pending.crash("intent.after", STOPPED + 1)
        yield place


def replaced(old: str, new: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


def older(path: Path) -> None:
    path.write_bytes(path.with_name(str(int(path.name) - 1)).read_bytes())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


LAST = STOPPED - 1
CASES: list[tuple[str, Callable[[Path], Any], bool]] = [
    (f"offsets/{LAST}", Path.unlink, False),
    (f"offsets/{LAST}", older, False),
    (f"offsets/{LAST}", cut, False),
    (f"offsets/{LAST}", replaced('"logOffset": 3', '"logOffset": 2'), False),
    (f"offsets/{LAST}", replaced("v1", "w1"), False),
    (f"offsets/{LAST}", replaced("{}", "{ }"), False),
    (f"offsets/{LAST}", lambda path: path.write_bytes(path.read_bytes() + b"\xff"), False),
    (f"offsets/{LAST - 1}", Path.unlink, False),
    (f"offsets/{LAST}", replaced('"logOffset": 3', '"logOffset": 2'), True),
    (f"offsets/{LAST}", Path.unlink, True),
    (f"offsets/{STOPPED}", Path.unlink, True),
    (f"offsets/{STOPPED}", older, True),
    (f"offsets/{STOPPED}", replaced('"logOffset": 4', '"logOffset": 5'), True),
    (f"offsets/{STOPPED}", replaced("{}", "{ }"), True),
    (f"commits/{LAST}", replaced("{", "["), False),
    (f"commits/{LAST}", lambda path: path.write_bytes(b""), False),
    (f"sources/0/{LAST}", Path.unlink, False),
    (f"sources/0/{LAST}", older, False),
    (f"sources/0/{LAST}", replaced("0003-1.parquet", "0003-7.parquet"), False),
    (f"sources/0/{LAST}", replaced("/in/", "/im/"), False),
    (f"sources/0/{LAST}", replaced("160000", "169000"), False),
    (f"sources/0/{LAST}", cut, False),
    ("sources/0/1", Path.unlink, False),
    ("sources/0/1", older, False),
    (f"sources/0/{STOPPED}", Path.unlink, True),
    (f"sources/0/{STOPPED}", older, True),
    (f"sources/0/{STOPPED}", replaced("0004-1.parquet", "0004-7.parquet"), True),
]


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_damaged_log_is_named(number: int, stopped: Place, tmp_path: Path) -> None:
    name, damage, pending = CASES[number]
    start = Place(stopped.root.parent / "pending", stopped.plan, stopped.files)
    place = (start if pending else stopped).copy(tmp_path / "state")
    before = place.published()
    damage(place.location / name)
    with pytest.raises(CheckpointError) as error:
        place.run()
    assert name in str(error.value)
    assert place.published() == before


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    "name", [f"commits/{LAST}", f"commits/{LAST - 1}", "offsets/0", "commits/0"]
)
def test_what_nobody_needs_may_be_lost(name: str, stopped: Place, tmp_path: Path) -> None:
    whole, place = (stopped.copy(tmp_path / n) for n in ("whole", "state"))
    (place.location / name).unlink()
    whole.run()
    place.run()
    assert place.rows() == whole.rows()


def entry(folder: Path, number: int, *paths: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": p, "timestamp": 7, "batchId": number}) for p in paths]
    (folder / str(number)).write_text("\n".join(["v1", *lines]))


def compacted(folder: Path, number: int) -> None:
    """As Spark compacts: all entries in one file, older ones deleted some time later."""
    lines = [
        line for n in range(number + 1) for line in (folder / str(n)).read_text().splitlines()[1:]
    ]
    (folder / f"{number}.compact").write_text("\n".join(["v1", *lines]))
    for n in range(number + 1):
        (folder / str(n)).unlink()


def three_entries(location: Path, root: str) -> Path:
    folder = location / "sources" / "0"
    entry(folder, 0, f"{root}/k=1/a", f"{root}/k=1/b")
    entry(folder, 1, f"{root}/k=2/c/d")
    entry(folder, 2, f"{root}/e", f"{root}/k=1/f")
    return folder


AT = [{"logOffset": 2}]


def test_a_log_that_moved_or_was_compacted_says_the_same(tmp_path: Path) -> None:
    three_entries(tmp_path / "a", "file:///data/in")
    three_entries(tmp_path / "b", "file:///other/place/of/in")
    log = logs_at(tmp_path / "a", AT, {})["0"]
    assert isinstance(log, FileLog) and log.files == 5 and log.offset == 2
    assert logs_at(tmp_path / "b", AT, {})["0"] == log
    part = logs_at(tmp_path / "a", [{"logOffset": 0}], {})
    assert logs_at(tmp_path / "a", AT, from_json(json.loads(json.dumps(to_json(part))))) == {
        "0": log
    }
    folder = three_entries(tmp_path / "c", "file:///data/in")
    compacted(folder, 2)
    check_log(folder, log)
    assert logs_at(tmp_path / "c", AT, part) == {"0": log}
    entry(folder, 3, "file:///data/in/k=9/x")
    entry(tmp_path / "a" / "sources" / "0", 3, "file:///data/in/k=9/x")
    at = [{"logOffset": 3}]
    assert logs_at(tmp_path / "c", at, {"0": log}) == logs_at(tmp_path / "a", at, {})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("k=2/c", "k=3/c"),
        ("/k=1/f", "/k=1/g"),
        ('"timestamp": 7', '"timestamp": 8'),
        ("/e", "/k=1/e"),
    ],
)
@pytest.mark.parametrize("compact", [False, True])
def test_another_path_or_time_is_another_log(
    old: str, new: str, compact: bool, tmp_path: Path
) -> None:
    folder = three_entries(tmp_path, "file:///in")
    log = logs_at(tmp_path, AT, {})["0"]
    if compact:
        compacted(folder, 2)
    (path,) = [p for p in sorted(folder.iterdir()) if old in p.read_text()][:1]
    replaced(old, new)(path)
    with pytest.raises(CheckpointError, match=f"sources/0/{path.name}'"):
        check_log(folder, log)


def test_a_first_entry_with_another_folder_is_named_beside_the_one_after_it(tmp_path: Path) -> None:
    """A path is compared with the one before it: of the first one the name alone."""
    folder = tmp_path / "sources" / "0"
    for number in range(3):
        entry(folder, number, f"file:///in/{number}")
    log = logs_at(tmp_path, AT, {})["0"]
    replaced("/in/", "/im/")(folder / "0")
    with pytest.raises(CheckpointError, match=r"'sources/0/1' is damaged.*'sources/0/0'"):
        check_log(folder, log)
    replaced("/im/", "/in/")(folder / "0")
    check_log(folder, log)
    replaced('"timestamp": 7', '"timestamp": 8')(folder / "1")
    with pytest.raises(CheckpointError) as error:
        check_log(folder, log)
    assert "sources/0/0" not in str(error.value)


def test_a_lost_compact_file_is_named(tmp_path: Path) -> None:
    folder = three_entries(tmp_path, "file:///in")
    log = logs_at(tmp_path, AT, {})["0"]
    compacted(folder, 2)
    entry(folder, 3, "file:///in/x")
    longer = logs_at(tmp_path, [{"logOffset": 3}], {"0": log})["0"]
    (folder / "2.compact").unlink()
    for known in (log, longer):
        with pytest.raises(CheckpointError, match=r"sources/0/2\.compact'"):
            check_log(folder, known)
    (folder / "3").unlink()
    with pytest.raises(CheckpointError, match=r"sources/0/2\.compact'"):
        check_log(folder, log)


def test_numbered_files_of_other_sources(tmp_path: Path) -> None:
    folder = tmp_path / "sources" / "0"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / str(number)).write_text(f"start {number}")
    at = [{"topic": {"0": 3}}]
    log = logs_at(tmp_path, at, {})["0"]
    assert isinstance(log, OtherLog) and from_json(to_json({"0": log})) == {"0": log}
    (folder / "0").unlink()  # sources delete the oldest
    check_log(folder, log)
    (folder / "2").write_text("start 9")
    with pytest.raises(CheckpointError, match="sources/0/2'"):
        check_log(folder, log)
    (folder / "2").unlink()
    with pytest.raises(CheckpointError, match="sources/0/2'"):
        check_log(folder, log)


def test_hadoops_checksums(tmp_path: Path) -> None:
    path, data = tmp_path / "7", bytes(range(256)) * 5
    path.write_bytes(data)
    check_sum(path, "log")
    sums = b"".join(zlib.crc32(data[i : i + 512]).to_bytes(4, "big") for i in range(0, 1280, 512))
    (tmp_path / ".7.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + sums)
    check_sum(path, "log")
    for wrong in (data[:-1], data[:700] + b"?" + data[701:], data + b"?", b""):
        path.write_bytes(wrong)
        with pytest.raises(CheckpointError, match=r"\.7\.crc"):
            check_sum(path, "log")
