"""The documents of a workspace and their problems, from the tables of its last run."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from backstory.base.errors import WorkspaceError
from backstory.ingest.documents.files import list_foreign
from backstory.ingest.documents.written import name_source
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.tables import WHOLE
from backstory.storage.tables.views import read_document_catalog


class Flaw(NamedTuple):
    """A document file that was not read, or only in part.

    Attributes:
        source: The file, as table ``sources`` names it.
        status: Its status there.
        reason: Why, and what to do.
    """

    source: str
    status: str
    reason: str


def list_documents(workspace: Workspace) -> list[dict[str, Any]]:
    """List the documents by path; only those of ``rag.tenant``, if set.

    Returns:
        Rows as :mod:`backstory.storage.tables.views` describes them.

    Raises:
        WorkspaceError: No run has read the documents yet (code ``no_tables``).
    """
    if not workspace.catalog.read("documents"):
        raise WorkspaceError(
            f"no run has read the documents of {workspace.root} yet; start `backstory run`, or without chats "
            "`backstory add`",
            code="no_tables",
        )
    rows = workspace.date_locally(read_document_catalog(workspace.tables))
    tenant = workspace.settings.rag.tenant
    if tenant is not None:
        mine = _read_tenants(workspace).filter(pl.col("tenant") == tenant)
        rows = rows.join(mine, on=["document_id", "revision"], how="semi", maintain_order="left")
    return rows.to_dicts()


def list_flaws(workspace: Workspace) -> list[Flaw]:
    """List the document files that were not read, or only in part. Files that a rule leaves out are not listed.

    If ``rag.tenant`` is set, files of other tenants are not listed either.
    """
    sources = workspace.tables.read("sources", ["documents"]).select("source", "status", "reason")
    folder = workspace.settings.documents.folder
    foreign = list_foreign(_read_tenants(workspace), workspace.settings.rag.tenant)
    hidden = pl.col("source").is_in([name_source(folder, uri) for uri in foreign])
    unread = sources.filter(~pl.col("status").is_in(["read", "ignored"]) & ~hidden)
    found = [Flaw(*row) for row in unread.iter_rows()]
    found += [
        Flaw(name_source(folder, row["uri"]), "read", row["unread"])
        for row in list_documents(workspace)
        if row["status"] == "ok" and row["unread"] is not None
    ]
    return sorted(found)


def _read_tenants(workspace: Workspace) -> pl.DataFrame:
    documents = workspace.tables.read("documents", [WHOLE]).filter(pl.col("status") != "superseded")
    return documents.select("document_id", "revision", "uri", "tenant")
