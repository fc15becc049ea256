"""Blocks that an executor keeps: what comes out is what went in, limits hold, and what nobody needs goes."""

from __future__ import annotations

import fcntl
import os
import stat
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.store import kept as store
from slackwater.engine.store.kept import FOLDER, KeptFiles, forget, kept_files, wanted_places
from slackwater.kernels.kept import Located
from tests.examples import examples


def block(run: str, offset: int, data: bytes) -> tuple[Located, pa.Buffer]:
    return Located(run, offset, len(data), zlib.crc32(data)), pa.py_buffer(data)


def opened(folder: Path, limit: int = 1 << 20) -> KeptFiles:
    kept = KeptFiles(folder / "query" / "join", limit)
    kept.begin("0 1", lambda: wanted_places((), ""))
    return kept


def files(folder: Path) -> dict[str, int]:
    return {
        p.name: p.stat().st_size for p in (folder / "query" / "join").iterdir() if "@" in p.name
    }


def aged(path: Path, seconds: float) -> None:
    then = path.stat().st_mtime - seconds
    for inner, _, _ in os.walk(path):
        os.utime(inner, (then, then))
    os.utime(path, (then, then))


@examples(60)
@given(
    st.binary(min_size=1, max_size=300), st.integers(0, 5), st.integers(0, 2**32), st.integers(1, 255)
)  # fmt: skip
def test_what_comes_out_is_what_went_in_or_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, how: int, where: int, flip: int
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    kept = opened(folder)
    at, buffer = block("run.arrow", 8, data)
    kept.put(at, buffer)
    (path,) = (folder / "query" / "join").glob("run*")
    whole = bytearray(path.read_bytes())
    if how == 1:
        whole[where % len(whole)] ^= flip
    elif how == 2:
        del whole[where % len(whole) :]
    elif how == 3:
        whole += b"\0" * (1 + where % 9)
    elif how == 4:
        whole[:] = bytes(len(whole))
    elif how == 5:
        other, buffer = block("other.arrow", 8, bytes([data[0] ^ flip]) + data[1:])
        kept.put(other, buffer)
        whole = bytearray((path.parent / "other.arrow@8").read_bytes())
    path.write_bytes(whole)
    found = kept.get(at)
    if how == 0:
        assert found is not None and found.to_pybytes() == data
    else:
        assert found is None
        assert not path.exists(), "what is damaged is not asked for again"
    assert kept.get(at._replace(offset=9)) is None


def test_a_block_with_another_checksum_does_not_enter(tmp_path: Path) -> None:
    kept = opened(tmp_path)
    at, buffer = block("run", 0, b"abcdefgh")
    kept.put(at._replace(crc=at.crc ^ 1), buffer)
    kept.put(at._replace(length=7), buffer)
    assert files(tmp_path) == {}
    kept.put(at, buffer)
    assert kept.get(at) is not None and kept.get(at._replace(crc=at.crc ^ 1)) is None


def test_a_limit_holds_and_the_first_go(tmp_path: Path) -> None:
    kept = opened(tmp_path, limit=1_000)
    for n in range(40):
        kept.put(*block(f"run{n}", 0, bytes(90 + n)))
        assert sum(files(tmp_path).values()) <= 1_000
    assert "run39@0" in files(tmp_path) and "run0@0" not in files(tmp_path)
    kept.put(*block("large", 0, bytes(2_000)))
    assert "large@0" not in files(tmp_path) and "run39@0" in files(tmp_path)


def test_another_process_counts_towards_the_limit(tmp_path: Path) -> None:
    """Each task begins with what is there."""
    for n in range(40):
        opened(tmp_path, limit=1_000).put(*block(f"run{n}", 0, bytes(90)))
        assert sum(files(tmp_path).values()) <= 1_000


def test_a_block_that_another_worker_drops_meanwhile_does_not_keep_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = opened(tmp_path), opened(tmp_path)
    gone, buffer = block("run.arrow", 8, b"gone")
    other.put(gone, buffer)
    listed = store._entries

    def late(folder: Path) -> list[os.DirEntry[str]]:
        entries = list(listed(folder))
        other.drop(gone)
        return entries

    monkeypatch.setattr(store, "_entries", late)
    at, buffer = block("run.arrow", 100, b"new")
    mine.put(at, buffer)
    assert mine.get(at) is not None


def test_the_first_task_of_a_batch_removes_what_nobody_wants(tmp_path: Path) -> None:
    kept = opened(tmp_path)
    for run in ("join-b00000001-e1-g0s-aa.arrow", "join-b00000002-e1-g0s-bb.arrow"):
        for offset in (8, 16):
            kept.put(*block(run, offset, b"12345678"))
    old, young = (tmp_path / "query" / "join" / f".new-1-{n}" for n in ("old", "young"))
    old.write_bytes(b"half")
    young.write_bytes(b"half")
    aged(old, store.HALF_WRITTEN_SECONDS + 5)
    live = {("join-b00000001-e1-g0s-aa.arrow", 16)}
    asked = []

    def wanted():
        asked.append(1)
        return wanted_places(live, "join-b00000002-e1")

    for _ in range(2):
        kept.begin("2 1", wanted)
    assert set(files(tmp_path)) == {
        "join-b00000001-e1-g0s-aa.arrow@16",
        "join-b00000002-e1-g0s-bb.arrow@8",
        "join-b00000002-e1-g0s-bb.arrow@16",
    }
    assert asked == [1], "one task a batch looks"
    assert young.exists() and not old.exists(), "of a worker that died"
    kept.begin("2 2", lambda: wanted_places((), "join-b00000002-e2"))
    assert files(tmp_path) == {}


def test_files_are_for_the_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "blockmgr-1"))
    before = os.umask(0)
    try:
        kept = kept_files("/checkpoint", "join", 1_000)
        assert kept is not None
        kept.begin("1 1", lambda: wanted_places((), ""))
        kept.put(*block("run", 0, b"abc"))
    finally:
        os.umask(before)
    home = tmp_path / "blockmgr-1" / FOLDER
    for inner, _, names in os.walk(home):
        assert stat.S_IMODE(os.stat(inner).st_mode) == 0o700
        for name in names:
            assert stat.S_IMODE(os.stat(Path(inner, name)).st_mode) == 0o600, name
    assert any("@" in n for _, _, names in os.walk(home) for n in names)


def test_without_an_executor_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert kept_files("/checkpoint", "join", 1_000) is None
    forget("/checkpoint")


def test_a_folder_that_vanishes_costs_nothing_but_hits(tmp_path: Path) -> None:
    kept = opened(tmp_path)
    at, buffer = block("run", 0, b"abc")
    kept.put(at, buffer)
    for path in (tmp_path / "query" / "join").iterdir():
        path.unlink()
    (tmp_path / "query" / "join").rmdir()
    assert kept.get(at) is None
    kept.put(at, buffer)
    kept.drop(at)
    assert kept.get(at) is None
    kept.begin("1 1", lambda: wanted_places((), ""))
    kept.put(at, buffer)
    assert kept.get(at) is not None


def test_a_mapped_block_outlives_its_file(tmp_path: Path) -> None:
    kept = opened(tmp_path)
    at, buffer = block("run", 0, bytes(range(256)) * 64)
    kept.put(at, buffer)
    found = kept.get(at)
    kept.drop(at)
    assert found is not None and found.to_pybytes() == bytes(range(256)) * 64


def test_a_query_takes_its_blocks_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "blockmgr-1"))
    at, buffer = block("run", 0, b"abc")
    both = [kept_files(path, "join", 1_000) for path in ("/one", "/two")]
    for kept in both:
        assert kept is not None
        kept.begin("1 1", lambda: wanted_places((), ""))
        kept.put(at, buffer)
    forget("/one")
    one, two = both
    assert one is not None and one.get(at) is None
    assert two is not None and two.get(at) is not None


def test_what_dead_executors_and_old_queries_left_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = store.UNUSED_SECONDS + 60
    homes = {n: tmp_path / f"blockmgr-{n}" / FOLDER for n in ("dead", "used", "young", "own")}
    for name, home in homes.items():
        (home / "query" / "join").mkdir(parents=True)
        (home / "query" / "join" / "run@0").write_bytes(b"abc")
        (home / ".lock").touch()
        if name != "young":
            aged(home, long)
    elsewhere = tmp_path / "blockmgr-dead" / "temp_shuffle"
    elsewhere.write_bytes(b"Spark's")
    lock = os.open(homes["used"] / ".lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_SH)
    try:
        monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/blockmgr-own,{tmp_path}/second")
        assert kept_files("/checkpoint", "join", 1_000) is not None
    finally:
        os.close(lock)
    assert {n for n, home in homes.items() if home.exists()} == {"used", "young", "own"}
    assert elsewhere.exists()
    assert (homes["own"] / ".lock").exists() and not (homes["own"] / "query").exists()
    assert (homes["young"] / "query" / "join" / "run@0").exists()


def test_a_block_that_was_found_whole_is_read_through_once_more_if_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, data, read = opened(tmp_path), pa.py_buffer(bytes(range(200))), []
    total = store._total
    monkeypatch.setattr(store, "_total", lambda d: read.append(1) or total(d))
    kept.keep_in_room("b", data)
    read.clear()
    assert [kept.find("b") == data for _ in range(3)] == [True] * 3 and len(read) == 1
    path = tmp_path / "query" / "join" / "b@0"
    whole = bytearray(path.read_bytes())
    whole[50] ^= 1
    path.write_bytes(whole)
    assert kept.find("b") is None and not path.exists()
    kept.keep_in_room("b", data)
    assert kept.find("b") == data


def test_workers_that_keep_only_in_room_never_keep_more_than_they_may(tmp_path: Path) -> None:
    data = pa.py_buffer(bytes(100))
    size = store.kept_size(data.size)
    limit = 5 * size
    workers = [opened(tmp_path, limit) for _ in range(3)]
    given = [workers[n % 3].keep_in_room(f"b{n}", data) for n in range(9)]
    assert given == [True] * 5 + [False] * 4
    assert sum(files(tmp_path).values()) == 5 * size
    assert not workers[0].has_room(data.size)
    assert workers[1].keep_in_room("b0", data), "it is there"
    # What is dropped in a batch makes room in the next one.
    workers[0].begin("2 1", lambda: lambda run, _: run == "b4")
    assert set(files(tmp_path)) == {"b4@0"}
    assert [workers[n].keep_in_room(f"c{n}", data) for n in range(3)] == [True] * 3
    assert opened(tmp_path, limit).find("c2") == data


def test_what_is_kept_only_in_room_takes_no_more_than_is_left_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, data = opened(tmp_path), pa.py_buffer(bytes(100))
    free = 2_000

    def usage(folder: Path) -> tuple[int, int, int]:
        used = sum(files(tmp_path).values())
        return type("Usage", (), {"free": free - used})()  # type: ignore[return-value]

    monkeypatch.setattr(store.shutil, "disk_usage", usage)
    given = [kept.keep_in_room(f"b{n}", data) for n in range(20)]
    assert given.count(True) in (7, 8) and sum(files(tmp_path).values()) <= free / 2


def test_numbers_are_given_once_a_batch(tmp_path: Path) -> None:
    workers = [opened(tmp_path) for _ in range(2)]
    assert [workers[n % 2].number("0 1") for n in range(4)] == [0, 1, 2, 3]
    assert [workers[n % 2].number("1 1") for n in range(2)] == [0, 1]
    workers[1].begin("1 1", lambda: lambda run, _: True)
    assert workers[0].number("1 1") == 2, "whoever begins last resets nothing"
