"""The workspace as a Dagster resource."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path

import dagster as dg

from backstory.runs import BY_DAGSTER
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

    def taking_turn(self, partitions: Sequence[str]) -> AbstractContextManager[None]:
        """Wait until no other run of the workspace is under way, and keep others waiting meanwhile.

        Args:
            partitions: Keys of the partitions of the run.
        """
        return self.workspace.runs.taking_turn(BY_DAGSTER, partitions)


class HeldWorkspaceResource(WorkspaceResource):
    """The workspace of a caller who has taken its turn, and executes the job in the same process."""

    def taking_turn(self, partitions: Sequence[str]) -> AbstractContextManager[None]:  # noqa: ARG002
        """Do nothing: a second turn would wait for the first one for ever."""
        return nullcontext()
