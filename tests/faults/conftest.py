"""The result table of ``make faults``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.table import Table


@pytest.fixture(scope="session")
def table() -> Iterator[Table]:
    """Rows that fault tests add; written to ``docs/faults.md`` when the session ends."""
    made = Table()
    yield made
    made.write()
