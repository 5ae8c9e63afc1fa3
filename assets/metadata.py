"""Build the metadata that the Dagster UI shows for an asset, from tables and stage reports."""

from collections.abc import Mapping, Sequence

import dagster as dg
import polars as pl

from backstory.base.wording import name_some
from backstory.pipeline.incremental.report import StageResult, format_preview
from backstory.pipeline.workspace import Workspace
from backstory.text.prompts.entries import cut_snippet
from backstory.text.prompts.escaping import escape_line
from backstory.writing.posts import PUBLISHED

Metadata = dict[str, dg.MetadataValue | int | float | str]

_EXAMPLE_CHARACTERS = 160
_NAMED_PARTITIONS = 5
_LINKED_POSTS = 10
_POST_CHARACTERS = 4000
_COUNTED = ("status", "verdict", "cause")


def describe_report(report: StageResult) -> Metadata:
    """Return the figures of a stage over all partitions of the run: counts, seconds, and what its calls cost."""
    return {
        "seconds": round(report.seconds, 3),
        **{
            # Significant digits, since the cost of a stage may be a hundredth of a cent.
            name: float(f"{value:.6g}") if isinstance(value, float) else value
            for name, value in report.counts.items()
        },
    }


def describe_rows(rows: pl.DataFrame) -> Metadata:
    """Return a preview of the rows of one partition, and the number of rows per status, verdict and cause."""
    counts = {
        f"{column}_{value}": count
        for column in _COUNTED
        if column in rows.columns
        for value, count in rows[column].value_counts().sort(column).iter_rows()
    }
    return {**counts, "preview": dg.MetadataValue.md(format_preview(rows))}


def describe_posts(workspace: Workspace, rows: pl.DataFrame) -> Metadata:
    """Return the cost of the posts of one partition, the first post as text, and links to their files."""
    if workspace.settings.writers.provider == "none":
        return {"writer": "none is set; `writers.provider` names one (docs/configuration.md)"}
    posts = rows.filter(pl.col("status").is_in(PUBLISHED)).sort("published_at", "slug")
    known: Metadata = {"cost": float(f"{rows['cost'].sum():.6g}")} if rows["cost"].count() else {}
    shown: Metadata = {}
    for place, post in enumerate(posts.head(_LINKED_POSTS).to_dicts(), 1):
        shown[f"file_{place}"] = dg.MetadataValue.url((workspace.root / post["path"]).as_uri())
    if first := posts.head(1).to_dicts():
        text = cut_snippet(first[0]["text"], _POST_CHARACTERS)
        shown["post"] = dg.MetadataValue.md(f"# {escape_line(first[0]['title'])}\n\n{text}")
    return {
        "writer": ", ".join(rows["writer"].unique().sort()) or "not called, since there are no windows",
        "posts": posts.height,
        "tokens_in": int(rows["tokens_in"].sum()),
        "tokens_out": int(rows["tokens_out"].sum()),
        "removed_citations": int(rows["removed_citations"].sum()),
        **known,
        **shown,
    }


def describe_cases(cases: pl.DataFrame, rows: int, by_partition: Mapping[str, int]) -> Metadata:
    """Return the metadata of a check: how many rows fail, their share, and the first failing rows."""
    examples = format_preview(cases, cell_characters=_EXAMPLE_CHARACTERS)
    return {
        "failing_rows": sum(by_partition.values()),
        "failing_partitions": name_partitions(sorted(by_partition)),
        "failing_share": round(len(cases) / max(rows, 1), 4),
        "examples": dg.MetadataValue.md(examples if len(cases) else "*none in this run*"),
    }


def name_partitions(keys: Sequence[str]) -> str:
    """Name the first few partitions, and count the rest."""
    return name_some(keys, _NAMED_PARTITIONS)
