"""Tables beside the streams: directories of Parquet files, looked at again and again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePath

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.parquet.columns import FileColumns
from slackwater.engine.parquet.folders import Folders, data_files
from slackwater.engine.parquet.types import matches
from slackwater.engine.paths.relation_files import file_pieces
from slackwater.engine.store.versions import Seen, TableFile, version_id
from slackwater.errors import AnalysisError, ExecutionError, SlackwaterError
from slackwater.kernels.types import arrow_schema, arrow_type
from slackwater.model.schema import Field
from slackwater.sources.feeding import fed

_ROWS = 8_192

COPYING = "128MB"
"""What reading a file may take while it is copied."""


@dataclass(frozen=True)
class ParquetTable:
    """The Parquet files below ``path``; folders ``name=value`` give columns, as in Spark.

    ``fields`` are all its columns. The path may be a symbolic link, which is followed at each look.
    """

    name: str
    path: str
    fields: tuple[Field, ...]
    zone: str = "UTC"

    def look(self) -> list[Seen]:
        """The files that are there now and hold rows: those in ``name=value`` folders, or if there are none, those of the
        directory itself. As in Spark, links are followed, and hidden and empty files left out.
        """
        root = os.path.realpath(self.path)
        seen = []
        for folder, folders, files in os.walk(root, onerror=self._listed, followlinks=True):
            folders[:] = [f for f in folders if not _hidden(f) and not _leads_up(folder, f)]
            for name in files:
                if _hidden(name):
                    continue
                path = os.path.join(folder, name)
                try:
                    status = os.stat(path)
                except FileNotFoundError:
                    continue  # it went while we looked: the next look sees what came in its place
                except OSError as error:
                    raise self._unusable(path, f"it cannot be read: {error.strerror}") from error
                if status.st_size:
                    seen.append((path, status.st_size, status.st_mtime_ns))
        below = [s for s in seen if "=" in os.path.dirname(s[0])[len(root) :]]
        return sorted(below or [s for s in seen if os.path.dirname(s[0]) == root])

    def _listed(self, error: OSError) -> None:
        """A folder that is gone has no files; one that cannot be listed may have some."""
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            path = str(error.filename)
            raise self._unusable(path, f"it cannot be listed: {error.strerror}") from error

    def described(
        self,
        files: Sequence[Seen],
        fields: Sequence[Field],
        known: Mapping[Seen, TableFile],
        *,
        sizes: bool = True,
    ) -> list[TableFile]:
        """The files as a version lists them; one that cannot be used is an error that names it.

        ``sizes``: with what the columns take in memory.
        """
        names = {f.name for f in fields}
        folders = self._folders([path for path, _, _ in files], names)
        listed = []
        for seen in files:
            if seen[0] not in folders:
                continue
            file = known.get(seen) or TableFile(*seen)
            if file.folders != folders[seen[0]] or not names <= set(file.decoded):
                file = replace(file, folders=folders[seen[0]])
                decoded = self._decoded(file, fields, sizes)
                file = replace(file, decoded={**file.decoded, **decoded})
            if file.trouble is not None:
                raise self._gone(file.path)
            listed.append(file)
        return listed

    def _folders(self, paths: Sequence[str], needed: set[str]) -> dict[str, Folders]:
        root = os.path.realpath(self.path)
        try:
            return data_files(root, paths, self.fields, self.zone, needed=needed)
        except FileNotFoundError as error:
            raise self._gone(str(error.filename)) from error
        except ExecutionError as error:
            raise ExecutionError(
                error.condition,
                f"relation '{self.name}': {error.message}",
                hint="name folders as those that were there when the relation was made, name=value with values of the column's "
                "type; one whose name starts with '.' is passed over",
                relation=self.name,
                **error.parameters,
            ) from error

    # ---- as what is copied ----
    def identity(self) -> str | None:
        """What tells the files that are there now from others."""
        return version_id(self.look())

    @contextmanager
    def rows(
        self, fields: Sequence[Field], scratch: PurePath, memory: int
    ) -> Iterator[pa.RecordBatchReader]:
        """The rows of the files that are there now; none of them may change meanwhile."""
        seen = self.look()
        if not seen:
            raise AnalysisError(
                "EMPTY_RELATION",
                f"relation '{self.name}' has no files",
                hint="write its files before those of the last version go; or switch a symbolic link",
                relation=self.name,
            )
        files = self.described(seen, fields, {}, sizes=False)
        with fed(arrow_schema(fields), self._pieces(files, fields)) as reader:
            yield reader

    def _pieces(self, files: Sequence[TableFile], fields: Sequence[Field]) -> Iterator[pa.Table]:
        for file in files:
            try:
                yield from file_pieces(fields, file, COPYING)
            except ExecutionError as error:
                if file.trouble is None:
                    raise self._unusable(file.path, error.message) from error
            if file.trouble is not None:
                raise self._gone(file.path)

    def _decoded(self, file: TableFile, fields: Sequence[Field], sizes: bool) -> dict[str, int]:
        """What each column takes in memory. Of values that differ in length, that is known when they have been read."""
        try:
            columns = FileColumns(file.path, file.folders)
            for field in fields:
                self._check(columns, file, field)
            return _sizes(file, columns, fields) if sizes else {}
        except (pa.ArrowException, OSError) as error:
            raise self._unusable(file.path, f"it cannot be read: {error}") from error
        except SlackwaterError as error:
            if error.condition in ("BAD_FILE", "BAD_COLUMN_TYPE", "AMBIGUOUS_COLUMN"):
                raise self._unusable(file.path, error.message) from error
            raise

    def _check(self, columns: FileColumns, file: TableFile, field: Field) -> None:
        given = {name.lower() for name, _ in file.folders}
        if field.name.lower() not in given and not matches(columns.stored, field.name):
            raise self._unusable(
                file.path, f"it has no column '{field.name}', which the query reads"
            )
        columns.column(field)

    def _unusable(self, path: str, why: str) -> ExecutionError:
        return ExecutionError(
            "BAD_RELATION_FILE",
            f"relation '{self.name}': '{path}' cannot be used: {why}",
            hint="the last version that was whole stays in use. Put a file of the table's columns and types in its place; "
            "one that is still being written needs a name that starts with '_' or '.' until it is complete",
            path=path,
            relation=self.name,
        )

    def _gone(self, path: str) -> AnalysisError:
        return AnalysisError(
            "RELATION_IN_CHANGE",
            f"relation '{self.name}': '{path}' went or changed while its table was looked at",
            hint="a directory that is rewritten in place has no moment at which it is whole; switch a symbolic link instead",
            path=path,
            relation=self.name,
        )


def _sizes(file: TableFile, columns: FileColumns, fields: Sequence[Field]) -> dict[str, int]:
    footer = pq.read_metadata(file.path)
    given = {name.lower() for name, _ in file.folders}
    sizes, varying = {}, {}
    for field in fields:
        width = _width(field)
        if width is not None:
            sizes[field.name] = (footer.num_rows * width + 7) // 8
        elif field.name.lower() in given:
            sizes[field.name] = footer.num_rows * 16  # a value of the folder's name in each row
        else:
            varying[field.name] = matches(columns.stored, field.name)[0].name
    if varying:
        with pq.ParquetFile(file.path) as opened:
            sizes |= dict.fromkeys(varying, 0)
            for batch in opened.iter_batches(_ROWS, columns=list(varying.values())):
                for name, stored in varying.items():
                    sizes[name] += batch.column(stored).nbytes
    return sizes


def _width(field: Field) -> int | None:
    """The bits of a value and of the mark that it is not null; None if values differ in length."""
    kind = arrow_type(field.type)
    if pa.types.is_nested(kind):
        return None
    try:
        return int(kind.bit_width) + 1
    except ValueError:
        return None


def _leads_up(folder: str, name: str) -> bool:
    """Whether a link leads to a folder that it lies in: what is there has been seen."""
    path = os.path.join(folder, name)
    if not os.path.islink(path):
        return False
    real, here = os.path.realpath(path), os.path.realpath(folder)
    return here == real or here.startswith(real + os.sep)


def _hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
