"""``slackwater explain FILE``: the plan of a file's queries, of which none is started."""

from __future__ import annotations

import contextlib
import runpy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slackwater.surface.check import report
from slackwater.surface.cli import sql_file
from slackwater.surface.cli.run_file import (
    EXPECTED,
    NotAQuery,
    arguments_of,
    importable,
    start_described,
)
from slackwater.surface.cli.spark import quiet_session
from slackwater.surface.unstarted import Unstarted


def explained(path: Path, variables: dict[str, str]) -> str:
    """The plans of all queries of a file."""
    if path.suffix not in (".py", ".sql"):
        raise NotAQuery(
            "NOT_A_QUERY_FILE",
            f"'{path}' is neither a .sql nor a .py file",
            hint=EXPECTED,
            path=path,
        )
    conf = sql_file.settings_of(path, variables) if path.suffix == ".sql" else None
    log = sql_file.fresh_log(path.stem)
    try:
        if path.suffix == ".sql":
            with quiet_session(path.stem, log, conf) as spark:
                return sql_file.script_of(path, spark, variables).explain()
        return _python(path.absolute(), variables, log)
    finally:
        log.unlink(missing_ok=True)


def _python(path: Path, variables: dict[str, str], log: Path) -> str:
    with _explaining() as plans:
        with importable(path.parent):
            module = runpy.run_path(str(path), run_name=path.stem)
        describe = module.get("query")
        if callable(describe):
            with quiet_session(path.stem, log) as spark:
                made = describe(spark, **arguments_of(describe, variables, path))
                start_described(made, path.stem, None, [])
    if not plans:
        raise NotAQuery(
            "NO_QUERY_IN_FILE",
            f"'{path.name}' neither defines query(spark) nor starts a query",
            hint=EXPECTED,
        )
    return "\n\n".join(plans)


@contextlib.contextmanager
def _explaining() -> Iterator[list[str]]:
    """Queries are explained in place of being started."""
    from slackwater.surface import start
    from slackwater.surface.explain import explain_streams

    plans: list[str] = []

    def explain(writers: Sequence[Any], options: Mapping[str, Any]) -> Unstarted:
        name = writers[0]._name or f"query {len(plans) + 1}"
        streams = {w._name or f"output{i + 1}": w._stream for i, w in enumerate(writers)}
        plans.append(explain_streams(streams))
        return Unstarted(name, report([w._stream._node for w in writers]))

    start.instead.append(explain)
    try:
        yield plans
    finally:
        start.instead.remove(explain)
