"""What goes to the terminal, and what is kept away from it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from slackwater.errors import SlackwaterError


def say(text: str) -> None:
    """A line for the person at the terminal; results go to standard output, this does not."""
    Console(stderr=True).print(Text(text), soft_wrap=True)


def complain(error: BaseException, *, file: Path | None = None) -> None:
    """Print an error: ours as message and hint, others with the lines of ``file`` that led to it."""
    console = Console(stderr=True)
    if isinstance(error, SlackwaterError):
        first, *rest = str(error).splitlines()
        console.print(Text(first, style="red"), soft_wrap=True)
        for line in rest:
            console.print(Text(line), soft_wrap=True)
        return
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if file is not None and f.filename == str(file)]
    if own:
        console.print(Text("".join(traceback.format_list(own)).rstrip()), soft_wrap=True)
    text = str(error).partition("\n\tat ")[0].partition("\nJVM stacktrace:")[0].strip()
    console.print(Text(f"{type(error).__name__}: {text}", style="red"), soft_wrap=True)


@contextlib.contextmanager
def plain_interrupt() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt and does nothing else.

    PySpark's handler would cancel the running batch too, so that the query fails before it can be stopped.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    saved = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, saved)


@contextlib.contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Processes started meanwhile write their standard error to a file, for as long as they live.

    Meant for the JVM: Spark greets with a page of warnings, and shows each failure as a page of frames.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(log, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
        os.close(log)
