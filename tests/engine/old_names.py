"""Queries whose state was stored by commit e35c92f, with the rows that they read: see ``old_checkpoints``.

``python -m tests.engine.old_names FOLDER``, run at that commit, made the archives there.
"""

from __future__ import annotations

import json
import random
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.plan.sharing import Record, records, share
from slackwater.engine.store import manifest as manifests
from slackwater.testing.transcripts.script import parse
from tests.engine.in_process import Engine

COLUMNS = {"k": "bigint", "ta": "bigint", "tb": "bigint", "v": "bigint"}
BEFORE, AFTER = 5, 4
"""Batches that the old version ran, and that are left."""

Rows = list[dict[str, Any]]


def data() -> list[Rows]:
    """Rows of all batches, out of order."""
    rng = random.Random(11)
    made = []
    for b in range(BEFORE + AFTER):
        rows = []
        for _ in range(14):
            side, time = rng.randrange(2), max(0, 4 * b + rng.randrange(-3, 4))
            at = {"ta": time if side == 0 else None, "tb": None if side == 0 else time}
            rows.append({"k": rng.choice([1, 2, 3, 4, None]), **at, "v": rng.randrange(6)})
        made.append(rows)
    return made


def table(rows: Rows) -> pa.Table:
    """Rows as they are written to a file."""
    return pa.table({c: pa.array([r[c] for r in rows], pa.int64()) for c in COLUMNS})


def _sorted() -> dict[str, Any]:
    return {"out": [{"from": "s"}, {"sort": "ta"}]}


def _distinct() -> dict[str, Any]:
    dedup = {"subset": ["k", "v"], "within": 12, "time": "ta"}
    return {"out": [{"from": "s"}, {"dedup": dedup}]}


def _joined(**more: Any) -> dict[str, Any]:
    sides = [{"as": "a", "from": [{"from": "s"}, {"select": {"k": "k", "ta": "ta", "v": "v"}}]},
             {"as": "b", "from": [{"from": "s"}, {"select": {"k": "k", "tb": "tb", "v": "v"}}]}]  # fmt: skip
    step = {"join": sides, "times": ["ta", "tb"], "keys": ["k"], "how": "full"}
    return {"out": [{**step, "band": {"before": 9, "after": 7}, **more}]}


def _windows() -> dict[str, Any]:
    window = {"range": 12, "slide": 4, "time": "ta"}
    step = {"window": window, "by": ["k"], "agg": {"n": "count(*)", "t": "sum(v)"}}
    return {"out": [{"from": "s"}, step]}


def plan_of(query: dict[str, Any]) -> Plan:
    """The plan of a transcript's query."""
    stream = {"columns": COLUMNS, "time": ["ta", "tb"], "progress": {"bounded_delay": 5}}
    script = {"name": "old", "streams": {"s": stream}, "query": query, "script": [{"end": True}]}
    found = parse(script)
    outputs = [Output(name, o.node) for name, o in found.outputs.items()]
    return build(outputs, ansi=True, zone="UTC")


def _keyed() -> Plan:
    """A join whose key is no column."""
    plan = plan_of(_joined())
    (output,) = plan.outputs
    keys = tuple(
        (replace(k, expr=replace(k.expr, sql="(`k` % 3)", duck='("k" % 3)')),)
        for (k,) in output.node.keys  # type: ignore[attr-defined]
    )
    node = replace(output.node, keys=keys)  # type: ignore[call-arg]
    return build([replace(output, node=node)], ansi=True, zone="UTC")


def _sorts() -> Plan:
    """Two sorts that share one store of rows."""
    plan = plan_of({
        "out": [{"from": "s"}, {"where": "v < 4"}, {"sort": "ta"}],
        "more": [{"from": "s"}, {"where": "v > 1"}, {"sort": "ta"}],
    })  # fmt: skip
    return share(plan, {}, None, wanted=True)


CASES: dict[str, Callable[[], Plan]] = {
    "sort": lambda: plan_of(_sorted()),
    "dedup": lambda: plan_of(_distinct()),
    "join": lambda: plan_of(_joined()),
    "keyed": _keyed,
    "bounded": lambda: plan_of(_joined(memory=3000)),
    "windows": lambda: plan_of(_windows()),
    "sorts": _sorts,
}


def reopened(name: str, plan: Plan, engine: Engine) -> Plan:
    """The plan for a checkpoint that is there, with the stores that it knows."""
    if name != "sorts":
        return plan
    from slackwater.engine.store.checkpoint import Checkpoint

    last = manifests.last(Checkpoint(str(engine.folder / "ck")))
    known = {n: Record.from_json(r) for n, r in records(plan).items()}
    return share(plan.unshared, known, last, wanted=True)


def play(engine: Engine, batches: list[Rows]) -> None:
    """Batches, each in two files."""
    for rows in batches:
        engine.batch(table(rows[:7]), table(rows[7:]))


def main(folder: str) -> None:
    """Write the archives."""
    import os
    import tempfile

    for name, made in CASES.items():
        with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
            patch.chdir(scratch)
            os.mkdir(name)
            engine = Engine(Path(name), patch)
            engine.start(made())
            play(engine, data()[:BEFORE])
            engine.stop()
            root = Path(name) / "ck" / "slackwater"
            with zipfile.ZipFile(f"{folder}/{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                for path in sorted(root.rglob("*")):
                    if path.is_file() and path.name not in ("lock", "progress.jsonl"):
                        archive.write(path, path.relative_to(Path(name)))
                results = {
                    n: [r for b in sorted(f) for r in f[b]] for n, f in engine.results.items()
                }
                archive.writestr("results.json", json.dumps(results))


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).absolute()))
