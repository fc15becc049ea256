"""Cut a table into the ``column=value`` directories that ``partitionBy`` asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
# What Spark escapes. It takes each %XX for one character, so letters beyond ASCII must stay as they are.
_SPECIAL = re.compile("""[\x01-\x1f\x7f"#%'*/:=?\\\\{}\\[\\]^]""")


def partition_tables(table: pa.Table, columns: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """(directory, rows without the partition columns) for each combination of values.

    >>> t = pa.table({"a": [1, 1, None], "v": [5, 6, 7]})
    >>> [(d, p["v"].to_pylist()) for d, p in partition_tables(t, ["a"])]
    [('a=1', [5, 6]), ('a=__HIVE_DEFAULT_PARTITION__', [7])]
    """
    if not columns:
        yield "", table
        return
    codes = [table[c].combine_chunks().dictionary_encode(null_encoding="encode") for c in columns]
    names = [f"_p{i}" for i in range(len(columns))]
    keyed = pa.table(dict(zip(names, [c.indices for c in codes], strict=True)))
    for combination in keyed.group_by(names, use_threads=False).aggregate([]).to_pylist():
        mask = None
        parts = []
        for name, column, code in zip(names, columns, codes, strict=True):
            here = pa.compute.equal(keyed[name], combination[name])
            mask = here if mask is None else pa.compute.and_(mask, here)
            parts.append(f"{_escaped(column)}={_text(code.dictionary[combination[name]].as_py())}")
        yield "/".join(parts), table.filter(mask).drop_columns(list(columns))


def _text(value: object) -> str:
    if value is None or value == "":
        return NULL_DIRECTORY
    if isinstance(value, bool):
        return str(value).lower()
    return _escaped(str(value))


def _escaped(text: str) -> str:
    """Text as a part of a directory's name, as Spark writes and reads it.

    >>> _escaped("é/x=50 %"), _escaped("a[b]{c}")
    ('é%2Fx%3D50 %25', 'a%5Bb%5D%7Bc%7D')
    """
    return _SPECIAL.sub(lambda m: f"%{ord(m.group()):02X}", text)
