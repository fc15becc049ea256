"""What ``start`` gives where queries are checked only: a query that has ended before it began."""

from __future__ import annotations

from typing import Any

from slackwater.surface.check import CheckReport


class Unstarted:
    """Has the members of a query. Nothing was read, locked or written, and waiting for it takes no time."""

    id = runId = ""
    isActive = False
    lastProgress = None

    def __init__(self, name: str, report: CheckReport):
        self.name = name
        self._report = report

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        """No batch was run."""
        return []

    @property
    def status(self) -> dict[str, Any]:
        """As Spark says it of a query that has stopped."""
        return {"message": "Checked", "isDataAvailable": False, "isTriggerActive": False}

    def contracts(self) -> CheckReport:
        """What was found."""
        return self._report

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """It has ended."""
        return None if timeout is None else True

    def exception(self) -> None:
        """Nothing went wrong."""
        return

    def explain(self, extended: bool = False) -> None:
        """Print what was found."""
        print(self._report)

    def add(self, writer: Any) -> None:
        """Check the output on its own: outputs do not keep each other from freeing state."""
        writer.start()

    def remove(self, name: str) -> None:
        """Nothing runs."""

    def processAllAvailable(self) -> None:
        """Nothing is read."""

    def flush(self, timeout: float | None = 60) -> None:
        """Nothing waits."""

    def stop(self) -> None:
        """It has ended."""

    def finish(self) -> None:
        """It has ended."""
