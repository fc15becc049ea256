"""Panels as SVG, the same file for the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def axes_of(
    target: Path, *, panels: int = 1, size: tuple[float, float] = (6, 4), note: str | None = None
) -> Iterator[Any]:
    """Axes to draw on, of several panels a list; the picture is written after, with ``note`` in its metadata."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "slackwater"
    from matplotlib import pyplot as plt

    figure, found = plt.subplots(1, panels, figsize=size, layout="constrained", squeeze=False)
    yield found[0][0] if panels == 1 else list(found[0])
    for axes in found[0]:
        axes.grid(alpha=0.3)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, metadata={"Date": None, "Description": note})
    plt.close(figure)
