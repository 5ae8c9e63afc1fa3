"""What an asset shows in the Dagster UI, made from tables and stage reports."""

import dagster as dg
import polars as pl

from backstory.pipeline.stage_report import StageReport, format_preview

_EXAMPLE_CHARACTERS = 160


def describe_report(report: StageReport) -> dict[str, dg.MetadataValue | int | float | str]:
    """Give the materialization metadata of a stage."""
    return {
        "dagster/row_count": report.rows,
        "partitions": report.partitions,
        "computed": report.computed,
        "seconds": round(report.seconds, 3),
        **{
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in report.counts.items()
        },
        "preview": dg.MetadataValue.md(format_preview(report.preview)),
    }


def describe_picture(markdown: str) -> dict[str, dg.MetadataValue | int | float | str]:
    """Give the metadata of a picture; the UI shows the image that the Markdown holds."""
    return {"picture": dg.MetadataValue.md(markdown)}


def describe_cases(cases: pl.DataFrame, rows: int | None = None) -> dict[str, dg.MetadataValue | int | float]:
    """Give the metadata of a check: how many rows fail, of how many where that is known, and the first of them."""
    share = {} if rows is None else {"failing_share": round(len(cases) / max(rows, 1), 4)}
    examples = format_preview(cases, cell_characters=_EXAMPLE_CHARACTERS)
    return {"failing_rows": len(cases), **share, "examples": dg.MetadataValue.md(examples)}
