"""Names that users' columns and streams may not have: those that begin like ours (`model.names`), and one name twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slackwater.errors import AnalysisError
from slackwater.model.names import PREFIX, is_ours
from slackwater.model.node import Node, Source


def check_names(names: Iterable[str], what: str = "column", way: str = "") -> None:
    """Refuse names of columns, aliases or streams that begin like ours; ``way`` is how to give another one."""
    for name in names:
        if is_ours(name):
            raise AnalysisError(
                "RESERVED_NAME",
                f"the {what} name '{name}' is not possible: names that begin with '{PREFIX}', in any letter "
                "case, are Slackwater's own",
                hint=way or "give it another name with .alias(...)",
                name=name,
            )


def check_sources(nodes: Iterable[Node]) -> None:
    """Refuse sources whose name, or a column's, begins like ours."""
    for node in nodes:
        if isinstance(node, Source):
            check_names([node.name], "stream", "give the stream another name=")
            check_names(
                (f.name for f in node.schema),
                way="rename the column before sw.stream(...): df.withColumnRenamed(...)",
            )


def check_twice(names: Sequence[str], hint: str) -> None:
    """Refuse a name that comes twice, in whatever letter case: nobody could read such columns again."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise AnalysisError(
                "DUPLICATE_COLUMN", f"there would be two columns '{name}'", hint=hint, name=name
            )
        seen.add(name.lower())
