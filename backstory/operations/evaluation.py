"""Scores the library and a baseline, which searches once for each whole window, on one labelled set."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import polars as pl

from backstory.base.environment import cache_folder
from backstory.base.errors import InputError
from backstory.base.progress import show_progress
from backstory.index.build import arrange, publish_content
from backstory.index.calibration import calibrate
from backstory.index.chunks import cut_document_chunks, embedding_texts
from backstory.index.request import Filters, SearchRequest
from backstory.index.search import SearchIndex, open_index
from backstory.models.choice import make_embedder
from backstory.models.embeddings.embed import EmbeddingCache, embed_texts
from backstory.models.embeddings.protocol import Embedder, Task, Vectors
from backstory.operations.scoring import compare_methods, score_runs
from backstory.retrieval.assembly import Retrieval
from backstory.retrieval.hits import Queries, mean_vectors, plan_queries
from backstory.retrieval.query_chunks import cut_window_chunks
from backstory.settings.models import Settings
from backstory.storage.schema import CACHE
from backstory.storage.state_places import open_state
from backstory.storage.tables import schemas
from backstory.storage.tables.contracts import Table, conform, empty
from backstory.text.chunking.cut import cut_chunks
from backstory.text.languages import detect_language

OWN: Final = "backstory"
ONE_VECTOR: Final = "whole window, one vector"
KEYWORDS: Final = "whole window, keywords"
METHODS: Final = (OWN, ONE_VECTOR, KEYWORDS)

_DEPTH: Final = 10
_BASELINE_HITS: Final = 100


@dataclass(frozen=True)
class Comparison:
    """Scores of the methods on one set, from :func:`backstory.operations.scoring.compare_methods`."""

    name: str
    runs: pl.DataFrame
    """The ranked lists: ``window_id``, ``rank``, ``doc_id``, ``score``, ``method``."""
    table: pl.DataFrame
    figures: dict[str, int | float | str]
    """Counts, and seconds of the stages."""

    def as_record(self) -> dict[str, Any]:
        """Return the comparison as JSON-serializable data."""
        return {"set": self.name, "figures": self.figures, "scores": self.table.to_dicts()}


def evaluate_folder(folder: Path, settings: Settings) -> Comparison:
    """Score the library on a labelled set.

    The same functions as in the pipeline chunk, embed, index and search the documents. Vectors are cached in the
    user's cache folder, so that a second evaluation embeds nothing.
    """
    labelled = read_labelled_set(folder)
    embedder = make_embedder(settings.embedding)
    cache = EmbeddingCache(open_state(cache_folder(), None, CACHE))
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="backstory-eval-") as scratch:
        index, document_chunks = index_documents(Path(scratch), labelled, settings, embedder, cache)
        with index:
            indexed = time.perf_counter()
            chunks, vectors = embed_windows(labelled, settings, embedder, cache)
            embedded = time.perf_counter()
            retrieval = Retrieval.from_settings(settings, index)
            queries, hits = ask_windows(labelled, chunks, vectors, retrieval)
            own = rank_documents(chunks, queries, hits, retrieval)
            answered = time.perf_counter()
            window_ids, means = mean_vectors(chunks["window_id"], vectors)
            said = labelled.messages.filter(pl.col("text").is_not_null())
            joined = said.group_by(window_id="conversation_id").agg(pl.col("text").str.join("\n\n"))
            texts = window_ids.to_frame("window_id").join(joined, on="window_id", maintain_order="left")[
                "text"
            ]
            beginnings = _embed(
                embedder, _cut_beginnings(texts, embedder), cache, "query", "embedding baseline"
            )
            ask = partial(ask_once, index, labelled.windows, window_ids, as_of=retrieval.rag.as_of)
            whole = {ONE_VECTOR: ask(beginnings), KEYWORDS: ask(means, texts)}
    runs = pl.concat([own, *(_as_runs(found, method) for method, found in whole.items())])
    scores = score_runs(runs, labelled.qrels, name=labelled.name, methods=METHODS)
    figures: dict[str, int | float | str] = {
        "documents": len(labelled.documents),
        "document_chunks": len(document_chunks),
        "windows": len(labelled.windows),
        "messages": len(labelled.messages),
        "query_chunks": len(chunks),
        "embedder": embedder.id,
        "rerank": settings.rerank.provider,
        "index_seconds": round(indexed - started, 2),
        "query_embedding_seconds": round(embedded - indexed, 2),
        "query_seconds": round(answered - embedded, 2),
    }
    return Comparison(labelled.name, runs, compare_methods(scores, of=OWN), figures)


def index_documents(
    scratch: Path, labelled: LabelledSet, settings: Settings, embedder: Embedder, cache: EmbeddingCache
) -> tuple[SearchIndex, pl.DataFrame]:
    """Cut, embed and index the documents of a set in a folder; return the open index and table ``document_chunks``."""
    chunks = cut_document_chunks(
        labelled.documents,
        settings.chunks,
        max_tokens=embedder.max_input_tokens,
        counter=embedder,
        counter_id=embedder.id,
    )
    texts = embedding_texts(chunks, labelled.documents)
    vectors = _embed(embedder, texts, cache, "document", "embedding documents")
    calibration = calibrate(
        embedder,
        labelled.documents,
        chunks,
        vectors,
        lambda probes: embed_texts(embedder, probes, task="query", cache=cache).vectors,
    )
    # A server would keep the vectors of the set.
    embedded = settings.index.model_copy(update={"engine": "embedded"})
    publish_content(scratch, arrange(labelled.documents, chunks, vectors, embedder.id, embedded), calibration)
    return open_index(scratch, embedder_id=embedder.id), chunks


def embed_windows(
    labelled: LabelledSet, settings: Settings, embedder: Embedder, cache: EmbeddingCache
) -> tuple[pl.DataFrame, Vectors]:
    """Cut the windows of a set into query chunks; return table ``window_chunks``, and the vector of each row."""
    chunks = cut_window_chunks(
        labelled.windows,
        labelled.messages,
        settings.queries,
        max_tokens=min(settings.chunks.max_tokens, embedder.max_input_tokens),
        counter=embedder,
        default_min_tokens=embedder.default_query_tokens,
    )
    return chunks, _embed(embedder, chunks["text"].to_list(), cache, "query", "embedding query chunks")


def ask_windows(
    labelled: LabelledSet, chunks: pl.DataFrame, vectors: Vectors, retrieval: Retrieval
) -> tuple[Queries, pl.DataFrame]:
    """Search with the query chunks for at least ten hits each; return the queries and table ``hits``."""
    deep = _deepen(retrieval)
    queries = plan_queries(labelled.windows, chunks, vectors, deep.rag)
    return queries, deep.find_hits(queries).frame


def rank_documents(
    window_chunks: pl.DataFrame, queries: Queries, hits: pl.DataFrame, retrieval: Retrieval
) -> pl.DataFrame:
    """Choose up to ten documents from the hits of each window, as the pipeline does; return them as ranked lists."""
    budget = 2 * retrieval.context.max_tokens
    judged = _deepen(retrieval).judge(hits, window_chunks, queries.vectors_of, max_tokens=budget)
    chosen = (
        judged.frame.filter("kept")
        .group_by("window_id", "document_id")
        .agg(pl.col("rank").min(), pl.col("score").max())
        .sort("window_id", "rank")
    )
    return _as_runs(rank_distinct(chosen), OWN)


def _cut_beginnings(texts: pl.Series, embedder: Embedder) -> list[str]:
    """Cut off what the embedder does not take of each text."""
    most = embedder.max_input_tokens
    cut = cut_chunks(texts.to_list(), max_tokens=most, overlap_tokens=0, counter=embedder)
    return [text[: spans[0].end] if spans else "" for text, spans in zip(texts, cut, strict=True)]


def _embed(embedder: Embedder, texts: list[str], cache: EmbeddingCache, task: Task, label: str) -> Vectors:
    with show_progress(label) as progress:
        return embed_texts(embedder, texts, task=task, cache=cache, progress=progress).vectors


def _deepen(retrieval: Retrieval) -> Retrieval:
    rag = retrieval.rag
    deep = {"top_k": max(_DEPTH, rag.top_k), "chunks_per_query": max(_DEPTH, rag.chunks_per_query)}
    return replace(retrieval, rag=rag.model_copy(update=deep))


def ask_once(
    index: SearchIndex,
    windows: pl.DataFrame,
    window_ids: pl.Series,
    vectors: Vectors,
    keywords: pl.Series | None = None,
    *,
    as_of: bool,
) -> pl.DataFrame:
    """Rank the best documents of each window by one vector, or by its keywords where they are given.

    Returns ``window_id``, ``document_id``, ``rank``, ``score``.
    """
    starts = windows.select("window_id", "started_at")
    queries = pl.DataFrame({"window_id": window_ids}).join(starts, on="window_id", maintain_order="left")
    request = SearchRequest(
        top_k=_BASELINE_HITS,
        mode="exact",
        ranking="dense" if keywords is None else "keyword",
        keyword_terms=None,
        filters=Filters(as_of=queries["started_at"].to_list() if as_of else None),
    )
    result = index.search(vectors, request, texts=None if keywords is None else keywords.to_list())
    found = queries.with_row_index("query").cast({"query": pl.Int64})
    return rank_distinct(found.join(result.hits, on="query", maintain_order="left_right"))


def rank_distinct(found: pl.DataFrame) -> pl.DataFrame:
    """Number the documents of each window in their order, each at its best place."""
    distinct = found.unique(["window_id", "document_id"], keep="first", maintain_order=True)
    place = pl.int_range(1, pl.len() + 1).over("window_id").alias("rank")
    return distinct.select("window_id", "document_id", place, pl.col("score").cast(pl.Float64))


def _as_runs(ranked: pl.DataFrame, method: str) -> pl.DataFrame:
    """Return the first ten ranked documents of each window as ranked lists."""
    first = ranked.filter(pl.col("rank") <= _DEPTH)
    return first.select(
        "window_id", "rank", pl.col("document_id").alias("doc_id"), "score", method=pl.lit(method)
    )


_TIME = pl.Datetime("us", "UTC")
_COLUMNS: dict[str, dict[str, pl.DataType | type[pl.DataType]]] = {
    "docs": {
        "doc_id": pl.String,
        "title": pl.String,
        "text": pl.String,
        "tags": pl.List(pl.String),
        "date": _TIME,
    },
    "windows": {
        "window_id": pl.String,
        "msg_no": pl.Int64,
        "author": pl.String,
        "message": pl.String,
        "timestamp": _TIME,
    },
    "qrels": {"window_id": pl.String, "doc_id": pl.String, "rel": pl.Int64, "topic": pl.String},
    "msg_topics": {"window_id": pl.String, "msg_no": pl.Int64, "topic": pl.String},
}
_MESSAGE_ID = (pl.col("window_id") + "#" + pl.col("msg_no").cast(pl.String)).alias("message_id")


@dataclass(frozen=True)
class LabelledSet:
    """The set in the library's own tables. A conversation is one window, and ids are those of the set."""

    name: str
    documents: pl.DataFrame
    messages: pl.DataFrame
    windows: pl.DataFrame
    qrels: pl.DataFrame
    """``window_id``, ``doc_id``, ``rel`` (1 or 2), ``topic``, and ``answer``: words that must be shown, or null."""
    message_topics: pl.DataFrame | None
    """``message_id`` and ``topic``; None without ``msg_topics.parquet``."""


def read_labelled_set(folder: Path) -> LabelledSet:
    """Read a set of ``docs.parquet``, ``windows.parquet`` and ``qrels.parquet``, in the order of the ids.

    ``msg_topics.parquet`` (``window_id``, ``msg_no``, ``topic``) may give the topics of messages, and a column
    ``answer`` of ``qrels.parquet`` what a document must show.
    """
    docs, windows, qrels = (_read(folder, name) for name in ("docs", "windows", "qrels"))
    messages, starts = make_windows(windows)
    answer = pl.col("answer") if "answer" in qrels.columns else pl.lit(None, dtype=pl.String).alias("answer")
    relevant = qrels.filter(pl.col("rel") > 0).with_columns(answer)
    _check_references(folder, starts, docs, relevant)
    topics = None
    if (folder / "msg_topics.parquet").is_file():
        topics = _read(folder, "msg_topics").select(_MESSAGE_ID, pl.col("topic").fill_null(""))
    return LabelledSet(folder.name, _make_documents(docs), messages, starts, relevant, topics)


def make_windows(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Make the tables ``messages`` and ``windows`` of rows as ``windows.parquet`` holds them."""
    messages = _fill(
        schemas.Messages,
        rows.sort("window_id", "timestamp", "msg_no").select(
            _MESSAGE_ID,
            "author",
            "timestamp",
            conversation_id="window_id",
            local_time=pl.col("timestamp").dt.replace_time_zone(None),
            timezone=pl.lit("UTC"),
            seq="msg_no",
            text="message",
            kind=pl.lit("message"),
            source=pl.lit("windows.parquet"),
            reactions=pl.lit([]),
            edited=pl.lit(value=False),
        ),
    )
    starts = messages.group_by(window_id="conversation_id", maintain_order=True).agg(
        conversation_id=pl.col("conversation_id").first(),
        started_at=pl.col("timestamp").min(),
        ended_at=pl.col("timestamp").max(),
        timezone=pl.col("timezone").first(),
        partition=pl.col("timestamp").min().dt.strftime("%Y-%m-%d"),
        message_count=pl.len(),
        message_ids=pl.col("message_id"),
        token_count=pl.lit(0),
    )
    return messages, _fill(schemas.Windows, starts)


def _make_documents(docs: pl.DataFrame) -> pl.DataFrame:
    language = pl.struct("title", "text").map_elements(
        lambda row: detect_language(row.values()), return_dtype=pl.String
    )
    table = docs.sort("doc_id").select(
        pl.col("doc_id").alias("document_id"),
        pl.col("title", "text").fill_null(""),
        pl.col("tags").fill_null([]),
        revision=pl.lit("1"),
        uri="doc_id",
        slug="doc_id",
        published_at="date",
        kind=pl.lit("post"),
        tenant=pl.lit(""),
        format=pl.lit("markdown"),
        page_starts=pl.lit([], dtype=pl.List(pl.Int64)),
        confidences=pl.lit([], dtype=pl.List(pl.Float64)),
        chunker=pl.lit("markdown"),
        language=language,
        content_hash=pl.lit(""),
        status=pl.lit("ok"),
    )
    return _fill(schemas.Documents, table)


def _fill(model: type[Table], rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows as those of a table; columns that they lack are null."""
    return conform(pl.concat([empty(model), rows], how="diagonal_relaxed"), model)


def _check_references(
    folder: Path, windows: pl.DataFrame, docs: pl.DataFrame, relevant: pl.DataFrame
) -> None:
    path = folder / "qrels.parquet"
    for found, wanted, column, what in (
        (windows, relevant, "window_id", "windows have no relevant document in"),
        (relevant, docs, "doc_id", "labels name a document that docs.parquet does not hold, in"),
        (relevant, windows, "window_id", "labels name a window that windows.parquet does not hold, in"),
    ):
        absent = found.join(wanted, on=column, how="anti")[column].unique().sort()
        if len(absent):
            raise InputError(f"{len(absent)} {what} {path}: {', '.join(absent.head(5))}", code="unknown_ids")


def _read(folder: Path, name: str) -> pl.DataFrame:
    path = folder / f"{name}.parquet"
    if not path.is_file():
        what = f"{path} is absent; a labelled set holds docs.parquet, windows.parquet and qrels.parquet"
        raise InputError(what, code="absent_file")
    frame, wanted = pl.read_parquet(path), dict(_COLUMNS[name])
    if "answer" in frame.columns:
        wanted["answer"] = pl.String
    if absent := wanted.keys() - set(frame.columns):
        what = f"{path}: column {', '.join(sorted(absent))} is absent; found {', '.join(frame.columns)}"
        raise InputError(what, code="absent_column")
    return frame.select(pl.col(column).cast(dtype) for column, dtype in wanted.items())
