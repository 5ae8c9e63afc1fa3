"""The workspace as a Dagster resource."""

from functools import cached_property
from pathlib import Path

import dagster as dg

from backstory.workspace import Workspace, open_workspace


class WorkspaceResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the workspace once per run.

    Attributes:
        root: Folder of the workspace.
    """

    root: str

    @cached_property
    def workspace(self) -> Workspace:
        """The open workspace."""
        return open_workspace(Path(self.root))
