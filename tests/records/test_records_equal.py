"""What the engine writes is what it wrote when it was recorded: manifests, intents, progress records, explain, rows."""

from __future__ import annotations

import copy

import pytest

from tests.records.record import NOT_PLAYED, RECORDS, TRANSCRIPTS, difference, kept, made, names


@pytest.mark.parametrize("name", names())
def test_a_transcript_writes_what_was_recorded(name: str) -> None:
    found = difference(kept(name), made(name))
    assert found is None, f"{name}: {found}"


def test_every_transcript_has_a_record_or_a_reason() -> None:
    recorded = {p.name.removesuffix(".json.xz") for p in RECORDS.glob("*.json.xz")}
    transcripts = {p.stem for p in TRANSCRIPTS.glob("*.yaml")}
    assert recorded == transcripts - set(NOT_PLAYED)
    assert set(NOT_PLAYED) <= transcripts
    assert all(NOT_PLAYED.values())


def test_a_difference_is_told_by_its_place() -> None:
    old = kept("mini_tumbling")
    assert difference(old, copy.deepcopy(old)) is None
    new = copy.deepcopy(old)
    new["splits"]["batches"][1]["manifest"]["groups"] = 7
    found = difference(old, new)
    assert found is not None
    assert found.startswith("at splits.batches[1].manifest.groups:")
    assert '+ "groups": 7,' in found
    del new["splits"]["batches"][1]["manifest"]["groups"]
    found = difference(old, new)
    assert found is not None
    assert '- "groups": 2,' in found
    new["splits"]["batches"].pop()
    assert "at splits.batches:" in str(difference(old, new))
