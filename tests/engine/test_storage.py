"""What every storage promises, whatever holds the files. A new one is a line in `STORAGES`."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.files import file_checksum
from slackwater.engine.store.local import OUTPUT, PRIVATE, LocalStorage
from slackwater.engine.store.storage import (
    Folder,
    Locks,
    LockTaken,
    Renames,
    Storage,
    below,
    renaming,
)
from slackwater.errors import CheckpointError, SetupError

STORAGES = [PRIVATE, OUTPUT]


@pytest.fixture(params=STORAGES, ids=repr)
def storage(request: pytest.FixtureRequest) -> LocalStorage:
    made: LocalStorage = request.param
    return made


def test_a_file_is_read_whole_or_by_a_range(storage: LocalStorage, tmp_path: Path):
    storage.write(tmp_path / "a", b"0123456789")
    assert storage.read(tmp_path / "a") == b"0123456789"
    with closing(storage.reader(tmp_path / "a")) as file:
        assert (
            file.read(2, 3) == b"234"
            and file.read(5, 2) == b"56"
            and file.read(8, 5) == b"89"
            and file.read(20, 1) == b""
        )
        assert file.read(4) == b"456789" and file.read(11) == b"" and file.read() == b"0123456789"
    for read in (storage.read, storage.reader):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "b")


def test_its_length_is_known_and_whether_it_is_there(storage: LocalStorage, tmp_path: Path):
    storage.write(tmp_path / "a", b"123")
    known = storage.status(tmp_path / "a")
    assert known is not None and known.size == 3
    assert known.changed == (tmp_path / "a").stat().st_mtime_ns // 1_000
    assert storage.exists(tmp_path / "a") and storage.exists(tmp_path)
    for nothing in (tmp_path / "b", tmp_path / "b" / "c", tmp_path / "a" / "c"):
        assert storage.status(nothing) is None and not storage.exists(nothing)


# ---- whole files ----
def test_a_file_is_replaced_at_once(storage: LocalStorage, tmp_path: Path):
    """Who has begun to read the old one reads it to its end."""
    storage.write(tmp_path / "a", b"old" * 1_000)
    with closing(storage.reader(tmp_path / "a")) as before:
        storage.write(tmp_path / "a", b"new")
        assert before.read() == b"old" * 1_000
    assert storage.read(tmp_path / "a") == b"new"
    assert storage.list(tmp_path).files == ["a"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_file_that_cannot_be_replaced_is_the_old_one(
    storage: LocalStorage, tmp_path: Path, failing: str, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object) -> None:
        raise OSError("the plug")

    storage.write(tmp_path / "a", b"old")
    monkeypatch.setattr(os, failing, broken)
    with pytest.raises(OSError, match="the plug"):
        storage.write(tmp_path / "a", b"new")
    assert storage.read(tmp_path / "a") == b"old"


def test_a_name_that_is_taken_is_not_given_again(storage: LocalStorage, tmp_path: Path):
    storage.write_new(tmp_path / "a", b"first")
    with pytest.raises(FileExistsError):
        storage.write_new(tmp_path / "a", b"second")
    assert storage.read(tmp_path / "a") == b"first"
    assert storage.list(tmp_path).files == ["a"]


def test_of_many_who_want_a_name_one_gets_it(storage: LocalStorage, tmp_path: Path):
    start, won = threading.Barrier(8), []

    def put(number: int) -> None:
        start.wait()
        try:
            storage.write_new(tmp_path / "a", b"%d" % number)
            won.append(number)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=put, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and storage.read(tmp_path / "a") == b"%d" % won[0]


def test_a_file_and_its_name_are_durable_before_the_call_returns(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """First the bytes, under a name that nobody looks for; then the name, then the folder."""
    steps: list[str] = []

    def synced(fd: int) -> None:
        where = Path(os.readlink(f"/proc/self/fd/{fd}"))
        names = [n for n in os.listdir(tmp_path) if not n.startswith(".")]
        steps.append(f"{'folder' if where == tmp_path else 'bytes'} {names}")

    monkeypatch.setattr(os, "fsync", synced)
    for write in (storage.write, storage.write_new):
        write(tmp_path / "a", b"1")
        assert steps == ["bytes []", "folder ['a']"]
        steps.clear()
        storage.delete(tmp_path / "a")
    with storage.writer(tmp_path / "b") as out:
        out.write(b"1")
    storage.sync(tmp_path)
    assert steps == ["bytes ['b']", "folder ['b']"]


# ---- piece by piece ----
def test_a_file_that_grows_is_summed_up(storage: LocalStorage, tmp_path: Path):
    with storage.writer(tmp_path / "a") as out:
        out.write(b"123")
        out.flush()
        assert storage.read(tmp_path / "a") == b"123"
        out.write(memoryview(b"45"))
    assert (out.size, out.crc) == (5, zlib.crc32(b"12345"))
    assert file_checksum(storage, tmp_path / "a") == (out.size, out.crc)
    with pytest.raises(FileExistsError):
        storage.writer(tmp_path / "a")


def test_arrow_writes_the_same_file_as_to_a_path(storage: LocalStorage, tmp_path: Path):
    table = pa.table({"v": range(10_000), "k": ["a", "b"] * 5_000})
    with storage.writer(tmp_path / "a") as out:
        pq.write_table(table, out, store_schema=False)
    pq.write_table(table, tmp_path / "b", store_schema=False)
    assert storage.read(tmp_path / "a") == storage.read(tmp_path / "b")
    assert file_checksum(storage, tmp_path / "b") == (out.size, out.crc)


def test_a_file_that_fails_halfway_is_not_there(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(TypeError), storage.writer(tmp_path / "a") as out:
        out.write(None)
    assert not storage.exists(tmp_path / "a")

    def broken(fd: int) -> None:
        raise OSError("the plug")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="the plug"), storage.writer(tmp_path / "a") as out:
        out.write(b"1")
    assert not storage.exists(tmp_path / "a")


def test_bytes_are_added_at_the_end(storage: LocalStorage, tmp_path: Path):
    for data in (b"", b"12", b"3"):
        storage.append(tmp_path / "a", data)
    assert storage.read(tmp_path / "a") == b"123"


# ---- folders and names ----
def test_folders_are_listed_one_by_one(storage: LocalStorage, tmp_path: Path):
    storage.make_folder(tmp_path / "x" / "y")
    storage.make_folder(tmp_path / "x" / "y")
    for name in ("a", "x/b", "x/y/c"):
        storage.write(tmp_path / name, b"")
    assert storage.list(tmp_path) == (["a"], ["x"])
    assert storage.list(tmp_path / "none") == storage.list(tmp_path / "a") == ([], [])
    assert sorted(below(storage, tmp_path)) == [tmp_path / n for n in ("a", "x/b", "x/y/c")]
    folder = Folder(storage, tmp_path / "x")
    assert folder.files() == ["b"] and folder.read("b") == b""


def test_what_is_removed_need_not_be_there(storage: LocalStorage, tmp_path: Path):
    storage.make_folder(tmp_path / "x" / "y")
    for name in ("a", "x/b", "x/y/c"):
        storage.write(tmp_path / name, b"")
    for _ in range(2):
        storage.delete(tmp_path / "a")
        storage.delete_folder(tmp_path / "x")
    assert storage.list(tmp_path) == ([], [])


def test_a_storage_goes_to_tasks(storage: LocalStorage):
    assert pickle.loads(pickle.dumps(storage)) == storage
    assert len(pickle.dumps(storage)) < 200


# ---- what a file system has, and an object store has not ----
def test_a_file_or_folder_gets_another_name(storage: LocalStorage, tmp_path: Path):
    assert isinstance(storage, Renames)
    storage.make_folder(tmp_path / "x")
    storage.write(tmp_path / "x" / "a", b"1")
    storage.write(tmp_path / "b", b"2")
    renaming(storage).rename(tmp_path / "x", tmp_path / "y")
    renaming(storage).rename(tmp_path / "y" / "a", tmp_path / "b")
    assert storage.read(tmp_path / "b") == b"1" and storage.list(tmp_path / "y") == ([], [])
    with pytest.raises(FileNotFoundError):
        renaming(storage).rename(tmp_path / "x", tmp_path / "y")


def test_a_lock_has_one_holder_whose_death_frees_it(storage: LocalStorage, tmp_path: Path):
    assert isinstance(storage, Locks)
    held = storage.lock(tmp_path / "lock", "me")
    with pytest.raises(LockTaken, match=r"^me$"):
        storage.lock(tmp_path / "lock", "you")
    held.release()
    code = (
        "import sys; from pathlib import Path; from slackwater.engine.store.local import PRIVATE\n"
        "lock = PRIVATE.lock(Path(sys.argv[1]), 'child'); print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as child:  # fmt: skip
        assert child.stdout is not None and child.stdout.readline() == "held\n"
        with pytest.raises(LockTaken, match=r"^child$"):
            storage.lock(tmp_path / "lock", "me")
        child.kill()
    storage.lock(tmp_path / "lock", "me").release()


def objects() -> Storage:
    """As an object store: it has what every storage has, and neither renames nor locks."""

    def told(name: str) -> Any:
        return lambda self, *given, **how: getattr(PRIVATE, name)(*given, **how)

    operations = {name: told(name) for name in Storage.__abstractmethods__}
    made: Storage = type("Objects", (Storage,), operations)()
    return made


def test_without_a_lock_the_older_driver_is_refused(tmp_path: Path):
    """As on an object store: whoever started last wins, by the number of its start."""
    plain = objects()
    first, second = (Checkpoint(str(tmp_path / "ck"), plain) for _ in range(2))
    first.acquire()
    second.acquire()
    assert (first.epoch, second.epoch) == (1, 2)
    second.check_epoch()
    with pytest.raises(CheckpointError) as refused:
        first.check_epoch()
    assert refused.value.condition == "STALE_EPOCH"
    first.release()
    second.release()
    with pytest.raises(SetupError) as refused_rename:
        renaming(plain)
    assert refused_rename.value.condition == "NO_RENAME"
