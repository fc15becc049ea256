"""The tables of relations where tasks run: decoded once per executor, file by file, and mapped by all its workers.

What is kept is named by what it was made of: the file with its length and time, and the form in which it was read. So a version
that shares files with another shares what was decoded of them, and what is kept is never out of date. Nothing depends on what is
there: what is not kept is read from its file, and a file that is not the one of the version is an error.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

import numpy as np
import pyarrow as pa

from slackwater.engine.parquet.columns import FileColumns
from slackwater.engine.parquet.damage import blamed, parquet_sql
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.lookup import FIRST, table_key
from slackwater.engine.paths.reports import Reads, RelationReads
from slackwater.engine.paths.steps import relation
from slackwater.engine.plan.relations import TableForm
from slackwater.engine.plan.steps import FilterStep, LookupStep, ProjectStep, Step
from slackwater.engine.store.exact_paths import engine_paths
from slackwater.engine.store.kept import KeptFiles, kept_files
from slackwater.engine.store.versions import TableFile, read_version
from slackwater.errors import ExecutionError
from slackwater.kernels.column_engine import connect, scan_to_arrow
from slackwater.kernels.order import group_codes
from slackwater.kernels.types import arrow_schema
from slackwater.model.duck_sql import quote
from slackwater.model.names import sub_query
from slackwater.model.node import raw_name
from slackwater.model.schema import Expr, Field

MOST_TABLES = 16
"""Tables that a process holds on to, the latest. They are mapped files, as a rule."""

_tables: OrderedDict[tuple[str, str, str], Mapping[bool, pa.Table]] = OrderedDict()


def relation_tables(
    batch: Batch, steps: Iterable[LookupStep], reads: RelationReads, *, counted: bool = False
) -> dict[str, pa.Table]:
    """The tables that steps hold rows against, by the names that statements call them.

    ``counted``: with the column that says which row of a key is its first.
    """
    tables = {}
    for form in {s.form.digest: s.form for s in steps}.values():
        done = Reads()
        tables[form.table] = _table(batch, form, done, counted)
        reads.add(form.name, done)
    return tables


def _table(batch: Batch, form: TableForm, reads: Reads, counted: bool) -> pa.Table:
    version = batch.relations[form.name].version
    # Without the version, rows of the last one would be taken for those of this.
    place = (batch.root, form.digest, version)
    known = _tables.get(place)
    if known is None:
        reads.misses += 1
        whole = _read(batch, form, version, reads)
        # What was there of other versions is of no use any more.
        for old in [p for p in list(_tables) if p[:2] == place[:2]]:
            _tables.pop(old, None)
        known = {False: whole}
    else:
        reads.hits += 1
    if counted and True not in known:
        known = {**known, True: _with_first(known[False], form)}
    _tables[place] = known
    _tables.move_to_end(place)
    while len(_tables) > MOST_TABLES:
        _tables.popitem(last=False)
    return known[counted]


def _read(batch: Batch, form: TableForm, version: str, reads: Reads) -> pa.Table:
    files = read_version(batch.settings.storage, PurePath(batch.root), form.name, version).files
    limit = batch.relations[form.name].memory
    kept = kept_files(batch.root, f"relation-{form.digest}", limit)
    names = {f: _kept_name(f, form) for f in files}
    if kept is not None:
        wanted = set(names.values())
        kept.begin(version, lambda: lambda name, _: name in wanted)
    parts = [_file_rows(batch, form, f, names[f], version, kept, reads) for f in files]
    return pa.concat_tables([empty_table(form), *parts])


def _kept_name(file: TableFile, form: TableForm) -> str:
    told = (*file.identity, file.folders, form.digest)
    return hashlib.sha256(repr(told).encode()).hexdigest()[:24]


def _file_rows(
    batch: Batch,
    form: TableForm,
    file: TableFile,
    name: str,
    version: str,
    kept: KeptFiles | None,
    reads: Reads,
) -> pa.Table:
    data = None if kept is None else kept.find(name)
    if data is not None:
        return pa.ipc.open_file(data).read_all()
    _check(file, form.name, version)
    rows = file_rows(form, file, batch.settings.memory)
    _check(file, form.name, version)  # meanwhile it may have been replaced
    reads.files += 1
    reads.bytes += file.size
    if kept is not None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        kept.keep(name, sink.getvalue())
    return rows


def file_rows(form: TableForm, file: TableFile, memory: str) -> pa.Table:
    """The rows of a file in the form that a join needs."""
    columns = FileColumns(file.path, file.folders)
    with engine_paths([file.path]) as paths, blamed(form.fields, [columns], paths, memory):
        table = parquet_sql(paths[file.path])
        names = None
        if columns.has_like_names:
            names = list(connect(memory).sql(f"SELECT * FROM {table}").columns)
        items = ", ".join(columns.selected(form.fields, names))
        rows = relation(_steps(form), f"SELECT {items} FROM {table}")
        made = [f"{quote(k)} AS {table_key(i)}" for i, k in enumerate(form.relation.key)]
        made += [f"{quote(c)} AS {quote(raw_name(1, c))}" for c in form.columns]
        sql = f"SELECT {', '.join(made)} FROM {sub_query(rows)}"
        return scan_to_arrow(connect(memory), sql, {}).cast(_schema(form))


def _steps(form: TableForm) -> tuple[Step, ...]:
    return tuple(FilterStep(c) if isinstance(c, Expr) else ProjectStep(c) for c in form.changes)


def empty_table(form: TableForm) -> pa.Table:
    """The table of a relation without rows."""
    return _schema(form).empty_table()


def _schema(form: TableForm) -> pa.Schema:
    types = {f.name: f.type for f in form.relation.schema}
    keys = [Field(table_key(i), types[k]) for i, k in enumerate(form.relation.key)]
    return arrow_schema((*keys, *(Field(raw_name(1, c), types[c]) for c in form.columns)))


def _with_first(table: pa.Table, form: TableForm) -> pa.Table:
    """The table with `FIRST`, which is true for one row of each key."""
    first = np.ones(table.num_rows, bool)
    if table.num_rows:
        keys = [table[table_key(i)] for i in range(len(form.relation.key))]
        codes = group_codes(keys, table.num_rows).codes
        first[:] = False
        first[np.unique(codes, return_index=True)[1]] = True
    return table.append_column(FIRST, pa.array(first))


def _check(file: TableFile, relation: str, version: str) -> None:
    trouble = file.trouble
    if trouble is not None:
        raise file_changed(file, trouble, relation, version)


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


def forms_of(paths: Iterable[Sequence[LookupStep]]) -> list[TableForm]:
    """The forms of all tables that steps of paths need, each once."""
    steps = (s for lookups in paths for s in lookups)
    return list({s.form.digest: s.form for s in steps}.values())
