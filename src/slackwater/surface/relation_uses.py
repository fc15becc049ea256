"""The relations of a query as it starts: one use per name, and what the options say of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from slackwater.engine.clock import Clock, NoClock
from slackwater.engine.driver.relation_forms import SEGMENTS, WHOLE
from slackwater.engine.driver.relations import (
    BATCH,
    NEVER,
    RelationUse,
    described_use,
    fields_read,
    forms_of,
)
from slackwater.engine.plan.plan import Plan
from slackwater.errors import AnalysisError
from slackwater.model.node import Lookup, Waiting
from slackwater.model.spans import in_words
from slackwater.model.time import parse_duration
from slackwater.semantics.segments import Epoch
from slackwater.semantics.waiting import BACKLOG
from slackwater.surface.relation_source import overlap
from slackwater.surface.sizes import bytes_of

DEFAULT_DISK = "4g"
"""What decoded segments of a relation may take on the disk of an executor, beyond its memory."""


def relation_uses(plan: Plan, options: Mapping[str, Any]) -> dict[str, RelationUse]:
    """How each relation of a plan is had, by its name."""
    form = str(options.get("relationform", "auto")).lower()
    if form not in ("auto", WHOLE, SEGMENTS):
        raise AnalysisError(
            "BAD_OPTION",
            f"relationForm={form!r} is not possible",
            hint='use "auto"; "whole", which takes relations into memory whatever their size; or "segments", which reads of '
            "them what rows need",
            option="relationForm",
        )
    epoch = _epoch(options.get("relationepoch"))
    disk = _size(
        options.get("relationdisk", DEFAULT_DISK), "relationDisk", "4g",
        "executors keep what fits into memory= alone",
    )  # fmt: skip
    uses, places = _by_name(plan)
    rows, always = _backlog(options)
    given = options.get("relationwaiting")
    room = None if given is None else _size(given, "relationWaiting", "32m", "no row waits")
    copying, segment = _copying(options)
    for name, use in uses.items():
        if use.copy is not None:
            uses[name] = replace(
                use, copy=replace(use.copy, waits=copying == "wait", theta=segment)
            )
    check_stores(uses, places)
    if form == WHOLE:
        return {name: replace(use, memory=None, form=WHOLE) for name, use in uses.items()}
    forced = SEGMENTS if form == SEGMENTS else None
    return {
        name: replace(
            use, form=forced, epoch=epoch, disk=disk, backlog=rows, always=always, room=room
        )
        for name, use in uses.items()
    }


def _by_name(plan: Plan) -> tuple[dict[str, RelationUse], dict[str, str]]:
    """How the relations of a plan are had, and where they lie, by their names; two of one name are refused.

    The nodes are asked, each for itself: forms in which relations are read know neither, and are alike where columns are.
    """
    uses: dict[str, RelationUse] = {}
    places: dict[str, str] = {}
    seen: set[int] = set()
    waiting = [output.node for output in plan.outputs]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        waiting += node.children
        if not isinstance(node, Lookup):
            continue
        relation = node.relation
        use = relation.use
        assert isinstance(use, RelationUse), "the surface says how a relation's rows are had"
        if uses.setdefault(relation.name, use) != use or places.setdefault(
            relation.name, relation.path
        ) != relation.path:  # fmt: skip
            raise AnalysisError(
                "DUPLICATE_NAME",
                f"two relations are called {relation.name!r}",
                hint="give each a name= of its own, or use one sw.relation(...) for all joins",
                name=relation.name,
            )
    return uses, places


def _backlog(options: Mapping[str, Any]) -> tuple[int, bool]:
    """The options ``relationBacklog`` and ``relationBacklogIn``."""
    given = str(options.get("relationbacklog", BACKLOG)).strip()
    number = given.removesuffix("rows").strip()
    if not number.isdigit() or not int(number):
        raise AnalysisError(
            "BAD_OPTION",
            f"relationBacklog={given!r} is no number of rows",
            hint=f'use how many rows that wait for a segment are worth a read of it, such as "{BACKLOG}"',
            option="relationBacklog",
        )
    batches = str(options.get("relationbacklogin", "idle")).lower()
    if batches not in ("idle", "any"):
        raise AnalysisError(
            "BAD_OPTION",
            f"relationBacklogIn={batches!r} is not known",
            hint='use "idle": so many rows are served in a batch without input; or "any": in each batch',
            option="relationBacklogIn",
        )
    return int(number), batches == "any"


def _size(value: Any, option: str, example: str, nothing: str) -> int:
    """An option that is a size, or 0, with what that means."""
    text = str(value).strip()
    if text in ("0", "off"):
        return 0
    try:
        return bytes_of(int(text) if text.isdigit() else text, option)
    except AnalysisError as error:
        raise AnalysisError(
            "BAD_OPTION",
            f"{option}={value!r} is no size",
            hint=f'use a size, such as "{example}"; or "0", so that {nothing}',
            option=option,
        ) from error


def _copying(options: Mapping[str, Any]) -> tuple[str, int | None]:
    """The options ``relationCopies`` and ``relationSegment``."""
    copying = str(options.get("relationcopies", "beside")).lower()
    if copying not in ("beside", "wait"):
        raise AnalysisError(
            "BAD_OPTION",
            f"relationCopies={copying!r} is not known",
            hint='use "beside", which copies beside the running batches; or "wait": a batch that asks for a copy waits for it',
            option="relationCopies",
        )
    segment = options.get("relationsegment")
    if segment is None:
        return copying, None
    try:
        return copying, bytes_of(segment, "option")
    except AnalysisError as error:
        raise AnalysisError(
            "BAD_OPTION",
            f"relationSegment={segment!r} is no size",
            hint='use the least size of a segment of a copy, such as "4m"; or leave it out',
            option="relationSegment",
        ) from error


def check_stores(uses: Mapping[str, RelationUse], tables: Mapping[str, str]) -> None:
    """Refuse a store that another relation has, or that lies in the directory of one."""
    stores = {n: u.copy.store for n, u in uses.items() if u.copy is not None and u.copy.store}
    for name, store in stores.items():
        for other, path in [*stores.items(), *((n, p) for n, p in tables.items() if p)]:
            if other != name and overlap(store, path):
                raise AnalysisError(
                    "STORE_TAKEN",
                    f"the store '{store}' of relation '{name}' lies in a directory of relation '{other}', or the other way round",
                    hint="give each relation a store= of its own, outside of tables",
                    path=store,
                    relation=name,
                )


def _epoch(value: Any) -> Epoch:
    """The option ``relationEpoch``: a number of rows, or a time."""
    if value is None:
        return Epoch()
    text = str(value).strip()
    number = text.removesuffix("rows").strip()
    if number.isdigit() and int(number):
        return Epoch(int(number))
    try:
        return Epoch(int(parse_duration(text, what="relationEpoch")), by_time=True)
    except AnalysisError as error:
        raise AnalysisError(
            "BAD_OPTION",
            f"relationEpoch={value!r} is no span of rows or time",
            hint='use a number of rows, such as "100000 rows", or a time, such as "1 minute"',
            option="relationEpoch",
        ) from error


def check_beside(plan: Plan, output: str) -> None:
    """Refuse an output that would be written into the directory of a relation, whose next version would have its rows."""
    for form in forms_of(plan):
        use, path = form.relation.use, os.path.realpath(output)
        store = use.copy.store if isinstance(use, RelationUse) and use.copy is not None else None
        if store is not None and overlap(store, output):
            raise AnalysisError(
                "SINK_IS_RELATION",
                f"the query would write to '{output}', and the store of relation '{form.name}' is '{store}': they lie in each other",
                hint="give the output and the store directories of their own",
                path=output,
                relation=form.name,
            )
        if not form.relation.path:
            continue
        table = os.path.realpath(form.relation.path)
        if path == table or path.startswith(table + os.sep):
            raise AnalysisError(
                "SINK_IS_RELATION",
                f"the query would write to '{output}', which is in the directory of relation '{form.name}', so that it would "
                "join its own output",
                hint="give the output a directory of its own",
                path=output,
                relation=form.name,
            )


def check_apart(plan: Plan, inputs: Iterable[str]) -> None:
    """Refuse a store in a directory that the query reads, or above it."""
    for form in forms_of(plan):
        use = form.relation.use
        store = use.copy.store if isinstance(use, RelationUse) and use.copy is not None else None
        for path in inputs if store is not None else ():
            if overlap(str(store), path):
                raise AnalysisError(
                    "STORE_TAKEN",
                    f"the store '{store}' of relation '{form.name}' and '{path}', which the query reads, lie in each other",
                    hint="give the copies a directory of their own",
                    path=path,
                    relation=form.name,
                )


def newest_versions(options: Mapping[str, Any]) -> bool:
    """The option ``relationVersions``: whether a batch that is repeated may take a newer version, where its own is gone."""
    text = str(options.get("relationversions", "same")).lower()
    if text not in ("same", "newest"):
        raise AnalysisError(
            "BAD_OPTION",
            f"relationVersions={text!r} is not known",
            hint='use "newest" for one start, where the files of a version are gone; or leave it out',
            option="relationVersions",
        )
    return text == "newest"


def check_clock(plan: Plan, uses: Mapping[str, RelationUse], clock: Clock) -> None:
    """Refuse an interval where nothing tells the time."""
    if not isinstance(clock, NoClock):
        return
    for operator in plan.operators:
        if isinstance(operator.node, Waiting):
            name = operator.node.relation.name
            raise AnalysisError(
                "NO_CLOCK",
                f"rows are to wait for relation '{name}' for {in_words(operator.node.deadline)}, but a query over replays alone "
                "has no clock",
                hint="leave deadline= out; or give the query a clock",
                relation=name,
            )
    for name, use in uses.items():
        if use.epoch.by_time:
            raise AnalysisError(
                "NO_CLOCK",
                "relationEpoch is a time, but a query over replays alone has no clock",
                hint='give a number of rows, such as "100000 rows"; or give the query a clock',
                relation=name,
            )
        if use.refresh not in (BATCH, NEVER):
            raise AnalysisError(
                "NO_CLOCK",
                f"relation '{name}' is to be looked at in intervals, but a query over replays alone has no clock",
                hint='use refresh="batch" or refresh="never"; or give the query a clock',
                relation=name,
            )


def relation_lines(plan: Plan) -> list[str]:
    """The relations of a query that has not been started, for ``explain``."""
    forms = forms_of(plan)
    lines = []
    for name in dict.fromkeys(form.name for form in forms):
        use = next(f.relation.use for f in forms if f.name == name)
        columns = ", ".join(f.name for f in fields_read(forms, name))
        how = described_use(use) if isinstance(use, RelationUse) else "whole"
        lines.append(f"relation {name}: {how}, columns in use: {columns}")
    return lines
