"""How an operator deals with feedback, where the user says so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reacting:
    """Settings of one operator. They change no result that is wanted, and are no part of what the operator is.

    With ``exploit`` it drops rows and keeps results back; with ``propagate`` it passes feedback on to its inputs.
    ``log`` has the rows counted that come in, are dropped and go out.
    """

    exploit: bool = True
    propagate: bool = True
    log: bool = False

    def __str__(self) -> str:
        return f"exploit={self.exploit}, propagate={self.propagate}"


USUAL = Reacting()
"""Where the user says nothing."""
