"""A weekly newsletter of the posts that Backstory wrote, as a Dagster code location of its own."""

import os
from datetime import datetime
from html import escape
from pathlib import Path

import dagster as dg
import ibis

from backstory.interfaces.dagster_specs.asset_specs import asset_specs, partitions_definition, partitions_of
from backstory.interfaces.dagster_specs.tables_resource import TablesResource
from backstory.pipeline.workspace import open_workspace
from backstory.settings.models import PartitionSettings

WORKSPACE = Path(os.environ["BACKSTORY_WORKSPACE"])
LETTERS = Path(os.environ.get("NEWSLETTER_FOLDER", "letters"))

SPECS = {spec.key.path[-1]: spec for spec in asset_specs(WORKSPACE)}

# Weeks from the Monday on or before Backstory's first day; days before that one do not exist.
WEEKS = partitions_definition(
    PartitionSettings(grain="week", start=f"{partitions_of(open_workspace(WORKSPACE)).start:%Y-%m-%d}")
)
DAYS_OF_WEEK = dg.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)

# A week is due once one of its days has other contexts or posts than before. It waits for the run that makes them, and
# what changes while a letter is being written makes it due again.
CHANGED = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed())
DUE = (
    CHANGED.since(dg.AutomationCondition.newly_requested())
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.in_progress()
)


@dg.asset(
    deps=[
        dg.AssetDep(SPECS[table], partition_mapping=DAYS_OF_WEEK) for table in ("window_contexts", "posts")
    ],
    partitions_def=WEEKS,
    automation_condition=DUE,
    group_name="newsletter",
    kinds={"html", "ibis"},
    owners=["team:newsletter"],
)
def newsletter(context: dg.AssetExecutionContext, tables: TablesResource) -> dg.MaterializeResult:
    """One HTML page per week: its posts with links to their files, and how well their context covers each window."""
    week = context.partition_time_window
    backend = tables.connect()
    posts, contexts = backend.table("posts"), backend.table("window_contexts")
    found = (
        posts.join(contexts, "window_id")
        .filter(posts.status.isin(["written", "edited"]))
        .filter(posts.published_at >= ibis.literal(week.start), posts.published_at < ibis.literal(week.end))
        .order_by("published_at", "slug")
        .select("title", "path", "published_at", "coverage", documents=posts.cited_documents.length())
        .to_pyarrow()
        .to_pylist()
    )
    page = LETTERS / f"{context.partition_key}.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(write_letter(week.start, found), encoding="utf-8")
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(found),
            "letter": dg.MetadataValue.url(page.resolve().as_uri()),
            "posts": dg.MetadataValue.md("\n".join(f"- {post['title']}" for post in found) or "*no posts*"),
        }
    )


def write_letter(week: datetime, posts: list[dict[str, object]]) -> str:
    """Write the page of a week."""
    items = [
        f'<li><a href="{escape((WORKSPACE / str(post["path"])).resolve().as_uri())}">{escape(str(post["title"]))}</a>'
        f"<br>{post['published_at']:%A, %H:%M} UTC, documents cited: {post['documents']}, "
        f"parts of the conversation with context: {post['coverage']:.0%}</li>"
        for post in posts
    ]
    heading = f"Week of {week:%d %B %Y}"
    style = (
        "body{font:1.1em/1.6 serif;max-width:40em;margin:3em auto;color-scheme:light dark}li{margin:1em 0}"
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{heading}</title><style>{style}</style>'
        f"<h1>{heading}</h1><ul>{''.join(items)}</ul>{'' if items else '<p>No posts this week.</p>'}</html>\n"
    )


defs = dg.Definitions(
    assets=[*SPECS.values(), newsletter], resources={"tables": TablesResource(root=str(WORKSPACE))}
)
