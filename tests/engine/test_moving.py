"""Source directories that move: the checkpoint's logs speak of the new one, whenever the driver dies on the way."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.driver import moving
from slackwater.engine.driver.moving import OpenedSource, open_directories
from slackwater.engine.lowlevel.directories import Directory, SparkSource, local, spark_sources
from slackwater.engine.lowlevel.inputs import SplitInput
from slackwater.engine.store import failpoints
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.files import seal
from slackwater.engine.store.log_paths import uri
from slackwater.engine.store.manifest import Intent, Manifest
from slackwater.engine.store.spark_log import identity, new_files
from slackwater.errors import CheckpointError

ODD = "ö ä%20;x#é [1]?*{a} (b)'c\"d+&=,~!@$^`|<>\u00a0\u2028\u200d😀"
POINTS = ["move.staged", "move.begun", "move.file", "move.after"]


class Place:
    """A checkpoint with the logs that Spark's file source leaves: a compact file, plain ones, their checksums.

    Batch 0 to 2 are committed, batch 3 has an intent alone.
    """

    def __init__(self, root: Path, old: Path, new: Path):
        self.root, self.old, self.new = root, old, new
        self.checkpoint = Checkpoint(str(root / "ck"))
        self.checkpoint.acquire()
        self.checkpoint.open_query({"outputs": {}})
        self.names = [f"k=ü x/{i}%41.parquet" for i in range(4)]
        for i, name in enumerate(self.names):
            (old / name).parent.mkdir(parents=True, exist_ok=True)
            (old / name).write_bytes(b"x" * (10 + i))
        log = root / "ck" / "sources" / "0"
        log.mkdir(parents=True)
        self.logs = {"1.compact": [0, 1], "2": [2], "3": [3]}
        for file, batches in self.logs.items():
            lines = [self.entry(old, b) for b in batches]
            (log / file).write_text("\n".join(["v1", *lines]), encoding="utf-8")
            (log / f".{file}.crc").write_bytes(b"crc of the old text")
        (log / ".4.some.tmp").write_bytes(b"torn")
        offsets = root / "ck" / "offsets"
        offsets.mkdir()
        for b in range(4):
            (offsets / str(b)).write_text(f'v1\n{{}}\n{{"logOffset":{b}}}\n-')
            files = {"0": [identity(str(old / self.names[b]))]}
            intent = Intent(b, 1, b - 1, b, None, 1, False, 0, (), "", files)
            manifests.write_intent(self.checkpoint, intent)
            if b < 3:
                manifests.commit(self.checkpoint, Manifest(b, 1, b, 1, {}, {}, {}, {}))

    def entry(self, folder: Path, batch: int) -> str:
        path = uri(str(folder / self.names[batch]))
        entry = {"path": path, "timestamp": 1000 + batch, "batchId": batch}
        return json.dumps(entry, separators=(",", ":"), ensure_ascii=False)

    def reading(
        self, directory: Path | None = None, moved_from: Path | None = None
    ) -> OpenedSource:
        return OpenedSource(
            0, (0,), "'s'", str(directory or self.new), moved_from and str(moved_from)
        )  # type: ignore[arg-type]

    def start(self, directory: Path | None = None, moved_from: Path | None = None) -> None:
        moving.resume(self.checkpoint)
        open_directories(self.checkpoint, [self.reading(directory, moved_from)])

    def move(self) -> None:
        self.new.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(self.old, self.new)

    def stored(self) -> dict[str, Any]:
        return self.checkpoint.open_query({})

    def speaks_of(self, folder: Path) -> bool:
        """Whether all that the checkpoint has of files speaks of this directory, as Spark would write it."""
        log = self.root / "ck" / "sources" / "0"
        found = {f: (log / f).read_text(encoding="utf-8").split("\n") for f in self.logs}
        wanted = {
            f: ["v1", *(self.entry(folder, b) for b in batches)] for f, batches in self.logs.items()
        }
        files = [new_files(self.root / "ck", 0, b) for b in range(4)]
        intents = [manifests.read_intent(self.checkpoint, b) for b in range(4)]
        identities = [i.files["0"] for i in intents if i is not None]
        return (
            found == wanted
            and files == [[str(folder / n)] for n in self.names]
            and identities == [[identity(str(folder / n))] for n in self.names]
        )


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug here: do not wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture(params=["plain", "odd"])
def place(request: Any, tmp_path: Path) -> Iterator[Place]:
    names = ("old", "new") if request.param == "plain" else (ODD, f"b/{ODD} 2")
    made = Place(tmp_path, tmp_path / names[0], tmp_path / names[1])
    yield made
    made.checkpoint.release()


def refused(place: Place, *arguments: Any) -> CheckpointError:
    """The error of a start that must leave the checkpoint as it is."""
    before = contents(place)
    with pytest.raises(CheckpointError) as caught:
        place.start(*arguments)
    assert contents(place) == before
    assert caught.value.hint
    return caught.value


def contents(place: Place) -> dict[str, bytes]:
    """All files of the checkpoint; what a dead start staged is no part of it."""
    files = [p for p in (place.root / "ck").rglob("*") if p.is_file()]
    return {str(p): p.read_bytes() for p in files if "moving.tmp" not in p.parts}


def test_another_directory_is_refused_with_both_paths(place: Place):
    place.start(place.old)
    assert place.stored()["directories"] == {"0": str(place.old)}
    place.move()
    error = refused(place)
    assert error.condition == "SOURCE_MOVED"
    assert str(place.old) in error.message and str(place.new) in error.message
    assert f'movedFrom="{place.old}"' in error.hint


def test_a_moved_directory_is_taken_and_movedFrom_may_stay(place: Place):
    place.start(place.old)
    place.move()
    for f in place.new.rglob("*.parquet"):
        os.utime(f, ns=(1, 1))  # a copy has another time
    place.start(None, place.old)
    assert place.speaks_of(place.new)
    log = place.root / "ck" / "sources" / "0"
    assert not list(log.glob(".*.crc")), "Spark would compare the new text with the old checksum"
    assert not list(place.checkpoint.root.glob("moving*"))
    after = contents(place)
    place.start(None, place.old)
    place.start()
    assert contents(place) == after
    assert place.stored()["directories"] == {"0": str(place.new)}
    # And back again.
    shutil.move(place.new, place.old)
    place.start(place.old, place.new)
    assert place.speaks_of(place.old)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("place", ["odd"], indirect=True)
@pytest.mark.parametrize("again", ["same", "without"])
def test_a_start_that_dies_while_it_moves(
    place: Place, point: str, again: str, monkeypatch: pytest.MonkeyPatch
):
    place.start(place.old)
    place.move()
    for hit in (1, 3) if point == "move.file" else (1,):
        failpoints.reset()
        monkeypatch.setenv(failpoints.ENV, f"{point}=raise@{hit}")
        with pytest.raises(failpoints.InjectedFailure):
            place.start(None, place.old)
        monkeypatch.delenv(failpoints.ENV)
    begun = point != "move.staged"
    if again == "without" and not begun:
        assert refused(place).condition == "SOURCE_MOVED"
    place.start(None, place.old if again == "same" or not begun else None)
    assert place.speaks_of(place.new)
    assert place.stored()["directories"] == {"0": str(place.new)}
    assert not list(place.checkpoint.root.glob("moving*"))


def test_a_directory_below_the_old_one_moves_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # A path that was rewritten lies below the old directory, too: a second try must not move it again.
    place = Place(tmp_path, tmp_path / "data", tmp_path / "data" / "in")
    place.start(place.old)
    shutil.move(place.old, tmp_path / "aside")
    place.old.mkdir()
    shutil.move(tmp_path / "aside", place.new)
    failpoints.reset()
    monkeypatch.setenv(failpoints.ENV, "move.file=raise@3")
    with pytest.raises(failpoints.InjectedFailure):
        place.start(None, place.old)
    monkeypatch.delenv(failpoints.ENV)
    place.start(None, place.old)
    assert place.speaks_of(place.new)


def test_a_damaged_move_is_named(place: Place, monkeypatch: pytest.MonkeyPatch):
    place.start(place.old)
    place.move()
    failpoints.reset()
    monkeypatch.setenv(failpoints.ENV, "move.begun=raise")
    with pytest.raises(failpoints.InjectedFailure):
        place.start(None, place.old)
    monkeypatch.delenv(failpoints.ENV)
    staged = place.checkpoint.root / "moving" / "0"
    staged.write_bytes(staged.read_bytes()[:-1])
    error = refused(place, None, place.old)
    assert (error.condition, str(staged) in error.message) == ("DAMAGED_FILE", True)
    staged.unlink()
    assert refused(place, None, place.old).condition == "DAMAGED_FILE"


def test_a_damaged_log_is_named(place: Place):
    place.start(place.old)
    place.move()
    log = place.root / "ck" / "sources" / "0" / "2"
    log.write_text('v1\n{"path":', encoding="utf-8")
    error = refused(place, None, place.old)
    assert (error.condition, str(log) in error.message) == ("DAMAGED_FILE", True)


def test_movedFrom_must_be_what_was_read(place: Place, tmp_path: Path):
    place.start(place.old)
    place.move()
    error = refused(place, None, tmp_path / "other")
    assert error.condition == "NOT_MOVED_FROM"
    assert all(str(p) in error.message for p in (place.old, place.new, tmp_path / "other"))
    place.start(None, place.old)
    # Where it was before is known now; a path that it never had is not.
    assert refused(place, None, tmp_path / "other").condition == "NOT_MOVED_FROM"
    place.start(None, place.new)


def test_files_that_are_left_in_the_old_directory(place: Place):
    place.start(place.old)
    shutil.copytree(place.old, place.new)
    error = refused(place, None, place.old)
    assert error.condition == "NOT_MOVED"
    assert str(place.old) in error.message and str(place.new) in error.message
    for f in [f for f in place.old.rglob("*") if f.is_file()]:
        f.unlink()
    (place.old / ".hidden").touch()  # nobody reads it, nor empty folders
    place.start(None, place.old)
    assert place.speaks_of(place.new)


def test_the_old_name_may_be_a_link_to_the_new_directory(place: Place):
    place.start(place.old)
    place.move()
    place.old.symlink_to(place.new)
    place.start(None, place.old)
    assert place.speaks_of(place.new)


@pytest.mark.parametrize("damage", ["longer", "gone"])
def test_files_of_a_batch_to_be_repeated_must_have_their_length(place: Place, damage: str):
    place.start(place.old)
    place.move()
    done, pending = place.new / place.names[1], place.new / place.names[3]
    done.unlink()  # its batch is committed: nobody reads it again
    if damage == "gone":
        pending.unlink()
    else:
        pending.write_bytes(pending.read_bytes() + b"y")
    error = refused(place, None, place.old)
    assert error.condition == "INPUT_CHANGED" and str(pending) in error.message
    pending.write_bytes(b"z" * 13)
    place.start(None, place.old)
    intent = manifests.read_intent(place.checkpoint, 3)
    assert intent is not None and intent.files == {"0": [identity(str(pending))]}


def test_a_checkpoint_that_knows_no_directory(place: Place, tmp_path: Path):
    """One of an earlier version: its log tells what was read, and its next start's directory is stored."""
    assert "directories" not in place.stored()
    place.move()
    error = refused(place)
    assert error.condition == "SOURCE_MOVED"
    assert str(place.old) in error.message and str(place.new) in error.message
    assert refused(place, None, tmp_path / "other").condition == "NOT_MOVED_FROM"
    place.start(None, place.old)
    assert place.speaks_of(place.new)
    assert place.stored()["directories"] == {"0": str(place.new)}


def test_movedFrom_on_a_new_checkpoint_does_nothing(tmp_path: Path):
    checkpoint = Checkpoint(str(tmp_path / "ck"))
    checkpoint.acquire()
    checkpoint.open_query({})
    for _ in range(2):
        open_directories(checkpoint, [OpenedSource(0, (0,), "'s'", "/new", "/old")])
    assert checkpoint.open_query({})["directories"] == {"0": "/new"}
    checkpoint.release()


def test_two_sources_move_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place = Place(tmp_path, tmp_path / "old", tmp_path / "new")
    log = place.root / "ck" / "sources" / "1"
    log.mkdir()
    text = 'v1\n{{"path":"{}/x","timestamp":1,"batchId":0}}'
    (log / "0").write_text(text.format(uri(str(tmp_path / "second"))))
    second = OpenedSource(1, (1,), "'t'", str(tmp_path / "second"))
    open_directories(place.checkpoint, [place.reading(place.old), second])
    place.move()
    moved = OpenedSource(1, (1,), "'t'", "/third", str(tmp_path / "second"))
    failpoints.reset()
    monkeypatch.setenv(failpoints.ENV, "move.file=raise@2")
    with pytest.raises(failpoints.InjectedFailure):
        open_directories(place.checkpoint, [place.reading(None, place.old), moved])
    monkeypatch.delenv(failpoints.ENV)
    moving.resume(place.checkpoint)
    open_directories(place.checkpoint, [place.reading(None, place.old), moved])
    assert place.speaks_of(place.new)
    assert (log / "0").read_text() == text.format("file:///third")
    assert place.stored()["moved"] == {"0": [str(place.old)], "1": [str(tmp_path / "second")]}
    place.checkpoint.release()


def test_a_finished_move_that_dies_while_it_tidies_up_is_finished(place: Place):
    place.start(place.old)
    folder = place.checkpoint.root / "moving"
    folder.mkdir()
    place.start(place.old)
    assert not folder.exists() and place.speaks_of(place.old)


def test_a_lost_description_of_a_move_is_named(place: Place):
    """Files that wait without it are no state that a crash leaves: some may be in their places already."""
    place.start(place.old)
    folder = place.checkpoint.root / "moving"
    folder.mkdir()
    (folder / "0").write_bytes(seal(asdict(Directory("x"))))
    with pytest.raises(CheckpointError, match=r"moving/move\.json") as error:
        place.start(place.old)
    assert error.value.condition == "LOST_FILE"
    assert (folder / "0").exists()


def test_paths_are_local_and_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    assert local("in/../in/") == str(tmp_path / "in")
    assert local("file:///a/b") == local("file:/a/b") == local("/a//b/") == "/a/b"
    item = SplitInput(None, str(tmp_path / "in"), ())
    assert spark_sources([item]) == (SparkSource(0, (0,), Directory(str(tmp_path / "in"))),)


def test_uris_are_written_as_java_writes_them():
    assert uri("/") == "file://" and uri("/a b/") == "file:///a%20b"
    assert uri("/%[]?#ü\u00a0\\") == "file:///%25%5B%5D%3F%23ü%C2%A0%5C"
    assert uri("hdfs://host:1/a b") == "hdfs://host:1/a%20b"
