"""What the tables of a workspace say of its sources."""

from backstory.pipeline.workspace import Workspace, open_workspace
from tests.workspaces import build_table


def read_again(workspace: Workspace) -> Workspace:
    """Build the table of documents of a workspace that is opened anew."""
    opened = open_workspace(workspace.root)
    build_table(opened, "documents")
    return opened


def states(workspace: Workspace) -> dict[str, tuple[str, str]]:
    """Give status and reason of each file of a source."""
    rows = workspace.tables.read("sources", ["documents"]).select("source", "status", "reason").rows()
    return {source: (status, reason) for source, status, reason in rows if "://" in source}


def served(workspace: Workspace, column: str = "title", status: str = "ok") -> dict[str, str]:
    """Give a column of each document of a source, by its URI."""
    documents = workspace.tables.read("documents").filter(status=status)
    return {uri: value for uri, value in documents.select("uri", column).rows() if "://" in uri}
