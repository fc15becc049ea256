"""Rows of a relation's files in the form in which joins need them: whole files, or ranges of their rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.parquet.columns import FileColumns, one_line
from slackwater.engine.parquet.damage import ROW_NUMBER, blamed, parquet_sql
from slackwater.engine.parquet.types import matches
from slackwater.engine.paths.lookup import table_key
from slackwater.engine.paths.steps import relation
from slackwater.engine.plan.relations import TableForm, stored_keys
from slackwater.engine.plan.steps import FilterStep, ProjectStep, Step
from slackwater.engine.store.exact_paths import engine_paths
from slackwater.engine.store.versions import TableFile
from slackwater.errors import ExecutionError
from slackwater.kernels.column_engine import connect, pieces, scan_to_arrow, sql_to_arrow
from slackwater.kernels.types import arrow_schema, arrow_type
from slackwater.model.duck_sql import quote
from slackwater.model.names import ROWS, ours, sub_query
from slackwater.model.node import raw_name
from slackwater.model.relation import Relation
from slackwater.model.schema import Expr, Field


def kept_name(file: TableFile, form: TableForm) -> str:
    """What the rows of a file are called where they are kept: it depends on what they are made of."""
    told = (*file.identity, file.folders, form.digest)
    return hashlib.sha256(repr(told).encode()).hexdigest()[:24]


def segment_name(file: str, first: int) -> str:
    """What the rows from ``first`` on are called, of a file that is called ``file``."""
    return f"{file}-{first}"


def file_of(segment: str) -> str:
    """What the file of a segment is called."""
    return segment.rpartition("-")[0]


def file_rows(
    form: TableForm, file: TableFile, memory: str, only: tuple[int, int] | None = None
) -> pa.Table:
    """The rows of a file in the form that a join needs; ``only`` those from one number to before another."""
    columns = FileColumns(file.path, file.folders)
    with engine_paths([file.path]) as paths, blamed(form.fields, [columns], paths, memory):
        numbered = only is not None and not any(
            s.name.lower() == ROW_NUMBER for s in columns.stored
        )
        table = parquet_sql(paths[file.path], rows=numbered)
        names = None
        if columns.has_like_names:
            names = list(connect(memory).sql(f"SELECT * FROM {table}").columns)
        items = ", ".join(columns.selected(form.fields, names))
        rows = f"SELECT {items} FROM {table}"
        if only is not None and numbered:
            rows += f" WHERE {ROW_NUMBER} >= {only[0]} AND {ROW_NUMBER} < {only[1]}"
        return scan_to_arrow(connect(memory), _made_sql(form, rows), {}).cast(_schema(form))


def whole_rows(form: TableForm, file: TableFile, memory: str) -> pa.Table:
    """The rows of a whole file; those of a copy of ours are checked against the checksums in it."""
    if file.index is None:
        return file_rows(form, file, memory)
    with pq.ParquetFile(file.path, page_checksum_verification=True) as opened:
        stored = opened.read(columns=[f.name for f in form.fields], use_threads=False)
    return group_rows(form, stored.select([f.name for f in form.fields]), memory)


def file_pieces(fields: Sequence[Field], file: TableFile, memory: str) -> Iterator[pa.Table]:
    """The columns ``fields`` of a file, some rows at a time."""
    columns = FileColumns(file.path, file.folders)
    schema = arrow_schema(fields)
    with engine_paths([file.path]) as paths, blamed(fields, [columns], paths, memory):
        table = parquet_sql(paths[file.path])
        names = None
        if columns.has_like_names:
            names = list(connect(memory).sql(f"SELECT * FROM {table}").columns)
        items = ", ".join(columns.selected(fields, names))
        for piece in pieces(connect(memory), f"SELECT {items} FROM {table}"):
            yield piece.cast(schema)


def keyed_sql(relation: Relation, rows: str, names: Sequence[str]) -> tuple[str, list[str]]:
    """A table's ``rows``, which have the columns ``names``, with the relation's keys where they are computed; and the keys' names there.

    A row that the relation leaves out has no key.
    """
    stored = stored_keys(relation)
    if None not in stored:
        return f"SELECT * FROM {rows}", [f.name for f in stored if f is not None]
    inside = ours("_inside")
    raw = [ours(f"_c{i}") for i in range(len(names))]
    own = ", ".join(f"{quote(n)} AS {r}" for n, r in zip(names, raw, strict=True))
    sql = f"SELECT *, {own}, TRUE AS {inside} FROM {rows}"
    carried = ", ".join([*raw])
    for change in relation.changes:
        if isinstance(change, Expr):
            # A condition that fails where an earlier one is false is not asked for.
            test = f"CASE WHEN {inside} THEN coalesce({change.duck}, FALSE) ELSE FALSE END"
            sql = f"SELECT * REPLACE ({test} AS {inside}) FROM {sub_query(sql)}"
            continue
        made = [f"CASE WHEN {inside} THEN {c.expr.duck} END AS {quote(c.name)}" for c in change]
        sql = f"SELECT {', '.join(made)}, {carried}, {inside} FROM {sub_query(sql)}"
    keys = [ours(f"_k{i}") for i in range(len(relation.key))]
    items = [f"{r} AS {quote(n)}" for n, r in zip(names, raw, strict=True)]
    items += [
        f"CASE WHEN {inside} THEN {quote(k)} END AS {name}"
        for k, name in zip(relation.key, keys, strict=True)
    ]
    return f"SELECT {', '.join(items)} FROM {sub_query(sql)}", keys


def stored_names(form: TableForm, file: TableFile, stored: pa.Schema) -> list[str] | None:
    """The names of the form's fields in a file that can be taken as they are ``stored``; None if one cannot."""
    columns = FileColumns(file.path, file.folders)
    given = {name.lower() for name in columns.folders}
    names = []
    for field in form.fields:
        same, kind = matches(columns.stored, field.name), arrow_type(field.type)
        if field.name.lower() in given or len(same) != 1 or pa.types.is_nested(kind):
            return None
        if stored.names.count(same[0].name) != 1 or stored.field(same[0].name).type != kind:
            return None
        if columns.old_calendar and pa.types.is_temporal(kind):
            return None
        names.append(same[0].name)
    return names


def group_rows(form: TableForm, stored: pa.Table, memory: str) -> pa.Table:
    """Rows that were taken as they are stored, in the form that a join needs."""
    if form.changes:
        sql = _made_sql(form, f"SELECT * FROM {ROWS}")
        return sql_to_arrow(connect(memory), sql, {ROWS: stored}).cast(_schema(form))
    columns = [stored[name] for name in (*form.relation.key, *form.columns)]
    return pa.table(columns, schema=_schema(form))


def _made_sql(form: TableForm, rows: str) -> str:
    rows = relation(_steps(form), rows)
    made = [f"{quote(k)} AS {table_key(i)}" for i, k in enumerate(form.relation.key)]
    made += [f"{quote(c)} AS {quote(raw_name(1, c))}" for c in form.columns]
    return f"SELECT {', '.join(made)} FROM {sub_query(rows)}"


def _steps(form: TableForm) -> tuple[Step, ...]:
    return tuple(FilterStep(c) if isinstance(c, Expr) else ProjectStep(c) for c in form.changes)


def empty_table(form: TableForm) -> pa.Table:
    """The table of a relation without rows."""
    return _schema(form).empty_table()


def _schema(form: TableForm) -> pa.Schema:
    types = {f.name: f.type for f in form.relation.schema}
    keys = [Field(table_key(i), types[k]) for i, k in enumerate(form.relation.key)]
    return arrow_schema((*keys, *(Field(raw_name(1, c), types[c]) for c in form.columns)))


def check_file(file: TableFile, relation: str, version: str) -> None:
    """Refuse a file that is not as it was when its version was made."""
    trouble = file.trouble
    if trouble is not None:
        raise file_changed(file, trouble, relation, version)


@contextmanager
def of_relation(files: Sequence[TableFile], relation: str, version: str) -> Iterator[None]:
    """Errors of one of ``files`` become those of the relation: what is said of a stream's files leads nowhere for its."""
    try:
        yield
    except ExecutionError as error:
        path = error.parameters.get("path")
        file = next((f for f in files if f.path == path), None)
        if file is None or error.condition not in _OF_FILES:
            raise
        check_file(file, relation, version)  # meanwhile it may have been replaced
        why = error.message.removeprefix(f"'{path}' cannot be read: ").replace(f" of '{path}'", "")
        raise file_damaged(file, why, relation, version) from error


_OF_FILES = ("BAD_FILE", "BAD_COLUMN_TYPE", "BAD_COLUMN_VALUE", "AMBIGUOUS_COLUMN")


def file_damaged(file: TableFile, why: object, relation: str, version: str) -> ExecutionError:
    """The error of a file that looked sound when its version was made, and cannot be decoded."""
    if file.index is not None:
        return copy_damaged(file, why, relation, version)
    return ExecutionError(
        "BAD_RELATION_FILE",
        f"file '{file.path}' of relation '{relation}' cannot be read, and the batch at hand reads version {version} of it: "
        f"{one_line(why)}",
        hint="mend or remove the file, and start once with "
        'option("relationVersions", "newest"): nothing of the batch was visible, so it may take the newest version. With store= '
        "batches read copies, and such a file is told before one takes it",
        path=file.path,
        relation=relation,
        version=version,
    )


def copy_damaged(file: TableFile, why: object, relation: str, version: str) -> ExecutionError:
    """The error of a copy of ours that is not what was written there."""
    folder = PurePath(file.path).parent
    return ExecutionError(
        "RELATION_COPY",
        f"file '{file.path}' of a copy of relation '{relation}' is damaged, and the batch at hand reads version {version} of it: {why}",
        hint=f"remove the directory '{folder}', and start once with "
        'option("relationVersions", "newest"): the relation is copied anew, as it is then',
        path=file.path,
        relation=relation,
        version=version,
    )


def file_changed(
    file: TableFile, trouble: str, relation: str, version: str, held: int = 0
) -> ExecutionError:
    """The error of a version that cannot be read any more."""
    waiting = f"; {held} rows wait for a partner" if held else ""
    return ExecutionError(
        "RELATION_CHANGED",
        f"file '{file.path}' of relation '{relation}' {trouble}, and the batch at hand reads version {version} of "
        f"it{waiting}",
        hint="put the file back as it was, and start again; or start with "
        'option("relationVersions", "newest"): nothing of the batch was visible, so it may take the newest version',
        path=file.path,
        relation=relation,
        version=version,
    )
