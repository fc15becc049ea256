"""Candidates among many records: none that covers a row group is left out, and of boxes apart nearly all are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.hulls import Hulls
from slackwater.semantics.patterns import Pattern, Span, Test, Value
from tests.examples import examples

FAR = 1 << 70
NUMBERS = st.sampled_from([-FAR, -(1 << 63), -3, 0, 1, 2, 5, 9, (1 << 63) - 1, 1 << 63, FAR])
TEXTS = st.sampled_from(["", "a", "ab", "b", "z"])


def _test(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Test]:
    end = st.none() | values
    spans: st.SearchStrategy[list[Span]] = st.lists(st.tuples(end, end), max_size=3)
    return st.builds(Test.of, spans, st.booleans())


TESTS = {"n": _test(NUMBERS), "m": _test(NUMBERS), "t": _test(TEXTS)}
SOME = st.fixed_dictionaries({}, optional=TESTS)


@given(st.lists(SOME, max_size=6), SOME)
@examples(400)
def test_no_record_that_covers_a_group_is_left_out(
    records: list[dict[str, Test]], held: dict[str, Test]
) -> None:
    patterns = tuple(Pattern(tuple(r.items())) for r in records)
    may = Hulls(patterns).candidates(held)
    for number, record in enumerate(patterns):
        if all(c in held and held[c].within(t) for c, t in record.tests):
            assert number in may


def test_of_a_thousand_ranges_one_is_looked_at() -> None:
    records = tuple(
        Pattern((("n", Test(((10 * k, 10 * k + 5),))), ("m", Test(((None, -k),)))))
        for k in range(1000)
    )
    held = {"n": Test(((5003, 5005),)), "m": Test(((-2000, -1900),))}
    assert Hulls(records).candidates(held) == [500]
    assert not Hulls(records).candidates({**held, "n": Test(((5003, 5006),))})
