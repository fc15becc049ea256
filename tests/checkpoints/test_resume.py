"""Checkpoints that earlier commits wrote go on where they stopped, at another number of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.checkpoints.kept import ARCHIVES, kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = sorted((p.parent.name, p.name.removesuffix(".tar.xz")) for p in ARCHIVES.glob("*/*.tar.xz"))


def test_every_query_has_a_checkpoint_in_each_version() -> None:
    versions = {version for version, _ in CASES}
    assert versions
    assert {(v, slug) for v in versions for slug in kept()} == set(CASES)


@pytest.mark.spark
@pytest.mark.parametrize(("version", "slug"), CASES)
def test_a_kept_checkpoint_resumes_and_gives_the_right_output(
    version: str, slug: str, spark: SparkSession
) -> None:
    item = kept()[slug]
    with item.unpacked(version) as place:
        item.start(spark, place, groups=3)
        assert item.scenario.compare(place / "state") == (0, 0)
