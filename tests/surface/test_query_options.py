"""Options of a query that are settled before anything runs, without a session."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.engine.paths.batch import Settings
from slackwater.errors import AnalysisError
from slackwater.model.meaning import Meaning
from slackwater.model.window import TimeWindow
from slackwater.surface import start
from slackwater.surface.options import check_names
from slackwater.surface.start import plan_of, shares_panes
from tests.engine.test_low_table import counted
from tests.surface.test_grouped import SOURCE, stream


def test_panes_are_shared_unless_told_not_to() -> None:
    check_names(["sharePanes"], None)
    plain = Settings()
    assert shares_panes({}, plain) and shares_panes({"sharepanes": "true"}, plain)
    assert not shares_panes({"sharepanes": "false"}, plain)
    assert not shares_panes({"sharepanes": False}, plain)
    # Where each aggregate spreads its own work over batches, there is no common store.
    for own in (Settings(smooth=5), Settings(low_table=8)):
        assert not shares_panes({}, own) and not shares_panes({"sharepanes": "true"}, own)
    with pytest.raises(AnalysisError, match="sharePanes"):
        shares_panes({"sharepanes": "maybe"}, plain)


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of a session, without one."""
    monkeypatch.setattr(start, "current", lambda spark: Meaning.of({}))


def planned(options: dict[str, Any]) -> str:
    """The plan of a sliding window's aggregate under the options."""
    node = counted(SOURCE, ("part",), TimeWindow(12, 4, 0, "ts"), "v")
    made = stream(node)
    made._inputs = {0: None}  # type: ignore[dict-item]
    plan, _ = plan_of({"out": made}, options)
    (operator,) = plan.operators
    assert operator.spec is not None
    return operator.spec.plan


@pytest.mark.parametrize("wanted", ["panes", "wids", "buffered", "adaptive"])
def test_the_window_plan_is_the_one_that_was_asked_for(wanted: str) -> None:
    assert planned({"windowplan": wanted}) == planned({"windowplan": wanted.upper()}) == wanted


@pytest.mark.parametrize("typo", ["pane", "bufered", "", "best"])
def test_a_window_plan_that_is_not_known_is_refused_with_those_that_are(typo: str) -> None:
    with pytest.raises(AnalysisError, match="windowPlan") as caught:
        planned({"windowplan": typo})
    for name in ("auto", "panes", "wids", "buffered", "adaptive"):
        assert f'"{name}"' in (caught.value.hint or "")
