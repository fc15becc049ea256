"""Each text gives the tree of the Python calls that it stands for."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater as sw
from slackwater.model.render import render
from tests.surface.sql.fixtures import blocks, texts

pytestmark = pytest.mark.spark


def test_there_are_two_hundred_texts():
    assert len(set(texts())) >= 200


@pytest.mark.parametrize("block", blocks(), ids=lambda b: b.python[:60])
def test_a_text_gives_the_tree_of_the_calls(block: Any, streams: dict[str, Any]):
    from pyspark.sql import functions as F

    expected = render(eval(block.python, {"sw": sw, "F": F, **streams})._node)
    for text in block.texts:
        assert render(sw.sql(text, streams=streams)._node) == expected, text
