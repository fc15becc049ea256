"""What is durable of a column under a quality target: it survives JSON, and its JSON is that of older manifests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.semantics.progress import SourceState
from slackwater.semantics.quality.state import AdaptationState, Arrived, QualityState
from tests.semantics.values import quality_states

ADAPTATION: dict[str, Any] = {
    "statistics": {"window": {"granularity": 10}, "newest": 7},
    "states": {"agg#0": {"bias": 0.5}},
    "slack": 20,
    "first": 3,
    "edges": {"": [5, 7], "b": []},
}
WRITTEN: dict[str, dict[str, Any]] = {
    "before the first delay": {"slack": None, "adaptation": ADAPTATION},
    "batch by batch": {"slack": 20, "adaptation": ADAPTATION},
    "row by row": {"slack": 20, "adaptation": ADAPTATION, "bound": -4},
    "below a join": {"slack": 20, "adaptation": ADAPTATION, "arrived": [9, 10, [[0, 7], [2, 2]]]},
    "below a join that counts": {
        "slack": 0, "adaptation": ADAPTATION, "arrived": [0, 1, []], "watch": 0,
    },
}  # fmt: skip


@given(known=quality_states())
def test_a_quality_state_survives_json(known: QualityState) -> None:
    assert QualityState.from_json(json.loads(json.dumps(known.to_json()))) == known


@given(known=st.dictionaries(st.sampled_from(["ts", "end"]), quality_states()))
def test_it_survives_in_the_state_of_its_source(known: dict[str, QualityState]) -> None:
    state = SourceState(quality=known)
    assert SourceState.from_json(json.loads(json.dumps(state.to_json()))) == state


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_its_json_is_that_of_the_manifests(written: dict[str, Any]) -> None:
    assert QualityState.from_json(written).to_json() == written


def test_the_parts_have_names() -> None:
    known = QualityState.from_json(WRITTEN["below a join"])
    assert known.arrived == Arrived(9, 10, ((0, 7), (2, 2)))
    assert known.adaptation == AdaptationState(
        ADAPTATION["statistics"], ADAPTATION["states"], 20, 3, {"": [5, 7], "b": []}
    )
    assert (known.bound, known.watch) == (None, None)


def test_a_source_of_an_older_manifest_has_no_quality() -> None:
    written = {"columns": {}, "rows": 4, "violations": 0, "since": None, "orders": {}}
    assert SourceState.from_json(written) == SourceState(rows=4)
