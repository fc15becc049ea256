"""Joins and patterns: which partners punctuation closes to a row, and what is closed to results.

A pattern of input j is of use if it tests keys of the join and the time of j, and nothing else: then it says of whole
stretches of time that no partner with these keys comes. A row of input i is needed as long as some other input may still
bring a partner, so it goes when each of them is closed, for its keys, over all times that pair with its own. What its own
input closes says nothing of that.

A later result holds a row that has not arrived yet. So it is closed to results with some keys what *all* inputs have
closed for these, with times as for bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice, product
from operator import and_

from slackwater.model.join import Anytime, Tumbling, is_existence
from slackwater.model.node import Join, raw_name
from slackwater.model.schema import column
from slackwater.semantics.closing import Closing
from slackwater.semantics.join import is_empty, max_bound, min_bound, outer_inputs, time_bounds
from slackwater.semantics.limits import END, MOST, START, Bounds
from slackwater.semantics.pattern_text import PATTERN_TYPES
from slackwater.semantics.pattern_wants import Want, plain_column
from slackwater.semantics.patterns import Pattern, Patterns, Span, Test, merged

WHOLE: tuple[Span, ...] = ((None, None),)
_VARIANTS = 8
"""How many names of the same keys a pattern is said in."""


def uses_patterns(node: Join) -> bool:
    """Whether a join frees rows by patterns: not where results may wait for passes over a disk, or where none can come."""
    return node.memory is None and not is_empty(node.within)


def key_names(node: Join, i: int) -> tuple[str | None, ...]:
    """The column of input i that each key just is, None if it is another expression or of a type that patterns cannot test."""
    return tuple(
        plain_column(k.expr) if k.expr.type in PATTERN_TYPES else None for k in node.keys[i]
    )


def binds_time(node: Join, i: int) -> bool:
    """Whether a test on the time of input i is one on times: a time that is a key is tested as that."""
    return not isinstance(node.within, Anytime) and node.on[i] not in key_names(node, i)


def useful_columns(node: Join, i: int) -> frozenset[str]:
    """The columns of input i that a pattern may test to be of use."""
    keys = {n for n in key_names(node, i) if n is not None}
    return frozenset(keys | {node.on[i]} if binds_time(node, i) else keys)


def want(node: Join, i: int) -> Want:
    """What a join can use of input i; times only as exactly as its windows are."""
    columns = useful_columns(node, i)
    if not binds_time(node, i):
        return Want(columns)
    w = node.within.window if isinstance(node.within, Tumbling) else None
    return Want(columns, node.on[i], 1 if w is None else w.slide, 0 if w is None else w.origin)


def closing(node: Join, j: int, patterns: Patterns, bounds: Bounds) -> Closing:
    """What input j has closed to rows of the others, by patterns and by the bounds on its times."""
    bound = bounds.get(node.on[j], START)
    if bound >= END:
        return Closing(((_nothing(node), WHOLE),), MOST)
    names = key_names(node, j)
    tests = []
    for p in _usable(node, j, patterns, bounds):
        time = p.test(node.on[j]) if binds_time(node, j) else None
        spans = WHOLE if time is None else time.spans
        if bound > START:
            spans = Test.of([*spans, (None, bound)]).spans
        tests.append((tuple(p.test(n) if n is not None else None for n in names), spans))
    return Closing(tuple(tests), START if isinstance(node.within, Anytime) else bound - 1)


def is_closing(node: Join, j: int, patterns: Patterns, bounds: Bounds) -> bool:
    """Whether input j closes more than its bound does."""
    return uses_patterns(node) and bool(_usable(node, j, patterns, bounds))


def _nothing(node: Join) -> tuple[Test | None, ...]:
    return tuple(None for _ in node.keys[0])


def _usable(node: Join, j: int, patterns: Patterns, bounds: Bounds) -> Patterns:
    """The patterns of input j that speak of keys and time alone; a bound on a time that is a key is one of them."""
    able, names = useful_columns(node, j), set(key_names(node, j))
    linear = (
        Pattern.of({name: Test.below(v)})
        for name, v in sorted(bounds.items())
        if name in names and START < v < END
    )
    return (*(p for p in patterns if set(p.columns) <= able), *linear)


# ---- what is closed to results ----


def passed(node: Join, inputs: Sequence[Patterns], bounds: Sequence[Bounds]) -> Patterns:
    """What all inputs have closed: for the keys that their patterns have in common, with times as for bounds."""
    if not uses_patterns(node):
        return ()
    sides = [_regions(node, j, p, b) for j, (p, b) in enumerate(zip(inputs, bounds, strict=True))]
    names = carriers(node)
    stated = []
    for keys, limits in _common(sides):
        if not keys.tests:
            continue  # bounds say as much
        for times in _times(node, limits):
            stated += [_tested(named, times) for named in _named(keys, names)]
    return merged([p for p in stated if not p.empty])


def _tested(keys: Mapping[str, Test], times: Mapping[str, Test]) -> Pattern:
    """Tests on keys and on times at once; a time may be a key itself."""
    both = {name: keys[name] & test if name in keys else test for name, test in times.items()}
    return Pattern.of({**keys, **both})


_Region = tuple[Pattern, int]
"""A test per key, by the key's number, and the time below which all is closed to these keys; `END` for all times."""


def _regions(node: Join, j: int, patterns: Patterns, bounds: Bounds) -> list[_Region]:
    bound = bounds.get(node.on[j], START)
    if bound >= END:
        return [(Pattern(()), END)]
    names = key_names(node, j)
    regions = [(Pattern(()), bound)] if bound > START else []
    for p in _usable(node, j, patterns, bounds):
        time = p.test(node.on[j]) if binds_time(node, j) else None
        limit = END if time is None else time.limit
        if isinstance(limit, int):
            keys = {str(n): t for n, c in enumerate(names) if c is not None and (t := p.test(c))}
            regions.append((Pattern.of(keys), max(limit, bound)))
    return regions


def _common(sides: Sequence[Sequence[_Region]]) -> Iterator[tuple[Pattern, tuple[int, ...]]]:
    """The keys that regions of all inputs have in common, and how far each of these goes."""
    made: list[tuple[Pattern, tuple[int, ...]]] = [(Pattern(()), ())]
    for regions in sides:
        index = _Index([p for p, _ in regions])
        made = [
            (both, (*limits, regions[at][1]))
            for keys, limits in made
            for at in index.near(keys)
            if not keys.apart(regions[at][0]) and not (both := keys & regions[at][0]).empty
        ]
    return iter(made)


class _Index:
    """Patterns by the single value of a key that they test: of thousands that name one each, few meet."""

    def __init__(self, patterns: Sequence[Pattern]):
        self.single: dict[tuple[str, object], list[int]] = {}
        self.by_column: dict[str, list[int]] = {}
        self.others: list[int] = []
        for at, p in enumerate(patterns):
            point = _point(p)
            if point is None:
                self.others.append(at)
            else:
                self.single.setdefault(point, []).append(at)
                self.by_column.setdefault(point[0], []).append(at)

    def near(self, pattern: Pattern) -> list[int]:
        """Places of patterns that may have a row in common with this one."""
        point = _point(pattern)
        if point is None:
            return sorted([*self.others, *(i for at in self.by_column.values() for i in at)])
        found = [*self.others, *self.single.get(point, ())]
        for name, at in self.by_column.items():
            if name != point[0]:
                found += at
        return sorted(found)


def _point(pattern: Pattern) -> tuple[str, object] | None:
    """The first column that a pattern tests for one whole number alone, and that number."""
    for name, test in pattern.tests:
        if not test.null and len(test.spans) == 1:
            low, high = test.spans[0]
            if isinstance(low, int) and high == low + 1:
                return name, low
    return None


def _times(node: Join, limits: Sequence[int]) -> list[dict[str, Test]]:
    """Tests on the times of results that regions so far leave closed; one that tests none if all of them are."""
    if all(v >= END for v in limits):
        return [{}]
    made = {}
    for time in node.times:
        v = result_bound(node, limits, time.name)
        if v >= END:
            return [{}]
        if v > START:
            made[time.name] = Test.below(v)
    return [{name: test} for name, test in made.items()]


def result_bound(node: Join, own: Sequence[int], name: str) -> int:
    """The bound of a time of the results, from those of the inputs' times."""
    if is_existence(node.how):
        return max_bound(node.within, own, node.how)
    # An input that is a join itself may have a greatest time of its own.
    if name in node.time_names:
        return time_bounds(node.within, own)[node.time_names.index(name)]
    kind = next(t.kind for t in node.times if t.name == name)
    if kind == "greatest":
        return max_bound(node.within, own, node.how)
    return min_bound(node.within, own)


def carriers(node: Join) -> list[list[str]]:
    """For each key the columns of the results that have its value in every result, matched or not."""
    kept = (0,) if is_existence(node.how) else outer_inputs(node.how)
    found = []
    for n in range(len(node.keys[0])):
        names = [key_names(node, i)[n] for i in range(len(node.inputs))]
        raws = {
            i: column(raw_name(i, name), node.keys[i][n].expr.type).sql
            for i, name in enumerate(names)
            if name is not None
        }
        texts = {raws[i] for i in raws if not kept or kept == (i,)}
        if len(kept) > 1 and len(raws) == len(names):
            texts = {f"coalesce({', '.join(raws.values())})"}
        found.append([o.name for o in node.outputs if o.expr.sql in texts])
    return found


def _named(keys: Pattern, names: Sequence[Sequence[str]]) -> Iterator[Mapping[str, Test]]:
    """Tests on keys by number as tests on columns; none if a key has no column, several if one has several."""
    choices = [[(name, test) for name in names[int(n)]] for n, test in keys.tests]
    for picked in islice(product(*choices), _VARIANTS):
        tests: dict[str, Test] = {}
        for name, test in picked:
            tests[name] = reduce(and_, [tests[name], test]) if name in tests else test
        yield tests
