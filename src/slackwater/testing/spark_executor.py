"""The name under which users import the executor of transcripts on Spark."""

from slackwater.testing.executors.spark import spark_executor

__all__ = ["spark_executor"]
