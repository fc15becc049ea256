"""Removing what no manifest needs: old manifests with their state runs, and leavings of tasks and drivers.

Guarantee: a file that one of the manifests which stay names is never removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.engine import failpoints
from slackwater.engine import manifest as manifests
from slackwater.engine.checkpoint import Checkpoint
from slackwater.engine.clock import wall_micros
from slackwater.engine.control import remove_done
from slackwater.engine.evidence import begun_mark, published_mark
from slackwater.engine.manifest import Manifest
from slackwater.engine.runs import sweep
from slackwater.sinks.base import Sink

KEEP_MANIFESTS = 5
YOUNG_MICROS = 600_000_000


def clean(checkpoint: Checkpoint, done: Manifest) -> None:
    """Drop manifests beyond the newest few, and the runs that only they named. ``done`` is the newest."""
    remove_done(checkpoint, done)
    ids = manifests.committed(checkpoint)
    old, kept = ids[:-KEEP_MANIFESTS], ids[-KEEP_MANIFESTS:]
    if not old:
        return
    live = _live(checkpoint, kept)
    for batch in old:
        gone = manifests.read(checkpoint, batch)
        for name in _names(gone) - live if gone is not None else set():
            failpoints.hit("gc.before")
            (checkpoint.runs / name).unlink(missing_ok=True)
        for path in (
            checkpoint.manifests / f"{batch:012d}.json",
            checkpoint.intents / f"{batch:012d}.json",
            published_mark(checkpoint, batch),
            begun_mark(checkpoint, batch),
        ):
            path.unlink(missing_ok=True)
    failpoints.hit("gc.after")


def sweep_leavings(checkpoint: Checkpoint, sinks: Mapping[str, Sink]) -> None:
    """Remove what tasks left behind that no manifest names: state runs and staged outputs."""
    ids = manifests.committed(checkpoint)
    found = [m for m in (manifests.read(checkpoint, b) for b in ids) if m is not None]
    folders = {checkpoint.runs: _live(checkpoint, ids)}
    for name, sink in sinks.items():
        if sink.staged.is_dir():
            folders[sink.staged] = {f.name for m in found for f in m.outputs.get(name, [])}
    for folder, live in folders.items():
        sweep(folder, live, epoch=checkpoint.epoch, now=wall_micros(), older_than=YOUNG_MICROS)


def _live(checkpoint: Checkpoint, batches: Sequence[int]) -> set[str]:
    """Names of the runs that the manifests of these batches need."""
    live: set[str] = set()
    for batch in batches:
        found = manifests.read(checkpoint, batch)
        if found is not None:
            live |= _names(found)
    return live


def _names(found: Manifest) -> set[str]:
    """Names of the runs of a manifest: state of groups, and tables that all groups share."""
    runs = {r.name for groups in found.runs.values() for g in groups for r in g}
    return runs | {r.name for tables in found.tables.values() for r in tables}
