"""A query and the checkpoint it is started on: what that knows of the query, and whether it is the same one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.engine.driver.moving import OpenedSource, open_directories
from slackwater.engine.driver.old_meaning import (
    MEANING,
    check_equals,
    check_meaning,
    check_numbers,
    check_origins,
    check_partitions,
)
from slackwater.engine.driver.results import RESULTS, results_of
from slackwater.engine.lowlevel.directories import SparkSource
from slackwater.engine.plan.known import Known, names_of
from slackwater.engine.plan.known_relations import new_columns
from slackwater.engine.plan.plan import Plan
from slackwater.engine.plan.sharing import Record, records
from slackwater.engine.plan.window_plans import holds_state
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.manifest import Manifest
from slackwater.errors import AnalysisError, CheckpointError
from slackwater.model.meaning import ANSI, ZONE, Meaning
from slackwater.model.render import describe


def stored_plans(checkpoint: Checkpoint) -> dict[str, str]:
    """The window plans of the query that a checkpoint belongs to; none if it is new."""
    return dict(_stored(checkpoint).get("plans", {}))


def stored_stores(checkpoint: Checkpoint) -> dict[str, Record]:
    """The stores that operators of the checkpoint's query share."""
    stores = _stored(checkpoint).get("stores", {})
    return {name: Record.from_json(store) for name, store in stores.items()}


def stored_query(checkpoint: Checkpoint) -> Known:
    """What a new plan must know of the query that a checkpoint belongs to."""
    return Known.from_json(_stored(checkpoint))


def _stored(checkpoint: Checkpoint) -> dict[str, Any]:
    """The query's description; empty if the checkpoint is new."""
    if not checkpoint.storage.exists(checkpoint.description_file):
        return {}
    return checkpoint.open_query({})


def open_query(
    checkpoint: Checkpoint,
    plan: Plan,
    last: Manifest | None,
    numbers: Sequence[Sequence[int]] = (),
    *,
    clock: bool = True,
) -> str:
    """Compare the query with the one the checkpoint belongs to; its id.

    ``numbers`` are Spark's numbers of the sources of each input; ``clock`` says whether the query has a clock.
    """
    trees = describe([(o.name, o.node) for o in plan.outputs])
    # A twin comes and goes with the output that has a slack of its own.
    sources = {s.given_name: s.input for s in plan.sources}
    meaning = plan.meaning or Meaning.of({ANSI: str(plan.ansi), ZONE: plan.zone})
    settings = meaning.to_json()
    plans = {op.id: op.spec.plan for op in plan.operators if op.spec is not None}
    stores = records(plan)
    names = names_of(plan)
    fresh = {
        "outputs": trees, "names": names, "sources": [*map(list, sources.items())], "settings": settings,
        "plans": plans, "stores": stores, "meaning": MEANING, RESULTS: results_of(plan, clock),
    }  # fmt: skip
    stored = checkpoint.open_query(fresh)
    version = stored.get("meaning", 0)
    check_meaning(plan, version, checkpoint.location)
    check_numbers(version, numbers, checkpoint.location)
    check_origins(plan, version, stored["outputs"], trees, checkpoint.location)
    check_equals(version, last, stored.get("stores", {}), checkpoint.location)
    check_partitions(plan, version, last, checkpoint.location)
    problems: list[str] = []
    about: dict[str, str] = {}
    for name, tree in trees.items():
        before = stored["outputs"].get(name)
        if before is not None and before != tree:
            diff = list(
                difflib.unified_diff(before, tree, "checkpoint", "this query", lineterm="", n=2)
            )
            problems.append("\n".join(diff))
            new = next((line for line in diff[2:] if line.startswith("+")), "+")
            about = about or {"output": name, "line": new[1:].strip()}
        # An older version kept no names; what it could not tell apart was refused above.
        elif before is not None and version >= 2:
            told = stored["names"].get(name, {})
            if told != names.get(name, {}):
                problems.append(_otherwise(name, told, names.get(name, {})))
    known = Known.from_json(stored).sources or sources
    if not _same_inputs(known, sources):
        problems.append(f"streams: checkpoint {known}, this query {sources}")
    # A setting that an older version did not store counts from now on.
    for name, before, now in Meaning.from_json(stored["settings"]).differences(meaning):
        problems.append(f"session: {name} was {before!r} on the checkpoint, and is {now!r} now")
    # Without state there is nothing that the plan could misread.
    changed = [
        op for op, p in plans.items() if stored["plans"].get(op, p) != p and holds_state(op, last)
    ]
    if changed:
        problems.append(f"windowPlan: checkpoint {stored['plans']}, this query {plans}")
    if problems:
        ways = ""
        lines = [line.strip() for tree in stored["outputs"].values() for line in tree]
        for relation, (gained, kept) in new_columns(plan.unshared.nodes, lines).items():
            these, those = (", ".join(f'"{c}"' for c in columns) for columns in (gained, kept))
            problems.append(f"relation '{relation}' has columns that it had not: {these}")
            ways += f"to join relation '{relation}' as before, take the columns it had, sw.relation(...).select({those}); "
        raise CheckpointError(
            "QUERY_CHANGED",
            f"checkpoint '{checkpoint.location}' belongs to another query:\n" + "\n".join(problems),
            hint=f"{ways}may change on one checkpoint: policy parameters, late, sink options, trigger, "
            "partitionGroups, outputs added or removed; for anything else use a new checkpointLocation. Settings of the session are "
            "set back with spark.conf.set(...). A function "
            "shown as name@version that still means the same may be given the checkpoint's version=",
            location=checkpoint.location,
            **about,
        )
    plans = {**stored["plans"], **plans}
    settings = {**stored["settings"], **settings}
    fresh = {
        **stored, "outputs": trees, "names": names, "plans": plans, "stores": stores, "settings": settings,
        "sources": [*map(list, {**known, **sources}.items())], "meaning": MEANING, RESULTS: results_of(plan, clock),
    }  # fmt: skip
    if fresh != stored:
        checkpoint.update_query(fresh)
    return str(stored["id"])


def _same_inputs(known: Mapping[str, int], sources: Mapping[str, int]) -> bool:
    """Whether a query reads the inputs that a checkpoint knows, all of them, each under its number.

    Streams over one of them come and go with their outputs. That it is the same input is told by a stream that was there before.
    """
    met = {number for name, number in sources.items() if known.get(name) == number}
    moved = any(known.get(name, number) != number for name, number in sources.items())
    return not moved and met == set(sources.values()) == set(known.values())


def _otherwise(
    output: str, before: Mapping[str, Sequence[str]], now: Mapping[str, Sequence[str]]
) -> str:
    """That an output reads operators that two outputs share now and did not share before, or the other way round."""
    bases = [b for b in {**before, **now} if list(before.get(b, ())) != list(now.get(b, ()))]
    shown = "; ".join(
        f"{b} was {', '.join(before.get(b, ())) or b}, and is {', '.join(now.get(b, ())) or b} now"
        for b in bases
    )
    return (
        f"output {output!r} reads other operators than before ({shown}): outputs that shared one stream object "
        "share it again, and those that had each its own have so again"
    )


def open_sources(checkpoint: Checkpoint, plan: Plan, sources: Sequence[SparkSource]) -> None:
    """Compare the directories that the query reads with those that the checkpoint has read; take what moved."""
    opened = []
    for source in sources:
        directory = source.directory
        if directory is None:
            continue
        streams = [s for s in plan.sources if s.input in source.inputs]
        names = ", ".join(sorted({repr(s.given_name) for s in streams}))
        before = sorted({s.moved_from for s in streams if s.moved_from is not None})
        if len(before) > 1:
            raise AnalysisError(
                "BAD_OPTION",
                f"streams {names} read one input, '{directory.path}', but movedFrom says "
                + " and ".join(f"'{b}'" for b in before),
                hint="give the same movedFrom to each, or to one of them",
                path=directory.path,
            )
        opened.append(
            OpenedSource(
                source.number, source.inputs, names, directory.path,
                before[0] if before else None, directory.pattern,
            )
        )  # fmt: skip
    open_directories(checkpoint, opened)
