"""The bars that measured feedback missed, one line each, with the reason where one is known.

The lines are read from the tables of the page, so that no bar can be missed there and be left out here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.tables import Section

Cases = Mapping[str, Any]
BARS = ("at least", "at most", "bar")
TITLE = "Bars that were missed"
FULL = 1.15
"""A batch that takes at most so many times what a near-empty one takes is as good as that."""


class Reason(NamedTuple):
    """Why bars of a section are missed or not decided: of lines whose first cell begins with ``line``, of that figure, where the
    ``verdict`` begins so.
    """

    section: str
    line: str
    figure: str
    of: Callable[[Cases], str]
    verdict: str = ""


def _first_batch(cases: Cases) -> str:
    seconds = cases["catch-up"]["seconds"]
    paced, least = (seconds[n]["median"] for n in ("paced", "near-empty"))
    left = (
        "so there is nothing left to save"
        if paced <= FULL * least
        else f"so {paced - least:.2f} s are left to save"
    )
    return f"the paced query takes {paced:.2f} s, and the first batch of a new query that has next to no rows {least:.2f} s, {left}"


def _all_since(cases: Cases) -> str:
    before = cases["suite1"]["beside"].split()[-1]
    return f"everything that was built since {before[:7]} is in the ratio, not feedback alone"


def _noise(_: Cases) -> str:
    return "batches of some 0.15 s differ from each other by more than the bar allows; the driver's own CPU time tells more"


REASONS = (
    Reason("Catching up", "time to the newest result", "measured", _first_batch),
    Reason("Suite 1: nothing flows", "windows 2m-60s-5s rows", "ratio", _all_since),
    Reason("Suite 2: messages", "", "ratio of times", _noise, "not decided"),
)


def missed(sections: Sequence[Section], cases: Cases) -> list[str]:
    """A line for each bar of the tables that is not met.

    >>> table = ("what", "measured", "at most", "verdict"), [["a", "1.2", "1.1", "missed by 9%"], ["b", "1.0", "1.1", "met"]]
    >>> missed([("Suite", "", table)], {})
    ['Suite, a: measured 1.2, at most 1.1: missed by 9%. No reason is known.']
    """
    lines = []
    for title, _, (head, rows) in sections:
        for line in rows:
            for at, name in enumerate(head):
                verdict = str(line[at])
                is_bad = verdict.startswith("missed") or verdict == "not decided"
                if name == "verdict" and is_bad:
                    bar = f", {head[at - 1]} {line[at - 1]}" if head[at - 1] in BARS else ""
                    place = at - 2 if bar else at - 1
                    why = _why(title, str(line[0]), head[place], verdict, cases)
                    lines.append(
                        f"{title}, {line[0]}: {head[place]} {line[place]}{bar}: {verdict}. {why}"
                    )
    return lines


def _why(section: str, line: str, figure: str, verdict: str, cases: Cases) -> str:
    for reason in REASONS:
        same = (reason.section, reason.figure) == (section, figure)
        if same and line.startswith(reason.line) and verdict.startswith(reason.verdict):
            text = reason.of(cases)
            return f"{text[0].upper()}{text[1:]}."
    return "No reason is known."
