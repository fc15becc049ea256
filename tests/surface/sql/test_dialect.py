"""What sqlglot makes of expressions, by texts with known trees: another release that reads them otherwise is seen here.

Nothing that it prints reaches Spark; ``slackwater check --syntax`` only asks it where an expression breaks off.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slackwater.surface.cli import main
from slackwater.surface.sql.dialect import Misread, tree_of

TREES = {
    "upper(k) AS u": "Alias", "xs[0]": "Bracket", "k LIKE 'a%'": "Like", "'it''s'": "Concat", "1.5BD": "TryCast",
    "transform(xs, x -> x + 1)": "Transform", "CASE WHEN a THEN 1 ELSE 2 END": "Case", "t.a.b": "Column",
    "sum(v) FILTER (WHERE b)": "Filter", "v::bigint": "TryCast", "INTERVAL '1' DAY": "Interval", "a BETWEEN 1 AND 2 AND b": "And",
    "a <=> b": "NullSafeEQ", r"r'a\n'": "RawString", "X'1F'": "HexString", "session_window(ts, '5 minutes')": "Anonymous",
    "count(DISTINCT k)": "Count", "percentile_cont(0.5) WITHIN GROUP (ORDER BY v)": "WithinGroup", "struct(a, b).a": "Dot",
    "EXTRACT(HOUR FROM ts)": "Extract", "NOT a IS NULL": "Not",
}  # fmt: skip
BROKEN = {
    "a +": (2, 3), "upper(k": (6, 7), "a b c": (4, 5), "CASE WHEN a": (10, 11), "a, b": (0, 4), "1 +* 2": (5, 6),
    "a FROM b": (0, 8), "(a": (1, 2), "a IN (1,": (7, 8),
}  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), TREES.items())
def test_a_text_has_its_tree(text: str, kind: str):
    assert type(tree_of(text)).__name__ == kind


@pytest.mark.parametrize(("text", "place"), BROKEN.items())
def test_a_text_breaks_off_where_it_did(text: str, place: tuple[int, int]):
    with pytest.raises(Misread) as raised:
        tree_of(text)
    assert (raised.value.start, raised.value.end) == place


@pytest.mark.parametrize(
    "deep", ["(" * 5000 + "len" + ")" * 5000, "CASE WHEN len = 1 THEN 2 ELSE " * 2000 + "len" + " END" * 2000]
)  # fmt: skip
def test_what_is_too_deep_is_no_error_of_syntax(deep: str, tmp_path: Path, capsys: Any):
    path = tmp_path / "deep.sql"
    path.write_text(
        "CREATE STREAM s (len INT, ts TIMESTAMP) USING parquet OPTIONS (path 'p') TIME ts;\n"
        f"SELECT {deep} AS x, ts FROM s;\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(["check", "--syntax", str(path)])
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert f"{path}:2:8: [TOO_DEEP]" in shown and "compute it in steps" in shown, shown[:500]
    assert len(shown) < 1000
