"""Windows as a query states them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TimeWindow:
    """Time windows: window w ends at ``origin + (w+1)*slide`` and spans ``range`` ticks, half-open.

    ``on`` names the progressing column.
    """

    range: int
    slide: int
    origin: int
    on: str

    @property
    def is_tumbling(self) -> bool:
        """Whether each time belongs to exactly one window."""
        return self.range == self.slide
