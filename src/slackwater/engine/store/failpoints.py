"""Named points at which a test can make the engine fail. Off unless the environment asks.

``SLACKWATER_FAILPOINTS="manifest.before=kill@2,publish.rename=raise"``: at the second hit of
``manifest.before`` the process kills itself with SIGKILL, at the first of ``publish.rename`` an
`InjectedFailure` is raised; ``full`` raises the error of a full disk. Workers inherit the setting, since it also reaches them as part of the task.
Each process counts its own hits. With ``shared=/folder`` in the setting all processes count together, by the length of
a file there, so that one hit of all of them fails.
"""

from __future__ import annotations

import errno
import os
import signal
from collections import Counter

ENV = "SLACKWATER_FAILPOINTS"
KILL_GROUP = "SLACKWATER_KILL_GROUP"
SHARED = "shared"

POINTS = {
    "lock.taken": "the lock is held, the epoch not yet written",
    "epoch.written": "the fencing epoch is on disk",
    "query.written": "a new checkpoint's description is on disk",
    "intent.before": "nothing of the batch is on disk",
    "intent.after": "the intent is on disk, the job not started",
    "task.run.before": "a group task is about to write a state run",
    "task.run.after": "a group task has written a state run",
    "task.output.before": "a task is about to write an output file",
    "task.output.after": "a task has written an output file",
    "job.after": "the job is done, its descriptors are in the driver",
    "manifest.before": "the manifest is written under a temporary name",
    "manifest.after": "the manifest is committed, nothing published",
    "publish.begun": "a mark says that publishing begins, nothing is published",
    "publish.rename": "before one output file is moved into the sink",
    "publish.after": "all outputs are in place, the batch not yet marked as published",
    "published.after": "the batch is marked as published, Spark has not committed it",
    "compact.before": "a group task is about to merge runs",
    "gc.before": "before one dead file is removed",
    "gc.after": "garbage has been collected",
}

"""Steps of every query: the fault tests kill each scenario at each of them."""

MOVE_POINTS = {
    "move.staged": "the rewritten logs of a moved source directory are on disk, beside the logs",
    "move.begun": "a moved source directory is taken: a start from now on finishes it",
    "move.file": "before one rewritten log takes its place",
    "move.after": "all logs speak of the new directory, the query's description of the old one",
}
"""Steps of a start whose source directory moved."""

FEEDBACK_POINTS = {
    "feedback.written": "a request for feedback is on disk, nobody has taken it",
    "feedback.taken": "the intent that takes feedback in is on disk, files that are no requests are not yet set aside",
}
"""Steps of a query that is sent feedback."""
RELATION_POINTS = {
    "relation.listed": "the list of a relation's version is on disk, no intent names it yet",
}
"""Steps of a query that reads a relation."""

COPY_POINTS = {
    "copy.begun": "the folder is there in which a copy of a relation is made",
    "copy.written": "a copy is whole, and has no name yet",
    "copy.finished": "a copy has its name, no batch has taken it",
    "copy.adopted": "the list of a copy's files is on disk, no intent names it yet",
    "copy.swept": "before a copy is removed that nothing needs",
}
"""Steps of a query that makes copies of a relation."""

DISK_POINTS = {
    "disk.checkpoint": "the driver is about to write a file of the checkpoint",
    "disk.run": "a group task is about to write a state run",
    "disk.spill": "a group task is about to write a block of a join's rows",
    "disk.output": "a task is about to write an output file",
    "disk.publish": "an output file is about to be moved into the sink",
}
"""Writes that find the disk full if the setting says ``full``."""

_ALL = {**POINTS, **MOVE_POINTS, **FEEDBACK_POINTS, **RELATION_POINTS, **COPY_POINTS, **DISK_POINTS}


class InjectedFailure(RuntimeError):
    """Raised at a failpoint set to ``raise``."""


_hits: Counter[str] = Counter()


def _kill() -> None:
    # A task runs in a worker process: the test names the process group that stands for the machine.
    group = os.environ.get(KILL_GROUP)
    if group:
        os.killpg(int(group), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def reset() -> None:
    """Forget how often each point was hit."""
    _hits.clear()


def _counted(point: str, shared: str) -> int:
    """The number of this hit."""
    if not shared:
        _hits[point] += 1
        return _hits[point]
    fd = os.open(os.path.join(shared, point), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, b".")
        return os.lseek(fd, 0, os.SEEK_CUR)  # where this byte ends, whoever has written since
    finally:
        os.close(fd)


def hit(point: str, setting: str | None = None) -> None:
    """Fail here if the environment (or the given setting) says so."""
    text = setting if setting is not None else os.environ.get(ENV, "")
    if not text:
        return
    if point not in _ALL:
        raise KeyError(point)
    items = [item.strip().partition("=") for item in text.split(",")]
    shared = next((value for name, _, value in items if name == SHARED), "")
    for name, _, value in items:
        if name != point:
            continue
        action, _, count = value.partition("@")
        if _counted(point, shared) != int(count or 1):
            continue
        if action == "kill":
            _kill()
        if action == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise InjectedFailure(f"failpoint {point}")
