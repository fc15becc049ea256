"""Which version of each relation a batch takes: looked up as the batch begins, told by its intent.

A relation is looked at as its ``refresh`` says, or because somebody asked. What was seen becomes the version of the batch if all
of it can be used: files that are whole, with the columns and types that the query reads, in no more memory than it may take. Else
the last version stays, and the progress record says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, Literal, Protocol

from slackwater.engine.clock import monotonic
from slackwater.engine.driver.copies import STOPPING, Copies, CopyUse
from slackwater.engine.driver.relation_forms import (
    HEADER_BYTES,
    SEGMENTS,
    WHOLE,
    Form,
    check_segments,
    largest_segment,
    outgrown,
    per_key,
    segment_count,
)
from slackwater.engine.driver.residents import Residents
from slackwater.engine.operators.held import held_rows
from slackwater.engine.operators.waiting import wakes, whole_ledger
from slackwater.engine.paths.batch import RelationAt
from slackwater.engine.paths.relation_files import file_changed, kept_name
from slackwater.engine.paths.reports import Reads, RelationReads, TaskReport, reports_of
from slackwater.engine.plan.plan import Operator, Plan
from slackwater.engine.plan.relations import TableForm
from slackwater.engine.plan.steps import LookupStep
from slackwater.engine.store import failpoints
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.control import requested_refreshes
from slackwater.engine.store.copies import Store
from slackwater.engine.store.manifest import Manifest, Taken
from slackwater.engine.store.versions import (
    Seen,
    TableFile,
    Version,
    listed,
    read_version,
    version_id,
    write_version,
)
from slackwater.errors import AnalysisError, SlackwaterError
from slackwater.model.node import Held, Waiting
from slackwater.model.relation import Relation
from slackwater.model.schema import Field
from slackwater.model.spans import in_words
from slackwater.semantics.segments import Epoch
from slackwater.semantics.waiting import BACKLOG, SHARE, WaitPolicy

BATCH: Literal["batch"] = "batch"
NEVER: Literal["never"] = "never"
Refresh = int | Literal["batch", "never"]
"""When a relation is looked at: as each batch begins, when so many microseconds are over, or only when somebody asks."""


MOST_VERSIONS = 16
"""Lists of versions that are held on to for each relation, the latest."""


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
    """A relation of a query: its table, when it is looked at, and how much memory it may take; None: as much as it needs.

    ``form`` says whether its rows are all in memory or read in segments; None: the first where they fit. ``epoch`` is how long rows count as
    new that ask for a segment. ``disk`` is what decoded segments may take on the disk of an executor beyond ``memory``.
    ``copy`` says how it is copied, if it is; without a ``table`` it must be. Where joins let rows wait for segments, one is read when
    ``backlog`` rows wait for it in a batch without input, or if ``always`` in any; all that wait may take ``room`` bytes, by default one
    part in `SHARE` of the memory.
    """

    table: Table | None
    refresh: Refresh = BATCH
    memory: int | None = None
    form: Form | None = None
    epoch: Epoch = field(default_factory=Epoch)
    disk: int = 0
    copy: CopyUse | None = None
    backlog: int = BACKLOG
    always: bool = False
    room: int | None = None


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
        query: str = "",
    ):
        self._query = query
        self._copies: dict[str, Copies] = {}
        self._uses = {name: uses[name] for name in relation_names(plan)}
        self._forms = forms_of(plan)
        self._held = [op for op in plan.operators if isinstance(op.node, Held)]
        self._waiting = [op for op in plan.operators if isinstance(op.node, Waiting)]
        self._checkpoint = checkpoint
        self._newest = newest
        self._versions: dict[tuple[str, str], Version] = {}
        self._form: dict[str, Form] = {}
        self._residents: dict[str, Residents] = {}
        self._settled: dict[str, tuple[str, ...]] = {}
        """The versions whose segments may stay, by relation."""
        self._moved: dict[str, int] = {}
        """How many rows waited when a batch took another version than its first try."""

    def open(self, last: Manifest | None) -> None:
        """Refuse a start on a table that cannot be used, or that takes more memory than it may."""
        known = {} if last is None else last.relations
        for name, use in self._uses.items():
            if use.copy is not None and name not in known:
                self._copied(name, use, None, 0, None)
            if use.copy is not None:
                self._form_of(name, known[name]) if name in known else None
                continue
            if name not in known:
                self._described(name, use, _look(use), None)
                continue
            self._form_of(name, known[name])
            try:
                self._check_size(name, use, self._counted(name, use, known[name].version))
            except AnalysisError:
                seen = _look(use) if use.refresh == BATCH else ()
                if not seen or version_id(seen) == known[name].version:
                    raise
                # The next batch takes what is there now.
                self._described(name, use, seen, known[name])

    def described(self, last: Manifest | None) -> list[str]:
        """The relations for ``explain``."""
        known = {} if last is None else last.relations
        lines = []
        for name, use in self._uses.items():
            columns = ", ".join(f.name for f in fields_read(self._forms, name))
            form = self._form.get(name, use.form)
            text = f"relation {name}: {described_use(use, form)}, columns in use: {columns}"
            version = self._versions.get((name, known[name].version)) if name in known else None
            if version is not None:
                text += f"; version {version.id}, {self._size(name, version)} bytes"
            if version is not None and form == SEGMENTS:
                text += f"; {per_key(self._relation(name), version)}"
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
                same[name] = replace(earlier[name], form=self._form_of(name, earlier[name]))
            elif self._newest:
                same[name] = replace(self._looked(name, base, now, due=True), replaced=True)
                self._moved[name] = self._rows_held(name, base)
            else:
                file, trouble = broken
                held = self._rows_held(name, base) + sum(_waiting_for(base, name).values())
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
                if self._uses[name].copy is not None:
                    failpoints.hit("copy.adopted")

    def at(
        self, taken: Mapping[str, Taken], base: Manifest | None, *, idle: bool = False
    ) -> dict[str, RelationAt]:
        """What tasks are told; ``idle``: the batch has no input."""
        before = {} if base is None else base.relations
        for name, one in taken.items():
            versions = (one.version, *sorted(_waiting_for(base, name)))
            if one.form == SEGMENTS and self._settled.get(name) != versions:
                self._settled[name] = versions
                files = [file for v in versions for file in self._version(name, v).files]
                self._stay(name).only(
                    {kept_name(f, form) for form in self._forms if form.name == name for f in files}
                )
        return {
            name: RelationAt(
                one.version,
                before[name].version if name in before else None,
                self._memory(name, one),
                one.form == SEGMENTS,
                self._stay(name).names if one.form == SEGMENTS else frozenset(),
                self._policy(name),
                idle,
                self._instead(name, one, base),
            )
            for name, one in taken.items()
        }

    # ---- rows that wait for segments ----
    def _policy(self, name: str) -> WaitPolicy | None:
        """When they are served; the joins with a relation have its room together."""
        use, joins = self._uses[name], [*self._waiting_on(name)]
        if use.memory is None or not joins:
            return None
        room = use.memory // SHARE if use.room is None else use.room
        return WaitPolicy(0, room // len(joins), use.backlog, use.always)

    def _waiting_on(self, name: str) -> Iterator[tuple[Operator, Waiting]]:
        for op in self._waiting:
            if isinstance(op.node, Waiting) and op.node.relation.name == name:
                yield op, op.node

    def _instead(self, name: str, one: Taken, base: Manifest | None) -> dict[str, str]:
        """The versions that rows wait for and that are gone, with the one that is taken in their place, if that may be."""
        instead = {}
        for version, rows in _waiting_for(base, name).items():
            broken = self._broken(name, version)
            if broken is None:
                continue
            if not self._newest or version == one.version:
                raise file_changed(*broken, name, version, rows)
            instead[version] = one.version
        return instead

    def after(
        self, taken: Mapping[str, Taken], ledgers: Mapping[str, Sequence[Any]]
    ) -> dict[str, Taken]:
        """What a manifest says of the relations: with the versions that rows wait for after the batch."""
        told = {}
        for name, one in taken.items():
            known = [led for op, _ in self._waiting_on(name) for led in ledgers.get(op.id, ())]
            told[name] = replace(one, waiting=whole_ledger(known)["versions"])
        return told

    def _copying(self, name: str, one: Taken) -> dict[str, Any]:
        """What the progress record says of a relation that is copied."""
        if self._uses[name].copy is None:
            return {}
        copies = self.copies_of(name)
        about = copies.about(self._version(name, one.version).files)
        millis = None if about is None else about.millis
        return {"copying": copies.is_making, "copyMs": millis}

    def _stay(self, name: str) -> Residents:
        if name not in self._residents:
            use = self._uses[name]
            assert use.memory is not None, "what is read in segments has a limit"
            self._residents[name] = Residents(use.memory + use.disk, use.epoch)
        return self._residents[name]

    def _fresh(self, name: str, one: Taken) -> frozenset[str]:
        """The segments that are at hand since the last batch."""
        return self._stay(name).fresh if one.form == SEGMENTS else frozenset()

    def wakes(
        self, taken: Mapping[str, Taken], base: Manifest | None,
        at: Mapping[str, RelationAt], now: int | None,
    ) -> bool:  # fmt: skip
        """Whether a new version may have partners for rows that wait; or rows have waited for segments long enough, or have them at hand."""
        before = {} if base is None else base.relations
        if any(
            self._rows_held(name, base)
            for name, one in taken.items()
            if name not in before or before[name].version != one.version
        ):
            return True
        ledgers = {} if base is None else base.ledgers
        return any(
            wakes(node, at[name], ledgers.get(op.id, ()), now, self._fresh(name, one))
            for name, one in taken.items()
            for op, node in self._waiting_on(name)
        )

    def record(
        self, done: Manifest, reports: Sequence[TaskReport], now: int | None
    ) -> dict[str, Any]:
        """What the progress record says of each relation."""
        reads = RelationReads()
        for report in reports:
            for name, counted in report.relations.items():
                reads.add(name, counted)
        for name, one in done.relations.items():
            if one.form == SEGMENTS:
                self._stay(name).batch(reads.get(name, Reads()), now)
        return {
            name: self._recorded(name, one, reads.get(name, Reads()), done, now)
            | {"unmatched": reads.get(name, Reads()).unmatched + self._let_go(name, reports)}
            | self._copying(name, one)
            for name, one in done.relations.items()
        }

    # ---- copies ----
    @property
    def has_copies(self) -> bool:
        """Whether any is copied."""
        return any(use.copy is not None for use in self._uses.values())

    def stop(self) -> None:
        """No copy is needed any more: those in the making are given up, and waited for, but not for long."""
        for copies in self._copies.values():
            copies.stop()
        limit = monotonic() + STOPPING
        for copies in self._copies.values():
            copies.gone(limit)

    def sweep(self) -> None:
        """Remove copies that no list of a version names."""
        storage, root = self._checkpoint.storage, self._checkpoint.root
        for name, copies in self._copies.items():
            if copies.count > 1:
                lists = [
                    read_version(storage, root, name, id).files
                    for id in listed(storage, root, name)
                ]
                copies.sweep(lists)

    def copies_of(self, name: str) -> Copies:
        """The copies of a relation that is copied."""
        if name not in self._copies:
            use, checkpoint = self._uses[name], self._checkpoint
            assert use.copy is not None, "it is copied"
            place = checkpoint.root / "copies" / name
            if use.copy.store is not None:
                place = PurePath(use.copy.store)
            store = Store(checkpoint.storage, place, checkpoint.epoch)
            store.claim(name, self._query)
            fields = fields_read(self._forms, name)
            self._copies[name] = Copies(
                use.copy, self._relation(name), fields, use.memory, checkpoint.storage, store
            )
        return self._copies[name]

    def _copied(
        self, name: str, use: RelationUse, last: Taken | None, asked: int, now: int | None,
        *, due: bool = False,
    ) -> Taken:  # fmt: skip
        """The version of a relation that is copied: the copy that is ready, or the one that is in force."""
        copies, made, lost = self.copies_of(name), None, False
        files = () if last is None else self._version(name, last.version).files
        ready = copies.ready()
        if ready is not None and last is not None and Version(name, ready.files).id == last.version:
            copies.taken()
            ready = None
        said = copies.said
        if last is not None:
            looked = (
                last if said is None or said.looked is None else replace(last, looked=said.looked)
            )
            met = max(last.asked, 0 if said is None else said.asked)
            due = due or self._is_due(name, use, replace(looked, asked=met), asked, now)
            # What is gone cannot stay in force: the batch waits for another copy.
            lost = due and self._broken(name, last.version) is not None
        lacks = last is None or not copies.suits(files)
        if ready is None and (lacks or lost):
            ready = copies.now(asked, now)
        elif ready is None and due:
            copies.ask(max(asked, met), now, files, again=asked > met)
            ready = copies.ready()
        if ready is not None:
            try:
                made = self._entered(name, use, Version(name, ready.files), last)
            except SlackwaterError as error:
                if lacks or lost:
                    raise
                copies.refused(error)
        if made is not None and ready is not None:
            # A start has no clock yet: what it copied counts from the first batch on.
            began, met = ready.about.began, copies.asked
            began = now if began is None else began
            return Taken(
                made.id, began, began, max(met, 0 if last is None else last.asked),
                changed=segment_count(made), form=self._form[name],
            )  # fmt: skip
        assert last is not None, "the first copy was made or is an error"
        stays = replace(last, replaced=False, changed=0, form=self._form_of(name, last))
        said = copies.said
        if said is None:
            return stays
        return replace(
            stays, looked=said.looked, asked=max(last.asked, said.asked), problem=said.problem
        )

    # ---- one relation ----
    def _looked(
        self, name: str, base: Manifest | None, now: int | None, *, due: bool = False
    ) -> Taken:
        use, last = self._uses[name], (base.relations if base is not None else {}).get(name)
        asked = requested_refreshes(self._checkpoint, base).get(name, 0)
        if use.copy is not None:
            return self._copied(name, use, last, asked, now, due=due)
        if last is not None and not due and not self._is_due(name, use, last, asked, now):
            return replace(last, replaced=False, changed=0, form=self._form_of(name, last))
        number = max(asked, 0 if last is None else last.asked)
        stays = None
        if last is not None:
            stays = replace(
                last, looked=now, asked=number, problem=None, replaced=False, changed=0,
                form=self._form_of(name, last),
            )  # fmt: skip
        try:
            seen = _look(use)
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
        return Taken(version.id, now, now, number, changed=changed, form=self._form[name])

    def _form_of(self, name: str, last: Taken) -> Form:
        """The form that was chosen stays, unless a start says otherwise."""
        use = self._uses[name]
        chosen = WHOLE if use.memory is None else use.form or last.form
        return self._form.setdefault(name, chosen)

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
        assert use.table is not None, "what has no table is copied"
        files = use.table.described(seen, fields, known)
        return self._entered(name, use, Version(name, tuple(files)), last)

    def _entered(
        self, name: str, use: RelationUse, version: Version, last: Taken | None
    ) -> Version:
        """A version that was seen, if it may be taken."""
        if last is not None:
            self._version(name, last.version)
        if name not in self._form:
            if last is not None:
                self._form_of(name, last)
            elif use.form is None and self._is_too_large(name, use, version):
                self._form[name] = SEGMENTS
            else:
                self._form[name] = use.form or WHOLE
        self._check_size(name, use, version)
        self._versions[name, version.id] = version
        return version

    def _is_too_large(self, name: str, use: RelationUse, version: Version) -> bool:
        return use.memory is not None and self._size(name, version) > use.memory

    def _check_size(self, name: str, use: RelationUse, version: Version) -> None:
        """Refuse a version that takes more memory than it may."""
        if use.memory is None:
            return
        if self._form[name] == WHOLE:
            size = self._size(name, version)
            if size > use.memory:
                raise outgrown(name, size, use.memory)
            return
        relation = self._relation(name)
        copied = bool(version.files) and version.files[0].index is not None
        columns = [[f.name for f in form.fields] for form in self._forms if form.name == name]
        size = max(largest_segment(version, each) for each in columns)
        asked = use.form == SEGMENTS and not self._is_too_large(name, use, version)
        check_segments(relation, size, use.memory, copied=copied, asked=asked)

    def _relation(self, name: str) -> Relation:
        return next(form.relation for form in self._forms if form.name == name)

    def _version(self, name: str, id: str) -> Version:
        known = self._versions.get((name, id))
        if known is None:
            known = read_version(self._checkpoint.storage, self._checkpoint.root, name, id)
            self._versions[name, id] = known
        for old in [k for k in list(self._versions) if k[0] == name][:-MOST_VERSIONS]:
            self._versions.pop(old)
        return known

    def _counted(self, name: str, use: RelationUse, id: str) -> Version:
        """A version of an earlier start with the sizes of all columns that this one reads."""
        version, fields = self._version(name, id), fields_read(self._forms, name)
        wanted = {f.name for f in fields}
        if all(wanted <= set(f.decoded) for f in version.files):
            return version
        known = {f.identity: f for f in version.files}
        if use.table is None or use.copy is not None:
            return version  # the next batch has a copy made
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
        version = self._version(name, id)
        for file in version.files:
            trouble = file.trouble
            if trouble is not None:
                return file, trouble
        if self._uses[name].copy is not None and not self.copies_of(name).suits(version.files):
            return version.files[0], "lacks columns that the query reads now"
        return None

    def _size(self, name: str, version: Version) -> int:
        """What a version takes in memory: the columns in use of each form that joins need."""
        columns = [f.name for form in self._forms if form.name == name for f in form.fields]
        return sum(file.decoded.get(c, 0) for file in version.files for c in columns)

    def _memory(self, name: str, one: Taken) -> int:
        version, limit = self._version(name, one.version), self._uses[name].memory
        if one.form == SEGMENTS and limit is not None:
            return limit + self._uses[name].disk
        size = self._size(name, version) if limit is None else limit
        return size + HEADER_BYTES * len(version.files)

    def _let_go(self, name: str, reports: Sequence[TaskReport]) -> int:
        """Rows that waited and left without a partner."""
        return sum(
            one.ledger["unmatched"]
            for op in (*self._held, *self._waiting)
            if isinstance(op.node, Held | Waiting) and op.node.relation.name == name
            for one in reports_of(reports, op.id)
            if one.ledger is not None
        )

    def _rows_held(self, name: str, base: Manifest | None) -> int:
        ledgers = {} if base is None else base.ledgers
        return sum(
            held_rows(ledgers.get(op.id, ()))
            for op in self._held
            if isinstance(op.node, Held) and op.node.relation.name == name
        )

    def _recorded(
        self, name: str, one: Taken, reads: Reads, done: Manifest, now: int | None
    ) -> dict[str, Any]:
        version = self._version(name, one.version)
        age = None if now is None or one.since is None else max(0, now - one.since) // 1000
        segments: dict[str, Any] = {}
        count = len(version.files)
        if one.form == SEGMENTS:
            count = segment_count(version)
            per_read = round(reads.rows / reads.files, 1) if reads.files else None
            segments = {**self._stay(name).figures, "rowsPerRead": per_read}
        return {
            "version": one.version,
            "ageMs": age,
            "form": one.form,
            "segments": count,
            **segments,
            "changedSegments": one.changed,
            "bytes": self._size(name, version),
            "hits": reads.hits,
            "misses": reads.misses,
            "reads": reads.files,
            "readBytes": reads.bytes,
            "heldRows": self._rows_held(name, done),
            "problem": one.problem,
            "replaced": one.replaced,
            **self._waits(name, done, now),
            "replacedRows": self._moved.get(name, 0) if one.replaced else 0,
        }

    def _waits(self, name: str, done: Manifest, now: int | None) -> dict[str, Any]:
        """What the progress record says of rows that wait for segments."""
        joins = [op for op, _ in self._waiting_on(name)]
        if not joins:
            return {}
        whole = whole_ledger([led for op in joins for led in done.ledgers.get(op.id, ())])
        came = whole["oldest"]
        age = None if came is None or now is None else max(0, now - came) // 1000
        return {"waitingRows": whole["rows"], "waitingAgeMs": age}


def _look(use: RelationUse) -> Sequence[Seen]:
    assert use.table is not None, "what has no table is copied"
    return use.table.look()


def described_use(use: RelationUse, form: Form | None = None) -> str:
    """Which form a relation has, and why; and when it is looked at. ``form`` is known when a query has started."""
    shown = form or use.form or "whole, or in segments"
    if use.memory is None:
        shown, why = WHOLE, "forced by the option relationForm"
    elif use.form is not None:
        why = f"forced by the option relationForm; memory={use.memory} bytes"
    elif form is None:
        why = f"the columns in use fit into memory={use.memory} bytes or do not, when the query first starts"
    else:
        fitted = "fitted" if form == WHOLE else "did not fit"
        why = f"the columns in use {fitted} into memory={use.memory} bytes when the query first started"
    if shown != WHOLE:
        room = (use.memory or 0) + use.disk
        why += f"; executors keep up to {room} bytes of it decoded"
    looked = {BATCH: "looked at in each batch", NEVER: "looked at once"}
    when = looked.get(str(use.refresh)) or f"looked at every {in_words(int(use.refresh))}"
    copied = ""
    if use.copy is not None:
        place = "below the checkpoint" if use.copy.store is None else f"in '{use.copy.store}'"
        copied = f"; copies of it lie {place}, sorted by its key"
    return f"{shown} ({why}), a step on the path of the rows; {when}{copied}"


def _waiting_for(base: Manifest | None, name: str) -> Mapping[str, int]:
    """How many rows wait for each version of a relation."""
    taken = None if base is None else base.relations.get(name)
    return {} if taken is None else taken.waiting


def relation_names(plan: Plan) -> list[str]:
    """The names of the relations that a plan reads."""
    return list(dict.fromkeys(form.name for form in forms_of(plan)))


def forms_of(plan: Plan) -> list[TableForm]:
    """What a plan reads of its relations, each form once."""
    steps = [s for path in plan.paths for s in path.lookups]
    for operator in plan.operators:
        if isinstance(operator.node, Held):
            steps += [LookupStep.of(operator.node), LookupStep.of(operator.node, "left_anti")]
        elif isinstance(operator.node, Waiting):
            steps.append(LookupStep.of(operator.node))
    return list({s.form.digest: s.form for s in steps}.values())


def fields_read(forms: Sequence[TableForm], name: str) -> tuple[Field, ...]:
    """The columns that are read of a relation, in any form."""
    fields = (f for form in forms if form.name == name for f in form.fields)
    return tuple(dict.fromkeys(fields))
