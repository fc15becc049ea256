"""The experiments of docs/experiments.md in tiny sizes: they run in both modes, and tell what they should."""

from __future__ import annotations

import re

import pytest

from benchmarks.experiments import analytic, groups, joins, panes, skew, slack
from benchmarks.experiments.common import Finding
from benchmarks.experiments.page import EXPERIMENTS, PICTURES, document, record, text
from benchmarks.tables import markdown, plain

NOISY = {"X1", "X2", "X4"}
"""Times, and means of few windows: tiny sizes say nothing of them."""


@pytest.mark.slow
@pytest.mark.spec("OO-F37")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_runs_and_its_table_is_whole(name, tmp_path):
    """Each compares the results of all its ways itself, and fails if they differ."""
    found = EXPERIMENTS[name](quick=True)
    assert found.rows and all(len(r) == len(found.head) for r in found.rows)
    assert found.made and found.theirs and found.ours
    if name not in NOISY:
        assert found.verdict != "no", found.ours
    for shape in (plain, markdown):
        assert found.ours in text(found, shape) and found.theirs in text(found, shape)
    assert bool(found.plot) == (name in PICTURES)
    if found.plot:
        PICTURES[name](found, tmp_path / found.plot)
        assert (tmp_path / found.plot).read_text().startswith("<?xml")


def test_every_experiment_of_windows_and_order_has_a_script():
    numbered = {n for n in EXPERIMENTS if re.fullmatch(r"X\d+", n)}
    # X8 is a column of X7, X9 is benchmarks.low_level.
    assert numbered | {"X8", "X9"} == {f"X{i}" for i in range(1, 14)}


def test_the_page_links_to_each_experiment_and_gives_both_figures():
    one = Finding("X4", "Panes, and ids", "made so", ("a", "b"), [["1", "2"]], "0.30", "0.27", True)
    two = Finding("8-5", "Held back", "made so", ("a",), [["1"]], "four", "three", "in part", "Why.", "p.svg")  # fmt: skip
    page = document(record([one, two], quick=True), [one, two])
    assert "| [X4](#x4-panes-and-ids) | 0.30 | 0.27 | yes |" in page
    assert "| [8-5](#8-5-held-back) | four | three | in part |" in page
    assert "## X4: Panes, and ids" in page and "![Held back](p.svg)" in page and "Why." in page


def test_state_of_a_union_under_skew_follows_rows_in_order_and_windows_out_of_order():
    links = [skew.link(i, 100, 60, 20) for i in (1, 2)]
    window = skew.TimeWindow(10_000, 10_000, 0, "ts")
    found = {
        (f.__name__, late): f(links, (0, late), window, ("src", "dst"))
        for f in (skew.in_order, skew.out_of_order)
        for late in (0, 10, 30)
    }
    assert len({p[2:] for p in found.values()}) == 1, "the same results in both, whatever the skew"
    row, partial = 24, 34
    for late in (10, 30):
        assert found["in_order", late].merge == pytest.approx(100 * late * row, rel=0.1)
        # One window more for each ten seconds; the one that is open in part counts too.
        most = 20 * partial * (late // 10 + 2)
        assert most / 2 < found["out_of_order", late].bytes <= most


def test_the_worked_examples_come_out_as_computed_by_hand():
    assert analytic.late_input(quick=True).rows == [
        ["in order", "5.0", "0.0", "7.0", "12.0"],
        ["ours", "0.0", "2.0", "7.0", "9.0"],
    ]
    assert analytic.ordered_output(quick=True).rows[0][-1] == "3, 4, 5, 6"


def test_rows_that_queue_wait_for_each_other():
    done = analytic.queued(slack.np.array([0, 1, 10]), slack.np.array([3.0, 2.0, 1.0]))
    assert done.tolist() == [3.0, 5.0, 11.0]


def test_waiting_is_counted_from_a_windows_last_row():
    window = panes.TimeWindow(10, 10, 0, "ts")
    times = slack.np.array([1, 12, 5, 25, 31])
    closed = slack.np.array([-1, -1, 0, 1, 2])
    assert slack.waits(times, closed, window, [0, 1]).tolist() == [0.0, 2.0]
    early = slack.np.array([-1, 0, 0, 1, 2])
    assert slack.waits(times, early, window, [0]).tolist() == [-1.0], "closed before its last row"


def test_groups_are_as_unequal_as_the_source_says():
    for percent, *theirs in groups.SHARES:
        sizes = groups.group_sizes(60_000, percent, slack.np.random.default_rng(1))
        ours = [100 * s for s in groups.shares_of(sizes)]
        assert ours == pytest.approx(theirs, abs=3)


def test_joins_hold_what_the_formulas_say():
    first = joins.packets(1, 50, 40, 5)
    within = joins.Tumbling(joins.TimeWindow(1000, 1000, 0, "ts"))
    counts = {
        (mode, late): joins.held([[(first, 0)], [(first, 0), (first, late)]], within, 40, mode)
        for mode in ("in order", "ours")
        for late in (0, 10)
    }
    assert counts["in order", 10][1] == counts["ours", 10][1] == counts["ours", 0][1]
    grown = {m: (counts[m, 10][0] - counts[m, 0][0]) / 500 for m in ("in order", "ours")}
    assert grown["in order"] == pytest.approx(2, abs=0.3)
    assert grown["ours"] == pytest.approx(1, abs=0.3)
