"""The forms of a relation: all of it in memory, or read in segments; and what does not fit into either."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import pyarrow as pa

from slackwater.engine.parquet.columns import read_metadata
from slackwater.engine.parquet.row_groups import is_ordered
from slackwater.engine.paths.segments import segment_index
from slackwater.engine.plan.relations import stored_keys
from slackwater.engine.store.copies import read_index
from slackwater.engine.store.versions import TableFile, Version
from slackwater.errors import AnalysisError, SlackwaterError
from slackwater.kernels.segments import segments_per_key
from slackwater.kernels.types import arrow_type
from slackwater.model.relation import Relation

Form = Literal["whole", "segments"]
WHOLE: Form = "whole"
SEGMENTS: Form = "segments"

HEADER_BYTES = 1 << 14
"""What a decoded file takes on disk besides its values."""

MANY = 3.0
"""A key that is in so many segments on average makes tasks read much that they do not need."""


def outgrown(name: str, size: int, memory: int) -> AnalysisError:
    """The error of a whole relation that takes more memory than it may."""
    return AnalysisError(
        "RELATION_TOO_LARGE",
        f"the columns in use of relation '{name}' take {size} bytes in memory, and memory= allows {memory}",
        hint='give more, such as memory="1g"; select fewer columns or rows of it; start with option("relationForm", '
        '"segments"), which reads what rows need; or with "whole", which takes it into memory whatever its size',
        relation=name,
        size=size,
        memory=memory,
    )


def check_segments(
    relation: Relation, largest: int, memory: int, *, copied: bool = False, asked: bool = False
) -> None:
    """Refuse a relation that cannot be read in segments; the ``largest`` takes so many bytes.

    ``copied``: they are those of a copy, whose index knows all keys. ``asked``: it would fit into memory, and an option asks for segments.
    """
    stored = stored_keys(relation)
    types = {f.name: f.type for f in relation.schema}
    if not copied and not any(f is not None and is_ordered(arrow_type(f.type)) for f in stored):
        keys = ", ".join(f"{k} {types[k]}" for k in relation.key)
        why = (
            "it is computed from the table's columns"
            if None in stored
            else "footers of files do not bound its values"
        )
        copy = "give store= a directory: the query then makes copies that are sorted by any key"
        reason, hint = (
            "does not fit into memory",
            f'{copy}; or more memory=; or use option("relationForm", "whole"), which takes it into memory whatever its size',
        )
        if asked:
            reason = 'is read in segments because of option("relationForm", "segments")'
            hint = f"leave the option out, since the relation fits into memory; or {copy}"
        raise AnalysisError(
            "RELATION_NO_SEGMENTS",
            f"relation '{relation.name}' {reason}, and which of its segments have a key cannot be told by {keys}: {why}",
            hint=hint,
            relation=relation.name,
        )
    if largest > memory:
        which, way = "a row group of its files", "write its files with smaller row groups"
        if copied:
            which = "of a copy"
            way = 'have it cut finer, option("relationSegment", ...), which is a quarter of memory= at most unless it is given'
        raise AnalysisError(
            "RELATION_TOO_LARGE",
            f"the largest segment of relation '{relation.name}', {which}, takes about {largest} bytes in memory, and "
            f"memory= allows {memory}",
            hint=f"give at least as much; select fewer columns of it; or {way}",
            relation=relation.name,
            size=largest,
            memory=memory,
        )


def largest_segment(version: Version, columns: Sequence[str]) -> int:
    """About what the largest row group of a version takes in memory, by its share of its file's rows."""
    if version.files and version.files[0].index is not None:
        return read_index(version.files[0].index).largest
    return max((_largest(f, tuple(columns)) for f in version.files), default=0)


def _largest(file: TableFile, columns: Sequence[str]) -> int:
    whole = sum(file.decoded.get(c, 0) for c in columns)
    rows = _group_rows(file)
    return -(-whole * max(rows, default=0) // max(1, sum(rows)))


def segment_count(version: Version) -> int:
    """How many row groups the files of a version have."""
    return sum(len(_group_rows(f)) for f in version.files)


def _group_rows(file: TableFile) -> tuple[int, ...]:
    """The rows of each row group; of a file that is gone, none is known."""
    try:
        return _rows_of_groups(file)
    except SlackwaterError:
        return ()


@lru_cache(maxsize=4096)
def _rows_of_groups(file: TableFile) -> tuple[int, ...]:
    footer = read_metadata(file.path)
    return tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups))


def per_key(relation: Relation, version: Version) -> str:
    """How many segments a key may be in, for ``explain``."""
    try:
        index = segment_index(relation, version.files)
    except (SlackwaterError, OSError, pa.ArrowException):
        return "its files cannot be read now"
    if index.search is not None:
        mean = index.search.per_key()
        return (
            f"a key is in {mean:.1f} of {len(index.segments)} segments on average, those of a copy"
        )
    mean = min((segments_per_key(r, index.rows) for r in index.ranges), default=0.0)
    text = f"a key may be in {mean:.1f} of {len(index.segments)} segments on average"
    if mean > MANY:
        text += (
            ": files that are sorted by the key would be read less, and store= makes a copy that is"
        )
    return text
