"""Where guards stand: in front of one output of several, of one reader of a stream, and behind an operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.engine.store.feedback_log import state_of
from slackwater.model.node import Node
from slackwater.semantics.feedback.standing import Request
from slackwater.testing.feedback import frozen
from slackwater.testing.transcripts.query import aggregate, project
from tests.engine.feedback.viewport import Viewed, rows, said, source

IGNORED = "~{segment >= 6, n > 1} ~{segment < 3} ~{segment = 4 OR IS NULL}"


def is_ignored(row: Mapping[str, Any]) -> bool:
    """A row that matches any of the records is given up; a record is matched by who passes all of its tests."""
    segment = row["segment"]
    return (segment >= 6 and row["n"] > 1) or segment < 3 or segment == 4


def nodes() -> dict[str, Node]:
    stream = source()
    step = {"window": {"range": 6, "slide": 3}, "by": ["segment"], "agg": {"n": "count(*)"}}
    other = {"window": {"range": 5}, "by": ["segment"], "agg": {"peak": "max(v)"}}
    return {
        "counts": aggregate(stream, step),
        "peaks": aggregate(stream, other),
        "shown": project(stream, {"ts": "ts", "w": "v + 1"}),
    }


def ran(
    folder: Path, outputs: Mapping[str, Node], asked: Mapping[str, str], splits: bool
) -> Viewed:
    plan = passed(
        build([Output(n, o) for n, o in outputs.items()], ansi=True, zone="UTC"), Written()
    )
    run = Viewed(folder, plan, splits=splits)
    run.run.share_panes = False
    run.give(rows())
    run.run.start()
    for output, text in asked.items():
        run.run.send(Request("send", output, output, said(text, plan, output)))
    run.all()
    run.run.stop()
    return run


def bag(run: Viewed, output: str) -> Counter[Any]:
    return Counter(map(frozen, run.rows(output)))


def wanted(run: Viewed, output: str) -> Counter[Any]:
    return Counter(frozen(r) for r in run.rows(output) if not is_ignored(r))


def dropped(run: Viewed) -> Mapping[str, int]:
    return {n: rows for n, rows in state_of(run.manifests[-1]).dropped.items() if rows}


@pytest.mark.parametrize("splits", [True, False])
@pytest.mark.spec("FC-F17")
def test_in_front_of_one_output_of_two(tmp_path: Path, splits: bool) -> None:
    counts = nodes()["counts"]
    run = ran(tmp_path, {"map": counts, "copy": counts}, {"map": IGNORED}, splits)
    assert bag(run, "map") == wanted(run, "copy") < bag(run, "copy")
    assert dropped(run) == {"out:map": len(run.rows("copy")) - len(run.rows("map"))}


@pytest.mark.parametrize("splits", [True, False])
@pytest.mark.spec("FC-F17")
def test_in_front_of_one_reader_of_two(tmp_path: Path, splits: bool) -> None:
    made = nodes()
    both = {"map": made["counts"], "peaks": made["peaks"]}
    whole = ran(tmp_path / "whole", both, {}, splits)
    run = ran(tmp_path / "less", both, {"map": IGNORED}, splits)
    assert bag(run, "map") == wanted(whole, "map")
    assert bag(run, "peaks") == bag(whole, "peaks")

    def came(one: Viewed, output: str) -> int:
        name = one.plan.name_of(both[output])
        return sum(m.progress["operators"][name]["rowsIn"] for m in one.manifests)

    assert came(run, "map") < came(whole, "map") * 2 / 3
    assert came(run, "peaks") == came(whole, "peaks")


@pytest.mark.parametrize("splits", [True, False])
@pytest.mark.spec("FC-F17")
def test_behind_an_operator(tmp_path: Path, splits: bool) -> None:
    """What it computes nobody below can tell."""
    shown = nodes()["shown"]
    step = {"window": {"range": 5}, "by": ["w"], "agg": {"n": "count(*)"}}
    run = ran(
        tmp_path / "less", {"map": aggregate(shown, step)}, {"map": "~{w < 30} ~{w > 70}"}, splits
    )
    given = [r for t in rows() for r in t.to_pylist()]
    whole = ran(tmp_path / "whole", {"map": aggregate(shown, step)}, {}, splits)
    assert bag(run, "map") == Counter(frozen(r) for r in whole.rows() if 30 <= r["w"] <= 70)
    out = [r for r in given if not 30 <= r["v"] + 1 <= 70]
    late = len(given) - sum(r["n"] for r in whole.rows())
    found = dropped(run)
    assert set(found) == {run.plan.name_of(shown)}
    assert len(out) - late <= found[run.plan.name_of(shown)] <= len(out)
