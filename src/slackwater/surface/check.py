"""``sw.check`` and ``stream.contracts()``: whether every state is freed and every result comes, before anything runs."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError
from slackwater.model.node import Node
from slackwater.semantics.bounds import topological
from slackwater.semantics.contracts.findings import (
    Caution,
    Edge,
    Findings,
    Problem,
    Required,
    check_nodes,
    edges,
    required,
)
from slackwater.surface.options import flag

if TYPE_CHECKING:
    from slackwater.surface.writer import StreamWriter


class ContractWarning(UserWarning):
    """A query was started whose state may grow."""


@dataclass(frozen=True)
class CheckReport:
    """What a check found.

    ``ok`` says that all state is freed, or grows with no more than the number of groups or of values. ``problems`` are
    states that would stay for ever, ``warnings`` what grows, and what the verdict rests on. ``requirements`` say what the
    streams must punctuate, if nothing were known of them. ``edges`` have the scheme that leaves each operator.
    """

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Caution, ...] = ()
    requirements: tuple[Required, ...] = ()
    edges: tuple[Edge, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the query may start."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        return {
            "ok": self.ok,
            "problems": [asdict(p) for p in self.problems],
            "warnings": [asdict(w) for w in self.warnings],
            "requirements": [asdict(r) for r in self.requirements],
            "edges": [asdict(e) for e in self.edges],
        }

    def text(self, *, requirements: bool = False) -> str:
        """The report for people."""
        lines = edge_lines(self.edges)
        lines.append(f"verdict: {self._verdict}")
        for p in self.problems:
            lines += [f"  unsafe: {p.message}", f"    to fix: {p.hint}"]
        for w in self.warnings:
            lines += [f"  {_LABELS[w.kind]}: {w.message}", f"    to fix: {w.hint}"]
        if requirements:
            lines.append("required of the streams:")
            lines += [f"  {_required(r)}" for r in self.requirements] or ["  nothing"]
        return "\n".join(lines)

    @property
    def _verdict(self) -> str:
        if self.problems:
            return "unsafe"
        grows = [k for k in ("groups", "values") if any(w.kind == k for w in self.warnings)]
        verdict = ", ".join(f"grows with the number of {k}" for k in grows) or "safe"
        rests = any(w.kind == "undeclared" for w in self.warnings)
        return f"{verdict}; it rests on punctuation that is not declared" if rests else verdict

    def __str__(self) -> str:
        return self.text()

    def raise_for_problems(self) -> None:
        """An error for the first problem, if there is one."""
        if self.problems:
            raise refused(self.problems)


_LABELS = {
    "groups": "grows with the number of groups",
    "values": "grows with the number of values",
    "undeclared": "not declared",
    "late": "look at",
    "idle": "look at",
}


def _required(r: Required) -> str:
    if not r.stream:
        return f"{r.operator}: {r.message}"
    state = "declared" if r.declared else f"not declared; {r.message}"
    return (
        f"stream '{r.stream}': {r.template}, or other punctuation on {', '.join(r.columns)} alone, "
        f"for {r.operator} ({state})"
    )


def edge_lines(shown: Sequence[Edge]) -> list[str]:
    """The query's tree, with the scheme that leaves each operator and what becomes of its state."""
    lines = []
    for e in shown:
        indent = "  " * e.depth
        lines.append(f"{indent}{e.line}")
        state = f"; state: {e.verdict}" if e.verdict else ""
        lines.append(f"{indent}  scheme: {e.scheme}{state}")
    return lines


def check(writers: Sequence[StreamWriter], *, options: Mapping[str, Any] | None = None) -> CheckReport:  # fmt: skip
    """Whether outputs could be started as one query: what ``sw.start`` checks, without starting it.

    Parameters
    ----------
    writers
        As for ``sw.start``.
    options
        Options of the query; with ``endOfStream`` all state is freed when the streams end.

    Examples
    --------
    >>> check([counts.writeStream.format("noop")]).ok                       # doctest: +SKIP
    True
    """
    from slackwater.surface.writer import check_writers

    check_writers(writers)
    return report([w._stream._node for w in writers], ended=ends(_merged(writers, options)))


def report(outputs: Sequence[Node], *, ended: bool = False) -> CheckReport:
    """The report on operators that go to outputs."""
    nodes = topological(outputs)
    made = check_nodes(nodes, ended=ended)
    return CheckReport(
        made.problems, made.cautions, required(nodes), edges(outputs, nodes, ended=ended)
    )


def _merged(writers: Sequence[StreamWriter], options: Mapping[str, Any] | None) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for w in reversed(writers):
        merged.update({k.lower(): v for k, v in w._options.items()})
    merged.update({k.lower(): v for k, v in (options or {}).items()})
    return merged


def ends(options: Mapping[str, Any]) -> bool:
    """Whether all streams of a query end."""
    return flag(options, "endOfStream")


def only_warns(options: Mapping[str, Any]) -> bool:
    """The option ``contracts``: whether an unsafe query starts all the same."""
    text = str(options.get("contracts", "refuse")).lower()
    if text not in ("refuse", "warn"):
        raise AnalysisError(
            "BAD_OPTION",
            f"contracts={text!r} is not known",
            hint='use "refuse", or "warn" to start a query whose state may grow for ever',
        )
    return text == "warn"


def check_start(outputs: Sequence[Node], options: Mapping[str, Any], *, known: bool) -> Findings:
    """Refuse what is unsafe, unless asked to warn, or unless a checkpoint knows the query; say what grows."""
    warn = only_warns(options)
    made = check_nodes(topological(outputs), ended=ends(options))
    if made.problems and not (warn or known):
        raise refused(made.problems)
    for p in made.problems:
        _warn(f"state may grow for ever: {p.message}. To fix: {p.hint}")
    for c in made.cautions:
        if c.kind != "undeclared":
            _warn(f"{c.message}. To fix: {c.hint}")
    return made


def warnings_of(outputs: Sequence[Node], options: Mapping[str, Any]) -> tuple[str, ...]:
    """What of a query that starts may grow, as ``lastProgress`` says it."""
    made = check_nodes(topological(outputs), ended=ends(options))
    grows = (c.message for c in made.cautions if c.kind != "undeclared")
    return (*(f"unsafe: {p.message}" for p in made.problems), *grows)


def _warn(text: str) -> None:
    """A warning at the line of the user's that starts the query."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, ContractWarning, stacklevel=level + 1)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "slackwater"


def refused(problems: Sequence[Problem]) -> AnalysisError:
    """The error of a query that is unsafe."""
    first = problems[0]
    more = len(problems) - 1
    others = f" ({more} more: sw.check([...]) lists them)" if more else ""
    return AnalysisError(
        "UNBOUNDED_STATE",
        first.message + others,
        hint=first.hint,
        operator=first.operator,
        input=first.input,
        columns=", ".join(first.columns),
    )
