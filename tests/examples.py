"""How many random examples a test takes.

The number that a test names is that of `make test`, which draws the same examples in every run, so that it tells about the
change at hand. `make random` multiplies all of them and draws new ones: it sets ``EXAMPLES``.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("EXAMPLES", "1"))
USUAL = 50

# How long an example takes says nothing here: machines are shared.
settings.register_profile(
    "unhurried",
    max_examples=USUAL * TIMES,
    deadline=None,
    derandomize=TIMES == 1,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("unhurried")


def examples(count: int, **others: Any) -> settings:
    """Settings of a random test: ``count`` examples in `make test`. A test without settings takes ``USUAL``."""
    return settings(max_examples=count * TIMES, **others)
