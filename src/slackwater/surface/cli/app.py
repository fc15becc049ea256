"""The commands. Exit code 0; 1 if a query failed, or would not be safe; 2 for bad usage."""

from __future__ import annotations

import contextlib
import json
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from slackwater import __version__
from slackwater.errors import CheckpointError, SetupError, SlackwaterError
from slackwater.surface.cli.codes import BAD_USAGE, UNUSABLE, code_of
from slackwater.surface.cli.terminal import complain, plain_interrupt, say

app = typer.Typer(
    name="slackwater",
    help="Window queries over out-of-order streams, on Spark Structured Streaming.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> None:
    """The program ``slackwater``; always ends with `SystemExit`."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="slackwater")
    except SlackwaterError as error:
        complain(error)
        sys.exit(code_of(error))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slackwater {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON; docs/commands.schema.json describes it.")
]
CheckpointDir = Annotated[
    Path, typer.Argument(exists=True, file_okay=False, help="A query's checkpoint directory.")
]
File = Annotated[
    Path,
    typer.Argument(exists=True, dir_okay=False, readable=True, help="A .sql or .py file."),
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="name=value of a variable; may be given again.")
]


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(min=5, max=3600, help="How long packets arrive.")] = 30,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where data, results and the report go.")
    ] = Path("demo-output"),
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other packets.")] = 7,
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the report in the browser.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """A disordered stream, a live view, and a report.

    Packets of two routers arrive out of order: in bursts, one router seconds behind the other and
    silent for a while, one device with a wrong clock. A sliding window shows who sends most.
    """
    from rich.console import Console

    from slackwater.surface.cli.spark import quiet_session
    from slackwater.surface.demo.packets import Scene
    from slackwater.surface.demo.play import play, prepare
    from slackwater.surface.session import JAVA_OPTIONS

    try:
        prepare(output)
    except SetupError as error:
        complain(error)
        raise typer.Exit(BAD_USAGE) from None
    console = Console(stderr=as_json)
    say("starting Spark ...")
    # For a run of seconds the JVM's first compiler is enough; the second would take a core for itself.
    conf = {"spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1"}
    with quiet_session("slackwater-demo", output / "spark.log", conf) as spark, plain_interrupt():
        report, sums = play(spark, output, Scene.of(seconds), console, seed=seed)
    if as_json:
        document = {
            "output": str(output),
            "report": str(report),
            **asdict(sums),
            "expected": sums.expected,
        }
        typer.echo(json.dumps(document))
    console.print(f"packets, results, late rows: {output}/", soft_wrap=True, highlight=False)
    console.print(f"query: {output}/talkers.sql", soft_wrap=True, highlight=False)
    console.print(f"report: {report}", soft_wrap=True, highlight=False)
    if show:
        webbrowser.open(report.absolute().as_uri())


@app.command()
def run(
    file: File,
    set_: Set = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="The query's checkpoint directory; wins over the file's.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Stop after that many seconds.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Rows of a bare query as JSON lines on a terminal, too.")
    ] = False,
) -> None:
    """Run the query in a file.

    A .sql file has statements. A .py file defines query(spark), which returns a writer (result.writeStream...), a list of
    writers, or a stream (shown on the console); or it starts queries itself at its top level.
    """
    from slackwater.surface.cli.run_file import NotAQuery, run_file
    from slackwater.surface.cli.sql_file import variables_of

    try:
        code = run_file(
            file,
            checkpoint=checkpoint,
            timeout=timeout,
            variables=variables_of(set_ or ()),
            as_json=as_json,
        )
    except NotAQuery as error:
        complain(error)
        raise typer.Exit(BAD_USAGE) from None
    if code:
        raise typer.Exit(code)


@app.command()
def check(
    file: File,
    set_: Set = None,
    requirements: Annotated[
        bool, typer.Option("--requirements", help="Show what the streams must punctuate.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(help="A checkpoint: also say what a restart on it would refuse."),
    ] = None,
    syntax: Annotated[
        bool, typer.Option("--syntax", help="Look at the text alone, without Spark and Java.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say whether a file's queries would start, and why not; start none.

    The file is one for `slackwater run`; where a .py file starts queries itself, they are checked in place of being
    started. Exit code 0 if they are safe, 1 if not, 2 if the text is wrong.
    """
    from slackwater.surface.cli import sql_file

    variables = sql_file.variables_of(set_ or ())
    if syntax:
        if file.suffix != ".sql":
            say("--syntax is for .sql files")
            raise typer.Exit(BAD_USAGE)
        sql_file.check_syntax(file, variables)
        if as_json:
            typer.echo(json.dumps({"file": str(file), "ok": True, "queries": []}))
        return
    from slackwater.surface.cli import check_file
    from slackwater.surface.cli.run_file import NotAQuery

    try:
        checked = check_file.check_file(file, against=against, variables=variables)
    except NotAQuery as error:
        complain(error)
        raise typer.Exit(BAD_USAGE) from None
    if as_json:
        typer.echo(check_file.as_json(file, checked))
    elif checked.reports:
        typer.echo(check_file.as_text(checked, requirements=requirements))
    if checked.code:
        raise typer.Exit(checked.code)


@app.command()
def explain(file: File, set_: Set = None, as_json: AsJson = False) -> None:
    """Print the query tree of a file, and what runs where and why; start nothing."""
    from slackwater.surface.cli.explain_file import explained
    from slackwater.surface.cli.run_file import NotAQuery
    from slackwater.surface.cli.sql_file import variables_of

    try:
        plan = explained(file, variables_of(set_ or ()))
    except NotAQuery as error:
        complain(error)
        raise typer.Exit(BAD_USAGE) from None
    typer.echo(json.dumps({"file": str(file), "plan": plan.splitlines()}) if as_json else plan)


@app.command()
def feedback(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint directory of a running query.")],
    records: Annotated[
        str | None, typer.Argument(help="What will be ignored: '~{speed >= 50}' or '~[*, >= 50]'.")
    ] = None,
    ignore: Annotated[
        str | None, typer.Option(help="In place of records: ignore rows of which this is true.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="In place of records: ignore all other rows.")
    ] = None,
    output: Annotated[str | None, typer.Option(help="The output that it is about.")] = None,
    name: Annotated[str | None, typer.Option(help="Feedback of the same name is replaced.")] = None,
    lease: Annotated[
        str | None, typer.Option(help="How long it stands: 10m, '10 minutes', forever.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show what stands.")] = False,
    retract: Annotated[int | None, typer.Option(help="End the feedback of this id.")] = None,
    renew: Annotated[
        int | None, typer.Option(help="Let the lease of the feedback of this id begin anew.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which results of a running query nobody needs, or show what was said; needs no Spark.

    Prints the id of what was sent. It acts from the query's next batch on.
    """
    from slackwater.surface.cli.send_feedback import Sending, handled

    sending = Sending(records, ignore, only, output, name, lease, listed, retract, renew)
    typer.echo(handled(checkpoint, sending, as_json=as_json))


@app.command()
def report(
    checkpoint: CheckpointDir,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path(
        "slackwater-report.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Write what a query did, as one HTML file. The query may be running."""
    from slackwater.surface.report import write_report

    with _reading():
        write_report(checkpoint, output)
    typer.echo(json.dumps({"report": str(output)}) if as_json else str(output))


@app.command()
def late(
    checkpoint: CheckpointDir,
    newest: Annotated[int, typer.Option(min=0, help="How many of the newest rows to show.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Show a query's late rows: by reason and partition, how late, and the newest; needs no Spark.

    They are read from the late output's files. Without such an output there are counts, and the line to add.
    """
    from slackwater.surface.cli import late_rows

    with _reading():
        document = late_rows.late(checkpoint, newest)
    typer.echo(json.dumps(document) if as_json else late_rows.as_text(document))


@app.command()
def inspect(checkpoint: CheckpointDir, as_json: AsJson = False) -> None:
    """Show what a query goes on from: bounds, state, offsets, who holds the lock; needs no Spark."""
    from slackwater.surface.cli import inspect_checkpoint

    with _reading():
        document = inspect_checkpoint.inspected(checkpoint)
    typer.echo(json.dumps(document) if as_json else inspect_checkpoint.as_text(document))


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Look at Java, PySpark, the workers' Python and the disks: what is missing, what helps. Exit code 3 if something is."""
    from slackwater.surface.cli import doctor

    made = doctor.findings()
    typer.echo(json.dumps(doctor.as_document(made)) if as_json else doctor.as_text(made))
    if not all(f.ok for f in made):
        raise typer.Exit(UNUSABLE)


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """A folder that is no checkpoint was named by mistake; one that is damaged cannot be used."""
    try:
        yield
    except CheckpointError as error:
        wrong = error.condition in ("NO_CHECKPOINT", "NOT_A_CHECKPOINT", "FOREIGN_CHECKPOINT")
        complain(error)
        raise typer.Exit(BAD_USAGE if wrong else code_of(error)) from None
