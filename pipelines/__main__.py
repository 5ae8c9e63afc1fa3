"""Run the workspace in Dagster: the main job as a run that the UI shows, the UI itself, and the history of runs."""

import logging
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from backstory.base.errors import MissingExtraError
from backstory.base.telemetry import configure_logs
from backstory.interfaces.cli.failure import run_command
from backstory.interfaces.cli.options import (
    FirstOption,
    JsonOption,
    LastOption,
    LogFormatOption,
    VerboseOption,
    WorkspaceOption,
)
from backstory.interfaces.cli.run import AcceptOption, exit_code, run_and_print

if TYPE_CHECKING:
    from backstory.pipeline.run.run import OnProgress, Run
    from backstory.pipeline.workspace import Workspace

NAME: Final = "backstory dagster"
"""The command that starts this one (`backstory/interfaces/cli/serve.py`)."""

app = typer.Typer(
    name=NAME,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=__doc__,
)


@app.command("materialize")
def materialize_command(
    first: FirstOption = None,
    last: LastOption = None,
    accept_removals: AcceptOption = False,
    verbose: VerboseOption = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
    log_format: LogFormatOption = None,
) -> None:
    """Run the pipeline like `backstory run`, as a run that the Dagster UI shows."""
    configure_logs(log_format)
    result = run_and_print(
        workspace,
        first,
        last,
        materialize,
        accept_removals=accept_removals,
        verbose=verbose,
        as_json=as_json,
        by=f"{NAME} materialize",
    )
    raise typer.Exit(exit_code(result))


@app.command("init")
def init_command(workspace: WorkspaceOption = None) -> None:
    """Write the files with which Dagster's own commands find a workspace: workspace.yaml and .dagster/dagster.yaml."""
    from backstory.pipeline.workspace import open_workspace
    from pipelines.instance import write_code_location

    print(write_code_location(open_workspace(workspace)))


@app.command("ui")
def ui_command(
    workspace: WorkspaceOption = None,
    port: Annotated[int, typer.Option(help="Port of the UI.")] = 3000,
    host: Annotated[
        str, typer.Option(help="Address to bind. Anyone who reaches it can read the tables and start runs.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Additional host name of the UI, such as a proxy's."),
    ] = None,
    locations: Annotated[
        Path | None,
        typer.Option(help="Dagster's workspace.yaml, to serve more code locations than Backstory's."),
    ] = None,
) -> None:
    """Open the Dagster UI on the workspace."""
    if find_spec("dagster_webserver") is None:  # an environment may hold dagster alone, for specs
        raise MissingExtraError(
            "The Dagster UI needs the Python package dagster_webserver, which is not installed; run `pip install "
            "'backstory[dagster]'` in the environment that runs Backstory"
        )
    from backstory.pipeline.workspace import open_workspace
    from pipelines.ui import start_ui

    start_ui(open_workspace(workspace), port, host, allow_host or (), locations)


@app.command("prune")
def prune_command(
    keep_days: Annotated[int, typer.Option(min=1, help="Age in days from which runs are deleted.")] = 90,
    workspace: WorkspaceOption = None,
) -> None:
    """Delete old runs from Dagster's history; the assets still show every partition that is built."""
    from backstory.pipeline.workspace import open_workspace
    from pipelines.automation import prune_runs
    from pipelines.instance import open_instance

    opened = open_workspace(workspace)
    with open_instance(opened) as instance:
        count = prune_runs(opened, instance, datetime.now(UTC) - timedelta(days=keep_days))
    print(f"{count} runs deleted; the assets still show every partition that is built")


def materialize(workspace: "Workspace", run: "Run", on_progress: "OnProgress") -> "Run":
    """Execute a run as a job of Dagster, which is loaded only now: that takes a second or more."""
    from pipelines import materialization

    return materialization.materialize(workspace, run, on_progress)


def main() -> None:
    """Run the command; an error of the library is printed as one line without a traceback."""
    logging.getLogger("backstory").setLevel(logging.INFO)
    run_command(app)


if __name__ == "__main__":
    main()
