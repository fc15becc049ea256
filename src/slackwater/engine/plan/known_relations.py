"""Relations as a checkpoint knows them: their tables may have gained or lost columns that the query does not read.

Operators are named by their texts, and that of a join with a relation has all columns of the table. So a join that reads what it
read before goes by the text that the checkpoint has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from slackwater.engine.plan.plan import Output
from slackwater.engine.plan.read_columns import Columns
from slackwater.engine.plan.relations import is_plain
from slackwater.engine.plan.steps import LookupStep
from slackwater.model.node import Lookup, Node, raw_name
from slackwater.model.relation import Relation
from slackwater.model.render import line_of, relation_text
from slackwater.model.schema import Expr, column

_HERE = "\0"


def as_known(outputs: Sequence[Output], lines: Sequence[str]) -> list[Output]:
    """The same outputs, whose relations are called as they are in the ``lines`` of a checkpoint's query."""
    lines = list(dict.fromkeys(line.strip() for line in lines if " relation " in line))
    if not lines:
        return list(outputs)
    done: dict[int, Node] = {}

    def rebuilt(node: Node) -> Node:
        if id(node) not in done:
            made = node.with_children(*map(rebuilt, node.children)) if node.children else node
            done[id(node)] = _known(made, lines) if isinstance(made, Lookup) else made
        return done[id(node)]

    return [replace(output, node=rebuilt(output.node)) for output in outputs]


def new_columns(
    nodes: Sequence[Node], lines: Sequence[str]
) -> dict[str, tuple[list[str], list[str]]]:
    """Columns that tables of relations have and that a checkpoint does not know, and those that it knows; by name."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for node in nodes:
        if not isinstance(node, Lookup) or node.relation.known_as or line_of(node) in lines:
            continue
        name, known = node.relation.name, dict[str, str]()
        for line in lines:
            _, _, text = line.partition(" join with ")
            columns, _ = _columns(text, name)
            known.update(columns)
        new = [f.name for f in node.relation.fields if f.name not in known]
        if known and new:
            found[name] = (new, [f.name for f in node.relation.fields if f.name in known])
    return found


def _known(node: Lookup, lines: Sequence[str]) -> Node:
    head, _, _ = _around(node)
    for line in lines:
        columns, rest = _columns(line.removeprefix(head), node.relation.name)
        if not line.startswith(head) or not columns:
            continue
        same = _reading(node, columns)
        _, _, tail = _around(same)
        text = line[len(head) : len(line) - len(tail)]
        made_of = rest[: len(rest) - len(tail)]
        if not line.endswith(tail) or made_of not in _changes(node.relation):
            continue
        if all(columns.get(f.name) == f.type for f in LookupStep.of(same).form.fields):
            return replace(same, relation=replace(node.relation, known_as=text))
    return node


def _around(node: Lookup) -> tuple[str, str, str]:
    """The operator's line before and behind its relation."""
    return line_of(replace(node, relation=replace(node.relation, known_as=_HERE))).partition(_HERE)


def _columns(text: str, name: str) -> tuple[dict[str, str], str]:
    """The columns in a relation's text, with their types, and what follows them; none if it is no text of this relation.

    >>> _columns("relation d(id bigint, x decimal(5,2)) of 'd' on", "d")
    ({'id': 'bigint', 'x': 'decimal(5,2)'}, " of 'd' on")
    """
    begin = f"relation {name}("
    if not text.startswith(begin):
        return {}, ""
    depth, parts = 1, [""]
    for at, letter in enumerate(text[len(begin) :], len(begin)):
        depth += (letter in "(<") - (letter in ")>")
        if not depth:
            pairs = [part.strip().rpartition(" ") for part in parts]
            return {name: kind for name, _, kind in pairs}, text[at + 1 :]
        if letter == "," and depth == 1:
            parts.append("")
        else:
            parts[-1] += letter
    return {}, ""


def _changes(relation: Relation) -> Iterator[str]:
    """What is behind the columns in texts of the same relation: a selection in front leaves out columns, and does nothing else."""
    changes = relation.changes
    while True:
        _, text = _columns(
            relation_text(replace(relation, fields=(), changes=changes)), relation.name
        )
        yield text
        if not changes or isinstance(changes[0], Expr):
            return
        if not all(is_plain(c) and c.expr.sql == column(c.name, "").sql for c in changes[0]):
            return
        changes = changes[1:]


def _reading(node: Lookup, known: dict[str, str]) -> Lookup:
    """The join without columns that its condition could be over, is not, and was not before."""
    tests = Columns(texts=() if node.where is None else (node.where,))
    new = {column(raw_name(1, f.name), "").sql for f in node.relation.fields if f.name not in known}
    pair = tuple(c for c in node.pair if c.expr.sql not in new or c.name in tests)
    return replace(node, pair=pair)
