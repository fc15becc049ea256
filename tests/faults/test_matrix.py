"""``make faults``: every failpoint in every scenario, random kills, a silent source; fills docs/faults.md."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.engine.store import failpoints
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.failpoints import FEEDBACK_POINTS, POINTS
from slackwater.testing.transcripts.script import oracle
from tests.faults.killing import (
    HITS,
    Ended,
    finish,
    has_ended,
    jitter,
    kill_after,
    kill_at,
    kill_each,
    visible,
)
from tests.faults.scenarios import BATCHES, VIEWED, Scenario, scenarios
from tests.faults.table import LOST_COMMIT, RANDOM, Table
from tests.faults.taken import batches, taken
from tests.faults.test_damage import failing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.faults, pytest.mark.slow]

NAMES = list(scenarios())
KILLS = 4  # at random moments, per scenario
MORE_KILLS = {
    "moving viewport": 10,
    "pace": 10,
}  # what they drop depends on what earlier batches noted
LONGEST = 8.0  # seconds; a scenario takes about this from the session's start to its end

# An operator that gives out few files, or keeps few runs, reaches a point less often.
FEWER = {"task.run.before": 2, "task.run.after": 2, "task.output.before": 1, "task.output.after": 1,
         "publish.rename": 2, "compact.before": 1, "gc.before": 1, "gc.after": 1,
         **dict.fromkeys(FEEDBACK_POINTS, 2)}  # fmt: skip


@pytest.fixture(scope="module")
def inputs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("inputs")
    made: set[str] = set()

    def get(name: str) -> Path:
        if name not in made:
            scenarios()[name].write_inputs(spark, root / name)
            made.add(name)
        return root / name

    return get


Killed = tuple[Path, Path, Ended]


@pytest.fixture(scope="module")
def killed(
    inputs: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[str, str], Killed]]:
    """Children of all selected cases, two at a time, ahead of the tests that look at them."""
    root = tmp_path_factory.mktemp("matrix")
    chosen = [
        (item.callspec.params["name"], item.callspec.params["point"])
        for item in request.session.items
        if getattr(item, "module", None) is request.module
        and "point" in getattr(getattr(item, "callspec", None), "params", {})
    ]
    with ThreadPoolExecutor(2) as pool:
        ended: dict[str, Callable[[str], Ended]] = {}
        for name in dict.fromkeys(n for n, _ in chosen):
            points = {p: FEWER.get(p) or HITS[p] for n, p in chosen if n == name}
            ended[name] = kill_each(pool, scenarios()[name], inputs(name), root / name, points)
        yield lambda n, p: (inputs(n), root / n / p, ended[n](p))
        pool.shutdown(cancel_futures=True)


def check(scenario: Scenario, table: Table, state: Path, point: str, kills: int, text: str) -> None:
    lost, twice = scenario.compare(state)
    line = table.add(scenario.name, point, kills, lost, twice)
    assert line.verdict == "ok", f"{line}\n{text[-3000:]}"


@pytest.mark.line("{name}", "{point}")
@pytest.mark.parametrize("point", list(POINTS))
@pytest.mark.parametrize("name", NAMES)
def test_every_step_in_every_scenario(
    name: str,
    point: str,
    killed: Callable[[str, str], Killed],
    spark: SparkSession,
    table: Table,
) -> None:
    scenario = scenarios()[name]
    source, state, ended = killed(name, point)
    finish(scenario, spark, source, state, groups=3)
    reached = int(ended.code == -signal.SIGKILL)
    check(scenario, table, state, point, reached, ended.text)


@pytest.mark.line("{name}", "{point}")
@pytest.mark.parametrize("point", list(FEEDBACK_POINTS))
@pytest.mark.parametrize("name", [n for n, s in scenarios().items() if s.views])
def test_killed_while_a_view_moves(
    name: str,
    point: str,
    killed: Callable[[str, str], Killed],
    spark: SparkSession,
    table: Table,
) -> None:
    scenario = scenarios()[name]
    source, state, ended = killed(name, point)
    assert ended.code == -signal.SIGKILL and not has_ended(state)
    finish(scenario, spark, source, state, groups=3)
    check(scenario, table, state, point, 1, ended.text)
    map_ = scenario.found(state)[VIEWED]
    assert sum(map_.values()) < sum(scenario.expected[VIEWED].values()), "nothing was given up"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        pytest.param(n, kills, marks=pytest.mark.line("{name}", RANDOM, kills=kills), id=n)
        for n, kills in ((n, MORE_KILLS.get(n, KILLS)) for n in NAMES)
    ],
)
def test_killed_again_and_again_at_random_moments(
    name: str,
    wanted: int,
    inputs: Callable[[str], Path],
    spark: SparkSession,
    tmp_path: Path,
    table: Table,
) -> None:
    scenario = scenarios()[name]
    text, kills, lives = "", 0, 0
    lost = twice = 0
    delays = iter(jitter(NAMES.index(name), 4 * wanted, LONGEST))
    while kills < wanted:
        # One that ended before its kill came has its result checked too, and another begins.
        state, lives = tmp_path / f"life{lives}", lives + 1
        for delay in delays:
            ended = kill_after(scenario, inputs(name), state, delay, groups=kills % 3 + 1)
            text += ended.text
            kills += ended.code == -signal.SIGKILL
            if ended.code == 0 or kills == wanted:
                break
            assert ended.code == -signal.SIGKILL, ended.text
        finish(scenario, spark, inputs(name), state, groups=3)
        wrong = scenario.compare(state, taken(scenario, state))
        lost, twice = lost + wrong[0], twice + wrong[1]
    line = table.add(name, RANDOM, kills, lost, twice)
    assert line.verdict == "ok" and kills == wanted, text


@pytest.mark.line("{name}", LOST_COMMIT)
@pytest.mark.parametrize("name", NAMES)
def test_a_lost_commit_of_spark(
    name: str,
    inputs: Callable[[str], Path],
    spark: SparkSession,
    tmp_path: Path,
    table: Table,
) -> None:
    """Spark forgets that it ran the last batch, which runs again: no job, no row twice."""
    scenario = scenarios()[name]
    ended = kill_at(scenario, inputs(name), tmp_path, "publish.after", 6)
    finish(scenario, spark, inputs(name), tmp_path, groups=2)
    commits = tmp_path / "checkpoint" / "commits"
    newest = max(int(p.name) for p in commits.iterdir() if p.name.isdigit())
    for path in (commits / str(newest), commits / f".{newest}.crc"):
        path.unlink()
    shown = visible(tmp_path)
    with failing("intent.before=raise"):
        finish(scenario, spark, inputs(name), tmp_path, groups=3)
    assert visible(tmp_path) == shown
    reached = int(ended.code == -signal.SIGKILL)
    check(scenario, table, tmp_path, LOST_COMMIT, reached, ended.text)


@pytest.mark.line("sliding", "{step}, last batch")
@pytest.mark.parametrize(
    "step", ["intent.before", "intent.after", "job.after", "manifest.after", "publish.after"]
)
def test_killed_while_the_streams_end(
    step: str, inputs: Callable[[str], Path], spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    """The batch that ends the streams is one of its own, after the last that has rows."""
    scenario = scenarios()["sliding"]
    ended = kill_at(scenario, inputs(scenario.name), tmp_path, step, BATCHES + 1)
    finish(scenario, spark, inputs(scenario.name), tmp_path, groups=3)
    reached = int(ended.code == -signal.SIGKILL)
    check(scenario, table, tmp_path, f"{step}, last batch", reached, ended.text)


@pytest.mark.line("sliding", "{step}, worker only")
@pytest.mark.parametrize("step", ["task.run.after", "task.output.after"])
def test_a_worker_dies_and_its_task_is_tried_again(
    step: str, inputs: Callable[[str], Path], tmp_path: Path, table: Table
) -> None:
    """What the dead attempt wrote is named by no manifest, and shown by no sink."""
    scenario = scenarios()["sliding"]
    ended = kill_at(scenario, inputs(scenario.name), tmp_path, step, HITS[step], scope="worker")
    assert ended.code == 0, ended.text[-3000:]
    assert has_ended(tmp_path)
    failed = int(ended.text.rpartition("failed tasks: ")[2])
    check(scenario, table, tmp_path, f"{step}, worker only", int(failed > 0), ended.text)


def test_a_silent_source_does_not_hold_up_the_others(
    inputs: Callable[[str], Path], spark: SparkSession, tmp_path: Path
) -> None:
    """One source stops after its third batch; windows go on closing, also across a kill."""
    scenario = scenarios()["a silent source"]
    ended = kill_at(scenario, inputs(scenario.name), tmp_path, "publish.after", 7)
    assert ended.code == -signal.SIGKILL, ended.text
    last = manifests.last(Checkpoint(str(tmp_path / "checkpoint")))
    assert last is not None and not last.final
    wanted = oracle(scenario.transcript)
    assert last.bounds["t"] == wanted[last.ordinal].bounds["t"]
    assert last.bounds["t"]["ts"] > wanted[2].bounds["t"]["ts"], "it has moved without new rows"
    shown = scenario.found(tmp_path)["both"]
    assert sum(shown.values()) == sum(len(w.outputs["both"]) for w in wanted[: last.ordinal + 1])
    assert sum(shown.values()) > sum(len(w.outputs["both"]) for w in wanted[:3])
    finish(scenario, spark, inputs(scenario.name), tmp_path, groups=3)
    assert scenario.compare(tmp_path) == (0, 0)


@pytest.mark.parametrize(
    ("noted", "second"),
    [(("s",), {"s": [1, 2], "t": [1]}), (("s", "t"), {"s": [1, 2], "t": [1, 2]})],
)
def test_killed_while_spark_notes_a_batch(
    noted: tuple[str, ...],
    second: dict[str, list[int]],
    inputs: Callable[[str], Path],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """The files of some sources are noted, the batch is not: the next start takes two files of these in one batch."""
    scenario = scenarios()["a silent source"]
    with failing("intent.before=raise@2"), pytest.raises(failpoints.InjectedFailure):
        finish(scenario, spark, inputs(scenario.name), tmp_path, groups=2)
    logs = tmp_path / "checkpoint"
    gone = ["offsets/1", *(f"sources/{i}/1" for i, n in enumerate(("s", "t")) if n not in noted)]
    for path in map(logs.joinpath, gone):
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    finish(scenario, spark, inputs(scenario.name), tmp_path, groups=3)
    assert list(batches(logs))[:2] == [{"s": [0], "t": [0]}, second]
    assert scenario.compare(tmp_path, taken(scenario, tmp_path)) == (0, 0)
    lost, others = scenario.compare(tmp_path)
    assert lost == others > 0, "windows count rows that would have been late in batches of one file"
