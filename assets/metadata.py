"""What an asset shows in the Dagster UI, made from tables and stage reports."""

from collections.abc import Mapping, Sequence

import dagster as dg
import polars as pl

from backstory.pipeline.stage_report import StageReport, format_preview

Metadata = dict[str, dg.MetadataValue | int | float | str]

_EXAMPLE_CHARACTERS = 160
_NAMED_PARTITIONS = 5
_COUNTED = ("status", "verdict", "cause")


def describe_report(report: StageReport) -> Metadata:
    """Give the figures of a stage: those of all partitions that it was asked for."""
    return {
        "seconds": round(report.seconds, 3),
        **{
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in report.counts.items()
        },
    }


def describe_rows(rows: pl.DataFrame) -> Metadata:
    """Give what one partition shows of its rows: the first of them, and how many have which status."""
    counts = {
        f"{column}_{value}": count
        for column in _COUNTED
        if column in rows.columns
        for value, count in rows[column].value_counts().sort(column).iter_rows()
    }
    return {**counts, "preview": dg.MetadataValue.md(format_preview(rows.head(5)))}


def describe_picture(markdown: str) -> Metadata:
    """Give the metadata of a picture; the UI shows the image that the Markdown holds."""
    return {"picture": dg.MetadataValue.md(markdown)}


def describe_cases(cases: pl.DataFrame, rows: int | None, by_partition: Mapping[str, int]) -> Metadata:
    """Give the metadata of a check: how many rows fail, of how many where that is known, and the first of them.

    Args:
        cases: What was found in this run.
        rows: Rows that were looked at, or None.
        by_partition: Cases of all partitions, as each was last looked at.
    """
    share = {} if rows is None else {"failing_share": round(len(cases) / max(rows, 1), 4)}
    examples = format_preview(cases, cell_characters=_EXAMPLE_CHARACTERS)
    return {
        "failing_rows": sum(by_partition.values()),
        "failing_partitions": name_partitions(sorted(by_partition)),
        **share,
        "examples": dg.MetadataValue.md(examples if len(cases) else "*none in this run*"),
    }


def name_partitions(keys: Sequence[str]) -> str:
    """Name the first few of some partitions, and say how many there are."""
    more = f" and {len(keys) - _NAMED_PARTITIONS} more" if len(keys) > _NAMED_PARTITIONS else ""
    return ", ".join(keys[:_NAMED_PARTITIONS]) + more
