"""What a stream cannot do, refused by name with what to write instead."""

from __future__ import annotations

from slackwater.errors import AnalysisError
from slackwater.surface.sql.cursor import Cursor
from slackwater.surface.sql.text import Span
from slackwater.surface.sql.tree import Cut

_EQUAL = "; compare the columns with <=>, since nulls are equal here"
_NOT_IN = (
    "NOT IN is a LEFT ANTI JOIN but for nulls: the join keeps a row whose key is null, NOT IN drops it, "
    "and gives nothing at all if the sub-query has a null; add WHERE k IS NOT NULL in front of it"
)
CLAUSES = {
    "LIMIT": "rows of a stream have no end; filter with WHERE, or stop the query when there are enough",
    "OFFSET": "rows of a stream have no end; filter with WHERE",
    "INTERSECT": f"write SELECT DISTINCT over a LEFT SEMI JOIN with a comparison of the two times{_EQUAL}",
    "EXCEPT": f"write SELECT DISTINCT over a LEFT ANTI JOIN with a comparison of the two times{_EQUAL}",
    "MINUS": f"write SELECT DISTINCT over a LEFT ANTI JOIN with a comparison of the two times{_EQUAL}",
    "SORT": "write ORDER BY and the time column",
    "CLUSTER": "leave it out: rows are spread by their keys anyway",
    "DISTRIBUTE": "leave it out: rows are spread by their keys anyway",
    "LATERAL": "use CREATE STREAM ... AS SELECT over a raw input, which Spark runs",
    "QUALIFY": "aggregate in a window and filter with HAVING",
    "WINDOW": "aggregate in a window: GROUP BY window(ts, '1 minute')",
    "TABLESAMPLE": "filter with WHERE",
    "PIVOT": "write one aggregate with FILTER (WHERE ...) for each column",
    "UNPIVOT": "write one SELECT for each column, and UNION ALL between them",
    "CROSS": "write JOIN ... ON with a comparison of the two times",
    "NATURAL": "write JOIN ... USING (columns), or ON with a comparison of the two times",
    "ASOF": "write JOIN ... ON with a comparison of the two times",
    "MATCH_RECOGNIZE": "there are no patterns over several rows; a self join finds pairs",
    "FOR": "a stream has no versions; a join with a comparison of times finds the rows that are near, a table with versions is "
    "joined in Python by stream.join(sw.relation(...), on=...)",
    "ROLLUP": "write one query for each level, and UNION ALL between them, or several tables",
    "CUBE": "write one query for each set of keys, and UNION ALL between them, or several tables",
    "GROUPING": "write one query for each set of keys, and UNION ALL between them, or several tables",
}  # fmt: skip


def refuse(cursor: Cursor, span: Span, what: str, way: str) -> AnalysisError:
    """The error of something that SQL has and streams have not."""
    return cursor.text.error(
        span, "NOT_ON_STREAMS", f"{what} is not possible on a stream", hint=way, word=what
    )


def clause(cursor: Cursor) -> AnalysisError | None:
    """The error of a clause that is refused, if one comes next."""
    token = cursor.peek()
    way = CLAUSES.get(token.word)
    if way is None or (
        token.is_word("FOR") and not cursor.peek(1).is_word("SYSTEM_TIME", "VERSION")
    ):
        return None
    if token.is_word("WINDOW") and not (cursor.peek(1).is_name and cursor.peek(2).is_word("AS")):
        return None
    shown = token.word
    if token.is_word("SORT", "CLUSTER", "DISTRIBUTE"):
        shown += " BY"
    elif token.is_word("CROSS", "NATURAL", "ASOF"):
        shown += " JOIN"
    elif token.is_word("GROUPING"):
        shown += " SETS"
    return refuse(cursor, token.span, shown, way)


def check(cursor: Cursor, cut: Cut) -> None:
    """Refuse what an expression cannot be: other rows, a query of its own, a window of Spark's."""
    tokens = cursor.tokens
    for i in range(cut.first, cut.last):
        token, after = tokens[i], tokens[min(i + 1, len(tokens) - 1)]
        if token.is_sign("(") and after.is_word("SELECT", "WITH", "VALUES", "FROM"):
            before = tokens[i - 1] if i > cut.first else token
            if before.is_word("IN"):
                raise refuse(
                    cursor, before.span.to(after.span), "IN (SELECT ...)",
                    f"write a LEFT SEMI JOIN with a comparison of the two times; {_NOT_IN}",
                )  # fmt: skip
            if before.is_word("EXISTS"):
                raise refuse(
                    cursor, before.span.to(after.span), "EXISTS (SELECT ...)",
                    "write a LEFT SEMI JOIN with a comparison of the two times; NOT EXISTS is a LEFT ANTI JOIN",
                )  # fmt: skip
            raise refuse(
                cursor, token.span.to(after.span), "a query inside an expression",
                "join the two streams, with a comparison of their times",
            )  # fmt: skip
        if token.is_word("OVER") and i > cut.first and tokens[i - 1].is_sign(")"):
            raise refuse(
                cursor, token.span, "OVER",
                "aggregate in a window: GROUP BY window(ts, '1 minute'), or [RANGE 5 MINUTES SLIDE 1 ROW RATTR ts SATTR row-num]",
            )  # fmt: skip
        if token.is_word("ROLLUP", "CUBE") and after.is_sign("("):
            raise refuse(cursor, token.span, token.word, CLAUSES[token.word])
        if token.is_word("GROUPING") and after.is_word("SETS"):
            raise refuse(cursor, token.span.to(after.span), "GROUPING SETS", CLAUSES["GROUPING"])
