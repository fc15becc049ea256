"""Texts damaged by seed: a letter or token dropped, doubled or swapped, a bracket lost, the end cut off.

``python -m tests.surface.sql.damage 5000`` prints the distribution that ``docs/sql.md`` has.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from dataclasses import dataclass

from slackwater.errors import AnalysisError
from slackwater.surface.sql.dialect import check
from slackwater.surface.sql.reading import read
from slackwater.surface.sql.text import SqlText
from slackwater.surface.sql.tokens import tokens_of
from slackwater.surface.sql.variables import Variables
from tests.surface.sql.fixtures import texts


@dataclass(frozen=True)
class Damaged:
    """A damaged text; ``first`` to ``last`` are the letters at which it differs."""

    kind: str
    text: str
    first: int
    last: int


@dataclass(frozen=True)
class Outcome:
    """What became of a damaged text: how far from the damage the error points, or None if it is still right."""

    damaged: Damaged
    distance: int | None
    seconds: float


def damaged(seed: int) -> Damaged:
    """A text of the fixtures with one mistake."""
    dice = random.Random(seed)
    text = dice.choice(texts())
    tokens = [t for t in tokens_of(SqlText(text)) if t.kind != "end"]
    kind = dice.choice(
        ["letter dropped", "letter doubled", "letters swapped", "token dropped", "token doubled", "tokens swapped", "bracket lost",
         "cut short"]
    )  # fmt: skip
    if kind.startswith("letter"):
        token = dice.choice([t for t in tokens if len(t.text) > 1] or tokens)
        at = dice.randrange(token.start, token.end)
        if kind == "letter dropped":
            return Damaged(kind, text[:at] + text[at + 1 :], at, at)
        if kind == "letter doubled":
            return Damaged(kind, text[:at] + text[at] + text[at:], at, at + 1)
        at = min(at, token.end - 2) if token.end - token.start > 1 else at
        return Damaged(
            kind, text[:at] + text[at + 1 : at + 2] + text[at] + text[at + 2 :], at, at + 1
        )
    i = dice.randrange(len(tokens))
    if kind == "bracket lost":
        signs = [n for n, t in enumerate(tokens) if t.is_sign("(", ")", "[", "]")]
        i = dice.choice(signs) if signs else i
    token = tokens[i]
    if kind in ("token dropped", "bracket lost"):
        return Damaged(kind, text[: token.start] + text[token.end :], token.start, token.start)
    if kind == "token doubled":
        return Damaged(kind, f"{text[: token.end]} {text[token.start :]}", token.start, token.end + 1 + len(token.text))  # fmt: skip
    if kind == "cut short":
        return Damaged(
            kind, text[: token.start].rstrip(), len(text[: token.start].rstrip()), token.start
        )
    i = min(i, len(tokens) - 2)
    one, other = tokens[i], tokens[i + 1]
    between = text[one.end : other.start]
    swapped = text[: one.start] + other.text + (between or " ") + one.text + text[other.end :]
    return Damaged(kind, swapped, one.start, other.end)


def outcome(case: Damaged) -> Outcome:
    """Read a damaged text; any error but ours is raised."""
    whole = SqlText(case.text)
    began = time.process_time()
    try:
        read(whole, Variables(whole), check)
    except AnalysisError as error:
        took = time.process_time() - began
        if error.place is None or len(str(error).splitlines()) > 8:
            raise
        places = [p for p in (error.place, error.also) if p is not None]
        distance = min(
            _distance(case, _offset(case.text, p.line, p.column), p.length) for p in places
        )
        return Outcome(case, distance, took)
    return Outcome(case, None, time.process_time() - began)


def _offset(text: str, line: int, column: int) -> int:
    lines = text.split("\n")
    return sum(len(x) + 1 for x in lines[: line - 1]) + column - 1


def _distance(case: Damaged, start: int, length: int) -> int:
    """Letters between the damage and what the error marks."""
    end = start + length
    return max(0, start - case.last, case.first - end)


def quantile(values: list[int], share: float) -> int:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main(count: int) -> None:
    every = [outcome(damaged(seed)) for seed in range(count)]
    wrong = [o.distance for o in every if o.distance is not None]
    print(
        f"{count} texts, {len(wrong)} with an error of syntax, {max(o.seconds for o in every):.3f} s at most"
    )
    print(
        f"median {quantile(wrong, 0.5)}, three quarters {quantile(wrong, 0.75)}, 95 % {quantile(wrong, 0.95)}, worst {max(wrong)}"
    )
    print("| letters from the damage | errors |\n| --- | --- |")
    limits = [(0, 0), (1, 2), (3, 10), (11, 30), (31, 10**9)]
    for low, high in limits:
        number = sum(low <= d <= high for d in wrong)
        name = (
            f"{low}"
            if low == high
            else f"{low} to {high}"
            if high < 10**9
            else f"more than {low - 1}"
        )
        print(f"| {name} | {100 * number / len(wrong):.1f} % |")
    print(Counter(o.damaged.kind for o in every if o.distance is not None and o.distance > 10))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
