"""The tables of relations where tasks run: decoded once per executor, file by file, and mapped by all its workers.

What is kept is named by what it was made of: the file with its length and time, and the form in which it was read. So a version
that shares files with another shares what was decoded of them, and what is kept is never out of date. Nothing depends on what is
there: what is not kept is read from its file, and a file that is not the one of the version is an error.

Of a relation that is read in segments the table has only the rows that the statement's own rows may meet (`segments`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.lookup import ASKING, FIRST, keys_sql, lost_sql, table_key
from slackwater.engine.paths.relation_files import (
    check_file,
    copy_damaged,
    empty_table,
    kept_name,
    of_relation,
    whole_rows,
)
from slackwater.engine.paths.reports import Reads, RelationReads
from slackwater.engine.paths.segments import (
    cold_keys,
    null_free,
    rows_of_versions,
    segment_rows,
)
from slackwater.engine.paths.steps import relation
from slackwater.engine.plan.relations import TableForm
from slackwater.engine.plan.steps import GuardStep, LookupStep, Step
from slackwater.engine.store.kept import KeptFiles, kept_files
from slackwater.engine.store.versions import TableFile, read_version
from slackwater.kernels.buckets import hash_of
from slackwater.kernels.column_engine import connect, scan_to_arrow
from slackwater.kernels.order import group_codes
from slackwater.model.names import COLD, ROWS
from slackwater.model.node import raw_name

MOST_TABLES = 16
"""Tables that a process holds on to, the latest. They are mapped files, as a rule."""

_tables: OrderedDict[tuple[str, str, str, str], Mapping[bool, pa.Table]] = OrderedDict()


def relation_tables(
    batch: Batch,
    steps: Sequence[Step],
    rows: Mapping[str, pa.Table],
    reads: RelationReads,
    *,
    base: str = f"SELECT * FROM {ROWS}",
    counted: bool = False,
    lost: bool = False,
) -> dict[str, pa.Table]:
    """The tables that the joins among ``steps`` hold the rows of ``base`` against, by the names that statements call them.

    ``base`` is a statement over ``rows``, or over files. ``counted``: with the column that says which row of a key is its first. ``lost``: rows
    without a partner are counted, where the plan says so.
    """
    lookups = [s for s in steps if isinstance(s, LookupStep)]
    parts = [s for s in lookups if batch.relations[s.form.name].segments]
    whole = [s for s in lookups if s not in parts]
    tables = _whole_tables(batch, (s for s in whole if not s.parts), reads, counted)
    tables |= {s.table: _cold_table(s.form, counted) for s in whole if s.parts}
    wanted: dict[str, list[pa.Table]] = {}
    left: tuple[LookupStep, pa.Table] | None = None
    for at, step in enumerate(steps):
        if not isinstance(step, LookupStep) or step not in parts:
            continue
        if left is not None and left[0] is steps[at - 1] and left[0].keys == step.keys:
            keys = left[1]  # those of the rows that do not wait
        else:
            # A guard may spare a row, so that the keys of all rows are asked for.
            before = tuple(s for s in steps[:at] if not isinstance(s, GuardStep))
            sql = keys_sql(step, relation(before, base))
            keys = scan_to_arrow(connect(batch.settings.memory), sql, {**rows, **tables})
        # Joins with the same table, one behind the other, see the rows of all their keys.
        asked = wanted.setdefault(step.table, [])
        asked.append(keys)
        if step.parts:
            tables[step.table], ready = _cold(batch, step.form, asked, counted)
            left = (step, ready) if step.how == "left_anti" else None
            continue
        done = Reads()
        tables[step.table] = _part(batch, step.form, asked, done, counted)
        reads.add(step.form.name, done)
    for at, step in enumerate(steps):
        if lost and isinstance(step, LookupStep) and step.counts:
            sql = lost_sql(step, relation(tuple(steps[:at]), base))
            (count,) = scan_to_arrow(connect(batch.settings.memory), sql, {**rows, **tables})[0]
            reads.add(step.form.name, Reads(unmatched=count.as_py()))
    return tables


def version_tables(
    batch: Batch, step: LookupStep, rows: Mapping[str, pa.Table], reads: RelationReads
) -> dict[str, pa.Table]:
    """The rows of a relation that rows ask for, each of the version that it is for."""
    form, done = step.form, Reads()
    at = batch.relations[form.name]
    if at.segments:
        asked = {}
        for version, table in rows.items():
            sql = keys_sql(step, f"SELECT * FROM {ROWS}")
            keys = null_free(scan_to_arrow(connect(batch.settings.memory), sql, {ROWS: table}))
            asked[version] = (keys.drop_columns([ASKING]), _counts(keys))
        made = rows_of_versions(batch, form, asked, done)
    else:
        made = {}
        for version in rows:
            of = replace(batch, relations={form.name: replace(at, version=version)})
            made[version] = _table(of, form, done, False)
    reads.add(form.name, done)
    return made


def _cold(
    batch: Batch, form: TableForm, asked: Sequence[pa.Table], counted: bool
) -> tuple[pa.Table, pa.Table]:
    """The keys of rows that must wait; and those of the last table of ``asked`` whose rows need not."""
    at = batch.relations[form.name]
    cold, ready = [], asked[-1]
    for keys in asked:
        full = null_free(keys)
        found = cold_keys(batch, form, at.version, full.drop_columns([ASKING]), at.stay)
        waits = found.first >= 0
        ready = full.filter(pa.array(~waits))
        chosen = full.filter(pa.array(waits)).drop_columns([ASKING])
        names = pa.array([found.names[i] for i in found.first[waits].tolist()], pa.string())
        cold.append(chosen.append_column(COLD, pa.array(hash_of([names]).view(np.int64))))
    schema = _cold_table(form, False).schema
    made = pa.concat_tables([t.rename_columns(schema.names).cast(schema) for t in cold])
    if len(cold) > 1:
        made = made.group_by(schema.names).aggregate([])
    return (_with_first(made, form) if counted else made), ready


def _cold_table(form: TableForm, counted: bool) -> pa.Table:
    """No keys of rows that must wait."""
    schema = empty_table(form).schema
    keys = [schema.field(table_key(i)) for i in range(len(form.relation.key))]
    made = pa.schema([*keys, pa.field(raw_name(1, COLD), pa.int64())]).empty_table()
    return _with_first(made, form) if counted else made


def _counts(keys: pa.Table) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = keys[ASKING].to_numpy().astype(np.int64)
    return counts


def _part(
    batch: Batch, form: TableForm, asked: Sequence[pa.Table], reads: Reads, counted: bool
) -> pa.Table:
    keys = null_free(pa.concat_tables(asked, promote_options="permissive"))
    rows = segment_rows(batch, form, keys.drop_columns([ASKING]), _counts(keys), reads)
    return _with_first(rows, form) if counted else rows


def _whole_tables(
    batch: Batch, steps: Iterable[LookupStep], reads: RelationReads, counted: bool
) -> dict[str, pa.Table]:
    tables = {}
    for form in {s.form.digest: s.form for s in steps}.values():
        done = Reads()
        tables[form.table] = _table(batch, form, done, counted)
        reads.add(form.name, done)
    return tables


def _table(batch: Batch, form: TableForm, reads: Reads, counted: bool) -> pa.Table:
    version = batch.relations[form.name].version
    # Without the version, rows of the last one would be taken for those of this.
    # Values of folders are read in the zone, and a checkpoint may be made anew in another one.
    place = (batch.root, batch.plan.zone, form.digest, version)
    known = _tables.get(place)
    if known is None:
        reads.misses += 1
        whole = _read(batch, form, version, reads)
        # What was there of other versions is of no use any more.
        for old in [p for p in list(_tables) if p[:3] == place[:3]]:
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
    names = {f: kept_name(f, form) for f in files}
    if kept is not None:
        wanted = set(names.values())
        kept.begin(version, lambda: lambda name, _: name in wanted)
    parts = [_file_rows(batch, form, f, names[f], version, kept, reads) for f in files]
    return pa.concat_tables([empty_table(form), *parts])


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
    check_file(file, form.name, version)
    try:
        with of_relation([file], form.name, version):
            rows = whole_rows(form, file, batch.settings.memory)
    except (pa.ArrowException, OSError) as error:
        if file.index is None or isinstance(error, pa.ArrowMemoryError):
            raise
        check_file(file, form.name, version)
        raise copy_damaged(file, error, form.name, version) from error
    check_file(file, form.name, version)  # meanwhile it may have been replaced
    reads.files += 1
    reads.bytes += file.size
    if kept is not None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        kept.keep(name, sink.getvalue())
    return rows


def _with_first(table: pa.Table, form: TableForm) -> pa.Table:
    """The table with `FIRST`, which is true for one row of each key."""
    first = np.ones(table.num_rows, bool)
    if table.num_rows:
        keys = [table[table_key(i)] for i in range(len(form.relation.key))]
        codes = group_codes(keys, table.num_rows).codes
        first[:] = False
        first[np.unique(codes, return_index=True)[1]] = True
    return table.append_column(FIRST, pa.array(first))
