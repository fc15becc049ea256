"""Several aggregates over one store of panes: same rows, same keys, windows and bounds of their own.

The store is a table of partials like any other, of tumbling windows as long as a pane, with every primitive
that some aggregate needs once. An aggregate reads what its windows need and has it put together to panes of
its own. What is stored goes when no aggregate needs it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels.aggregates import partials as states
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import AggregateSpec, ints
from slackwater.model.aggregate import Primitive
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import clamp
from slackwater.semantics.pane_sharing import StorePanes

State = Callable[[int, int], pa.Table]
"""Stored partials of panes in [low, high], and perhaps some more."""


@dataclass(frozen=True)
class Store:
    """``spec`` is that of the store, ``readers`` those of the aggregates (plan "panes")."""

    spec: AggregateSpec
    readers: tuple[AggregateSpec, ...]

    @property
    def panes(self) -> StorePanes:
        """The panes that are stored."""
        return StorePanes(self.spec.sliding.range, self.spec.sliding.origin)

    def columns(self, reader: AggregateSpec) -> dict[str, str]:
        """The store's column for each state column of an aggregate."""
        stored = {signature(p): p for p in self.spec.primitives}
        names = {}
        for p in reader.primitives:
            own, held = states.state_fields(p), states.state_fields(stored[signature(p)])
            names.update({o.name: h.name for o, h in zip(own, held, strict=True)})
        return names


def signature(p: Primitive) -> str:
    """Primitives with one signature have the same state."""
    return f"{p.call} {p.type}"


def store_of(
    readers: Sequence[AggregateSpec],
    panes: StorePanes | None = None,
    names: Mapping[str, str] | None = None,
) -> Store:
    """The store of several aggregates.

    ``panes`` and ``names`` (of primitives by `signature`) are those of a store that exists already.
    """
    first = readers[0]
    panes = panes or StorePanes.of([r.sliding for r in readers])
    every = {signature(p): p for r in readers for p in r.primitives}
    known = dict(names or {})
    for key in every:
        known.setdefault(key, f"_s{len(known)}")
    primitives = tuple(replace(p, name=known[key]) for key, p in every.items())
    window = TimeWindow(panes.width, panes.width, panes.origin, first.sliding.on)
    spec = AggregateSpec(first.keys, window, primitives, "panes", first.ansi)
    return Store(spec, tuple(readers))


class StoreStep(NamedTuple):
    """``outputs``: closed windows, per aggregate; ``keep``: what to store of the new partials; ``late``: new
    partials that came too late for all windows of an aggregate, over all aggregates.
    """

    outputs: list[pa.Table]
    keep: pa.Table
    late: int


def needed(store: Store, closed: Sequence[int]) -> int:
    """The first pane that some aggregate needs, each having closed windows up to ``closed``."""
    firsts = [
        store.panes.first_needed(r.sliding, c) for r, c in zip(store.readers, closed, strict=True)
    ]
    return clamp(min(firsts))


def step(
    store: Store, new: pa.Table, state: State, closed: Sequence[int], close_to: Sequence[int]
) -> StoreStep:
    """Close the windows in (closed, close_to] of each aggregate."""
    new = aggregate.merge_partials(store.spec, [new])
    outputs, late = [], 0
    for reader, low, high in zip(store.readers, closed, close_to, strict=True):
        stored = aggregate.partials_schema(reader).empty_table()
        if high > low:
            first = clamp(store.panes.first_needed(reader.sliding, low))
            last = clamp(store.panes.first_needed(_ends(reader), high) - 1)
            stored = read(store, reader, state(first, last))
        done = aggregate.step(reader, read(store, reader, new), stored, low, high)
        outputs.append(done.output)
        late += done.dropped_rows
    after = [max(low, high) for low, high in zip(closed, close_to, strict=True)]
    keep = new.filter(pc.greater_equal(new["_pane"], needed(store, after)))
    return StoreStep(outputs, keep, late)


def read(store: Store, reader: AggregateSpec, table: pa.Table) -> pa.Table:
    """Partials of the store as those of an aggregate: its panes, its primitives."""
    schema = aggregate.partials_schema(reader)
    columns = store.columns(reader)
    panes, own, window = store.panes, reader.panes, reader.sliding
    pane = ints(table, "_pane")
    if panes.width != own.width or panes.origin != window.origin:
        pane = (pane * panes.width + (panes.origin - window.origin)) // own.width
    arrays = [
        pa.array(pane) if name == "_pane" else table.column(columns.get(name, name))
        for name in schema.names
    ]
    partials = pa.table(arrays, schema=schema)
    if window.range < window.slide:
        # Panes between windows are stored for the others.
        partials = partials.filter(pa.array(own.end_window(pane) > own.first_window(pane)))
    return aggregate.merge_partials(reader, [partials])


def _ends(reader: AggregateSpec) -> TimeWindow:
    """Windows whose first pane begins where those of the aggregate end, one id earlier."""
    w = reader.sliding
    return TimeWindow(w.slide, w.slide, w.origin, w.on)
