"""From a labelled set to a job: the input of every peer, and the vectors of all texts that it looks up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from backstory.base.environment import cache_folder
from backstory.base.progress import show_progress
from backstory.models.choice import make_embedder
from backstory.models.embeddings.embed import EmbeddingCache, embed_texts
from backstory.models.embeddings.protocol import Embedder, Task
from backstory.operations.evaluation import LabelledSet, embed_windows, index_documents, read_labelled_set
from backstory.operations.scoring import name_group
from backstory.settings.models import Settings
from backstory.storage.schema import CACHE
from backstory.storage.state_places import open_state
from backstory.text.chunking.cut import cut_chunks
from benchmarks.peers.job import UNDATED, Document, VectorTable, Window


@dataclass(frozen=True)
class Space:
    """The embedding space: the same embedder and cache for Backstory and all peers.

    Attributes:
        settings: Settings of Backstory.
        embedder: The embedder of these settings.
        cache: The cache of ``backstory eval``.
    """

    settings: Settings
    embedder: Embedder
    cache: EmbeddingCache

    @classmethod
    def open(cls) -> Space:
        """Open the space of the default settings, with the user's cache folder."""
        settings = Settings()
        cache = EmbeddingCache(open_state(cache_folder(), None, CACHE))
        return cls(settings, make_embedder(settings.embedding), cache)


def read_sample(folder: Path, windows_per_group: int | None) -> LabelledSet:
    """Read a labelled set with the first windows of each group and all documents.

    Args:
        folder: The labelled set.
        windows_per_group: Most windows per group, or None for all.

    Returns:
        The sampled set.
    """
    labelled = read_labelled_set(folder)
    if windows_per_group is None:
        return labelled
    group = pl.col("window_id").map_elements(
        lambda window_id: name_group(window_id, labelled.name), return_dtype=pl.String
    )
    windows = labelled.windows.filter(pl.col("window_id").cum_count().over(group) <= windows_per_group)
    kept = windows["window_id"].implode()
    return replace(
        labelled,
        windows=windows,
        messages=labelled.messages.filter(pl.col("conversation_id").is_in(kept)),
        qrels=labelled.qrels.filter(pl.col("window_id").is_in(kept)),
    )


def list_documents(labelled: LabelledSet) -> list[Document]:
    """Convert the documents of a set for the peers."""
    published = pl.col("published_at").dt.epoch("us").fill_null(UNDATED)
    rows = labelled.documents.select("document_id", "title", "text", published).iter_rows()
    return [Document(*row) for row in rows]


def list_windows(labelled: LabelledSet, query_chunks: pl.DataFrame, embedder: Embedder) -> list[Window]:
    """Convert the windows of a set for the peers, with the texts of their queries.

    Args:
        labelled: The set.
        query_chunks: Table ``window_chunks`` of its windows.
        embedder: Sets the limit to which whole windows are cut.

    Returns:
        The windows, in the order of the set.
    """
    with_text = labelled.messages.filter(pl.col("text").is_not_null())
    transcripts = with_text.group_by(window_id="conversation_id", maintain_order=True).agg(
        transcript=pl.col("text").str.join("\n\n")
    )
    cut = pl.Series("text", cut_to_input(transcripts["transcript"].to_list(), embedder))
    listed = query_chunks.group_by("window_id", maintain_order=True).agg("text")
    rows = (
        labelled.windows.select("window_id", pl.col("started_at").dt.epoch("us"))
        .join(transcripts.with_columns(cut), on="window_id", how="left", maintain_order="left")
        .join(listed.rename({"text": "query_chunks"}), on="window_id", how="left", maintain_order="left")
        .select("window_id", "started_at", "text", "transcript", "query_chunks")
        .iter_rows()
    )
    return [Window(*row) for row in rows]


def embed_for_peers(texts: Sequence[str], task: Task, space: Space, label: str) -> VectorTable:
    """Embed texts, truncated to the embedder's limit.

    Args:
        texts: Texts of any length; repeated texts are embedded once.
        task: Whether the texts are queries or documents.
        space: Embedder and cache.
        label: Label of the progress bar.

    Returns:
        The vectors by the whole, not truncated, texts.
    """
    unique = list(dict.fromkeys(texts))
    beginnings = cut_to_input(unique, space.embedder)
    with show_progress(label) as progress:
        embedded = embed_texts(space.embedder, beginnings, task=task, cache=space.cache, progress=progress)
    return VectorTable(unique, embedded.vectors)


def cut_to_input(texts: list[str], embedder: Embedder) -> list[str]:
    """Truncate each text to the embedder's limit."""
    counts = embedder.count_tokens(texts)
    long = [row for row, count in enumerate(counts) if count > embedder.max_input_tokens]
    spans = cut_chunks(
        [texts[row] for row in long],
        max_tokens=embedder.max_input_tokens,
        overlap_tokens=0,
        counter=embedder,
    )
    kept = list(texts)
    for row, parts in zip(long, spans, strict=True):
        kept[row] = texts[row][: parts[0].end]
    return kept


def embed_library(labelled: LabelledSet, space: Space, scratch: Path) -> pl.DataFrame:
    """Embed the texts of Backstory's run, so that the measured run finds all vectors in the cache.

    Args:
        labelled: The set.
        space: Embedder and cache.
        scratch: Folder for an index, which is not used afterwards.

    Returns:
        The query chunks, table ``window_chunks``.
    """
    index, _ = index_documents(scratch, labelled, space.settings, space.embedder, space.cache)
    index.close()
    chunks, _ = embed_windows(labelled, space.settings, space.embedder, space.cache)
    return chunks
