"""Cut a table into the ``column=value`` directories that ``partitionBy`` asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import ExecutionError
from slackwater.kernels.spark_text import texts

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
LONGEST = 255
"""Bytes that file systems allow for a name."""
# What Spark escapes. It takes each %XX for one character, so letters beyond ASCII must stay as they are.
_SPECIAL = re.compile("""[\x01-\x1f\x7f"#%'*/:=?\\\\{\\[\\]^]""")


def partition_tables(
    table: pa.Table, columns: Sequence[str], *, zone: str = "UTC", ansi: bool = True
) -> Iterator[tuple[str, pa.Table]]:
    """(directory, rows without the partition columns) for each combination of values.

    ``zone`` and ``ansi`` are the session's: texts of timestamps and decimals depend on them.

    >>> t = pa.table({"a": [1, 1, None], "v": [5, 6, 7]})
    >>> [(d, p["v"].to_pylist()) for d, p in partition_tables(t, ["a"])]
    [('a=1', [5, 6]), ('a=__HIVE_DEFAULT_PARTITION__', [7])]
    """
    if not columns:
        yield "", table
        return
    names = [f"_p{i}" for i in range(len(columns))]
    parts = [_directories(table[c], c, zone, ansi) for c in columns]
    keyed = pa.table(dict(zip(names, [numbers for numbers, _ in parts], strict=True)))
    for combination in keyed.group_by(names, use_threads=False).aggregate([]).to_pylist():
        mask = None
        for name in names:
            here = pc.equal(keyed[name], combination[name])
            mask = here if mask is None else pc.and_(mask, here)
        rows = table.filter(mask).drop_columns(list(columns))
        path = [made[combination[name]] for name, (_, made) in zip(names, parts, strict=True)]
        yield "/".join(path), rows


def _directories(
    column: pa.ChunkedArray, name: str, zone: str, ansi: bool
) -> tuple[pa.Array, list[str]]:
    """The number of each row's directory, and the directories: made once per value."""
    whole = column.combine_chunks()
    kind = whole.type
    # Zeros of both signs are equal, and so are all that is no number; Spark gives the zeros a directory each.
    bits = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(kind, kind)
    codes = whole.view(bits).dictionary_encode(null_encoding="encode")
    values = codes.dictionary.view(kind) if bits is not kind else codes.dictionary
    made = [_directory(name, text) for text in texts(values, zone=zone, ansi=ansi)]
    # Values that Spark writes alike, such as null and the empty text, have one directory.
    places = {directory: place for place, directory in enumerate(dict.fromkeys(made))}
    return pa.array([places[d] for d in made], pa.int32()).take(codes.indices), list(places)


def _directory(name: str, text: str | None) -> str:
    made = f"{_escaped(name)}={_escaped(text) if text else NULL_DIRECTORY}"
    if "\0" in made or len(made.encode(errors="replace")) > LONGEST:
        raise ExecutionError(
            "BAD_PARTITION_VALUE",
            f"column '{name}' has a value that cannot be the name of a directory: {text!r:.300}",
            hint=f"leave '{name}' out of partitionBy(...), or partition by a hash or a part of it",
        )
    return made


def _escaped(text: str) -> str:
    """Text as a part of a directory's name, as Spark writes and reads it.

    >>> _escaped("é/x=50 %"), _escaped("a[b]{c}")
    ('é%2Fx%3D50 %25', 'a%5Bb%5D%7Bc}')
    """
    return _SPECIAL.sub(lambda m: f"%{ord(m.group()):02X}", text)
