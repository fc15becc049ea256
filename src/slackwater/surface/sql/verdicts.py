"""What a check says of a script besides its states: late rows that go nowhere, partitions that may stay silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slackwater.model.node import Late, Source
from slackwater.semantics.bounds import topological
from slackwater.semantics.contracts.findings import Caution
from slackwater.surface.check import CheckReport, ends, report
from slackwater.surface.writer import StreamWriter


def report_of(outputs: Mapping[str, StreamWriter], options: Mapping[str, Any]) -> CheckReport:
    """The report on outputs, with what to look at."""
    lower = {k.lower(): v for k, v in options.items()}
    nodes = [w._stream._node for w in outputs.values()]
    made = report(nodes, ended=ends(lower))
    return replace(made, warnings=(*made.warnings, *cautions(nodes)))


def cautions(outputs: list[Any]) -> list[Caution]:
    """Of the streams that outputs read."""
    nodes = topological(outputs)
    kept = {n.source.given_name for n in nodes if isinstance(n, Late)}
    made: dict[tuple[str, str], Caution] = {}
    for node in nodes:
        if not isinstance(node, Source):
            continue
        name = node.given_name
        if name not in kept and node.late != "raise":
            made["late", name] = Caution(
                "late", f"stream {name}", f"late rows of '{name}' go nowhere: they are counted, and no output has them",
                f"add a table: ... AS SELECT * FROM LATE({name})",
            )  # fmt: skip
        if node.partition is not None and any(p.idle is None for p in node.policies):
            made["idle", name] = Caution(
                "idle", f"stream {name}",
                f"'{name}' has partitions, and one that falls silent holds all results back: nothing says when it is idle",
                "add IDLE AFTER 30 SECONDS to its PROGRESS",
            )  # fmt: skip
    return list(made.values())
