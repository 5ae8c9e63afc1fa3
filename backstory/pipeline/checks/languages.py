"""The languages of a workspace's files and windows, and whether the embedding model knows them."""

from __future__ import annotations

import polars as pl

from backstory.pipeline.workspace import Workspace
from backstory.text.languages import english_name, is_known

LANGUAGE_REMEDY = "Set embedding.model to multilingual, or embedding.provider to gemini."
"""What to do if the model does not know a language."""

_UNCLEAR = "an unclear language"


def count_languages(workspace: Workspace) -> pl.DataFrame:
    """Count the files and windows of each language.

    Args:
        workspace: A workspace; some of its tables may not exist yet.

    Returns:
        ``what`` (``conversations`` and ``documents``, both of which count files, and ``windows``);
        ``language``, its English name, or "an unclear language" if it could not be detected; ``count``;
        and ``known``, whether the embedder knows it. Sorted by ``what``, the most frequent language first. Tables that
        do not exist yet have no rows.
    """
    files = workspace.tables.read("sources").filter(status="read").select("language", what="folder")
    windows = workspace.tables.read("window_contexts").select("language", what=pl.lit("windows"))
    counts = pl.concat([files, windows]).group_by("what", "language").agg(count=pl.len())
    known = [is_known(language, workspace.embedder.languages) for language in counts["language"]]
    return (
        counts.with_columns(
            english_name(pl.col("language")).fill_null(_UNCLEAR), known=pl.Series(known, dtype=pl.Boolean)
        )
        .select("what", "language", "count", "known")
        .sort("what", "count", "language", descending=[False, True, False])
    )


def describe_languages(counts: pl.DataFrame) -> str:
    """Write counts of languages as one line.

    Args:
        counts: From :func:`count_languages`.

    Returns:
        Such as "conversations: 1 in English; windows: 12 in English, 1 in German".
    """
    groups = counts.group_by("what", maintain_order=True).agg(
        pl.format("{} in {}", "count", "language").str.join(", ")
    )
    return "; ".join(f"{what}: {listed}" for what, listed in groups.rows())
