"""What manifests hold of sources and operators: it survives JSON, and JSON of older versions is understood."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.operators.smoothing import Ledger
from slackwater.engine.store.manifest import Manifest, document_of, manifest_of
from slackwater.engine.store.statistics import OperatorStatistics
from slackwater.model.codec import from_json, to_json
from slackwater.semantics.quality.recall_state import RecallState
from slackwater.semantics.slack.waiting import Waiting
from tests.examples import examples
from tests.semantics.values import COUNTS, NAMES, TICKS, recall_states, source_states, waitings

common = (COUNTS, COUNTS, COUNTS, st.floats(0, 9))
kinds = {"recall": st.none() | recall_states(), "waiting": st.none() | waitings()}
statistics = st.builds(OperatorStatistics, *common, **kinds) | st.builds(
    OperatorStatistics, *common, st.sampled_from(["panes", "wids"]), COUNTS, COUNTS, **kinds
)
COMMON = {"slack": 4, "first": 1, "needed": 0.9, "expected": 0.95, "estimated": None}

# Values are large, and their parts independent of each other.
few = examples(25)


def again(document: Any) -> Any:
    return json.loads(json.dumps(document))


@few
@given(known=recall_states())
def test_what_a_join_remembers_survives_json(known: RecallState) -> None:
    assert RecallState.from_json(again(known.to_json())) == known


@few
@given(known=waitings())
def test_what_is_known_of_a_store_survives_json(known: Waiting) -> None:
    assert from_json(Waiting, again(to_json(known))) == known


@few
@given(known=statistics)
def test_statistics_survive_json(known: OperatorStatistics) -> None:
    assert OperatorStatistics.from_json(again(known.to_json())) == known


@few
@given(
    sources=st.dictionaries(NAMES, source_states(), max_size=2),
    known=st.dictionaries(NAMES, statistics, max_size=2),
)
def test_manifests_survive_json(sources: Any, known: Any) -> None:
    manifest = Manifest(1, 1, 1, 2, sources, {"s": {"ts": 4}}, {}, {}, statistics=known)
    assert manifest_of(again(document_of(manifest))) == manifest


@pytest.mark.parametrize(
    "written",
    [
        COMMON,
        {**COMMON, "past": [[3, [4, 5], [0.5, 0.0]]]},
        {
            **COMMON, "reached": None, "lateness": [[3, 4, [5, 6]]],
            "controller": {"up": 1.0, "ud": 2.0, "alpha": 0.5, "error": None},
        },
    ],
    ids=["by the model", "by what was lost", "by lateness"],
)  # fmt: skip
def test_the_json_of_a_recall_is_that_of_the_manifests(written: dict[str, Any]) -> None:
    assert RecallState.from_json(written).to_json() == written


@pytest.mark.parametrize(
    "written",
    [
        {"peakRows": 4, "peakBytes": 5, "results": 6, "seconds": 0.5},
        {"peakRows": 4, "peakBytes": 5, "results": 0, "seconds": 0,
         "plan": "panes", "rows": 0, "partials": 0},
    ],
)  # fmt: skip
def test_the_json_of_statistics_is_that_of_the_manifests(written: dict[str, Any]) -> None:
    assert OperatorStatistics.from_json(written).to_json() == written


def test_older_versions_measured_less() -> None:
    assert OperatorStatistics.from_json({}) == OperatorStatistics()
    older = {"plan": "wids", "rows": 9, "partials": 3}
    assert OperatorStatistics.from_json(older) == OperatorStatistics(
        plan="wids", rows=9, partials=3
    )
    document = document_of(Manifest(1, 1, 1, 2, {}, {}, {}, {}))
    del document["statistics"]
    assert manifest_of(document).statistics == {}


@few
@given(pieces=st.lists(st.tuples(COUNTS, COUNTS, TICKS)).map(tuple), held=COUNTS, low=st.booleans())
def test_ledgers_of_windows_that_wait_survive_json(pieces: Any, held: int, low: bool) -> None:
    ledger = Ledger(pieces, held, low)
    assert from_json(Ledger, again(to_json(ledger))) == ledger
    assert from_json(Ledger, {"closed": [], "held": held}) == Ledger((), held, False)
