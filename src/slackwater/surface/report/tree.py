"""The stored text of a query for people: checkpoints hold spans and origins as plain numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from slackwater.model.spans import Words, in_words
from slackwater.model.time import TimeColumn

Match = re.Match[str]

_INTEGER = re.compile(r"^ *stream .*\) time .*\blong\b")
_ORIGINS = Words([TimeColumn("", "timestamp")])


def _words(number: str) -> str:
    return in_words(int(number))


def _origin(number: str) -> str:
    return _ORIGINS.origin(int(number), "")


_N = r"(-?\d+)"
_FORMS: dict[str, tuple[tuple[str, Callable[[Match], str]], ...]] = {
    r" *aggregate by \[.*?\] window (?=\S)(?!rows )": (
        (rf"range {_N} slide {_N} origin {_N}(?= on )",
         lambda m: f"range {_words(m[1])} slide {_words(m[2])}{_origin(m[3])}"),
        (rf"landmark slide {_N} origin {_N}(?= on )",
         lambda m: f"landmark slide {_words(m[1])}{_origin(m[2])}"),
        (rf"range {_N}(?= by every )", lambda m: f"range {_words(m[1])}"),
        (rf"session gap {_N}(?= on )", lambda m: f"session gap {_words(m[1])}"),
        (rf"shift {_N}(?= on )", lambda m: f"shift {_words(m[1])}"),
    ),
    r" *dropDuplicates .*?(?=within -?\d+ on )": (
        (rf"within {_N}(?= on )", lambda m: f"within {_words(m[1])}"),
    ),
    r" *\w+ join on .*? within (?=band|window|reach)": (
        (rf"band -{_N} \.\. \+{_N}", lambda m: f"band -{_words(m[1])} .. +{_words(m[2])}"),
        (rf"window {_N} origin {_N}", lambda m: f"window {_words(m[1])}{_origin(m[2])}"),
        (r"reach (\d+(?:, \d+)*)",
         lambda m: f"reach {', '.join(_words(n) for n in m[1].split(', '))}"),
    ),
}  # fmt: skip
"""By how a line begins, the forms of spans that come next."""


def in_words_for(lines: Sequence[str]) -> list[str]:
    """A tree as `model.render` stored it, with spans in words. Integer times have no words, and no line says whose a span is.

    >>> in_words_for(["aggregate by [`k` AS k] window range 60000000 slide 5000000 origin 0 on ts: n=count(1) -> `_a0` AS n",
    ...               "  stream s(k string, ts timestamp) time ts timestamp"])[0]
    'aggregate by [`k` AS k] window range 1 minute slide 5 seconds on ts: n=count(1) -> `_a0` AS n'
    """
    if any(_INTEGER.search(line) for line in lines):
        return list(lines)
    return [_line(line) for line in lines]


def _line(line: str) -> str:
    for begin, forms in _FORMS.items():
        match = re.match(begin, line)
        if match is None:
            continue
        # Spans stand before the first colon of an aggregate: behind it are users' expressions.
        head, colon, rest = line[match.end() :].partition(": ")
        for form, words in forms:
            head = re.sub(form, words, head, count=0 if colon else 1)
        return line[: match.end()] + head + colon + rest
    return line
