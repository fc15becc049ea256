"""Rows of a DataFrame that nobody needs are null but for what progress needs: results, late rows and progress stay as they are."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.lowlevel import bare
from slackwater.engine.lowlevel.bare import Bare
from slackwater.engine.lowlevel.source_task import SourceTask
from slackwater.engine.plan.columns import read_by_progress
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store.feedback_log import state_of
from slackwater.kernels.types import arrow_schema
from slackwater.model.node import LATE_FIELDS, Dedup, Late, Node, Sort, Source
from slackwater.model.policy import (
    BoundedDelay,
    BoundedRows,
    MaxDelay,
    Ordered,
    Policy,
    Punctuated,
    Quality,
)
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.semantics.feedback.standing import Request
from slackwater.semantics.patterns import Pattern, Test
from slackwater.testing.clock import ManualClock
from slackwater.testing.local.run import scratch_folder
from slackwater.testing.transcripts.query import aggregate
from tests.engine.feedback.running import Ran, check, play
from tests.engine.feedback.test_range import FAMILIES
from tests.engine.feedback.viewport import Viewed, said
from tests.examples import examples

MAP = "map<string,struct<op:string,value:string>>"
FIELDS = (
    Field("segment", "bigint"), Field("ts", "bigint"), Field("a b", "string"), Field("x.y", "struct<p:bigint,q:string>"),
    Field('say "so"', "array<string>"), Field("note", "string"), Field("at", "bigint"), Field("part", "string"), Field("upto", "bigint"), Field("said", MAP),
)  # fmt: skip
UNITS = TimeColumn("ts", "long", 1_000_000)
POLICIES: dict[str, Callable[[], Policy]] = {
    "ordered": Ordered, "delay": lambda: BoundedDelay(delay=3), "greatest delay": MaxDelay,
    "rows": lambda: BoundedRows(rows=4), "punctuated": lambda: Punctuated("upto"),
    "data": lambda: Punctuated("upto", data=True), "patterns": lambda: Punctuated("said"),
    "error": lambda: Quality(error=0.2), "coverage": lambda: Quality(coverage=0.9),
    "strict": lambda: Quality(error=0.2, granularity=1, limit=6, strict=True),
}  # fmt: skip
AT: dict[str, Callable[[Node], Node]] = {
    "rows": lambda s: s,
    "sort": lambda s: Sort(s.schema, s.times, s, "ts"),
    "dedup": lambda s: Dedup(s.schema, s.times, s, ("segment", "a b", "ts"), None, "ts"),
}
TAKEN: Counter[str] = Counter()
"""How many rows were bare, by policy and so on."""


@contextmanager
def watched(*kinds: str) -> Iterator[None]:
    real = SourceTask._without

    def counted(task: SourceTask, marked: Any, admitted: Any, placed: Any) -> Any:
        for kind in kinds:
            TAKEN[kind] += int((admitted & marked).sum())
        return real(task, marked, admitted, placed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SourceTask, "_without", counted)
        yield


@contextmanager
def without_bare_rows() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bare, "of", lambda *_, **__: None)
        yield


class Case:
    """A stream of wide rows, what reads it, and feedback on that."""

    def __init__(self, seed: int):
        rng = random.Random(seed)
        self.policy = rng.choice(list(POLICIES))
        policy = POLICIES[self.policy]()
        target = isinstance(policy, Quality)
        if not target and rng.random() < 0.5:
            policy = policy.futureGuard(3) if rng.random() < 0.6 else policy.idleAfter("5 seconds")
        late: Any = "admit" if target else rng.choice(["admit", "drop"])
        ordered = self.policy in ("rows", "strict") or rng.random() < 0.2
        self.source = Source(
            FIELDS, (UNITS,), "cars", policies=(policy,), late=late, order=("at",) if ordered else (),
            partition="part" if rng.random() < 0.3 and self.policy != "strict" else None,
        )  # fmt: skip
        self.reader = "map" if target else rng.choice(["map", *AT])
        node = AT[self.reader](self.source) if self.reader in AT else self._map(rng)
        outputs = [Output("map", node)]
        if target:
            outputs.append(Output("whole", self.source))
        if rng.random() < 0.5:
            columns = (*FIELDS, *LATE_FIELDS)
            outputs.append(Output("late", Late(columns, self.source.times, self.source)))
        self.has_late = outputs[-1].name == "late"
        self.plan: Plan = passed(build(outputs, ansi=True, zone="UTC"), Written())
        texts = ["~{segment >= 0}", "~{segment < 2}", "~{segment <> 1} ~{segment IS NULL}"]
        self.text = rng.choice(texts if target else [*texts, self._on_time(rng)])
        self.splits = not target and rng.random() < 0.3
        self.tables = [self._rows(rng, n) for n in range(rng.randint(3, 6))]

    def _on_time(self, rng: random.Random) -> str:
        if self.reader == "map":
            return "~{segment < 2, wid < 2} ~{wid >= 5}"
        return rng.choice(
            ["~{ts < 9} ~{segment = 1}", "~{segment < 2, ts >= 6}", "~{`a b` >= 'b'}"]
        )

    def _map(self, rng: random.Random) -> Node:
        value = rng.choice(["count(*)", "max(note)"])
        step = {"window": {"range": 6, "slide": 3}, "by": ["segment"], "agg": {"n": value}}
        return aggregate(self.source, step)

    def _rows(self, rng: random.Random, n: int) -> pa.Table:
        def row(i: int) -> dict[str, Any]:
            ts = 4 * n + rng.randint(-4, 4) + (20 if rng.random() < 0.08 else 0)
            segment = rng.randint(0, 3)
            tests = [
                ("a b", {"op": "=", "value": "a"}),
                ("ts", {"op": "<", "value": str(4 * n)}),
            ]
            return {
                "segment": None if rng.random() < 0.1 else segment,
                "ts": None if rng.random() < 0.05 else ts,
                "a b": rng.choice([None, "", "a", "b" * 30]),
                "x.y": rng.choice([None, {"p": 1, "q": "z"}, {"p": None, "q": None}]),
                'say "so"': rng.choice([None, [], ["u", None]]),
                "note": rng.choice([None, "n", "m" * 20]),
                "at": 100 * n + i,
                "part": rng.choice(["a", "b", None]),
                "upto": 4 * n - 3 if rng.random() < 0.15 else None,
                "said": tests if rng.random() < 0.1 and self.policy == "patterns" else None,
            }  # fmt: skip

        rows = [row(i) for i in range(rng.randint(0, 12))]
        return pa.Table.from_pylist(rows, arrow_schema(FIELDS))

    def play(self, *, feedback: bool) -> tuple[Any, Any, Any]:
        """The rows of all outputs by batch, what is told of streams, and what feedback dropped."""
        clock = ManualClock(2_000_000)
        clock.script({n: 4_000_000 * n for n in range(len(self.tables))})
        with scratch_folder() as folder:
            run = Viewed(folder, self.plan, splits=self.splits, clock=clock, group=None)
            run.give(self.tables)
            run.run.start()
            if feedback:
                for name in {o.name for o in self.plan.outputs} - {"late"}:
                    run.run.send(Request("send", name, "x", said(self.text, self.plan, name)))
            run.all()
            run.run.stop()
        rows = {
            name: {b: sorted(map(repr, t.to_pylist())) for b, t in tables.items()}
            for name, tables in run.run.published.items()
        }
        streams = [m.progress["streams"] for m in run.manifests]
        return rows, streams, [state_of(m).dropped for m in run.manifests]


def same(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bare, "FEWEST", 1)
        if seed % 2:  # numbers and times are taken away here as texts are
            patch.setattr(bare, "_AS_WIDE_AS_NULL", ("-",))
        _same(Case(seed))


def _same(case: Case) -> None:
    kinds = [case.policy, case.reader, "late rows" if case.has_late else "no late rows"]
    if case.splits:
        kinds = [f"{case.policy} of files"]
    with watched(*kinds):
        found = case.play(feedback=True)
    with without_bare_rows():
        assert found == case.play(feedback=True)
    rows, streams, _ = case.play(feedback=False)
    assert found[1] == streams
    assert found[0].get("late") == rows.get("late")


@pytest.mark.spec("FC-F19")
def test_results_late_rows_and_progress_are_the_same_whether_rows_are_bare_or_not() -> None:
    TAKEN.clear()

    @examples(60)
    @given(st.integers(0, 2**32 - 1))
    def alike(seed: int) -> None:
        same(seed)

    alike()
    kinds = {*AT, "map", "late rows", "no late rows", *POLICIES}
    kinds |= {f"{policy} of files" for policy in ("punctuated", "data", "patterns")}
    assert kinds <= set(+TAKEN), f"only {dict(TAKEN)}"


@pytest.mark.parametrize("family", FAMILIES)
def test_operators_give_the_same_whether_rows_are_bare_or_not(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over rows of numbers alone, which are taken away here as texts are."""
    monkeypatch.setattr(bare, "_AS_WIDE_AS_NULL", ("-",))
    monkeypatch.setattr(bare, "FEWEST", 1)

    @examples(3)
    @given(st.integers(0, 2**32 - 1))
    def alike(seed: int) -> None:
        runs = []
        for feedback, off in ((False, False), (True, True), (True, False)):
            rng = random.Random(seed)
            case = FAMILIES[family](rng)
            with scratch_folder() as folder:
                if off:
                    with without_bare_rows():
                        runs.append(play(case, folder, rng, feedback=feedback))
                else:
                    with watched(family):
                        runs.append(play(case, folder, rng, feedback=feedback))
        reference, whole, got = runs
        check(case, got, reference)
        assert said_of(got) == said_of(whole)

    alike()


def said_of(ran: Ran) -> Any:
    rows = {
        name: {b: sorted(map(repr, each)) for b, each in batches.items()}
        for name, batches in ran.rows.items()
    }
    return rows, ran.streams, {b: state_of(m).dropped for b, m in ran.manifests.items()}


def test_progress_reads_what_patterns_in_force_speak_of() -> None:
    source = Source(FIELDS, (UNITS,), "cars", policies=(Punctuated("said"),))
    plan = passed(build([Output("map", source)], ansi=True, zone="UTC"), Written())
    state: Any = SimpleNamespace(patterns=(Pattern.of({"a b": Test.among(["a"])}),))
    for known, there in ((None, False), (state, True)):
        assert any("a b" in c for c in read_by_progress(plan, source, known)) == there


@pytest.mark.parametrize("texts", [bare.FEWEST - 1, bare.FEWEST])
def test_rows_with_few_texts_stay_whole(texts: int) -> None:
    """To plan and to test would cost more than it saves."""
    names = [f"t{i}" for i in range(texts)]
    fields = (
        Field("segment", "bigint"),
        Field("ts", "bigint"),
        *(Field(n, "string") for n in names),
    )
    source = Source(fields, (UNITS,), "cars", policies=(BoundedDelay(delay=3),))
    plan = passed(build([Output("map", source)], ansi=True, zone="UTC"), Written())
    found: list[Bare | None] = []
    real = Bare.of.__func__  # type: ignore[attr-defined]
    with scratch_folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bare, "of", lambda *a, **k: found.append(real(Bare, *a, **k)))
        run = Viewed(folder, plan, splits=False, group=None)
        run.give([pa.table({"segment": [1], "ts": [1], **{n: ["a"] for n in names}})])
        run.run.start()
        run.run.send(Request("send", "map", "x", said("~{segment = 1}", plan)))
        run.all()
        run.run.stop()
    taken = {one.taken if one else None for one in found}
    assert taken == {frozenset(names) if texts == bare.FEWEST else None}
