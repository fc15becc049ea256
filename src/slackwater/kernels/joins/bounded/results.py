"""Results on their way out: small chunks together, never many at a time."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

Emit = Callable[[pa.Table, bool], None]
"""Takes a chunk of results; the flag says that they come from a pass, later than their rows."""


class Results:
    """Gathers chunks until there are ``most_rows`` or ``most_bytes`` of them, and hands them on."""

    def __init__(self, emit: Emit, most_rows: int, most_bytes: int) -> None:
        self.rows = 0
        self.delayed = 0
        self.alone = 0
        self._emit = emit
        self._most = (most_rows, most_bytes)
        self._waiting: dict[bool, list[pa.Table]] = {False: [], True: []}
        self._held = [0, 0]

    def add(self, output: pa.Table) -> None:
        """Results that come as their rows do."""
        self._add(output, False)

    def add_delayed(self, output: pa.Table) -> None:
        """Results of a pass."""
        self.delayed += output.num_rows
        self._add(output, True)

    def add_alone(self, output: pa.Table) -> None:
        """Rows without a partner."""
        self.alone += output.num_rows
        self._add(output, False)

    def hand_on(self) -> None:
        """Hand on what is waiting."""
        for delayed, waiting in self._waiting.items():
            if waiting:
                self._emit(pa.concat_tables(waiting), delayed)
                waiting.clear()
        self._held = [0, 0]

    def _add(self, output: pa.Table, delayed: bool) -> None:
        self.rows += output.num_rows
        if self._held[0] + output.num_rows > self._most[0]:
            self.hand_on()
        self._waiting[delayed].append(output)
        self._held[0] += output.num_rows
        self._held[1] += output.get_total_buffer_size()  # much quicker than nbytes
        if self._held[1] >= self._most[1]:
            self.hand_on()
