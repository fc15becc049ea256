"""The command line: ``slackwater demo``, ``run`` and ``report``."""

from slackwater.surface.cli.app import main

__all__ = ["main"]
