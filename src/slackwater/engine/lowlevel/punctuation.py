"""Patterns at the input of a source: read from its rows, and held against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.engine.lowlevel.single_values import single_values
from slackwater.engine.paths.batch import Batch
from slackwater.engine.progress.recall import LateResults
from slackwater.engine.progress.step import patterns_of
from slackwater.errors import ExecutionError
from slackwater.kernels.buckets import flat
from slackwater.kernels.joins.batch import may_miss
from slackwater.kernels.windows.pattern_match import matching
from slackwater.model.node import Aggregate, Join, Source
from slackwater.model.policy import Punctuated
from slackwater.model.window import TimeWindow
from slackwater.semantics.bounds import START
from slackwater.semantics.column_origin import column_origin
from slackwater.semantics.contracts.template_text import parse_scheme
from slackwater.semantics.contracts.templates import conforms, form
from slackwater.semantics.join_patterns import (
    closing,
    key_names,
    useful_columns,
    uses_patterns,
)
from slackwater.semantics.pattern_rules import closable, key_columns
from slackwater.semantics.pattern_text import pattern_of, shown
from slackwater.semantics.patterns import Pattern, Patterns
from slackwater.semantics.settings import BoundRule
from slackwater.semantics.source_patterns import linear_limit, plausible
from slackwater.semantics.summary import PartitionSummary
from slackwater.semantics.window_ids import closed_by, windows_missed

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass
class ReadPunctuation:
    """Punctuation of one chunk: patterns by partition, and the bounds among them by column and partition."""

    patterns: dict[str, Patterns] = field(default_factory=dict)
    bounds: dict[tuple[str, str], int] = field(default_factory=dict)
    implausible: dict[tuple[str, str], int] = field(default_factory=dict)
    unfit: dict[str, int] = field(default_factory=dict)
    """Patterns of forms that the scheme does not declare."""

    def added(
        self, setting: BoundRule, summaries: dict[str, PartitionSummary]
    ) -> dict[str, PartitionSummary]:
        """The summaries of a column with what punctuation says of it."""
        for name, summary in summaries.items():
            at = (setting.column, name)
            if at in self.bounds or at in self.implausible:
                future = summary.future + self.implausible.get(at, 0)
                summaries[name] = replace(summary, punct=self.bounds.get(at), future=future)
        return summaries


class Punctuation:
    """The patterns of one source, in one task."""

    def __init__(self, batch: Batch, source: Source, settings: Sequence[BoundRule]):
        self.batch = batch
        self.source = source
        self.settings = [s for s in settings if s.patterns]
        state = batch.states.get(source.name)
        self.in_force: Patterns = () if state is None else state.patterns

    def broken(self, table: pa.Table, column: str) -> tuple[Mask, Ints] | None:
        """Which rows match a pattern in force, and the bound on ``column`` that it sets, as `judge_column` asks."""
        if not self.in_force or not table.num_rows:
            return None
        return matching(self.in_force, table, column, untested=START)

    def read(self, table: pa.Table, codes: Ints, names: Sequence[str]) -> ReadPunctuation:
        """The punctuation in a chunk of rows, whose partitions are ``names[codes]``."""
        punctuation = ReadPunctuation()
        types = {f.name: f.type for f in self.source.schema}
        for column in dict.fromkeys(s.punctuation for s in self.settings):
            places = np.flatnonzero(table[column].is_valid().to_numpy(zero_copy_only=False))
            if not len(places):
                continue
            counted: dict[str, dict[Pattern, int]] = {}
            maps = flat(table[column].take(places))
            singles = single_values(maps, codes[places], types, {s.column for s in self.settings})
            for code, pattern, rows in singles.patterns:
                counted.setdefault(names[code], {})[pattern] = rows
            rest = np.flatnonzero(~singles.read)
            given_maps = maps.take(pa.array(rest)).to_pylist()
            for place, tests in zip(places[rest], given_maps, strict=True):
                given = {c: (t["op"], t["value"]) if t else (None, None) for c, t in tests}
                pattern = pattern_of(given, types, self.batch.plan.zone)
                counts = counted.setdefault(names[int(codes[place])], {})
                counts[pattern] = counts.get(pattern, 0) + 1
            for name, patterns in counted.items():
                self._held_against_scheme(punctuation, column, patterns)
                kept = [p for p, n in patterns.items() if self._is_kept(punctuation, name, p, n)]
                if kept:
                    punctuation.patterns[name] = (*punctuation.patterns.get(name, ()), *kept)
        return punctuation

    def _held_against_scheme(
        self, punctuation: ReadPunctuation, column: str, patterns: Mapping[Pattern, int]
    ) -> None:
        policy = next(
            p for p in self.source.policies if isinstance(p, Punctuated) and p.column == column
        )
        if policy.scheme is None:
            return
        scheme = parse_scheme(policy.scheme, {f.name: f.type for f in self.source.schema})
        for pattern, count in patterns.items():
            if any(conforms(pattern, t) for t in scheme):
                continue
            if policy.onViolation == "raise":
                raise ExecutionError(
                    "SCHEME_BROKEN",
                    f"stream '{self.source.given_name}' has punctuation {shown(pattern)} in column '{column}', of the form "
                    f"{form(pattern)}, which its scheme does not declare: {', '.join(map(str, scheme))}",
                    hint='declare the form, or have the stream punctuated as declared; without onViolation="raise" '
                    "such punctuation holds, and is counted",
                    stream=self.source.given_name,
                    pattern=shown(pattern),
                )
            punctuation.unfit[form(pattern)] = punctuation.unfit.get(form(pattern), 0) + count

    def _is_kept(
        self, punctuation: ReadPunctuation, name: str, pattern: Pattern, count: int
    ) -> bool:
        """Whether a pattern is one to keep; a bound, and one too far ahead, are noted instead."""
        linear = False
        for s in self.settings:
            at = (s.column, name)
            if not plausible(pattern, s, self.batch.now):
                punctuation.implausible[at] = punctuation.implausible.get(at, 0) + count
                return False
            limit = linear_limit(pattern, s)
            if limit is not None:
                linear = True
                punctuation.bounds[at] = max(punctuation.bounds.get(at, START), limit)
        return not linear

    def missed(self, node: Aggregate, moved: int, table: pa.Table, ticks: Ints) -> Ints:
        """Windows of an aggregate that patterns have closed to each row."""
        none = np.zeros(len(ticks), np.int64)
        if not self.in_force or not closable(node):
            return none
        assert isinstance(node.window, TimeWindow)
        plan = self.batch.plan
        patterns = patterns_of(plan, self.batch.states, self.batch.bounds)[plan.name_of(node.child)]
        names = {c: column_origin(node.child, c, self.source) for c in key_columns(node)}
        known = {c: n for c, n in names.items() if n is not None}
        usable = tuple(p for p in patterns if set(p.columns) <= {*known, node.window.on})
        if not usable:
            return none
        columns = {c: table[n] for c, n in known.items()}
        columns[node.window.on] = pa.chunked_array([pa.array(ticks + moved)])
        _, ends = matching(usable, pa.table(columns), node.window.on)
        return windows_missed(ticks + moved, closed_by(ends, node.window), node.window)

    def may_miss(self, node: Join, i: int, moved: int, table: pa.Table, ticks: Ints) -> Mask:
        """Which rows may miss partners as rows of a join's input i, by its bounds and by patterns."""
        batch, plan, child, on = self.batch, self.batch.plan, node.inputs[i], node.on[i]
        operator = next(op for op in plan.operators if op.node is node)
        names = [plan.name_of(c) for c in node.inputs]
        own = [batch.bound(n, t) for n, t in zip(names, node.on, strict=True)]
        bounds = LateResults(batch, operator).kept(own)
        if not self.in_force or not uses_patterns(node):
            return may_miss(node.within, i, ticks + moved, bounds)
        patterns = patterns_of(plan, batch.states, batch.bounds)[names[i]]
        columns = {c: column_origin(child, c, self.source) for c in useful_columns(node, i) - {on}}
        known = {c for c, n in columns.items() if n is not None} | {on}
        usable = tuple(p for p in patterns if set(p.columns) <= known)
        linear = {c: b for c, b in batch.bounds.get(names[i], {}).items() if c in known}
        times = pa.chunked_array([pa.array(ticks + moved)])
        keys = [
            times if c == on else None if c not in known else table[columns[c]]
            for c in key_names(node, i)
        ]
        closed = closing(node, i, usable, {**linear, on: bounds[i]})
        return may_miss(node.within, i, ticks + moved, bounds, closed, keys)
