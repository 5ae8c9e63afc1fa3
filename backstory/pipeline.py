"""The whole pipeline without Dagster: what a script or a service calls."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from backstory import stages
from backstory.stage_report import StageReport
from backstory.table_views import write_views
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
    keys = list(partitions) if partitions is not None else stages.find_partitions(workspace)
    reports = [
        stages.materialize_messages(workspace, keys),
        stages.materialize_windows(workspace, keys),
        stages.materialize_window_chunks(workspace, keys),
        stages.materialize_documents(workspace),
        stages.materialize_document_chunks(workspace),
        stages.materialize_search_index(workspace),
        stages.materialize_hits(workspace, keys),
        stages.materialize_decisions(workspace, keys),
        stages.materialize_contexts(workspace, keys),
        stages.materialize_window_contexts(workspace, keys),
    ]
    write_views(workspace.tables)
    logger.info(
        "pipeline done partitions=%d computed=%d seconds=%.2f",
        len(keys),
        sum(report.computed for report in reports),
        sum(report.seconds for report in reports),
    )
    return reports
