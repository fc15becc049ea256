"""The two ends of the domain of bounds, inside int64 with room for sums."""

from __future__ import annotations

START = -(1 << 62)
"""No bound yet."""

END = 1 << 62
"""The stream has ended."""

EARLIEST, LATEST = -(1 << 61), (1 << 61) - 1
"""A time outside of these (some 73,000 years from the epoch in microseconds) counts as no time: so near the ends of
int64, the ends of its windows could not be computed."""
