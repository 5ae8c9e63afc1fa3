"""The documents of a workspace, and what is wrong with them, from the tables of its last run."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from backstory.documents.sources import name_source
from backstory.tables import read_table
from backstory.tables.views import read_document_catalog
from backstory.workspace import Workspace


class Flaw(NamedTuple):
    """A file of documents that was not read, or not wholly.

    Attributes:
        source: The file, as table ``sources`` names it.
        status: Its status there.
        reason: Why, and what to do.
    """

    source: str
    status: str
    reason: str


def list_documents(workspace: Workspace) -> list[dict[str, Any]]:
    """List the documents by path; see :mod:`backstory.tables.document_catalog`.

    Raises:
        WorkspaceError: There was no run yet, or a run changes the tables all the time.
    """
    return read_document_catalog(workspace.tables).to_dicts()


def list_flaws(workspace: Workspace) -> list[Flaw]:
    """List the files of documents that were not read, or not wholly, but for those that a rule leaves out."""
    sources = read_table(workspace.tables, "sources", ["documents"]).select("source", "status", "reason")
    found = [Flaw(*row) for row in sources.filter(~pl.col("status").is_in(["read", "ignored"])).iter_rows()]
    folder = workspace.settings.documents.folder
    found += [
        Flaw(name_source(folder, row["uri"]), "read", row["unread"])
        for row in list_documents(workspace)
        if row["status"] == "ok" and row["unread"] is not None
    ]
    return sorted(found)
