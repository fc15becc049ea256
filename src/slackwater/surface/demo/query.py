"""The query of the demonstration: who sends most, over ten seconds, every second. It is a file of SQL, as a user would write it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.surface.sql.script import script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import slackwater as sw

WINDOW_SECONDS, SLIDE_SECONDS = 10, 1
FILE = "talkers.sql"
EVERY_SECOND, AVAILABLE_NOW = "1 second", "available now"


def text() -> str:
    """The file."""
    return resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")


def start(spark: SparkSession, folder: Path, trigger: str = EVERY_SECOND) -> sw.StreamingQuery:
    """Start it: reads ``folder/packets``, writes ``folder/talkers`` and ``folder/late``."""
    file = folder / FILE
    file.write_text(text(), encoding="utf-8")
    return script(spark, file, variables={"work": folder, "trigger": trigger}).start()
