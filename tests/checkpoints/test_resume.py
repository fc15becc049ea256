"""Checkpoints that earlier commits wrote go on where they stopped, at another number of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from slackwater.testing.oracle.join import JoinOracle
from tests.checkpoints.kept import (
    ARCHIVES,
    BESIDES,
    NEWER,
    ON_SPARK,
    USUAL,
    VERSIONS,
    Shape,
    kept,
    known,
)
from tests.faults.scenarios import scenarios

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATER = [(v, slug) for v, slugs in BESIDES.items() for slug in slugs]
CASES = [
    pytest.param(v, slug, marks=[] if (v, slug) in ON_SPARK else [pytest.mark.faults])
    for v in VERSIONS
    for slug in kept()
]
CASES += [pytest.param(*later, marks=pytest.mark.faults) for later in LATER]
LOCAL = [(v, slug) for v in VERSIONS for slug in USUAL[v] if (v, slug) not in ON_SPARK] + LATER


def test_every_query_has_a_checkpoint_in_each_version() -> None:
    archives = {
        (p.parent.name, p.name.removesuffix(".tar.xz")) for p in ARCHIVES.glob("*/*.tar.xz")
    }
    assert archives == {*((v, slug) for v in VERSIONS for slug in kept()), *LATER}
    named = {k.scenario.name for k in kept().values()}
    assert {s.name for s in scenarios().values()} - named == NEWER


def test_the_usual_ones_meet_every_shape_of_state() -> None:
    assert set(USUAL) == set(VERSIONS) == {version for version, _ in ON_SPARK}
    assert all(slug in USUAL[version] for version, slug in ON_SPARK)
    met: set[Shape] = set()
    for version in reversed(VERSIONS):
        usual, wanted = USUAL[version], _shapes(version, kept()) - met
        assert _shapes(version, usual) - met == wanted
        for slug in usual:  # and none of them is there for nothing
            assert _shapes(version, set(usual) - {slug}) - met != wanted, slug
        met |= wanted


def _shapes(version: str, slugs: Iterable[str]) -> set[Shape]:
    return {shape for slug in slugs for shape in _shapes_in(version, slug)}


@cache
def _shapes_in(version: str, slug: str) -> set[Shape]:
    return kept()[slug].shapes(version)


@pytest.fixture
def older_joins(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets joins of the oracle deal with late rows in the first batches as versions before ADR 0020 did."""

    def begin(batches: int) -> None:
        step, rules = JoinOracle.step, ("is_fleeting", "may_miss")

        def counted(self: JoinOracle, *arguments: Any) -> Any:
            with monkeypatch.context() as patch:
                done = getattr(self, "taken", 0)
                if done < batches:
                    for rule in rules:
                        patch.setattr(JoinOracle, rule, lambda *_: False)
                self.taken = done + 1  # type: ignore[attr-defined]
                return step(self, *arguments)

        monkeypatch.setattr(JoinOracle, "step", counted)

    return begin


@pytest.mark.spark
@pytest.mark.parametrize(("version", "slug"), CASES)
def test_a_kept_checkpoint_resumes_and_gives_the_right_output(
    version: str, slug: str, spark: SparkSession, older_joins: Callable[[int], None]
) -> None:
    item = known()[slug]
    older_joins(item.newest_manifest(version)["batch"] + 1)
    with item.unpacked(version) as place:
        item.start(spark, place, groups=3)
        assert item.scenario.compare(place / "state", item.scenario.transcript) == (0, 0)


@pytest.mark.spark
@pytest.mark.parametrize(("version", "slug"), LOCAL)
def test_its_state_is_read_and_gives_the_right_output(
    version: str, slug: str, spark: SparkSession, older_joins: Callable[[int], None]
) -> None:
    """As above, except that no job of Spark runs."""
    item = known()[slug]
    older_joins(item.newest_manifest(version)["batch"] + 1)
    with item.unpacked(version) as place:
        item.resume_locally(spark, place, groups=3)
        assert item.scenario.compare(place / "state", item.scenario.transcript) == (0, 0)


def test_feedback_stands_where_its_checkpoint_was_kept() -> None:
    ((version, slug),) = LATER
    manifest = known()[slug].newest_manifest(version)
    feedback = manifest["feedback"]
    assert {s["name"] for s in feedback["standing"]} == {"view"}
    assert all(feedback[part] for part in ("dark", "shades", "sealed")) and manifest["marks"]
