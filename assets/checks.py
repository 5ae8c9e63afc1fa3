"""Asset checks, one property each: blocking where rows would be wrong, a warning where quality is at stake."""

from collections.abc import Callable, Sequence

import dagster as dg
import polars as pl

from assets.metadata import describe_cases
from assets.workspace_resource import WorkspaceResource
from backstory import pipeline
from backstory.inspection import integrity
from backstory.tables import read_table
from backstory.tables.schemas import TABLES
from backstory.workspace import Workspace

FindCases = Callable[[Workspace, Sequence[str] | None], pl.DataFrame]

_WITHOUT_ASSET = ("quarantine", "sources")
_UNPARTITIONED = ("documents", "document_chunks", "search_index")


def make_checks() -> list[dg.AssetChecksDefinition]:
    """Make the checks of all tables."""
    checks = [_check(table, "contract", _contract(table)) for table in TABLES if table not in _WITHOUT_ASSET]
    checks += [
        _check(child, f"refers_to_{parent}", _reference(child, parent, on))
        for child, parent, on in integrity.REFERENCES
    ]
    checks += [
        _check("messages", "holds_no_real_name", pipeline.find_privacy_breaches),
        _check("windows", "refers_to_messages", integrity.find_unknown_messages),
        _check("contexts", "shows_nothing_from_the_future", integrity.find_late_documents),
        _check(
            "document_chunks", "is_exact_slice", lambda workspace, _: integrity.find_inexact_chunks(workspace)
        ),
        _check(
            "messages",
            "every_line_was_read",
            lambda workspace, _: integrity.find_unread_lines(workspace),
            warn=True,
        ),
        _check(
            "documents",
            "every_file_was_read",
            lambda workspace, _: integrity.find_unread_documents(workspace),
            warn=True,
        ),
        _check("window_contexts", "every_window_is_served", integrity.find_unserved_windows, warn=True),
        _check(
            "window_contexts",
            "contexts_are_sufficient",
            integrity.find_insufficient_windows,
            warn=True,
            show_share=True,
        ),
        _check(
            "search_index",
            "holds_every_chunk",
            lambda workspace, _: integrity.find_index_deviations(workspace),
        ),
        _check(
            "search_index",
            "finds_what_exact_search_finds",
            lambda workspace, _: integrity.find_low_recall(workspace),
            warn=True,
        ),
    ]
    return checks


def _check(
    asset: str, name: str, find_cases: FindCases, *, warn: bool = False, show_share: bool = False
) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=asset, name=name, blocking=not warn)
    def check(context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource) -> dg.AssetCheckResult:
        partitions = _partitions_of(context, asset)
        cases = find_cases(workspace.workspace, partitions)
        rows = len(read_table(workspace.workspace.tables, asset, partitions)) if show_share else None
        return dg.AssetCheckResult(
            passed=cases.is_empty(),
            severity=dg.AssetCheckSeverity.WARN if warn else dg.AssetCheckSeverity.ERROR,
            metadata=describe_cases(cases, rows),
        )

    return check


def _partitions_of(context: dg.AssetCheckExecutionContext, asset: str) -> Sequence[str] | None:
    run = context.op_execution_context
    if asset in _UNPARTITIONED or not (run.has_partition_key or run.has_partition_key_range):
        return None
    return run.partition_keys


def _contract(table: str) -> FindCases:
    return lambda workspace, partitions: integrity.find_contract_breaches(workspace, table, partitions)


def _reference(child: str, parent: str, on: Sequence[str]) -> FindCases:
    return lambda workspace, partitions: integrity.find_orphans(
        workspace, child, parent, on, partitions=partitions
    )
