"""The testing kit: for the tests of Slackwater, and for users' own; see ``docs/testing.md``."""

from __future__ import annotations

from slackwater.testing.accuracy import Accuracy, accuracy
from slackwater.testing.bursts import b_model, bursty_events, clustered, skewed_keys
from slackwater.testing.clock import ManualClock
from slackwater.testing.disorder import Arrivals, delays, events, is_progressing, low_water_marks
from slackwater.testing.feedback import Range, in_range
from slackwater.testing.job import KAFKA_COLUMNS, kafka_batches, run
from slackwater.testing.local.job import LocalJob, local_job
from slackwater.testing.local.run import NotReached
from slackwater.testing.transcripts.script import load, oracle, parse
from slackwater.testing.transcripts.script import run as run_transcript

__all__ = [
    "KAFKA_COLUMNS", "Accuracy", "Arrivals", "LocalJob", "ManualClock", "NotReached", "Range", "accuracy", "b_model", "bursty_events", "clustered",
    "delays", "events", "in_range", "is_progressing", "kafka_batches", "load", "local_job", "low_water_marks", "oracle", "parse", "run",
    "run_transcript", "skewed_keys",
]  # fmt: skip
