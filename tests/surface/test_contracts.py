"""Contracts through the public surface: what is refused at the start, what only warns, and the command that checks a file."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from tests.surface.helpers import at, refused
from tests.surface.local import run_locally
from tests.surface.test_cli import run
from tests.surface.verb_documents import check_document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MAP = "map<string, struct<op: string, value: string>>"
SCHEMA = f"k string, n int, ts timestamp, v double, done {MAP}"


@pytest.fixture
def df(spark: SparkSession, tmp_path: Path) -> Any:
    rows = [[("a", 1, at(1), 1.0, None), ("b", 2, at(2), 1.0, None)], [("c", 3, at(90), 1.0, None)]]
    return sw.replay(spark, rows, SCHEMA, directory=str(tmp_path / "in"))


def declared(df: Any, *scheme: str, name: str = "orders") -> Any:
    policy = sw.Punctuated("done", scheme=list(scheme) or None)
    return sw.stream(df, time="ts", name=name, progress=policy)


def quiet(stream: Any, name: str = "out") -> Any:
    return stream.writeStream.format("noop").queryName(name).trigger(availableNow=True)


def test_a_scheme_is_checked_where_the_stream_is_made(df: Any) -> None:
    refused(
        lambda: declared(df, "[[k:#, z:+]]"), "BAD_SCHEME", "'z' does not exist", "^", "k, n, ts"
    )
    refused(lambda: declared(df, "[[v:+]]"), "BAD_SCHEME", "double, which punctuation cannot test")
    refused(lambda: sw.Punctuated("done", scheme=7), "BAD_SCHEME", "no list of templates")
    refused(
        lambda: sw.stream(df, time="ts", progress=sw.Punctuated("ts", scheme=["[[ts:+]]"])),
        "BAD_SCHEME", "holds bounds on 'ts'", "leave scheme= out",
    )  # fmt: skip
    refused(
        lambda: sw.stream(df, time="ts", progress=sw.Punctuated("done", scheme=[])),
        "BAD_SCHEME", "promises nothing",
    )  # fmt: skip


@pytest.mark.spec("FC-F66", "FC-F79")
def test_an_unsafe_query_is_refused_and_leaves_nothing_behind(df: Any, tmp_path: Path) -> None:
    s = declared(df, "[[k:#]]", "[[n:#, ts:+]]")
    safe = s.groupBy("k").count()
    unsafe = s.groupBy(sw.window("1 minute")).count()
    assert safe.contracts().ok and not unsafe.contracts().ok
    report = sw.check([quiet(safe, "a"), quiet(unsafe, "b")])
    (problem,) = report.problems
    assert (problem.input, problem.columns) == (0, ("ts",))
    assert {(r.stream, r.template) for r in report.requirements} == {
        ("orders", "[[k:#]]"),
        ("orders", "[[ts:+]]"),
    }
    start = lambda: sw.start([quiet(unsafe)], checkpointLocation=str(tmp_path / "ck"))  # noqa: E731
    refused(start, "UNBOUNDED_STATE", "windows on ts", "'orders'", '"[[ts:+]]"')
    assert not (tmp_path / "ck").exists()
    # Streams that end free all there is.
    assert sw.check([quiet(unsafe)], options={"endOfStream": True}).ok
    refused(lambda: sw.check([]), "NO_OUTPUT")
    refused(lambda: quiet(safe).option("contracts", "perhaps").start(), "BAD_OPTION", '"warn"')


def test_a_query_that_warns_runs_and_goes_on_from_its_checkpoint(df: Any, tmp_path: Path) -> None:
    s = declared(df, "[[n:#]]")
    writer = quiet(s.groupBy("k").count()).option("checkpointLocation", str(tmp_path / "ck"))
    with pytest.warns(sw.ContractWarning, match="for ever.*[Pp]unctuat"):
        q = writer.option("contracts", "warn").start()
    q.awaitTermination()
    (problem,) = q.contracts().problems
    assert problem.columns == ("k",)
    assert sum(p["numInputRows"] for p in q.recentProgress) == 3
    # As a checkpoint that is older than the check: it goes on, and the scheme may be another.
    other = declared(df, "[[ts:+]]").groupBy("k").count()
    with pytest.warns(sw.ContractWarning):
        quiet(other).option("checkpointLocation", str(tmp_path / "ck")).start().awaitTermination()


def test_an_output_that_is_added_is_checked(df: Any, tmp_path: Path) -> None:
    s = declared(df, "[[k:#, ts:+]]", "[[ts:+]]")
    first = s.groupBy("k", sw.window("1 minute")).count()
    with warnings.catch_warnings():
        warnings.simplefilter("error", sw.ContractWarning)
        q = (
            first.writeStream.format("noop").queryName("a")
            .option("checkpointLocation", str(tmp_path / "ck")).start()
        )  # fmt: skip
    try:
        assert q.contracts().ok and str(q.contracts()).endswith("verdict: safe")
        refused(lambda: q.add(quiet(s.groupBy("n").count(), "b")), "UNBOUNDED_STATE", "groupBy(n)")
        assert q.isActive
        with pytest.warns(sw.ContractWarning, match="grows with the number of groups"):
            q.add(quiet(s.groupBy("k", sw.landmark("1 minute", origin=at(0))).count(), "c"))
        assert [w.kind for w in q.contracts().warnings] == ["groups"]
    finally:
        q.stop()


@pytest.mark.spec("FC-F63")
def test_explain_shows_the_scheme_on_every_edge(
    df: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    s = declared(df, "[[k:#, ts:+]]")
    s.where("v > 0").groupBy("k", sw.window("1 minute")).count().explain()
    shown = capsys.readouterr().out.partition("== Contracts ==")[2].strip().splitlines()
    assert [line.strip() for line in shown] == [
        "groupBy(k, window on ts)", "scheme: [[k:#, window:+]]; state: safe",
        "filter", "scheme: [[k:#, ts:+]]",
        "stream 'orders'", "scheme: [[k:#, ts:+]]",
    ]  # fmt: skip


FILE = """
import slackwater as sw
def made(spark):
    rows = sw.readStream(spark).schema("{schema}").parquet("{folder}/in")
    s = sw.stream(rows, time="ts", name="orders", progress=sw.Punctuated("done", scheme=["[[k:#]]"]))
    return s.groupBy("{key}").count()
"""


def written(folder: Path, key: str, body: str) -> Path:
    (folder / "in").mkdir(exist_ok=True)
    file = folder / "q.py"
    file.write_text(FILE.format(schema=SCHEMA, folder=folder, key=key) + body)
    return file


def test_a_file_is_checked_and_nothing_is_started(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starting = f"""
q = (made(sw.session()).writeStream.queryName("totals").option("checkpointLocation", "{tmp_path}/ck")
    .start("{tmp_path}/out"))
q.processAllAvailable()
assert q.lastProgress is None and not q.isActive and not q.awaitTermination()
made(sw.session()).preview()
"""
    assert run("check", written(tmp_path, "k", starting)) == 0
    shown = capsys.readouterr().out
    assert (
        shown.startswith("totals\n")
        and shown.count("verdict: grows with the number of values") == 2
    )
    assert run("check", written(tmp_path, "n", starting), "--requirements") == 1
    shown = capsys.readouterr().out
    assert "verdict: unsafe" in shown and "stream 'orders': [[n:#]]" in shown
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "q.py"]
    described = "\ndef query(spark):\n    return made(spark)\n"
    assert run("check", written(tmp_path, "n", described), "--json") == 1
    (query,) = check_document("check", capsys.readouterr().out)["queries"]
    assert not query["ok"] and query["problems"][0]["columns"] == ["n"]
    assert {r["stream"] for r in query["requirements"]} == {"orders"}
    # What comes after a start may miss its results; the verdict stands.
    failing = starting + f"\nopen('{tmp_path}/out/missing')\n"
    assert run("check", written(tmp_path, "k", failing)) == 0
    assert "the verdict stands" in capsys.readouterr().err
    assert run("check", written(tmp_path, "nothing", described)) == 2
    assert "COLUMN_NOT_FOUND" in capsys.readouterr().err
    assert not (tmp_path / "ck").exists()


# ---- verdicts against what runs keep ----

QUERIES: dict[str, Callable[[Any, Any], Any]] = {
    "groups": lambda s, t: s.groupBy("k").count(),
    "windows": lambda s, t: s.groupBy("k", sw.window("1 minute")).count(),
    "join": lambda s, t: s.join(t, on="k", within=None),
    "kept": lambda s, t: s.select("ts", "k").groupBy("k").count(),
    "renamed": lambda s, t: s.select("ts", "n AS k").groupBy("k").count(),
    "computed": lambda s, t: s.select("ts", "n - 9 AS k").groupBy("k").count(),
}


@pytest.fixture(scope="module")
def punctuated(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Any, Any]]:
    """Makes two equal streams that say of their rows, in the end, what a template has: of k, of n, or of both."""
    schema = f"k int, n int, ts timestamp, done {MAP}"

    def streams(columns: str) -> tuple[Any, Any]:
        values = {"k": ("in", "[1, 2, 3, 4]"), "n": ("in", "[10, 11, 12, 13]")}
        said = (None, None, None, {c: values[c] for c in columns})
        rows = [(i, 9 + i, at(i), None) for i in (1, 2, 3, 4)]
        df = sw.replay(spark, [rows[:3], [rows[3], said]], schema, directory=str(tmp_path_factory.mktemp("in")))  # fmt: skip
        scheme = f"[[{', '.join(f'{c}:#' for c in columns)}]]"
        return declared(df, scheme, name="s"), declared(df, scheme, name="t")

    return cache(streams)


@pytest.mark.spec("FC-F79")
@pytest.mark.parametrize(
    ("name", "columns", "safe"),
    [
        ("groups", "k", True),
        ("groups", "kn", False),
        ("windows", "k", True),
        ("windows", "n", False),
        ("join", "k", True),
        ("join", "n", False),
        ("kept", "k", True),
        ("kept", "kn", False),
        ("renamed", "n", True),
        ("renamed", "k", False),
        ("computed", "k", False),
    ],
)
def test_a_query_frees_its_state_just_when_streams_say_what_it_requires(
    punctuated: Callable[[str], tuple[Any, Any]], name: str, columns: str, safe: bool, tmp_path: Path
) -> None:  # fmt: skip
    """What is said is what is declared. A column that was dropped, or that is another one now, closes nothing."""
    query = QUERIES[name](*punctuated(columns))
    found = query.contracts()
    assert found.ok == safe
    assert found.requirements and all(r.declared for r in found.requirements) == safe
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sw.ContractWarning)
        records = run_locally(query, tmp_path, end=False).records
    rows = [sum(o["state"]["rows"] for o in r["operators"].values()) for r in records]
    sides = 2 if name == "join" else 1
    assert rows == [3 * sides, 0 if safe else 4 * sides]
    if not safe:
        refused(lambda: sw.start([quiet(query)], checkpointLocation=str(tmp_path / "ck")), "UNBOUNDED_STATE")  # fmt: skip


# ---- joins by punctuation ----


@pytest.mark.spec("FC-F25")
def test_a_join_at_any_distance_and_what_it_cannot_do(df: Any) -> None:
    a, b = declared(df, "[[k:#]]", name="a"), declared(df, "[[k:#]]", name="b")
    bill = a.join(b, on="k", within=None)
    assert bill.contracts().ok and bill.timeColumns == []
    assert "[[k:#]]" in str(bill.contracts())
    for more, word in (({"memory": "1m"}, "memory"), ({"emit": "ordered"}, "emit")):
        refused(
            lambda more=more: a.join(b, on="k", within=None, **more), "BAD_JOIN", word, "sw.band"
        )
    refused(lambda: a.join(b, within=None), "BAD_JOIN", "within=")
    refused(lambda: bill.groupBy("k", sw.window("1 minute")).count(), "NO_PROGRESS", "any distance", "sw.band")  # fmt: skip
    # A third stream, and groups without a window, may follow.
    third = declared(df, "[[k:#]]", name="c").select("k", "ts", "n")
    both = bill.select("k", "a_ts", "b_ts", "a_n").join(third, on="k", within=None)
    assert both.contracts().ok
    assert sw.joinAll([a, b, third.alias("c")], on="k").contracts().ok
    assert bill.groupBy("k").count().contracts().ok
    # What is declared does not reach the join's keys.
    wrong = declared(df, "[[n:#]]", name="d")
    refused(lambda: sw.start([quiet(a.join(wrong, on="k", within=None))]), "UNBOUNDED_STATE", "join on k", "[[k:#]]")  # fmt: skip
    timed = sw.stream(df, time="ts", name="e", progress=sw.BoundedDelay("1 minute"))
    refused(lambda: timed.join(timed.alias("f"), on="k"), "BAD_JOIN", "sw.band", "punctuated on the keys")  # fmt: skip
    target = sw.stream(df, time="ts", name="q", progress=sw.Quality(recall=0.9, over="1 hour"))
    refused(lambda: sw.start([quiet(a.join(target, on="k", within=None))], options={"contracts": "warn"}), "BAD_QUALITY", "any distance")  # fmt: skip


@pytest.mark.spec("FC-F25", "FC-F58")
def test_what_a_running_join_says_of_punctuation(spark: SparkSession, tmp_path: Path) -> None:
    """Values kept one by one, forms that are not declared, what grows; and state that goes when all of it is closed."""
    schema = f"k int, ts timestamp, done {MAP}"

    def closed(op: str, value: str, column: str = "k") -> tuple[Any, ...]:
        return (None, None, {column: (op, value)})

    lines = [[(1, at(1), None), (2, at(2), None), (3, at(3), None)], [closed("in", "[1, 3, 7]"), closed("<", "3")]]  # fmt: skip
    paid = [[(1, at(5), None)], [closed("in", "[1, 3]")]]
    a, b = (
        declared(sw.replay(spark, rows, schema, directory=str(tmp_path / n)), "[[k:#]]", name=n)
        for n, rows in (("a", lines), ("b", paid))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        q = sw.start([quiet(a.join(b, on="k", within=None, how="left"))])
        q.awaitTermination()
    last = q.lastProgress
    assert last["streams"]["a"]["schemeViolations"] == {"[[k:+]]": 1}
    assert (last["streams"]["a"]["values"], last["streams"]["b"]["values"]) == (1, 2)
    assert any("grows with the number of values" in text for text in last["contracts"])
    (operator,) = last["operators"].values()
    assert operator["state"]["rows"] == 1  # order 2: payments have not closed it
    strict = sw.Punctuated("done", scheme=["[[k:#]]"], onViolation="raise")
    broken = sw.stream(sw.replay(spark, lines, schema, directory=str(tmp_path / "c")), time="ts", progress=strict)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strictly = sw.start([quiet(broken.groupBy("k").count(), "strict")])
    with pytest.raises(sw.SlackwaterError) as error:
        strictly.awaitTermination()
    assert error.value.condition == "SCHEME_BROKEN" and "{k: < 3}" in str(error.value)
    refused(lambda: sw.Punctuated("done", onViolation="raise"), "BAD_SCHEME", "scheme=")


def test_of_two_orders_of_joins_the_check_says_which_one_is_freed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The order in which a query is written is the one that runs, and nothing has to be started to compare two."""

    def stream(name: str, columns: str, scheme: str) -> Any:
        schema = "".join(f"{c} int, " for c in columns) + f"ts timestamp, done {MAP}"
        rows = spark.readStream.schema(schema).parquet(str(tmp_path))
        return declared(rows, scheme, name=name)

    r, s = stream("r", "ab", "[[b:+]]"), stream("s", "bc", "[[b:+]]")
    t = stream("t", "bcd", "[[c:+]]")
    one = r.join(s, on="b", within=None).join(t, on=["b", "c"], within=None)
    assert sw.check([quiet(one)]).ok
    other = sw.check([quiet(r.join(s.join(t, on=["b", "c"], within=None), on="b", within=None))])
    (problem,) = other.problems
    assert (problem.input, problem.columns) == (1, ("b",))
