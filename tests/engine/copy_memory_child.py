"""Copy a table that is larger than memory, and tell by how many bytes the process grew.

Run as ``python -m tests.engine.copy_memory_child KIND FOLDER``, with KIND ``copy`` or ``whole``: the latter reads the table at once and sorts
it in memory, which shows what the measure says of that.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.engine.driver.copies import Copies, CopyUse
from slackwater.engine.store.copies import Store, read_index
from slackwater.engine.store.local import LocalStorage
from slackwater.model.relation import Relation
from slackwater.model.schema import Field
from slackwater.sources.tables import ParquetTable

FIELDS = (Field("id", "bigint"), Field("name", "string"))
MEMORY = 8 << 20
ROWS, FILES = 3_000_000, 6
WIDTH = 80
"""Of the key, a text: what is held on to of each segment's keys adds up to most of the table."""


def write(folder: Path, rows: int) -> None:
    """A table in no order: keys are spread over all files."""
    folder.mkdir(parents=True)
    each = rows // FILES
    for number in range(FILES):
        draw = np.random.default_rng(number)
        ids = draw.permutation(each) * FILES + number
        names = pa.array([f"{'x' * WIDTH}{i:07d}" for i in ids.tolist()])
        table = pa.table({"id": ids, "name": names})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=50_000)


def copied(table: Path, folder: Path) -> dict[str, int]:
    relation = Relation("d", str(table), FIELDS, ("name",), FIELDS)
    storage = LocalStorage()
    store = Store(storage, folder, 0)
    store.claim("d", "q")
    source = ParquetTable("d", str(table), FIELDS)
    copy = Copies(CopyUse(source), relation, FIELDS, MEMORY, storage, store).now(0, None)
    before, peak = None, grown()
    in_order = True
    for file in copy.files:
        with pq.ParquetFile(file.path) as opened:
            for batch in opened.iter_batches(columns=["name"]):
                names = batch["name"]
                in_order &= bool(pc.all(pc.less(names[:-1], names[1:])).as_py())
                in_order &= before is None or before < names[0].as_py()
                before = names[-1].as_py()
    index = copy.files[0].index
    assert index is not None
    largest = read_index(index).largest
    return {"rows": copy.about.rows, "largest": largest, "in_order": in_order, "peak": peak}


def whole(table: Path) -> dict[str, int]:
    rows = pq.read_table(table).sort_by("name")
    return {"rows": rows.num_rows, "peak": grown()}


def grown() -> int:
    """The most bytes that the process ever held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    pa.set_cpu_count(1)
    # What the code itself takes comes first.
    write(folder / "small", 600)
    copied(folder / "small", folder / "warm")
    whole(folder / "small")
    before = grown()
    table = folder / "table"
    found = copied(table, folder / "copies") if kind == "copy" else whole(table)
    print(json.dumps({**found, "grown": found["peak"] - before}))
    for name in ("small", "warm", "copies"):
        shutil.rmtree(folder / name, ignore_errors=True)


if __name__ == "__main__":
    main()
