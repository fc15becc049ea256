"""Rows that wait for segments of a relation, as the group task sees them.

Each row is stored with the version of the batch in which it came and joins that version, whenever it does. Which segments are at hand
is told with the batch (`RelationAt.stay`), so that a task that is run again does the same. Rows all of whose segments are at hand, or are
read in the batch for others, leave; so after a batch no waiting row of a group could have been joined without a read of its own.
The ledger says how many rows wait, since when, for which versions, and which segments they lack: the driver says after the batch what
may stay, and if rows have what they lack by that, the next batch runs without input (`wakes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slackwater.engine.operators.keyed_rows import keyed_schema
from slackwater.engine.operators.kinds import AfterBatch, Kind, added
from slackwater.engine.operators.program import (
    MAIN,
    Arrival,
    GroupContext,
    Part,
    Program,
    State,
    StateStep,
)
from slackwater.engine.operators.relation_rows import joined, left_alone, marked
from slackwater.engine.paths.batch import RelationAt
from slackwater.engine.paths.lookup import placed_keys_sql
from slackwater.engine.paths.relation_tables import version_tables
from slackwater.engine.paths.segments import asked_segments, cold_keys
from slackwater.engine.plan.plan import Operator
from slackwater.engine.plan.steps import LookupStep
from slackwater.engine.store.statistics import OperatorStatistics
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.types import arrow_schema
from slackwater.model.names import ARRIVED, PLACE, ROWS, TIME, VERSION
from slackwater.model.node import Waiting
from slackwater.model.spans import in_words
from slackwater.semantics.limits import END, LEAST, MOST
from slackwater.semantics.waiting import (
    Backlog,
    Reason,
    WaitPolicy,
    comes_to_hand,
    is_due,
    known_awaited,
    to_read,
)

Mask = NDArray[np.bool_]
NOBODY: dict[str, Any] = {
    "rows": 0, "bytes": 0, "least": END, "oldest": None, "backlog": 0, "awaited": [], "versions": {},
}  # fmt: skip
"""The ledger of a group where no row waits."""


class WaitingProgram(Program):
    """Rows wait until their segments are read, for many at once."""

    def __init__(self, operator: Operator, context: GroupContext):
        assert isinstance(operator.node, Waiting)
        self.node = operator.node
        self.context = context
        self.batch = context.batch
        self.at = self.batch.relations[self.node.relation.name]
        self.ledger = context.ledger(operator) or NOBODY
        self.row_schema = arrow_schema(self.node.child.schema)
        self.state_schema = pa.schema(
            [*keyed_schema(self.row_schema), (VERSION, pa.string()), (ARRIVED, pa.int64())]
        )
        self.parts = {MAIN: Part(TIME, self.state_schema)}

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        # A row leaves by a step alone: then it comes out.
        return LEAST

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (arrived,) = inputs
        new = self._came(arrived.tables)
        old = self.state_schema.empty_table()
        if self.ledger["rows"]:
            old, moved = self._in_force(state(LEAST, MOST))
        else:
            moved = 0
        rows = pa.concat_tables([old, new])
        ended = arrived.new >= END or self.batch.flush
        leaving, begun, lacks = self._leaving(rows, ended)
        outputs, unmatched = self._results(rows.filter(pa.array(leaving)))
        rewritten = moved > 0 or bool(leaving[: old.num_rows].any())
        stays = rows.filter(pa.array(~leaving))
        keep = stays if rewritten else new.filter(pa.array(~leaving[old.num_rows :]))
        done = {
            "left": int(leaving.sum()), "unmatched": unmatched, "replaced": moved,
            "reads": _counted(begun),
        }  # fmt: skip
        ledger = {**_ledger(stays, lacks, self.batch.groups), **done}
        return StateStep(
            outputs,
            keep,
            rewritten=frozenset([MAIN]) if rewritten else frozenset(),
            ledger=ledger,
            hold=(ledger["least"],),
        )

    def _came(self, tables: Sequence[pa.Table]) -> pa.Table:
        """New rows, each with the version of this batch, and the clock's reading in it."""
        keyed = keyed_schema(self.row_schema)
        rows = pa.concat_tables(
            [keyed.empty_table(), *(t.select(keyed.names).cast(keyed) for t in tables)]
        )
        for name, value in ((VERSION, self.at.version), (ARRIVED, self.batch.now or 0)):
            kind = self.state_schema.field(name).type
            rows = rows.append_column(name, pa.repeat(pa.scalar(value, kind), rows.num_rows))
        return rows

    def _in_force(self, rows: pa.Table) -> tuple[pa.Table, int]:
        """Stored rows, and how many have got another version, because their own is gone."""
        moved = 0
        for gone, version in self.at.instead.items():
            is_gone = pc.equal(rows[VERSION], gone)
            moved += pc.sum(is_gone, min_count=0).as_py()
            versions = pc.if_else(is_gone, version, rows[VERSION])
            rows = rows.set_column(rows.column_names.index(VERSION), VERSION, versions)
        return rows.cast(self.state_schema), moved

    # ---- who leaves ----
    def _leaving(
        self, rows: pa.Table, ended: bool
    ) -> tuple[Mask, Mapping[str, Reason], Mapping[str, int]]:
        """The rows that leave; the segments that are read for them; and how many rows lack each segment afterwards."""
        if not rows.num_rows or not self.at.segments:
            return np.ones(rows.num_rows, bool), {}, {}
        waiting = _Waiting(self, rows)
        now = self.batch.now or 0
        begun = to_read(
            waiting.backlogs(), self._policy, now=now, idle=self.at.idle, ended=ended
        )  # fmt: skip
        leaving = waiting.without(begun.keys())
        return leaving, begun, waiting.lacks(~leaving)

    @property
    def _policy(self) -> WaitPolicy:
        """That of one group."""
        return policy_of(self.node, self.at, self.batch.groups)

    # ---- what leaves ----
    def _results(self, rows: pa.Table) -> tuple[list[pa.Table], int]:
        """The rows with their partners in the versions that they wait for, and those that have none, which are counted."""
        step = LookupStep.of(self.node)
        unmet = LookupStep.of(self.node, "left_anti")
        memory = self.batch.settings.memory
        by_version = {
            v: rows.filter(pc.equal(rows[VERSION], v)) for v in sorted(rows[VERSION].unique().to_pylist())
        }  # fmt: skip
        tables = version_tables(self.batch, step, by_version, self.context.relations)
        outputs, unmatched = [], 0
        for version, mine in by_version.items():
            found = {step.table: tables[version]}
            outputs.append(marked(self.node, joined(step, mine, found, memory), True))
            alone = joined(unmet, mine, found, memory)
            unmatched += alone.num_rows
            outputs.append(left_alone(self.node, alone, memory))
        return outputs, unmatched


def policy_of(node: Waiting, at: RelationAt, groups: int) -> WaitPolicy:
    """How rows of one group wait."""
    assert at.policy is not None, "rows wait for what is read in segments alone"
    return replace(at.policy, deadline=node.deadline, room=at.policy.room // groups)


@dataclass(frozen=True)
class _Keys:
    """The keys of the rows of one version, and the places of these rows."""

    keys: pa.Table
    places: NDArray[np.int64]


class _Waiting:
    """Rows that wait, and the first segment that each waits for."""

    def __init__(self, program: WaitingProgram, rows: pa.Table):
        self._batch, self._at = program.batch, program.at
        self._step = LookupStep.of(program.node)
        self._rows = rows
        self._keys = self._by_version()
        self._names, self._first = self._cold(self._at.stay)

    def _by_version(self) -> dict[str, _Keys]:
        rows = self._rows
        at = pa.array(np.arange(rows.num_rows))
        memory = self._batch.settings.memory
        made = sql_to_arrow(
            connect(memory), placed_keys_sql(self._step), {ROWS: rows.append_column(PLACE, at)}
        ).sort_by(PLACE)
        keys, versions = made.drop_columns([PLACE]), rows[VERSION].combine_chunks()
        found = {}
        for version in versions.unique().to_pylist():
            places = np.flatnonzero(pc.equal(versions, version).to_numpy(zero_copy_only=False))
            found[version] = _Keys(keys.take(pa.array(places)), places)
        return found

    def _cold(self, ready: AbstractSet[str]) -> tuple[list[str], NDArray[np.int64]]:
        """The names of segments, and for each row the number of the first one that is not ``ready``; -1 if all are."""
        numbers: dict[str, int] = {}
        first = np.full(self._rows.num_rows, -1, np.int64)
        for version, of in self._keys.items():
            cold = cold_keys(self._batch, self._step.form, version, of.keys, ready)
            # Versions that share a file share its segments.
            number = [numbers.setdefault(n, len(numbers)) for n in cold.names]
            found = np.array([*number, -1], np.int64)[cold.first]
            first[of.places] = found
        return list(numbers), first

    def backlogs(self) -> dict[str, Backlog]:
        """What waits for each segment."""
        waits = self._first >= 0
        if not waits.any():
            return {}
        first, rows = self._first[waits], self._rows
        came = rows[ARRIVED].to_numpy()[waits]
        counts = np.bincount(first, minlength=len(self._names))
        oldest = np.full(len(self._names), MOST, np.int64)
        np.minimum.at(oldest, first, came)
        each = rows.nbytes / rows.num_rows
        return {
            self._names[i]: Backlog(int(counts[i]), int(counts[i] * each), int(oldest[i]))
            for i in np.flatnonzero(counts).tolist()
        }

    def without(self, read: AbstractSet[str]) -> Mask:
        """The rows that need no more than what is at hand and ``read``, or that what they need is read with.

        A row is met whole: with its first segment all others are read that may have its key, and these serve others.
        """
        chosen = np.array([*(n in read for n in self._names), False], bool)
        served: Mask = (self._first < 0) | chosen[self._first]
        if not (served & (self._first >= 0)).any():
            return served
        also = set(self._at.stay)
        for version, of in self._keys.items():
            mine = served[of.places]
            if mine.any():
                keys = of.keys.filter(pa.array(mine))
                also |= asked_segments(self._batch, self._step.form, version, keys)
        served |= self._cold(also)[1] < 0
        return served

    def lacks(self, staying: Mask) -> dict[str, int]:
        """How many of the rows that stay lack each segment: those for which it is the first."""
        counts = np.bincount(self._first[staying], minlength=len(self._names))
        return {self._names[i]: int(counts[i]) for i in np.flatnonzero(counts).tolist()}


def _ledger(rows: pa.Table, lacks: Mapping[str, int], groups: int) -> dict[str, Any]:
    if not rows.num_rows:
        return dict(NOBODY)
    versions = pc.value_counts(rows[VERSION]).to_pylist()
    return {
        "rows": rows.num_rows,
        "bytes": rows.nbytes,
        "least": pc.min(rows[TIME]).as_py(),
        "oldest": pc.min(rows[ARRIVED]).as_py(),
        "backlog": max(lacks.values(), default=0),
        "awaited": known_awaited(lacks, groups),
        "versions": {v["values"]: v["counts"] for v in versions},
    }


def _counted(begun: Mapping[str, Reason]) -> dict[str, int]:
    """How many segments were read for each reason."""
    reasons = list(begun.values())
    return {reason: reasons.count(reason) for reason in sorted(set(reasons))}


class WaitingKind(Kind):
    """Rows that wait for segments of a relation."""

    def program(self, operator: Operator, context: GroupContext) -> Program:
        return WaitingProgram(operator, context)

    def regroup(self, ledgers: Sequence[Any], count: int) -> list[Any]:
        """Which rows a group gets, and what they lack, is not known before they are read, so each must look."""
        whole = whole_ledger(ledgers)
        return [dict(whole) for _ in range(count)]

    def owes(self, ledger: Any) -> bool:
        # Who decides about the batch knows the clock, and when rows have waited long enough (`Relations.wakes`).
        return False

    def figures(self, after: AfterBatch) -> dict[str, Any]:
        ledgers = [r.ledger for r in after.reports if r.ledger is not None]
        if not ledgers:
            return {}
        node = after.operator.node
        assert isinstance(node, Waiting)
        total = added(
            [{n: led[n] for n in ("rows", "bytes", "left", "replaced")} for led in ledgers]
        )
        reads: dict[str, int] = {}
        for ledger in ledgers:
            for reason, count in ledger["reads"].items():
                reads[reason] = reads.get(reason, 0) + count
        return {
            "relation": {
                "name": node.relation.name,
                "waitingRows": total["rows"],
                "waitingBytes": total["bytes"],
                "left": total["left"],
                "replaced": total["replaced"],
                "reads": reads,
            }
        }

    def described(self, operator: Operator, known: OperatorStatistics) -> str:
        node = operator.node
        assert isinstance(node, Waiting)
        return (
            f"rows wait for segments of relation '{node.relation.name}' that are not at hand, for "
            f"{in_words(node.deadline)} at most, so that one read serves many"
        )


def whole_ledger(ledgers: Sequence[Any]) -> dict[str, Any]:
    """The ledgers of all groups as one."""
    known = [led for led in ledgers if led is not None]
    came = [led["oldest"] for led in known if led["oldest"] is not None]
    versions: dict[str, int] = {}
    for ledger in known:
        for version, rows in ledger["versions"].items():
            versions[version] = versions.get(version, 0) + rows
    return {
        "rows": sum(led["rows"] for led in known),
        "bytes": sum(led["bytes"] for led in known),
        "least": min((led["least"] for led in known), default=END),
        "oldest": min(came, default=None),
        "backlog": max((led["backlog"] for led in known), default=0),
        "versions": versions,
    }


def wakes(
    node: Waiting, at: RelationAt, ledgers: Sequence[Any], now: int | None, fresh: AbstractSet[str]
) -> bool:
    """Whether a batch without input would serve rows that wait, as far as is known. Segments that are ``fresh`` are at hand since the last one."""
    for ledger in ledgers:
        if ledger is None or not ledger["rows"]:
            continue
        if not at.segments:
            return True
        policy = policy_of(node, at, max(1, len(ledgers)))
        if is_due(ledger["rows"], ledger["backlog"], ledger["oldest"], policy, now or 0):
            return True
        if comes_to_hand(ledger.get("awaited"), fresh):
            return True
    return False
