"""The map of speeds: what its example shows is what its definition says, in view and with all places."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import slackwater as sw

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def colours(sensors: Any, cars: Any) -> dict[int, dict[int, str]]:
    """The map by its definition: each report by place and time, both of a pair as their mean."""
    reports: dict[tuple[int, Any], list[int]] = {}
    for place, at, speed in (r for batch in (*sensors, *cars) for r in batch):
        reports.setdefault((place, at), []).append(speed)
    speeds: dict[tuple[int, int], list[float]] = {}
    for (place, at), found in reports.items():
        speeds.setdefault((int(at.timestamp()) // 120, place), []).append(sum(found) / len(found))
    made: dict[int, dict[int, str]] = {}
    for (wid, place), found in speeds.items():
        mean = sum(found) / len(found)
        made.setdefault(wid, {})[place] = "green" if mean > 50 else "red" if mean < 20 else "yellow"
    return made


@pytest.mark.spec("FC-F38")
@pytest.mark.parametrize("view", [None, "place BETWEEN 2 AND 4"])
def test_the_speed_map_example(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, view: str | None
) -> None:
    """Reports without a partner count, and what is in view is what it is without feedback."""
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(EXAMPLES / "speed_map.py"))
    monkeypatch.setattr(sw, "session", lambda: spark, raising=False)
    wanted = colours(example["sensors"](), example["cars"]())
    assert {c for w in wanted.values() for c in w.values()} == {"green", "yellow", "red"}
    if view is not None:
        wanted = {
            w: {p: c for p, c in places.items() if 2 <= p <= 4} for w, places in wanted.items()
        }
    assert example["main"](view) == wanted
