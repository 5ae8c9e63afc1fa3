"""The result of a run as one record, for ``backstory run --json``."""

from __future__ import annotations

from typing import Any

from backstory.pipeline.run.runner import RunResult


def make_record(result: RunResult) -> dict[str, Any]:
    """Return everything that a run has to say, with names that do not depend on the wording."""
    return {
        "run_id": result.run_id,
        "partitions": list(result.partitions),
        "unchanged": result.fresh,
        "finished": result.finished,
        "seconds": round(result.seconds, 3),
        "differences": result.differences.as_record(),
        "failures": result.failures,
        "waiting": result.waiting or None,
        "stopped": result.stopped,
        "checks": [
            {
                "table": finding.check.table,
                "name": finding.check.name,
                "blocking": finding.check.blocking,
                "cases": len(finding.cases),
                "message": finding.message,
            }
            for finding in result.findings
            if not finding.passed
        ],
        "files": result.unfinished.select("source", "folder", "status", "reason").to_dicts(),
        "tables": [
            {"table": report.table, **report.figures, "unchanged": report.unchanged}
            for report in result.reports
        ],
    }
