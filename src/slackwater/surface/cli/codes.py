"""Exit codes: 0; 1 if a query failed or is unsafe; 2 if command, file or text is wrong; 3 if machine or checkpoint is; 130."""

from __future__ import annotations

from slackwater.errors import AnalysisError, CheckpointError, SetupError

FAILED, BAD_USAGE, UNUSABLE, INTERRUPTED = 1, 2, 3, 130


def code_of(error: BaseException) -> int:
    """The exit code of an error before a query has started."""
    if isinstance(error, AnalysisError):
        return FAILED if error.condition == "UNBOUNDED_STATE" else BAD_USAGE
    if isinstance(error, CheckpointError | SetupError):
        return UNUSABLE
    return FAILED
