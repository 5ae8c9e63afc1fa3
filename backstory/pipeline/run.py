"""The whole pipeline without Dagster: what a script or a service calls."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from backstory.pipeline.conversations import (
    find_partitions,
    materialize_messages,
    materialize_window_chunks,
    materialize_windows,
)
from backstory.pipeline.corpus import (
    materialize_document_chunks,
    materialize_documents,
    materialize_search_index,
)
from backstory.pipeline.retrieval import (
    materialize_contexts,
    materialize_decisions,
    materialize_hits,
    materialize_window_contexts,
)
from backstory.pipeline.stage_report import StageReport
from backstory.tables.views import write_views
from backstory.workspace import Workspace

logger = logging.getLogger(__name__)


def run_pipeline(workspace: Workspace, partitions: Sequence[str] | None = None) -> list[StageReport]:
    """Materialize every table of a workspace, in the order in which data flows.

    Args:
        workspace: The workspace.
        partitions: Keys of the wanted partitions, or None for all that the chat exports span.

    Returns:
        One report per stage.

    Raises:
        BackstoryError: A stage could not be done; what the earlier ones wrote stays.
    """
    keys = list(partitions) if partitions is not None else find_partitions(workspace)
    reports = [
        materialize_messages(workspace, keys),
        materialize_windows(workspace, keys),
        materialize_window_chunks(workspace, keys),
        materialize_documents(workspace),
        materialize_document_chunks(workspace),
        materialize_search_index(workspace),
        materialize_hits(workspace, keys),
        materialize_decisions(workspace, keys),
        materialize_contexts(workspace, keys),
        materialize_window_contexts(workspace, keys),
    ]
    write_views(workspace.tables)
    logger.info(
        "pipeline done partitions=%d computed=%d seconds=%.2f",
        len(keys),
        sum(report.computed for report in reports),
        sum(report.seconds for report in reports),
    )
    return reports
