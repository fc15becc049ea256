"""Which version of each relation a batch takes: looked up as the batch begins, told by its intent.

A relation is looked at as its ``refresh`` says, or because somebody asked. What was seen becomes the version of the batch if all
of it can be used: files that are whole, with the columns and types that the query reads, in no more memory than it may take. Else
the last version stays, and the progress record says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from slackwater.engine.operators.held import held_rows
from slackwater.engine.paths.batch import RelationAt
from slackwater.engine.paths.relation_tables import file_changed
from slackwater.engine.paths.reports import Reads, RelationReads, TaskReport
from slackwater.engine.plan.plan import Plan
from slackwater.engine.plan.relations import TableForm
from slackwater.engine.plan.steps import LookupStep
from slackwater.engine.store import failpoints
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.control import requested_refreshes
from slackwater.engine.store.manifest import Manifest, Taken
from slackwater.engine.store.versions import (
    Seen,
    TableFile,
    Version,
    read_version,
    version_id,
    write_version,
)
from slackwater.errors import AnalysisError, SlackwaterError
from slackwater.model.node import Held
from slackwater.model.schema import Field
from slackwater.model.spans import in_words

BATCH: Literal["batch"] = "batch"
NEVER: Literal["never"] = "never"
HEADER_BYTES = 1 << 14
"""What a decoded file takes on disk besides its values."""

Refresh = int | Literal["batch", "never"]
"""When a relation is looked at: as each batch begins, when so many microseconds are over, or only when somebody asks."""


class Table(Protocol):
    """Where the rows of a relation come from; the surface hands it in."""

    def look(self) -> Sequence[Seen]:
        """The files that are there now."""
        ...

    def described(
        self, files: Sequence[Seen], fields: Sequence[Field], known: Mapping[Seen, TableFile]
    ) -> list[TableFile]:
        """The files as a version lists them, with what the columns ``fields`` take in memory; those that are ``known`` are not
        read once more. A file that cannot be used is an error.
        """
        ...


@dataclass(frozen=True)
class RelationUse:
    """A relation of a query: its table, when it is looked at, and how much memory it may take; None: as much as it needs."""

    table: Table
    refresh: Refresh = BATCH
    memory: int | None = None


class Relations:
    """The relations of a running query, by name.

    ``newest``: a batch that is repeated may take another version than its first try, if that one is gone.
    """

    def __init__(
        self,
        plan: Plan,
        uses: Mapping[str, RelationUse],
        checkpoint: Checkpoint,
        *,
        newest: bool = False,
    ):
        self._uses = {name: uses[name] for name in relation_names(plan)}
        self._forms = forms_of(plan)
        self._held = [op for op in plan.operators if isinstance(op.node, Held)]
        self._checkpoint = checkpoint
        self._newest = newest
        self._versions: dict[tuple[str, str], Version] = {}

    def open(self, last: Manifest | None) -> None:
        """Refuse a start on a table that cannot be used, or that takes more memory than it may."""
        known = {} if last is None else last.relations
        for name, use in self._uses.items():
            if name not in known:
                self._described(name, use, use.table.look(), None)
                continue
            size = self._size(name, self._counted(name, use, known[name].version))
            if use.memory is None or size <= use.memory:
                continue
            seen = use.table.look() if use.refresh == BATCH else ()
            if not seen or version_id(seen) == known[name].version:
                raise outgrown(name, size, use.memory)
            self._described(name, use, seen, known[name])  # the next batch takes what is there now

    def described(self, last: Manifest | None) -> list[str]:
        """The relations for ``explain``."""
        known = {} if last is None else last.relations
        lines = []
        for name, use in self._uses.items():
            columns = ", ".join(f.name for f in fields_read(self._forms, name))
            text = f"relation {name}: {described_use(use)}, columns in use: {columns}"
            version = self._versions.get((name, known[name].version)) if name in known else None
            if version is not None:
                text += f"; version {version.id}, {self._size(name, version)} bytes"
            lines.append(text)
        return lines

    def taken(self, base: Manifest | None, now: int | None) -> dict[str, Taken]:
        """The version of each relation for a batch that starts from ``base``. Nothing is written."""
        return {name: self._looked(name, base, now) for name in self._uses}

    def repeated(
        self, earlier: Mapping[str, Taken], base: Manifest | None, now: int | None
    ) -> dict[str, Taken]:
        """The versions of a batch that is tried again: those of its first try, if they can still be read."""
        same = {}
        for name in self._uses:
            if name not in earlier:
                same[name] = self._looked(name, base, now)  # of an output that was added meanwhile
                continue
            broken = self._broken(name, earlier[name].version)
            if broken is None:
                same[name] = earlier[name]
            elif self._newest:
                same[name] = replace(self._looked(name, base, now, due=True), replaced=True)
            else:
                file, trouble = broken
                held = self._rows_held(name, base)
                raise file_changed(file, trouble, name, earlier[name].version, held)
        return same

    def write(self, taken: Mapping[str, Taken]) -> None:
        """Put the lists of versions on disk, before an intent names them."""
        storage, root = self._checkpoint.storage, self._checkpoint.root
        for name, one in taken.items():
            version = self._versions.get((name, one.version))
            if version is not None:
                write_version(storage, root, version)
                failpoints.hit("relation.listed")

    def at(self, taken: Mapping[str, Taken], base: Manifest | None) -> dict[str, RelationAt]:
        """What tasks are told."""
        before = {} if base is None else base.relations
        return {
            name: RelationAt(
                one.version,
                before[name].version if name in before else None,
                self._memory(name, one.version),
            )
            for name, one in taken.items()
        }

    def wakes(self, taken: Mapping[str, Taken], base: Manifest | None) -> bool:
        """Whether a new version may have partners for rows that wait."""
        before = {} if base is None else base.relations
        return any(
            self._rows_held(name, base)
            for name, one in taken.items()
            if name not in before or before[name].version != one.version
        )

    def record(self, done: Manifest, reports: Sequence[TaskReport]) -> dict[str, Any]:
        """What the progress record says of each relation."""
        reads = RelationReads()
        for report in reports:
            for name, one in report.relations.items():
                reads.add(name, one)
        return {
            name: self._recorded(name, one, reads.get(name, Reads()), done)
            for name, one in done.relations.items()
        }

    # ---- one relation ----
    def _looked(
        self, name: str, base: Manifest | None, now: int | None, *, due: bool = False
    ) -> Taken:
        use, last = self._uses[name], (base.relations if base is not None else {}).get(name)
        asked = requested_refreshes(self._checkpoint, base).get(name, 0)
        if last is not None and not due and not self._is_due(name, use, last, asked, now):
            return replace(last, replaced=False, changed=0)
        number = max(asked, 0 if last is None else last.asked)
        stays = None
        if last is not None:
            stays = replace(last, looked=now, asked=number, problem=None, replaced=False, changed=0)
        try:
            seen = use.table.look()
            if stays is not None and version_id(seen) == stays.version:
                return stays
            version = self._described(name, use, seen, last)
        except SlackwaterError as error:
            if stays is None:
                raise
            return replace(stays, problem=str(error))
        changed = len(version.files)
        if last is not None:
            old = {f.identity for f in self._version(name, last.version).files}
            changed = sum(f.identity not in old for f in version.files)
        return Taken(version.id, now, now, number, changed=changed)

    def _is_due(
        self, name: str, use: RelationUse, last: Taken, asked: int, now: int | None
    ) -> bool:
        if asked > last.asked or use.refresh == BATCH:
            return True
        if self._newest and self._broken(name, last.version) is not None:
            return True
        if use.refresh == NEVER:
            return False
        if now is None or last.looked is None:
            return False
        return now - last.looked >= int(use.refresh)

    def _described(
        self, name: str, use: RelationUse, seen: Sequence[Seen], last: Taken | None
    ) -> Version:
        if last is not None:
            self._version(name, last.version)  # from now on it is among those that are known
        versions = [v for (of, _), v in self._versions.items() if of == name]
        known = {f.identity: f for v in versions for f in v.files}
        fields = fields_read(self._forms, name)
        if not seen:
            raise AnalysisError(
                "EMPTY_RELATION",
                f"relation '{name}' has no files",
                hint="write its files before those of the last version go; or switch a symbolic link",
                relation=name,
            )
        version = Version(name, tuple(use.table.described(seen, fields, known)))
        size = self._size(name, version)
        if use.memory is not None and size > use.memory:
            raise outgrown(name, size, use.memory)
        self._versions[name, version.id] = version
        return version

    def _version(self, name: str, id: str) -> Version:
        known = self._versions.get((name, id))
        if known is None:
            known = read_version(self._checkpoint.storage, self._checkpoint.root, name, id)
            self._versions[name, id] = known
        for old in [k for k in list(self._versions) if k[0] == name][:-2]:
            self._versions.pop(old)
        return known

    def _counted(self, name: str, use: RelationUse, id: str) -> Version:
        """A version of an earlier start with the sizes of all columns that this one reads."""
        version, fields = self._version(name, id), fields_read(self._forms, name)
        wanted = {f.name for f in fields}
        if all(wanted <= set(f.decoded) for f in version.files):
            return version
        known = {f.identity: f for f in version.files}
        try:
            files = use.table.described(list(known), fields, known)
        except SlackwaterError:
            if self._broken(name, id) is None:
                raise
            return version  # what became of its files is for the next look to say, or for a batch that reads them
        self._versions[name, id] = counted = Version(name, tuple(files))
        return counted

    def _broken(self, name: str, id: str) -> tuple[TableFile, str] | None:
        """The first file of a version that is not as it was, and what has become of it."""
        for file in self._version(name, id).files:
            trouble = file.trouble
            if trouble is not None:
                return file, trouble
        return None

    def _size(self, name: str, version: Version) -> int:
        """What a version takes in memory: the columns in use of each form that joins need."""
        columns = [f.name for form in self._forms if form.name == name for f in form.fields]
        return sum(file.decoded.get(c, 0) for file in version.files for c in columns)

    def _memory(self, name: str, id: str) -> int:
        version, limit = self._version(name, id), self._uses[name].memory
        size = self._size(name, version) if limit is None else limit
        return size + HEADER_BYTES * len(version.files)

    def _rows_held(self, name: str, base: Manifest | None) -> int:
        ledgers = {} if base is None else base.ledgers
        return sum(
            held_rows(ledgers.get(op.id, ()))
            for op in self._held
            if isinstance(op.node, Held) and op.node.relation.name == name
        )

    def _recorded(self, name: str, one: Taken, reads: Reads, done: Manifest) -> dict[str, Any]:
        version = self._version(name, one.version)
        age = None if one.looked is None or one.since is None else (one.looked - one.since) // 1000
        return {
            "version": one.version,
            "ageMs": age,
            "form": "whole",
            "segments": len(version.files),
            "changedSegments": one.changed,
            "bytes": self._size(name, version),
            "hits": reads.hits,
            "misses": reads.misses,
            "reads": reads.files,
            "readBytes": reads.bytes,
            "heldRows": self._rows_held(name, done),
            "problem": one.problem,
            "replaced": one.replaced,
        }


def described_use(use: RelationUse) -> str:
    """Which form a relation has, and why; and when it is looked at."""
    if use.memory is None:
        why = "forced by the option relationForm"
    else:
        why = f"the columns in use must fit into memory={use.memory} bytes"
    looked = {BATCH: "looked at in each batch", NEVER: "looked at once"}
    when = looked.get(str(use.refresh)) or f"looked at every {in_words(int(use.refresh))}"
    return f"whole ({why}), a step on the path of the rows; {when}"


def relation_names(plan: Plan) -> list[str]:
    """The names of the relations that a plan reads."""
    return list(dict.fromkeys(form.name for form in forms_of(plan)))


def forms_of(plan: Plan) -> list[TableForm]:
    """What a plan reads of its relations, each form once."""
    steps = [s for path in plan.paths for s in path.lookups]
    for operator in plan.operators:
        if isinstance(operator.node, Held):
            steps += [LookupStep.of(operator.node), LookupStep.of(operator.node, "left_anti")]
    return list({s.form.digest: s.form for s in steps}.values())


def fields_read(forms: Sequence[TableForm], name: str) -> tuple[Field, ...]:
    """The columns that are read of a relation, in any form."""
    fields = (f for form in forms if form.name == name for f in form.fields)
    return tuple(dict.fromkeys(fields))


def outgrown(name: str, size: int, memory: int) -> AnalysisError:
    """The error of a version that takes more memory than it may."""
    return AnalysisError(
        "RELATION_TOO_LARGE",
        f"the columns in use of relation '{name}' take {size} bytes in memory, and memory= allows {memory}",
        hint='give more, such as memory="1g"; select fewer columns or rows of it; or take it whole whatever its size, with '
        'option("relationForm", "whole")',
        relation=name,
        size=size,
        memory=memory,
    )
