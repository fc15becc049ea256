"""Every type of operator and of window has an entry in every registry: a class added tomorrow fails here, by its name.

A registry is one line in `BY_NODE` or `BY_WINDOW`. A new operator needs no line here: whether it is to have the entries of
a row operator or those of one that holds state follows from `ROW_OPERATORS`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

import slackwater
from slackwater.engine.plan.operators.registry import PRODUCERS, ROW_OPERATORS
from slackwater.errors import AnalysisError
from slackwater.model import window as window_module
from slackwater.model.node import (
    PLANNED,
    Aggregate,
    Filter,
    Held,
    Join,
    Late,
    Lookup,
    Node,
    Parted,
    SharedPanes,
    SharedSort,
    Sort,
    Source,
    Waiting,
)
from slackwater.model.registry import Registry
from slackwater.model.window import TimeWindow, Window


class Listed(NamedTuple):
    """A registry by its module and name. ``asks`` names the protocol, in that module, which each entry answers; types that
    need no entry are ``without``.
    """

    module: str
    name: str
    asks: str | None = None
    without: Callable[[], tuple[type, ...]] = tuple

    @property
    def file(self) -> str:
        return f"src/{self.module.replace('.', '/')}.py"

    @property
    def entries(self) -> Mapping[type, Any]:
        entries: Mapping[type, Any] = getattr(importlib.import_module(self.module), self.name)
        return entries

    @property
    def questions(self) -> list[str]:
        if self.asks is None:
            return []
        protocol = getattr(importlib.import_module(self.module), self.asks)
        asked = {n: f for n, f in vars(protocol).items() if not n.startswith("_")}
        return [n for n, f in asked.items() if callable(f) or isinstance(f, property)]


PLAN = "slackwater.engine.plan.operators.registry"
SOURCES = (Source, Late)


def steps() -> tuple[type, ...]:
    """To the plan these are steps on a path; paths start at all others, of which all but `SOURCES` hold state."""
    return tuple(ROW_OPERATORS)


BY_NODE = [
    Listed("slackwater.model.render", "LINES"),
    Listed("slackwater.model.expressions", "EXPRESSIONS", without=lambda: PLANNED),
    Listed("slackwater.model.arrival", "PASSING", without=lambda: PLANNED),
    Listed("slackwater.semantics.operators.registry", "RULES", "Rules"),
    Listed(
        "slackwater.testing.oracle.operators.registry", "OPERATORS", "Definition", lambda: PLANNED
    ),
    Listed("slackwater.testing.transcripts.query", "STEPS", without=lambda: PLANNED),
    Listed("slackwater.testing.executors.spark", "CALLS", without=lambda: PLANNED),
    # What these have to do with a batch is more than their inputs say.
    Listed(
        "slackwater.testing.executors.kernels",
        "RUNS",
        None,
        lambda: (*SOURCES, Join, Lookup, Held, Parted, Waiting, *PLANNED),
    ),
    Listed(PLAN, "ROW_OPERATORS", "RowOperator", lambda: (*PRODUCERS, *PLANNED)),
    Listed(PLAN, "PRODUCERS", "Producer", lambda: (*steps(), *PLANNED)),
    Listed(PLAN, "STATEFUL", "Stateful", lambda: (*steps(), *SOURCES)),
    Listed("slackwater.engine.paths.registry", "ADMISSIONS", without=lambda: (*steps(), *SOURCES)),
    # The kind of an aggregate is that of its window.
    Listed(
        "slackwater.engine.operators.registry",
        "PROGRAMS",
        "Kind",
        lambda: (*steps(), *SOURCES, Aggregate),
    ),
]
BY_WINDOW = [
    Listed("slackwater.model.window", "DESCRIPTIONS"),
    Listed("slackwater.semantics.window_types.registry", "WINDOWS", "WindowRules"),
    Listed("slackwater.testing.oracle.window_types.registry", "WINDOWS", "Definition"),
    Listed("slackwater.testing.transcripts.windows", "FORMS"),
    Listed("slackwater.engine.paths.registry", "REDUCTIONS"),
    Listed("slackwater.engine.operators.registry", "WINDOWS", "Kind"),
]


def every_subclass(base: type) -> Iterator[type]:
    for cls in base.__subclasses__():
        yield cls
        yield from every_subclass(cls)


def node_types() -> list[type]:
    """All operators of the package, wherever they stand; not those that tests make."""
    for module in pkgutil.walk_packages(slackwater.__path__, "slackwater."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    own = [c for c in every_subclass(Node) if c.__module__.startswith("slackwater.")]
    return [c for c in dict.fromkeys(own) if not inspect.isabstract(c)]


def window_types() -> list[type]:
    """All classes of the windows' module, whether or not the union names them."""
    own = [c for _, c in inspect.getmembers(window_module, inspect.isclass)]
    return [c for c in own if c.__module__ == window_module.__name__ and is_dataclass(c)]


def complaints(listed: Listed, types: Iterable[type]) -> list[str]:
    """What is missing, and what is too much."""
    wanted = [t for t in types if t not in listed.without()]
    where = f"{listed.name} in {listed.file}"
    found = [f"{t.__name__} has no entry in {where}" for t in wanted if t not in listed.entries]
    for type_, entry in listed.entries.items():
        if type_ not in wanted and not type_.__module__.startswith(
            "tests."
        ):  # a test's own operator
            found.append(f"{type_.__name__} has an entry in {where}, and should not")
        found += [
            f"{type_.__name__}: what {where} has for it does not answer {question}()"
            for question in listed.questions
            if not hasattr(entry, question)
        ]
    return found


@pytest.mark.parametrize("listed", BY_NODE, ids=lambda r: f"{r.module}.{r.name}")
def test_every_operator_has_an_entry(listed: Listed) -> None:
    assert not complaints(listed, node_types())


@pytest.mark.parametrize("listed", BY_WINDOW, ids=lambda r: f"{r.module}.{r.name}")
def test_every_type_of_window_has_an_entry(listed: Listed) -> None:
    assert not complaints(listed, window_types())


def test_the_union_of_windows_names_all_types() -> None:
    assert set(get_args(Window)) == set(window_types())


def test_types_are_found() -> None:
    names = {t.__name__ for t in node_types()}
    assert {"Source", "Late", "Join", "SharedPanes", "SharedSort"} <= names
    assert {"TimeWindow", "JointWindow"} <= {t.__name__ for t in window_types()}


@dataclass(frozen=True)
class Toy(Filter):
    """An operator that no registry knows."""


@pytest.mark.parametrize("listed", BY_NODE, ids=lambda r: f"{r.module}.{r.name}")
def test_an_operator_without_an_entry_is_named(listed: Listed) -> None:
    (said,) = complaints(listed, [*node_types(), Toy])
    assert said == f"Toy has no entry in {listed.name} in {listed.file}"


@pytest.mark.parametrize("listed", [*BY_NODE, *BY_WINDOW], ids=lambda r: f"{r.module}.{r.name}")
def test_a_query_is_told_which_file_lacks_the_entry(listed: Listed) -> None:
    # Also where the base class has an entry: what holds for the base may not hold here.
    assert isinstance(listed.entries, Registry)
    with pytest.raises(AnalysisError, match=rf"Toy has no entry in {listed.file}"):
        listed.entries[Toy]


@pytest.mark.parametrize("listed", [*BY_NODE, *BY_WINDOW], ids=lambda r: f"{r.module}.{r.name}")
def test_a_newcomer_reads_of_every_registry_and_of_what_it_asks(listed: Listed) -> None:
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    guide = text.partition("## A new operator")[2].partition("\n## ")[0]
    assert f"`{listed.name}`" in guide
    assert listed.asks is None or f"`{listed.asks}`" in guide


def test_every_operator_that_reads_others_can_read_different_ones() -> None:
    def definer(cls: type, name: str) -> type:
        return next(c for c in cls.__mro__ if name in vars(c))

    leaves = [t for t in node_types() if definer(t, "children") is Node]
    assert leaves == [Source]
    reading = [t for t in node_types() if t not in leaves]
    assert [
        t.__name__ for t in reading if definer(t, "with_children") is not definer(t, "children")
    ] == []


def test_with_children_replaces_just_the_children() -> None:
    leaf, other = (
        Node((), ()),
        Node(
            (),
            (),
        ),
    )
    for cls in node_types():
        names = {f.name for f in fields(cls)}
        if names >= {"child"} and cls not in PLANNED:
            needed = [
                f.name
                for f in fields(cls)[3:]
                if f.default is MISSING and f.default_factory is MISSING
            ]
            assert not needed, (
                f"{cls.__name__} needs defaults for {needed}, to be made of its child"
            )
            node = cls((), (), leaf)
            assert node.with_children(leaf) == node
            assert node.with_children(other).children[0] is other
    sort = Sort((), (), leaf, "ts")
    sorts = SharedSort((), (), leaf, "ts", readers=(("a", sort), ("b", sort)))
    assert sorts.with_children(leaf, leaf) == sorts
    assert [c is other for c in sorts.with_children(leaf, other).children] == [False, True]
    aggregate = Aggregate((), (), leaf, (), TimeWindow(5, 5, 0, "ts"))
    panes = SharedPanes((), (), leaf, window=aggregate.window, readers=(("a", aggregate),))
    assert panes.with_children(leaf) == panes
    assert panes.with_children(other).children[0] is other
    # Rows come from where those of the first reader do.
    assert panes.with_children(other).child is other
    assert sorts.with_children(other, leaf).child is other
