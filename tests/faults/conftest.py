"""The result table of ``make faults``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.table import Table


@pytest.fixture(scope="session")
def lines() -> Table:
    return Table()


@pytest.fixture
def table(lines: Table) -> Iterator[Table]:
    """Lines that fault tests add; in ``docs/faults.md`` after each, so that a run may be broken off."""
    yield lines
    lines.write()
