"""Rules of operators: what of a scheme they pass on, what their state needs; and that the engine passes on no less."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.join import Anytime, Band, How
from slackwater.model.node import Dedup, Filter, Join, Late, Node, Project, Sort, Source
from slackwater.model.policy import (
    BoundedDelay,
    BoundedLatency,
    BoundedRows,
    MaxDelay,
    Ordered,
    Policy,
    Punctuated,
    Quality,
)
from slackwater.model.render import render
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import Landmark, RowWindow, SessionWindow, TimeWindow, all_time
from slackwater.semantics.bounds import START, propagate, topological
from slackwater.semantics.contracts.catalogue import (
    CATALOGUE,
    COUNT,
    FORMS,
    WID,
    Contract,
    Entry,
    flaw,
    forms_table,
    gcf1,
    gcf2,
    gcf3,
    gcf4,
    gcf5,
    gcf6,
    gcf7,
    gcf8,
    gcf9,
    table,
)
from slackwater.semantics.contracts.derive import derive, promises
from slackwater.semantics.contracts.findings import check_nodes, edges
from slackwater.semantics.contracts.offers import ENDED, Offer, crossed
from slackwater.semantics.contracts.templates import Template
from slackwater.semantics.operators.registry import RULES
from slackwater.semantics.patterns import Patterns
from slackwater.semantics.progress import advance, initial_state, resolve_source
from slackwater.testing.executors.summaries import summarize
from slackwater.testing.transcripts.script import load
from tests.semantics.contracts.plans import (
    COLUMNS,
    FIELDS,
    TEMPLATES,
    TIME,
    covering,
    grouped,
    joined,
    linear,
    plans,
    punctuated,
    punctuation,
    rows_of,
    schemes,
    selected,
    source,
    united,
)

HOUR = TimeWindow(10, 10, 0, "ts")


def scheme(node: Node) -> set[str]:
    """What leaves an operator."""
    nodes = topological([node])
    made = derive(nodes, {n: p.declared for n, p in promises(nodes).items()})
    return {str(t) for t in made.offer(node).scheme}


def problems(node: Node) -> list[tuple[str, ...]]:
    """The columns that lack punctuation, need by need."""
    return [p.columns for p in check_nodes(topological([node])).problems]


# --- sources ------------------------------------------------------------------------------------------------


@pytest.mark.spec("FC-F5")
@pytest.mark.parametrize(
    "policy",
    [
        Ordered(), BoundedDelay(5), BoundedRows(3), MaxDelay(), BoundedLatency(5), Punctuated("b"),
        Quality(coverage=0.9),
    ],
    ids=lambda p: type(p).__name__,
)  # fmt: skip
def test_every_policy_is_up_to_punctuation_on_its_time(policy: Policy) -> None:
    assert scheme(source("s", policy)) == {"[[ts:+]]"}


def test_a_source_has_what_it_declares_and_what_it_does_not_is_assumed() -> None:
    assert scheme(punctuated("s", "[[k:#]]", "[[g:#, ts:+]]")) == {"[[k:#]]", "[[g:#, ts:+]]"}
    open_one = source("s", Punctuated("p"))
    assert scheme(open_one) == set()
    counted = grouped(open_one, ["k"], all_time("ts"))
    made = check_nodes(topological([counted]))
    (caution,) = made.cautions
    assert not made.problems and caution.kind == "undeclared" and "'s'" in caution.message
    # What it declares, the verdict does not rest on.
    declared = check_nodes(
        topological([grouped(punctuated("s", "[[k:+]]"), ["k"], all_time("ts"))])
    )
    assert declared.problems == declared.cautions == ()


def test_a_scheme_is_no_part_of_what_checkpoints_compare() -> None:
    plain, declared = source("s", Punctuated("p")), punctuated("s", "[[k:#]]")
    assert render(plain) == render(declared)
    assert "[[k:#]]" in render(declared, policies=True)[0]


def test_two_times_may_progress_by_the_patterns_of_one_column() -> None:
    times = (TIME, TimeColumn("g", "long", None))
    policies = (Punctuated("p", scheme=["[[ts:+]]", "[[g:+]]"]), Punctuated("p"))
    both = Source(FIELDS, times, "s", policies=policies, replay=True)
    assert scheme(both) == {"[[ts:+]]", "[[g:+]]"}
    assert check_nodes(topological([grouped(both, ["k"], HOUR)])).cautions == ()


def test_values_that_nothing_up_to_a_value_covers_pile_up() -> None:
    def kinds(*texts: str) -> list[str]:
        return [c.kind for c in check_nodes(topological([punctuated("s", *texts)])).cautions]

    assert kinds("[[k:#]]") == ["values"] == kinds("[[k:#, ts:+]]") == kinds("[[k:#]]", "[[ts:+]]")
    assert (
        kinds("[[k:#, ts:+]]", "[[ts:+]]") == [] == kinds("[[k:#]]", "[[k:+]]") == kinds("[[k:+]]")
    )


def test_a_stream_that_ends_has_nothing_to_promise() -> None:
    ended = Source(FIELDS, (TIME,), "s", policies=(Punctuated("p"),), end_of_stream=True)
    assert problems(grouped(ended, ["g"], all_time("ts"))) == []
    late = Late(FIELDS, (TIME,), ended)
    assert problems(grouped(late, ["g"], HOUR)) == []
    # Beside it, the other stream decides: it has agreed with all that one says.
    both = united(ended, punctuated("r", "[[k:#]]"))
    assert scheme(both) == {"[[k:#]]"}


# --- row operators --------------------------------------------------------------------------------------------


def test_a_filter_passes_all_on() -> None:
    s = punctuated("s", "[[k:#]]", "[[ts:+]]")
    assert scheme(Filter(s.schema, s.times, s, column("k", "bigint"))) == scheme(s)


def test_a_projection_renames_moves_and_drops() -> None:
    s = punctuated("s", "[[k:#]]", "[[g:#, ts:+]]", "[[ts:+]]")
    assert scheme(selected(s, {"k": "key", "ts": "when"}, 5)) == {"[[key:#]]", "[[when:+]]"}
    assert scheme(selected(s, {"g": "g"})) == set()
    # An expression over a column says nothing of it; two names say it twice.
    fields = (Field("a", "bigint"), Field("b", "bigint"), Field("c", "bigint"))
    columns = (
        Named("a", column("k", "bigint")),
        Named("b", Expr("`k` + 1", "bigint")),
        Named("c", column("k", "bigint")),
    )
    assert scheme(Project(fields, (), s, columns, ())) == {"[[a:#]]", "[[c:#]]"}


def test_a_union_says_what_all_inputs_say() -> None:
    assert scheme(united(linear("s"), linear("r"))) == {"[[ts:+]]"}
    assert scheme(united(linear("s"), punctuated("r", "[[k:#]]"))) == {"[[k:#, ts:+]]"}
    two = united(punctuated("s", "[[k:+]]", "[[g:#]]"), punctuated("r", "[[k:#]]"))
    assert scheme(two) == {"[[k:#]]", "[[g:#, k:#]]"}
    assert scheme(united(punctuated("s", "[[ts:+]]"), punctuated("r", "[[ts:#]]"))) == {"[[ts:#]]"}


def test_columns_of_a_union_correspond_by_position() -> None:
    s = punctuated("s", "[[k:#]]")
    swapped = selected(punctuated("r", "[[g:#]]"), {"g": "k", "k": "g", "ts": "ts"})
    first = selected(s, {"k": "k", "g": "g", "ts": "ts"})
    assert scheme(united(first, swapped)) == {"[[k:#]]"}


def test_late_rows_say_nothing() -> None:
    s = punctuated("s", "[[k:#]]", "[[ts:+]]")
    assert scheme(Late(s.schema, s.times, s)) == set()


# --- operators with state ---------------------------------------------------------------------------------


def test_a_sort_needs_and_passes_on_its_own_time_alone() -> None:
    s = punctuated("s", "[[k:#]]", "[[k:#, ts:+]]")
    assert problems(Sort(s.schema, s.times, s, "ts")) == [("ts",)]
    s = punctuated("s", "[[k:#]]", "[[ts:+]]")
    sort = Sort(s.schema, s.times, s, "ts")
    assert problems(sort) == [] and scheme(sort) == {"[[ts:+]]"}
    assert problems(grouped(sort, ["k"], all_time("ts"))) == [("k",)]


def test_a_dedup_passes_all_on_and_needs_its_subset_or_its_time() -> None:
    for texts, lacking in (
        (["[[ts:+]]"], []), (["[[k:#]]"], []), (["[[k:#, g:#]]"], [("k", "ts")]), (["[[g:#]]"], [("k", "ts")]),
    ):  # fmt: skip
        s = punctuated("s", *texts)
        node = Dedup(s.schema, s.times, s, ("k",), 5, "ts")
        assert problems(node) == lacking and scheme(node) == scheme(s)


@pytest.mark.parametrize(
    ("texts", "out"),
    [
        (["[[ts:+]]"], {"[[window:+]]"}),
        (["[[k:#]]"], {"[[k:#]]"}),
        (["[[k:+]]"], {"[[k:+]]"}),
        (["[[k:#, ts:+]]"], {"[[k:#, window:+]]"}),
        (["[[g:#]]"], None),
        (["[[k:#, g:#]]"], None),
        (["[[g:#, ts:+]]"], None),
        (["[[ts:#]]"], None),
        (["[[k:#, ts:#]]"], None),
        (["[[ts:#]]", "[[k:#]]"], {"[[k:#]]"}),
    ],
)
def test_windows_of_groups_need_a_form_on_keys_and_time_alone(texts: list[str], out: set[str] | None) -> None:  # fmt: skip
    node = grouped(punctuated("s", *texts), ["k"], HOUR)
    assert problems(node) == ([("k", "ts")] if out is None else [])
    assert scheme(node) == (out or set())


@pytest.mark.parametrize(
    ("window", "bound", "key", "mixed"),
    [
        (HOUR, True, True, True),
        (SessionWindow(4, "ts"), True, True, False),
        (all_time("ts"), False, True, False),
        (Landmark(10, 0, "ts"), True, True, False),
        (RowWindow(2, 1, "ts", ("k",)), True, True, True),
    ],
    ids=lambda w: type(w).__name__ if not isinstance(w, bool) else "",
)
def test_what_ends_the_windows_of_a_group(window: TimeWindow, bound: bool, key: bool, mixed: bool) -> None:  # fmt: skip
    by = {"[[ts:+]]": bound, "[[k:#]]": key, "[[k:#, ts:+]]": mixed, "[[g:#]]": isinstance(window, RowWindow)}  # fmt: skip
    for text, ends in by.items():
        assert bool(problems(grouped(punctuated("s", text), ["k"], window))) != ends, text


def test_an_expression_over_a_column_is_no_group_that_is_punctuated() -> None:
    s = punctuated("s", "[[k:#]]")
    node = grouped(s, ["k"], all_time("ts"))
    odd = type(node)(node.schema, node.times, s, (Named("k", Expr("`k` % 2", "bigint")),), node.window)  # fmt: skip
    assert problems(odd) and not problems(node)


def test_windows_over_windows_are_closed_by_what_the_first_pass_on() -> None:
    s = punctuated("s", "[[k:#, ts:+]]")
    first = grouped(s, ["g", "k"], HOUR)
    assert problems(grouped(first, ["k"], TimeWindow(20, 20, 0, "window"))) == []
    assert problems(grouped(first, ["g"], TimeWindow(20, 20, 0, "window"))) == [("g", "window")]


@pytest.mark.spec("FC-F66")
def test_a_join_is_freed_by_the_other_side() -> None:
    """By its bound on the time that the band binds, or by patterns on keys and that time. What its own side says frees
    nothing, and neither does a pattern that tests another column, too.
    """
    assert problems(joined(linear("s"), linear("r"))) == []
    for useless in ("[[g:#]]", "[[g:#, k:#]]", "[[ts:#]]"):
        made = check_nodes(topological([joined(linear("s"), punctuated("r", useless))]))
        (problem,) = made.problems
        assert (problem.input, problem.columns) == (1, ("k", "ts")) and "'r'" in problem.hint
        assert scheme(joined(linear("s"), punctuated("r", useless))) == set()
    for useful in ("[[k:#]]", "[[k:+]]", "[[k:#, ts:+]]", "[[ts:+]]"):
        assert problems(joined(linear("s"), punctuated("r", useful))) == []
    assert scheme(joined(linear("s"), linear("r"))) == {
        "[[`greatest(ts0, ts1)`:+]]", "[[`least(ts0, ts1)`:+]]", "[[ts0:+]]", "[[ts1:+]]",
    }  # fmt: skip
    times = ("`greatest(ts0, ts1)`", "`least(ts0, ts1)`", "ts0", "ts1")
    assert scheme(joined(linear("s"), punctuated("r", "[[k:#]]"))) == {
        f"[[{', '.join(sorted([f'{k}:#', f'{t}:+'], key=lambda x: x.strip('`')))}]]" for k in ("k0", "k1") for t in times
    }  # fmt: skip
    assert problems(joined(linear("s"), linear("r"), within=Band(-5, 3))) == []


@pytest.mark.spec("FC-F25", "FC-F66")
def test_a_join_at_any_distance_is_freed_by_punctuation_of_its_keys_alone() -> None:
    def at_any(one: Node, other: Node, how: How = "inner") -> Join:
        return joined(one, other, within=Anytime(), how=how)

    keyed = punctuated("s", "[[k:#]]")
    assert problems(at_any(linear("s"), linear("r"))) == [("k",), ("k",)]
    assert problems(at_any(keyed, linear("r"))) == [("k",)]
    assert problems(at_any(keyed, punctuated("r", "[[k:#, ts:+]]"))) == [("k",)]
    assert problems(at_any(keyed, punctuated("r", "[[k:+]]"))) == []
    both = punctuated("r", "[[k:+]]")
    assert scheme(at_any(keyed, both)) == {"[[k0:#]]", "[[k1:#]]"}
    assert scheme(at_any(both, punctuated("r", "[[k:+]]"))) == {"[[k0:+]]", "[[k1:+]]"}
    # What a row without a partner lacks is closed by nobody.
    assert scheme(at_any(keyed, both, "left")) == {"[[k0:#]]"}
    assert scheme(at_any(keyed, both, "right")) == {"[[k1:#]]"}
    assert scheme(at_any(keyed, both, "full")) == set()
    assert scheme(at_any(keyed, both, "left_semi")) == {"[[k0:#]]"}
    ended = replace(linear("r"), end_of_stream=True)
    (problem,) = check_nodes(topological([at_any(linear("s"), ended)])).problems
    assert problem.input == 0 and "sw.Punctuated" in problem.hint


def test_several_streams_are_joined_if_all_progress() -> None:
    assert problems(joined(linear("a"), linear("b"), linear("c"))) == []
    assert problems(joined(linear("a"), punctuated("b", "[[k:#]]"), linear("c"))) == []
    assert len(problems(joined(linear("a"), punctuated("b", "[[g:#]]"), linear("c")))) == 1


# --- plans ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("FC-F71")
def test_what_is_shared_is_looked_at_once() -> None:
    """A plan that would unfold to 2**40 operators."""
    node: Node = linear("s")
    for _ in range(40):
        node = united(node, node)
    top = grouped(node, ["k"], HOUR)
    began = time.process_time()
    assert problems(top) == [] and scheme(top) == {"[[window:+]]"}
    assert len(edges([top], topological([top]))) == 2 + 2 * 40
    assert time.process_time() - began < 2


def test_a_hundred_operators_take_little() -> None:
    """Five milliseconds are promised on a quiet machine; ten times that here."""
    node: Node = united(punctuated("s", "[[k:#]]", "[[k:#, ts:+]]", "[[ts:+]]"), linear("r"))
    for i in range(96):
        if i % 3 == 0:
            node = Dedup(node.schema, node.times, node, ("k", "ts"), None, "ts")
        elif i % 3 == 1:
            node = Filter(node.schema, node.times, node, column("k", "bigint"))
        else:
            node = selected(node, {"k": "k", "g": "g", "ts": "ts"})
    nodes = topological([grouped(node, ["k"], HOUR)])
    assert len(nodes) == 100
    check_nodes(nodes)
    began = time.process_time()
    for _ in range(5):
        assert not check_nodes(nodes).problems
    taken = (time.process_time() - began) / 5
    print(f"a check of 100 operators takes {taken * 1000:.2f} ms of CPU time")
    assert taken < 0.05


@given(st.lists(schemes, min_size=1, max_size=4))
def test_many_templates_are_cut_down_to_those_that_no_other_covers(sides: list[list[Template]]) -> None:  # fmt: skip
    """Whatever columns a consumer has, it finds a useful template among them or it would have found none."""
    offers = [Offer(templates=frozenset(s)) for s in sides]
    made = crossed(offers)
    whole: set[Template] = set(sides[0])
    for side in sides[1:]:
        whole = {_merged(a, b) for a, b in product(whole, side)}
    for chosen in (("k",), ("g",), ("ts",), ("k", "g"), ("k", "ts"), COLUMNS):
        useful = any(t.useful_on(chosen) for t in whole)
        assert any(t.useful_on(chosen) for t in made.all) == useful
    assert crossed([*offers, ENDED]) == made


def _merged(a: Template, b: Template) -> Template:
    """From the definition: all tags; the narrower class where both have one."""
    return Template.of({c: "#" if "#" in (a.kind(c), b.kind(c)) else "+" for c in a.columns | b.columns})  # fmt: skip


# --- the engine ----------------------------------------------------------------------------------------------


@given(plans())
def test_the_engine_passes_on_all_that_a_rule_offers(plan: Node) -> None:
    """Sources say one pattern of each form; then each operator has a bound or a pattern for each that it offers."""
    nodes = topological([plan])
    made = derive(nodes, {n: p.declared for n, p in promises(nodes).items()})
    bounds, said = {}, {}
    for node in nodes:
        if isinstance(node, Source):
            rules, state, rows = resolve_source(node), initial_state(node), rows_of(0, [(1, 2, 3)])
            declared = list(promises(nodes)[node.name].declared.all)
            fed = [punctuation(covering(t, 9, rows)) for t in declared]
            if node.policies[0] == Punctuated("b"):
                fed = [{"k": None, "g": None, "ts": None, "p": None, "b": 100}]
            after = advance(node, rules, state, summarize(node, rules, state, [*rows, *fed], None), None)  # fmt: skip
            bounds[node.name], said[node.name] = after.bounds, after.patterns
    linear_bounds = propagate(nodes, bounds)
    patterns: dict[int, Patterns] = {}
    known = {id(n): b for n, b in zip(nodes, linear_bounds, strict=True)}
    for node, offer in zip(nodes, made.offers, strict=True):
        inputs = [patterns[id(c)] for c in node.children]
        below = [known[id(c)] for c in node.children]
        patterns[id(node)] = RULES[type(node)].patterns(node, inputs, below, said)
        assert all(known[id(node)][t] > START for t in offer.bounds)
        for t in offer.templates:
            covered = [p for p in patterns[id(node)] if set(p.columns) <= t.columns]
            implied = t.columns & offer.bounds
            assert covered or implied, (str(t), patterns[id(node)])


# --- the catalogue -------------------------------------------------------------------------------------------


NOT_OURS = {
    "CT4": "a filter that remembers",
    "CT11": "joins by values",
    "CT14": "joins by values",
    "CT15": "joins by values",
    "CT17": "ours says more: the bound itself",
}
"""Contracts that can be kept, and that our operators do not offer."""


def ours(c: Contract) -> tuple[set[str], bool]:
    """What our operator offers under a contract's inputs, and whether its state is freed; columns under names of ours."""
    names = {"a": "k", "b": "ts", "c": "g", WID: "window"}

    def renamed(scheme_: frozenset[Template]) -> list[str]:
        return [str(Template.of({names[x]: k for x, k in t.tags})) for t in scheme_]

    inputs = [punctuated(f"s{i}", *renamed(s)) for i, s in enumerate(c.inputs)]
    kept = {names[x]: names[x] for x in c.columns}
    first = inputs[0]
    node: Node
    if c.operator == "JOIN":
        node = joined(*inputs)
    elif c.operator == "PROJECT":
        node = selected(first, kept)
    elif c.operator == "WINDOW":
        node = grouped(first, [], HOUR)
    elif c.operator == "COUNT":
        node = grouped(first, list(kept), all_time("ts"))
    else:
        node = Filter(first.schema, first.times, first, column("k", "bigint"))
    offered = {t.replace("ts0", "ts").replace("ts1", "ts") for t in scheme(node)}
    wanted = {t for s in c.outputs for t in renamed(s)}
    return wanted - offered, not problems(node)


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda e: e.name)
def test_the_catalogue_says_of_each_contract_whether_it_can_be_kept(entry: Entry) -> None:
    assert (flaw(entry.contract) == "") == entry.realizable and entry.reason
    missing, freed = ours(entry.contract)
    assert (not missing and freed) == (entry.realizable and entry.name not in NOT_OURS)


def test_the_catalogue_is_whole() -> None:
    assert [e.name for e in CATALOGUE] == [f"CT{i}" for i in range(1, 22)]
    assert list(FORMS) == [f"GCF{i}" for i in range(1, 10)]
    assert [e.name for e in CATALOGUE if not e.realizable] == ["CT6", "CT12"]
    twice = Contract("DUPLICATE", (frozenset(TEMPLATES[:2]),), (frozenset(TEMPLATES[:1]), frozenset(TEMPLATES[1:2])))  # fmt: skip
    assert flaw(twice) == ""


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True), schemes)
def test_forms_hold_for_any_schema(columns: list[str], some: list[Template]) -> None:
    made = [gcf1(frozenset(some)), gcf2(frozenset(some), ["k", "ts"]), gcf9(columns[0])]
    made += [f(columns) for f in (gcf3, gcf4, gcf5, gcf6, gcf7, gcf8)]
    assert [flaw(c) for c in made] == [""] * 9
    assert made[5].outputs == (frozenset([Template.of({WID: "+"})]),)
    assert not any(COUNT in t.columns for c in made for s in c.outputs for t in s)


@pytest.mark.spec("FC-F63")
@given(schemes, st.sets(st.sampled_from(COLUMNS), min_size=1))
def test_the_operators_keep_the_contracts_of_the_forms(
    some: list[Template], kept: set[str]
) -> None:
    """The engine's own rules, for the operators of the forms: what a form promises of the output, the rule offers."""
    s = punctuated("s", *map(str, some))
    texts = {str(t) for t in some}
    assert scheme(Filter(s.schema, s.times, s, column("k", "bigint"))) == texts  # GCF1
    form = gcf2(frozenset(some), kept)
    assert scheme(selected(s, {c: c for c in COLUMNS if c in kept})) == {str(t) for t in form.outputs[0]}  # fmt: skip
    windows = grouped(linear("s"), [], HOUR)
    assert scheme(windows) == {str(t).replace(WID, "window") for t in gcf5(["ts"]).outputs[0]}
    for group, single in (("k", gcf7), ("g", gcf7), ("k", lambda g: gcf9(g[0]))):
        form = single([group])
        (given_,) = form.inputs
        counted = grouped(punctuated("s", *map(str, given_)), [group], all_time("ts"))
        assert problems(counted) == [] and scheme(counted) == {str(t) for t in form.outputs[0]}


# --- what there is already -----------------------------------------------------------------------------------

TRANSCRIPTS = sorted((Path(__file__).parents[2] / "transcripts").glob("*.yaml"))


def test_every_query_of_the_transcripts_may_start() -> None:
    for path in TRANSCRIPTS:
        nodes = topological([o.node for o in load(path).outputs.values()])
        assert check_nodes(nodes).problems == (), path.stem


def test_the_documents_have_the_catalogue() -> None:
    text = (Path(__file__).parents[3] / "docs" / "contracts.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in text and "\n".join(forms_table()) in text
