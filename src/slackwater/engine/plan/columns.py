"""Which columns of an input anybody reads: those that nobody reads need not come along with its rows.

A column whose name stands in no text is read by no expression. A name that stands in a text for another reason
(inside a string, say) costs a column too many, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from slackwater.engine.plan.plan import Path, Plan
from slackwater.engine.plan.steps import FilterStep, ProjectStep, Step, unknown_step
from slackwater.model.node import Aggregate, Join, Late, SharedPanes, Source
from slackwater.model.schema import Expr, Field, Named
from slackwater.model.spark_sql import quoted
from slackwater.model.window import ByTuple, RowWindow
from slackwater.semantics.settings import resolve_source


class Columns:
    """Columns that are read: ``names`` and those that ``texts`` speak of, or all of them."""

    def __init__(
        self, names: Iterable[str] = (), texts: Iterable[Expr] = (), *, every: bool = False
    ):
        self._every = every
        self._names = {n.lower() for n in names}
        self._texts = [e.sql for e in texts]

    def __contains__(self, name: str) -> bool:
        if self._every or name.lower() in self._names:
            return True
        return any(_speaks_of(text, name) for text in self._texts)

    def and_those_of(self, *texts: Expr) -> Columns:
        """These, and those that further expressions speak of."""
        more = Columns(self._names, every=self._every)
        more._texts = [*self._texts, *(e.sql for e in texts)]
        return more


ALL = Columns(every=True)


def carried(plan: Plan, index: int, fields: Sequence[Field]) -> tuple[Field, ...]:
    """The columns of an input that its rows are to bring along, in the order of ``fields``."""
    sources = [s for s in plan.sources if s.input == index]
    read = [columns for s in sources for columns in _read(plan, s)]
    return tuple(f for f in fields if any(f.name in columns for columns in read))


def narrowed(plan: Plan) -> Plan:
    """The plan whose paths from the edge take no column along that their ends do not read.

    A projection loses plain columns alone: any other expression may fail, and then has to.
    """
    edge = {n for n, m in zip(plan.names, plan.nodes, strict=True) if isinstance(m, Source | Late)}
    paths = tuple(_narrowed(plan, p) if p.producer in edge else p for p in plan.paths)
    before = None if plan.before is None else narrowed(plan.before)
    return replace(plan, paths=paths, before=before)


def _read(plan: Plan, source: Source) -> list[Columns]:
    """What reads the columns of a source: its policies, and the paths from it and from its late rows."""
    settings = resolve_source(source)
    if source.late == "raise" or any(s.patterns for s in settings):
        return [ALL]  # the error shows the row; a pattern may speak of any column
    own = [t.name for t in source.times] + [s.punctuation for s in settings if s.punctuation]
    own += [*source.order, *([] if source.partition is None else [source.partition])]
    read = [Columns(own)]
    # Statistics are gathered on the paths that operators have each for itself.
    for one in (plan, plan.unshared):
        late = {
            n for n, m in zip(one.names, one.nodes, strict=True)
            if isinstance(m, Late) and m.source is source
        }  # fmt: skip
        for path in one.paths:
            if path.producer in late and path.blocked_by is not None:
                read.append(ALL)  # rows travel whole to where Spark evaluates the steps
            elif path.producer == source.name or path.producer in late:
                read.append(_at_start(path.steps, _at_end(one, path)))
    return read


def _narrowed(plan: Plan, path: Path) -> Path:
    wanted = _at_end(plan, path)
    steps: list[Step] = []
    for step in reversed(path.steps):
        if isinstance(step, ProjectStep):
            step = ProjectStep(tuple(c for c in step.columns if c.name in wanted or not _plain(c)))
        wanted = _at_start((step,), wanted)
        steps.insert(0, step)
    return path if tuple(steps) == path.steps else replace(path, steps=tuple(steps))


def _at_start(steps: Sequence[Step], wanted: Columns) -> Columns:
    """What the start of a path must have, where the end wants ``wanted``."""
    for step in reversed(steps):
        match step:
            case FilterStep():
                wanted = wanted.and_those_of(step.condition)
            case ProjectStep():
                wanted = Columns(texts=step.expressions)
            case _:
                raise unknown_step(step)
    return wanted


def _at_end(plan: Plan, path: Path) -> Columns:
    """What the consumer of a path reads."""
    operator = plan.operator(path.consumer)
    node = None if operator is None else operator.node
    if isinstance(node, Aggregate):
        return _of_aggregate(node)
    if isinstance(node, Join):
        keys = (k.expr for k in node.keys[path.input])
        return Columns((node.on[path.input], *node.used[path.input]), keys)
    return ALL  # an output shows all columns, and other operators keep rows whole


def _of_aggregate(node: Aggregate) -> Columns:
    readers = [r for _, r in node.readers] if isinstance(node, SharedPanes) else []
    names: list[str] = []
    texts: list[Expr] = []
    for one in (node, *readers):
        for window in one.windows:
            names.append(window.on)
            if isinstance(window, RowWindow | ByTuple):
                names += window.order
            if isinstance(window, RowWindow) and window.passing is not None:
                names.append(window.passing)
        texts += [k.expr for k in one.keys]
        texts += [a for p in one.primitives for a in p.args]
    return Columns(names, texts)


def _speaks_of(text: str, name: str) -> bool:
    """Whether a column may be meant in a text: texts written by hand may name it without quotes, in any letter case."""
    if quoted(name) in text:
        return True
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


def _plain(column: Named) -> bool:
    """Whether a projection gives a column of its input as it is, by whatever name."""
    text = column.expr.sql
    return text[:1] == text[-1:] == "`" and "`" not in text[1:-1].replace("``", "")
