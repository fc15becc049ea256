"""The result table of ``make faults``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.faults.table import PAGE, Table, read

STALE = "STALE"
"""If it is set, cases whose lines still hold are not run."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the table knows already. A test that fills it is marked ``line`` with scenario and point, and how many ``kills`` it
    asks for, if it is more than one.
    """
    if not os.environ.get(STALE):
        return
    table = Table(read(PAGE))
    known = [
        i
        for i in items
        if (case := line_of(i)) is not None and not table.due(*case, kills=kills_of(i))
    ]
    config.hook.pytest_deselected(items=known)
    left = set(items) - set(known)
    items[:] = [i for i in items if i in left]


def line_of(item: pytest.Item) -> tuple[str, str] | None:
    """Scenario and point of the line that a test fills, if it fills one."""
    mark = item.get_closest_marker("line")
    if mark is None:
        return None
    values = item.callspec.params if hasattr(item, "callspec") else {}
    return mark.args[0].format(**values), mark.args[1].format(**values)


def kills_of(item: pytest.Item) -> int:
    """How many kills the line of a test must have at least."""
    mark = item.get_closest_marker("line")
    return 1 if mark is None else int(mark.kwargs.get("kills", 1))


@pytest.fixture(scope="session")
def lines() -> Table:
    return Table()


@pytest.fixture
def line(request: pytest.FixtureRequest, lines: Table) -> Callable[[int, int, int], None]:
    """Adds the line of a test that has one: kills, rows that were lost, rows that came twice."""

    def add(kills: int, lost: int, twice: int) -> None:
        case = line_of(request.node)
        if case is not None:
            lines.add(*case, kills, lost, twice)
            lines.write()

    return add


@pytest.fixture
def table(lines: Table) -> Iterator[Table]:
    """Lines that fault tests add; in ``docs/faults.md`` after each, so that a run may be broken off."""
    yield lines
    lines.write()
