"""Outputs with equal parts come and go at random; what they give is that of a query that was never stopped, by definition."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.model.node import Node, Source
from slackwater.testing.local.run import scratch_folder
from tests.engine.lives import Life, made, stream, with_slack
from tests.examples import examples

Part = tuple[Any, ...]
"""What an output asks for, as a value: equal parts are one operator."""
Row = tuple[Any, ...]
"""Key, time and a number; of results the time is the last of their window."""

DELAY = 4
"""As late as rows are: only what has a slack of its own finds them late."""
S, R = ("s",), ("r",)
BOTH, OTHER = ("union", S, R), ("union", R, S)
COUNTS = ("count", BOTH, 10)
POOL: dict[str, tuple[Part, int | None]] = {
    "counts": (COUNTS, None),
    "same": (COUNTS, None),
    "few": (("where", COUNTS, "v", 2), None),
    "turned": (("count", OTHER, 10), None),
    "large": (("over", COUNTS, 20), None),
    "larger": (("over", COUNTS, 20), None),
    "longer": (("count", BOTH, 15), None),
    "sums": (("over", BOTH, 10), None),
    "first": (("dedup", BOTH), None),
    "firsts": (("where", ("dedup", BOTH), "v", 1), None),
    "counted": (("count", ("dedup", BOTH), 10), None),
    "sorted": (("sort", BOTH), None),
    "ordered": (("sort", BOTH), None),
    "some": (("sort", ("where", BOTH, "v", 1)), None),
    "pairs": (("join", S, R), None),
    "couples": (("join", S, R), None),
    "back": (("join", R, S), None),
    "twice": (("count", ("union", BOTH, BOTH), 10), None),
    "soon": (COUNTS, 0),
    "early": (COUNTS, 0),
    "hasty": (("sort", BOTH), 1),
    "rash": (("dedup", OTHER), 0),
}
"""Outputs by name: what each asks for, and its slack if it has one of its own."""


# ---- how it is written ----
def steps(part: Part) -> list[dict[str, Any]]:
    kind, *of = part
    match kind:
        case "s" | "r":
            return [{"from": kind}]
        case "where":
            return [*steps(of[0]), {"where": f"{of[1]} = {of[2]!r}"}]
        case "count":
            return [
                *steps(of[0]),
                {"window": {"range": of[1]}, "by": ["k"], "agg": {"v": "count(*)"}},
            ]
        case "over":
            return [
                *steps(of[0]),
                {"window": {"range": of[1]}, "by": ["k"], "agg": {"v": "sum(v)"}},
            ]
        case "dedup":
            return [*steps(of[0]), {"dedup": {"subset": ["k"], "within": 3}}]
        case "sort":
            return [*steps(of[0]), {"sort": "t"}]
        case "union":
            return [{"union": [steps(of[0]), steps(of[1])]}]
    sides = [{"as": name, "from": steps(each)} for name, each in zip("lr", of, strict=True)]
    columns = {"k": "k", "t": "l_t", "t2": "r_t", "v": "l_v"}
    return [{"join": sides, "keys": ["k"], "band": {"before": 2, "after": 3}}, {"select": columns}]


SOURCES = (stream("s", DELAY, 1), stream("r", DELAY, 2))


def written(name: str) -> Node:
    part, slack = POOL[name]
    sources: Iterable[Source] = SOURCES
    if slack is not None:
        sources = [with_slack(source, slack) for source in sources]
    return made(steps(part), *sources)


def seen(life: Life, name: str) -> list[list[Row]]:
    """The results of an output by batch; those of a sort in their order."""
    kind = POOL[name][0]
    columns = ("k", "t", "t2", "v") if kind[0] == "join" else ("k", "t", "v")
    if is_windowed(kind):
        columns = ("k", "end", "v")
    each = life.batches(name, *columns)
    rows = [each.get(b, []) for b in range(life.running.done)]
    return rows if kind[0] == "sort" else [sorted(r) for r in rows]


def is_windowed(part: Part) -> bool:
    return part[0] in ("count", "over") or (part[0] == "where" and is_windowed(part[1]))


# ---- what it means ----
class Story:
    """All parts that some output asks for, each once, since the first batch in which one did without a break."""

    def __init__(self) -> None:
        self.state: dict[Part, Any] = {}

    def batch(
        self, names: Iterable[str], rows: Mapping[str, Sequence[Row]], end: bool
    ) -> dict[str, list[Row]]:
        self.rows, self.end = rows, end
        self.done: dict[Part, tuple[list[Row], float, float]] = {}
        found = {}
        for name in names:
            part, slack = POOL[name]
            part = part if slack is None else _judged(part, (slack, name))
            out = self.of(part)[0]
            if is_windowed(POOL[name][0]):
                out = [(k, t + 1, v) for k, t, v in out]
            found[name] = out if part[0] == "sort" else sorted(out)
        self.state = {part: self.state[part] for part in self.done if part in self.state}
        return found

    def of(self, part: Part) -> tuple[list[Row], float, float]:
        """Its rows of this batch, and its bounds before and after."""
        if part not in self.done:
            self.done[part] = getattr(self, part[0])(part, *part[1:])
        return self.done[part]

    def s(self, part: Part, slack: tuple[int, str] = (DELAY, "")) -> Any:
        new = self.rows[part[0]]
        newest = self.state.get(part, -math.inf)
        self.state[part] = max([newest, *(t for _, t, _ in new)])
        return list(new), newest - slack[0], math.inf if self.end else self.state[part] - slack[0]

    r = s

    def where(self, part: Part, child: Part, column: str, value: Any) -> Any:
        rows, *bounds = self.of(child)
        return [
            r for r in rows if r["kt v".index(column) if column == "k" else 2] == value
        ], *bounds

    def union(self, part: Part, *children: Part) -> Any:
        rows, before, after = zip(*map(self.of, children), strict=True)
        return [r for each in rows for r in each], min(before), min(after)

    def count(self, part: Part, child: Part, span: int, weigh: Any = lambda row: 1) -> Any:
        rows, before, after = self.of(child)
        kept = self.state.setdefault(part, [])
        kept += [r for r in rows if self._end(r, span) > before]
        closed = [r for r in kept if self._end(r, span) <= after]
        self.state[part] = [r for r in kept if r not in closed]
        sums: dict[tuple[str, int], int] = {}
        for row in closed:
            group = (row[0], self._end(row, span) - 1)
            sums[group] = sums.get(group, 0) + weigh(row)
        ends = [b if math.isinf(b) else (b // span + 1) * span - 1 for b in (before, after)]
        return [(*group, n) for group, n in sums.items()], *ends

    def over(self, part: Part, child: Part, span: int) -> Any:
        return self.count(part, child, span, lambda row: row[2])

    def dedup(self, part: Part, child: Part) -> Any:
        rows, before, after = self.of(child)
        kept = self.state.setdefault(part, [])
        new: list[Row] = []
        for row in sorted(rows, key=lambda r: r[1]):
            if row[1] >= before - 3 and not any(
                row[0] == k and abs(row[1] - t) <= 3 for k, t, _ in kept
            ):
                kept.append(row)
                new.append(row)
        return new, before, after

    def sort(self, part: Part, child: Part) -> Any:
        rows, before, after = self.of(child)
        kept = self.state.setdefault(part, [])
        kept += [r for r in rows if r[1] >= before]
        leaving = sorted((r for r in kept if r[1] < after), key=lambda r: r[1])
        self.state[part] = [r for r in kept if r[1] >= after]
        return leaving, before, after

    def join(self, part: Part, *children: Part) -> Any:
        old = self.state.setdefault(part, ([], []))
        both = [(*kept, *self.of(c)[0]) for kept, c in zip(old, children, strict=True)]
        self.state[part] = both
        pairs = [
            (left[0], left[1], right[1], left[2])
            for i, left in enumerate(both[0])
            for j, right in enumerate(both[1])
            if left[0] == right[0] and -2 <= right[1] - left[1] <= 3
            and (i >= len(old[0]) or j >= len(old[1]))
        ]  # fmt: skip
        return pairs, -math.inf, -math.inf  # nothing is made of it

    @staticmethod
    def _end(row: Row, span: int) -> int:
        return int((row[1] // span + 1) * span)


def _judged(part: Part, slack: tuple[int, str]) -> Part:
    """The part over streams with a slack of an output's own, which no other output shares."""
    if part[0] in "sr":
        return (*part, slack)
    return tuple(_judged(each, slack) if isinstance(each, tuple) else each for each in part)


# ---- the test ----
Batch = tuple[list[str], list[Row], list[Row]]
"""The outputs of a batch in their order, and the rows of both streams: key, how old, number."""

FAMILIES = (
    ("counts", "same", "few", "turned", "twice"),
    ("counts", "large", "larger", "longer", "few"),
    ("counts", "sums", "longer", "few"),
    ("counts", "soon", "early", "same"),
    ("first", "firsts", "counted", "rash"),
    ("sorted", "ordered", "some", "hasty"),
    ("pairs", "couples", "back"),
    tuple(POOL),
)
"""Outputs that have something in common: those of a run are of one family."""

rows = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 7), st.integers(0, 2)), max_size=4)


def batches(family: Sequence[str]) -> st.SearchStrategy[Batch]:
    names = st.lists(st.sampled_from(family), min_size=1, max_size=4, unique=True)
    return st.tuples(names, rows, rows)


def story_of(family: Sequence[str]) -> st.SearchStrategy[list[Batch]]:
    return st.lists(batches(family), min_size=3, max_size=6)


def lived(story: Sequence[Batch]) -> None:
    with scratch_folder() as folder:
        life, told = Life(folder), Story()
        want: dict[str, list[list[Row]]] = {name: [] for name in POOL}
        now: list[str] = []
        for number, (names, *given_rows) in enumerate([*story, (story[-1][0], [], [])]):
            if names != now:
                life.start({n: written(n) for n in names}, groups=1 + number % 3)
                now = names
            of = {
                side: [(k, max(0, 5 * number + 4 - age), v) for k, age, v in each]
                for side, each in zip("sr", given_rows, strict=True)
            }
            end = number == len(story)
            life.batch({1: of["s"], 2: of["r"]}, end=end)
            found = told.batch(names, of, end)
            for name in POOL:
                want[name].append(found.get(name, []))
        for name in POOL:
            assert seen(life, name) == want[name], name
        life.stop()


def turning(*names: str) -> list[Batch]:
    """One output, which two others of the same meaning join, at the front; then it goes."""
    rows: list[list[Row]] = [
        [("a", 0, 1), ("b", 1, 1)],
        [("a", 4, 1), ("b", 0, 1)],
        [("b", 2, 1), ("a", 4, 1)],
        [("b", 0, 2)],
    ]
    told = [[names[0]], [names[1], names[0]], [*names[1:]], [*names]]
    return [(each, r, r[:1]) for each, r in zip(told, rows, strict=True)]


def turned(*names: str) -> list[Batch]:
    """The same outputs in one order and in the other; in the end without the first."""
    rows: list[Row] = [("a", 0, 1), ("b", 1, 2)]
    return [
        (list(n), rows, rows[:1])
        for n in (names, names[::-1], names, names[::-1], names[1:], names[1:])
    ]


@examples(6)
@given(st.sampled_from(FAMILIES).flatmap(story_of))
@example(turning("counts", "few", "same"))
@example(turning("large", "larger", "counts"))
@example(turning("first", "firsts", "counted"))
@example(turning("sorted", "ordered", "some"))
@example(turning("pairs", "couples", "back"))
@example(turning("soon", "same", "early"))
@example(turning("same", "turned", "twice"))
@example(turned("counts", "sums"))
@example(turned("longer", "sums", "few"))
def test_outputs_come_and_go_as_if_nothing_had_been_stopped(story: list[Batch]) -> None:
    lived(story)
