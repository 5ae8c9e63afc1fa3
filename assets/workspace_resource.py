"""The workspace as a Dagster resource, and the mark by which others know that a run of it is alive."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import dagster as dg

from backstory.base.files.atomic import lock
from backstory.operations.alerts import send_alerts
from backstory.pipeline.run.run import OnProgress, Run
from backstory.pipeline.run.runner import Report, execute_run
from backstory.pipeline.workspace import Workspace, open_workspace


class WorkspaceResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the workspace once per run."""

    root: str
    accept_removals: bool = False
    """Whether a run may drop messages or documents that earlier runs read.

    For one run, give ``resources: {workspace: {config: {accept_removals: true}}}`` in the launchpad.
    """

    @cached_property
    def workspace(self) -> Workspace:
        """The open workspace."""
        return open_workspace(Path(self.root), accept_removals=self.accept_removals)

    def execute(self, run: Run, on_progress: OnProgress, report: Report) -> Run:
        """Build tables, report them while no other run may change them, and send the alerts of the run."""
        try:
            execute_run(self.workspace, run, on_progress, report)
        except Exception as error:
            send_alerts(self.workspace, run, error)
            raise
        send_alerts(self.workspace, run)
        return run


@contextmanager
def marking_as_alive(instance: dg.DagsterInstance, run_id: str) -> Iterator[None]:
    """Hold a lock in Dagster's home while a run executes; it ends with the process, however that ends."""
    mark = _find_mark(instance, run_id)
    mark.parent.mkdir(exist_ok=True)
    hidden = mark.with_suffix(".new")
    with hidden.open("w") as file:
        lock(file)
        hidden.rename(mark)  # so that nobody finds it unlocked
        try:
            yield
        finally:
            mark.unlink(missing_ok=True)


def is_lost(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Return whether the process of a run has ended before the run did. Of other runs than ours, nothing is known."""
    mark = _find_mark(instance, run_id)
    try:
        with mark.open() as file:
            return lock(file, wait=False)
    except FileNotFoundError:
        return False


def _find_mark(instance: dg.DagsterInstance, run_id: str) -> Path:
    return Path(instance.root_directory) / "alive" / run_id
