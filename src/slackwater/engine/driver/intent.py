"""What a batch is about to do: the first step of the batch loop.

All that a batch depends on besides the manifest it starts from is looked up here, once: its input, the clock, which
streams end, what the user asked for. A batch that is tried again takes what its first try decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from slackwater.engine.driver.feedback import taken_in
from slackwater.engine.lowlevel.inputs import SplitInput, source_files
from slackwater.engine.operators.ledgers import owes
from slackwater.engine.paths.batch import Batch
from slackwater.engine.plan.operators.registry import ROW_OPERATORS
from slackwater.engine.progress.step import new_progress
from slackwater.engine.store import log_digest
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.control import requested_flushes
from slackwater.engine.store.evidence import lost_manifest
from slackwater.engine.store.exact_paths import check_names
from slackwater.engine.store.log_checks import (
    check_base,
    check_repeated,
    digest_of,
    inputs_of,
    offsets_sum,
)
from slackwater.engine.store.manifest import Intent, Manifest
from slackwater.engine.store.spark_log import present
from slackwater.errors import CheckpointError

if TYPE_CHECKING:
    from slackwater.engine.driver.host import Host
    from slackwater.engine.driver.loop import Query
    from slackwater.engine.driver.relations import Relations


def intended(
    query: Query,
    checkpoint: Checkpoint,
    relations: Relations,
    batch_id: int,
    base: Manifest | None,
    bounds: Mapping[str, Mapping[str, int]],
    *,
    final: bool,
) -> tuple[Intent, bool, dict[int, list[str]]]:
    """The intent of a batch on ``base``, whether it has raw rows, and the new files of each split input.

    ``bounds`` are those in force. ``final``: every stream ends with this batch. Nothing is written.
    """
    location = checkpoint.location
    host = query.host
    now_offsets, before = host.offsets(location, batch_id), host.offsets(location, batch_id - 1)
    check_base(location, batch_id, before, base)
    files: dict[int, list[str]] = {}
    row_inputs = []
    for index, (_, reading) in enumerate(zip(query.inputs, query.plan.readings, strict=True)):
        if not reading.by_columns:
            row_inputs.append(index)
            continue
        (number,) = query.sources_of(index)
        files[index] = host.new_files(location, number, batch_id)
    rows = _checked_row_files(query, checkpoint, batch_id, row_inputs)
    is_new = bool(row_inputs) and (
        now_offsets is None
        or before is None
        or any(now_offsets[n] != before[n] for i in row_inputs for n in query.sources_of(i))
    )
    has_rows = is_new or _keeps_rows(query)
    known = log_digest.from_json(base.logs if base is not None else {})
    logs = log_digest.logs_at(location, now_offsets or [], known)
    flushes = requested_flushes(checkpoint, base)
    quiet = {i for i in range(len(query.inputs))
             if not files.get(i) and not (i in row_inputs and is_new)}  # fmt: skip
    ordinal = 0 if base is None else base.ordinal + 1
    scripted = query.clock.ended(ordinal)
    ended = {
        s.name
        for s in query.plan.sources
        if final or s.name in scripted
        or (s.end_of_stream and s.input in quiet and base is not None)
    }  # fmt: skip
    now = query.clock.now(ordinal)
    intent = Intent(
        batch_id,
        checkpoint.epoch,
        -1 if base is None else base.batch,
        ordinal,
        now,
        query.groups,
        final,
        flushes,
        tuple(sorted(ended)),
        digest_of(now_offsets),
        {str(i): [present(f) for f in names] for i, names in {**files, **rows}.items()},
        _backlog(query, files),
        inputs_of(now_offsets),
        offsets_sum(location, batch_id),
        log_digest.to_json(logs),
        taken_in(checkpoint, query.plan, query.feedback, batch_id, base, bounds, now).to_json(),
    )
    earlier = manifests.read_intent(checkpoint, batch_id)
    if earlier is None:
        intent = replace(intent, relations=relations.taken(base, now))
    else:
        intent = _repeat(checkpoint, earlier, intent)
        taken = relations.repeated(earlier.relations, base, intent.now)
        intent = replace(intent, relations=taken)
    if base is not None and base.final and (is_new or any(files.values())):
        raise CheckpointError(
            "STREAM_HAS_ENDED",
            "this query ran to the end of its streams, but there is new input",
            hint="start a new checkpointLocation for the new input",
            location=location,
        )
    return intent, has_rows, files


def _checked_row_files(
    query: Query, checkpoint: Checkpoint, batch: int, row_inputs: Sequence[int]
) -> dict[int, list[str]]:
    """Refuse files that Spark would not read as they are, before a row of the batch counts.

    Gives the local files of each input. Spark passes over one that is gone, and says nothing.
    """
    by_input: dict[int, list[str]] = {}
    for index in row_inputs:
        item = query.inputs[index]
        for number in query.sources_of(index):
            files = query.host.row_files(checkpoint.location, number, batch)
            check_names(files)
            if files and isinstance(item, SplitInput):
                source_files(item, files, query.plan.zone)
            local = [f for f in files if f.startswith("/")]
            if local:
                by_input.setdefault(index, []).extend(local)
    return by_input


def check_done(host: Host, checkpoint: Checkpoint, done: Manifest) -> None:
    """Refuse a batch that is committed when Spark runs it again with other input: that would be taken for done."""
    check_repeated(checkpoint.location, done, host.offsets(checkpoint.location, done.batch))


def has_news(
    query: Query,
    checkpoint: Checkpoint,
    relations: Relations,
    intent: Intent,
    base: Manifest | None,
    batch: Batch,
) -> bool:
    """Whether there is anything but time to take in: new input, a request, a version with partners for rows that wait."""
    location = checkpoint.location
    if intent.batch in manifests.intended(checkpoint):
        return True  # it was worth it once, and an intent that Spark commits must have a manifest
    now, before = (query.host.offsets(location, b) for b in (intent.batch, intent.batch - 1))
    if now is None or before is None or now[:-1] != before[:-1]:
        return not (base is not None and base.final)
    if base is not None and base.final:
        return False
    if intent.final or batch.flush or owes(query.plan, batch.ledgers):
        return True
    return relations.wakes(intent.relations, base, batch.relations, intent.now)


def time_tells(query: Query, base: Manifest | None, batch: Batch) -> bool:
    """Whether a batch without news can change anything: bounds follow the clock, or Spark itself keeps rows."""
    if base is not None and base.final:
        return False
    if _keeps_rows(query):
        return True
    after = new_progress(batch, []).bounds
    changed = {name for name, bounds in after.items() if bounds != batch.bounds.get(name)}
    # The promise of a pace follows the clock. Whether it tells anything is for those to say that hold rows or results.
    return any(type(batch.plan.node(name)) not in ROW_OPERATORS for name in changed)


def _keeps_rows(query: Query) -> bool:
    """Whether Spark keeps rows of a DataFrame from batch to batch, as its ``dropDuplicates`` does.

    Such a DataFrame is run in every batch. Without new input it may give out rows that its watermark has completed, and
    the state that the next batch builds on is written by running it.
    """
    read = zip(query.inputs, query.plan.readings, strict=True)
    return any(not reading.by_columns and not item.narrows for item, reading in read)


def _backlog(query: Query, files: dict[int, list[str]]) -> tuple[str, ...]:
    """Streams of which more input probably waits: the batch took as many files as it may."""
    behind = []
    for source in query.plan.sources:
        item = query.inputs[source.input]
        options = {k.lower(): v for k, v in getattr(item, "options", {}).items()}
        limit = options.get("maxfilespertrigger")
        if source.replay:
            continue  # its clock is scripted batch by batch, whatever waits
        if limit is not None and len(files.get(source.input, [])) >= int(limit):
            behind.append(source.name)
    return tuple(behind)


def _repeat(checkpoint: Checkpoint, earlier: Intent, fresh: Intent) -> Intent:
    """The earlier try's decisions, if the input is still the same."""
    if earlier.base > fresh.base:
        evidence = f"'intents/{fresh.batch:012d}.json' says that its batch began from it"
        raise lost_manifest(checkpoint, earlier.base, evidence)
    if earlier.offsets != fresh.offsets or earlier.base != fresh.base:
        raise CheckpointError(
            "REPLAY_MISMATCH",
            f"batch {fresh.batch} was tried before with other offsets ('offsets/{fresh.batch}') "
            "or on another state",
            hint="Spark's part of the checkpoint was changed: restore it from a backup",
            location=checkpoint.location,
        )
    for index, names in earlier.files.items():
        now = {f[0]: f for f in fresh.files.get(index, [])}
        for name in names:
            if now.get(name[0]) != name:
                raise CheckpointError(
                    "INPUT_CHANGED",
                    f"file '{name[0]}' changed while its batch was not yet committed",
                    hint="files of a source must not change once they are there; put it back",
                    path=name[0],
                )
    return Intent(
        fresh.batch, fresh.epoch, earlier.base, earlier.ordinal, earlier.now, fresh.groups,
        earlier.final, earlier.flushes, earlier.ended, earlier.offsets, earlier.files,
        earlier.backlog, fresh.inputs, fresh.offsets_file, fresh.logs, earlier.feedback,
    )  # fmt: skip
