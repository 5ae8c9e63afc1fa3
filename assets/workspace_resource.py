"""The workspace as a Dagster resource."""

from functools import cached_property
from pathlib import Path

import dagster as dg

from backstory.operations.alerts.problems import describe_crash
from backstory.operations.alerts.sending import send_alerts
from backstory.pipeline.run.builder import OnProgress
from backstory.pipeline.run.run import Run, RunEvent
from backstory.pipeline.run.runner import Execute, execute_run
from backstory.pipeline.workspace import Workspace, open_workspace


class WorkspaceResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the workspace once per run.

    Attributes:
        root: Folder of the workspace.
        accept_removals: Whether a run may drop messages or documents that earlier runs read. To accept this for
            one run, give ``resources: {workspace: {config: {accept_removals: true}}}`` in the launchpad.
    """

    root: str
    accept_removals: bool = False

    @cached_property
    def workspace(self) -> Workspace:
        """The open workspace."""
        return open_workspace(Path(self.root), accept_removals=self.accept_removals)

    def execute_run(self, run: Run, on_progress: OnProgress, execute: Execute) -> Run:
        """Build tables in a run of their own, and send its alerts."""
        try:
            execute_run(self.workspace, run, on_progress, execute)
        except Exception as error:
            send_alerts(self.workspace, describe_crash(error, run))
            raise
        send_alerts(self.workspace, run)
        return run


class RunOfCaller:
    """Replaces :class:`WorkspaceResource` when a running run executes its stages as a Dagster job.

    Attributes:
        workspace: The workspace of the run.
        is_built: Whether the job has built the tables; otherwise Dagster failed before its step did.
    """

    def __init__(self, workspace: Workspace, run: Run, on_progress: OnProgress) -> None:
        """Represent a run that is under way in this process.

        Args:
            workspace: Its workspace, whose lock it holds.
            run: The run.
            on_progress: Called with each event, too.
        """
        self.workspace = workspace
        self.is_built = False
        self._run = run
        self._on_progress = on_progress

    def execute_run(self, run: Run, on_progress: OnProgress, execute: Execute) -> Run:
        """Build tables within the run: a second lock would wait for the first one for ever."""

        def report(event: RunEvent) -> None:
            on_progress(event)
            self._on_progress(event)

        self._run.by, self._run.dagster_run_id = run.by, run.dagster_run_id
        execute(self.workspace, self._run, report)
        self.is_built = True
        return self._run
