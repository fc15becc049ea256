"""Join with a table that is larger than memory, and tell by how many bytes the process grew.

Run as ``python -m tests.engine.relation_memory_child KIND FOLDER``, with KIND ``segments`` or ``whole``: the latter reads the table at once, by the column
engine, where tasks ask for segments, which shows what the measure says of that.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.paths import relation_tables
from slackwater.engine.paths.relation_files import file_rows
from slackwater.engine.store.versions import read_version
from tests.engine.copy_memory_child import grown
from tests.engine.test_relation_segments import Large

MEMORY = 8_000_000
ROWS, GROUP, WIDTH = 200_000, 1000, 2_000


class Heavy(Large):
    """A table of 400 MB that takes little room on disk."""

    def fill(self, rows: int) -> None:
        texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * WIDTH])
        table = pa.table({"id": pa.array(range(rows)), "name": texts})
        pq.write_table(table, self.table / "a.parquet", row_group_size=GROUP, store_schema=False)


def whole_rows(batch: Any, form: Any, *_: Any) -> pa.Table:
    """All rows of the version, whoever asks."""
    version = batch.relations[form.name].version
    listed = read_version(batch.settings.storage, Path(batch.root), form.name, version)
    return pa.concat_tables(file_rows(form, file, "4GB") for file in listed.files)


def joined(folder: Path, rows: int) -> dict[str, Any]:
    """A table of so many rows, asked for some keys in ten batches, and in the last for one of each segment."""
    folder.mkdir()
    query = Heavy(folder, memory=MEMORY, form="segments")
    query.fill(rows)
    query.start()
    for at in range(0, rows // 1000, 20):
        keys = [at * 1000, at * 1000 + 9_500, 1_000_000]
        found = dict(query.batch(*keys))
        assert {k: n is not None for k, n in found.items()} == {k: k < rows for k in keys}
    everywhere = range(0, rows, GROUP)
    assert len(query.batch(*everywhere)) == len(everywhere)
    record = query.record
    query.run.stop()
    return {n: record[n] for n in ("form", "misses", "bytes")}


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    pa.set_cpu_count(1)
    # What the code itself takes comes first.
    joined(folder / "small", 10 * GROUP)
    before = grown()
    if kind == "whole":
        relation_tables.segment_rows = whole_rows
    made = joined(folder / "large", ROWS)
    print(json.dumps({**made, "grown": grown() - before}))


if __name__ == "__main__":
    main()
