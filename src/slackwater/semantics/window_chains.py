"""Which windows and joins rows of a source meet on their way, and what a flush must reach to close them."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.model.node import Aggregate, Join, Node, Source
from slackwater.model.window import Window
from slackwater.semantics.bounds import topological
from slackwater.semantics.operators.answers import Chain, Trace, Traced
from slackwater.semantics.operators.registry import RULES
from slackwater.semantics.window_types.registry import WINDOWS
from slackwater.semantics.windows import closing, reaching


def window_chains(outputs: Sequence[Node], source: Source, column: str) -> tuple[Chain, ...]:
    """The windows that rows of ``source`` meet on the way to ``outputs``, by the time ``column``.

    One chain per path: the first window is on the source's own times (the shift of a projection
    moves its origin), each further one on the times of the results before it. Chains that are the
    beginning of another are given too. Paths that leave the column behind give none.
    """
    chains: list[Chain] = []
    for node in topological(outputs):
        if isinstance(node, Aggregate):
            for time in node.times:
                for chain, _ in _paths(node, time.name, source, column):
                    if chain not in chains:
                        chains.append(chain)
    return tuple(chains)


def window_readers(
    outputs: Sequence[Node], source: Source, column: str
) -> tuple[tuple[Aggregate, int], ...]:
    """The aggregates that rows of ``source`` reach by the time ``column``, before any other aggregate or join.

    With each comes the shift of its own time column against the source's. Which of its windows are
    closed to a row is told by the bound of its input: behind a union that is not the source's own.
    """
    readers: list[tuple[Aggregate, int]] = []
    for node in topological(outputs):
        if not isinstance(node, Aggregate):
            continue
        for chain, moved in _paths(node.child, node.window.on, source, column, joins=False):
            if not chain and not any(n is node and m == moved for n, m in readers):
                readers.append((node, moved))
    return tuple(readers)


def join_readers(
    outputs: Sequence[Node], source: Source, column: str
) -> tuple[tuple[Join, int, int], ...]:
    """The joins that rows of ``source`` reach by the time ``column``, before any aggregate or other join.

    With each comes the number of the input, and the shift of its time against the source's.
    """
    readers: list[tuple[Join, int, int]] = []
    for node in topological(outputs):
        if not isinstance(node, Join):
            continue
        for i, (child, on) in enumerate(zip(node.inputs, node.on, strict=True)):
            ways = _paths(child, on, source, column, joins=False)
            shifts = dict.fromkeys(moved for chain, moved in ways if not chain)
            readers += [(node, i, moved) for moved in shifts]
    return tuple(readers)


def _paths(
    node: Node, name: str, source: Source, column: str, *, joins: bool = True
) -> list[Traced]:
    """Chains from the source's column to column ``name`` of ``node``, and the shift since the last.

    Without ``joins`` only paths that lead through none.
    """

    def below(node: Node, name: str) -> list[Traced]:
        return RULES[type(node)].trace(node, name, ask)

    ask = Trace(source, column, joins, below)
    return below(node, name)


def flush_bound(hi: int, windows: Sequence[Window | Chain]) -> int:
    """The bound that closes everything a row of time ``hi``, the newest, is in.

    That is the largest end of a window that holds ``hi``, or ``hi + 1`` where none does. A chain
    (see `window_chains`) is closed through to its last window: the results of its first windows
    are rows of the next.

    >>> from slackwater.model.window import TimeWindow
    >>> flush_bound(7, [TimeWindow(10, 5, 0, "ts")]), flush_bound(7, [])
    (15, 8)
    """
    chains = [w if isinstance(w, tuple) else (w,) for w in windows]
    return max([hi + 1, *(_closing(hi, chain) for chain in chains)])


def _closing(hi: int, chain: Chain) -> int:
    if not chain:
        return hi + 1
    w, rest = chain[0], chain[1:]
    end = closing(hi, w)
    if not rest or not WINDOWS[type(w)].holds(hi, w):
        return end
    # The least bound v whose result_bound(v) is at least what the rest of the chain needs.
    return max(end, reaching(_closing(end - 1, rest), w))
