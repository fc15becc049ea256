"""Feedback in the batch loop: what a batch takes in, where it acts, and what the manifest keeps of it.

What stands is decided once, before the intent, from requests, leases and progress; where it acts follows from that, from
the plan and from the manifest that the batch starts from. So a batch that is tried again drops the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from slackwater.engine.driver.sealing import (
    Proofs,
    asserted_by,
    proofs_in,
    sealing_lines,
    still_sealed,
)
from slackwater.engine.lowlevel.unread import NOTHING, Unread
from slackwater.engine.plan.filters import by_filters
from slackwater.engine.plan.guards import NO_GUARDS, Guards, Wanted, guards
from slackwater.engine.plan.plan import Plan
from slackwater.engine.progress.recall import recall_joins
from slackwater.engine.progress.step import bounds_of, patterns_of, reached
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.feedback_log import (
    FeedbackIntent,
    FeedbackState,
    digest,
    intent_of,
    requests,
    state_of,
)
from slackwater.engine.store.manifest import Intent, Manifest
from slackwater.errors import CheckpointError
from slackwater.kernels.translate.records import can_test, has_sound_values
from slackwater.model.node import Node
from slackwater.model.reacting import USUAL
from slackwater.model.same import Same
from slackwater.semantics.feedback.standing import (
    Request,
    Standing,
    declared,
    leased,
    taken,
    without,
)
from slackwater.semantics.feedback.value import MOST_RECORDS, Feedback, simplified
from slackwater.semantics.feedback_rules import (
    Layout,
    Place,
    in_result_time,
    laid_out,
    not_covered,
    shades_after,
)
from slackwater.semantics.pattern_rules import NO_WANTS, Want, Wants
from slackwater.semantics.patterns import Patterns

Declared = tuple[tuple[str, Feedback], ...]
"""What a start declares, by output."""

Bounds = Mapping[str, Mapping[str, int]]

Reach = Literal["off", "output", "operators", "source"]
"""How far down feedback acts: nowhere, at outputs, at operators as well, at the rows of streams and their files, too."""


@dataclass(frozen=True)
class Arranged:
    """Where feedback acts in a batch: guards for its tasks, and the state for its manifest, without counts.

    ``by_filters`` is what the query says itself, by the name of the filter. ``proofs`` are what partials are looked through for.
    ``beyond`` counts by operator the records that it does not take on, since it has enough.
    """

    guards: Guards = NO_GUARDS
    state: FeedbackState = field(default_factory=FeedbackState)
    refused: tuple[tuple[str, str], ...] = ()
    changed: bool = False
    unread: Unread = NOTHING
    by_filters: tuple[tuple[str, Feedback], ...] = ()
    proofs: Proofs = field(default_factory=dict)
    beyond: Mapping[str, int] = field(default_factory=dict)


# ---- what stands ----
def taken_in(
    checkpoint: Checkpoint,
    plan: Plan,
    wanted: Declared,
    batch: int,
    base: Manifest | None,
    bounds: Bounds,
    now: int | None,
) -> FeedbackIntent:
    """What a batch on ``base`` takes in."""
    before = state_of(base)
    new = requests(checkpoint, before.read)
    outputs = {o.name: o.node for o in plan.outputs}
    asked: list[tuple[int, Request]] = []
    refused = list(new.refused)
    for number, request in new.asked:
        why = _misfit(outputs, request)
        if why:
            refused.append((f"feedback-{number:06d}.json", why))
        else:
            asked.append((number, request))
    clock = now if now is not None else newest_time(base)
    stands = [s for s in before.standing if s.output in outputs]
    stands = list(declared(stands, [w for w in wanted if w[0] in outputs], batch))
    stands = list(leased(taken(stands, asked, batch=batch, now=clock), clock))
    if stands and base is not None:
        stands = list(_not_over(plan, stands, base, bounds))
    return FeedbackIntent(new.read, tuple(stands), tuple(refused))


def _misfit(outputs: Mapping[str, Node], request: Request) -> str:
    """Why a request cannot be of this query; empty if it can."""
    if request.feedback is None:
        return ""
    node = outputs.get(request.output)
    if node is None:
        return f"the query has no output {request.output!r}"
    if len(request.feedback.records) > MOST_RECORDS:
        return f"it has {len(request.feedback.records)} records"
    for record in request.feedback.records:
        if not record.tests:
            return "a record has no test"
        if not can_test(node, record):
            return f"output {request.output!r} has not what it tests: {', '.join(record.columns)}"
        if not has_sound_values(node, record):
            return f"values are not of the type of {', '.join(record.columns)}"
    types = {f.name: f.type for f in node.schema}
    for column in request.feedback.columns:
        known = types.get(column.name)
        if known is not None and not column.ends and known != column.type:
            return f"column {column.name!r} is {known}, and it was sent as {column.type}"
    return ""


def newest_time(base: Manifest | None) -> int | None:
    """The newest time over all sources: what leases go by without a clock."""
    states = base.sources.values() if base is not None else ()
    known = [c.hi for s in states for c in s.columns.values() if c.hi is not None]
    return max(known, default=None)


def _not_over(
    plan: Plan, stands: Iterable[Standing], base: Manifest, bounds: Bounds
) -> tuple[Standing, ...]:
    """What stands without records that no later row of their output can match."""
    nodes = {o.name: o.node for o in plan.outputs}

    def timed_of(standing: Standing) -> Patterns:
        return _timed(Same(nodes[standing.output]), Same(standing.feedback))

    stands = tuple(stands)
    told = ((nodes[s.output], timed_of(s)) for s in stands)
    patterns = patterns_of(plan, base.sources, bounds, _wants(plan, base, told))

    def left(standing: Standing) -> Patterns:
        records = standing.feedback.records
        if standing.declared:
            return records  # it stands as long as it is declared
        name = plan.name_of(nodes[standing.output])
        timed = timed_of(standing)
        later = not_covered(timed, bounds[name], patterns[name])
        if later is timed:
            return records
        wanted = set(later)
        return tuple(r for r, t in zip(records, timed, strict=True) if t in wanted)

    return without(stands, left)


def _wants(plan: Plan, base: Manifest | None, records: Iterable[tuple[Node, Patterns]]) -> Wants:
    """The patterns that would cover records: those on no other columns. Nobody else may have a use for patterns of an output."""
    if base is None or not any(s.patterns for s in base.sources.values()):
        return NO_WANTS
    index = {id(n): i for i, n in enumerate(plan.nodes)}
    wanted: dict[int, dict[Want, None]] = {}
    for node, each in records:
        wanted.setdefault(index[id(node)], {}).update(
            dict.fromkeys(Want(frozenset(r.columns)) for r in each)
        )
    return {i: tuple(each) for i, each in wanted.items()}


@lru_cache(maxsize=256)
def _timed(node: Same[Node], feedback: Same[Feedback]) -> Patterns:
    """Its records, with tests on windows as tests on the time of results."""
    return tuple(in_result_time(node.it, r) for r in feedback.it.records)


# ---- where it acts ----
def arranged(
    plan: Plan,
    intent: Intent,
    base: Manifest | None,
    bounds: Bounds,
    reach: Reach = "source",
) -> Arranged:
    """Where the feedback that an intent took in acts; ``reach`` says how far down, where the intent was not tried before."""
    now, before = intent_of(intent), state_of(base)
    reach = now.reach if now.reach in get_args(Reach) else reach  # type: ignore[assignment]
    acts = reach in ("operators", "source")
    own = acts and bool(_by_filters(Same(plan)))
    changed = (now.read, now.standing) != (before.read, before.standing)
    idle = Arranged(
        state=FeedbackState(now.read, dropped=before.dropped), refused=now.refused, changed=changed
    )
    ended = not (now.standing or before.dark or before.shades)
    if ended and not own:
        return idle
    ignored = _ignored(plan, now.standing) if reach != "off" else {}
    layout = _layout(plan, ignored if acts else {}, own, before)
    over = wanted_later(plan, base, bounds, layout)
    proofs = proofs_in(Same(plan), Same(layout))
    sealed = still_sealed(plan, proofs, before.sealed, bounds, over) if before.sealed else {}
    if sealed:
        known = asserted_by(plan, sealed)
        layout = _layout(plan, ignored if acts else {}, own, before, known)
    nodes, names = plan.nodes, plan.names
    states = base.sources if base is not None else {}
    at = reached(plan, states, bounds)
    old = Layout(
        tuple(Place(dark=tuple(before.dark.get(n, ()))) for n in names),
        tuple(() for _ in plan.outputs),
    )
    left = [tuple(before.shades.get(n, ())) for n in names]
    shades = shades_after(nodes, old, layout, left, at)
    made = guards(plan, Wanted(layout, shades, ignored, over, sources=reach == "source"))
    if ended and not made.paths:
        return replace(idle, proofs=proofs)  # what the query says does not go on, for now
    places = list(zip(names, layout.places, shades, strict=True))
    state = FeedbackState(
        now.read,
        now.standing,
        {n: p.asserted for n, p, _ in places if p.asserted},
        {n: p.dark for n, p, _ in places if p.dark},
        {n: s for n, _, s in places if s},
        before.dropped,
        sealed,
    )
    changed = changed or state.shades != before.shades
    by_name = _by_name(plan) if own else ()
    beyond = {n: p.beyond for n, p, _ in places if p.beyond}
    return Arranged(
        made, state, now.refused, changed, by_filters=by_name, proofs=proofs, beyond=beyond
    )


def wanted_later(
    plan: Plan, base: Manifest | None, bounds: Bounds, layout: Layout | None = None
) -> Callable[[Node, Patterns], Patterns]:
    """What leaves out the records on an operator that no later row of it can match; the records are those of ``layout``."""
    places = zip(plan.nodes, layout.places, strict=True) if layout is not None else ()
    told = (pair for node, place in places for pair in _told(node, place))
    sources = base.sources if base is not None else {}
    patterns = patterns_of(plan, sources, bounds, _wants(plan, base, told))

    def over(node: Node, records: Patterns) -> Patterns:
        name = plan.name_of(node)
        return not_covered(records, bounds.get(name, {}), patterns[name])

    return over


def _told(node: Node, place: Place) -> Iterator[tuple[Node, Patterns]]:
    """Records that are asserted of an operator, and those that it does not want of its inputs."""
    yield node, (*place.asserted, *place.guard)
    yield from zip(node.children, place.ports, strict=False)


def _ignored(plan: Plan, standing: Sequence[Standing]) -> dict[str, Patterns]:
    """What each output ignores, in its own columns."""
    by_output: dict[str, list[Same[Feedback]]] = {o.name: [] for o in plan.outputs}
    for s in standing:
        by_output[s.output].append(Same(s.feedback))
    return {name: _together(tuple(each)) for name, each in by_output.items() if each}


@lru_cache(maxsize=64)
def _together(each: tuple[Same[Feedback], ...]) -> Patterns:
    """Records without those that others cover; each is compared with each, and mostly they are those of the batch before."""
    return simplified(r for feedback in each for r in feedback.it.records)


@lru_cache(maxsize=8)
def _by_filters(plan: Same[Plan]) -> Mapping[int, Feedback]:
    """What the query says itself; nothing where a join must see all rows."""
    if recall_joins(plan.it):
        return {}
    return by_filters(plan.it.nodes, ansi=plan.it.ansi, zone=plan.it.zone)


def _by_name(plan: Plan) -> tuple[tuple[str, Feedback], ...]:
    return tuple((plan.names[i], f) for i, f in _by_filters(Same(plan)).items())


_ByPlace = tuple[tuple[int, Same[Patterns]], ...]


def _layout(
    plan: Plan,
    ignored: Mapping[str, Patterns],
    own: bool,
    before: FeedbackState,
    sealed: _ByPlace = (),
) -> Layout:
    if recall_joins(plan):
        # What a join is measured by decides how long streams are waited for: it must see all rows.
        ignored = {}
    by_output = tuple((o, Same(records)) for o, records in ignored.items())
    layout = _laid_out(Same(plan), by_output, own, sealed)
    if any(p.beyond for p in layout.places):
        old = ((i, before.asserted.get(n)) for i, n in enumerate(plan.names))
        kept = tuple((i, Same(records)) for i, records in old if records)
        layout = _laid_out(Same(plan), by_output, own, sealed, kept)
    return layout


@lru_cache(maxsize=8)
def _laid_out(
    plan: Same[Plan],
    ignored: tuple[tuple[str, Same[Patterns]], ...],
    own: bool,
    sealed: _ByPlace,
    before: _ByPlace = (),
) -> Layout:
    """The layout of what stands, which from batch to batch is mostly the same, and the very same object."""
    known = {name: records.it for name, records in ignored}
    outputs = [(o.node, known.get(o.name, ())) for o in plan.it.outputs]
    filters = {i: f.records for i, f in _by_filters(plan).items()} if own else {}
    results, old = ({place: r.it for place, r in each} for each in (sealed, before))
    return laid_out(plan.it.nodes, outputs, can_test, filters, sealed=results, before=old)


def signed(
    plan: Plan, intent: Intent, made: Guards, *, reach: Reach, repeated: bool, location: Any
) -> Intent:
    """The intent with a digest of its guards; one that is repeated must have the same."""
    own = intent_of(intent)
    if own == FeedbackIntent() and not made.paths:
        return intent
    own = replace(own, reach=own.reach or reach)
    if not made.paths:
        return replace(intent, feedback=own.to_json())
    texts = {
        str(p): [[at, g.match.sql, g.match.duck, g.soft] for at, g in placed]
        for p, placed in made.paths.items()
    }
    # Settings of operators may change between two tries, as the plan may; other guards follow from that.
    settings = [str(n.reacting) for n in plan.nodes if n.reacting != USUAL]
    shape = [list(plan.names), [p.consumer for p in plan.paths], *settings]
    marks = (digest(shape), digest(texts))
    if repeated and own.guards[0] == marks[0] and own.guards != marks:
        raise CheckpointError(
            "REPLAY_MISMATCH",
            f"batch {intent.batch} was tried before with other guards of feedback",
            hint="go on with the version of slackwater that tried it, until the batch is done",
            location=location,
        )
    return replace(intent, feedback=replace(own, guards=marks).to_json())


def with_counts(state: FeedbackState, dropped: Mapping[str, int]) -> FeedbackState:
    """The state with the rows that the batch dropped."""
    total = dict(state.dropped)
    for place, rows in dropped.items():
        total[place] = total.get(place, 0) + rows
    return replace(state, dropped=total)


def with_unread(dropped: Mapping[str, int], unread: Unread) -> dict[str, int]:
    """Rows that were dropped, by place, with those that were not read."""
    total = dict(dropped)
    for place, rows in unread.dropped.items():
        total[place] = total.get(place, 0) + rows
    return total


def guard_lines(plan: Plan, last: Manifest | None, reach: Reach) -> list[str]:
    """For people: what stands after a batch, or before the first one, and where it acts."""
    state = state_of(last)
    own = _by_name(plan) if reach in ("operators", "source") else ()
    if not (state.standing or state.shades or own):
        return []
    lines = [f"{s.name} on output {s.output}: {s.feedback}" for s in state.standing]
    lines += [f"{name} of the query itself: {feedback}" for name, feedback in own]
    begun = (0, 0, -1) if last is None else (last.batch + 1, last.epoch, last.batch)
    intent = Intent(
        *begun, 0, None, 1, False, 0, (), "", {},
        feedback=FeedbackIntent(state.read, state.standing).to_json(),
    )  # fmt: skip
    bounds = bounds_of(plan, {}) if last is None else last.bounds
    there = arranged(plan, intent, last, bounds, reach)
    made, sealing = there.guards, sealing_lines(plan, there.proofs)
    lines += sealing
    for path in plan.paths:
        for at, guard in made.of(path):
            what = "may drop" if guard.soft else "drops"
            lines.append(
                f"{guard.place} -> {path.consumer}, behind {at} step(s): {what} {guard.match.sql}"
            )
    return lines if made.paths or sealing else [*lines, "nothing below can be dropped by that"]
