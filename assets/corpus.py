"""Assets of the group ``corpus``, which have no partitions."""

import dagster as dg

from assets.metadata import describe_report
from assets.workspace_resource import WorkspaceResource
from backstory import pipeline
from backstory.orchestration import describe_columns

GROUP = "corpus"


def make_corpus_assets() -> list[dg.AssetsDefinition]:
    """Make the assets of documents and their index."""

    @dg.asset(group_name=GROUP, kinds={"parquet"}, metadata=describe_columns("documents"))
    def documents(workspace: WorkspaceResource) -> dg.MaterializeResult[None]:
        """Every revision of every document, with its status and error."""
        report = pipeline.materialize_documents(workspace.workspace)
        return dg.MaterializeResult(metadata=describe_report(report))

    @dg.asset(
        group_name=GROUP, deps=["documents"], kinds={"parquet"}, metadata=describe_columns("document_chunks")
    )
    def document_chunks(workspace: WorkspaceResource) -> dg.MaterializeResult[None]:
        """Stored chunks of the documents that are searched."""
        report = pipeline.materialize_document_chunks(workspace.workspace)
        return dg.MaterializeResult(metadata=describe_report(report))

    @dg.asset(
        group_name=GROUP,
        deps=["documents", "document_chunks"],
        kinds={"duckdb"},
    )
    def search_index(workspace: WorkspaceResource) -> dg.MaterializeResult[None]:
        """The published snapshot of vectors and keywords."""
        report = pipeline.materialize_search_index(workspace.workspace)
        return dg.MaterializeResult(metadata=describe_report(report))

    return [documents, document_chunks, search_index]
