"""Engines without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.in_process import Engine, Make


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes engines, each in a folder of its own, which may be named."""
    count = 0

    def make(name: str | None = None) -> Engine:
        nonlocal count
        count += 1
        folder = tmp_path / (name or str(count))
        folder.mkdir()
        return Engine(folder, monkeypatch)

    return make
