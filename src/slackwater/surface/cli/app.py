"""The commands. Exit code 0; 1 if a query failed, or would not be safe; 2 for bad usage."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from slackwater import __version__
from slackwater.errors import CheckpointError, SetupError, SlackwaterError
from slackwater.surface.cli.codes import BAD_USAGE, code_of
from slackwater.surface.cli.terminal import complain, plain_interrupt, say

app = typer.Typer(
    name="slackwater",
    help="Window queries over out-of-order streams, on Spark Structured Streaming.",
    add_completion=False,
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
    console = Console()
    say("starting Spark ...")
    # For a run of seconds the JVM's first compiler is enough; the second would take a core for itself.
    conf = {"spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1"}
    with quiet_session("slackwater-demo", output / "spark.log", conf) as spark, plain_interrupt():
        report = play(spark, output, Scene.of(seconds), console, seed=seed)
    console.print(f"packets, results, late rows: {output}/", soft_wrap=True, highlight=False)
    console.print(f"report: {report}", soft_wrap=True, highlight=False)
    if show:
        webbrowser.open(report.absolute().as_uri())


File = Annotated[
    Path,
    typer.Argument(exists=True, dir_okay=False, readable=True, help="A .sql or .py file."),
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="name=value of a variable; may be given again.")
]


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
) -> None:
    """Run the query in a file.

    A .sql file has statements. A .py file defines query(spark), which returns a writer (result.writeStream...), a list of
    writers, or a stream (shown on the console); or it starts queries itself at its top level.
    """
    from slackwater.surface.cli.run_file import NotAQuery, run_file
    from slackwater.surface.cli.sql_file import variables_of

    try:
        code = run_file(
            file, checkpoint=checkpoint, timeout=timeout, variables=variables_of(set_ or ())
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
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
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
def explain(file: File, set_: Set = None) -> None:
    """Print the query tree of a file, and what runs where and why; start nothing."""
    from slackwater.surface.cli.explain_file import explained
    from slackwater.surface.cli.run_file import NotAQuery
    from slackwater.surface.cli.sql_file import variables_of

    try:
        typer.echo(explained(file, variables_of(set_ or ())))
    except NotAQuery as error:
        complain(error)
        raise typer.Exit(BAD_USAGE) from None


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
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Say which results of a running query nobody needs, or show what was said; needs no Spark.

    Prints the id of what was sent. It acts from the query's next batch on.
    """
    from slackwater.surface.cli.send_feedback import Said, handled

    said = Said(records, ignore, only, output, name, lease, listed, retract, renew)
    typer.echo(handled(checkpoint, said, as_json=as_json))


@app.command()
def report(
    checkpoint: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="A query's checkpoint directory.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path(
        "slackwater-report.html"
    ),
) -> None:
    """Write what a query did, as one HTML file. The query may be running."""
    from slackwater.surface.report import write_report

    try:
        write_report(checkpoint, output)
    except CheckpointError as error:
        # A folder that is no checkpoint was named by mistake; one that is damaged cannot be used.
        wrong = error.condition in (
            "NO_CHECKPOINT",
            "NOT_A_CHECKPOINT",
            "FOREIGN_CHECKPOINT",
        )
        complain(error)
        raise typer.Exit(BAD_USAGE if wrong else code_of(error)) from None
    typer.echo(str(output))
