"""The comparison of buffers and panes measures what the models say."""

from __future__ import annotations

import pytest

from benchmarks.sharing import CASES, measure


@pytest.mark.spec("QD-F6", "QD-F8", "QD-H5")
@pytest.mark.parametrize("name", ["same rows", "where greed errs"])
def test_rows_and_partials_held_are_those_of_the_models(name: str) -> None:
    found = measure(name, 6000, 1000)
    for way in ("unshared", "greedy", "optimal", "naive", "panes", "shared panes"):
        held = found[way]["rows"]
        assert held == pytest.approx(found[way]["model"], rel=0.15), (way, found)
    assert all(0 < found[way]["seconds"] < 60 for way in ("unshared", "greedy", "optimal", "naive"))
    assert found["optimal"]["model"] == pytest.approx(found["naive"]["model"])
    assert found["optimal"]["rows"] <= found["greedy"]["rows"] * 1.001
    assert (found["optimal"]["rows"] < found["unshared"]["rows"]) == (name == "same rows")
    assert found["panes"]["results"] == found["shared panes"]["results"] > 0


def test_cases_have_queries_with_names_of_their_own() -> None:
    for queries in CASES.values():
        assert len({q.name for q in queries}) == len(queries) > 1
