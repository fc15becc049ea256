"""Names of columns that rows in state have besides the user's."""

from __future__ import annotations

import re
from collections.abc import Iterable

from slackwater.errors import AnalysisError
from slackwater.model.node import Dedup, Join, Node, Sort

_OURS = re.compile(r"_(time|bucket|for|row|matched|k\d+)", re.IGNORECASE)


def check_reserved(nodes: Iterable[Node]) -> None:
    """Refuse columns whose names sorts, joins and the removal of duplicates need for themselves."""
    for node in nodes:
        if isinstance(node, Join):
            what = "a join"
        elif isinstance(node, (Dedup, Sort)):
            what = "sort" if isinstance(node, Sort) else "dropDuplicates"
        else:
            continue
        for field in (f for child in node.children for f in child.schema):
            if _OURS.fullmatch(field.name):
                raise AnalysisError(
                    "RESERVED_NAME",
                    f"{what} keeps a column of its own called '{field.name}' beside those of the rows",
                    hint=f"rename yours before it: withColumnRenamed('{field.name}', ...)",
                    column=field.name,
                )
