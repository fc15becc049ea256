"""``slackwater run FILE``: statements of SQL, or a Python file that describes a query or starts one itself."""

from __future__ import annotations

import contextlib
import inspect
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from slackwater.errors import SlackwaterError
from slackwater.surface.cli import sql_file
from slackwater.surface.cli.codes import FAILED, INTERRUPTED, code_of
from slackwater.surface.cli.signals import Asked, asked_to_end
from slackwater.surface.cli.spark import quiet_session
from slackwater.surface.cli.terminal import complain, say
from slackwater.surface.cli.watching import end, watch

EXPECTED = (
    "define query(spark), which returns a writer (result.writeStream...), a list of writers or a stream; "
    "or start queries at the top level of the file"
)


class NotAQuery(SlackwaterError):
    """The file does not give what ``slackwater run`` needs: bad usage, not a failed query."""


def run_file(
    path: Path,
    *,
    checkpoint: str | None,
    timeout: float | None,
    variables: dict[str, str] | None = None,
    as_json: bool = False,
) -> int:
    """Run the file's queries to their end, or for ``timeout`` seconds; the exit code."""
    variables = variables or {}
    if path.suffix == ".sql":
        with asked_to_end() as asked:
            return _run_sql(path, checkpoint, timeout, variables, asked, as_json=as_json)
    if path.suffix != ".py":
        raise NotAQuery(
            "NOT_A_QUERY_FILE",
            f"'{path}' is neither a .sql nor a .py file",
            hint="give a .sql file with statements, or a .py file; " + EXPECTED,
            path=path,
        )
    path = path.absolute()
    with noticed() as started, asked_to_end() as asked:
        try:
            with importable(path.parent):
                module = runpy.run_path(str(path), run_name=path.stem)
        except KeyboardInterrupt:
            end(started)
            return INTERRUPTED
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and not error.code:
                module = {}
            else:
                end(started)
                complain(error, file=path)
                return FAILED if started else code_of(error)
        describe = module.get("query")
        if not callable(describe):
            _check_started(path, started, checkpoint, variables)
            return 0 if watch(started, timeout, asked) else FAILED
        arguments = arguments_of(describe, variables, path)
        return _run_described(
            lambda spark: start_described(
                describe(spark, **arguments), path.stem, checkpoint, started, as_json=as_json
            ),
            path, started, timeout, asked,
        )  # fmt: skip


def _run_sql(
    path: Path,
    checkpoint: str | None,
    timeout: float | None,
    variables: dict[str, str],
    asked: Asked,
    *,
    as_json: bool = False,
) -> int:
    conf = sql_file.settings_of(path, variables)

    def begin(spark: Any) -> None:
        script = sql_file.script_of(path, spark, variables, as_json=as_json)
        for stream in script.explained:
            stream.explain()
        if script.outputs or not script.explained:
            script.start(checkpointLocation=checkpoint, name=path.stem)

    with noticed() as started:
        return _run_described(begin, path, started, timeout, asked, conf)


def _run_described(
    begin: Callable[[Any], None],
    path: Path,
    started: list[Any],
    timeout: float | None,
    asked: Asked,
    conf: dict[str, str] | None = None,
) -> int:
    log = sql_file.fresh_log(path.stem)
    done = False
    try:
        with quiet_session(path.stem, log, conf) as spark:
            try:
                begin(spark)
            except NotAQuery:
                end(started)
                raise
            except KeyboardInterrupt:
                end(started)
                return INTERRUPTED
            except Exception as error:
                end(started)
                complain(error, file=path)
                return code_of(error)
            done = watch(started, timeout, asked)
        return 0 if done else FAILED
    finally:
        if done or not log.stat().st_size:
            log.unlink(missing_ok=True)
        else:
            say(f"Spark's own log: {log}")


def _check_started(
    path: Path, started: list[Any], checkpoint: str | None, variables: dict[str, str]
) -> None:
    """A file without ``query`` must have started queries, and sets their options itself."""
    if not started:
        raise NotAQuery(
            "NO_QUERY_IN_FILE",
            f"'{path.name}' neither defines query(spark) nor starts a query",
            hint=EXPECTED,
            path=path,
        )
    for option, given in (("--checkpoint", checkpoint), ("--set", variables)):
        if given:
            end(started)
            raise NotAQuery(
                "BAD_OPTION",
                f"{option} goes with query(spark), but '{path.name}' starts its queries itself",
                hint="set it in the file, or define query(spark)",
            )


def arguments_of(describe: Any, variables: dict[str, str], path: Path) -> dict[str, str]:
    """What ``--set`` gives to ``query(spark, name=...)``."""
    parameters = inspect.signature(describe).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    odd = next((n for n in variables if n not in parameters and not open_ended), None)
    if odd is not None:
        raise NotAQuery(
            "BAD_OPTION",
            f"--set {odd}=...: query() in '{path.name}' has no parameter '{odd}'",
            hint=f"define it as query(spark, {odd})",
        )
    return variables


def start_described(
    given: Any, name: str, checkpoint: str | None, started: list[Any], *, as_json: bool = False
) -> None:
    """Start what ``query(spark)`` returned, unless it has started its queries already."""
    from slackwater.engine.driver.handle import StreamingQuery
    from slackwater.surface.start import start
    from slackwater.surface.stream import Stream
    from slackwater.surface.writer import StreamWriter

    items = list(given) if isinstance(given, (list, tuple)) else [given]
    if items and all(isinstance(i, StreamingQuery) for i in items):
        return
    writers = []
    for number, item in enumerate(items):
        if isinstance(item, Stream):
            shown = name if number == 0 else f"{name}{number + 1}"
            writers.append(sql_file.printed(item, shown, as_json=as_json, piped=False))
        elif isinstance(item, StreamWriter):
            writers.append(item)
        else:
            raise NotAQuery(
                "NOT_A_WRITER",
                f"query(spark) returned a {type(item).__name__}",
                hint="return a writer (result.writeStream...), a list of writers or a stream",
            )
    if not writers:
        if started:
            return
        raise NotAQuery("NO_OUTPUT", "query(spark) returned an empty list", hint="return a writer")
    start(writers, checkpointLocation=checkpoint)


@contextlib.contextmanager
def noticed() -> Iterator[list[Any]]:
    """Every query that is started meanwhile."""
    from slackwater.surface import start

    started: list[Any] = []
    note = started.append
    start.on_start.append(note)
    try:
        yield started
    finally:
        start.on_start.remove(note)


@contextlib.contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Modules beside the file can be imported, as when Python runs it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(folder))
