"""Which commit a line of a table was run at, and whether the line still says something about this one."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
WATCHED = ("src/slackwater/engine", "src/slackwater/sinks")
"""A line that is older than the last change of these is run again."""

CHANGED = "+"
"""Ends the name of a commit to which watched files were changed: such a line is never fresh."""


def _git(*arguments: str) -> tuple[int, str]:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return 1, ""
    return done.returncode, done.stdout.strip()


@cache
def here() -> str:
    """The commit of this tree in nine digits; with a plus if its watched files are not those of the commit."""
    code, name = _git("rev-parse", "--short=9", "HEAD")
    if code:
        return "unknown"
    _, changes = _git("status", "--porcelain", "--", *WATCHED)
    return name + CHANGED if changes else name


@cache
def fresh(commit: str) -> bool:
    """Whether watched files are today what they were at a commit. One that git does not know is not fresh."""
    if not commit or here().endswith(CHANGED):
        return False
    code, _ = _git("diff", "--quiet", commit, "--", *WATCHED)
    return code == 0
