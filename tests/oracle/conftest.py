"""No deadlines: how long an example takes says nothing here, and machines are shared. No waiting for the disk either."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(autouse=True, scope="module")
def _quick_files() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slackwater.kernels.joins.bounded.blocks.os.fsync", lambda fd: None)
        yield
