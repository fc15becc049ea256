"""Options of low-level tables, without a session."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.errors import AnalysisError
from slackwater.surface.options import check_names
from slackwater.surface.start import settings_of


def test_options_become_settings() -> None:
    given: dict[str, Any] = {"lowtable": 100, "lowflush": "4", "lowprobe": "true"}
    check_names(["lowTable", "lowFlush", "lowProbe"], None)
    found = settings_of(given)
    assert (found.low_table, found.low_flush, found.low_probe) == (100, 4, True)
    assert settings_of({}).low_table == 0


@pytest.mark.parametrize(
    "given",
    [{"lowtable": 0}, {"lowtable": "many"}, {"lowtable": 8, "lowflush": 0}, {"lowflush": 4}, {"lowprobe": True}],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(AnalysisError, match="low"):
        settings_of(given)
