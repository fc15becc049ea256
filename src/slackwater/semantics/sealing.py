"""Values that move one way: which partial of a pane proves what becomes of all windows that hold the pane.

A greatest value only rises when rows come, a least one only falls, a count only rises. So a record that gives up results
from a limit on, in that direction, is met by every window of a group that holds a pane, as soon as the rows of that pane
alone have reached the limit. Then later rows of that group and pane are of no use to anybody. The pane is *sealed*: the
operator asserts of its own output what was proven, "results of this group, in these windows", as long as the record
stands that it was proven from. That is a record like others. It goes down by the rule of time windows, it keeps
results back, and when it ends, they stay back as far as they may lack rows.

The proof is of a pane, never of a window's value: a row of the pane lies in all windows that hold it. Partials stay, since
other windows of these panes are not proven by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.model.node import Aggregate, Join, Node
from slackwater.model.window import TimeWindow, is_all_time
from slackwater.semantics.feedback.columns import moved, parted
from slackwater.semantics.feedback.order import is_testable
from slackwater.semantics.limits import Bounds
from slackwater.semantics.panes import Panes
from slackwater.semantics.pattern_wants import plain_column
from slackwater.semantics.patterns import Pattern, Patterns, Test, Value, above, merged
from slackwater.semantics.window_ids import rows_within, times_of_wids, wids_within

MOST_PROOFS = 16
"""Records of an operator that are looked for proofs of; each costs a comparison for every partial of a batch."""

MOST_SEALED = 1000
"""Groups of an operator with sealed panes at a time. When there are more, the rest go on as before."""


@dataclass(frozen=True)
class Proof:
    """What a partial must be like to prove a record.

    ``values`` are tests that stay passed once they are, by the name of the primitive; ``groups`` are tests of group columns
    by their number; ``windows`` are the ids that the record is about, None for all. ``claim`` is what is proven of
    the results' values, by their columns. ``record`` is the record itself.
    """

    record: Pattern
    values: tuple[tuple[str, Test], ...]
    groups: tuple[tuple[int, Test], ...]
    windows: Test | None
    claim: Pattern

    def proven(
        self,
        partial: Mapping[str, Value | None],
        group: Sequence[Value | None],
        windows: tuple[int, int],
    ) -> bool:
        """Whether a partial of a pane proves it, for a group and the windows that hold the pane (first, end).

        Values are codes of `feedback.order`, by the name of the primitive.
        """
        return (
            all(test.matches(partial[name]) for name, test in self.values)
            and all(test.matches(group[i]) for i, test in self.groups)
            and windows[0] < windows[1]
            and (self.windows is None or Test((windows,)).within(self.windows))
        )


@dataclass(frozen=True)
class Seal:
    """Results of one group and of windows that hold sealed panes: ``record``; all of them pass ``claim``."""

    claim: Pattern
    record: Pattern

    def to_json(self) -> list[Any]:
        """Plain lists and dicts."""
        return [self.claim.to_json(), self.record.to_json()]

    @classmethod
    def from_json(cls, json: Sequence[Any]) -> Seal:
        """The inverse of `to_json`."""
        return cls(Pattern.from_json(json[0]), Pattern.from_json(json[1]))


Seals = tuple[Seal, ...]


def proofs(node: Node, records: Patterns) -> tuple[Proof, ...]:
    """What partials of an operator can prove of the records that all of its readers assert; nothing for most operators."""
    if not _seals(node):
        return ()
    assert isinstance(node, Aggregate)
    made = (p for r in records if (p := _proof(node, r)) is not None)
    return tuple(dict.fromkeys(made))[:MOST_PROOFS]


def _seals(node: Node) -> bool:
    """Whether rows of a group and pane can be told, and may go."""
    if type(node) is not Aggregate or not isinstance(node.window, TimeWindow):
        return False
    settings, time = node.reacting, node.times[0].name
    names = [k.name for k in node.keys]
    return (
        not is_all_time(node.window)
        and not node.emit_empty
        and settings.propagate
        and settings.exploit
        and (_over_join(node) if settings.seal is None else settings.seal)
        and node.field(time) is not None
        and all(n != time and n != "wid" and not parted(node, n)[1] for n in names)
        and all(plain_column(k.expr) is not None for k in node.keys)
        and all(is_testable(f.type) for n in names if (f := node.field(n)) is not None)
    )


def _over_join(node: Node) -> bool:
    """Whether rows meet others below: each that goes saves its results there.

    Elsewhere partials are made where rows are read, so that a hot group costs next to nothing, and to test each row
    costs more than adding it up.
    """
    return any(isinstance(c, Join) or _over_join(c) for c in node.children)


def _proof(node: Aggregate, record: Pattern) -> Proof | None:
    w, time = node.window, node.times[0].name
    assert isinstance(w, TimeWindow)
    keys = {k.name: i for i, k in enumerate(node.keys)}
    values: dict[str, Test] = {}
    groups: list[tuple[int, Test]] = []
    claim: dict[str, Test] = {}
    windows: Test | None = None
    for column, test in record.tests:
        name, part = parted(node, column)
        of_windows = None
        if column in keys:
            groups.append((keys[column], test))
        elif column == time:
            of_windows = wids_within(test, w)
        elif column == "wid":
            of_windows = Test(test.spans)
        elif name == time and part == ".start":
            of_windows = wids_within(moved(test, w.range - 1), w)
        else:
            found = _one_way(node, column, test)
            if found is None:
                return None
            primitive, kept = found
            values[primitive] = values[primitive] & kept if primitive in values else kept
            claim[column] = kept
        if of_windows is not None:
            windows = of_windows if windows is None else windows & of_windows
    if not values:
        return None  # rows can tell by themselves
    return Proof(record, tuple(sorted(values.items())), tuple(groups), windows, Pattern.of(claim))


def _one_way(node: Aggregate, column: str, test: Test) -> tuple[str, Test] | None:
    """The primitive that a result's column is, and the part of a test that it cannot leave again; None if there is none."""
    output = next((o for o in node.outputs if o.name == column), None)
    name = None if output is None else plain_column(output.expr)
    found = next((p for p in node.primitives if p.column == name), None)
    field = node.field(column)
    if found is None or field is None or field.type != found.type:
        return None
    if found.function in ("max", "count"):
        spans = tuple(s for s in test.spans if s[1] is None)
    elif found.function == "min":
        spans = tuple(s for s in test.spans if s[0] is None)
    else:
        return None
    # Null is before the first value, and no result is null once there is one.
    return (found.name, Test(spans)) if spans and is_testable(found.type) else None


def seal(
    node: Aggregate, proof: Proof, group: Sequence[Value | None], windows: tuple[int, int]
) -> Seal:
    """What is asserted of a group and of the windows (first, end) that hold a pane whose partial proved a record."""
    w = node.window
    assert isinstance(w, TimeWindow)
    tests = {k.name: Test.among([v]) for k, v in zip(node.keys, group, strict=True)}
    tests[node.times[0].name] = times_of_wids(Test((windows,)), w)
    return Seal(proof.claim, Pattern.of(tests))


def standing(seals: Seals, known: Sequence[Proof]) -> Seals:
    """The seals that still follow from what is asserted; the very same object if that is all of them."""
    left = tuple(s for s in seals if _follows(s, [p.record for p in known]))
    return seals if len(left) == len(seals) else left


def _follows(one: Seal, records: Sequence[Pattern]) -> bool:
    proven = one.claim & one.record
    return any(proven.within(r) for r in records)


def together(node: Node, seals: Iterable[Seal], most: int = MOST_SEALED) -> Seals:
    """Seals with one of each group and claim, the first ``most`` of them."""
    time = node.times[0].name
    known: dict[tuple[Pattern, Pattern], Test] = {}
    for s in seals:
        group = Pattern(tuple(t for t in s.record.tests if t[0] != time))
        spans = s.record.test(time) or Test()
        before = known.get((s.claim, group))
        if before is not None:
            known[s.claim, group] = before | spans
        elif len(known) < most:
            known[s.claim, group] = spans
    return tuple(Seal(claim, g.replaced(time, test)) for (claim, g), test in known.items())


def reaching_back(seals: Seals, bounds: Bounds) -> Seals:
    """Seals whose windows begin below the bound, as such that begin at the beginning: of earlier windows nothing comes.

    So groups that were sealed at different times come to be alike. The very same object if none changes.
    """
    records = [above((s.record,), bounds) or (s.record,) for s in seals]
    made = tuple(Seal(s.claim, r) for s, (r,) in zip(seals, records, strict=True))
    return seals if made == seals else made


def as_records(seals: Seals) -> Patterns:
    """What seals assert, groups that are alike in one record."""
    return merged(s.record for s in seals)


def panes_of(node: Node, seals: Seals, since: int) -> int:
    """How many panes of groups, from a time on, get no more rows."""
    assert isinstance(node, Aggregate) and isinstance(node.window, TimeWindow)
    width, total = Panes.of(node.window).width, 0
    for s in seals:
        times = s.record.test(node.times[0].name) or Test()
        for low, high in rows_within(times, node.window).spans:
            if isinstance(high, int):
                low = max(low, since) if isinstance(low, int) else since
                total += max(0, high - low + width - 1) // width
    return total
