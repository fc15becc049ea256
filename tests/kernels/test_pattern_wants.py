"""Punctuation on its way through a running plan: each operator gets as much of it as it can use, and as coarse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from slackwater.model.node import Node, Source
from slackwater.model.window import TimeWindow
from slackwater.semantics.patterns import Pattern, Patterns, Test
from slackwater.testing.executors.kernels import KernelMachine
from tests.semantics.contracts.plans import grouped, punctuated, punctuation


def before(time: int, **values: int) -> Pattern:
    """These values, up to a time."""
    return Pattern.of({"ts": Test.below(time), **{c: Test.among([v]) for c, v in values.items()}})


EVERY_TICK = [before(t, k=1) for t in range(61, 120)]


@pytest.mark.spec("OO-F28", "WQ-F74")
@pytest.mark.parametrize(
    ("windows", "wanted"),
    [
        # Of one consumer the windows end every 60 ticks; what is said of g is no use to it.
        ({"k": TimeWindow(60, 60, 0, "ts")}, [before(60, k=1)]),
        # As fine as both need.
        ({"k": TimeWindow(60, 60, 0, "ts"), "kg": TimeWindow(45, 45, 15, "ts")}, [before(105, k=1), before(105, g=3), before(60, k=2, g=7)]),
    ],
)  # fmt: skip
def test_operators_get_of_punctuation_what_they_can_use(
    windows: dict[str, TimeWindow], wanted: list[Pattern]
) -> None:
    s = punctuated("s", "[[k:#, ts:+]]", "[[g:#, k:#, ts:+]]")
    outputs: dict[str, Node] = {
        name: grouped(s, list(name), window) for name, window in windows.items()
    }
    machine = KernelMachine(outputs, "panes")

    def step(*rows: dict[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
        found = machine.step({"s": list(rows)}, None, frozenset()).outputs
        return {n: sorted((r["k"], r["window"]["end"], r["n"]) for r in rows) for n, rows in found.items()}  # fmt: skip

    def row(k: int, ts: int) -> dict[str, Any]:
        return {"k": k, "g": 7, "ts": ts, "p": None, "b": None}

    said: Sequence[Pattern] = [*EVERY_TICK, before(119, g=3), before(104, k=2, g=7)]
    assert step(row(1, 10), row(2, 10), row(1, 70)) == {n: [] for n in windows}
    assert step(*map(punctuation, said))["k"] == [(1, 60, 1)]
    at = next(i for i, n in enumerate(machine.nodes) if isinstance(n, Source))
    arrived: Patterns = machine.stated_after[at]
    assert sorted(arrived, key=str) == sorted(wanted, key=str)
    assert step(punctuation(before(120, k=1)))["k"] == [(1, 120, 1)]
