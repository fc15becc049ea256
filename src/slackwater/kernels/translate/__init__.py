"""Spark's analysed expressions as DuckDB SQL of the same meaning, or a reason why not."""

from slackwater.kernels.translate.generator import Translated, translate
from slackwater.kernels.translate.types import NotTranslatable

__all__ = ["NotTranslatable", "Translated", "translate"]
