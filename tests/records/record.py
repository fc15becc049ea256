"""Records of every transcript: what the engine wrote when it ran, kept to be compared with what it writes now.

``python -m tests.records.record [NAME ...]`` writes them anew. Do so only where a commit means to change what is written,
or where a new version of Arrow gives files of another length, and say so in the commit. A change of structure changes no record.
"""

from __future__ import annotations

import difflib
import json
import lzma
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.paths.batch import Settings
from slackwater.testing.transcripts.script import load, run
from tests.records.playing import Record, Way, play

TRANSCRIPTS = Path(__file__).parent.parent / "transcripts"
RECORDS = Path(__file__).parent / "kept"

NOT_PLAYED: dict[str, str] = {}
"""Transcripts that cannot run without Spark, and why. None at present."""

PLANS = ("wids", "buffered", "adaptive", "panes")
SETTINGS = (
    Settings(compact_runs=2),
    Settings(compact_runs=2, low_table=64, low_flush=8),
    Settings(smooth=2),
)


def names() -> list[str]:
    """The transcripts of which there is a record."""
    return sorted(p.stem for p in TRANSCRIPTS.glob("*.yaml") if p.stem not in NOT_PLAYED)


def ways(name: str) -> dict[str, Way]:
    """How a transcript is run: once as most queries are, and once in a way that goes round over the transcripts.

    The second depends on the name alone, so that a new transcript changes no record of another.
    """
    turn = zlib.crc32(name.encode())
    other = Way(
        rows=1 + turn // 7 % 2,
        groups=(3, 1, 2),
        plan=PLANS[turn % len(PLANS)],
        settings=SETTINGS[turn // 5 % len(SETTINGS)],
    )
    return {"splits": Way(), "rows": other}


def made(name: str) -> dict[str, Record]:
    """Run a transcript in each way, check what comes out, and give the records.

    Where work is spread over batches (``smooth``, ``lowTable``), rows may come later than a transcript says.
    """
    transcript = load(TRANSCRIPTS / f"{name}.yaml")
    records = {}
    for label, way in ways(name).items():
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            record, observed = play(transcript, way, Path(folder), patch)
        if not way.settings.smooth and not way.settings.low_table:
            run(transcript, lambda _, observed=observed: observed)  # type: ignore[misc]
        records[label] = record
    return records


def kept(name: str) -> dict[str, Record]:
    """The records that lie in the tree."""
    found: dict[str, Record] = json.loads(lzma.decompress(_file(name).read_bytes()))
    return found


def write(name: str) -> bool:
    """Record a transcript; whether that changed anything."""
    fresh = made(name)
    if _file(name).exists() and kept(name) == fresh:
        return False
    RECORDS.mkdir(exist_ok=True)
    _file(name).write_bytes(lzma.compress(json.dumps(fresh, indent=0).encode(), preset=9))
    return True


def _file(name: str) -> Path:
    return RECORDS / f"{name}.json.xz"


def difference(old: Any, new: Any, where: str = "") -> str | None:
    """The first place where two JSON values differ, with the lines around it; None if they are equal."""
    if old == new:
        return None
    keys: list[Any] = []
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [k for k in {**old, **new} if k in old and k in new]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        keys = list(range(len(old)))
    if isinstance(old, dict) and isinstance(new, dict) and set(old) != set(new):
        keys = []
    for key in keys:
        if old[key] != new[key]:
            deeper = f"{where}[{key}]" if isinstance(key, int) else f"{where}.{key}".lstrip(".")
            inner = old[key], new[key]
            if all(isinstance(v, dict | list) for v in inner):
                return difference(*inner, deeper)
            lines = _lines(old), _lines(new)
            break
    else:
        deeper, lines = where, (_lines(old), _lines(new))
    diff = list(difflib.unified_diff(*lines, "recorded", "now", lineterm="", n=2))
    return "\n".join([f"at {deeper}:", *diff[:60]])


def _lines(value: Any) -> list[str]:
    return json.dumps(value, indent=1, ensure_ascii=False).split("\n")


def main(*wanted: str) -> None:
    for name in wanted or names():
        if write(name):
            print(f"{name}: {_file(name).stat().st_size} bytes", flush=True)
    if not wanted:
        for path in RECORDS.glob("*.json.xz"):
            if path.name.removesuffix(".json.xz") not in names():
                path.unlink()
                print(f"{path.name}: removed, there is no such transcript", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
