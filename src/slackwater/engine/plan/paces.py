"""The paces of a plan in one batch: the limits that their steps judge rows by, and guards where inputs are told of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from slackwater.engine.plan.guards import NO_GUARDS, Guards, Wanted, guards
from slackwater.engine.plan.operators.registry import ROW_OPERATORS
from slackwater.engine.plan.plan import Path, Plan
from slackwater.engine.plan.steps import PaceStep, Step
from slackwater.model.node import Node, Pace
from slackwater.semantics.feedback_rules import laid_out
from slackwater.semantics.limits import START
from slackwater.semantics.pace import given_up, limit
from slackwater.semantics.patterns import Patterns


def paces_of(plan: Plan) -> dict[str, Pace]:
    """The operators that keep a pace, by name: those that let the newer rows pass."""
    named = zip(plan.names, plan.nodes, strict=True)
    return {name: node for name, node in named if type(node) is Pace}


def place_of(name: str) -> str:
    """The name under which the rows are counted that a pace drops, apart from those that guards drop at its output."""
    return f"{name}: behind"


def paced(plan: Plan, marks: Mapping[str, int]) -> Plan:
    """The plan of a batch, whose steps have the limits of the ``marks`` in force."""
    if not any(isinstance(node, Pace) for node in plan.nodes):
        return plan
    counted = _counted(plan)

    def step(path: Path, at: int, one: Step) -> Step:
        if not isinstance(one, PaceStep):
            return one
        name = _name_of(plan, one)
        place = place_of(name) if (path.id, at) in counted else ""
        return replace(one, limit=limit(one.node, marks.get(name, START)), place=place)

    def path(one: Path) -> Path:
        return replace(one, steps=tuple(step(one, at, s) for at, s in enumerate(one.steps)))

    before = None if plan.before is None else paced(plan.before, marks)
    return replace(plan, paths=tuple(map(path, plan.paths)), before=before)


def _name_of(plan: Plan, step: PaceStep) -> str:
    """The name of a step's operator. Two over operators that stay apart (`unify`) may be equal, and differ in their names."""
    named = list(zip(plan.names, plan.nodes, strict=True))
    own = [name for name, node in named if node is step.node]
    return own[0] if own else next(n for n, m in named if type(m) is type(step.node) and m == step.node)  # fmt: skip


def _counted(plan: Plan) -> set[tuple[int, int]]:
    """The steps that count what they drop, by path and place: a row that several readers of a pace get is counted once."""
    left: dict[int, int] = {}
    found = set()
    for path in plan.paths:
        for at, step in enumerate(path.steps):
            if isinstance(step, PaceStep) and not step.keeps_old:
                ways = left.setdefault(id(step.node), _ways_to(step.node))
                if ways > 0:
                    found.add((path.id, at))
                left[id(step.node)] = ways - 1
    return found


def _ways_to(node: Node) -> int:
    """On how many ways the rows of an operator come, from streams or from operators that hold state."""
    if type(node) not in ROW_OPERATORS:
        return 1
    return sum(_ways_to(c) for c in node.children)


def pace_guards(
    plan: Plan,
    marks: Mapping[str, int],
    over: Callable[[Node, Patterns], Patterns],
    *,
    sources: bool,
) -> Guards:
    """Where the inputs of paces drop rows that these would drop.

    No operator gets dark by it: in front of one that would, a guard stops. So a query that no longer keeps the pace, or that
    reads what was dropped, finds all results of windows whole.
    """
    own = {}
    for name, node in paces_of(plan).items():
        record = given_up(node, marks.get(name, START))
        if record is not None:
            own[id(node)] = (record,)
    if not own:
        return NO_GUARDS
    layout = laid_out(plan.nodes, [(o.node, ()) for o in plan.outputs], lambda *_: False, own=own)
    # Right in front of a pace a guard would do what the pace does.
    places = zip(plan.nodes, layout.places, strict=True)
    layout = replace(
        layout,
        places=tuple(replace(p, ports=()) if isinstance(n, Pace) else p for n, p in places),
    )
    nothing = tuple(() for _ in plan.nodes)
    return guards(plan, Wanted(layout, nothing, {}, over, sources=sources)).as_moving()
