"""The two ends of the domain of bounds, inside int64 with room for sums."""

from __future__ import annotations

START = -(1 << 62)
"""No bound yet."""

END = 1 << 62
"""The stream has ended."""
