"""The workspace as a Dagster resource."""

from functools import cached_property
from pathlib import Path

import dagster as dg

from backstory.workspace import Workspace, open_workspace


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
