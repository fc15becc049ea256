"""How an operator deals with feedback, where the user says so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reacting:
    """Settings of one operator. They change no result that is wanted, and are no part of what the operator is.

    With ``exploit`` it drops rows and keeps results back; with ``propagate`` it passes feedback on to its inputs.
    ``log`` has the rows counted that come in, are dropped and go out. ``seal`` says whether an aggregate seals panes whose
    rows prove that nobody wants their windows; None: where that pays.
    """

    exploit: bool = True
    propagate: bool = True
    log: bool = False
    seal: bool | None = None

    def and_also(self, other: Reacting) -> Reacting:
        """What an operator does that two say settings of: it drops and keeps back only what both let it, and counts what one asks for."""
        if self == other:
            return self
        exploit, propagate = self.exploit and other.exploit, self.propagate and other.propagate
        asked = {self.seal, other.seal} - {None}
        seal = None if not asked or not propagate else asked == {True}
        return Reacting(exploit, propagate, self.log or other.log, seal)

    def __str__(self) -> str:
        sealing = "" if self.seal is None else f", seal={self.seal}"
        return f"exploit={self.exploit}, propagate={self.propagate}{sealing}"


USUAL = Reacting()
"""Where the user says nothing."""
