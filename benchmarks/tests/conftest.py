"""Random tests of benchmarks take as many examples as those in ``tests``, and marked ones are followed."""

from __future__ import annotations

import tests.examples  # noqa: F401
from tests.marked import pytest_configure  # noqa: F401 (a hook)
