"""A transcript on the engine without Spark, and a record of all that the engine wrote meanwhile.

The record holds what is on disk and what users read: the query's description, intents, manifests, progress records, the
text of ``explain`` and the published rows. Random names are numbered, so that a run can be followed from manifest to manifest;
the folder, times and checksums of files are blanked. Instead of a checksum stands a digest of the file's columns and rows.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.driver.opening import open_query, stored_plans, stored_stores
from slackwater.engine.driver.passes import Started, Written, passed
from slackwater.engine.driver.results import RESULTS
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Plan
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.feedback_log import send
from slackwater.engine.store.files import unseal
from slackwater.engine.store.local import PRIVATE
from slackwater.engine.store.versions import version_id
from slackwater.errors import SlackwaterError
from slackwater.model.node import Source
from slackwater.semantics.feedback.standing import Request
from slackwater.surface.explain import explain_plan
from slackwater.testing.executors.local import numbered
from slackwater.testing.executors.observing import clock_of, plain, table_of
from slackwater.testing.local.tables import WrittenTable
from slackwater.testing.transcripts.script import Observed, Step, Transcript
from tests.engine.in_process import Engine

Record = dict[str, Any]
"""What is kept of one run, as JSON has it: ``starts`` and ``batches``, each a list."""


@dataclass(frozen=True)
class Way:
    """How a transcript is run.

    Of the inputs, those whose number ``rows`` has for a multiple are read as rows, the others as splits; 0 means none.
    ``groups`` are the numbers of partition groups, one after each crash.
    """

    rows: int = 0
    groups: tuple[int, ...] = (2, 3, 1)
    plan: str = "auto"
    settings: Settings = field(default_factory=Settings)


def play(
    transcript: Transcript, way: Way, folder: Path, patch: pytest.MonkeyPatch
) -> tuple[Record, list[Observed]]:
    """Run a transcript in a folder of its own: its record, and what came out batch by batch."""
    patch.setattr("os.fsync", lambda fd: None)  # nothing here is about crashes of a machine
    return _Play(transcript, way, folder, patch).run()


class _Play:
    def __init__(
        self, transcript: Transcript, way: Way, folder: Path, patch: pytest.MonkeyPatch
    ) -> None:
        self.transcript = transcript
        self.way = way
        self.engine = Engine(folder, patch)
        self.sources, self.outputs = numbered(transcript)
        self.blank = _Blank(str(folder))
        self.starts: list[Record] = []
        self.batches: list[Record] = []
        self.observed: list[Observed] = []
        self.plan: Plan
        self.written: set[str] = set()
        self.tables = {
            n: WrittenTable(folder / "relations" / n, r) for n, r in transcript.relations.items()
        }
        self.shown: Mapping[str, Any] = {}
        self.sent: dict[str, int] = {}

    def run(self) -> tuple[Record, list[Observed]]:
        lives = [
            list(steps)
            for crash, steps in groupby(self.transcript.steps, key=lambda s: s.crash)
            if not crash
        ]
        for life, steps in enumerate(lives):
            self._start(self.way.groups[life % len(self.way.groups)])
            try:
                for step in steps:
                    self._batch(step)
            except SlackwaterError as error:
                self.observed.append(Observed({}, {}, {}, error.condition))
                self._keep(
                    self.batches[-1], error={"condition": error.condition, "text": str(error)}
                )
                break
            finally:
                self._keep(self.starts[-1], explainAfter=self._explain())
                self.engine.stop()
        return {"starts": self.starts, "batches": self.batches}, self.observed

    def _keep(self, record: Record, **more: Any) -> None:
        record.update(self.blank(json.loads(json.dumps(more))))

    def _start(self, groups: int) -> None:
        """As `surface.start` does, without Spark's logs."""
        checkpoint = self.engine.open(self.way.settings)
        last = manifests.last(checkpoint)
        zone = str(self.transcript.text.get("zone", "UTC"))
        plan = build(self.outputs, ansi=True, zone=zone, window_plan=self.way.plan)
        inputs = [
            self.engine.split_input(i, source.schema, self._by_rows(i))
            for i, source in enumerate(self.sources)
        ]
        shares = not self.way.settings.smooth and not self.way.settings.low_table
        start = Started(
            inputs, self.way.plan, shares, stored_plans(checkpoint), stored_stores(checkpoint), last
        )
        plan = passed(passed(plan, Written()), start)
        query_id = open_query(checkpoint, plan, last, [(i,) for i in range(len(inputs))])
        self.engine.start(
            plan,
            groups=groups,
            settings=self.way.settings,
            inputs=inputs,
            clock=clock_of(self.transcript),
            query_id=query_id,
            relations={n: t.use for n, t in self.tables.items()},
        )
        self.plan = plan
        self.blank.names[query_id] = "<query>"
        self.starts.append({})
        description = unseal(PRIVATE, checkpoint.description_file, what="query", kind="query")
        description.pop(RESULTS)  # columns of the outputs, which their drawings have as well
        self._keep(
            self.starts[-1],
            description=description,
            explain=self._explain(),
        )

    def _by_rows(self, index: int) -> str:
        as_rows = self.way.rows and index % self.way.rows == 0
        return "the record is one of rows" if as_rows else ""

    def _explain(self) -> list[str]:
        last = self.engine.loop.last
        statistics = last.statistics if last is not None else {}
        text = explain_plan(self.plan, self.engine.inputs, extended=True, statistics=statistics)
        return text.split("\n")

    def _batch(self, step: Step) -> None:
        """One batch; each stream has a file, also where it has no rows."""
        number = len(self.batches)
        self.batches.append({})
        tables = {i: [table_of(s, step.rows.get(s.name, []))] for i, s in enumerate(self.sources)}
        for name, written in step.tables.items():
            if written is not self.shown.get(name):
                self.tables[name].write(written)
                seen = self.tables[name].table.look()
                self.blank.names[version_id(seen)] = f"<version {self.tables[name].versions}>"
        self.shown = step.tables
        for said in step.feedback:
            request = Request("send", f"out_{said.output}", said.name, said.feedback)
            self.sent[said.name] = send(self.engine.checkpoint, request)
        for name in step.retract:
            send(self.engine.checkpoint, Request("retract", target=self.sent[name]))
        try:
            self.engine.batch(*tables.pop(0), others=tables)
        finally:
            for name in ("intent", "manifest"):
                path = self.engine.checkpoint.root / f"{name}s" / f"{number:012d}.json"
                if path.exists():
                    self._keep(
                        self.batches[-1], **{name: unseal(PRIVATE, path, what=name, kind=name)}
                    )
        manifest = self.batches[-1]["manifest"]
        rows = {
            name: [plain(r) for r in published.get(number, [])]
            for name, published in self.engine.results.items()
        }
        self._keep(
            self.batches[-1],
            progress=self.engine.records[-1],
            runs=self._contents(),
            rows=rows,
        )
        self.observed.append(
            Observed(
                {n: rows[f"out_{n}"] for n in self.transcript.outputs},
                {s.name: self._late(s, rows, number) for s in self.sources},
                manifest["bounds"],
                heeds=True,
            )
        )

    def _contents(self) -> dict[str, Any]:
        """Columns and a digest of the rows of each new state file that the newest manifest names."""
        done = self.engine.loop.last
        assert done is not None
        groups = [g for op in done.runs.values() for g in op]
        names = {r.name for part in (*groups, *done.tables.values()) for r in part}
        contents = {}
        for name in sorted(names - self.written, key=self.blank):
            contents[self.blank(name)] = _content(self.engine.checkpoint.runs / name)
        self.written |= names
        return contents

    def _late(self, source: Source, rows: Mapping[str, list[Any]], number: int) -> list[Any]:
        """The late rows of a batch, or as many empty ones where nobody reads them."""
        if f"late_{source.name}" in rows:
            return rows[f"late_{source.name}"]
        total = 0
        for time, policy in zip(source.times, source.policies, strict=True):
            for kind in ("totalLate", "nullTime", *(["future"] if policy.future == "side" else [])):
                for at, sign in ((number, 1), (number - 1, -1)):
                    if at >= 0:
                        stream = self.engine.records[at]["streams"][source.name]
                        total += sign * stream[kind][time.name]
        return [{}] * total


def _content(path: Path) -> Record:
    """Columns and rows of a state file. The order of rows within it is not part of it: they are sorted when read."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        table = reader.read_all()
    rows = sorted(repr(tuple(r.values())) for r in table.to_pylist())
    digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]
    return {"columns": [f"{f.name}: {f.type}" for f in table.schema], "rows": digest}


_RANDOM = re.compile(r"^(.+-)[0-9a-f]{8,12}(\.arrow|\.parquet)$")
_RATE = re.compile(r"[0-9.e+-]+ ns a row")
_TIMES = {"timestamp", "seconds", "latencyMs", "crc"}
"""Keys whose values depend on when a run took place, or on bytes that mean nothing."""


class _Blank:
    """A copy of a JSON value without what differs from run to run."""

    def __init__(self, folder: str):
        self.folder = folder
        self.names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def __call__(self, value: Any, key: str = "") -> Any:
        if key in _TIMES:
            return None if value is None else "*"
        if isinstance(value, dict):
            return {str(self(k)): self._entry(k, v) for k, v in value.items()}
        if isinstance(value, list):
            return [self(v) for v in value]
        return self._text(value) if isinstance(value, str) else value

    def _entry(self, key: str, value: Any) -> Any:
        if key == "durationMs":
            return dict.fromkeys(value, "*")
        if key == "files" and isinstance(value, dict):  # path, length, time of change
            return {i: [[self(f[0]), f[1], "*"] for f in files] for i, files in value.items()}
        if key == "description" and isinstance(value, list):  # version and checksum
            return [value[0], "*"]
        return self(value, key)

    def _text(self, text: str) -> str:
        if text not in self.names:
            matched = _RANDOM.match(text)
            if matched is None:
                return _RATE.sub("* ns a row", text.replace(self.folder, "<folder>"))
            # The n-th of its kind: a name that comes back is the same file.
            kind = matched[1]
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self.names[text] = f"{kind}#{self._counts[kind]}{matched[2]}"
        return self.names[text]
