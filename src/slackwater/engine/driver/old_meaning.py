"""Queries that meant something else under an older version: their checkpoints are refused, with the reason.

A checkpoint has the number of its ``meaning`` in ``query.json``. What was counted under another meaning cannot
be gone on with: the state would hold rows of both. Each change of meaning is a `Reason` with the number from
which on a checkpoint has the new one; to add one, raise `MEANING` and append to `REASONS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.engine.driver.old_times import CLOCK, ORIGINS, moved_origins, wrong_clocks
from slackwater.engine.plan.plan import Plan
from slackwater.engine.plan.window_plans import holds_state
from slackwater.engine.store.feedback_log import state_of
from slackwater.engine.store.manifest import Manifest
from slackwater.errors import CheckpointError
from slackwater.model.node import Join
from slackwater.semantics.partition_names import partition_name

MEANING = 3
"""What a checkpoint that is made now gets. One without a number has 0."""


SOURCES = (
    "A DataFrame that reads several sources, or one that another DataFrame reads too, made the inputs after it be "
    "read from the wrong source, or not at all in some batches."
)


EQUALS = (
    "Operators that are equal were several, told apart by the order of the outputs, so that a start with other outputs gave one the "
    "state of another; they are one now."
)


PARTITIONS = "A null partition and the empty text were one, with the empty text as its name; they are two now, and names in angle brackets are ours."


@dataclass(frozen=True)
class Reason:
    """A change of meaning.

    ``since`` is the first meaning that has it. ``concerned`` names the parts of a query that the change is about: none if
    the query means what it meant before. ``change`` says what they meant before and what they mean now.
    """

    name: str
    since: int
    concerned: Callable[[Plan], Iterator[str]]
    change: str


def check_meaning(plan: Plan, stored: int, location: object) -> None:
    """Refuse a query on a checkpoint of meaning ``stored`` under which the query meant something else."""
    for reason in REASONS:
        parts = [] if stored >= reason.since else list(reason.concerned(plan))
        if parts:
            raise _changed(location, parts, reason.change, reason.name)


def check_origins(
    plan: Plan,
    stored: int,
    before: Mapping[str, Sequence[str]],
    after: Mapping[str, Sequence[str]],
    location: object,
) -> None:
    """Refuse a checkpoint whose texts of outputs differ by nothing but origins that were read in another way."""
    if stored >= 1:
        return
    parts: list[str] = []
    for output in plan.outputs:
        now = after[output.name]
        moved = moved_origins(before.get(output.name, now), now, output.node, plan.zone)
        if moved is None:
            return
        parts += moved
    if parts:
        raise _changed(location, parts, ORIGINS, "LOCAL_ORIGINS")


def check_numbers(stored: int, numbers: Sequence[Sequence[int]], location: object) -> None:
    """Refuse a checkpoint whose inputs were taken for the sources of the same number, and are not."""
    wrong = [f"input {i + 1}" for i, own in enumerate(numbers) if list(own) != [i]]
    if stored < 1 and wrong:
        raise _changed(location, wrong, SOURCES, "SOURCE_NUMBERS")


def check_equals(
    stored: int, last: Manifest | None, stores: Mapping[str, Any], location: object
) -> None:
    """Refuse a checkpoint with state of operators that were told apart by a number which nothing ties to their outputs."""
    if stored >= 2 or last is None:
        return
    feedback = state_of(last)
    named = [*(op for op in {**last.runs, **last.tables} if holds_state(op, last)), *last.ledgers]
    named += [*last.marks, *feedback.dark, *feedback.shades]
    named += [op for name in stores if holds_state(name, last) for op in stores[name]["members"]]
    numbered = [name for name in named if _NUMBERED.fullmatch(name)]
    if numbered:
        raise _changed(location, numbered, EQUALS, "EQUAL_OPERATORS")


def check_partitions(plan: Plan, stored: int, last: Manifest | None, location: object) -> None:
    """Refuse a checkpoint with a partition whose name means another one now, or that may have been two."""
    if stored >= 3 or last is None:
        return
    parts: list[str] = []
    for source in plan.sources:
        state = last.sources.get(source.name)
        if source.partition is None or state is None:
            continue
        names = {name for column in state.columns.values() for name in column.partitions}
        parts += [
            f"partition '{name}' of stream '{source.name}'"
            for name in sorted(names)
            if partition_name(name) != name
        ]
    if parts:
        raise _changed(location, parts, PARTITIONS, "NULL_PARTITIONS")


_NUMBERED = re.compile(r"(?!panes-|sorts-)[a-z]+-[0-9a-f]{6}-[0-9]+")


def _changed(location: object, parts: Sequence[str], change: str, reason: str) -> CheckpointError:
    return CheckpointError(
        "MEANING_CHANGED",
        f"checkpoint '{location}' is of an older version, under which this query meant something "
        f"else: {', '.join(dict.fromkeys(parts))}. {change}",
        hint="start it on a new checkpointLocation, from its beginning: what the old version wrote may be wrong",
        location=location,
        reason=reason,
        parts=list(dict.fromkeys(parts)),
    )


def _text_keys(plan: Plan) -> Iterator[str]:
    """Join keys of which one side is a text and the other is not, without ANSI mode."""
    for node in plan.unshared.nodes:
        if isinstance(node, Join) and not plan.ansi:
            for key in node.mixed_keys:
                if "string" in key.types:
                    yield f"join key '{key.name}' ({' and '.join(key.types)})"


def _key_columns(plan: Plan) -> Iterator[str]:
    """Key columns of a join's result that had the widest type of both sides."""
    for node in plan.unshared.nodes:
        if isinstance(node, Join):
            for key in node.mixed_keys:
                if key.shown is not None and key.widest not in (None, key.shown):
                    yield f"column '{key.name}' of a {node.how} join was {key.widest}, and is {key.shown} now"


REASONS: tuple[Reason, ...] = (
    Reason(
        "TEXT_KEYS",
        1,
        _text_keys,
        "Such keys were compared as texts; without ANSI mode they are compared as Spark's '=' does, by the "
        "other side's type.",
    ),
    Reason(
        "KEY_COLUMNS",
        1,
        _key_columns,
        "The key's column in the result has the type that Spark's join gives it, so that old and new files "
        "of the sink would not go together.",
    ),
    Reason("LOCAL_CLOCK", 1, wrong_clocks, CLOCK),
)
