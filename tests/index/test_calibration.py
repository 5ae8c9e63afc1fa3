"""Constants of an embedding space, derived from documents without labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from backstory.index.calibration import (
    DEFAULT_CALIBRATION,
    LEAST_DOCUMENTS,
    MOST_PROBES,
    Calibration,
    calibrate,
    describe_calibration,
    find_threshold,
)
from backstory.models.embeddings.hashing import HashingEmbedder
from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import RAGSettings
from tests.recording_embedder import RecordingEmbedder

SUBJECTS = (
    "trains",
    "tomatoes",
    "lamps",
    "soup",
    "frost",
    "pianos",
    "maps",
    "bread",
    "wool",
    "tides",
    "goats",
)
VERBS = ("need", "spoil", "cost", "carry", "outlast", "replace", "resemble")


class ScalelessEmbedder(HashingEmbedder):
    """Knows no threshold of its own, as a model from a folder."""

    default_min_similarity = 0.0


EMBEDDER = ScalelessEmbedder()


def write_documents(count: int, *, uri: str = "posts/{}.md") -> tuple[pl.DataFrame, pl.DataFrame]:
    """Write documents of two chunks, in the columns that are read."""
    documents, chunks = [], []
    for place in range(count):
        first, second = SUBJECTS[place % 11], SUBJECTS[(3 * place + 1) % 11]
        documents.append((f"d{place}", "r1", uri.format(place), "ok"))
        for part in range(2):
            verb = VERBS[(place + part) % 7]
            text = (
                f"In year {place} all {first} {verb} the {second} of {place % 17} towns. Part {part} says so."
            )
            chunks.append((f"d{place}#c{part}", f"d{place}", "r1", text))
    return (
        pl.DataFrame(documents, schema=["document_id", "revision", "uri", "status"], orient="row"),
        pl.DataFrame(chunks, schema=["chunk_id", "document_id", "revision", "text"], orient="row"),
    )


def embed(texts: Sequence[str]) -> Vectors:
    return np.concatenate([EMBEDDER.embed([text], task="query") for text in texts])


def derive(
    documents: pl.DataFrame, chunks: pl.DataFrame, embedder: HashingEmbedder = EMBEDDER
) -> Calibration:
    return calibrate(embedder, documents, chunks, embed(chunks["text"].to_list()), embed)


def test_constants_are_derived_from_the_spread_of_the_documents() -> None:
    documents, chunks = write_documents(2 * MOST_PROBES)
    found = derive(documents, chunks)
    assert (found.origin, found.probes) == ("documents", MOST_PROBES)
    assert found.keyword_weight == pytest.approx(2.5 * found.temperature, rel=0.05)
    assert found.min_similarity is not None
    assert 0 < found.min_similarity < 1
    assert f"derived from the documents by {MOST_PROBES} probes" in describe_calibration(found)


def test_a_space_with_half_the_spread_gets_half_the_temperature() -> None:
    documents, chunks = write_documents(80)

    def squeeze(texts: Sequence[str]) -> Vectors:
        # A common direction with half of the length: every cosine is (1 + cosine) / 2, as in a narrow space.
        vectors = embed(texts)
        common = np.full((len(vectors), 1), np.sqrt(0.5), np.float32)
        return np.concatenate([vectors * np.float32(np.sqrt(0.5)), common], axis=1)

    wide = derive(documents, chunks)
    narrow = calibrate(EMBEDDER, documents, chunks, squeeze(chunks["text"].to_list()), squeeze)
    assert narrow.temperature == pytest.approx(wide.temperature / 2, rel=0.05)
    assert narrow.min_similarity == pytest.approx((1 + (wide.min_similarity or 0)) / 2, abs=0.01)


def test_the_order_of_rows_and_what_was_added_and_removed_again_change_nothing() -> None:
    documents, chunks = write_documents(70)
    shuffled = derive(documents.sample(fraction=1, shuffle=True, seed=1), chunks.reverse())
    assert shuffled == derive(documents, chunks)


def test_written_posts_do_not_count() -> None:
    documents, chunks = write_documents(70)
    more, their_chunks = write_documents(90, uri="../written/{}.md")
    posts = more.filter(pl.col("uri").str.contains(r"[78]\d\.md"))
    both = pl.concat([documents, posts])
    assert derive(
        both, pl.concat([chunks, their_chunks.join(posts, on="document_id", how="semi")])
    ) == derive(documents, chunks)


def test_with_too_few_documents_nothing_is_embedded_and_the_constants_are_those_of_the_shipped_model() -> (
    None
):
    documents, chunks = write_documents(LEAST_DOCUMENTS - 1)
    embedder = RecordingEmbedder()
    vectors = embed(chunks["text"].to_list())
    found = calibrate(
        embedder, documents, chunks, vectors, lambda probes: embedder.embed(probes, task="query")
    )
    assert not embedder.computed
    assert (found.temperature, found.keyword_weight) == (0.04, 0.1)
    assert "too few to calibrate" in describe_calibration(found)
    assert find_threshold(RAGSettings(), HashingEmbedder(), found) == 0.05


def test_a_threshold_of_the_settings_stands_before_that_of_a_model_and_that_before_a_derived_one() -> None:
    documents, chunks = write_documents(60)
    stated = derive(documents, chunks, HashingEmbedder())
    assert (stated.origin, stated.min_similarity) == ("documents", 0.05)
    assert find_threshold(RAGSettings(min_similarity=-1), HashingEmbedder(), stated) == -1
    assert find_threshold(RAGSettings(), HashingEmbedder(), stated) == 0.05


def test_documents_that_are_all_alike_still_give_a_temperature() -> None:
    documents, chunks = write_documents(60)
    alike = derive(documents, chunks.with_columns(text=pl.lit("Trains carry tomatoes.")))
    assert 0 < alike.temperature < DEFAULT_CALIBRATION.temperature
