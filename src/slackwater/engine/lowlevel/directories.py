"""The sources of a query as Spark numbers them, and which directory each of them reads.

A directory is written as a path of the local file system, or with its scheme (``hdfs://host/in``) if it is elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.engine.lowlevel.inputs import FrameInput, Input, SplitInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FILE_SOURCE = re.compile(r"FileSource\[(?P<path>.*)\]", re.DOTALL)
_PATTERN = re.compile(r"(?<!\\)(?:\\\\)*[{}\[\]*?]")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True)
class Directory:
    """Where a file source reads; ``pattern`` if the path stands for several directories."""

    path: str
    pattern: bool = False


@dataclass(frozen=True)
class SparkSource:
    """A source of a query: its number in Spark's logs, the inputs that read it, and where it reads if it reads files."""

    number: int
    inputs: tuple[int, ...]
    directory: Directory | None = None


def spark_sources(inputs: Sequence[Input]) -> tuple[SparkSource, ...]:
    """The sources of a query's inputs, by number. This walks Spark's plan of each DataFrame: a start asks once."""
    sources = []
    for number, (relation, indexes) in enumerate(_numbered(inputs)):
        item = inputs[indexes[0]]
        if isinstance(item, SplitInput):
            directory: Directory | None = Directory(local(item.path))
        else:
            directory = _directory(item.frame, relation)
        sources.append(SparkSource(number, tuple(indexes), directory))
    return tuple(sources)


def source_numbers(sources: Sequence[SparkSource], inputs: int) -> tuple[tuple[int, ...], ...]:
    """For each of so many inputs, Spark's numbers of the sources that it reads: a DataFrame may have none, or several."""
    return tuple(tuple(s.number for s in sources if i in s.inputs) for i in range(inputs))


def _numbered(inputs: Sequence[Input]) -> list[tuple[Any, list[int]]]:
    """The relations that a query reads, as Spark numbers them, each with the inputs that read it.

    Spark counts by the plan, from left to right, equal relations once.
    """
    relations: list[tuple[Any, list[int]]] = []
    for index, item in enumerate(inputs):
        for relation in [item] if isinstance(item, SplitInput) else _relations(item.frame):
            known = next((readers for r, readers in relations if _same(r, relation)), None)
            if known is None:
                relations.append((relation, [index]))
            elif index not in known:
                known.append(index)
    return relations


def directories_of(item: Input) -> list[Directory]:
    """The directories that an input reads; none if it reads no files."""
    return [s.directory for s in spark_sources([item]) if s.directory is not None]


def resolved(item: Input, path: str) -> str:
    """A path as a user wrote it, in the form in which the directories of the input are written."""
    if isinstance(item, FrameInput) and hasattr(item.frame, "_jdf"):
        return _qualified(item.frame, path)
    return local(path)


def local(path: str) -> str:
    """A path of the local file system, absolute and without a scheme."""
    text = re.sub(r"^file:(//)?(?=/)", "", str(path))
    return os.path.normpath(os.path.abspath(text))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, SplitInput) or isinstance(other, SplitInput):
        return one is other
    return bool(one.equals(other))


def _relations(frame: DataFrame) -> list[Any]:
    """The streaming leaves of a DataFrame's plan, as objects of the JVM."""
    if not hasattr(frame, "_jdf"):
        return [_Unknown()]
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    every = [leaves.apply(i) for i in range(leaves.size())]
    return [leaf for leaf in every if leaf.isStreaming()]


class _Unknown:
    """A relation of which nothing can be known, equal to itself alone."""

    def equals(self, other: object) -> bool:
        return self is other


def _directory(frame: DataFrame, relation: Any) -> Directory | None:
    """Spark names a file source after its path."""
    if not hasattr(relation, "sourceName"):
        return None
    try:
        name = str(relation.sourceName())
    except Exception:  # a relation of another kind of source has no such member
        return None
    match = _FILE_SOURCE.fullmatch(name)
    if match is None:
        return None
    path = _qualified(frame, match["path"])
    if _PATTERN.search(path):
        return Directory(path, pattern=True)
    return Directory(_ESCAPED.sub(r"\1", path))


def _qualified(frame: DataFrame, path: str) -> str:
    """A path as Spark's file source understands it."""
    spark = frame.sparkSession
    jvm: Any = spark._jvm
    made = jvm.org.apache.hadoop.fs.Path(path)
    system = made.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    text = str(system.makeQualified(made).toString())
    return re.sub(r"^file:(//)?(?=/)", "", text)
