"""Random tests of benchmarks take as many examples as those in ``tests``."""

from __future__ import annotations

import tests.examples  # noqa: F401
