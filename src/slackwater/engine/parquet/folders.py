"""Columns that the names of folders below a source give: ``day=2026-01-01/host=a%20b/part.parquet``.

The rules are those of Spark, which decides over all files of a batch together.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from slackwater.engine.parquet.folder_values import literal_of, unescaped
from slackwater.errors import ExecutionError
from slackwater.kernels.translate.typed import text_literal
from slackwater.kernels.types import duck_type, parse
from slackwater.model.schema import Field

_log = logging.getLogger(__name__)

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"

Folders = tuple[tuple[str, str], ...]
"""Pairs of a declared column and its value as SQL of the column engine."""


@dataclass(frozen=True)
class NamedFolders:
    """The ``name=value`` folders of a directory, outermost first, and the directory above them."""

    names: tuple[str, ...]
    values: tuple[str, ...]
    above: str


def data_files(
    root: str,
    files: Sequence[str],
    fields: Sequence[Field],
    zone: str,
    *,
    recursive: bool = False,
    needed: Collection[str] | None = None,
) -> dict[str, Folders]:
    """The files of a batch that hold rows, each with the columns that its folders give.

    As in Spark, files without a byte and files with a hidden name hold none; where some files lie in ``name=value``
    folders, those outside of them do not count. ``recursive``: folders mean nothing. ``needed``: the columns whose values must be possible, by default all; those of
    others fail when they are read.
    """
    root = os.path.normpath(root)
    kept = [f for f in files if not _hidden(os.path.basename(f)) and os.path.getsize(f)]
    if recursive:
        return dict.fromkeys(kept, ())
    folders = {d: _named_folders(root, d) for d in {os.path.dirname(f) for f in kept}}
    if not any(f.names for f in folders.values()):
        return dict.fromkeys(kept, ())
    _check_alike(folders)
    columns = {f.name.lower(): f for f in fields}
    values = {
        directory: _values(directory, one, columns, zone, needed)
        for directory, one in folders.items()
        if one.names
    }
    outside = [f for f in kept if os.path.dirname(f) not in values]
    if outside:
        _log.warning(
            "'%s' and %d other files of '%s' are not read, since they lie outside of its name=value folders: so does Spark",
            outside[0], len(outside) - 1, root,
        )  # fmt: skip
    return {f: values[os.path.dirname(f)] for f in kept if os.path.dirname(f) in values}


def _hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _named_folders(root: str, directory: str) -> NamedFolders:
    """Walk from a directory up to the source: folders below the last ``name=value`` are passed over."""
    names: list[str] = []
    values: list[str] = []
    at = directory
    while at != root and len(at) > len(root):
        name, equals, value = os.path.basename(at).partition("=")
        if equals:
            if not name or not value:
                raise _bad_folder(at, "has no " + ("value" if name else "name"))
            names.append(unescaped(name))
            values.append(value)
        elif names:
            break
        at = os.path.dirname(at)
    if not names:
        return NamedFolders((), (), directory)
    if len({n.lower() for n in names}) < len(names):
        raise _bad_folder(directory, f"gives '{names[0]}' twice")
    return NamedFolders(tuple(reversed(names)), tuple(reversed(values)), at)


def _check_alike(folders: dict[str, NamedFolders]) -> None:
    """All directories must say the same columns, at the same place."""
    first, *others = sorted(folders.items())
    for directory, one in others:
        if one.above.lower() != first[1].above.lower():
            raise _mixed(first[0], directory)
    named = [(d, f) for d, f in sorted(folders.items()) if f.names]
    for directory, one in named[1:]:
        if [n.lower() for n in one.names] != [n.lower() for n in named[0][1].names]:
            raise _mixed(named[0][0], directory)


def _values(
    directory: str,
    one: NamedFolders,
    columns: dict[str, Field],
    zone: str,
    needed: Collection[str] | None,
) -> Folders:
    made = []
    for name, value in zip(one.names, one.values, strict=True):
        field = columns.get(name.lower())
        if field is None:
            continue
        sql = "NULL" if value == NULL_FOLDER else literal_of(value, parse(field.type), zone)
        if sql is None:
            why = f"folder '{directory}': {value!r} is no value of column '{field.name}', which is {field.type}"
            if needed is not None and field.name not in needed:
                made.append(
                    (field.name, f"CAST(error({text_literal(why)}) AS {duck_type(field.type)})")
                )
                continue
            raise ExecutionError(
                "BAD_FOLDER_VALUE",
                why,
                hint="rename the folder, or declare the column as a string and convert it on the stream",
                path=directory,
                column=field.name,
            )
        made.append((field.name, f"CAST({sql} AS {duck_type(field.type)})"))
    return tuple(made)


def _bad_folder(path: str, what: str) -> ExecutionError:
    return ExecutionError(
        "BAD_FOLDER",
        f"folder '{path}' {what}; folders of a source with '=' in their names give a column its value",
        hint="rename it to name=value, or use option('recursiveFileLookup', True) if folders mean nothing",
        path=path,
    )


def _mixed(one: str, other: str) -> ExecutionError:
    return ExecutionError(
        "MIXED_FOLDERS",
        f"folders '{one}' and '{other}' give values to different columns, or at different depths",
        hint="put all files below the same columns in the same order, name=value/name=value; or use "
        "option('recursiveFileLookup', True) if folders mean nothing",
        path=other,
    )
