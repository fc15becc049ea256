"""Scripts of rows, bounds, ticks and crashes with the output that they must give; see ``docs/transcripts.md``."""

from slackwater.testing.transcripts.script import load, oracle, parse, run

__all__ = ["load", "oracle", "parse", "run"]
