"""An operator that the plan's registry does not know is refused by its name. That all have entries: ``test_registries``."""

from __future__ import annotations

from dataclasses import dataclass
from unittest.mock import MagicMock

import pytest

from slackwater.engine.plan.layout import build
from slackwater.engine.plan.operators.registry import PRODUCERS
from slackwater.engine.plan.plan import Operator, Output
from slackwater.engine.progress.step import frontiers_of
from slackwater.errors import AnalysisError
from slackwater.model.node import Aggregate, Filter, Source
from slackwater.model.policy import Ordered
from slackwater.model.render import LINES
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.model.window import JointWindow

FIELDS = (Field("ts", "bigint"),)
TIMES = (TimeColumn("ts", "long", None),)
SOURCE = Source(FIELDS, TIMES, "s", 0, (Ordered(),))


@dataclass(frozen=True)
class Toy(Filter):
    """A filter that keeps no row would pass for a filter, if its base class counted."""


TOY = Toy(FIELDS, TIMES, SOURCE)


def test_a_plan_with_an_unknown_node_is_not_laid_out() -> None:
    with pytest.raises(AnalysisError, match=r"Toy has no entry in .*plan/operators/registry.py"):
        build([Output("out", TOY)], ansi=True, zone="UTC")


@pytest.mark.parametrize("question", ["columns", "producers"])
def test_an_operator_without_an_entry_has_no_times_and_no_results(question: str) -> None:
    with pytest.raises(AnalysisError, match=r"Toy has no entry in .*plan/operators/registry.py"):
        getattr(Operator("toy", TOY, 1), question)


@dataclass(frozen=True)
class ToyWindow(JointWindow):
    """Windows of several times that no registry knows."""


def test_a_window_without_an_entry_is_not_taken_to_close_by_bounds() -> None:
    node = Aggregate(FIELDS, TIMES, SOURCE, (), ToyWindow(()))
    with pytest.raises(AnalysisError, match=r"ToyWindow has no entry in .*window_types/registry"):
        frontiers_of(MagicMock(), Operator("toy", node, 1), {}, {})


def test_a_producer_without_an_entry_for_its_state_is_not_taken_for_a_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PRODUCERS, Toy, PRODUCERS[Source])
    monkeypatch.setitem(LINES, Toy, lambda node, policies: "toy")
    with pytest.raises(AnalysisError, match=r"Toy has no entry in .*plan/operators/registry.py"):
        build([Output("out", TOY)], ansi=True, zone="UTC")
