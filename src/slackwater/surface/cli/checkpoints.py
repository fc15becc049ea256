"""A checkpoint as the commands see it: what was asked, and what the last batch left. Needs no Spark, and takes no lock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slackwater.engine.store import history
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.files import unseal

LATE = "late rows"


@dataclass(frozen=True)
class LateOutput:
    """An output with late rows: of which stream, which column tells its partitions, and where its files are."""

    name: str
    stream: str
    partition: str | None
    format: str
    path: Path | None


@dataclass(frozen=True)
class Seen:
    """What a checkpoint holds; ``records`` are those of its batches, oldest first."""

    checkpoint: Checkpoint
    description: dict[str, Any]
    records: list[dict[str, Any]]

    @property
    def last(self) -> dict[str, Any]:
        """The record of the newest batch; empty before the first."""
        return self.records[-1] if self.records else {}

    def late_outputs(self) -> list[LateOutput]:
        """The outputs that are made of late rows."""
        made = []
        sinks = {s["name"]: s for s in self.last.get("sinks", [])}
        for name, tree in self.description.get("outputs", {}).items():
            lines = [line.strip() for line in tree]
            if LATE not in lines:
                continue
            source = next((x for x in lines[lines.index(LATE) :] if x.startswith("stream ")), "")
            stream = source.removeprefix("stream ").partition("(")[0]
            column = re.search(r" partition (.+?)(?: order .*| late .*)?$", source)
            sink = sinks.get(name, {})
            path = None if sink.get("path") is None else Path(sink["path"])
            kind = str(sink.get("description", ""))
            made.append(LateOutput(name, stream, column.group(1) if column else None, kind, path))
        return made


def seen(location: Path) -> Seen:
    """Read a checkpoint; an error if it is none."""
    records = history.read(location)
    checkpoint = Checkpoint(str(location))
    description = {}
    if checkpoint.storage.exists(checkpoint.description_file):
        description = unseal(
            checkpoint.storage, checkpoint.description_file, what="query description", kind="query"
        )
    return Seen(checkpoint, description, records)
