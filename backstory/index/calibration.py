"""The constants of an embedding space: kept where labels have measured them, else derived from the documents.

How far cosines spread differs between models. A temperature or a weight that suits one model is too coarse or too fine
for another. The spread is measured by probes: short runs of sentences from a sample of the documents, embedded as
queries. It needs no labels and no chats, so that it changes only when the documents do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from backstory.base.ids import WRITTEN_PREFIX, digest
from backstory.models.embeddings.protocol import Embedder, Vectors
from backstory.settings.models import RAGSettings
from backstory.text.chunking.units import split_sentences

LEAST_DOCUMENTS: Final = 50
"""With fewer documents the spread is chance."""
MOST_PROBES: Final = 128

_KEYWORDS_PER_TEMPERATURE = 2.5  # the shipped model's weight of keywords by its temperature
_LEAST_TEMPERATURE = 0.001  # documents that are all alike have no spread
_BEST = 5
_DIGITS = 2
_ROWS_AT_ONCE = 8192
_KEY = ("document_id", "revision")

Positions = NDArray[np.int64]
EmbedQueries = Callable[[Sequence[str]], Vectors]


class Calibration(BaseModel):
    """The constants of an embedding space for the documents of a snapshot, and what has measured them.

    ``temperature`` is the difference in score, in cosine, that changes the evidence by the factor e. The threshold
    ``min_similarity`` is None where only the embedder can tell. With too few documents, the constants are those of the
    shipped model.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float
    keyword_weight: float
    min_similarity: float | None
    origin: Literal["labels", "documents", "too few documents"]
    probes: int = 0


DEFAULT_CALIBRATION: Final = Calibration(
    temperature=0.04, keyword_weight=0.1, min_similarity=None, origin="too few documents"
)
"""The constants of the shipped model, which labels have measured (docs/studies/other-models.md)."""
_MEASURED_SPACE: Final = "local:granite-embedding-30m-english:"
"""Beginning of the id of the embedder for which they were measured."""


def calibrate(
    embedder: Embedder,
    documents: pl.DataFrame,
    document_chunks: pl.DataFrame,
    vectors: Vectors,
    embed_queries: EmbedQueries,
) -> Calibration:
    """Return the constants of the embedder's space, the same for the same documents of people.

    Written posts do not count: else the hits of a window would depend on later ones. ``vectors`` are unit rows in the
    order of ``document_chunks``. ``embed_queries`` is called, with at most 128 short texts, only if the constants have
    to be derived.
    """
    shipped = DEFAULT_CALIBRATION.model_copy(update={"min_similarity": embedder.default_min_similarity})
    if embedder.id.startswith(_MEASURED_SPACE):
        return shipped.model_copy(update={"origin": "labels"})
    by_people = documents.filter(
        (pl.col("status") == "ok") & ~pl.col("uri").str.starts_with(WRITTEN_PREFIX)
    ).select(*_KEY)
    counted = document_chunks.with_row_index("row").join(
        by_people.with_row_index("document"), on=_KEY, maintain_order="left"
    )
    if counted["document"].n_unique() < LEAST_DOCUMENTS:
        return shipped
    texts, places = _make_probes(counted, embedder)
    rows = counted.select("row", "document").to_numpy().astype(np.int64)
    derived = _derive(embed_queries(texts), np.array(places), vectors, rows)
    # A threshold that the model states is not replaced.
    return derived.model_copy(
        update={"min_similarity": embedder.default_min_similarity or derived.min_similarity}
    )


def find_threshold(settings: RAGSettings, embedder: Embedder, calibration: Calibration) -> float:
    """Return the cosine below which a hit is no evidence: of the settings, the calibration, or the embedder."""
    stated = (settings.min_similarity, calibration.min_similarity)
    return next((found for found in stated if found is not None), embedder.default_min_similarity)


def describe_calibration(calibration: Calibration) -> str:
    """Describe the constants and their origin in words."""
    threshold = "" if calibration.min_similarity is None else f", threshold {calibration.min_similarity:g}"
    origins = {
        "labels": "measured on labelled sets with this model",
        "documents": f"derived from the documents by {calibration.probes} probes",
        "too few documents": f"fewer than {LEAST_DOCUMENTS} documents, too few to calibrate: the constants are those "
        "of the shipped model",
    }
    constants = f"temperature {calibration.temperature:g}, keyword weight {calibration.keyword_weight:g}"
    return f"{constants}{threshold}; {origins[calibration.origin]}"


def _make_probes(chunks: pl.DataFrame, embedder: Embedder) -> tuple[list[str], list[int]]:
    """Take a run of sentences, as long as a query chunk, from a chunk of each sampled document; give its position, too.

    Hashes choose, so that an added document changes one probe at most.
    """
    names = chunks.select("document", "document_id").unique("document").rows()
    sampled = sorted(names, key=lambda row: digest(["probe", row[1]]))[:MOST_PROBES]
    found = chunks.filter(pl.col("document").is_in([document for document, _ in sampled]))
    texts, places = [], []
    for (document,), group in found.group_by("document", maintain_order=True):
        chunk_id, text = min(group.select("chunk_id", "text").iter_rows(), key=lambda row: digest(row))
        runs = _cut_runs(text, embedder)
        if runs:
            texts.append(runs[int(digest(["run", chunk_id], length=8), 16) % len(runs)])
            places.append(int(str(document)))
    return texts, places


def _cut_runs(text: str, embedder: Embedder) -> list[str]:
    """Cut a text into runs of whole sentences that reach the length of a query chunk; a shorter rest is left out."""
    sentences = split_sentences(text, 0, len(text))
    if not sentences:
        return []
    counts = embedder.count_tokens([text[start:end] for start, end in sentences])
    runs: list[str] = []
    first, tokens = sentences[0][0], 0
    for (start, end), count in zip(sentences, counts, strict=True):
        first = start if not tokens else first
        tokens += int(count)
        if tokens >= embedder.default_query_tokens:
            runs.append(text[first:end])
            tokens = 0
    return runs or [text.strip()]


def _derive(probes: Vectors, probe_documents: Positions, vectors: Vectors, rows: Positions) -> Calibration:
    """Measure how far the best cosines of the probes spread, and what cosine chance gives.

    A probe is compared with other documents only. ``rows`` has the position and the document of each chunk that counts.
    """
    best = np.full((len(probes), _BEST), -1.0)
    count, total = 0, 0.0
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        row, document = rows[start : start + _ROWS_AT_ONCE].T
        cosines = (probes @ vectors[row].T).astype(np.float64)
        others = probe_documents[:, None] != document
        found = np.concatenate([best, np.where(others, cosines, -1.0)], axis=1)
        best = np.partition(found, -_BEST, axis=1)[:, -_BEST:]
        count, total = count + int(others.sum()), total + float(cosines[others].sum())
    temperature = _round(max(float(best.std()), _LEAST_TEMPERATURE))
    return Calibration(
        temperature=temperature,
        keyword_weight=_round(min(1.0, _KEYWORDS_PER_TEMPERATURE * temperature)),
        min_similarity=round(total / count, _DIGITS),
        origin="documents",
        probes=len(probes),
    )


def _round(value: float) -> float:
    """Round to two significant digits, so that a changed document seldom changes the constant."""
    return float(f"{value:.{_DIGITS}g}")
