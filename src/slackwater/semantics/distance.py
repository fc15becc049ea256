"""How far apart in time the rows of a pair may be: what comparisons of two times say together."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.model.join import Band


@dataclass(frozen=True)
class Distance:
    """By how many ticks a right row may be newer than its left one, both ends included; None: by any number."""

    least: int | None = None
    most: int | None = None

    def narrowed(self, other: Distance) -> Distance:
        """What both allow.

        >>> Distance(-3, 5).narrowed(Distance(None, 4))
        Distance(least=-3, most=4)
        """
        least = [d for d in (self.least, other.least) if d is not None]
        most = [d for d in (self.most, other.most) if d is not None]
        return Distance(max(least, default=None), min(most, default=None))

    @property
    def reversed(self) -> Distance:
        """The same of the left row and its right one.

        >>> Distance(-3, None).reversed
        Distance(least=None, most=3)
        """
        return Distance(
            None if self.most is None else -self.most, None if self.least is None else -self.least
        )

    @property
    def is_closed(self) -> bool:
        """Whether it ends on both sides: else rows of one input would be kept for ever."""
        return self.least is not None and self.most is not None

    @property
    def is_empty(self) -> bool:
        """Whether no pair is that far apart."""
        return self.least is not None and self.most is not None and self.least > self.most

    @property
    def band(self) -> Band:
        """The band of a join that says the same.

        >>> Distance(-3, 5).band
        Band(before=3, after=5, closed='both')
        """
        assert self.least is not None and self.most is not None
        return Band(-self.least, self.most)
