"""The name under which users import the executor of transcripts on the kernels."""

from slackwater.testing.executors.kernels import kernels

__all__ = ["kernels"]
