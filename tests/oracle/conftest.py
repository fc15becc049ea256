"""No waiting for the disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _quick_files() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slackwater.kernels.joins.bounded.blocks.os.fsync", lambda fd: None)
        yield
