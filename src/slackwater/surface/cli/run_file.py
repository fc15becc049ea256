"""``slackwater run FILE``: a Python file that describes a query, or starts one itself."""

from __future__ import annotations

import contextlib
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from slackwater.engine.clock import monotonic
from slackwater.errors import SlackwaterError
from slackwater.surface.cli.spark import quiet_session
from slackwater.surface.cli.terminal import complain, plain_interrupt, say

EXPECTED = (
    "define query(spark), which returns a writer (result.writeStream...), a list of writers or a stream; "
    "or start queries at the top level of the file"
)


class NotAQuery(SlackwaterError):
    """The file does not give what ``slackwater run`` needs: bad usage, not a failed query."""


def run_file(path: Path, *, checkpoint: str | None, timeout: float | None) -> bool:
    """Run the file's queries to their end, or for ``timeout`` seconds; False if one failed."""
    if path.suffix != ".py":
        raise NotAQuery(
            "NOT_A_PYTHON_FILE",
            f"'{path}' is not a Python file",
            hint="give a .py file; " + EXPECTED,
            path=path,
        )
    path = path.absolute()
    with noticed() as started:
        try:
            with _importable(path.parent):
                module = runpy.run_path(str(path), run_name=path.stem)
        except KeyboardInterrupt:
            return _stop(started)
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and not error.code:
                module = {}
            else:
                _stop(started)
                complain(error, file=path)
                return False
        describe = module.get("query")
        if not callable(describe):
            if not started:
                raise NotAQuery(
                    "NO_QUERY_IN_FILE",
                    f"'{path.name}' neither defines query(spark) nor starts a query",
                    hint=EXPECTED,
                    path=path,
                )
            if checkpoint is not None:
                _stop(started)
                raise NotAQuery(
                    "BAD_OPTION",
                    f"--checkpoint goes with query(spark), but '{path.name}' starts its queries itself",
                    hint="set checkpointLocation in the file, or define query(spark)",
                )
            with plain_interrupt():
                return _wait(started, timeout)
        return _run_described(describe, path, started, checkpoint, timeout)


def _run_described(
    describe: Callable[[Any], Any],
    path: Path,
    started: list[Any],
    checkpoint: str | None,
    timeout: float | None,
) -> bool:
    log = Path(tempfile.gettempdir()) / f"slackwater-{path.stem}.log"
    with quiet_session(path.stem, log) as spark, plain_interrupt():
        try:
            start_described(describe(spark), path.stem, checkpoint, started)
        except NotAQuery:
            _stop(started)
            raise
        except KeyboardInterrupt:
            return _stop(started)
        except Exception as error:
            _stop(started)
            complain(error, file=path)
            return False
        done = _wait(started, timeout)
    if not done and log.exists():
        say(f"Spark's own log: {log}")
    return done


def start_described(given: Any, name: str, checkpoint: str | None, started: list[Any]) -> None:
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
            writers.append(item.writeStream.format("console").queryName(shown))
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
def _importable(folder: Path) -> Iterator[None]:
    """Modules beside the file can be imported, as when Python runs it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(folder))


def _wait(started: list[Any], timeout: float | None) -> bool:
    """Wait for all; the first error stops the others."""
    until = None if timeout is None else monotonic() + timeout
    for q in started:
        outputs = ", ".join(s["name"] for s in _sinks(q))
        say(f"running {q.name or q.id} (outputs: {outputs}); stop it with Ctrl-C")
    try:
        while any(q.isActive for q in started) and (until is None or monotonic() < until):
            for q in started:
                q.awaitTermination(0.1)
        for q in started:
            if not q.isActive:
                q.awaitTermination()
    except KeyboardInterrupt:
        say("stopped")
    except Exception as error:
        _stop(started)
        complain(error)
        return False
    return _stop(started)


def _stop(started: list[Any]) -> bool:
    for q in started:
        if q.isActive:
            q.stop()
        record = q.lastProgress
        if record is not None and q.exception() is None:
            say(_sum(q.name or q.id, record))
    return True


def _sum(name: str, record: dict[str, Any]) -> str:
    rows = sum(s["totalRows"] for s in record["streams"].values())
    late = sum(n for s in record["streams"].values() for n in s["totalLate"].values())
    return f"{name}: {rows:,} rows in, {late:,} late, last batch {record['batchId']}"


def _sinks(query: Any) -> list[dict[str, Any]]:
    return [s.describe() for s in query._loop.query.sinks.values()]
