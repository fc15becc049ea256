"""``slackwater check FILE``: the verdict on the queries of a file, of which none is started."""

from __future__ import annotations

import contextlib
import json
import runpy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slackwater.errors import CheckpointError, SlackwaterError
from slackwater.surface.against import check_against
from slackwater.surface.check import CheckReport, ends, report
from slackwater.surface.cli import sql_file
from slackwater.surface.cli.codes import FAILED, code_of
from slackwater.surface.cli.run_file import (
    EXPECTED,
    NotAQuery,
    arguments_of,
    importable,
    start_described,
)
from slackwater.surface.cli.spark import quiet_session
from slackwater.surface.cli.terminal import complain, plain_interrupt, say
from slackwater.surface.unstarted import Unstarted


@dataclass
class Checked:
    """The reports of a file's queries, by their names; ``failed`` if the file itself went wrong before it had any."""

    reports: list[tuple[str, CheckReport]] = field(default_factory=list)
    failed: BaseException | None = None
    columns: dict[str, list[str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether all may start."""
        return self.failed is None and all(r.ok for _, r in self.reports)

    @property
    def code(self) -> int:
        """The exit code."""
        if self.failed is not None:
            # A restart that would be refused is what was asked about.
            refused = (
                isinstance(self.failed, CheckpointError)
                and self.failed.condition != "NO_CHECKPOINT"
            )
            return FAILED if refused else code_of(self.failed)
        return 0 if self.ok else FAILED


def check_file(
    path: Path, *, against: str | None = None, variables: dict[str, str] | None = None
) -> Checked:
    """Run the file as far as it describes queries, and check those; each start gives a query that does nothing."""
    variables = variables or {}
    if path.suffix not in (".py", ".sql"):
        raise NotAQuery(
            "NOT_A_QUERY_FILE",
            f"'{path}' is neither a .sql nor a .py file",
            hint="give a .sql file with statements, or a .py file; " + EXPECTED,
            path=path,
        )
    checked = Checked()
    with _checking(checked, against):
        try:
            if path.suffix == ".sql":
                _describe_sql(path, variables, checked)
            else:
                _describe(path.absolute(), variables)
        except NotAQuery:
            raise
        except (Exception, SystemExit) as error:
            # What follows a start may miss its results: then the file has said enough.
            if not (isinstance(error, SystemExit) and not error.code):
                complain(error, file=path)
                ours = isinstance(error, SlackwaterError)
                checked.failed = error if ours or not checked.reports else None
                if checked.failed is None:
                    say("the file went on after its query and failed there; the verdict stands")
    if not checked.reports and checked.failed is None:
        raise NotAQuery(
            "NO_QUERY_IN_FILE",
            f"'{path.name}' neither defines query(spark) nor starts a query",
            hint=EXPECTED,
            path=path,
        )
    return checked


def _describe(path: Path, variables: dict[str, str]) -> None:
    with importable(path.parent):
        module = runpy.run_path(str(path), run_name=path.stem)
    describe = module.get("query")
    if callable(describe):
        with _session(path) as spark:
            made = describe(spark, **arguments_of(describe, variables, path))
            start_described(made, path.stem, None, [])


def _describe_sql(path: Path, variables: dict[str, str], checked: Checked) -> None:
    with _session(path, sql_file.settings_of(path, variables)) as spark:
        script = sql_file.script_of(path, spark, variables)
        script.start()
        name, _ = checked.reports[-1]
        checked.reports[-1] = (name, script.check())
        checked.columns = {
            n: [f"{f.name} {f.type}" for f in w._stream._node.schema]
            for n, w in script.outputs.items()
        }


@contextlib.contextmanager
def _session(path: Path, conf: dict[str, str] | None = None) -> Iterator[Any]:
    log = sql_file.fresh_log(path.stem)
    try:
        with quiet_session(path.stem, log, conf) as spark, plain_interrupt():
            yield spark
    finally:
        log.unlink(missing_ok=True)


@contextlib.contextmanager
def _checking(checked: Checked, against: str | None) -> Iterator[None]:
    """Queries are checked in place of being started."""
    from slackwater.surface import start

    def check(writers: Sequence[Any], options: Mapping[str, Any]) -> Unstarted:
        name = writers[0]._name or f"query {len(checked.reports) + 1}"
        made = report([w._stream._node for w in writers], ended=ends(options))
        checked.reports.append((name, made))
        if against is not None:
            check_against(writers, against, options)
        return Unstarted(name, made)

    start.instead.append(check)
    try:
        yield
    finally:
        start.instead.remove(check)


def as_text(checked: Checked, *, requirements: bool) -> str:
    """The reports for people."""
    tables = [f"{name}({', '.join(columns)})" for name, columns in checked.columns.items()]
    reports = [f"{name}\n{r.text(requirements=requirements)}" for name, r in checked.reports]
    return "\n\n".join([*(["\n".join(tables)] if tables else []), *reports])


def as_json(path: Path, checked: Checked) -> str:
    """The reports for programs."""
    queries = [{"name": name, **r.to_json()} for name, r in checked.reports]
    return json.dumps({"file": str(path), "ok": checked.ok, "queries": queries}, indent=2)
