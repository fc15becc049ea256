"""What a start checks of its checkpoint before anything runs: that nothing of it is gone, damaged or older.

The newest manifest names what it relies on: the runs with their checksums, the version of the query's description,
how far Spark's logs had come. A checkpoint that does not hold it is refused, and the error names the file. An older copy of the *whole*
checkpoint agrees with itself, so it cannot be told from a checkpoint.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from slackwater.engine.driver.host import Host
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.evidence import check_newest
from slackwater.engine.store.files import damaged, file_checksum
from slackwater.engine.store.manifest import Manifest, Run

READERS = 4
FEW_BYTES = 1 << 20
"""State that one thread has read before several have started."""


def recovered(checkpoint: Checkpoint, host: Host) -> Manifest | None:
    """The newest manifest, once all that it relies on is known to be there; None for a new query."""
    last = manifests.last(checkpoint)
    check_newest(checkpoint, last)
    host.check_logs(checkpoint, last)
    if last is not None:
        checkpoint.check_description(last.query, last.description)
        if not checkpoint.verified:
            check_state(checkpoint, last)
    checkpoint.verified = True
    return last


def check_state(checkpoint: Checkpoint, last: Manifest) -> None:
    """Read every run that a manifest names, and compare length and checksum.

    A damaged run may be needed many batches later only; by then results of this run would be out.
    """
    runs = {r.name: r for groups in last.runs.values() for g in groups for r in g}
    runs.update({r.name: r for tables in last.tables.values() for r in tables})
    if sum(run.bytes for run in runs.values()) <= FEW_BYTES:
        for run in runs.values():
            _check_run(checkpoint, last, run)
        return
    with ThreadPoolExecutor(READERS, "slackwater-checking") as pool:
        for _ in pool.map(lambda run: _check_run(checkpoint, last, run), runs.values()):
            pass


def _check_run(checkpoint: Checkpoint, last: Manifest, run: Run) -> None:
    path = checkpoint.runs / run.name
    try:
        size, crc = file_checksum(checkpoint.storage, path)
    except FileNotFoundError:
        reason = f"it is gone, and the manifest of batch {last.batch} names it"
        raise damaged(path, "state file", reason) from None
    if (size, crc) != (run.bytes, run.crc):
        raise damaged(
            path, "state file", f"{size} bytes where {run.bytes} were written, or another checksum"
        )
