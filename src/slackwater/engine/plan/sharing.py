"""Operators that share one state: aggregates that share panes, and sorts that share the rows that wait.

Operators share when the same rows reach them: several results of one stream, or of streams that differ in their policy
alone (each result then has its own slack). Filters right in front of sorts may differ: rows carry which sorts want them. The rows
travel one path, and what aggregates need of them is reduced once. Every operator keeps its name, its bounds and its results.

Who shares is decided when operators start and then recorded with the query, since state depends on it: on a restart a
store goes on with those of its operators that are left. New sorts join it; new aggregates share among themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slackwater.engine.plan.plan import Operator, Path, Plan
from slackwater.engine.plan.sources import has_patterns
from slackwater.engine.plan.steps import FilterStep, LookupStep, PaceStep, ProjectStep, unknown_step
from slackwater.engine.plan.window_plans import holds_state
from slackwater.engine.store.manifest import Manifest
from slackwater.kernels.windows import shared_panes
from slackwater.model.node import Aggregate, SharedPanes, SharedSort, Sort, Source
from slackwater.model.policy import Punctuated
from slackwater.model.schema import Expr
from slackwater.model.window import TimeWindow, is_all_time
from slackwater.semantics.pane_sharing import StorePanes, grouped


@dataclass(frozen=True)
class Record:
    """A store as the query's description keeps it: the operators it was made for; of panes their width, origin, and
    the names of primitives by signature; of rows the bit of each sort, and how many bits have been given away so far.
    """

    members: tuple[str, ...]
    width: int = 0
    origin: int = 0
    names: Mapping[str, str] = field(default_factory=dict)
    bits: Mapping[str, int] = field(default_factory=dict)
    used: int = 0

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Record:
        """From a query's description."""
        return cls(**{**json, "members": tuple(json["members"])})


MAX_BITS = 62
"""Most sorts that a store of rows can have known: one bit of a row's 64 for each."""

Records = Mapping[str, Record]
"""By the store's name."""


def share(plan: Plan, records: Records, last: Manifest | None, *, wanted: bool = True) -> Plan:
    """The plan with stores: those of ``records`` that have state, and if ``wanted`` new ones."""
    chosen: list[tuple[str, list[Operator], Record | None]] = []
    for name, known in records.items():
        left = [op for op in plan.operators if op.id in known.members]
        if left and holds_state(name, last):
            chosen.append((name, [_by_panes(op) for op in left], known))
    taken = {op.id for _, members, _ in chosen for op in members}
    if wanted and not has_patterns(plan.sources):
        free = [
            op for op in plan.operators
            if op.id not in taken and _can_share(op) and not holds_state(op.id, last)
        ]  # fmt: skip
        for _, members, record in chosen:
            assert record is not None
            joining = _joining(plan, members, record, free)
            members += joining
            free = [op for op in free if op not in joining]
        for members in _alike(plan, free):
            chosen.append((_name(members, {name for name, *_ in chosen}, last), members, None))
    shared = plan
    for name, members, record in chosen:
        shared = _with_store(shared, name, members, record)
    return replace(shared, before=plan) if chosen else plan


def records(plan: Plan) -> dict[str, dict[str, Any]]:
    """The stores of a plan, for the query's description."""
    by_id: dict[str, dict[str, Any]] = {}
    for op in plan.operators:
        if isinstance(op.node, SharedPanes | SharedSort):
            by_id[op.id] = {"members": list(op.producers)}
        if isinstance(op.node, SharedSort):
            bits = dict(zip(op.producers, op.node.bits, strict=True))
            by_id[op.id].update(bits=bits, used=op.node.used)
        if isinstance(op.node, SharedPanes):
            window = op.aggregation.sliding
            names = {shared_panes.signature(p): p.name for p in op.aggregation.primitives}
            by_id[op.id].update(width=window.range, origin=window.origin, names=names)
    return by_id


def _can_share(operator: Operator) -> bool:
    """Whether a store can hold its state together with that of others.

    Stores are known of sorts and of panes of time. An operator or a window of another type keeps its state to itself,
    which is always right.
    """
    if isinstance(operator.node, Sort):
        return True
    if not operator.is_aggregate:
        return False
    spec = operator.aggregation
    if spec.plan != "panes" or spec.hidden:
        return False
    return isinstance(spec.window, TimeWindow) and not is_all_time(spec.window)


def _by_panes(operator: Operator) -> Operator:
    if not operator.is_aggregate:
        return operator
    return replace(operator, spec=replace(operator.aggregation, plan="panes"))


def _alike(plan: Plan, operators: Iterable[Operator]) -> Iterable[list[Operator]]:
    """Operators that are worth a store, two or more at a time."""
    same: dict[Any, list[Operator]] = {}
    for op in operators:
        key = _rows(plan, op)
        if key is not None:
            same.setdefault(key, []).append(op)
    for members in same.values():
        windows = [op.aggregation.sliding for op in members if op.is_aggregate]
        # Sorts always share: where their rows wait is decided while they run, and never costs more rows than apart.
        for places in grouped(windows) if windows else _few(len(members)):
            if len(places) > 1:
                yield [members[i] for i in places]


def _few(count: int) -> list[range]:
    """As many sorts in a store as there are bits."""
    return [range(i, min(i + MAX_BITS, count)) for i in range(0, count, MAX_BITS)]


def _rows(plan: Plan, op: Operator) -> Any:
    """What tells operators over the same rows from others; None if rows reach one by a way of its own."""
    paths = list(plan.paths_to(op.id))
    if any(p.blocked_by is not None for p in paths):
        return None  # Spark evaluates the steps of each path by itself
    ends = len(_filters(plan, op))
    rows = tuple(
        (_producer(plan, p), p.steps[: len(p.steps) - ends], p.time, p.shift) for p in paths
    )
    keys = op.node.keys if isinstance(op.node, Aggregate) else None
    return rows, keys, op.on, op.level


def _filters(plan: Plan, op: Operator) -> tuple[Expr, ...]:
    """The conditions right in front of a sort, which all its rows must meet; other operators take rows as they come."""
    if not isinstance(op.node, Sort):
        return ()
    chains: set[tuple[Expr, ...]] = set()
    for path in plan.paths_to(op.id):
        conditions: list[Expr] = []
        for step in reversed(path.steps):
            match step:
                case FilterStep():
                    conditions.insert(0, step.condition)
                case ProjectStep() | LookupStep() | PaceStep():
                    break
                case _:
                    raise unknown_step(step)
        chains.add(tuple(conditions))
    return chains.pop() if len(chains) == 1 else ()


def _joining(
    plan: Plan, members: Sequence[Operator], record: Record, free: Sequence[Operator]
) -> list[Operator]:
    """Sorts without state that can join a store of rows: what is in it does not have their bits."""
    rows = _rows(plan, members[0])
    if not isinstance(members[0].node, Sort) or rows is None:
        return []
    alike = [op for op in free if isinstance(op.node, Sort) and _rows(plan, op) == rows]
    return alike[: MAX_BITS - record.used]


def _producer(plan: Plan, path: Path) -> Any:
    """What tells producers of the same rows from others.

    Two streams over one input give the same rows if they leave none out by a judgement of their own.
    """
    node = plan.node(path.producer)
    if not isinstance(node, Source) or node.late != "admit":
        return path.producer
    if any(isinstance(p, Punctuated) or p.future == "side" for p in node.policies):
        return path.producer
    return replace(node, name="", policies=(), twin="")


def _name(members: Sequence[Operator], taken: set[str], last: Manifest | None) -> str:
    """A name for a new store: of none that is there, and of none that was and has left state, which means something else."""
    kind = "sorts" if isinstance(members[0].node, Sort) else "panes"
    text = " ".join(sorted(op.id for op in members))
    first = name = f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
    number = 1
    while name in taken or holds_state(name, last):
        number += 1
        name = f"{first}-{number}"
    return name


def _with_store(plan: Plan, name: str, members: Sequence[Operator], record: Record | None) -> Plan:
    """Put one operator in the place of several."""
    first = members[0]
    if isinstance(first.node, Sort):
        made = _sorts(plan, name, members, record)
    else:
        made = _panes(name, members, record)
    gone, ends = {op.id for op in members}, len(_filters(plan, first))
    operators = [made if op.id == first.id else op for op in plan.operators]
    paths = [
        replace(p, consumer=name, steps=p.steps[: len(p.steps) - ends])
        if p.consumer == first.id
        else p
        for p in plan.paths
    ]
    return replace(
        plan,
        operators=tuple(op for op in operators if op.id not in gone),
        paths=tuple(p for p in paths if p.consumer not in gone),
    )


def _sorts(plan: Plan, name: str, members: Sequence[Operator], record: Record | None) -> Operator:
    first = members[0].node
    assert isinstance(first, Sort)
    readers = tuple((op.id, op.node) for op in members if isinstance(op.node, Sort))
    # A bit is given once: rows that wait may still have that of a sort which is gone.
    bits, used = ({}, 0) if record is None else (dict(record.bits), record.used)
    for op in members:
        if op.id not in bits:
            bits[op.id], used = 1 << used, used + 1
    filters = tuple(_filters(plan, op) for op in members)
    mine = tuple(bits[op.id] for op in members)
    node = SharedSort(
        first.schema, first.times, first.child, first.on, readers, filters, mine, used
    )
    return Operator(name, node, members[0].level)


def _panes(name: str, members: Sequence[Operator], record: Record | None) -> Operator:
    first = members[0].node
    assert isinstance(first, Aggregate)
    panes = None if record is None else StorePanes(record.width, record.origin)
    names = {} if record is None else record.names
    store = shared_panes.store_of([op.spec for op in members if op.spec], panes, names)
    readers = tuple((op.id, op.node) for op in members if isinstance(op.node, Aggregate))
    node = SharedPanes(
        first.schema, first.times, first.child, first.keys, store.spec.window,
        store.spec.primitives, (), False, readers,
    )  # fmt: skip
    return Operator(name, node, members[0].level, store.spec)
