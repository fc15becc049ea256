"""Who holds a bound back, in words, from a progress record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slackwater.model.spans import in_words


def held_by(bound: Mapping[str, Any]) -> str | None:
    """The partition that holds a bound back; one that is ahead of all others is named as well, for the fault is its own.

    >>> held_by({"bound": 7, "holder": "a", "apart": {"partition": "b", "ahead": 90}}), held_by({"bound": 7, "holder": None})
    ('a (b is 90 ahead of the others)', None)
    """
    holder: str | None = bound.get("holder")
    one = ahead_of_others(bound)
    return holder if one is None else f"{holder or 'nobody'} ({one})"


def ahead_of_others(bound: Mapping[str, Any]) -> str | None:
    """The partition whose clock is ahead, and by how much."""
    apart = bound.get("apart")  # records of earlier versions have none
    if apart is None or apart["ahead"] <= 0:
        return None
    ahead = in_words(apart["ahead"]) if isinstance(bound["bound"], str) else f"{apart['ahead']:,}"
    return f"{apart['partition']} is {ahead} ahead of the others"
