"""Writes what became of each test with a ``spec`` mark, for `tools/conformance.py`: a proof that was skipped is none,
and one that failed is the opposite.

The file holds the last fate of each test. So a run of a few tests changes their lines and no others.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

RUN = "build/marked-tests.json"
RAN, FAILED = "ran", "failed"
NAME = "marked-tests"


def pytest_configure(config: pytest.Config) -> None:
    """Follow the tests of this run. Its further processes report to the first, which writes."""
    first = not hasattr(config, "workerinput")
    if first and not config.pluginmanager.has_plugin(NAME):
        config.pluginmanager.register(Record(config.rootpath), NAME)


class Record:
    """A plugin of pytest that follows the tests of a run, in one process or in several."""

    def __init__(self, root: Path) -> None:
        self.path = root / RUN
        self.fates: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "spec" not in report.keywords:
            return
        if report.failed:  # before, in or after the test itself
            self.fates[report.nodeid] = FAILED
        elif report.skipped:
            self.fates[report.nodeid] = _reason(report)
        elif report.when == "call":
            self.fates[report.nodeid] = RAN

    def pytest_sessionfinish(self) -> None:
        if not self.fates:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        known = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
        new = self.path.with_suffix(f".{os.getpid()}")
        text = json.dumps(dict(sorted({**known, **self.fates}.items())), indent=1)
        new.write_text(text + "\n", encoding="utf-8")
        new.replace(self.path)


def _reason(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}"
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")
