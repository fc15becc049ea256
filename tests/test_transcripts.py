"""Every transcript, on every executor."""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.testing.transcripts import load, oracle, run

FILES = sorted((Path(__file__).parent / "transcripts").glob("*.yaml"))


def specs(path: Path) -> list[pytest.MarkDecorator]:
    ids = load(path).spec
    return [pytest.mark.spec(*ids)] if ids else []


PARAMS = [pytest.param(f, id=f.stem, marks=specs(f)) for f in FILES]


@pytest.mark.parametrize("path", PARAMS)
def test_oracle(path: Path) -> None:
    run(load(path), oracle)


@pytest.mark.parametrize("plan", ["panes", "wids"])
@pytest.mark.parametrize("path", PARAMS)
def test_kernels(path: Path, plan: str) -> None:
    from slackwater.testing.kernel_executor import kernels

    transcript = load(path)
    if path.stem == "mini_tumbling_empty":
        pytest.skip("empty windows are not the kernels' work")
    run(transcript, kernels(plan))
