"""Ctrl-C and SIGTERM: the first lets the batch at hand end, the second ends the process at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

from slackwater.surface.cli.codes import INTERRUPTED


class Asked:
    """Whether someone asked the process to end; ``running`` while a query can end in its own time."""

    def __init__(self) -> None:
        self.times = 0
        self.running = False

    def __call__(self, *_: Any) -> None:
        self.times += 1
        if self.times > 1:
            os._exit(INTERRUPTED)
        if not self.running:
            raise KeyboardInterrupt


@contextlib.contextmanager
def asked_to_end() -> Iterator[Asked]:
    """Signals are counted; PySpark's own handler would cancel the running batch."""
    asked = Asked()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    saved = {s: signal.signal(s, asked) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in saved.items():
            signal.signal(number, handler)
