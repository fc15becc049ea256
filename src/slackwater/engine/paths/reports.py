"""What the tasks of one batch report, to each other and to the driver: the counterpart of `batch`.

On the wire each is JSON in a control message (`wire`). Parts that a report does not have are left out of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from slackwater.engine.store.manifest import OutputFile, Run
from slackwater.kernels.windows.sealing import Proven
from slackwater.model.plain import plain
from slackwater.semantics.progress import SourceState
from slackwater.semantics.quality.recall_lateness import LateInterval
from slackwater.semantics.slack.waiting import StoreReport
from slackwater.semantics.summary import SourceSummary

if TYPE_CHECKING:
    from slackwater.kernels.joins.bounded.stats import Stats

Bounds = Mapping[str, Mapping[str, int]]
"""By name of a node and time column."""


@dataclass(frozen=True)
class SourceReport:
    """What every group task must know of a source, as one low-level task saw it.

    ``sample`` is JSON text: the time column and the row, of a late row where none may be.
    """

    source: str
    summary: SourceSummary
    sample: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        return {"source": self.source, "summary": self.summary.to_json(), "sample": self.sample}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> SourceReport:
        """The inverse of `to_json`."""
        return cls(json["source"], SourceSummary.from_json(json["summary"]), json["sample"])


@dataclass(frozen=True)
class Progress:
    """States of the sources and bounds of all nodes after a batch, with the merged summaries, by name.

    ``sample`` is the least of those in the reports. ``digest`` tells tasks that agree; `signed` sets it. ``holds`` is what
    operators that put work off may promise of their inputs, as far as the level below knows; None: as before the batch.
    """

    states: Mapping[str, SourceState]
    summaries: Mapping[str, SourceSummary]
    bounds: Bounds
    sample: str | None = None
    digest: str | None = None
    holds: Mapping[str, Sequence[int]] | None = None

    @property
    def signed(self) -> Progress:
        """With the digest of what all tasks must agree on."""
        text = json.dumps(replace(self, digest=None, holds=None).to_json(), sort_keys=True)
        return replace(self, digest=hashlib.sha256(text.encode()).hexdigest()[:16])

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        parts: dict[str, Any] = {
            "states": {name: s.to_json() for name, s in self.states.items()},
            "summaries": {name: s.to_json() for name, s in self.summaries.items()},
            "bounds": self.bounds,
            "sample": self.sample,
        }
        if self.digest is not None:
            parts["digest"] = self.digest
        if self.holds is not None:
            parts["holds"] = {operator: list(hold) for operator, hold in self.holds.items()}
        return parts

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Progress:
        """The inverse of `to_json`."""
        return cls(
            {name: SourceState.from_json(s) for name, s in json["states"].items()},
            {name: SourceSummary.from_json(s) for name, s in json["summaries"].items()},
            json["bounds"],
            json["sample"],
            json.get("digest"),
            json.get("holds"),
        )


@dataclass(frozen=True)
class TableReport:
    """What a low-level task says of one of its tables: its file after the batch (None: no entry is left), partials that
    arrived at it, and partials that it sent on. ``table`` names the task.
    """

    table: str
    run: Run | None
    arrived: int
    sent: int

    def to_json(self) -> list[Any]:
        """Plain lists and dicts."""
        run = None if self.run is None else plain(self.run)
        return [self.table, run, self.arrived, self.sent]

    @classmethod
    def from_json(cls, json: Sequence[Any]) -> TableReport:
        """The inverse of `to_json`."""
        table, run, arrived, sent = json
        return cls(table, None if run is None else Run.from_json(run), arrived, sent)


@dataclass(frozen=True)
class TableFigures:
    """Partials that arrived at low-level tables, that those sent on, and that group tasks took out; entries left."""

    arrived: int
    sent: int
    drained: int
    entries: int


@dataclass(frozen=True)
class Figures:
    """What a batch measured of one operator in one group, by kind of operator; None: not of this kind.

    ``partials`` are those of complete panes or windows. ``groups`` counts how groups of an adaptive aggregate are
    kept. ``held`` partials of closed windows wait. ``low`` is of low-level tables, ``waiting`` of a store of rows,
    ``join`` of a join in little memory. ``recall`` is of a join with a target: its results by lateness.
    """

    partials: int | None = None
    groups: Mapping[str, int] | None = None
    held: int | None = None
    low: TableFigures | None = None
    waiting: StoreReport | None = None
    join: Stats | None = None
    recall: Sequence[LateInterval] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        parts = {
            "partials": self.partials,
            "groups": self.groups,
            "held": self.held,
            "low": None if self.low is None else plain(self.low),
            "waiting": None if self.waiting is None else plain(self.waiting),
            "join": None if self.join is None else plain(self.join),
            "recall": None if self.recall is None else [list(part) for part in self.recall],
        }
        return {name: part for name, part in parts.items() if part is not None}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Figures:
        """The inverse of `to_json`."""
        low, waiting, join = json.get("low"), json.get("waiting"), json.get("join")
        recall = json.get("recall")
        return cls(
            json.get("partials"),
            json.get("groups"),
            json.get("held"),
            None if low is None else TableFigures(**low),
            None if waiting is None else StoreReport(**waiting),
            None if join is None else _stats(join),
            None if recall is None else tuple(LateInterval(*part) for part in recall),
        )


def _stats(json: Mapping[str, Any]) -> Stats:
    # The modules of bounded joins take long to import, and few tasks need them.
    from slackwater.kernels.joins.bounded.stats import Stats

    return Stats(**json)


@dataclass(frozen=True)
class OperatorReport:
    """What a batch did to one operator in one group: its live runs, and counts.

    ``compacted`` is the number of runs that were merged. ``readers`` has the results of each operator that shares
    this one's state. ``ledger`` is control state for the manifest, in a form of the operator's own; ``hold`` then says what may
    be promised of each input. ``tables`` are the low-level tables that are left, None where there is none to speak of. ``proven`` is
    what partials proved of panes.
    """

    runs: Sequence[Run]
    rows_in: int
    rows_out: int
    late: int = 0
    compacted: int = 0
    seconds: float = 0.0
    readers: Mapping[str, int] = field(default_factory=dict)
    figures: Figures = Figures()
    ledger: Any = None
    hold: Sequence[int] = ()
    tables: Sequence[Run] | None = None
    proven: Sequence[Proven] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        parts: dict[str, Any] = {
            "runs": [plain(run) for run in self.runs],
            "in": self.rows_in,
            "out": self.rows_out,
            "late": self.late,
            "compacted": self.compacted,
        }
        if self.readers:
            parts["readers"] = self.readers
        figures = self.figures.to_json()
        if figures:
            parts["statistics"] = figures
        if self.ledger is not None:
            parts["ledger"], parts["hold"] = self.ledger, list(self.hold)
        if self.tables is not None:
            parts["tables"] = [plain(run) for run in self.tables]
        if self.proven:
            parts["proven"] = [one.to_json() for one in self.proven]
        return {**parts, "seconds": self.seconds}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> OperatorReport:
        """The inverse of `to_json`."""
        tables = json.get("tables")
        return cls(
            tuple(Run.from_json(run) for run in json["runs"]),
            json["in"],
            json["out"],
            json["late"],
            json["compacted"],
            json["seconds"],
            json.get("readers", {}),
            Figures.from_json(json.get("statistics", {})),
            json.get("ledger"),
            tuple(json.get("hold", ())),
            None if tables is None else tuple(Run.from_json(run) for run in tables),
            tuple(Proven.from_json(one) for one in json.get("proven", ())),
        )


@dataclass
class Reads:
    """What tasks did for a relation: tables that they had in memory (``hits``) or not (``misses``), files that they decoded
    (``files``) and the bytes of these.

    Of a relation in segments these are counted instead of tables and files. ``asked`` says of each, by name, how many rows asked for it and
    how many bytes it takes decoded; ``rows`` are those that came with a key.
    ``unmatched`` rows had no partner.
    """

    hits: int = 0
    misses: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    unmatched: int = 0
    asked: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, other: Reads) -> None:
        """And what was done besides."""
        self.hits += other.hits
        self.misses += other.misses
        self.files += other.files
        self.bytes += other.bytes
        self.rows += other.rows
        self.unmatched += other.unmatched
        for name, (rows, size) in other.asked.items():
            self.asked[name] = (self.asked.get(name, (0, 0))[0] + rows, size)

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts; what only some relations have is left out without it."""
        document: dict[str, Any] = plain(self)
        return {n: v for n, v in document.items() if v or n not in ("rows", "unmatched", "asked")}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Reads:
        """The inverse of `to_json`."""
        asked = {name: (rows, size) for name, (rows, size) in json.get("asked", {}).items()}
        return cls(**{**json, "asked": asked})


class RelationReads(dict[str, Reads]):
    """What tasks did for relations, by their names."""

    def add(self, name: str, reads: Reads) -> None:
        """Count what was done for one of them."""
        self.setdefault(name, Reads()).add(reads)


@dataclass(frozen=True)
class TaskReport:
    """What one task did: its operators' reports, and the files it wrote by output.

    Tasks of level 0 have group -1 and no digest. ``digest`` is that of the progress the task computed; the progress itself
    comes from the first group of level 1 alone. ``dropped`` counts the rows that guards of feedback dropped, by place;
    ``relations`` is what was done for these.
    """

    level: int
    group: int
    operators: Mapping[str, OperatorReport]
    outputs: Mapping[str, Sequence[OutputFile]]
    digest: str | None = None
    progress: Progress | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    relations: Mapping[str, Reads] = field(default_factory=dict)

    @classmethod
    def of_files(
        cls,
        outputs: Mapping[str, Sequence[OutputFile]],
        dropped: Mapping[str, int] | None = None,
        relations: Mapping[str, Reads] | None = None,
    ) -> TaskReport:
        """The report of a task that runs no stateful operator."""
        return cls(0, -1, {}, outputs, dropped=dropped or {}, relations=relations or {})

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        parts: dict[str, Any] = {
            "level": self.level,
            "group": self.group,
            "operators": {id: report.to_json() for id, report in self.operators.items()},
            "outputs": {n: [plain(f) for f in files] for n, files in self.outputs.items()},
        }
        if self.digest is not None:
            parts["digest"] = self.digest
        if self.progress is not None:
            parts["progress"] = self.progress.to_json()
        if self.dropped:
            parts["dropped"] = dict(self.dropped)
        if self.relations:
            parts["relations"] = {name: reads.to_json() for name, reads in self.relations.items()}
        return parts

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> TaskReport:
        """The inverse of `to_json`."""
        progress = json.get("progress")
        return cls(
            json["level"],
            json["group"],
            {id: OperatorReport.from_json(r) for id, r in json["operators"].items()},
            {n: tuple(OutputFile(**f) for f in files) for n, files in json["outputs"].items()},
            json.get("digest"),
            None if progress is None else Progress.from_json(progress),
            json.get("dropped", {}),
            {name: Reads.from_json(r) for name, r in json.get("relations", {}).items()},
        )


def dropped_by(reports: Sequence[TaskReport]) -> dict[str, int]:
    """The rows that guards dropped in a batch, by place."""
    total: dict[str, int] = {}
    for report in reports:
        for place, rows in report.dropped.items():
            total[place] = total.get(place, 0) + rows
    return total


def progress_of(reports: Sequence[TaskReport]) -> Progress:
    """The progress that the tasks of a batch agreed on."""
    return next(r.progress for r in reports if r.progress is not None)


def reports_of(reports: Sequence[TaskReport], operator: str) -> list[OperatorReport]:
    """What the tasks report of one operator, by group."""
    return [r.operators[operator] for r in reports if operator in r.operators]
