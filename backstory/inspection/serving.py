"""Opens the search index for an answer to a person."""

from __future__ import annotations

import polars as pl

from backstory.index import SearchIndex, open_last_good
from backstory.tables import read_table
from backstory.workspace import Workspace


def open_served_index(workspace: Workspace) -> SearchIndex:
    """Open the published snapshot, or while it is damaged the last good one, which the index's ``degraded`` says.

    An earlier snapshot that holds a document which was deleted or forgotten since is never opened.

    Args:
        workspace: A workspace with a published snapshot.

    Returns:
        The open index, every file of which has its checksum.

    Raises:
        NoIndexError: No snapshot is published yet.
        EmbedderMismatchError: The snapshot was made with another embedder than that of the settings.
        SearchIndexError: The snapshot is damaged, and there is no earlier one to serve.
        DamagedTableError: The table ``documents``, which says what may be served, is damaged.
    """
    documents = read_table(workspace.tables, "documents").filter(pl.col("status") != "deleted")
    return open_last_good(
        workspace.index, embedder_id=workspace.embedder.id, documents=documents["document_id"]
    )
