"""State that commit e35c92f stored, in which names of ours had no prefix, goes on as if it were today's."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.local import PRIVATE
from slackwater.engine.store.manifest import PLAIN_NAMES, PREFIXED_NAMES, Run
from slackwater.engine.store.runs import read_run, write_run
from slackwater.engine.store.storage import Folder
from slackwater.model.names import BUCKET, TIME
from tests.engine.in_process import Engine, Make
from tests.engine.old_names import BEFORE, CASES, data, play, reopened

ARCHIVES = Path(__file__).parent / "old_checkpoints"


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(r) for r in rows)


def opened(engine: Engine, name: str) -> dict[str, list[dict[str, Any]]]:
    """Lay the old checkpoint into the engine's folder; the rows that came out then."""
    with zipfile.ZipFile(ARCHIVES / f"{name}.zip") as archive:
        archive.extractall(engine.folder)
    engine.host.batches = [{0: ["read"]}] * BEFORE
    found: dict[str, list[dict[str, Any]]] = json.loads(
        (engine.folder / "results.json").read_text()
    )
    return found


def kinds(engine: Engine) -> set[int]:
    last = manifests.last(engine.checkpoint)
    assert last is not None
    return {r.kind for groups in last.runs.values() for g in groups for r in g}


@pytest.mark.parametrize("name", CASES)
def test_an_old_checkpoint_goes_on(engine: Make, name: str) -> None:
    """With another number of groups, so that pieces of runs go to other tasks."""
    whole = engine("whole")
    whole.start(CASES[name]())
    play(whole, data())
    whole.batch(final=True)
    whole.stop()

    old = engine("old")
    before = opened(old, name)
    old.start(reopened(name, CASES[name](), old), groups=3)
    assert kinds(old) == {PLAIN_NAMES}
    seen = set()
    for rows in data()[BEFORE:]:
        play(old, [rows])
        seen |= {frozenset(kinds(old))}
    old.batch(final=True)
    old.stop()
    # New runs stand beside old ones in one manifest.
    assert frozenset({PLAIN_NAMES, PREFIXED_NAMES}) in seen
    for output in whole.results:
        assert counted(before[output]) and counted(old.rows(output))
        got = counted(before[output]) + counted(old.rows(output))
        assert got == counted(whole.rows(output)), output


def test_an_old_checkpoint_has_the_ids_that_operators_have_today() -> None:
    for name, made in CASES.items():
        with zipfile.ZipFile(ARCHIVES / f"{name}.zip") as archive:
            stored = {Path(n).name for n in archive.namelist() if "/runs/" in n}
        ids = [op.id for op in made().operators]
        assert stored and all(any(n.startswith(f"{i}-b") for i in ids) for n in stored), name


def test_a_run_says_its_kind_and_one_that_says_none_is_old(tmp_path: Path) -> None:
    rows = pa.table({"x": [7, 8], TIME: [1, 2], BUCKET: pa.array([0, 3], pa.int16())})
    new = write_run(Folder(PRIVATE, tmp_path), "r", rows, TIME)
    said = {**vars(new), "buckets": list(new.buckets)}
    assert Run.from_json(said) == new and new.kind == PREFIXED_NAMES
    said.pop("kind")
    assert Run.from_json(said).kind == PLAIN_NAMES


def test_only_names_that_are_ours_today_are_translated(tmp_path: Path) -> None:
    """An aggregate's partials have the names that they had; a user's column keeps its own."""
    old = pa.table({"_pass": [7], "_time": [1], "_bucket": pa.array([3], pa.int16())})
    run = write_run(Folder(PRIVATE, tmp_path), "r", old, "_time")
    run = Run.from_json({k: v for k, v in vars(run).items() if k != "kind"})
    rows = pa.schema([("_pass", pa.int64()), (TIME, pa.int64()), (BUCKET, pa.int16())])
    assert read_run(Folder(PRIVATE, tmp_path), run, (0, 256), rows).column_names == [
        "_pass",
        TIME,
        BUCKET,
    ]
    assert (
        read_run(Folder(PRIVATE, tmp_path), run, (0, 256), old.schema).column_names
        == old.column_names
    )
