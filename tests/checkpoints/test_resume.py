"""Checkpoints that earlier commits wrote go on where they stopped, at another number of groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from tests.checkpoints.kept import ARCHIVES, NEWER, USUAL, VERSIONS, Shape, kept
from tests.faults.scenarios import scenarios

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = [
    pytest.param(v, slug, marks=[] if slug in USUAL.get(v, kept()) else [pytest.mark.faults])
    for v in VERSIONS
    for slug in kept()
]


def test_every_query_has_a_checkpoint_in_each_version() -> None:
    archives = {
        (p.parent.name, p.name.removesuffix(".tar.xz")) for p in ARCHIVES.glob("*/*.tar.xz")
    }
    assert archives == {(v, slug) for v in VERSIONS for slug in kept()}
    named = {k.scenario.name for k in kept().values()}
    assert {s.name for s in scenarios().values()} - named == NEWER


def test_the_usual_ones_meet_every_shape_of_state() -> None:
    assert set(USUAL) == set(VERSIONS[:-1])
    newest = _shapes(VERSIONS[-1], kept())
    for version, usual in USUAL.items():
        older = _shapes(version, kept()) - newest
        assert _shapes(version, usual) - newest == older
        for slug in usual:  # and none of them is there for nothing
            assert _shapes(version, set(usual) - {slug}) - newest != older, slug


def _shapes(version: str, slugs: Iterable[str]) -> set[Shape]:
    return {shape for slug in slugs for shape in kept()[slug].shapes(version)}


@pytest.mark.spark
@pytest.mark.parametrize(("version", "slug"), CASES)
def test_a_kept_checkpoint_resumes_and_gives_the_right_output(
    version: str, slug: str, spark: SparkSession
) -> None:
    item = kept()[slug]
    with item.unpacked(version) as place:
        item.start(spark, place, groups=3)
        assert item.scenario.compare(place / "state") == (0, 0)
