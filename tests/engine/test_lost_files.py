"""What proves that a file of the checkpoint was there, case by case; `test_damage` draws at random."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.plan.layout import build
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.control import request_flush, requested_flushes
from slackwater.engine.store.files import seal, unseal
from slackwater.engine.store.local import PRIVATE
from slackwater.engine.store.manifest import Intent, Manifest
from slackwater.errors import CheckpointError
from tests.engine import test_low_table as low_tables
from tests.engine.on_disk import Place, no_spark, write_inputs

__all__ = ["no_spark"]

pytestmark = pytest.mark.usefixtures("no_spark")
STOPPED = 5
NEW = {"query", "description", "inputs", "logs", "kind"}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Five batches, all of them ended for Spark, too; one more and the end are to come."""
    root = tmp_path_factory.mktemp("stopped")
    tables = [low_tables.table(r) for r in low_tables.batches(7, STOPPED + 1)]
    files = write_inputs(root / "in", tables)
    place = Place(root / "state", low_tables.plan_of(10, 5), files)
    with pytest.MonkeyPatch.context() as patch:
        no_spark.__wrapped__(patch)  # type: ignore[attr-defined]
        place.run(STOPPED)
        yield place


@pytest.fixture(scope="module")
def expected(stopped: Place) -> Any:
    whole = stopped.copy(stopped.root.parent / "whole")
    whole.run()
    return whole.rows()


@pytest.fixture
def place(stopped: Place, tmp_path: Path) -> Place:
    return stopped.copy(tmp_path / "state")


def own(place: Place, name: str) -> Path:
    return place.location / "slackwater" / name


def refused(place: Place, *words: str, condition: str = "") -> None:
    """The start fails with an error that has these words, and publishes nothing."""
    before = place.published()
    with pytest.raises(CheckpointError) as error:
        place.run()
    for word in words:
        assert word in str(error.value), error.value
    assert error.value.condition in (condition, error.value.condition if not condition else "")
    assert place.published() == before


NEWEST = f"{STOPPED - 1:012d}"
PROOFS: dict[str, Callable[[Path], bool]] = {
    "published mark": lambda p: p.name == NEWEST,
    "begun mark": lambda p: p.name == f"{NEWEST}.begun",
    "intent and commit": lambda p: p.name in (f"{NEWEST}.json", str(STOPPED - 1)),
}


@pytest.mark.parametrize("proof", PROOFS)
def test_each_proof_alone_shows_that_the_newest_manifest_is_gone(proof: str, place: Place) -> None:
    own(place, f"manifests/{NEWEST}.json").unlink()
    others = [own(place, f"published/{NEWEST}"), own(place, f"published/{NEWEST}.begun"),
              own(place, f"intents/{NEWEST}.json"), place.location / "commits" / str(STOPPED - 1)]  # fmt: skip
    for path in others:
        if not PROOFS[proof](path):
            path.unlink()
    refused(place, f"manifests/{NEWEST}.json", f"batch {STOPPED - 1}", condition="LOST_FILE")


def test_an_intent_without_a_commit_is_a_batch_to_be_repeated(
    stopped: Place, tmp_path: Path, expected: Any
) -> None:
    for point in ("intent.after", "manifest.after"):
        place = stopped.copy(tmp_path / point)
        place.crash(point, STOPPED + 1)
        own(place, f"manifests/{STOPPED:012d}.json").unlink(missing_ok=True)
        place.run()
        assert place.rows() == expected


def test_a_publish_that_began_is_not_computed_again(stopped: Place, tmp_path: Path) -> None:
    place = stopped.copy(tmp_path / "state")
    place.crash("publish.rename", STOPPED + 1)
    own(place, f"manifests/{STOPPED:012d}.json").unlink()
    refused(place, f"manifests/{STOPPED:012d}.json", "began to publish", condition="LOST_FILE")


def test_a_commit_of_spark_without_an_intent_is_an_idle_batch(
    stopped: Place, tmp_path: Path, expected: Any
) -> None:
    files = [*stopped.files[:STOPPED], [], [], *stopped.files[STOPPED:]]
    place = Place(tmp_path / "state", stopped.plan, files)
    stopped.copy(place.root)
    place.run(STOPPED + 2)
    assert max(manifests.committed(place.checkpoint)) == STOPPED - 1
    assert (place.location / "commits" / str(STOPPED + 1)).exists()
    place.run()
    assert place.rows() == expected


def test_a_manifest_that_is_deleted_while_the_query_runs(place: Place, monkeypatch: Any) -> None:
    checkpoint = place.checkpoint
    checkpoint.acquire()
    loop = place._opened(checkpoint, place.plan)
    place._log(STOPPED)
    own(place, f"manifests/{NEWEST}.json").unlink()
    with pytest.raises(CheckpointError, match=f"manifests/{NEWEST}"):
        loop.run(None, STOPPED)  # type: ignore[arg-type]
    checkpoint.release()


def test_an_intent_knows_the_manifest_it_began_from(stopped: Place, tmp_path: Path) -> None:
    place = stopped.copy(tmp_path / "state")
    place.crash("intent.after", STOPPED + 1)
    for path in (own(place, "manifests"), own(place, "published"), own(place, "intents")):
        for file in path.glob(f"{NEWEST}*"):
            file.unlink()
    refused(place, f"manifests/{NEWEST}.json")


def test_sealed_files_say_what_they_are(place: Place) -> None:
    one, other = own(place, f"manifests/{NEWEST}.json"), own(place, f"intents/{NEWEST}.json")
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    refused(place, f"manifests/{NEWEST}.json", condition="DAMAGED_FILE")
    one.write_bytes(data)
    own(place, "query.json").write_bytes(data)
    refused(place, "query.json", condition="DAMAGED_FILE")


def test_a_manifest_under_another_name(place: Place) -> None:
    old = own(place, f"manifests/{STOPPED - 2:012d}.json").read_bytes()
    own(place, f"manifests/{NEWEST}.json").write_bytes(old)
    refused(place, f"manifests/{NEWEST}.json", f"batch {STOPPED - 2}", condition="DAMAGED_FILE")


def test_an_older_description_of_the_query(stopped: Place, tmp_path: Path, expected: Any) -> None:
    place = Place(tmp_path / "state", stopped.plan, stopped.files)
    place.run(2, plan=build(stopped.plan.outputs[:1], ansi=True, zone="UTC"))
    path = own(place, "query.json")
    old = path.read_bytes()
    assert unseal(PRIVATE, path, what="", kind="query")["version"] == 1
    place.run(3)
    newer = path.read_bytes()
    assert unseal(PRIVATE, path, what="", kind="query")["version"] == 2
    path.write_bytes(old)
    refused(place, "query.json", "version 1", condition="DAMAGED_FILE")
    path.unlink()
    refused(place, "query.json", condition="LOST_FILE")
    path.write_bytes(newer)
    place.run()
    assert place.rows()["small"] == expected["small"]


def test_the_description_of_another_query(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "other", place.plan, place.files)
    other.run(1)
    own(place, "query.json").write_bytes(own(other, "query.json").read_bytes())
    refused(place, "query.json", "another query", condition="DAMAGED_FILE")


def test_an_epoch_is_not_given_twice_to_drivers_that_committed(place: Place) -> None:
    place.run(STOPPED + 1)
    epochs = sorted(own(place, "epochs").iterdir())
    for path in epochs:
        path.unlink()
    checkpoint = place.checkpoint
    checkpoint.acquire()
    assert checkpoint.epoch == len(epochs) + 1
    checkpoint.release()


def test_two_drivers_with_one_number_are_two(tmp_path: Path) -> None:
    first, second = Checkpoint(str(tmp_path)), Checkpoint(str(tmp_path))
    first.acquire()
    (first.epochs / f"{first.epoch:08d}").unlink()
    (first.root / "lock").unlink()
    with pytest.raises(CheckpointError, match="epochs/00000001") as gone:
        first.check_epoch()
    assert gone.value.condition == "LOST_FILE"
    second.acquire()
    assert second.epoch == first.epoch
    with pytest.raises(CheckpointError) as stale:
        manifests.commit(first, Manifest(0, first.epoch, 0, 1, {}, {}, {}, {}))
    assert stale.value.condition == "STALE_EPOCH"
    manifests.commit(second, Manifest(0, second.epoch, 0, 1, {}, {}, {}, {}))
    first.release()
    second.release()


def test_who_asks_again_for_the_newest_manifest_has_it_parsed_once(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.acquire()
    newest = manifests.Newest(checkpoint)
    assert newest.before(5) is None
    for batch in (0, 1):
        manifests.commit(checkpoint, Manifest(batch, checkpoint.epoch, batch, 1, {}, {}, {}, {}))
    first = newest.before(1)
    assert first is not None and first.batch == 0 and newest.before(1) is first
    second = newest.before(5)
    assert second is not None and second.batch == 1 and newest.before(5) is second
    file = checkpoint.root / "manifests" / f"{1:012d}.json"
    file.write_bytes(file.read_bytes().replace(b'"batch":1', b'"batch":2'))
    with pytest.raises(CheckpointError, match="damaged"):
        newest.before(5)
    checkpoint.release()


def test_numbers_of_requests_are_never_used_twice(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.acquire()
    assert [request_flush(checkpoint) for _ in range(3)] == [1, 2, 3]
    (checkpoint.control / "flush-000001").unlink()
    assert request_flush(checkpoint) == 4
    taken = Manifest(0, checkpoint.epoch, 0, 1, {}, {}, {}, {}, flushes=4)
    manifests.commit(checkpoint, taken)
    for path in checkpoint.control.iterdir():
        path.unlink()
    assert requested_flushes(checkpoint, taken) == 4, "no flush that nobody asked for"
    intent = Intent(1, checkpoint.epoch, 0, 1, None, 1, False, 6, (), "", {})
    manifests.write_intent(checkpoint, intent)
    assert request_flush(checkpoint) == 7
    (checkpoint.control / "flush-000007").unlink()
    assert requested_flushes(checkpoint, taken) == 4, (
        "a request that no intent has taken was not sent"
    )
    checkpoint.release()


def test_a_flush_whose_request_is_gone_is_not_done_again(place: Place, expected: Any) -> None:
    place.run(STOPPED + 1, flush=True)
    flushed = manifests.last(place.checkpoint)
    assert flushed is not None and flushed.flushes == 1
    assert not list(own(place, "control").glob("flush-*")), "a request that is done is removed"
    place.run(flush=True)
    last = manifests.last(place.checkpoint)
    assert last is not None and last.flushes == 2


def test_a_lost_mark_publishes_nothing_twice(place: Place, expected: Any) -> None:
    own(place, f"published/{NEWEST}").unlink()
    (place.location / "commits" / str(STOPPED - 1)).unlink()
    place.run()
    assert place.rows() == expected


@pytest.mark.parametrize("damage", ["delete", "flip", "unlisted", "no list", "older list"])
def test_results_that_stay_in_the_checkpoint(damage: str, place: Place) -> None:
    data = own(place, "outputs/large/data")
    listed = own(place, "outputs/large/files.json")
    kept = sorted(data.iterdir())
    old = listed.read_bytes()
    if damage == "older list":
        place.run()
        assert len(list(data.iterdir())) > len(kept)
        listed.write_bytes(old)
        (name,) = [p.name for p in data.iterdir() if p not in kept][:1]
    else:
        name = kept[0].name
    if damage == "delete":
        kept[0].unlink()
    elif damage == "flip":
        kept[0].write_bytes(kept[0].read_bytes()[:-1] + b"?")
    elif damage == "unlisted":
        name = "part-other.parquet"
        (data / name).write_bytes(kept[0].read_bytes())
    elif damage == "no list":
        listed.unlink()
        name = "files.json"
    refused(place, name)


@pytest.mark.parametrize("point", ["", "intent.after", "manifest.after", "publish.rename"])
def test_a_checkpoint_of_an_older_version_opens(
    point: str, stopped: Place, tmp_path: Path, expected: Any
) -> None:
    place = stopped.copy(tmp_path / "state")
    if point:
        place.crash(point, STOPPED + 1)
    as_before(place)
    place.run(STOPPED + 1)
    newest = manifests.last(place.checkpoint)
    assert newest is not None and (newest.batch == STOPPED or not point)
    place.run()
    assert place.rows() == expected


def as_before(place: Place) -> None:
    """The files as version 0.1 wrote them: without names, digests, checksums of outputs, marks of a publish that begins."""
    for path in [own(place, "query.json"), *own(place, ".").glob("*/*.json")]:
        if path.name == "files.json":
            continue
        document = unseal(PRIVATE, path, what="")
        for name in [*NEW, "version"]:
            document.pop(name, None)
        for files in document.get("outputs", {}).values() if "groups" in document else ():
            for file in files:
                file.pop("crc", None)
        path.write_bytes(seal(document))
        assert not NEW & set(json.loads(path.read_bytes().partition(b"\n")[0]))
    for path in [
        *own(place, "published").glob("*.begun"),
        *own(place, "outputs").glob("*/files.json"),
    ]:
        path.unlink()
    for path in own(place, "epochs").iterdir():
        path.write_text("4711")
