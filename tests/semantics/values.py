"""Strategies for values that manifests and reports hold."""

from __future__ import annotations

from hypothesis import strategies as st

from slackwater.semantics.patterns import Pattern
from slackwater.semantics.progress import ColumnState, PartitionState, SourceState
from slackwater.semantics.quality.controller import Controller
from slackwater.semantics.quality.recall_lateness import LateInterval
from slackwater.semantics.quality.recall_state import RecallState
from slackwater.semantics.quality.state import AdaptationState, Arrived, QualityState
from slackwater.semantics.slack.tree import Selectivity
from slackwater.semantics.slack.trigger import Penalty, Reports
from slackwater.semantics.slack.waiting import Waiting
from slackwater.semantics.summary import PartitionSummary, SourceSummary

TICKS = st.integers(-(1 << 62), 1 << 62)
COUNTS = st.integers(0, 1 << 40)
NAMES = st.sampled_from(["", "a", "é", 'q"'])
ORDERS = st.tuples(st.integers(), st.text(max_size=3))


def quality_states() -> st.SearchStrategy[QualityState]:
    """States of a column under a target; what is JSON in them stays as it is, and is short."""
    adaptation = st.builds(
        AdaptationState,
        st.fixed_dictionaries({"newest": st.none() | TICKS}),
        st.dictionaries(NAMES, st.fixed_dictionaries({"bias": st.floats(0, 1)})),
        COUNTS,
        st.none() | TICKS,
        st.dictionaries(NAMES, st.lists(TICKS, max_size=3)),
    )
    late = st.lists(st.tuples(COUNTS, COUNTS), max_size=3).map(tuple)
    arrived = st.builds(Arrived, COUNTS, st.integers(1, 99), late)
    return st.builds(
        QualityState,
        st.none() | COUNTS,
        st.none() | adaptation,
        st.none() | TICKS,
        st.none() | arrived,
        st.none() | COUNTS,
    )


def source_states() -> st.SearchStrategy[SourceState]:
    """States of a source, without patterns."""
    tail = st.lists(ORDERS, max_size=2).map(tuple)
    partition = st.builds(
        PartitionState,
        hi=st.none() | TICKS,
        bound=TICKS,
        delay=COUNTS,
        idle=st.booleans(),
        tail=tail,
    )
    column = st.builds(
        ColumnState, st.dictionaries(NAMES, partition, max_size=2), TICKS, st.none() | NAMES, COUNTS
    )
    none: st.SearchStrategy[tuple[Pattern, ...]] = st.just(())
    return st.builds(
        SourceState,
        st.dictionaries(NAMES, column, max_size=2),
        rows=COUNTS,
        since=st.none() | TICKS,
        orders=st.dictionaries(NAMES, ORDERS, max_size=2),
        patterns=none,
        quality=st.dictionaries(NAMES, quality_states(), max_size=1),
    )


def source_summaries() -> st.SearchStrategy[SourceSummary]:
    """Summaries of a source, without patterns and quality."""
    partition = st.builds(
        PartitionSummary, COUNTS, st.none() | TICKS, st.none() | TICKS, COUNTS, st.none() | TICKS
    )
    return st.builds(
        SourceSummary,
        st.dictionaries(NAMES, st.dictionaries(NAMES, partition, max_size=2), max_size=2),
        COUNTS,
        st.dictionaries(NAMES, COUNTS),
        orders=st.dictionaries(NAMES, ORDERS, max_size=2),
    )


def recall_states() -> st.SearchStrategy[RecallState]:
    """What joins with a target remember: by the model alone, by measured lateness, by what was lost."""
    share = st.none() | st.floats(0, 1)
    interval = st.builds(LateInterval, TICKS, COUNTS, st.lists(COUNTS, max_size=3))
    lost = st.tuples(TICKS, st.lists(COUNTS, max_size=2), st.lists(st.floats(0, 9), max_size=2))
    common = (COUNTS, st.none() | TICKS, share, share, share)
    return st.one_of(
        st.builds(RecallState, *common),
        st.builds(
            RecallState,
            *common,
            reached=st.none() | TICKS,
            lateness=st.lists(interval, max_size=2).map(tuple),
            controller=st.builds(Controller, alpha=st.floats(0, 1), error=share),
        ),
        st.builds(RecallState, *common, past=st.lists(lost, max_size=2).map(tuple)),
    )


def waitings() -> st.SearchStrategy[Waiting]:
    """What is known of stores of rows."""
    slacks = st.dictionaries(NAMES, COUNTS)
    step = st.tuples(NAMES, NAMES)
    return st.builds(
        Waiting,
        st.dictionaries(NAMES, st.lists(step, max_size=2).map(tuple)),
        st.dictionaries(NAMES, st.dictionaries(NAMES, TICKS)),
        st.dictionaries(NAMES, st.builds(Selectivity, st.floats(0, 9), st.floats(0, 9))),
        st.builds(Reports, slacks, slacks),
        st.builds(Penalty, COUNTS, st.floats(0, 9), st.floats(0, 9)),
        TICKS,
        st.floats(0, 9),
        st.booleans(),
    )
