"""The rule of each operator, by example: what goes on to its inputs, what it guards, what it is dark for."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from slackwater.errors import AnalysisError
from slackwater.model.node import (
    LATE_FIELDS,
    Aggregate,
    Dedup,
    Filter,
    Late,
    Node,
    Project,
    SharedPanes,
    SharedSort,
    Sort,
    Source,
    Union,
)
from slackwater.model.policy import Ordered
from slackwater.model.schema import Expr, Field, Named
from slackwater.model.time import TimeColumn
from slackwater.model.window import RowWindow, TimeWindow, all_time
from slackwater.semantics.bounds import topological
from slackwater.semantics.feedback.columns import Columns
from slackwater.semantics.feedback.text import parsed
from slackwater.semantics.feedback_rules import (
    MOST_AT_A_PLACE,
    Reached,
    Shade,
    agreed,
    ends_by_itself,
    in_result_time,
    is_covered,
    laid_out,
    missing,
    newest,
    scan_guards,
    shade,
)
from slackwater.semantics.limits import END, START
from slackwater.semantics.operators.answers import Reaction
from slackwater.semantics.operators.registry import RULES
from slackwater.semantics.patterns import Pattern, Patterns, Test
from slackwater.semantics.window_ids import rows_within, times_of_wids, wid_range, wids_within
from slackwater.testing.transcripts.join import build_join
from slackwater.testing.transcripts.query import aggregate, expression, project

FLAT = (Field("ts", "bigint"), Field("k", "bigint"), Field("v", "bigint"))
TS = TimeColumn("ts", "long", None)


def source(name: str = "a", **others: Any) -> Source:
    return Source(FLAT, (TS,), name, policies=(Ordered(),), **others)


def records(node: Node, text: str) -> Patterns:
    return parsed(text, Columns.of(node)).records


def react(node: Node, text: str) -> Reaction:
    return RULES[type(node)].feedback(node, records(node, text))


def says(child: Node, text: str) -> Patterns:
    return records(child, text) if text else ()


def windows(child: Node, **spec: Any) -> Aggregate:
    return aggregate(
        child,
        {"window": {"range": 10, "slide": 5, **spec}, "by": ["k"], "agg": {"n": "max(v)"}},
    )


# --- one input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ["filter", "sort"])
@pytest.mark.spec("FC-F22")
def test_filters_and_sorts_let_everything_go_on(cls: str) -> None:
    s = source()
    node: Node = Sort(FLAT, (TS,), s, "ts")
    if cls == "filter":
        node = Filter(FLAT, (TS,), s, expression("v > 1", FLAT))
    assert react(node, "~{ts < 5, v 3}") == Reaction((records(s, "~{ts < 5, v 3}"),))


@pytest.mark.spec("FC-F24")
def test_a_union_sends_to_each_input_by_position() -> None:
    a = source()
    b = project(source("b"), {"t": "ts", "v": "k", "k": "v"})
    node = Union(FLAT, (TS,), (a, b))
    made = react(node, "~{ts < 5, k 3}")
    assert made == Reaction((records(a, "~{ts < 5, k 3}"), records(b, "~{t < 5, v 3}")))


@pytest.mark.parametrize(
    ("text", "below"),
    [
        ("~{t < 5}", "~{ts < 7}"),
        ("~{key 1}", "~{k 1}"),
        ("~{key < 3, copy >= 1}", "~{k >= 1 AND < 3}"),
        ("~{more 1}", ""),
        ("~{more 1, key 1}", ""),
    ],
)
@pytest.mark.spec("FC-F23")
def test_a_projection_sends_what_it_keeps_renames_copies_or_moves(text: str, below: str) -> None:
    s = source()
    node = project(s, {"t": "ts - 2", "key": "k", "copy": "k", "more": "v + 1"})
    guard = () if below else records(node, text)
    assert react(node, text) == Reaction((says(s, below),), guard)


ALIKE = (Field("ts", "bigint"), Field("s", "struct<a:bigint>"), Field("s.a", "bigint"))
"""A field of a column, and a column whose name is written as that of the field."""


def alike(name: str = "a") -> Source:
    return Source(ALIKE, (TS,), name, policies=(Ordered(),))


def test_a_field_and_a_column_of_one_name_are_not_taken_for_each_other() -> None:
    with pytest.raises(AnalysisError, match="cannot tell apart") as caught:
        Columns.of(alike()).column(["s", "a"])
    assert caught.value.condition == "BAD_FEEDBACK" and "rename" in (caught.value.hint or "")
    assert Columns.of(alike()).column(["s.a"]).inner is False


def test_a_record_on_a_field_stops_where_a_column_has_its_name() -> None:
    s = alike()
    struct, whole, part = (
        Expr("`s`", ALIKE[1].type),
        Expr("`ts`", "bigint"),
        Expr("`s`.`a`", "bigint"),
    )
    fields = (Field("ts", "bigint"), Field("x", ALIKE[1].type), Field("y", "bigint"))
    named = (Named("ts", whole), Named("x", struct), Named("y", part))
    plain = Project(fields, (TS,), s, named, (("ts", "ts", 0),))
    for text in ("~{x.a 1}", "~{y 1}"):
        assert react(plain, text) == Reaction(((),), records(plain, text))
    step = {"window": {"range": 4}, "by": ["k"], "agg": {"n": "count(*)"}}
    flat = project(Source((*FLAT, Field("s", "bigint")), (TS,), "b"), ["ts", "k"])
    grouped = aggregate(flat, step)
    grouped = replace(
        grouped, child=s, keys=(Named("x", struct),), schema=(fields[1], *grouped.schema[1:])
    )
    assert react(grouped, "~{x.a 1}") == Reaction(((),), records(grouped, "~{x.a 1}"))
    other = Source((ALIKE[0], fields[1], Field("y", "bigint")), (TS,), "b")
    union = Union(other.schema, (TS,), (other, s))
    # The rows of the input without a name for it are dropped behind the union.
    given_up = records(union, "~{x.a 1}")
    made = react(union, "~{x.a 1}")
    assert made == Reaction((records(other, "~{x.a 1}"), ()), given_up)
    assert laid_out(topological([union]), [(union, given_up)]).places[-1].guard == given_up


@pytest.mark.parametrize("end", ["end", "start"])
def test_a_column_that_is_named_as_the_end_of_a_window_is_another_one(end: str) -> None:
    """A filter on it dropped the results of windows instead."""
    s = source()
    node, name = windows(s), f"window.{end}"
    renamed = tuple(replace(f, name=name) if f.name == "k" else f for f in node.schema)
    node = replace(node, schema=renamed, keys=(Named(name, Expr("`k`", "bigint")),))
    (record,) = records(node, f"~{{`{name}` < 3}}")
    assert in_result_time(node, record) == record == Pattern.of({name: Test.below(3)})
    assert react(node, f"~{{`{name}` < 3}}").inputs == (says(s, "~{k < 3}"),)
    made = laid_out(topological([node]), [(node, (record,))])
    assert made.places[0].asserted == says(s, "~{k < 3}")
    valued = tuple(replace(f, name=name) if f.name == "n" else f for f in windows(s).schema)
    (output,) = node.outputs
    node = replace(windows(s), schema=valued, outputs=(replace(output, name=name),))
    mine = records(node, f"~{{`{name}` > 3}}")
    assert react(node, f"~{{`{name}` > 3}}") == Reaction(((),), mine)
    assert laid_out(topological([node]), [(node, mine)]).places[0].guard == ()


def test_copies_that_cannot_agree_send_nothing() -> None:
    node = project(source(), {"ts": "ts", "key": "k", "copy": "k"})
    assert react(node, "~{key 1, copy 2}") == Reaction(((),), records(node, "~{key 1, copy 2}"))


def test_the_start_and_end_of_a_window_are_fields_and_times() -> None:
    inner = windows(source())
    fields = (Field("b", "bigint"), Field("e", "bigint"))
    columns = (Named("b", Expr("window.start", "bigint")), Named("e", Expr("window.end", "bigint")))
    plain = Project(fields, (), inner, columns, (("", "window", 0),))
    made = laid_out(topological([plain]), [(plain, records(plain, "~{e < 21, b >= 5}"))])
    # The end of a window that progresses is the time of its result.
    inside = made.places[1].asserted
    assert inside == records(inner, "~{window.end < 21, window.start >= 5}")
    # Windows 2 and 3, and the rows that are in no other.
    assert made.places[0].guard == records(source(), "~{ts >= 10 AND < 15}")


@pytest.mark.parametrize(
    ("text", "below"),
    [
        ("~{k 1}", "~{k 1}"),
        ("~{k IS NULL}", "~{k IS NULL}"),
        ("~{wid < 4}", "~{ts < 15}"),  # 0 + 5·5 − 10
        ("~{wid >= 4}", "~{ts >= 20}"),
        ("~{wid 4}", ""),  # each row of it is in another one, too
        ("~{wid between 4 and 6}", "~{ts >= 20 AND < 30}"),
        ("~{window.end <= 20}", "~{ts < 15}"),
        ("~{window.start < 15}", "~{ts < 15}"),
        ("~{window.start >= 5, wid <= 6, window.end < 36}", "~{ts >= 10 AND < 30}"),
        ("~{wid < 4, k 1}", "~{ts < 15, k 1}"),
        ("~{n < 5}", None),
        ("~{n < 5, k 1}", None),
    ],
)
@pytest.mark.spec("FC-F29", "FC-F30")
def test_time_windows_let_rows_go_all_of_whose_windows_match(text: str, below: str | None) -> None:
    s = source()
    node = windows(s)
    mine = records(node, text)
    made = react(node, text)
    if below:
        assert made == Reaction((records(s, below),), (), mine)
    else:
        assert made == Reaction(((),), mine)


def test_every_row_is_told_by_its_windows() -> None:
    rng = random.Random(5)
    for _ in range(400):
        w = TimeWindow(rng.randint(1, 9), rng.randint(1, 5), rng.randint(-4, 4), "ts")
        n, m = sorted([rng.randint(-3, 9), rng.randint(-3, 9)])
        wids = Test.of(rng.choice([[(None, n)], [(n, None)], [(n, m)], [(None, n), (m, None)]]))
        assert wids_within(times_of_wids(wids, w), w) == wids
        rows = rows_within(times_of_wids(wids, w), w)
        for t in range(-20, 40):
            mine = range(*wid_range(t, w))
            if mine and len(wids.spans) == 1:
                assert rows.matches(t) == all(wids.matches(i) for i in mine)
            elif rows.matches(t):
                assert all(wids.matches(i) for i in mine)


@pytest.mark.spec("FC-F15")
def test_computed_groups_stop_a_record() -> None:
    s = source()
    node = aggregate(
        s, {"window": {"range": 5}, "by": {"k": "k", "l": "k + 1"}, "agg": {"n": "count(*)"}}
    )
    assert react(node, "~{k 1}").dark == records(node, "~{k 1}")
    assert react(node, "~{k 1, l 2}") == Reaction(((),), records(node, "~{k 1, l 2}"))


@pytest.mark.parametrize(
    "spec",
    [
        {"session": 3},
        {"landmark": 3, "origin": 0},
        {"by_tuple": 3, "over": "rank"},
        {"custom": "shifts"},
    ],
)
def test_other_windows_let_nothing_go(spec: dict[str, Any]) -> None:
    node = aggregate(source(), {"window": spec, "by": ["k"], "agg": {"n": "count(*)"}})
    assert react(node, "~{k 1}") == Reaction(((),), records(node, "~{k 1}"))


def test_rows_groups_without_a_window_and_empty_windows_let_nothing_go() -> None:
    timed = windows(source())
    for window in (RowWindow(3, 3, "ts", ("k",)), all_time("ts")):
        node = replace(timed, window=window)
        assert react(node, "~{k 1}") == Reaction(((),), records(node, "~{k 1}"))
    whole = aggregate(
        source(), {"window": {"range": 5}, "agg": {"n": "count(*)"}, "emit_empty": True}
    )
    assert react(whole, "~{wid < 4}") == Reaction(((),), records(whole, "~{wid < 4}"))


@pytest.mark.parametrize(
    ("subset", "within", "text", "goes"),
    [
        (("ts", "k"), None, "~{k 1}", True),
        (("ts", "k"), None, "~{ts < 4, k 1}", True),
        (("ts", "k"), None, "~{k 1, v 1}", False),
        (("k",), 3, "~{k 1}", False),
        (("k",), 3, "~{ts < 4}", False),
    ],
)
def test_duplicates_go_together(
    subset: tuple[str, ...], within: int | None, text: str, goes: bool
) -> None:
    s = source()
    node = Dedup(FLAT, (TS,), s, subset, within, "ts")
    mine = records(s, text)
    assert react(node, text) == (Reaction((mine,), (), mine) if goes else Reaction(((),), mine))


def test_late_rows_have_no_say_in_what_their_source_drops() -> None:
    s = source()
    late = Late((*FLAT, *LATE_FIELDS), (TS,), s)
    nodes = topological([s, late])
    made = laid_out(nodes, [(s, records(s, "~{k 1}")), (late, records(late, "~{k 2}"))])
    assert [p.guard for p in made.places] == [records(s, "~{k 1}"), records(late, "~{k 2}")]


def test_what_the_planner_shares_refers_to_its_readers() -> None:
    s = source()
    sort = SharedSort(FLAT, (TS,), s, "ts", readers=(("a", Sort(FLAT, (TS,), s, "ts")),))
    panes = SharedPanes(FLAT, (TS,), s, readers=(("a", windows(s)),))
    for node in (sort, panes):
        with pytest.raises(AnalysisError, match="ASK_READERS"):
            RULES[type(node)].feedback(node, ())


# --- joins -----------------------------------------------------------------------------------------------


def join(how: str = "inner", keys: Any = ("k",), **within: Any) -> Node:
    step = {
        "join": [{"as": "l", "from": source("a")}, {"as": "r", "from": source("b")}],
        "keys": list(keys),
        "how": how,
        **(within or {"band": {"before": 2, "after": 3}}),
    }
    return build_join(step, lambda node: node, expression)


@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        ("~{k 1}", "~{k 1}", "~{k 1}"),
        ("~{l_v 1}", "~{v 1}", ""),
        ("~{r_v 1}", "", "~{v 1}"),
        ("~{k 1, l_v 1}", "~{k 1, v 1}", ""),
        ("~{k 1, r_v 1}", "", "~{k 1, v 1}"),
        ("~{l_v 1, r_v 1}", None, None),
        ("~{k 1, l_v 1, r_v 1}", None, None),
        ("~{l_ts < 10}", "~{ts < 10}", "~{ts < 8}"),
        ("~{l_ts >= 10}", "~{ts >= 10}", "~{ts >= 13}"),
        ("~{r_ts < 10}", "~{ts < 7}", "~{ts < 10}"),
        ("~{r_ts >= 10}", "~{ts >= 12}", "~{ts >= 10}"),
        ("~{l_ts < 10, l_v 1}", "~{ts < 10, v 1}", ""),
        ("~{l_ts < 10, r_v 1}", "", "~{ts < 8, v 1}"),
        ("~{l_ts < 10, r_ts < 9, k 1}", "~{ts < 6, k 1}", "~{ts < 8, k 1}"),
    ],
)
@pytest.mark.spec("FC-F26", "FC-F27")
def test_an_inner_join(text: str, left: str | None, right: str | None) -> None:
    node = join()
    made = react(node, text)
    if left is None or right is None:
        assert made == Reaction(((), ()), records(node, text))
    else:
        a, b = node.children
        assert made == Reaction((says(a, left), says(b, right)))


def test_open_ends_of_a_band_leave_their_tick() -> None:
    node = join(band={"before": 2, "after": 3, "closed": "neither"})
    below = [i[0].test("ts") for i in react(node, "~{l_ts < 10}").inputs if i]
    assert below == [Test.below(10), Test.below(9)]


def test_a_tumbling_join_sends_whole_windows() -> None:
    node = join(tumbling={"range": 4})
    assert [i[0].test("ts") for i in react(node, "~{l_ts < 10}").inputs if i] == [
        Test.below(10),
        Test.below(8),
    ]
    assert [i[0].test("ts") for i in react(node, "~{l_ts >= 10}").inputs if i] == [
        Test(((10, None),)),
        Test(((12, None),)),
    ]


@pytest.mark.parametrize(
    ("time", "test", "below"),
    [
        ("greatest", Test.below(10), [Test.below(7), Test.below(8)]),
        ("greatest", Test(((10, None),)), [Test(((10, None),)), Test(((10, None),))]),
        ("least", Test.below(10), [Test.below(10), Test.below(10)]),
        ("least", Test(((10, None),)), [Test(((12, None),)), Test(((13, None),))]),
    ],
)
def test_the_greater_and_the_lesser_time(time: str, test: Test, below: list[Test]) -> None:
    node = join()
    name = next(t.name for t in node.times if t.kind == time)
    made = RULES[type(node)].feedback(node, (Pattern.of({name: test}),))
    assert [i[0].test("ts") for i in made.inputs if i] == below


def test_a_band_that_lies_on_one_side_of_zero() -> None:
    node = join(band={"before": -1, "after": 4})
    name = node.times[0].name
    made = RULES[type(node)].feedback(node, (Pattern.of({name: Test(((10, None),))}),))
    # The right row is at least one later: a left row from 9 on is enough, a right one from 10 on.
    assert [i[0].test("ts") for i in made.inputs if i] == [
        Test(((9, None),)),
        Test(((10, None),)),
    ]


@pytest.mark.parametrize(
    ("how", "text", "left", "right", "dark"),
    [
        ("left", "~{k 1}", "~{k 1}", "~{k 1}", True),
        ("left", "~{l_v 1}", "~{v 1}", "", False),
        ("left", "~{k 1, l_v 1}", "~{k 1, v 1}", "", False),
        ("left", "~{l_ts < 5}", "~{ts < 5}", "", False),
        ("left", "~{r_v 1}", None, None, False),
        ("left", "~{k 1, r_v 1}", None, None, False),
        ("left", "~{r_ts < 5}", None, None, False),
        ("right", "~{k 1}", "~{k 1}", "~{k 1}", True),
        ("right", "~{r_v 1}", "", "~{v 1}", False),
        ("right", "~{l_v 1}", None, None, False),
        ("full", "~{k 1}", "~{k 1}", "~{k 1}", True),
        ("full", "~{l_v 1}", None, None, False),
        ("full", "~{k 1, r_v 1}", None, None, False),
        ("full", "~{l_ts < 5}", None, None, False),
        ("left_semi", "~{k 1}", "~{k 1}", "~{k 1}", False),
        ("left_semi", "~{k 1, v 1}", "~{k 1, v 1}", "", False),
        ("left_anti", "~{k 1}", "~{k 1}", "~{k 1}", True),
        ("left_anti", "~{ts < 5}", "~{ts < 5}", "", False),
    ],
)
def test_joins_with_rows_that_come_alone(
    how: str, text: str, left: str | None, right: str | None, dark: bool
) -> None:
    node = join(how)
    made = react(node, text)
    mine = records(node, text)
    if left is None or right is None:
        assert (made.inputs, made.guard, made.dark) == (((), ()), mine, ())
    else:
        a, b = node.children
        assert made.inputs == (says(a, left), says(b, right))
        assert (made.guard, made.dark) == ((), mine if dark else ())
    assert made.alone == (how != "left_semi")


def test_keys_of_different_types_bind_no_other_side() -> None:
    node = join()
    (left,), _ = node.keys  # type: ignore[attr-defined]
    cast = Named("k", Expr("CAST(`k` AS BIGINT)", "bigint"))
    mixed = replace(node, keys=((left,), (cast,)))  # type: ignore[call-arg]
    made = react(mixed, "~{k 1}")
    assert made.inputs == (records(node.children[0], "~{k 1}"), ())


def test_a_join_of_three() -> None:
    inputs = [{"as": n, "from": source(n)} for n in "abc"]
    step = {"join": inputs, "keys": ["k"], "reach": [1, 2, 4]}
    node = build_join(step, lambda n: n, expression)
    assert react(node, "~{k 1}").inputs == (records(source(), "~{k 1}"),) * 3
    assert react(node, "~{b_v 1}").inputs == ((), records(source(), "~{v 1}"), ())
    times = [i[0].test("ts") for i in react(node, "~{a_ts < 10}").inputs if i]
    # A partner in a may be later by the reach of the row's own input.
    assert times == [Test.below(10), Test.below(8), Test.below(6)]


# --- plans -----------------------------------------------------------------------------------------------


@pytest.mark.spec("FC-F36")
def test_a_shared_node_drops_what_all_its_readers_ignore() -> None:
    s = source()
    x, y = windows(s), windows(s, range=5)
    nodes = topological([x, y])
    made = laid_out(nodes, [(x, records(x, "~{k < 5}")), (y, records(y, "~{k >= 3}"))])
    by = dict(zip(map(id, nodes), made.places, strict=True))
    assert by[id(s)].guard == records(s, "~{k >= 3 AND < 5}")
    # What only one of them ignores is dropped in front of that one.
    assert by[id(x)].ports == (records(s, "~{k < 5}"),)
    assert by[id(x)].dark == (Shade(records(x, "~{k < 5}")[0]),)


def test_an_output_without_feedback_wants_all_rows() -> None:
    x = windows(source())
    nodes = topological([x])
    mine = records(x, "~{k 1}")
    made = laid_out(nodes, [(x, mine), (x, ())])
    assert [p.asserted for p in made.places] == [(), ()]
    assert made.outputs == (mine, ())


def test_the_scan_drops_what_all_streams_of_an_input_agree_on() -> None:
    a, twin, other = source("a"), source("a2", twin="a"), source("b", input=1)
    nodes = topological([a, twin, other])
    made = laid_out(
        nodes,
        [
            (a, records(a, "~{k 1} ~{v 2}")),
            (twin, records(twin, "~{k in (1, 2)}")),
            (other, records(other, "~{k 3}")),
        ],
    )
    assert scan_guards(nodes, made) == {
        0: records(a, "~{k 1} ~{k in (1, 2), v 2}"),
        1: records(a, "~{k 3}"),
    }


def test_more_records_than_a_place_takes_are_dropped_by_their_readers() -> None:
    s = source()
    # Two columns, so that no two can be made one.
    many = tuple(
        Pattern.of({"k": Test.among([i]), "v": Test.among([i])}) for i in range(MOST_AT_A_PLACE + 5)
    )
    made = laid_out([s], [(s, many)])
    assert len(made.places[0].guard) == MOST_AT_A_PLACE
    assert made.outputs == (many[MOST_AT_A_PLACE:],)
    assert [p.beyond for p in made.places] == [5]


def test_what_was_asserted_before_stays_when_more_comes_than_a_place_takes() -> None:
    """New records come first in their order, and one of the old ones has grown: it stands for what it was."""
    s = source()
    every = [Pattern.of({"k": Test.among([i]), "v": Test.among([i])}) for i in range(MOST_AT_A_PLACE + 9)]  # fmt: skip
    new, old = every[:9], every[9:]
    grown = Pattern.of({"k": Test.among([-1, MOST_AT_A_PLACE + 8]), "v": Test.among([MOST_AT_A_PLACE + 8])})  # fmt: skip
    asked = (*new, *old[:-1], grown)
    made = laid_out([s], [(s, asked)], before={0: tuple(old)})
    assert made.places[0].asserted == (*old[:-1], grown)
    assert made.places[0].beyond == 9 and made.outputs == (tuple(new),)
    # As soon as there is room, the first of the others get it.
    fewer = laid_out([s], [(s, (*new, *old[2:]))], before={0: tuple(old)})
    assert fewer.places[0].asserted == (*new[:2], *old[2:]) and fewer.places[0].beyond == 7


@pytest.mark.spec("FC-F16")
def test_records_through_a_chain_of_windows_and_joins() -> None:
    j = join()
    inner = aggregate(j, {"window": {"range": 5}, "by": ["k"], "agg": {"n": "count(*)"}})
    outer = aggregate(inner, {"window": {"range": 10}, "by": ["k"], "agg": {"m": "sum(n)"}})
    nodes = topological([outer])
    made = laid_out(nodes, [(outer, records(outer, "~{wid < 3, k 1}"))])
    by = {id(n): p for n, p in zip(nodes, made.places, strict=True)}
    assert by[id(inner)].asserted == (Pattern.of({"k": Test.among([1]), "window": Test.below(30)}),)
    a, b = j.children
    # Windows that end before 30 are those of rows before 30; the greater time of a pair reaches 3 or 2 ticks on.
    assert by[id(a)].guard == records(a, "~{ts < 27, k 1}")
    assert by[id(b)].guard == records(b, "~{ts < 28, k 1}")


# --- the end of a record ---------------------------------------------------------------------------------


def at(**sources: int) -> Reached:
    return Reached(
        {n: {"ts": t} for n, t in sources.items()}, lambda n: {t.name: START for t in n.times}
    )


def test_the_time_of_missing_rows_is_carried_up() -> None:
    s = source()
    assert newest(windows(s), at(a=12)) == {
        "window": 19
    }  # the last window that holds 12 is [10, 20)
    assert newest(project(s, {"t": "ts - 2", "k": "k"}), at(a=12)) == {"t": 10}
    union = Union(FLAT, (TS,), (s, source("b")))
    assert newest(union, at(a=12, b=30)) == {"ts": 30}
    # Left: 12, or two before a right row; right: 20, or three behind a left one.
    made = newest(join(), at(a=12, b=20))
    assert {n: made[n] for n in ("l_ts", "r_ts")} == {"l_ts": 22, "r_ts": 20}
    assert made["greatest(l_ts, r_ts)"] == 22
    gone = aggregate(windows(s), {"window": {"range": 8}, "agg": {"m": "sum(n)"}})
    assert newest(gone, at(a=12)) == {"window": 23}


def test_only_inputs_to_which_a_record_went_count() -> None:
    made = missing(join(), records(join(), "~{l_v 1}"), at(a=12, b=90))
    assert (made["l_ts"], made["r_ts"]) == (12, 15)
    assert missing(join(), records(join(), "~{k 1}"), at(a=12, b=90))["l_ts"] == 92


def test_times_that_cannot_be_carried_stay_dark() -> None:
    node = replace(windows(source()), window=RowWindow(3, 3, "ts", ("k",)))
    assert newest(node, at(a=12)) == {"window": END}


def test_windows_that_come_without_rows_count_up_to_the_bound() -> None:
    node = aggregate(
        source(), {"window": {"landmark": 5, "origin": 0}, "by": ["k"], "agg": {"n": "count(*)"}}
    )
    reached = Reached({"a": {"ts": 12}}, lambda n: {t.name: 40 for t in n.times})
    assert newest(node, reached) == {"window": 39}


def test_an_operator_stays_dark_for_what_may_lack_rows() -> None:
    s = source()
    node = windows(s)
    mine = Shade(records(node, "~{k 1}")[0])
    left = shade(node, mine, at(a=12))
    assert left is not None
    assert left.record == Pattern.of({"k": Test.among([1]), "window": Test.below(20)})
    # Nothing came while it acted; or all that it could touch is over.
    assert shade(node, mine, at()) is None
    over = Reached({"a": {"ts": 12}}, lambda n: {t.name: 25 for t in n.times})
    assert shade(node, mine, over) is None
    assert Shade.from_json(left.to_json()) == left


def test_progress_retires_records() -> None:
    assert is_covered(Pattern.of({"ts": Test.below(5), "k": Test.among([1])}), {"ts": 5})
    assert not is_covered(Pattern.of({"ts": Test.below(6)}), {"ts": 5})
    assert not is_covered(Pattern.of({"ts": Test(((None, 3),), True)}), {"ts": 5})
    closed = (Pattern.of({"k": Test.among([1, 2])}),)
    assert is_covered(Pattern.of({"k": Test.among([1])}), {}, closed)
    assert ends_by_itself(Pattern.of({"ts": Test.below(5)}), ["ts"])
    assert not ends_by_itself(Pattern.of({"ts": Test(((5, None),))}), ["ts"])
    assert not ends_by_itself(Pattern.of({"k": Test.below(5)}), ["ts"])


def test_the_id_start_and_end_of_a_window_are_one_test() -> None:
    node = windows(source())
    one = Pattern.of({"window": Test.below(19)})
    for text in ("~{wid < 3}", "~{window.end < 20}", "~{window.start < 10}"):
        (mine,) = records(node, text)
        assert in_result_time(node, mine) == one, text
    # The results of wid 3 end at 20: before the next one that could come.
    assert ends_by_itself(in_result_time(node, records(node, "~{wid < 3}")[0]), ["window"])
    both = in_result_time(node, records(node, "~{wid >= 3, window.end < 41, k 1}")[0])
    assert both == Pattern.of({"k": Test.among([1]), "window": Test(((19, 40),))})


def test_the_time_of_a_result_is_followed_through_projections() -> None:
    node = windows(source())
    columns = (
        Named("e", Expr("window.end", "bigint")),
        Named("id", expression("wid", node.schema)),
    )
    fields = (Field("e", "bigint"), Field("id", "bigint"))
    shown = Project(fields, (replace(TS, name="e"),), node, columns, (("e", "window", 1),))
    (mine,) = records(shown, "~{id < 3}")
    assert in_result_time(shown, mine) == Pattern.of({"e": Test.below(20)})
    hidden = Project(fields[1:], (), node, columns[1:], (("", "window", 0),))
    (mine,) = records(hidden, "~{id < 3}")
    assert in_result_time(hidden, mine) == mine
    made = laid_out(topological([hidden]), [(hidden, (mine,))])
    assert made.places[0].guard == records(source(), "~{ts < 10}")


def test_nobody_who_reads_asserts_nothing() -> None:
    assert agreed([]) == ()
