"""The passes that make a plan complete, in the order in which they run.

`layout.build` makes a plan of the streams alone. Each pass takes the plan of the one before it and gives a new one. A pass
runs as soon as what it needs is known: the moments of a query's life are the types below, and each says who gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from slackwater.engine.plan.columns import narrowed
from slackwater.engine.plan.placing import placed
from slackwater.engine.plan.plan import Plan
from slackwater.engine.plan.reading import Readable, chosen
from slackwater.engine.plan.sharing import Record, share
from slackwater.engine.plan.unmatched import counted_once
from slackwater.engine.plan.window_plans import settled
from slackwater.engine.progress.quality import check
from slackwater.engine.store.manifest import Manifest


@dataclass(frozen=True)
class Written:
    """The streams are written. The surface gives it when it has laid them out."""


@dataclass(frozen=True)
class Shown:
    """The plan is shown or run. The surface gives the ``inputs``, in the order in which Spark numbers them."""

    inputs: Sequence[Readable]


@dataclass(frozen=True)
class Started(Shown):
    """The query starts.

    The user's options give ``window_plan`` and whether operators may share state (``sharing``); the checkpoint gives the
    window ``plans`` and ``stores`` of its query and the ``last`` manifest.
    """

    window_plan: str
    sharing: bool
    plans: Mapping[str, str]
    stores: Mapping[str, Record]
    last: Manifest | None


@dataclass(frozen=True)
class Begun:
    """A batch begins. The loop gives the manifest that the batch starts from (``base``)."""

    base: Manifest | None


Moment = Written | Shown | Begun


class Pass(NamedTuple):
    """One pass: it runs at moments of the type ``at``."""

    name: str
    at: type
    run: Callable[[Plan, Any], Plan]


def _checked(plan: Plan, _: Written) -> Plan:
    check(plan)
    return plan


def _with_window_plans(plan: Plan, start: Started) -> Plan:
    return settled(plan, start.window_plan, start.plans, start.last)


def _with_shared_state(plan: Plan, start: Started) -> Plan:
    return share(plan, start.stores, start.last, wanted=start.sharing)


def _narrowed(plan: Plan, _: Shown) -> Plan:
    return narrowed(plan)


def _counting(plan: Plan, _: Shown) -> Plan:
    return counted_once(plan)


def _with_readings(plan: Plan, shown: Shown) -> Plan:
    return chosen(plan, shown.inputs)


def _with_places(plan: Plan, begun: Begun) -> Plan:
    return placed(plan, begun.base)


PASSES: tuple[Pass, ...] = (
    Pass("check that a wanted quality can be kept", Written, _checked),
    Pass("choose window plans", Started, _with_window_plans),
    Pass("let operators share state", Started, _with_shared_state),
    # Operators that share state are known by the paths that the user wrote, so those are cut down afterwards.
    Pass("leave out columns that nobody reads", Shown, _narrowed),
    Pass("count rows without a partner once", Shown, _counting),
    # Sharing and window plans change which paths there are, and what can be reduced on them.
    Pass("choose how inputs are read", Shown, _with_readings),
    Pass("say where rows wait", Begun, _with_places),
)


def passed(plan: Plan, moment: Moment) -> Plan:
    """The plan after the passes of a moment."""
    for one in PASSES:
        if isinstance(moment, one.at):
            plan = one.run(plan, moment)
    return plan
