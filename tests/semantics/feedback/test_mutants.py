"""Rules that are wrong in one place: the range of results must tell each of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from slackwater.model.join import is_existence
from slackwater.model.node import Aggregate, Dedup, Join, Node
from slackwater.model.reacting import Reacting
from slackwater.model.window import TimeWindow
from slackwater.semantics import feedback_rules, join
from slackwater.semantics.limits import START
from slackwater.semantics.operators import aggregate
from slackwater.semantics.operators import join as join_rules
from slackwater.semantics.operators.answers import Reaction
from slackwater.semantics.operators.registry import RULES
from slackwater.semantics.patterns import Pattern, Patterns, Span, Test, Value
from slackwater.semantics.window_ids import wids_within
from tests.semantics.feedback.cases import FAMILIES
from tests.semantics.feedback.guarded import Guarded, OutOfRange, check

TRIES = 600
Patch = Callable[[pytest.MonkeyPatch], None]


def rule(cls: type, **others: Any) -> Patch:
    """An operator's rules with some in the place of the right ones."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = {n: getattr(RULES[cls], n) for n in dir(RULES[cls]) if not n.startswith("__")}
        monkeypatch.setitem(RULES, cls, SimpleNamespace(**{**right, **others}))

    return patch


def function(module: Any, name: str, other: Any) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, name, other)

    return patch


# --- windows ---------------------------------------------------------------------------------------------


def never_dark(node: Aggregate, records: Patterns) -> Reaction:
    return replace(aggregate.feedback(node, records), dark=())


def rows_by(low: Callable[[int, TimeWindow], int], high: Callable[[int, TimeWindow], int]) -> Any:
    def rows_within(times: Test, w: TimeWindow) -> Test:
        def span(a: Value | None, b: Value | None) -> Span:
            first = low(a, w) if isinstance(a, int) else None
            return first, high(b, w) if isinstance(b, int) else None

        return Test.of(span(a, b) for a, b in wids_within(times, w).spans)

    return rows_within


def first_row(n: int, w: TimeWindow) -> int:
    return w.origin + n * w.slide


def values_go(below: bool) -> Any:
    """A test on a maximum goes on as one on its argument: if it is "below" one, or if it is another."""

    def feedback(node: Aggregate, records: Patterns) -> Reaction:
        right = aggregate.feedback(node, records)
        sent = [
            Pattern.of({"v": test})
            for r in right.guard
            if (test := r.test("n")) is not None and (test.limit is not None) == below
        ]
        return replace(right, inputs=(tuple(sent),))

    return feedback


def empty_windows(*, dark: bool) -> Any:
    """Rows go below an aggregate that reports empty windows."""

    def feedback(node: Aggregate, records: Patterns) -> Reaction:
        made = aggregate.feedback(replace(node, emit_empty=False), records)
        return made if dark else replace(made, dark=())

    return feedback


def told(wrong: Callable[[Any, Test, Test], Test]) -> Patch:
    """What rows tell of a greatest or least value, made wrong."""
    right = aggregate._Best.settled_below
    return function(
        aggregate._Best, "settled_below", lambda best, test: wrong(best, test, right(best, test))
    )


def told_with_nulls(best: Any, test: Test, right: Test) -> Test:
    """The values that a test leaves to rows, also where a group's nulls are wanted."""
    return RIGHT_TOLD(replace(best, certain=True), test) if not right.spans else right


def told_of_the_other_end(best: Any, test: Test, right: Test) -> Test:
    return RIGHT_TOLD(replace(best, greatest=not best.greatest), test)


def told_with_the_limit(best: Any, test: Test, right: Test) -> Test:
    """The limit itself goes, too."""
    if not right.spans:
        return right
    ((low, high),) = right.spans
    first = low - 1 if isinstance(low, int) else low
    return Test.of([(first, high + 1 if isinstance(high, int) else high)], right.null)


def values_go_by(best: Callable[[Aggregate], Any]) -> Patch:
    return function(aggregate, "_best", best)


def beside_others(node: Aggregate) -> Any:
    return RIGHT_BEST(replace(node, primitives=node.primitives[:1]))


def under_a_filter(node: Aggregate) -> Any:
    """The argument of an aggregate with a FILTER clause, which is null where the clause is false."""
    (first, *others) = node.primitives
    inside = first.args[0] if first.args else None
    if inside is not None and inside.sql.startswith("if("):
        first = replace(first, args=(replace(inside, sql="`v`"),))
    return RIGHT_BEST(replace(node, primitives=(first, *others)))


def goes_on_anyway(node: Node, records: Patterns, testable: Any) -> Reaction:
    """What an operator that is told not to act lets go on all the same."""
    made = RIGHT_REACTION(replace(node, reacting=Reacting()), records, testable)
    return made if node.reacting.exploit else replace(made, guard=(), dark=())


RIGHT_REACTION = feedback_rules._reaction
RIGHT_TOLD = aggregate._Best.settled_below
RIGHT_BEST = aggregate._best


def own_time(node: Node, inputs: Sequence[Mapping[str, int]], *_: Any) -> dict[str, int]:
    """The time of missing rows as it came in."""
    last = max((t for i in inputs for t in i.values()), default=START)
    return {t.name: last for t in node.times}


# --- others ----------------------------------------------------------------------------------------------


def all_go_on(node: Dedup, records: Patterns) -> Reaction:
    return Reaction((records,), (), records)


def subset_goes_on(node: Dedup, records: Patterns) -> Reaction:
    """Also if the subset lacks the time."""
    return Reaction.of(
        1, ((r, (r if set(r.columns) <= set(node.subset) else None,), True) for r in records)
    )


def one_time_is_enough(node: Dedup, records: Patterns) -> Reaction:
    """Also if another time is outside of the subset."""
    return RIGHT_DEDUP(replace(node, times=node.times[:1]), records)


def never_dark_again(node: Dedup, records: Patterns) -> Reaction:
    return replace(RIGHT_DEDUP(node, records), dark=())


RIGHT_DEDUP = RULES[Dedup].feedback


def key_to_the_other_side(node: Join, records: Patterns) -> Reaction:
    """FC's case 5: the key's part of a record that also tests the left goes right."""
    made = join_rules.feedback(node, records)
    sent = []
    for i, own in enumerate(made.inputs):
        more = []
        for r in records:
            shared = Pattern(tuple(t for t in r.tests if join_rules._place(node, i, t[0])))
            below = join_rules._of_input(node, i, shared) if shared.tests else None
            more += [below] if below is not None else []
        sent.append((*(own or ()), *more))
    return replace(made, inputs=tuple(sent))


def other_side_suppressed(node: Join, records: Patterns) -> Reaction:
    """An outer join treated as an inner one: rows of the other side go, and leave rows alone."""
    how = node.how
    if how == "inner" or is_existence(how):
        return join_rules.feedback(node, records)
    return join_rules.feedback(replace(node, how="inner"), records)


def never_alone(node: Join, records: Patterns) -> Reaction:
    return replace(join_rules.feedback(node, records), dark=())


def ends_swapped(within: Any, i: int, j: int) -> Any:
    low, high = RIGHT_ENDS(within, j, i)
    return low, high


RIGHT_ENDS = join._ends


def any_reader(readers: Sequence[Patterns]) -> Patterns:
    return tuple(r for records in readers for r in records)


def nothing_left(nodes: Sequence[Node], *_: Any) -> list[tuple[Any, ...]]:
    return [() for _ in nodes]


def without_alone(node: Node, dark: Any, at: Any) -> Any:
    return None if dark.alone else RIGHT_SHADE(node, dark, at)


RIGHT_SHADE = feedback_rules.shade

MUTANTS: dict[str, tuple[str, Patch]] = {
    "no darkness at the edge of sliding windows": ("sliding", rule(Aggregate, feedback=never_dark)),
    "the upper end of window n for below n": (
        "sliding",
        function(aggregate, "rows_within", rows_by(first_row, lambda n, w: first_row(n + 1, w))),
    ),
    "sliding windows by the bound of tumbling ones": (
        "sliding",
        function(aggregate, "rows_within", rows_by(first_row, first_row)),
    ),
    "windows from n on by their first row": (
        "sliding",
        function(
            aggregate,
            "rows_within",
            rows_by(
                lambda n, w: first_row(n + 1, w) - w.range,
                lambda n, w: first_row(n + 1, w) - w.range,
            ),
        ),
    ),
    "max at or above a value by its rows": (
        "values",
        rule(Aggregate, feedback=values_go(below=False)),
    ),
    "the pre-image of max, with nulls": (
        "values",
        rule(Aggregate, feedback=values_go(below=True)),
    ),
    "a value's rows go, and its nulls stay": ("said", told(told_with_nulls)),
    "max from below, as min from above": ("said", told(told_of_the_other_end)),
    "the limit itself goes with the values below it": ("said", told(told_with_the_limit)),
    "a value's rows go beside count(*)": ("said", values_go_by(beside_others)),
    "a value's rows go under FILTER": ("said", values_go_by(under_a_filter)),
    "what one filter says, and another reader does not": (
        "said",
        function(feedback_rules, "_common", any_reader),
    ),
    "rows go where the operator does not act": (
        "with_settings",
        function(feedback_rules, "_reaction", goes_on_anyway),
    ),
    "an empty window for a dark one": (
        "reporting_empty",
        rule(Aggregate, feedback=empty_windows(dark=False)),
    ),
    "empty windows known by rows that went": (
        "reporting_empty",
        rule(Aggregate, feedback=empty_windows(dark=True)),
    ),
    "tests outside of the subset below dropDuplicates": (
        "repeated",
        rule(Dedup, feedback=all_go_on),
    ),
    "the subset without the time, under within=": (
        "repeated",
        rule(Dedup, feedback=subset_goes_on),
    ),
    "duplicates that come instead": ("repeated", rule(Dedup, feedback=never_dark_again)),
    "duplicates bounded by another time": (
        "repeated_at",
        rule(Dedup, feedback=one_time_is_enough),
    ),
    "the band's ends swapped": ("band", function(join, "_ends", ends_swapped)),
    "a join's key to the other side": ("over_join", rule(Join, feedback=key_to_the_other_side)),
    "the other side of an outer join suppressed": (
        "outer",
        rule(Join, feedback=other_side_suppressed),
    ),
    "no darkness at an outer join": ("unmatched", rule(Join, feedback=never_alone)),
    "union for intersection at a shared node": (
        "shared",
        function(feedback_rules, "_common", any_reader),
    ),
    # The engine drops rows in six places; tests/engine/feedback/test_implausible.py has a row for each.
    "a guard on implausible times": (
        "future",
        function(Guarded, "_implausible", lambda run: False),
    ),
    "a guard that just vanishes": (
        "ended",
        function(feedback_rules, "shades_after", nothing_left),
    ),
    "the time not carried through a join": ("ended_over_join", rule(Join, newest=own_time)),
    "the time not carried through a window": ("ended", rule(Aggregate, newest=own_time)),
    "nothing dark for unmatched rows": (
        "unmatched",
        function(feedback_rules, "shade", without_alone),
    ),
    "the time not carried to unmatched rows": ("unmatched", rule(Join, newest=own_time)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family, patch = MUTANTS[name]
    patch(monkeypatch)
    for seed in range(TRIES):
        rng = random.Random(seed)
        try:
            check(FAMILIES[family](rng), rng, rng.choice([0.0, 0.0, 0.5]))
        except OutOfRange:
            return
    pytest.fail(f"not noticed in {TRIES} examples")
