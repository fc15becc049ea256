"""Two commits side by side: which rows are compared, and how the rounds are summed up."""

from __future__ import annotations

from benchmarks.between import Row, chosen, table


def test_only_our_contenders_run_in_the_cases_that_are_named() -> None:
    rows = list(chosen(None, "2m-5s,bounded"))
    assert [str(r) for r in rows] == [
        "windows 2m-5s-5s rows", "windows 2m-5s-5s splits",
        "joins bounded-270s splits", "joins bounded-270s bounded",
    ]  # fmt: skip
    assert {r.benchmark for r in chosen("joins", None)} == {"joins"}
    assert [str(r) for r in chosen(None, "400k", bounded=True)] == ["joins 400k-30s bounded"]


def test_rounds_are_compared_in_pairs() -> None:
    row = Row("windows", "c", "rows")
    text = table([row], {row: [1.0, 2.0, 4.0]}, {row: [1.1, 1.0, 4.0]})
    assert "2.000 (1.000 to 4.000)" in text and "1.100 (1.000 to 4.000)" in text
    # Pair by pair: 1.1, 0.5 and 1.0.
    assert "1.00  0.50 to 1.10" in text
